/* run_rounds.h - one `forkgate run`: every selected backend, as many rounds as asked for, folded into one result.
 * Not the runner (gates/runner.h): it runs one backend once.
 * Idea: a round is never a second chance: every round's rows count, and one red row of one round is red.
 * Source: ours. Exercise: ctest -R cli.run */
#ifndef FORKGATE_RUN_ROUNDS_H
#define FORKGATE_RUN_ROUNDS_H

#include "gates/runner.h"
#include "tools/run_print.h"

struct run_rounds {
    struct runner_options options; /* the backend and jobs are set for each run */
    unsigned backends;             /* bit of enum backend_kind each; 0: those present on this machine */
    int jobs;                      /* 0: by backend */
    int repeat;                    /* 1 .. */
    struct run_print *print;       /* also the options' sink */
};

/* Runs and prints gate by gate. A selected device that cannot be had is one ERROR result, "backend.cuda". out: free with
 * runner_free, also after an error. */
enum status run_rounds(struct run_rounds *r, struct run_result *out, struct err *err);

#endif
