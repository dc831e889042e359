/* explain_report.h - an explanation as people read it at night, and as one CSV row per op.
 * Not a judgement: everything printed is in struct explain_result.
 * Idea: where, what, how big, so what, next command; growth as a table with a bar per decade.
 * Source: DESIGN of forkgate, section 6. Exercise: ctest -R cli.explain */
#ifndef FORKGATE_EXPLAIN_REPORT_H
#define FORKGATE_EXPLAIN_REPORT_H

#include <stdio.h>

#include "gates/explain.h"
#include "gates/table.h"

struct explain_view {
    const char *name[2]; /* what the user called A and B */
    int all_ops;         /* growth: every op instead of the residual stream */
    int width;           /* columns of the paragraph */
    const char *next;    /* the next command, or NULL */
};

/* The whole report, without the closing line. */
void explain_report_text(FILE *out, const struct explain_request *r, const struct explain_result *e,
                         const struct explain_view *view);

/* One row per op of every captured step: step, pos, layer, op, tensor, kernels, rows, cols, differing, max_abs, row_max,
 * max_ulp, worst element and its two values, the ULP histogram, and 1 in `first` for the op that moved first. */
enum status explain_report_csv(const char *path, enum table_eol eol, const struct explain_result *e,
                               struct err *err);

/* One row per step: pos, top-1, top-2 and margin of both sides, whether the rows of logits are equal, whether every op was,
 * and 1 in `fork` at the fork. */
enum status explain_margins_csv(const char *path, enum table_eol eol, const struct explain_result *e,
                                struct err *err);

#endif
