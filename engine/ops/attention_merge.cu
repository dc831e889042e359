/* attention_merge.cu - the ordered fold of a decode attention's chunks, alone or together with act_prepare of the result.
 * Not a tree: chunks fold left in index order (ops.h), whichever block made them.
 * Idea: one thread per dim. Weights of several chunks at a time are made by one thread each: the running maximum is a
 * prefix maximum, exact however it is computed.
 * Source: ours. Exercise: device_parity --op attention; --op step */
#include <math.h>
#include <type_traits>

#include "../cuda/act.cuh"
#include "../cuda/fa.cuh"

/* Weights of up to LEN chunks of one head in shared memory. */
template <int LEN> struct merge_weights {
    float m[LEN], l[LEN];
    fa_fold fold[LEN];
};

struct merge_state {
    float M, L, A;
};

/* Place of chunk c0 + i of n, which is folded in this order. turn: any number. */
__device__ __forceinline__ int64_t merge_from(int64_t at, int c0, int i, int n, unsigned turn) {
    if (FAULT_TOLD(MERGE_ORDER)) return at + n - 1 - (c0 + i);
    return FAULT_TOLD(DEC_SPLITS) ? at + (turn + (unsigned)(c0 + i)) % (unsigned)n : at + c0 + i;
}

/* Folds up to LEN of the n_chunks chunks of the row at `at`, from c0 on; the head's `threads` threads (this is number c)
 * work together. All threads of the block call it the same number of times. */
template <int LEN>
__device__ __forceinline__ void merge_some(merge_state &s, merge_weights<LEN> &w, const fa_args &a,
                                           int64_t at, int n_chunks, int c0, int c, int threads, bool live,
                                           unsigned turn) {
    int len = min(LEN, n_chunks - c0);
    __syncthreads();
    for (int i = c; live && i < len; i += threads) {
        w.m[i] = a.ml[merge_from(at, c0, i, n_chunks, turn) * 2];
        w.l[i] = a.ml[merge_from(at, c0, i, n_chunks, turn) * 2 + 1];
    }
    __syncthreads();
    for (int i = c; live && i < len; i += threads) {
        float before = s.M;
        for (int j = 0; j < i; j++) before = fa_max(before, w.m[j]);
        w.fold[i] = fa_fold_of(before, w.m[i]);
    }
    __syncthreads();
    if (!live) return;
#pragma unroll 4
    for (int i = 0; i < len; i++) {
        float x =
            c < a.kv.head_dim ? a.part[merge_from(at, c0, i, n_chunks, turn) * a.kv.head_dim + c] : 0.0f;
        s.A = fa_fold_value(w.fold[i], s.A, x);
        s.L = fa_fold_value(w.fold[i], s.L, w.l[i]);
        s.M = fa_max(s.M, w.m[i]);
    }
}

/* Splits without a chunk are not folded. The plant folds one whose maximum is still -inf. */
__device__ __forceinline__ void merge_empty(merge_state &s, const fa_args &a, int n_chunks) {
    if (!FAULT_TOLD(FA_INIT_INF) || n_chunks == a.n_chunks) return;
    s.L = __fmaf_rn(0.0f, fm_exp2f(FA_MASKED - FA_MASKED), s.L);
}

__global__ void __launch_bounds__(FA_HEAD_DIM_MAX) fa_merge_kernel(fa_args a) {
    __shared__ merge_weights<FA_MERGE_MAX> w;
    int head = blockIdx.x, r = blockIdx.y, c = threadIdx.x;
    int n_chunks = (a.pos[r] + a.fa_chunk) / a.fa_chunk;
    int64_t at = ((int64_t)r * a.n_head + head) * a.n_chunks;
    merge_state s = {FA_MASKED, 0.0f, 0.0f};
    unsigned turn = FAULT_TOLD(DEC_SPLITS) ? FAULT_BLOCK_TURN() : 0u;
    for (int c0 = 0; c0 < n_chunks; c0 += FA_MERGE_MAX)
        merge_some(s, w, a, at, n_chunks, c0, c, blockDim.x, true, turn);
    merge_empty(s, a, n_chunks);
    if (c < a.kv.head_dim)
        a.o[((int64_t)r * a.n_head + head) * a.kv.head_dim + c] = s.A * (1.0f / s.L) + 0.0f;
}

