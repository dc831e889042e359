/* budget.h - the bounds of golden/budgets.csv: numbers with their derivation, moved only by a reviewed diff.
 * Not written by any command: golden refresh never moves a bound.
 * Idea: a bound is looked up by (op, dtype, metric); a missing row is an error, never a default.
 * Source: ours. Exercise: ctest -R unit.budget */
#ifndef FORKGATE_BUDGET_H
#define FORKGATE_BUDGET_H

#include <stddef.h>

#include "engine/status.h"

struct budget_row {
    char op[32], dtype[16], metric[32];    /* dtype "*": every dtype without a row of its own */
    double bound;                          /* finite, >= 0 */
    char model[64], route[16], change[64]; /* for calibrated rows of the tolerance tier; empty for ops */
    char derivation[256], device[64], date[16];
};

struct budgets {
    struct budget_row *rows;
    size_t n;
};

/* Header: op,dtype,metric,bound,model,route,change,derivation,device,date. STATUS_FORMAT names record and field: wrong
 * field count, a bound that is no finite number >= 0, an empty derivation, two rows with one key. */
enum status budgets_load(const char *path, struct budgets *out, struct err *err);
void budgets_free(struct budgets *b);

/* The row for an op (model, route and change empty); NULL when there is none. */
const struct budget_row *budgets_find(const struct budgets *b, const char *op, const char *dtype,
                                      const char *metric);
/* Its bound, or STATUS_INVALID naming what is missing. */
enum status budgets_bound(const struct budgets *b, const char *op, const char *dtype, const char *metric,
                          double *bound, struct err *err);

/* The calibrated row for one model, route and change ("fa_tkv"), e.g. op "stream", metric "delta"; NULL when none. */
const struct budget_row *budgets_calibrated(const struct budgets *b, const char *op, const char *metric,
                                            const char *model, const char *route, const char *change);

#endif
