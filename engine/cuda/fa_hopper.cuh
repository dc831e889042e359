/* fa_hopper.cuh - what one warpgroup of fa_prefill_wgmma does with a span of keys: scores, softmax, P.V, fold, result.
 * Not the walk over spans (attention_hopper.cu). Compiled for sm_90a only.
 * Idea: d[4j + e] of a wgmma accumulator is an mma.sync one, so the lane orders of ops.h carry over unchanged.
 * Source: ours. Exercise: device_parity --op attention */
#ifndef FORKGATE_FA_HOPPER_CUH
#define FORKGATE_FA_HOPPER_CUH

#include "fa.cuh"
#include "hopper.cuh"
#include "tensor_map.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* 2^x for x <= 0, or NaN: fm_exp2f without its upper limit (scaling by 2^n is exact here: n >= -126). */
__device__ __forceinline__ float fa_exp2(float x) {
    float r = x + 0x1.8p23f, f = x - (r - 0x1.8p23f);
    float q = __fmaf_rn(f, FM_EXP2_C6, FM_EXP2_C5);
    q = __fmaf_rn(f, q, FM_EXP2_C4);
    q = __fmaf_rn(f, q, FM_EXP2_C3);
    q = __fmaf_rn(f, q, FM_EXP2_C2);
    q = __fmaf_rn(f, q, FM_EXP2_C1);
    float p = __fmaf_rn(f, q, 1.0f) * __uint_as_float((__float_as_uint(r) << 23) + 0x3f800000u);
    return x < -126.0f ? 0.0f : p;
}

/* What a thread of a warpgroup holds: rows g and g + 8 of its warp's 16. */
template <int HD> struct fa_wg {
    uint32_t q[HD / TC_K][4];
    float o[HD / 2], A[HD / 2]; /* the current chunk; the chunks folded so far */
    float m[2], l[2], M[2], L[2];

    __device__ __forceinline__ void start_chunk() {
        m[0] = m[1] = FA_MASKED;
        l[0] = l[1] = 0.0f;
#pragma unroll
        for (int i = 0; i < HD / 2; i++) o[i] = 0.0f;
    }
};

/* Q fragments of rows row and row + 8 (NULL: no such row). */
template <int HD>
__device__ __forceinline__ void fa_wg_query(fa_wg<HD> &r, const float *low, const float *high, int head_dim,
                                            unsigned long long *overflow) {
    unsigned over = 0;
    int q = threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < HD / TC_K; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *row = i % 2 == 0 ? low : high;
            int c = k * TC_K + i / 2 * 8 + 2 * q;
            float2 x = make_float2(0.0f, 0.0f);
            if (row != NULL && c < head_dim) x = *(const float2 *)(const void *)(row + c);
            r.q[k][i] = f16_pair(x.x, x.y);
            over +=
                f16_overflows((uint16_t)(r.q[k][i] & 0xffff)) + f16_overflows((uint16_t)(r.q[k][i] >> 16));
        }
    warp_count(over, overflow);
}

/* S = Q . K^T of a span, left in flight. */
template <int HD>
__device__ __forceinline__ void fa_wg_scores(float (&s)[FA_HOPPER_SPAN / 2], const fa_wg<HD> &r,
                                             uint32_t k_at) {
#pragma unroll
    for (int i = 0; i < FA_HOPPER_SPAN / 2; i++) s[i] = 0.0f;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < HD / TC_K; k++) {
        uint32_t panel = k_at + k * TC_K / TENSOR_BOX_X * FA_HOPPER_SPAN * TENSOR_BOX_X * 2;
        wgmma_registers<0>(s, r.q[k], wgmma_rows(panel) + k * TC_K % TENSOR_BOX_X * 2 / 16);
    }
    wgmma_commit();
}

/* t = S * c; where the span crosses a row's last key, what is beyond is masked. */
__device__ __forceinline__ void fa_wg_mask(float (&s)[FA_HOPPER_SPAN / 2], float c, int key0, int last_low) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < FA_HOPPER_SPAN / 2; i++) s[i] = s[i] * c;
    if (__all_sync(WARP_ALL, key0 + FA_HOPPER_SPAN - 1 <= last_low)) return;
#pragma unroll
    for (int i = 0; i < FA_HOPPER_SPAN / 2; i++) {
        int key = key0 + i / 4 * 8 + 2 * q + i % 2;
        if (key > last_low + i % 4 / 2 * 8) s[i] = FA_MASKED;
    }
}

