/* metrics.c - see metrics.h. Classes are read from bits and every comparison is written so that NaN is the bad case. */
#include "gates/metrics.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static int is_nan_bits(uint32_t u) {
    return (u & 0x7fffffffu) > 0x7f800000u;
}

struct census metrics_census(const float *x, size_t n) {
    struct census c = {n, 0, 0, 0, 0, 0, METRICS_NONE};
    for (size_t i = 0; i < n; i++) {
        uint32_t u = bits_of(x[i]), magnitude = u & 0x7fffffffu;
        if (magnitude > 0x7f800000u) c.n_nan++;
        if (u == 0x7f800000u) c.n_pos_inf++;
        if (u == 0xff800000u) c.n_neg_inf++;
        if (magnitude == 0) c.n_zero++;
        if (magnitude != 0 && magnitude < 0x00800000u) c.n_subnormal++;
        if (magnitude >= 0x7f800000u && c.first_bad == METRICS_NONE) c.first_bad = i;
    }
    return c;
}

/* Orders all floats on one integer line, -0 and +0 on the same point. */
static int64_t line_position(uint32_t u) {
    int64_t magnitude = (int64_t)(u & 0x7fffffffu);
    return (u >> 31) != 0 ? -magnitude : magnitude;
}

uint32_t metrics_ulps(float a, float b) {
    uint32_t ua = bits_of(a), ub = bits_of(b);
    if (is_nan_bits(ua) || is_nan_bits(ub)) return UINT32_MAX;
    int64_t d = line_position(ua) - line_position(ub);
    return (uint32_t)(d < 0 ? -d : d);
}

double metrics_ulp_size(double x, int mantissa_bits, int min_exponent) {
    if (!isfinite(x)) return (double)NAN;
    int exponent = min_exponent;
    double m = fabs(x);
    if (m > 0) {
        int e;
        (void)frexp(m, &e); /* m = f * 2^e, f in [0.5, 1) */
        if (e - 1 > exponent) exponent = e - 1;
    }
    return ldexp(1.0, exponent - mantissa_bits);
}

static struct errors errors_invalid(size_t worst) {
    struct errors e = {(double)NAN, (double)NAN, (double)NAN, (double)NAN, UINT32_MAX, worst};
    return e;
}

static struct errors errors_over(const double *truth, const double *scale, const float *got, size_t n,
                                 int finite_only) {
    if (n == 0) return errors_invalid(METRICS_NONE);
    struct errors e = {0, 0, 0, 0, 0, 0};
    double sum_scaled = 0, sum_error = 0, sum_truth = 0;
    for (size_t i = 0; i < n; i++) {
        if (finite_only && !(isfinite(truth[i]) && isfinite(got[i]))) continue;
        double error = fabs((double)got[i] - truth[i]);
        if (isnan(error)) return errors_invalid(i); /* NaN on either side, or Inf against Inf */
        double unit = scale == NULL ? 1.0 : scale[i];
        double scaled = 0;
        if (error > 0) scaled = unit > 0 ? error / unit : (double)INFINITY;
        if (error > e.max_abs) e.max_abs = error;
        if (scaled > e.max_scaled) {
            e.max_scaled = scaled;
            e.worst = i;
        }
        uint32_t ulps = metrics_ulps(got[i], (float)truth[i]);
        if (ulps > e.max_ulps) e.max_ulps = ulps;
        sum_scaled += scaled * scaled;
        sum_error += error * error;
        sum_truth += truth[i] * truth[i];
    }
    e.rms_scaled = sqrt(sum_scaled / (double)n);
    e.nmse = sum_error > 0 ? sum_error / sum_truth : 0.0;
    return e;
}

struct errors metrics_errors(const double *truth, const double *scale, const float *got, size_t n) {
    return errors_over(truth, scale, got, n, 0);
}

struct errors metrics_errors_finite(const double *truth, const double *scale, const float *got, size_t n) {
    return errors_over(truth, scale, got, n, 1);
}

size_t metrics_bits_differ(const float *a, const float *b, size_t n, size_t *first) {
    size_t count = 0;
    *first = METRICS_NONE;
    for (size_t i = 0; i < n; i++) {
        uint32_t ua = bits_of(a[i]), ub = bits_of(b[i]);
        if (ua == ub || (is_nan_bits(ua) && is_nan_bits(ub))) continue;
        if (count++ == 0) *first = i;
    }
    return count;
}
