/* fmath.h - f16/bf16 conversions, exp2 and exp in f32 (double functions: fmath64.h, included): one code for every side.
 * Not libm: no errno, no rounding-mode support; MUFU and libm are not specified to the last bit, this code is.
 * Idea: only + - * / and explicit fma on IEEE types, so gcc, clang, nvcc, host and device give the same bits.
 * Source: Cody & Waite reduction, least-squares polynomials (ours). NaN results of exp are 0x7fc00000.
 * Exercise: ctest -R unit.fmath */
#ifndef FORKGATE_FMATH_H
#define FORKGATE_FMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define FM_FN static __host__ __device__ __forceinline__
#else
#define FM_FN static inline
#endif

/* ---- bits --------------------------------------------------------------------------------------------------- */
FM_FN uint32_t fm_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
FM_FN float fm_f32_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
FM_FN int fm_f32_is_nan(float x) {
    return (fm_f32_bits(x) & 0x7fffffffu) > 0x7f800000u;
}
FM_FN int fm_f32_is_finite(float x) {
    return (fm_f32_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* ---- f16 and bf16 (raw IEEE binary16 / bfloat16 bits) -------------------------------------------------------- */
/* Exact. Subnormals are kept; a NaN keeps its payload and becomes quiet (as VCVTPH2PS does). */
FM_FN float fm_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, m = h & 0x7fffu;
    if (m >= 0x7c00u)
        return fm_f32_from_bits(sign | 0x7f800000u | (m & 0x3ffu) << 13 | (m > 0x7c00u ? 0x400000u : 0u));
    /* the bits read as f32 are the value times 2^-112; the product is exact, also for subnormals */
    float x = fm_f32_from_bits(m << 13) * 0x1p112f;
    return fm_f32_from_bits(sign | fm_f32_bits(x));
}

/* Round to nearest even; |x| >= 65520 gives Inf; subnormals produced; NaN keeps the top of its payload, quiet. */
FM_FN uint16_t fm_f32_to_f16(float x) {
    uint32_t u = fm_f32_bits(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a >= 0x47800000u) /* 2^16 and up, Inf, NaN */
        return (uint16_t)(sign | (a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x3ffu) : 0x7c00u));
    if (a <
        0x38800000u) { /* below 2^-14: the ulp of [0.5, 1) is the f16 subnormal step, so the addition rounds */
        float f = fm_f32_from_bits(a) + 0.5f;
        return (uint16_t)(sign | (fm_f32_bits(f) - 0x3f000000u));
    }
    a += 0xfffu + (a >> 13 & 1u);
    return (uint16_t)(sign | (a - 0x38000000u) >> 13);
}

FM_FN float fm_bf16_to_f32(uint16_t b) {
    return fm_f32_from_bits((uint32_t)b << 16);
}

/* Round to nearest even; overflow gives Inf; NaN keeps the top of its payload, quiet. */
FM_FN uint16_t fm_f32_to_bf16(float x) {
    uint32_t u = fm_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* ---- f32 ---------------------------------------------------------------------------------------------------- */
/* Nearest integer (ties to even) of |x| < 2^22, by the rounding of an addition. */
FM_FN float fm_rintf(float x) {
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* 2^f - 1 = f * (C1 + f*(C2 + ..)) on [-0.5, 0.5], relative error 3.6e-9; vector code uses the same names. */
#define FM_EXP2_C1 0x1.62e430p-1f
#define FM_EXP2_C2 0x1.ebfbd8p-3f
#define FM_EXP2_C3 0x1.c6af78p-5f
#define FM_EXP2_C4 0x1.3b30b0p-7f
#define FM_EXP2_C5 0x1.5f0a66p-10f
#define FM_EXP2_C6 0x1.3f906cp-13f

/* 2^x, below 1 ULP. exp2(0) = 1; x < -126 gives +0 (also -Inf); x >= 128 gives +Inf; NaN gives NaN. */
FM_FN float fm_exp2f(float x) {
    if (fm_f32_is_nan(x)) return fm_f32_from_bits(0x7fc00000u);
    if (x < -126.0f) return 0.0f;
    if (x >= 128.0f) return fm_f32_from_bits(0x7f800000u);
    float n = fm_rintf(x), f = x - n; /* exact, |f| <= 0.5 */
    float q = fmaf(f, FM_EXP2_C6, FM_EXP2_C5);
    q = fmaf(f, q, FM_EXP2_C4);
    q = fmaf(f, q, FM_EXP2_C3);
    q = fmaf(f, q, FM_EXP2_C2);
    q = fmaf(f, q, FM_EXP2_C1);
    float p = fmaf(f, q, 1.0f);
    /* the result is a normal number for every x in range, so the exponent field takes n without a carry */
    return fm_f32_from_bits(fm_f32_bits(p) + ((uint32_t)(int32_t)n << 23));
}

/* e^x, below 1.5 ULP, subnormal results included. exp(0) = 1; x < -104 gives +0; x > 89 gives +Inf; NaN gives NaN. */
FM_FN float fm_expf(float x) {
    if (fm_f32_is_nan(x)) return fm_f32_from_bits(0x7fc00000u);
    if (x < -104.0f) return 0.0f;
    if (x > 89.0f) return fm_f32_from_bits(0x7f800000u);
    float n = fm_rintf(x * 0x1.715476p+0f);
    float r = fmaf(n, -0x1.62e430p-1f, x);
    r = fmaf(n, 0x1.05c610p-29f, r);
    float q = fmaf(r, 0x1.685168p-10f, 0x1.123bdap-7f);
    q = fmaf(r, q, 0x1.555b98p-5f);
    q = fmaf(r, q, 0x1.55548ep-3f);
    q = fmaf(r, q, 0x1.fffff8p-2f);
    float p = fmaf(r * r, q, r) + 1.0f;
    /* 2^n in two factors: the first product is exact, the second rounds once (subnormals, overflow) */
    int32_t k = (int32_t)n, half = k / 2;
    p = p * fm_f32_from_bits((uint32_t)(half + 127) << 23);
    return p * fm_f32_from_bits((uint32_t)(k - half + 127) << 23);
}

#include "fmath64.h"

#endif