/* Softmax of tile T of the span for row half h: p in place, l and m updated; returns the factor of O. */
template <int HD, int TKV, int T>
__device__ __forceinline__ float fa_wg_softmax(fa_wg<HD> &r, float (&s)[FA_HOPPER_SPAN / 2], int h) {
    constexpr int FIRST = T * TKV / 2;
    float mn = r.m[h], sum = 0.0f;
#pragma unroll
    for (int j = 0; j < TKV / 8; j++)
        mn = fa_max(fa_max(mn, s[FIRST + 4 * j + 2 * h]), s[FIRST + 4 * j + 2 * h + 1]);
    mn = fa_max(mn, __shfl_xor_sync(WARP_ALL, mn, 1));
    mn = fa_max(mn, __shfl_xor_sync(WARP_ALL, mn, 2));
    float shift = mn == FA_MASKED && !FAULT_TOLD(FA_MASKED_TILE)
                      ? 0.0f
                      : mn; /* nothing seen yet: every t is -inf and every p zero */
#pragma unroll
    for (int j = 0; j < TKV / 8; j++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) {
            float p = fa_exp2(s[FIRST + 4 * j + e] - shift);
            s[FIRST + 4 * j + e] = p;
            sum = sum + p;
        }
    sum = sum + __shfl_xor_sync(WARP_ALL, sum, 1);
    sum = sum + __shfl_xor_sync(WARP_ALL, sum, 2);
    float alpha = mn == FA_MASKED ? 1.0f : fa_exp2(r.m[h] - mn);
    r.l[h] = __fmaf_rn(r.l[h], alpha, sum);
    r.m[h] = mn;
    return alpha;
}

template <int HD> __device__ __forceinline__ void fa_wg_rescale(fa_wg<HD> &r, float low, float high) {
    if (__all_sync(WARP_ALL, low == 1.0f && high == 1.0f)) return; /* x * 1 is x */
#pragma unroll
    for (int i = 0; i < HD / 2; i++) r.o[i] = r.o[i] * (i % 4 < 2 ? low : high);
}

/* O = tc chain over tile T's keys, A = f16(P); left in flight. */
template <int HD, int TKV, int T>
__device__ __forceinline__ void fa_wg_weigh(fa_wg<HD> &r, const float (&p)[FA_HOPPER_SPAN / 2],
                                            uint32_t v_at) {
    uint32_t a[TKV / TC_K][4];
#pragma unroll
    for (int k = 0; k < TKV / TC_K; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = T * TKV / 2 + k * 8 + i * 2;
            a[k][i] = f16_pair(p[at], p[at + 1]);
        }
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TKV / TC_K; k++) {
        uint32_t key = v_at + (T * TKV + k * TC_K) * TENSOR_BOX_X * 2;
        if (FAULT_TOLD(FA_MAJOR)) /* as K: keys along the row */
            wgmma_registers<0>(r.o, a[k], wgmma_rows(v_at) + (T * TKV + k * TC_K) * 2 / 16);
        else
            wgmma_registers<1>(r.o, a[k], wgmma_columns(key, FA_HOPPER_SPAN * TENSOR_BOX_X * 2));
    }
    wgmma_commit();
}

/* Tiles T .. of a span, one after the other; `tiles` of them are real. */
template <int HD, int TKV, int T>
__device__ __forceinline__ void fa_wg_tiles(fa_wg<HD> &r, float (&s)[FA_HOPPER_SPAN / 2], uint32_t v_at,
                                            int tiles) {
    if constexpr (T * TKV < FA_HOPPER_SPAN) {
        if (T >= tiles) return;
        float low = fa_wg_softmax<HD, TKV, T>(r, s, 0), high = fa_wg_softmax<HD, TKV, T>(r, s, 1);
        wgmma_wait<0>(); /* the tile before is in O */
        fa_wg_rescale(r, low, high);
        fa_wg_weigh<HD, TKV, T>(r, s, v_at);
        fa_wg_tiles<HD, TKV, T + 1>(r, s, v_at, tiles);
    }
}

template <int HD> __device__ __forceinline__ void fa_wg_fold(fa_wg<HD> &r) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        fa_fold f = fa_fold_of(r.M[h], r.m[h]);
        r.L[h] = fa_fold_value(f, r.L[h], r.l[h]);
        r.M[h] = f.keep ? r.M[h] : fa_max(r.M[h], r.m[h]);
#pragma unroll
        for (int i = 0; i < HD / 8; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int at = i * 4 + 2 * h + e;
                r.A[at] = fa_fold_value(f, r.A[at], r.o[at]);
            }
    }
}

template <int HD>
__device__ __forceinline__ void fa_wg_write(const fa_wg<HD> &r, float *row, int h, int head_dim) {
    if (row == NULL) return;
    float inverse = 1.0f / r.L[h];
#pragma unroll
    for (int i = 0; i < HD / 8; i++) {
        int c = i * 8 + threadIdx.x % 4 * 2;
        if (c < head_dim)
            *(float2 *)(void *)(row + c) =
                make_float2(r.A[4 * i + 2 * h] * inverse + 0.0f, r.A[4 * i + 2 * h + 1] * inverse + 0.0f);
    }
}

#endif
#endif
