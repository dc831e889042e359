/* compare.h - one result against its truth, judged: shapes, then census, then a pointwise and a global metric.
 * Not a tolerance table: bounds come from budget.h and travel in.
 * Idea: a result passes only by `value <= bound` with both finite; NaN, empty arrays and unequal shapes cannot pass,
 * and two equal NaN do not agree unless the caller opts in by name.
 * Source: the comparator faults collected in the field (NaN passes `error > tolerance`). Exercise: ctest -R unit.compare */
#ifndef FORKGATE_COMPARE_H
#define FORKGATE_COMPARE_H

#include "gates/gate.h"
#include "gates/metrics.h"

#define COMPARE_DIMS 4

struct compare_shape {
    int n_dim;
    int64_t dim[COMPARE_DIMS];
};

struct compare_bounds {
    double pointwise; /* of max |got - truth| / scale */
    double global;    /* of rms (|got - truth| / scale) */
    int nan_pairs;    /* opt-in: NaN at the same index on both sides is equal */
    int inf_pairs;    /* opt-in: the same infinity at the same index on both sides is equal */
};

struct compare_result {
    enum verdict verdict; /* PASS or FAIL */
    struct census got;
    struct errors errors;
    double headroom;  /* worst of value / bound; NaN when nothing could be computed */
    char reason[256]; /* why it failed, or the worst element of a pass */
};

/* truth, scale: [product of shape_truth] (scale NULL: 1); got: [product of shape_got]. */
struct compare_result compare_values(const double *truth, const double *scale,
                                     const struct compare_shape *shape_truth, const float *got,
                                     const struct compare_shape *shape_got,
                                     const struct compare_bounds *bounds);

/* value <= bound, both finite; everything else is FAIL. */
enum verdict compare_judge(double value, double bound);

/* "[2, 17]" for element i of a shape; at least 64 bytes. */
void compare_index_text(const struct compare_shape *shape, size_t i, char *out, size_t out_bytes);

/* A start-up check of this very build: NaN is seen, a subnormal survives, products are not contracted. STATUS_INVALID
 * with the broken property when it does not hold. */
enum status compare_self_test(struct err *err);

#endif
