/* explain_measure.c - how far one op's row of B is from A's: count, size, ULP histogram (explain_parts.h).
 * Not a judgement.
 * Source: ours. Exercise: ctest -R unit.explain */
#include <math.h>
#include <string.h>

#include "gates/explain_parts.h"
#include "gates/metrics.h"

int explain_bits_equal(float x, float y) {
    size_t first = 0;
    return metrics_bits_differ(&x, &y, 1, &first) == 0;
}

const float *explain_values(const struct tape_capture *c, int i) {
    return c->values + c->ops.op[i].at;
}

static void note_worst(struct explain_delta *d, size_t at, float a, float b, double abs_error) {
    d->worst = at;
    d->a = a;
    d->b = b;
    d->max_abs = abs_error;
}

static void measure_element(struct explain_delta *d, size_t at, float a, float b) {
    d->hist.n[ulp_bucket_of(a, b)]++;
    if (isfinite(a) && fabs((double)a) > d->row_max) d->row_max = fabs((double)a);
    if (explain_bits_equal(a, b)) return;
    double e = fabs((double)a - (double)b);
    uint32_t ulps = metrics_ulps(a, b);
    if (d->differing == 0 || (!isnan(d->max_abs) && !(e <= d->max_abs))) note_worst(d, at, a, b, e);
    if (ulps > d->max_ulps) d->max_ulps = ulps;
    d->differing++;
}

void explain_measure_values(const float *a, const float *b, size_t n, struct explain_delta *out) {
    for (size_t c = 0; c < n; c++) measure_element(out, c, a[c], b[c]);
}

double explain_badness(const struct explain_delta *d) {
    if (d->differing == 0) return 0.0;
    double v = d->row_max > 0.0 ? d->max_abs / d->row_max : d->max_abs;
    return isnan(v) ? (double)INFINITY : v;
}

enum status explain_measure(const struct tape_capture *a, int i, const struct tape_capture *b, int j,
                            int step, struct explain_delta *out, struct err *err) {
    const struct tape_op *op = &a->ops.op[i], *other = &b->ops.op[j];
    memset(out, 0, sizeof *out);
    out->step = step;
    out->pos = a->pos;
    out->op = *op;
    memcpy(out->kernel_b, other->kernel, sizeof out->kernel_b);
    if (op->cols != other->cols)
        return err_set(err, STATUS_SHAPE, "layer %d %s: %lld columns on one side, %lld on the other",
                       op->layer, op->tensor, (long long)op->cols, (long long)other->cols);
    explain_measure_values(explain_values(a, i), explain_values(b, j), (size_t)op->cols, out);
    return STATUS_OK;
}
