/* metrics.h - numbers about a result: census first, then how far it is from the truth.
 * Not a verdict: compare.h judges; a metric of a result with NaN in it is NaN, never small.
 * Idea: every error is also given in units of a scale that the oracle supplies per element, so one bound serves
 * every magnitude; the pointwise metric names its worst element, the global one cannot be diluted by dead rows.
 * Source: the census order of ggml's test-backend-ops; ours otherwise. Exercise: ctest -R unit.metrics */
#ifndef FORKGATE_METRICS_H
#define FORKGATE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#define METRICS_NONE SIZE_MAX /* "no such element" */

struct census {
    size_t n, n_nan, n_pos_inf, n_neg_inf, n_subnormal, n_zero;
    size_t first_bad; /* index of the first NaN or infinity; METRICS_NONE when clean */
};

/* Counts classes by bit pattern (works under any floating-point mode). */
struct census metrics_census(const float *x, size_t n);

/* Representable f32 steps between a and b; +0 and -0 are the same value. UINT32_MAX when either is NaN. */
uint32_t metrics_ulps(float a, float b);

/* Spacing of the values of a dtype with `mantissa_bits` stored bits (f32 23, f16 10, bf16 7) at |x|; min_exponent is the
 * smallest normal exponent (-126, -14, -126). NaN for a non-finite x. */
double metrics_ulp_size(double x, int mantissa_bits, int min_exponent);

struct errors {
    double max_abs;    /* max |got - truth| */
    double max_scaled; /* max |got - truth| / scale, the pointwise metric */
    double rms_scaled; /* sqrt(mean (|got - truth| / scale)^2), a global metric */
    double nmse;       /* sum (got - truth)^2 / sum truth^2; 0 / 0 counts as 0 */
    uint32_t max_ulps; /* worst |got - (float)truth| in f32 steps */
    size_t worst; /* element of max_scaled (of the first NaN when there is one); METRICS_NONE when n == 0 */
};

/* scale: [n] positive, or NULL for 1. An element with scale 0 must equal the truth: otherwise its scaled error is
 * infinite. Any NaN in got or truth makes every metric NaN. n == 0 gives NaN. */
struct errors metrics_errors(const double *truth, const double *scale, const float *got, size_t n);

/* The same with the error of an element that is not finite on a side taken as zero: for pairs that were judged already. */
struct errors metrics_errors_finite(const double *truth, const double *scale, const float *got, size_t n);

/* Elements whose bits differ (NaN is one class) and the first of them. */
size_t metrics_bits_differ(const float *a, const float *b, size_t n, size_t *first);

#endif
