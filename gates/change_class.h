/* change_class.h - what the class of a change does to the verdicts of a run.
 * Not a tolerance: class fa moves one question, "are these the golden bits?", from tier 3 to tier 4; everything else that
 * tier 3 asks (repeats, chunks, batches, the cache, finite rows) is asked of every change.
 * Source: DESIGN of forkgate, section 5 "Change classes". Exercise: ctest -R unit.change_class */
#ifndef FORKGATE_CHANGE_CLASS_H
#define FORKGATE_CHANGE_CLASS_H

#include "gates/runner.h"

/* Class fa: a FAIL of a golden comparison that is a fork or other bits (not an INVALID stream, not another arm) becomes SKIP:
 * its numbers stay in the row, its note says that tier 4 judges it. Returns how many rows were moved. */
size_t change_class_apply(struct gate_result *r);

/* Is this row one of them? A gate with one is a SKIP where it would be a PASS. */
int change_class_moved(const struct evidence *row);

#endif
