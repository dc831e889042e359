/* oracle_act.c - the codes that the contract of act_prepare and kv_append prescribes, from doubles.
 * Not an approximation: each f32 step of the contract is a double operation rounded once to f32, which is exact here
 * (a product of two f32 fits a double; a quotient rounded twice from 53 to 24 bits is still correctly rounded).
 * Source: ops.h. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

#define ACT_AMAX_MIN 0x1p-100
#define KV_AMAX_MIN  0x1p-14

/* Largest magnitude; NaN or infinity when any element is one. */
static double amax_of(const float *x, size_t n) {
    double amax = 0;
    for (size_t i = 0; i < n; i++) {
        double m = fabs((double)x[i]);
        if (!isfinite(m)) return (double)NAN;
        if (m > amax) amax = m;
    }
    return amax;
}

static double code_of(float x, double inverse) {
    return rint((double)(float)((double)x * inverse)) + 0.0; /* an integer code has no -0 */
}

static void quantise_block(const float *x, size_t n, double amax, double *codes, double *scale) {
    *scale = isfinite(amax) ? 0.0 : (double)NAN;
    for (size_t i = 0; i < n; i++) codes[i] = 0;
    if (!isfinite(amax) || amax < ACT_AMAX_MIN) return;
    *scale = (double)(float)(amax / 127.0);
    double inverse = (double)(float)(127.0 / amax);
    for (size_t i = 0; i < n; i++) codes[i] = code_of(x[i], inverse);
}

void oracle_act_q8(const float *x, size_t n, int block, double *codes, double *scales, double *sums,
                   uint64_t *unquantisable) {
    size_t size = (size_t)block;
    *unquantisable = 0;
    for (size_t at = 0; at < n; at += size) {
        double amax = amax_of(x + at, size);
        if (!isfinite(amax)) (*unquantisable)++;
        quantise_block(x + at, size, amax, codes + at, scales + at / size);
    }
    for (size_t g = 0; g < n / ACT_SUM_GROUP; g++) {
        sums[g] = 0;
        for (size_t i = 0; i < ACT_SUM_GROUP; i++) sums[g] += codes[g * ACT_SUM_GROUP + i];
    }
}

int oracle_kv_q8_block(const float *x, uint16_t *d, int8_t codes[QK_32]) {
    double amax = amax_of(x, QK_32);
    for (int i = 0; i < QK_32; i++) codes[i] = 0;
    *d = isfinite(amax) ? 0 : 0x7e00;
    if (!isfinite(amax)) return 1;
    if (amax < KV_AMAX_MIN) return 0;
    *d = oracle_f16_round((double)(float)(amax / 127.0));
    if (!isfinite(oracle_f16_value(*d))) {
        *d = 0x7e00;
        return 1;
    }
    double inverse = (double)(float)(127.0 / amax);
    for (int i = 0; i < QK_32; i++) codes[i] = (int8_t)code_of(x[i], inverse);
    return 0;
}