/* The prepared form of this thread's element, column `col` of a row of `width`. */
template <int KIND>
__device__ __forceinline__ void merge_act(float x, const act_out &out, int64_t at, bool live) {
    int lane = threadIdx.x % WARP;
    if constexpr (KIND == ACT_F16) {
        uint16_t h = live ? f16_bits(x) : (uint16_t)0;
        if (live) out.f16[at] = h;
        warp_count(f16_overflows(h), out.overflow);
    } else {
        __shared__ uint32_t top[FA_MERGE_COLS / WARP];
        constexpr int BLOCK = KIND == ACT_Q8_32 ? ACT_BLOCK_32 : ACT_BLOCK_256;
        uint32_t m = __reduce_max_sync(WARP_ALL, live ? act_magnitude(x) : 0u);
        if (KIND == ACT_Q8_256) {
            if (lane == 0) top[threadIdx.x / WARP] = m;
            __syncthreads();
#pragma unroll
            for (int i = 0; i < FA_MERGE_COLS / WARP; i++) m = max(m, top[i]);
        }
        bool first = live && threadIdx.x % BLOCK == 0;
        act_scale s = act_scale_of(__uint_as_float(m), out.overflow, first);
        int code = act_code(x, s.inverse), sum = code;
#pragma unroll
        for (int k = 1; k < ACT_SUM_GROUP; k *= 2) sum += __shfl_xor_sync(WARP_ALL, sum, k);
        if (!live) return;
        out.q[at] = (int8_t)code;
        if (lane % ACT_SUM_GROUP == 0) out.sum[at / ACT_SUM_GROUP] = (int16_t)sum;
        if (first) out.d[at / BLOCK] = s.d;
    }
}

/* FA_MERGE_COLS columns of one row: several heads, or one. */
template <int KIND>
__global__ void __launch_bounds__(FA_MERGE_COLS) fa_merge_act_kernel(fa_args a, act_out out) {
    __shared__ merge_weights<FA_MERGE_FEW> w[FA_MERGE_COLS / TC_K];
    int hd = a.kv.head_dim, local = threadIdx.x / hd, c = threadIdx.x % hd, r = blockIdx.y;
    int head = blockIdx.x * (FA_MERGE_COLS / hd) + local, n_chunks = (a.pos[r] + a.fa_chunk) / a.fa_chunk;
    bool live = head < a.n_head;
    int64_t at = ((int64_t)r * a.n_head + head) * a.n_chunks, to = ((int64_t)r * a.n_head + head) * hd + c;
    merge_state s = {FA_MASKED, 0.0f, 0.0f};
    unsigned turn = FAULT_TOLD(DEC_SPLITS) ? FAULT_BLOCK_TURN() : 0u;
    for (int c0 = 0; c0 < n_chunks; c0 += FA_MERGE_FEW)
        merge_some(s, w[local], a, at, n_chunks, c0, c, hd, live, turn);
    merge_empty(s, a, n_chunks);
    float x = live ? s.A * (1.0f / s.L) + 0.0f : 0.0f;
    if (live) a.o[to] = x;
    merge_act<KIND>(x, out, to, live);
}

static fa_args merge_args(const struct cuda_context *c, const struct merge_call *m) {
    fa_args a = {};
    a.kv = c->kv;
    a.o = m->o;
    a.pos = c->pos;
    a.ml = c->room.ml;
    a.part = c->room.part;
    a.n_rows = m->n_rows;
    a.n_head = m->n_head;
    a.fa_chunk = c->base.config.geometry.fa_chunk;
    a.n_chunks = (int)ceil_div(c->kv.n_ctx, a.fa_chunk);
    return a;
}

extern "C" enum status merge_launch(struct cuda_context *c, const struct merge_call *m, struct err *err) {
    return cuda_start(c, KERNEL_FA_MERGE, fa_merge_kernel, dim3((unsigned)m->n_head, (unsigned)m->n_rows),
                      dim3(ceil_div(c->kv.head_dim, WARP) * WARP), 0, err, merge_args(c, m));
}

extern "C" enum status fused_merge_act(struct cuda_context *c, const struct merge_call *m,
                                       const struct act *out, int *done, struct err *err) {
    int hd = c->kv.head_dim;
    if (FA_MERGE_COLS % hd != 0 || out->k % act_block(out->kind) != 0) return STATUS_OK;
    auto kernel = out->kind == ACT_F16     ? fa_merge_act_kernel<ACT_F16>
                  : out->kind == ACT_Q8_32 ? fa_merge_act_kernel<ACT_Q8_32>
                                           : fa_merge_act_kernel<ACT_Q8_256>;
    *done = 1;
    return cuda_start(c, KERNEL_FA_MERGE_ACT, kernel,
                      dim3(ceil_div(out->k, FA_MERGE_COLS), (unsigned)m->n_rows), dim3(FA_MERGE_COLS), 0, err,
                      merge_args(c, m), act_out_of(out, c->overflow));
}
