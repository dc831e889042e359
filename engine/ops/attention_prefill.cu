/* attention_prefill.cu - fa_prefill_f16kv: causal tile attention on tensor cores, online softmax in registers.
 * Not the oracle's softmax: the order of tiles, chunks and lanes is the contract's (ops.h), the twin's too.
 * Idea: a warp owns 16 query rows; S = QK^T in its accumulators becomes P, converted in registers to the A operand of
 * P.V; K(j+1) is fetched while the softmax of tile j runs, V(j) while QK^T does.
 * Source: Dao 2023 (FlashAttention-2). Exercise: device_parity --op attention */
#include <math.h>
#include <type_traits>

#include "../cuda/fa.cuh"
#include "../cuda/probe.cuh"

/* Query rows row0 + warp*16 + g (h = 0) and + 8 (h = 1) of one head. */
template <int HD> struct fa_rows {
    static constexpr int TILES = HD / 8;
    static constexpr bool IN_REGISTERS =
        HD <= 128; /* beyond: the merged O lives in its place in the output */

    float m[2], l[2], o[TILES][4];                    /* the current chunk */
    float M[2], L[2], A[IN_REGISTERS ? TILES : 1][4]; /* the chunks folded so far */

    __device__ __forceinline__ void start_chunk() {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            m[h] = FA_MASKED;
            l[h] = 0.0f;
        }
#pragma unroll
        for (int d = 0; d < TILES; d++)
#pragma unroll
            for (int e = 0; e < 4; e++) o[d][e] = 0.0f;
    }
};

/* Where a lane's two rows live in the output, and which dims and rows are real. */
struct fa_place {
    float *row[2]; /* NULL: no such row */
    int head_dim, q;
};

/* Online softmax of one tile: S becomes P in place; rescales O. */
template <int HD, int N8> __device__ __forceinline__ void fa_softmax(fa_rows<HD> &r, float s[N8][4]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float mn = fa_max(r.m[h], fa_row_max<N8>(s, h)), alpha = fa_alpha(r.m[h], mn);
        r.l[h] = __fmaf_rn(r.l[h], alpha, fa_row_exp<N8>(s, h, mn));
        r.m[h] = mn;
#pragma unroll
        for (int d = 0; d < fa_rows<HD>::TILES; d++) {
            r.o[d][2 * h] = r.o[d][2 * h] * alpha;
            r.o[d][2 * h + 1] = r.o[d][2 * h + 1] * alpha;
        }
    }
}

/* O = tc chain over the tile's keys, A = f16(P) straight from the accumulators. v_at: this lane's ldmatrix address. */
template <int HD, int N8>
__device__ __forceinline__ void fa_weigh(fa_rows<HD> &r, const float p[N8][4], uint32_t v_at) {
#pragma unroll
    for (int k = 0; k < N8 / 2; k++) {
        uint32_t a[4] = {f16_pair(p[2 * k][0], p[2 * k][1]), f16_pair(p[2 * k][2], p[2 * k][3]),
                         f16_pair(p[2 * k + 1][0], p[2 * k + 1][1]),
                         f16_pair(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (int d = 0; d < fa_rows<HD>::TILES; d += 2) {
            uint32_t b[4];
            if (FAULT_TOLD(FA_MAJOR))
                ldmatrix_x4(b, v_at + (k * TC_K * (HD + FA_PAD) + d * 8) * 2);
            else
                ldmatrix_x4_trans(b, v_at + (k * TC_K * (HD + FA_PAD) + d * 8) * 2);
            mma_f16(r.o[d], a, b[0], b[1]);
            mma_f16(r.o[d + 1], a, b[2], b[3]);
        }
    }
}

/* Folds the finished chunk into M, L, A. */
template <int HD> __device__ __forceinline__ void fa_fold_chunk(fa_rows<HD> &r, const fa_place &at) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        fa_fold f = fa_fold_of(r.M[h], r.m[h]);
        r.L[h] = fa_fold_value(f, r.L[h], r.l[h]);
        r.M[h] = f.keep ? r.M[h] : fa_max(r.M[h], r.m[h]);
#pragma unroll
        for (int d = 0; d < fa_rows<HD>::TILES; d++)
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; e++) {
                if constexpr (fa_rows<HD>::IN_REGISTERS) {
                    r.A[d][e] = fa_fold_value(f, r.A[d][e], r.o[d][e]);
                } else {
                    int c = d * 8 + 2 * at.q + e % 2;
                    if (at.row[h] == NULL || c >= at.head_dim) continue;
                    at.row[h][c] = fa_fold_value(f, f.start ? 0.0f : at.row[h][c], r.o[d][e]);
                }
            }
    }
}

