/* oracle_value.c - small float formats and quantised blocks as doubles, from their definitions.
 * Not the engine's dequantisation: written again from the format descriptions.
 * Source: IEEE 754 binary16; the ggml block layouts (dtype.h). Exercise: ctest -R unit.oracle */
#include <math.h>
#include <string.h>

#include "gates/oracle/oracle.h"

double oracle_f16_value(uint16_t bits) {
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

uint16_t oracle_f16_round(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return 0x7e00;
    double m = fabs(x);
    int e;
    (void)frexp(m, &e);
    int exponent = m > 0 && e - 1 > -14 ? e - 1 : -14;
    double steps = nearbyint(ldexp(m, 10 - exponent)); /* units of 2^(exponent-10), nearest even */
    if (isinf(m) || ldexp(steps, exponent - 10) >= 65536.0) return (uint16_t)(sign | 0x7c00);
    int units = (int)steps;
    if (units == 2048) { /* rounded up to the next binade */
        units = 1024;
        exponent++;
    }
    if (units < 1024) return (uint16_t)(sign | units);
    return (uint16_t)(sign | (exponent + 15) << 10 | (units - 1024));
}

double oracle_bf16_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

static void put(double value, double size, size_t i, double *out, double *magnitude) {
    out[i] = value;
    if (magnitude != NULL) magnitude[i] = size;
}

/* scale * (code + offset) + min: the four-bit and five-bit types of 32. */
static void dequant_32(enum dtype t, const uint8_t *p, double *v, double *mag) {
    int has_min = t == DTYPE_Q4_1 || t == DTYPE_Q5_1, five = t == DTYPE_Q5_0 || t == DTYPE_Q5_1;
    uint16_t d, m = 0;
    memcpy(&d, p, 2);
    p += 2;
    if (has_min) {
        memcpy(&m, p, 2);
        p += 2;
    }
    uint32_t high = 0;
    if (five) {
        memcpy(&high, p, 4);
        p += 4;
    }
    int offset = has_min ? 0 : five ? -16 : -8;
    for (size_t i = 0; i < QK_32; i++) {
        int code = i < 16 ? p[i] & 15 : p[i - 16] >> 4;
        if (five) code |= (int)((high >> i) & 1) << 4;
        double part = oracle_f16_value(d) * (code + offset), min = oracle_f16_value(m);
        put(part + min, fabs(part) + fabs(min), i, v, mag);
    }
}

static void dequant_q8_0(const uint8_t *p, double *v, double *mag) {
    struct block_q8_0 b;
    memcpy(&b, p, sizeof b);
    for (size_t i = 0; i < QK_32; i++) {
        double x = oracle_f16_value(b.d) * b.qs[i];
        put(x, fabs(x), i, v, mag);
    }
}

static int k_scale(const uint8_t *s, int j) {
    return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
}

static int k_min(const uint8_t *s, int j) {
    return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
}

static void dequant_q45_k(const uint8_t *p, int five, double *v, double *mag) {
    uint16_t d, dmin;
    memcpy(&d, p, 2);
    memcpy(&dmin, p + 2, 2);
    const uint8_t *scales = p + 4, *high = p + 16, *q = five ? p + 48 : p + 16;
    for (size_t i = 0; i < QK_256; i++) {
        size_t group = i / 64, lane = i % 32;
        int j = (int)(i / 32);
        int code = (j & 1) != 0 ? q[group * 32 + lane] >> 4 : q[group * 32 + lane] & 15;
        if (five) code |= ((high[lane] >> j) & 1) << 4;
        double part = oracle_f16_value(d) * k_scale(scales, j) * code;
        double min = oracle_f16_value(dmin) * k_min(scales, j);
        put(part - min, fabs(part) + fabs(min), i, v, mag);
    }
}

static void dequant_q6_k(const uint8_t *p, double *v, double *mag) {
    struct block_q6_K b;
    memcpy(&b, p, sizeof b);
    for (size_t i = 0; i < QK_256; i++) {
        size_t half = i / 128, r = i % 128, quarter = r / 32, lane = r % 32;
        uint8_t low = b.ql[half * 64 + (quarter & 1) * 32 + lane];
        int code = quarter < 2 ? low & 15 : low >> 4;
        code |= ((b.qh[half * 32 + lane] >> (2 * quarter)) & 3) << 4;
        double x = oracle_f16_value(b.d) * b.scales[i / 16] * (code - 32);
        put(x, fabs(x), i, v, mag);
    }
}

static void dequant_float(enum dtype t, const uint8_t *p, double *v, double *mag) {
    uint16_t half;
    float single;
    memcpy(&half, p, sizeof half);
    double x = t == DTYPE_F16 ? oracle_f16_value(half) : oracle_bf16_value(half);
    if (t == DTYPE_F32) {
        memcpy(&single, p, sizeof single);
        x = (double)single;
    }
    put(x, fabs(x), 0, v, mag);
}

void oracle_dequant(enum dtype t, const void *src, size_t n, double *value, double *magnitude) {
    static const struct {
        size_t elements, bytes;
    } shape[] = {[DTYPE_F32] = {1, 4},      [DTYPE_F16] = {1, 2},      [DTYPE_Q4_0] = {32, 18},
                 [DTYPE_Q4_1] = {32, 20},   [DTYPE_Q5_0] = {32, 22},   [DTYPE_Q5_1] = {32, 24},
                 [DTYPE_Q8_0] = {32, 34},   [DTYPE_Q4_K] = {256, 144}, [DTYPE_Q5_K] = {256, 176},
                 [DTYPE_Q6_K] = {256, 210}, [DTYPE_BF16] = {1, 2}};
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i += shape[t].elements, p += shape[t].bytes) {
        double *mag = magnitude == NULL ? NULL : magnitude + i;
        if (t == DTYPE_Q8_0)
            dequant_q8_0(p, value + i, mag);
        else if (t == DTYPE_Q4_K || t == DTYPE_Q5_K)
            dequant_q45_k(p, t == DTYPE_Q5_K, value + i, mag);
        else if (t == DTYPE_Q6_K)
            dequant_q6_k(p, value + i, mag);
        else if (shape[t].elements == 1)
            dequant_float(t, p, value + i, mag);
        else
            dequant_32(t, p, value + i, mag);
    }
}
