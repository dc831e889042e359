/* plain_tc.c - one tensor-core step in plain 64-bit integers, written again from the published rules.
 * Not the engine's model (tcmodel.c): no SIMD, no packing, no special values; the two are compared by gates and tests.
 * Idea: every product and C becomes an integer in units of 2^(top - fraction bits), truncated towards zero; their sum is
 * exact; the result is truncated to f32.
 * Source: MMA-Sim (arXiv 2511.10909); Khattak & Mikaitis (arXiv 2512.07004). Exercise: ctest -R unit.oracle */
#include <math.h>
#include <string.h>

#include "gates/oracle/oracle.h"

struct term {
    int64_t significand; /* signed */
    int exponent;        /* value = significand * 2^(exponent - point) */
    int point;           /* fraction bits of the significand: 20 for a product, 23 for C */
};

#define EXPONENT_FLOOR     (-133)
#define FRACTION_BITS_SM90 25 /* own constants: geometry.h is part of the subject */
#define FRACTION_BITS_SM80 24

static struct term product_of(uint16_t a, uint16_t b) {
    int ea = (a >> 10) & 31, eb = (b >> 10) & 31;
    int64_t sa = (a & 1023) | (ea != 0 ? 1024 : 0), sb = (b & 1023) | (eb != 0 ? 1024 : 0);
    struct term t = {sa * sb, (ea != 0 ? ea : 1) - 15 + (eb != 0 ? eb : 1) - 15, 20};
    if (((a ^ b) & 0x8000) != 0) t.significand = -t.significand;
    return t;
}

static struct term term_of(float c) {
    uint32_t u;
    memcpy(&u, &c, sizeof u);
    int e = (int)((u >> 23) & 255);
    struct term t = {(int64_t)(u & 0x7fffff) | (e != 0 ? 0x800000 : 0), (e != 0 ? e : 1) - 127, 23};
    if ((u >> 31) != 0) t.significand = -t.significand;
    return t;
}

/* significand in units of 2^(top - bits), towards zero. */
static int64_t align(const struct term *t, int top, int bits) {
    int64_t magnitude = t->significand < 0 ? -t->significand : t->significand;
    if (magnitude == 0) return 0; /* a zero does not set the top exponent, so its own may lie far above */
    int shift = t->exponent - top + bits - t->point;
    if (shift >= 0)
        magnitude <<= shift; /* at most 25 - 20 places: the exponent never exceeds top */
    else
        magnitude = -shift > 62 ? 0 : magnitude >> -shift;
    return t->significand < 0 ? -magnitude : magnitude;
}

/* sum * 2^scale towards zero, to f32 (subnormals kept). */
static float truncate_to_float(int64_t sum, int scale) {
    double x = ldexp((double)sum, scale); /* exact: the sum has at most 31 bits */
    int e;
    (void)frexp(x, &e);
    int lowest = e - 24 > -149 ? e - 24 : -149;
    return (float)ldexp(trunc(ldexp(x, -lowest)) + 0.0, lowest); /* cut to nothing is +0, never -0 */
}

static float block_sum(const struct term *terms, int n, int bits) {
    int top = EXPONENT_FLOOR;
    for (int i = 0; i < n; i++)
        if (terms[i].significand != 0 && terms[i].exponent > top) top = terms[i].exponent;
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += align(&terms[i], top, bits);
    return truncate_to_float(sum, top - bits);
}

float plain_tc_step(enum arch arch, const uint16_t a[TC_K], const uint16_t b[TC_K], float c) {
    int block = arch == ARCH_SM80 ? TC_K / 2 : TC_K;
    int bits = arch == ARCH_SM80 ? FRACTION_BITS_SM80 : FRACTION_BITS_SM90;
    for (int at = 0; at < TC_K; at += block) {
        struct term terms[TC_K + 1];
        for (int i = 0; i < block; i++) terms[i] = product_of(a[at + i], b[at + i]);
        terms[block] = term_of(c);
        c = block_sum(terms, block + 1, bits);
    }
    return c;
}

float plain_tc_dot(enum arch arch, const uint16_t *a, const uint16_t *b, int64_t b_stride, int64_t k,
                   float c) {
    for (int64_t at = 0; at < k; at += TC_K) {
        uint16_t wa[TC_K] = {0}, wb[TC_K] = {0};
        for (int64_t i = 0; i < TC_K && at + i < k; i++) {
            wa[i] = a[at + i];
            wb[i] = b[(at + i) * b_stride];
        }
        c = plain_tc_step(arch, wa, wb, c);
    }
    return c;
}