/* Result (A / L) + 0: straight to its place, or to the write-back stage of a tail tile (stage != NULL). */
template <int HD>
__device__ __forceinline__ void fa_finish(fa_rows<HD> &r, const fa_place &at, float *stage, int stage_row) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float inverse = 1.0f / r.L[h];
#pragma unroll
        for (int d = 0; d < fa_rows<HD>::TILES; d++) {
            int c = d * 8 + 2 * at.q;
            if constexpr (fa_rows<HD>::IN_REGISTERS) {
                float2 v = make_float2(r.A[d][2 * h] * inverse + 0.0f, r.A[d][2 * h + 1] * inverse + 0.0f);
                float *to = stage != NULL ? stage + (stage_row + 8 * h) * HD : at.row[h];
                if (stage != NULL || c < at.head_dim) *(float2 *)(void *)(to + c) = v;
            } else if (at.row[h] != NULL && c < at.head_dim) {
                at.row[h][c] = at.row[h][c] * inverse + 0.0f;
                at.row[h][c + 1] = at.row[h][c + 1] * inverse + 0.0f;
            }
        }
    }
}

template <int TKV, int HD>
__global__ void __launch_bounds__(FA_TQ_MAX / FA_ROWS_PER_WARP * WARP) fa_prefill_kernel(fa_args a) {
    PROBE_BLOCK();
    constexpr int ROW = HD + FA_PAD, N8 = TKV / 8;
    extern __shared__ __align__(128) uint16_t fa_smem[];
    int tq = blockDim.x / WARP * FA_ROWS_PER_WARP, head = blockIdx.y, kv_head = fa_kv_head(a, head);
    int row0 = (int)(gridDim.x - 1 - blockIdx.x) * tq; /* longest tiles first */
    int rows = min(tq, a.n_rows - row0), warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4;
    uint16_t *sq = fa_smem, *sk = sq + tq * ROW, *sv = sk + TKV * ROW;
    int my_row = row0 + warp * FA_ROWS_PER_WARP + g, first = a.pos[0], n_keys = first + row0 + rows;
    int64_t head_at = (int64_t)head * a.kv.head_dim, row_stride = (int64_t)a.n_head * a.kv.head_dim;
    fa_place at = {{my_row < a.n_rows ? a.o + my_row * row_stride + head_at : NULL,
                    my_row + 8 < a.n_rows ? a.o + (my_row + 8) * row_stride + head_at : NULL},
                   a.kv.head_dim,
                   lane % 4};
    fa_stage<HD>(sk, a, 0, 0, kv_head, 0, TKV, n_keys);
    copy_async_commit();
    fa_stage<HD>(sv, a, 1, 0, kv_head, 0, TKV, n_keys);
    copy_async_commit();
    fa_stage_query<HD>(sq, a, tq, 1,
                       [&](int r) { return r < rows ? (row0 + r) * row_stride + head_at : -1; });
    uint32_t q_at = smem_address(sq + (warp * FA_ROWS_PER_WARP + lane % 16) * ROW + lane / 16 * 8);
    uint32_t k_at = smem_address(sk + (lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 8);
    uint32_t v_at = smem_address(sv + lane % 16 * ROW + lane / 16 * 8);
    fa_rows<HD> r;
    r.M[0] = r.M[1] = FA_MASKED;
    r.L[0] = r.L[1] = 0.0f;
    if constexpr (fa_rows<HD>::IN_REGISTERS)
        for (int d = 0; d < fa_rows<HD>::TILES; d++)
            for (int e = 0; e < 4; e++) r.A[d][e] = 0.0f;
    r.start_chunk();
    for (int key0 = 0; key0 < n_keys; key0 += TKV) {
        float s[N8][4];
        if (!FAULT_TOLD(FA_WAIT)) copy_async_wait<1>(); /* K has arrived, V may be under way */
        __syncthreads();
        fa_scores<HD, N8>(s, q_at, k_at);
        if (!FAULT_TOLD(FA_NOSYNC)) __syncthreads(); /* all warps have read K */
        if (key0 + TKV < n_keys) fa_stage<HD>(sk, a, 0, 0, kv_head, key0 + TKV, TKV, n_keys);
        copy_async_commit();
        int last = FAULT_TOLD(FA_WINDOW) ? my_row : first + my_row;
        fa_scale_mask<N8>(s, fa_factor(a, head), key0, lane % 4, last, last + 8);
        fa_softmax<HD, N8>(r, s);
        copy_async_wait<1>(); /* V has arrived, the next K may be under way */
        __syncthreads();
        fa_weigh<HD, N8>(r, s, v_at);
        __syncthreads(); /* all warps have read V */
        if (key0 + TKV < n_keys) fa_stage<HD>(sv, a, 1, 0, kv_head, key0 + TKV, TKV, n_keys);
        copy_async_commit();
        if ((key0 + TKV) % a.fa_chunk != 0 && key0 + TKV < n_keys) continue;
        fa_fold_chunk<HD>(r, at);
        r.start_chunk();
    }
    bool tail = fa_rows<HD>::IN_REGISTERS && rows < tq;
    float *stage = (float *)(void *)fa_smem;
    copy_async_wait<0>();
    __syncthreads(); /* the stage reuses Q, K and V */
    fa_finish<HD>(r, at, tail ? stage : NULL, warp * FA_ROWS_PER_WARP + g);
    if (!tail) return;
    __syncthreads();
    if (FAULT_TOLD(FA_TAIL_GUARD)) rows = rows / FA_ROWS_PER_WARP * FA_ROWS_PER_WARP; /* whole warps */
    for (int i = threadIdx.x; i < rows * a.kv.head_dim; i += blockDim.x) {
        int row = i / a.kv.head_dim, c = i % a.kv.head_dim;
        a.o[(row0 + row) * row_stride + head_at + c] = stage[row * HD + c];
    }
}

/* Shared memory to ask for: fa_prefill_smem, and the two mistakes that were made with it. */
static size_t fa_asked_smem(int tq, int tkv, int hd) {
    size_t staging = (size_t)(tq + 2 * tkv) * (size_t)(hd + FA_PAD) * 2, all = fa_prefill_smem(tq, tkv, hd);
    if (staging < all && FAULT(FA_SMEM_STAGE)) return staging;
    return FAULT(FA_SMEM_OVER) ? (size_t)(3 * tq) * (size_t)(hd + FA_PAD) * 2 : all;
}

enum status attention_prefill_cuda(struct cuda_context *c, const fa_args &a, struct err *err) {
    const struct geometry *geo = &c->base.config.geometry;
    enum kernel_id id = a.kv.dtype == KV_F16 ? KERNEL_FA_PREFILL : KERNEL_FA_PREFILL_Q8;
    cuda_attention_note(c, geo->fa_tq, a.n_rows, 0, 0);
    return fa_dispatch(geo->fa_tkv, a.kv.head_dim, [&](auto tkv, auto hd) {
        constexpr int TKV = decltype(tkv)::value, HD = decltype(hd)::value;
        return cuda_start(
            c, id, fa_prefill_kernel<TKV, HD>, dim3(ceil_div(a.n_rows, geo->fa_tq), (unsigned)a.n_head),
            dim3((unsigned)geo->fa_tq / FA_ROWS_PER_WARP * WARP), fa_asked_smem(geo->fa_tq, TKV, HD), err, a);
    });
}
