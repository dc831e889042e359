/* compare.c - see compare.h. */
#include "gates/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum verdict compare_judge(double value, double bound) {
    if (!isfinite(value) || !isfinite(bound)) return VERDICT_FAIL;
    return value <= bound ? VERDICT_PASS : VERDICT_FAIL;
}

void compare_index_text(const struct compare_shape *shape, size_t i, char *out, size_t out_bytes) {
    int64_t index[COMPARE_DIMS] = {0};
    int64_t rest = (int64_t)i;
    for (int d = shape->n_dim - 1; d >= 0; d--) {
        int64_t size = shape->dim[d] > 0 ? shape->dim[d] : 1;
        index[d] = d == 0 ? rest : rest % size;
        rest /= size;
    }
    size_t used = 0;
    for (int d = 0; d < shape->n_dim && used < out_bytes; d++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%lld", d == 0 ? "[" : ", ",
                                 (long long)index[d]);
    if (used < out_bytes) (void)snprintf(out + used, out_bytes - used, "]");
}

static size_t shape_count(const struct compare_shape *s) {
    if (s->n_dim < 1 || s->n_dim > COMPARE_DIMS) return 0;
    size_t n = 1;
    for (int d = 0; d < s->n_dim; d++) n *= s->dim[d] > 0 ? (size_t)s->dim[d] : 0;
    return n;
}

static int shapes_equal(const struct compare_shape *a, const struct compare_shape *b) {
    if (a->n_dim != b->n_dim) return 0;
    for (int d = 0; d < a->n_dim; d++)
        if (a->dim[d] != b->dim[d]) return 0;
    return 1;
}

static struct compare_result refuse(struct compare_result r, const char *reason) {
    r.verdict = VERDICT_FAIL;
    r.headroom = (double)NAN;
    r.errors =
        metrics_errors(NULL, NULL, NULL, 0); /* all NaN: a caller that judges them again must fail too */
    (void)snprintf(r.reason, sizeof r.reason, "%s", reason);
    return r;
}

/* Is this pair of non-finite values covered by an opt-in? */
static int pair_allowed(double truth, float got, const struct compare_bounds *b) {
    if (isnan(truth) && isnan(got)) return b->nan_pairs;
    int same_inf = isinf(truth) && isinf(got) && (truth > 0) == (got > 0);
    return same_inf && b->inf_pairs;
}

/* The first element that no opt-in covers, or METRICS_NONE. */
static size_t first_refused(const double *truth, const float *got, size_t n, const struct compare_bounds *b) {
    for (size_t i = 0; i < n; i++) {
        if (isfinite(truth[i]) && isfinite(got[i])) continue;
        if (!pair_allowed(truth[i], got[i], b)) return i;
    }
    return METRICS_NONE;
}

struct compare_result compare_values(const double *truth, const double *scale,
                                     const struct compare_shape *shape_truth, const float *got,
                                     const struct compare_shape *shape_got,
                                     const struct compare_bounds *bounds) {
    struct compare_result r = {0};
    r.verdict = VERDICT_FAIL;
    size_t n = shape_count(shape_got);
    if (!shapes_equal(shape_truth, shape_got)) return refuse(r, "shapes differ");
    if (n == 0) return refuse(r, "empty: nothing was compared");
    r.got = metrics_census(got, n);
    char at[64], text[200];
    size_t bad = first_refused(truth, got, n, bounds);
    if (bad != METRICS_NONE) {
        compare_index_text(shape_got, bad, at, sizeof at);
        (void)snprintf(text, sizeof text, "not finite at %s: got %.9g want %.9g (%zu NaN, %zu Inf)", at,
                       (double)got[bad], truth[bad], r.got.n_nan, r.got.n_pos_inf + r.got.n_neg_inf);
        return refuse(r, text);
    }
    r.errors = metrics_errors_finite(truth, scale, got, n); /* what is not finite is allowed: judged above */
    int pass = compare_judge(r.errors.max_scaled, bounds->pointwise) == VERDICT_PASS &&
               compare_judge(r.errors.rms_scaled, bounds->global) == VERDICT_PASS;
    r.verdict = pass ? VERDICT_PASS : VERDICT_FAIL;
    double point = bounds->pointwise > 0 ? r.errors.max_scaled / bounds->pointwise : r.errors.max_scaled;
    double global = bounds->global > 0 ? r.errors.rms_scaled / bounds->global : r.errors.rms_scaled;
    r.headroom = point > global ? point : global;
    compare_index_text(shape_got, r.errors.worst, at, sizeof at);
    (void)snprintf(r.reason, sizeof r.reason, "worst %s got %.9g want %.9g", at, (double)got[r.errors.worst],
                   truth[r.errors.worst]);
    return r;
}

enum status compare_self_test(struct err *err) {
    volatile float zero = 0.0f, tiny = 1e-40f, a = 1.0f + 0x1p-12f;
    volatile float nan_value = zero / zero;
    if (!isnan(nan_value) || nan_value <= 1.0f)
        return err_set(err, STATUS_INVALID, "self-test: this build does not see NaN");
    if (!(tiny * 0.5f > 0.0f))
        return err_set(err, STATUS_INVALID, "self-test: this build flushes subnormals to zero");
    /* a*a = 1 + 2^-11 + 2^-24: the square rounds to 1 + 2^-11, a fused step would keep the 2^-24 */
    volatile float difference = a * a - (1.0f + 0x1p-11f);
    if (difference > 0.0f || difference < 0.0f)
        return err_set(err, STATUS_INVALID, "self-test: this build fuses a product with a sum");
    return STATUS_OK;
}
