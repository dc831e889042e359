/* dequant.cuh - one element of a tensor in the file's own layout, by the formulas of dtype.h.
 * Not a fast path: embed reads one row, weight upload runs once.
 * Idea: products and differences are single f32 operations in the order written in dtype.h; the build never fuses.
 * Source: dtype.h. Exercise: device_parity (embed, every type) */
#ifndef FORKGATE_DEQUANT_CUH
#define FORKGATE_DEQUANT_CUH

#include "../dtype.h"
#include "fault.cuh"
#include "mma.cuh"

__device__ __forceinline__ int dequant_fifth_bit(const uint8_t qh[4], int i) {
    if (FAULT_TOLD(MM_MISALIGN)) return (*(const uint32_t *)(const void *)qh >> i & 1) << 4;
    return (qh[i / 8] >> (i % 8) & 1) << 4;
}

__device__ __forceinline__ int dequant_nibble(const uint8_t qs[16], int i) {
    return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

/* dtype_scale_min_k: the first four sub-blocks in 6 bits each; the others share their upper bits. */
__device__ __forceinline__ void dequant_scale_min(const uint8_t s[12], int j, int *scale, int *min) {
    *scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
}

template <typename B> __device__ __forceinline__ float dequant_k45(const B *b, int i, int high) {
    int j = i / 32, l = i % 32, scale, min;
    dequant_scale_min(b->scales, j, &scale, &min);
    int byte = b->qs[32 * (j / 2) + l], q = (j % 2 == 0 ? byte & 15 : byte >> 4) | high;
    float ds = f16_value(b->d) * (float)scale, dm = f16_value(b->dmin) * (float)min;
    return ds * (float)q - dm;
}

__device__ __forceinline__ float dequant_q6_k(const struct block_q6_K *b, int i) {
    int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    int low = b->ql[64 * half + 32 * (quarter % 2) + l] >> (quarter / 2 * 4) & 15;
    int high = b->qh[32 * half + l] >> (2 * quarter) & 3;
    float ds = f16_value(b->d) * (float)b->scales[i / 16];
    return ds * (float)((low | high << 4) - 32);
}

/* Value of element i of a row of type T. */
template <int T> __device__ __forceinline__ float dequant_element(const void *row, int64_t i) {
    const int64_t b = i / QK_32;
    const int e = (int)(i % QK_32), e_k = (int)(i % QK_256);
    if (T == DTYPE_F32) return ((const float *)row)[i];
    if (T == DTYPE_F16) return f16_value(((const uint16_t *)row)[i]);
    if (T == DTYPE_BF16) return __uint_as_float((uint32_t)((const uint16_t *)row)[i] << 16);
    if (T == DTYPE_Q8_0) {
        const struct block_q8_0 *q = (const struct block_q8_0 *)row + b;
        return f16_value(q->d) * (float)q->qs[e];
    }
    if (T == DTYPE_Q4_0) {
        const struct block_q4_0 *q = (const struct block_q4_0 *)row + b;
        return f16_value(q->d) * (float)(dequant_nibble(q->qs, e) - 8);
    }
    if (T == DTYPE_Q4_1) {
        const struct block_q4_1 *q = (const struct block_q4_1 *)row + b;
        return f16_value(q->d) * (float)dequant_nibble(q->qs, e) + f16_value(q->m);
    }
    if (T == DTYPE_Q5_0) {
        const struct block_q5_0 *q = (const struct block_q5_0 *)row + b;
        return f16_value(q->d) * (float)((dequant_nibble(q->qs, e) | dequant_fifth_bit(q->qh, e)) - 16);
    }
    if (T == DTYPE_Q5_1) {
        const struct block_q5_1 *q = (const struct block_q5_1 *)row + b;
        return f16_value(q->d) * (float)(dequant_nibble(q->qs, e) | dequant_fifth_bit(q->qh, e)) +
               f16_value(q->m);
    }
    if (T == DTYPE_Q4_K) return dequant_k45((const struct block_q4_K *)row + i / QK_256, e_k, 0);
    if (T == DTYPE_Q5_K) {
        const struct block_q5_K *q = (const struct block_q5_K *)row + i / QK_256;
        return dequant_k45(q, e_k, (q->qh[e_k % 32] >> (e_k / 32) & 1) << 4);
    }
    return dequant_q6_k((const struct block_q6_K *)row + i / QK_256, e_k);
}

/* Calls f<type>() for a run-time type; f is a generic lambda of one std::integral_constant. */
template <typename F> static inline enum status dequant_dispatch(enum dtype t, F f) {
    switch (t) {
    case DTYPE_F32:
        return f(std::integral_constant<int, DTYPE_F32>());
    case DTYPE_F16:
        return f(std::integral_constant<int, DTYPE_F16>());
    case DTYPE_BF16:
        return f(std::integral_constant<int, DTYPE_BF16>());
    case DTYPE_Q8_0:
        return f(std::integral_constant<int, DTYPE_Q8_0>());
    case DTYPE_Q4_0:
        return f(std::integral_constant<int, DTYPE_Q4_0>());
    case DTYPE_Q4_1:
        return f(std::integral_constant<int, DTYPE_Q4_1>());
    case DTYPE_Q5_0:
        return f(std::integral_constant<int, DTYPE_Q5_0>());
    case DTYPE_Q5_1:
        return f(std::integral_constant<int, DTYPE_Q5_1>());
    case DTYPE_Q4_K:
        return f(std::integral_constant<int, DTYPE_Q4_K>());
    case DTYPE_Q5_K:
        return f(std::integral_constant<int, DTYPE_Q5_K>());
    case DTYPE_Q6_K:
        break;
    }
    return f(std::integral_constant<int, DTYPE_Q6_K>());
}

#endif
