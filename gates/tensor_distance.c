/* tensor_distance.c - how far two tensors of one shape and dtype are apart: see tensor_diff.h.
 * Not a verdict.
 * Idea: one pass in pieces, so that a tensor larger than memory is compared from its map; ULPs count in the tensors' own dtype,
 * because one step of bf16 is 65536 of f32.
 * Source: ours. Exercise: ctest -R unit.tensor_diff */
#include <math.h>
#include <string.h>

#include "gates/tensor_diff.h"

#define AT_ONCE 4096 /* elements: a multiple of every dtype's block */

struct sums {
    double change, of_a; /* of squares */
};

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Sixteen-bit code on the line of all values, both zeros on one point. */
static int32_t line_position(uint16_t code) {
    int32_t magnitude = code & 0x7fff;
    return code >> 15 != 0 ? -magnitude : magnitude;
}

static uint16_t code_at(const tensor_dump *t, uint64_t i) {
    uint16_t code;
    memcpy(&code, (const uint8_t *)tensor_dump_data(t) + 2 * i, sizeof code);
    return code;
}

static uint32_t ulps_of(const tensor_dump *a, const tensor_dump *b, uint64_t i, float x, float y) {
    uint32_t steps = metrics_ulps(x, y);
    enum dtype dtype = tensor_dump_shape(a).dtype;
    if (steps == UINT32_MAX) return steps;
    if (dtype == DTYPE_BF16) return steps >> 16; /* the upper half of f32's bits */
    if (dtype != DTYPE_F16) return steps;
    int32_t d = line_position(code_at(a, i)) - line_position(code_at(b, i));
    return (uint32_t)(d < 0 ? -d : d);
}

static enum ulp_bucket bucket_of(float x, float y, uint32_t ulps) {
    enum ulp_bucket signs = ulp_bucket_of(x, y);
    return signs == ULP_SIGN_NAN ? signs : ulp_bucket_of_steps(ulps);
}

/* An f16 subnormal is a normal f32. */
static size_t f16_subnormals(const tensor_dump *t, uint64_t first, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = code_at(t, first + i) & 0x7fffu;
        count += magnitude != 0 && magnitude < 0x0400u;
    }
    return count;
}

static void add_census(struct census *all, const tensor_dump *t, const float *x, uint64_t first, size_t n) {
    struct census c = metrics_census(x, n);
    if (all->first_bad == METRICS_NONE && c.first_bad != METRICS_NONE)
        all->first_bad = (size_t)first + c.first_bad;
    all->n += c.n;
    all->n_nan += c.n_nan;
    all->n_pos_inf += c.n_pos_inf;
    all->n_neg_inf += c.n_neg_inf;
    all->n_zero += c.n_zero;
    all->n_subnormal += tensor_dump_shape(t).dtype == DTYPE_F16 ? f16_subnormals(t, first, n) : c.n_subnormal;
}

static void add_element(struct tensor_distance *d, struct sums *s, const struct tensor_point *p) {
    double a = (double)p->a, change = fabs((double)p->b - a);
    int differs = bits_of(p->a) != bits_of(p->b) && !(isnan(p->a) && isnan(p->b));
    d->ulps.n[bucket_of(p->a, p->b, p->ulps)]++;
    if (differs && d->differing++ == 0) d->first = *p;
    if (!isfinite(p->a) || !isfinite(p->b)) return;
    s->of_a += a * a;
    s->change += change * change;
    if (fabs(a) > d->max_a) d->max_a = fabs(a);
    if (p->ulps > d->max_ulps) d->max_ulps = p->ulps;
    if (differs && (d->worst.at == UINT64_MAX || change > d->max_abs)) {
        d->worst = *p;
        d->max_abs = change;
    }
}

static double scaled(double x, double unit) {
    if (unit > 0.0) return x / unit;
    return x > 0.0 ? (double)INFINITY : 0.0;
}

void tensor_distance(const tensor_dump *a, const tensor_dump *b, struct tensor_distance *out) {
    float x[AT_ONCE], y[AT_ONCE];
    struct sums sums = {0.0, 0.0};
    memset(out, 0, sizeof *out);
    out->n = tensor_dump_elements(a);
    out->first.at = out->worst.at = UINT64_MAX;
    out->census[0].first_bad = out->census[1].first_bad = METRICS_NONE;
    for (uint64_t at = 0; at < out->n; at += AT_ONCE) {
        uint64_t n = out->n - at < AT_ONCE ? out->n - at : AT_ONCE;
        tensor_dump_values(a, at, n, x);
        tensor_dump_values(b, at, n, y);
        add_census(&out->census[0], a, x, at, (size_t)n);
        add_census(&out->census[1], b, y, at, (size_t)n);
        for (uint64_t i = 0; i < n; i++) {
            struct tensor_point p = {at + i, x[i], y[i], ulps_of(a, b, at + i, x[i], y[i])};
            add_element(out, &sums, &p);
        }
    }
    out->rms = sqrt(sums.change / (double)out->n);
    out->max_scaled = scaled(out->max_abs, out->max_a);
    out->rms_scaled = scaled(out->rms, out->max_a);
    out->nmse = scaled(sums.change, sums.of_a);
}
