/* again.h - the A/A arm of the gates whose other side is a recording or a formula: the shortest case once more, against itself.
 * Not the tolerance package's (tolerance_again.c). Idea: an engine that does not repeat itself was not judged by one run.
 * Source: DESIGN of forkgate, section 5 "A/A". Exercise: ctest -R unit.again */
#ifndef FORKGATE_AGAIN_H
#define FORKGATE_AGAIN_H

#include "gates/model/streams.h"

/* Adds n values to a chain of hashes, which starts as zeros. */
void again_add(struct hash128 *chain, const float *values, size_t n);

/* Row "a/a", exact; INCONCLUSIVE where the two chains differ, or where one is empty. a: the arm with the engine of the
 * second run. */
void again_row(const struct stream_arm *a, const char *test_case, const struct hash128 *first,
               const struct hash128 *second);

#endif
