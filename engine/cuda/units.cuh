/* units.cuh - the piece of a quantised row one thread decodes: a block of 32, or a quarter of a super-block of 256.
 * Not dequantisation: codes and integer scales stay integers, for dp4a and int8 MMA.
 * Idea: a unit is 16-byte pieces of the planes (planes.h) turned into int8 codes in groups of 16 elements, each group with
 * an integer scale and min; with P = sum scale * (codes . act) and M = sum min * (sum of act) every type's I and M of
 * ops.h follow: I = P - M where the offset is fixed (q4_0 8, q5_0 16, q6_K 32*scale), or I = P with M apart.
 * Source: block layouts of dtype.h. Exercise: device_parity --op matmul --route q8 */
#ifndef FORKGATE_UNITS_CUH
#define FORKGATE_UNITS_CUH

#include "fault.cuh"
#include "mma.cuh"
#include "planes.h"

template <int T> struct unit_of {
    static constexpr bool K = T == DTYPE_Q4_K || T == DTYPE_Q5_K || T == DTYPE_Q6_K;
    static constexpr int BLOCK = K ? QK_256 : QK_32;
    static constexpr int ELEMENTS = K ? 64 : 32;
    static constexpr int PER_BLOCK = BLOCK / ELEMENTS; /* units of a block: 4 or 1 */
    static constexpr int GROUPS = ELEMENTS / 16;
    /* the min term is a product of its own in the f32 chain */
    static constexpr bool MIN = T == DTYPE_Q4_1 || T == DTYPE_Q5_1 || T == DTYPE_Q4_K || T == DTYPE_Q5_K;

    uint32_t w[GROUPS][4]; /* codes as stored, offset not yet taken off; q8_0: signed */
    int scale[GROUPS];
    int min[GROUPS]; /* fixed offset times scale, or the type's own min; q4_1, q5_1: 1 */
};

/* Where group i of unit u starts inside its block. */
template <int T> __device__ __forceinline__ int unit_at(int u, int i) {
    if (T == DTYPE_Q6_K) return u / 2 * 128 + u % 2 * 16 + i * 32;
    return u * unit_of<T>::ELEMENTS + i * 16;
}

__device__ __forceinline__ uint4 load_16(const unsigned char *p) {
    return __ldg((const uint4 *)(const void *)p);
}
__device__ __forceinline__ uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Bits 0..3 of x, each to bit 4 of its byte. */
__device__ __forceinline__ uint32_t spread_fifth(uint32_t x) {
    return (x & 1u) << 4 | (x & 2u) << 11 | (x & 4u) << 18 | (x & 8u) << 25;
}

/* Sub-block scales and mins of q4_K and q5_K from their twelve packed bytes, four to a word. */
struct k_scales {
    uint32_t scale[2], min[2];
};
__device__ __forceinline__ k_scales unpack_k_scales(const uint4 &sc) { /* sc.x holds d and dmin */
    k_scales s;
    s.scale[0] = sc.y & 0x3f3f3f3fu;
    s.min[0] = sc.z & 0x3f3f3f3fu;
    s.scale[1] = (sc.w & 0x0f0f0f0fu) | (sc.y >> 2 & 0x30303030u);
    s.min[1] = (sc.w >> 4 & 0x0f0f0f0fu) | (sc.z >> 2 & 0x30303030u);
    return s;
}

template <int T>
__device__ __forceinline__ void unit_load_32(unit_of<T> &u, const weight_planes &p, int64_t b) {
    constexpr bool FIVE = T == DTYPE_Q5_0 || T == DTYPE_Q5_1;
    if constexpr (T == DTYPE_Q8_0) {
        uint4 lo = load_16(p.qs + b * 32), hi = load_16(p.qs + b * 32 + 16);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u.w[0][i] = word_of(lo, i);
            u.w[1][i] = word_of(hi, i);
        }
    } else {
        uint4 q = load_16(p.qs + b * 16);
        uint32_t high = FIVE ? __ldg((const uint32_t *)(const void *)(p.qh + b * 4)) : 0u;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u.w[0][i] = (word_of(q, i) & 0x0f0f0f0fu) | (FIVE ? spread_fifth(high >> 4 * i) : 0u);
            u.w[1][i] = (word_of(q, i) >> 4 & 0x0f0f0f0fu) | (FIVE ? spread_fifth(high >> (16 + 4 * i)) : 0u);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        u.scale[i] = 1;
        u.min[i] = T == DTYPE_Q8_0 ? 0 : T == DTYPE_Q4_0 ? 8 : T == DTYPE_Q5_0 ? 16 : 1;
    }
}

