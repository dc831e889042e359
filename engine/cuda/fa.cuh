/* fa.cuh - what prefill and decode attention share: arguments, staging of cache rows, the chunk fold.
 * Not a kernel. Idea: both kernels walk the same tiles of the same chunks with the same operations (ops.h), so the few
 * lines that carry bits are written once.
 * Source: Dao 2023 (FlashAttention-2); chunk fold ours. Exercise: device_parity --op attention */
#ifndef FORKGATE_FA_CUH
#define FORKGATE_FA_CUH

#include "../fmath.h"
#include "check.h"
#include "mma.cuh"
#include "reduce.cuh"

struct fa_args {
    kv_view kv;
    const float *q; /* [n_rows, n_head, head_dim] */
    float *o;       /* the same */
    const int32_t *pos;
    unsigned long long *overflow;
    float *ml, *part;                              /* decode: per-chunk results (context.h) */
    int64_t layer_at;                              /* elements before this layer in a cache plane */
    int n_rows, n_head, group, fa_chunk, n_chunks; /* n_chunks: of the whole context, the scratch's stride */
    float c;                                       /* log2(e) / sqrt(head_dim) */
};

#define FA_MASKED fm_f32_from_bits(0xff800000u) /* -inf */

/* x > y ? x : y; a NaN never wins (fmaxf returns the other operand) */
__device__ __forceinline__ float fa_max(float x, float y) {
    return fmaxf(x, y);
}

/* Rows [0, rows) of K or V of one KV head from absolute position key0 into shared memory as f16, rows of HD + FA_PAD;
 * zeros for positions >= n_keys and dims >= head_dim. f16 is copied asynchronously (the caller commits and waits). */
template <int HD>
__device__ __forceinline__ void fa_stage_f16(uint16_t *dst, const uint16_t *plane, int64_t stride, int key0,
                                             int rows, int n_keys, int head_dim) {
    uint32_t base = smem_address(dst);
    for (int i = threadIdx.x; i < rows * (HD / 8); i += blockDim.x * (FAULT_TOLD(FA_STRIDE) ? 2 : 1)) {
        int r = i / (HD / 8), c = i % (HD / 8) * 8, from = FAULT_TOLD(DEC_STRIPE) && r % 32 == 0 ? 0 : key0;
        int valid = key0 + r < n_keys && c < head_dim;
        copy_async_16(base + (r * (HD + FA_PAD) + c) * 2, valid ? plane + (from + r) * stride + c : plane,
                      valid);
    }
}

/* The same from q8_0 blocks: an element is f16((float)q * (float)d). stride in blocks. */
template <int HD>
__device__ __forceinline__ void fa_stage_q8(uint16_t *dst, const block_q8_0 *plane, int64_t stride, int key0,
                                            int rows, int n_keys, int head_dim) {
    for (int i = threadIdx.x; i < rows * (HD / 8); i += blockDim.x * (FAULT_TOLD(FA_STRIDE) ? 2 : 1)) {
        int r = i / (HD / 8), c = i % (HD / 8) * 8;
        uint32_t v[4] = {0, 0, 0, 0};
        if (key0 + r < n_keys && c < head_dim) {
            const block_q8_0 *b = plane + (key0 + r) * stride + (FAULT_TOLD(KV_Q8BASE) ? 0 : c / QK_32);
            const uint16_t *two =
                (const uint16_t *)(const void *)(b->qs + c % QK_32); /* blocks are 2-byte aligned */
            float d = f16_value(b->d);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint16_t w = two[j];
                v[j] = f16_pair((float)(int8_t)(w & 0xff) * d, (float)(int8_t)(w >> 8) * d);
            }
        }
        *(uint4 *)(void *)&dst[r * (HD + FA_PAD) + c] = make_uint4(v[0], v[1], v[2], v[3]);
    }
}

/* Stages a tile of the K (which == 0) or V plane of sequence `seq`, KV head `head`. */
template <int HD>
__device__ __forceinline__ void fa_stage(uint16_t *dst, const fa_args &a, int which, int seq, int head,
                                         int key0, int rows, int n_keys) {
    void *plane = which == 0 ? a.kv.k[seq] : a.kv.v[seq];
    int64_t stride = (int64_t)a.kv.n_kv_head * a.kv.head_dim, at = a.layer_at + (int64_t)head * a.kv.head_dim;
    if (FAULT_TOLD(FA_UNWRITTEN_KV)) n_keys = a.kv.n_ctx;
    if (a.kv.dtype == KV_F16)
        fa_stage_f16<HD>(dst, (const uint16_t *)plane + at, stride, key0, rows, n_keys, a.kv.head_dim);
    else
        fa_stage_q8<HD>(dst, (const block_q8_0 *)plane + at / QK_32, stride / QK_32, key0, rows, n_keys,
                        a.kv.head_dim);
}

/* Query rows as f16; row i is q + row_at(i), or zeros where row_at(i) < 0. Counts overflows when asked to. */
template <int HD, typename F>
__device__ __forceinline__ void fa_stage_query(uint16_t *dst, const fa_args &a, int rows, int count,
                                               F row_at) {
    unsigned over = 0;
    for (int i = threadIdx.x; i < rows * HD; i += blockDim.x) {
        int r = i / HD, c = i % HD;
        int64_t at = row_at(r);
        uint16_t h = at >= 0 && c < a.kv.head_dim ? f16_bits(a.q[at + c]) : (uint16_t)0;
        over += f16_overflows(h);
        dst[r * (HD + FA_PAD) + c] = h;
    }
    if (count) warp_count(over, a.overflow);
}

