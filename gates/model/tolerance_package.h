/* tolerance_package.h - tier 4 as one run: base, controls, candidate, contrasts, plants; every judgement an evidence row.
 * Not the judgement itself (gates/tolerance.h), and not a place for bounds: they are computed from the controls.
 * Idea: controls first. When a control is unusable the run stops INCONCLUSIVE, because nothing after it means anything.
 * Source: DESIGN of forkgate, section 5 "Tier 4". Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#ifndef FORKGATE_TOLERANCE_PACKAGE_H
#define FORKGATE_TOLERANCE_PACKAGE_H

#include "gates/gate.h"

#define TOLERANCE_TEXTS 4

/* The two rows that leave a run over few streams, or one in which nothing changed, INCONCLUSIVE and yet say that no check
 * failed: what a run with a planted fault is read by (gates/mutants_run.c). */
#define TOLERANCE_METRIC_RATE  "1-p"
#define TOLERANCE_METRIC_MOVED "rows_moved"

struct tolerance_plan {
    const char *gate;                   /* id, for the repro command */
    enum route route;                   /* both sides run on it */
    const char *battery;                /* CSV of prompts; NULL: fixtures/battery.csv */
    const char *texts[TOLERANCE_TEXTS]; /* files of fixtures/prompts scored as fixed text; NULL-terminated */
    int n_tokens;                       /* of every stream */
    int n_fresh;                        /* streams that the A/A arm decodes again in a fresh process */
};

enum status tolerance_package_run(const struct gate_context *ctx, const struct tolerance_plan *plan,
                                  struct err *err);

#endif
