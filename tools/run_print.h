/* run_print.h - what `forkgate run` shows: header, one line per gate, failures grouped last, one closing line.
 * Not a verdict and not a file format (report.h).
 * Idea: the last screen is enough: every failure says where, how much, so what and the command that repeats it.
 * Source: ours. Exercise: forkgate run */
#ifndef FORKGATE_RUN_PRINT_H
#define FORKGATE_RUN_PRINT_H

#include "gates/report_sum.h"
#include "gates/runner.h"

struct run_print {
    int colour;              /* of stdout */
    int verbose;             /* every row */
    unsigned backends;       /* selected: a bit of enum backend_kind each */
    int tier;                /* printed last; -1 before the first */
    int total[RUNNER_TIERS]; /* gates selected, by tier */
    int other_engine;        /* the candidate is that of --engine-cmd */
};

void run_print_header(const struct gate_context *ctx);
void run_print_list(const struct gate *const *registry, const int tiers[RUNNER_TIERS], const char *only);

/* runner_options.on_result and on_start; sink is a struct run_print. */
void run_print_result(void *sink, const struct gate_result *r);
void run_print_start(void *sink, const struct gate *g, size_t done, size_t total);

/* Failures, totals, the verdict of s (of the same rows) with the command for the whole one, and the last line alone. */
void run_print_end(const struct run_print *p, const struct run_result *r, const struct report_sum *s);

#endif