/* Quarter q: sub-blocks 2q (low nibbles) and 2q+1 (high nibbles) of the same 32 bytes. */
template <int T>
__device__ __forceinline__ void unit_load_k45(unit_of<T> &u, const weight_planes &p, int64_t b, int q) {
    uint4 half[2] = {load_16(p.qs + b * 128 + q * 32), load_16(p.qs + b * 128 + q * 32 + 16)};
    k_scales s = unpack_k_scales(load_16(p.sc + b * 16));
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint4 bits = T == DTYPE_Q5_K ? load_16(p.qh + b * 32 + h * 16) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t fifth = T == DTYPE_Q5_K ? word_of(bits, i) >> 2 * q : 0u;
            u.w[h][i] = (word_of(half[h], i) & 0x0f0f0f0fu) | (fifth & 0x01010101u) << 4;
            u.w[2 + h][i] = (word_of(half[h], i) >> 4 & 0x0f0f0f0fu) | (fifth >> 1 & 0x01010101u) << 4;
        }
    }
    uint32_t scale = s.scale[q / 2] >> (q % 2 * 16), min = s.min[q / 2] >> (q % 2 * 16);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u.scale[i] = scale >> (i / 2 * 8) & 255;
        u.min[i] = FAULT_TOLD(MM_MINTERM) ? 0 : min >> (i / 2 * 8) & 255;
    }
}

/* Quarter q: sixteen columns l of half q/2; the four groups are 32 elements apart. */
template <int T>
__device__ __forceinline__ void unit_load_q6(unit_of<T> &u, const weight_planes &p, int64_t b, int q) {
    int half = q / 2, l = q % 2 * 16;
    uint4 ql0 = load_16(p.qs + b * 128 + half * 64 + l), ql1 = load_16(p.qs + b * 128 + half * 64 + 32 + l);
    uint4 qh = load_16(p.qh + b * 64 + half * 32 + l);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t a = word_of(ql0, i), c = word_of(ql1, i), h = word_of(qh, i);
        u.w[0][i] = (a & 0x0f0f0f0fu) | (h & 0x03030303u) << 4;
        u.w[1][i] = (c & 0x0f0f0f0fu) | (h >> 2 & 0x03030303u) << 4;
        u.w[2][i] = (a >> 4 & 0x0f0f0f0fu) | (h >> 4 & 0x03030303u) << 4;
        u.w[3][i] = (c >> 4 & 0x0f0f0f0fu) | (h >> 6 & 0x03030303u) << 4;
    }
    uint2 sc = __ldg((const uint2 *)(const void *)(p.sc + b * 16 + half * 8));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int half_of_32 = FAULT_TOLD(MM_SCALE16) ? 0 : q % 2 * 8;
        u.scale[i] = (int)(signed char)((i < 2 ? sc.x : sc.y) >> (half_of_32 + i % 2 * 16) & 255);
        u.min[i] = 32 * u.scale[i];
    }
}

template <int T>
__device__ __forceinline__ void unit_load(unit_of<T> &u, const weight_planes &p, int64_t b, int q) {
    if constexpr (T == DTYPE_Q6_K)
        unit_load_q6<T>(u, p, b, q);
    else if constexpr (unit_of<T>::K)
        unit_load_k45<T>(u, p, b, q);
    else
        unit_load_32<T>(u, p, b);
}

/* d and m (dmin) of block b as f32; y is 0 where the type has none. */
template <int T> __device__ __forceinline__ float2 block_scales(const weight_planes &p, int64_t b) {
    if constexpr (T == DTYPE_Q6_K)
        return make_float2(f16_value(__ldg((const uint16_t *)(const void *)p.d + b)), 0.0f);
    if constexpr (!unit_of<T>::MIN)
        return make_float2(f16_value(__ldg((const uint16_t *)(const void *)p.sc + b)), 0.0f);
    constexpr int STRIDE = unit_of<T>::K ? 4 : 1; /* words of the plane per block */
    uint32_t dm = __ldg((const uint32_t *)(const void *)p.sc + b * STRIDE);
    return make_float2(f16_value((uint16_t)(dm & 0xffffu)), f16_value((uint16_t)(dm >> 16)));
}

/* Where row `row` of `rows` rows of codes starts. */
__device__ __forceinline__ int64_t codes_at(int64_t row, int64_t rows, int64_t k) {
    int64_t padded = (k + QK_256 - 1) / QK_256 * QK_256, last = (rows - 1) * k;
    if (FAULT_TOLD(MM_STRIDE)) return row * padded < last ? row * padded : last;
    return row * k;
}

/* What both kernels reach, for the launchers. */
#define UNIT_SITES(dtype, rows, k)                                                                           \
    FAULT_SITES(FAULT_BIT(MM_KHALF) | FAULT_BIT(MM_SKIP) | ((rows) > 1 ? FAULT_BIT(MM_TNT) : 0) |            \
                ((rows) > 1 && (k) % QK_256 != 0 ? FAULT_BIT(MM_STRIDE) : 0) |                               \
                ((dtype) == DTYPE_Q6_K ? FAULT_BIT(MM_SCALE16) : 0) |                                        \
                ((dtype) == DTYPE_Q4_K || (dtype) == DTYPE_Q5_K ? FAULT_BIT(MM_MINTERM) : 0))

/* Four codes minus a constant 0..128 each, exact per byte as int8. */
__device__ __forceinline__ uint32_t bytes_minus(uint32_t w, uint32_t each) {
    return ((w | 0x80808080u) - each * 0x01010101u) ^ 0x80808080u;
}

#endif