/* S = Q . K^T of 16 query rows and N8*8 keys: chains over HD in TC_K steps from +0. q_at, k_at: this lane's ldmatrix
 * addresses (rows of HD + FA_PAD). */
template <int HD, int N8>
__device__ __forceinline__ void fa_scores(float s[N8][4], uint32_t q_at, uint32_t k_at) {
    static_assert(N8 % 2 == 0, "keys come in pairs of n8 tiles");
#pragma unroll
    for (int j = 0; j < N8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[j][e] = 0.0f;
#pragma unroll
    for (int k = 0; k < HD / TC_K; k++) {
        uint32_t q[4];
        ldmatrix_x4(q, q_at + k * TC_K * 2);
#pragma unroll
        for (int j = 0; j < N8; j += 2) {
            uint32_t b[4];
            ldmatrix_x4(b, k_at + (j * 8 * (HD + FA_PAD) + k * TC_K) * 2);
            mma_f16(s[j], q, b[0], b[1]);
            mma_f16(s[j + 1], q, b[2], b[3]);
        }
    }
}

/* t = S * c, masked above `last`: key0 is the tile's first position. */
template <int N8>
__device__ __forceinline__ void fa_scale_mask(float s[N8][4], float c, int key0, int q, int last_low,
                                              int last_high) {
#pragma unroll
    for (int j = 0; j < N8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int key = key0 + j * 8 + 2 * q + e % 2;
            s[j][e] = key > (e < 2 ? last_low : last_high) ? FA_MASKED : s[j][e] * c;
        }
}

/* Largest t of row half h (0: row g, 1: row g+8) over the quad that shares the row. */
template <int N8> __device__ __forceinline__ float fa_row_max(const float s[N8][4], int h) {
    float m = FA_MASKED;
#pragma unroll
    for (int j = 0; j < N8; j++) m = fa_max(fa_max(m, s[j][2 * h]), s[j][2 * h + 1]);
    m = fa_max(m, __shfl_xor_sync(WARP_ALL, m, 1));
    return fa_max(m, __shfl_xor_sync(WARP_ALL, m, 2));
}

/* p = exp2(t - mn) in place, and the row's sum in the contract's lane order. mn == -inf: all zero (the identity). */
template <int N8> __device__ __forceinline__ float fa_row_exp(float s[N8][4], int h, float mn) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < N8; j++)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; e++) {
            s[j][e] = mn == FA_MASKED && !FAULT_TOLD(FA_MASKED_TILE) ? 0.0f : fm_exp2f(s[j][e] - mn);
            sum = sum + s[j][e];
        }
    sum = sum + __shfl_xor_sync(WARP_ALL, sum, 1); /* lanes 0 and 1, lanes 2 and 3 */
    return sum + __shfl_xor_sync(WARP_ALL, sum, 2);
}

/* The factor of everything summed so far when the maximum moves from m to mn. */
__device__ __forceinline__ float fa_alpha(float m, float mn) {
    return mn == FA_MASKED ? 1.0f : fm_exp2f(m - mn);
}

/* Weights of the left fold: what was folded so far (maximum M) and a chunk (maximum m). */
struct fa_fold {
    float a, b;
    int keep, start; /* keep: the chunk is wholly masked; start: it is the first unmasked one */
};
__device__ __forceinline__ fa_fold fa_fold_of(float M, float m) {
    fa_fold f = {1.0f, 0.0f, m == FA_MASKED && !FAULT_TOLD(FA_MASKED_TILE), M == FA_MASKED};
    if (f.keep || f.start) return f;
    float mn = fa_max(M, m);
    f.a = fm_exp2f(M - mn);
    f.b = fm_exp2f(m - mn);
    return f;
}
__device__ __forceinline__ float fa_fold_value(const fa_fold &f, float A, float x) {
    return f.keep ? A : f.start ? x : __fmaf_rn(x, f.b, A * f.a);
}

/* The factor of head `head`'s scores, and the KV head it reads. */
__device__ __forceinline__ float fa_factor(const fa_args &a, int head) {
    return FAULT_TOLD(FA_SCALE) && head == a.n_head - 1 ? 0x1.715476p+0f : a.c;
}
__device__ __forceinline__ int fa_kv_head(const fa_args &a, int head) {
    return FAULT_TOLD(GQA_HEAD) ? head % a.kv.n_kv_head : head / a.group;
}

/* Dispatch over the instances; f is a generic lambda of (tkv, hd) integral constants. */
template <int TKV, typename F> static inline enum status fa_dispatch_hd(int hd, F f) {
    std::integral_constant<int, TKV> tkv;
    if (hd == 64) return f(tkv, std::integral_constant<int, 64>());
    if (hd == 128) return f(tkv, std::integral_constant<int, 128>());
    return f(tkv, std::integral_constant<int, 256>());
}
template <typename F> static inline enum status fa_dispatch(int tkv, int head_dim, F f) {
    int hd = fa_head_dim_instance(head_dim);
    if (tkv == 16) return fa_dispatch_hd<16>(hd, f);
    if (tkv == 32) return fa_dispatch_hd<32>(hd, f);
    return fa_dispatch_hd<64>(hd, f);
}

enum status attention_prefill_cuda(struct cuda_context *c, const fa_args &a, struct err *err);
/* sm_90a, f16 cache, head_dim up to FA_HOPPER_HD_MAX; n_keys: positions filled once this step is appended */
enum status attention_hopper_cuda(struct cuda_context *c, const fa_args &a, int n_keys, struct err *err);
enum status attention_decode_cuda(struct cuda_context *c, const fa_args &a, struct err *err);

#endif
