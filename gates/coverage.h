/* coverage.h - which gate really ran which kernel, from the launch counters that every evidence row carries.
 * Not line coverage, and not a claim of a gate's: a kernel counts where its own counter moved.
 * Idea: the backend says which kernels it has (kernel_counts lists what it can launch on this device); a complete run in
 * which one of them never ran has judged nothing about it, and is not green.
 * Source: DESIGN of forkgate, section 5 "Coverage". Exercise: forkgate run -v */
#ifndef FORKGATE_COVERAGE_H
#define FORKGATE_COVERAGE_H

#include <stdio.h>

#include "gates/runner.h"

#define COVERAGE_GATES 64

struct coverage {
    int n_kernels, n_gates;
    char kernels[BACKEND_KERNELS_MAX][48];
    const struct gate *gates[COVERAGE_GATES];
    unsigned char ran[BACKEND_KERNELS_MAX][COVERAGE_GATES], skipped[COVERAGE_GATES];
};

/* Starts with the kernels to be covered. */
void coverage_start(struct coverage *c, const struct kernel_count *kernels, int n);
/* Adds a gate and the kernels its rows name; words that are no kernel of the list are ignored. */
void coverage_add(struct coverage *c, const struct gate_result *g);
/* How many gates ran kernel i; how many kernels no gate ran. */
int coverage_gates_of(const struct coverage *c, int kernel);
int coverage_missing(const struct coverage *c);

/* The kernels of the selected backend (opened for it: call it when the gates are through) and what the run's gates ran. */
enum status coverage_of_run(const struct run_result *r, const struct engine_config *config,
                            struct coverage *out, struct err *err);

/* Only a run of all of parity and identity (no --only, neither behind a red tier) can be asked for all kernels. Single gates
 * that were skipped do not excuse it: the verdict names them beside the kernels that never ran. */
int coverage_is_complete(const struct runner_options *o, const struct run_result *r);

/* Appends the result "coverage.kernels" to a complete run: one row, FAIL where a kernel never ran. STATUS_NOMEM. */
enum status coverage_judge(const struct coverage *c, const struct engine_config *config, struct run_result *r,
                           struct err *err);

/* One line, then the kernels that never ran; verbose: the map, one line per kernel with its gates. */
void coverage_print(FILE *out, const struct coverage *c, int verbose);

#endif
