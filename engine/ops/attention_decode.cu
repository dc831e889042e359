/* attention_decode.cu - split-KV decode attention: chunks of keys shared by blocks; attention_merge.cu folds them.
 * Not another arithmetic: tile by tile the operations of fa_prefill_f16kv, so decode equals prefill bit for bit.
 * Idea: the query heads of one KV group fill the 16 MMA rows. Only maxima and sums of a chunk are a chain over its tiles:
 * the scores of all tiles are independent (a warp each), maxima form a prefix (exact in any order), and O is a chain
 * over tiles but independent over dims (a slice of dims per warp).
 * Source: Dao et al. 2023 (flash-decoding); order in ops.h. Exercise: device_parity --op attention */
#include <math.h>
#include <type_traits>

#include "../cuda/fa.cuh"
#include "../cuda/probe.cuh"

#define FA_DEC_THREADS (FA_DEC_WARPS * WARP)

/* Shared memory of one block; pointers into the dynamic buffer (fa_decode_smem has the same parts). */
template <int HD> struct fa_dec {
    static constexpr int ROW = HD + FA_PAD, SEGMENT = HD <= 128 ? 256 : 128;
    static constexpr int P_ROW = SEGMENT + FA_PAD, P_SHORT = SEGMENT / 2 + FA_PAD, TILES = SEGMENT / TC_K;
    static constexpr int N8 = HD / 8 / FA_DEC_WARPS; /* n8 tiles of dims per warp */

    uint16_t *q, *p, *k, *v;  /* [16][ROW], [16][P_ROW], [SEGMENT][ROW] twice */
    float *max, *sum, *alpha; /* [TILES][16] */
    float *m, *l;             /* [16] */

    /* From one row of P to the next. */
    static __device__ __forceinline__ int p_stride() { return FAULT_TOLD(FA_PROW_ALIAS) ? P_SHORT : P_ROW; }

    __device__ __forceinline__ explicit fa_dec(uint16_t *base) {
        q = base;
        p = q + FA_DEC_GROUP * ROW;
        k = p + FA_DEC_GROUP * P_ROW;
        v = k + SEGMENT * ROW;
        max = (float *)(void *)(v + SEGMENT * ROW);
        sum = max + TILES * FA_DEC_GROUP;
        alpha = sum + TILES * FA_DEC_GROUP;
        m = alpha + TILES * FA_DEC_GROUP;
        l = m + FA_DEC_GROUP;
    }
};

/* Running maximum of row `row` before tile t of this segment. */
template <int HD> __device__ __forceinline__ float fa_dec_before(const fa_dec<HD> &s, int t, int row) {
    float m = s.m[row];
    for (int i = 0; i < t; i++) m = fa_max(m, s.max[i * FA_DEC_GROUP + row]);
    return m;
}

/* Scores of this warp's tiles t = warp, warp + 8, ..; leaves t = S * c in s and row maxima in shared memory. */
template <int TKV, int HD, int SLOTS>
__device__ __forceinline__ void fa_dec_scores(float s[SLOTS][TKV / 8][4], const fa_dec<HD> &sm, float c,
                                              int key0, int n_tiles, int last) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    uint32_t q_at = smem_address(sm.q + lane % 16 * fa_dec<HD>::ROW + lane / 16 * 8);
    uint32_t k_at = smem_address(sm.k + (lane / 16 * 8 + lane % 8) * fa_dec<HD>::ROW + lane / 8 % 2 * 8);
#pragma unroll
    for (int slot = 0; slot < SLOTS; slot++) {
        int t = warp + slot * FA_DEC_WARPS;
        if (t >= n_tiles) continue;
        fa_scores<HD, TKV / 8>(s[slot], q_at, k_at + t * TKV * fa_dec<HD>::ROW * 2);
        fa_scale_mask<TKV / 8>(s[slot], c, key0 + t * TKV, lane % 4, last, last);
        if (FAULT_TOLD(DEC_SHUFFLE) && key0 + t * TKV + lane % 4 * 2 > last) continue; /* no key of mine */
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float m = fa_row_max<TKV / 8>(s[slot], h);
            if (lane % 4 == 0) sm.max[t * FA_DEC_GROUP + lane / 4 + 8 * h] = m;
        }
    }
}

/* P of this warp's tiles into shared memory as f16, with their row sums and rescale factors. */
template <int TKV, int HD, int SLOTS>
__device__ __forceinline__ void fa_dec_exps(float s[SLOTS][TKV / 8][4], const fa_dec<HD> &sm, int n_tiles) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int slot = 0; slot < SLOTS; slot++) {
        int t = warp + slot * FA_DEC_WARPS;
        if (t >= n_tiles) continue;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int row = lane / 4 + 8 * h, at = t * FA_DEC_GROUP + row;
            float before = fa_dec_before<HD>(sm, t, row), mn = fa_max(before, sm.max[at]);
            float sum = fa_row_exp<TKV / 8>(s[slot], h, mn);
            uint16_t *p = sm.p + row * fa_dec<HD>::p_stride() + t * TKV + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < TKV / 8; j++)
                *(uint32_t *)(void *)(p + j * 8) = f16_pair(s[slot][j][2 * h], s[slot][j][2 * h + 1]);
            if (lane % 4 != 0) continue;
            sm.sum[at] = sum;
            sm.alpha[at] = fa_alpha(before, mn);
        }
    }
}

/* m and l of the rows over the segment's tiles; one thread per row. */
template <int HD> __device__ __forceinline__ void fa_dec_sums(const fa_dec<HD> &sm, int n_tiles, int row) {
    float l = sm.l[row], m = sm.m[row];
    for (int t = 0; t < n_tiles; t++) {
        l = __fmaf_rn(l, sm.alpha[t * FA_DEC_GROUP + row], sm.sum[t * FA_DEC_GROUP + row]);
        m = fa_max(m, sm.max[t * FA_DEC_GROUP + row]);
    }
    sm.l[row] = l;
    sm.m[row] = m;
}

/* O of this warp's dims over the segment's tiles: rescale, then the tc chain over the tile's keys. */
template <int TKV, int HD>
__device__ __forceinline__ void fa_dec_weigh(float o[fa_dec<HD>::N8][4], const fa_dec<HD> &sm, int n_tiles) {
    constexpr int N8 = fa_dec<HD>::N8, ROW = fa_dec<HD>::ROW;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    uint32_t p_at = smem_address(sm.p + lane % 16 * fa_dec<HD>::p_stride() + lane / 16 * 8);
    uint32_t v_at = smem_address(sm.v + lane % 16 * ROW + warp * N8 * 8 + (N8 > 1 ? lane / 16 * 8 : 0));
    for (int t = 0; t < n_tiles; t++) {
        float low = sm.alpha[t * FA_DEC_GROUP + lane / 4], high = sm.alpha[t * FA_DEC_GROUP + lane / 4 + 8];
#pragma unroll
        for (int d = 0; d < N8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++) o[d][e] = o[d][e] * (e < 2 ? low : high);
#pragma unroll
        for (int k = 0; k < TKV / TC_K; k++) {
            uint32_t a[4], at = v_at + (t * TKV + k * TC_K) * ROW * 2;
            ldmatrix_x4(a, p_at + (t * TKV + k * TC_K) * 2);
            if constexpr (N8 == 1) {
                uint32_t b[2];
                if (FAULT_TOLD(FA_MAJOR))
                    ldmatrix_x2(b, at);
                else
                    ldmatrix_x2_trans(b, at);
                mma_f16(o[0], a, b[0], b[1]);
            } else {
#pragma unroll
                for (int d = 0; d < N8; d += 2) {
                    uint32_t b[4];
                    if (FAULT_TOLD(FA_MAJOR))
                        ldmatrix_x4(b, at + d * 8 * 2);
                    else
                        ldmatrix_x4_trans(b, at + d * 8 * 2);
                    mma_f16(o[d], a, b[0], b[1]);
                    mma_f16(o[d + 1], a, b[2], b[3]);
                }
            }
        }
    }
}

/* One chunk [begin, end) of one row's keys; leaves O in o, m and l in shared memory. */
template <int TKV, int HD>
__device__ __forceinline__ void fa_dec_chunk(float o[fa_dec<HD>::N8][4], const fa_dec<HD> &sm,
                                             const fa_args &a, int seq, int kv_head, int begin, int end) {
    constexpr int SEGMENT = fa_dec<HD>::SEGMENT, SLOTS = (SEGMENT / TKV + FA_DEC_WARPS - 1) / FA_DEC_WARPS;
    if (threadIdx.x < FA_DEC_GROUP) {
        sm.m[threadIdx.x] = FA_MASKED;
        sm.l[threadIdx.x] = 0.0f;
    }
    for (int key0 = begin; key0 < end; key0 += SEGMENT) {
        int n_tiles = (min(SEGMENT, end - key0) + TKV - 1) / TKV;
        float s[SLOTS][TKV / 8][4];
        __syncthreads(); /* everybody is done with the segment before */
        fa_stage<HD>(sm.k, a, 0, seq, kv_head, key0, n_tiles * TKV, end);
        copy_async_commit();
        fa_stage<HD>(sm.v, a, 1, seq, kv_head, key0, n_tiles * TKV, end);
        copy_async_commit();
        if (!FAULT_TOLD(FA_WAIT)) copy_async_wait<1>();
        __syncthreads();
        fa_dec_scores<TKV, HD, SLOTS>(s, sm, fa_factor(a, kv_head * a.group + a.group - 1), key0, n_tiles,
                                      end - 1);
        __syncthreads();
        fa_dec_exps<TKV, HD, SLOTS>(s, sm, n_tiles);
        copy_async_wait<0>();
        if (!FAULT_TOLD(FA_NOSYNC)) __syncthreads();
        fa_dec_weigh<TKV, HD>(o, sm, n_tiles);
        if (threadIdx.x < FA_DEC_GROUP) fa_dec_sums<HD>(sm, n_tiles, threadIdx.x);
    }
    __syncthreads();
}

/* Where dim c of a chunk's O goes. The plant: the layout of another combine step. */
__device__ __forceinline__ int fa_dec_at(int c, int head_dim) {
    return FAULT_TOLD(DEC_COMBINE) ? c % 4 * (head_dim / 4) + c / 4 : c;
}

template <int TKV, int HD> __global__ void __launch_bounds__(FA_DEC_THREADS) fa_decode_kernel(fa_args a) {
    PROBE_BLOCK();
    constexpr int N8 = fa_dec<HD>::N8;
    extern __shared__ __align__(128) uint16_t fa_smem[];
    fa_dec<HD> sm(fa_smem);
    int r = blockIdx.z, per_group = (a.group + FA_DEC_GROUP - 1) / FA_DEC_GROUP,
        kv_head = blockIdx.y / per_group;
    int first = blockIdx.y % per_group * FA_DEC_GROUP, heads = min(FA_DEC_GROUP, a.group - first);
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, head0 = kv_head * a.group + first;
    int n_keys = a.pos[r] + 1, n_chunks = (n_keys + a.fa_chunk - 1) / a.fa_chunk;
    int64_t row_at = (int64_t)r * a.n_head * a.kv.head_dim;
    if (blockIdx.x >= n_chunks) return;
    auto query = [&](int i) {
        return FAULT_TOLD(GQA_HEAD) ? (first + i) * a.kv.n_kv_head + kv_head : head0 + i;
    };
    fa_stage_query<HD>(sm.q, a, FA_DEC_GROUP, blockIdx.x == 0,
                       [&](int i) { return i < heads ? row_at + (int64_t)query(i) * a.kv.head_dim : -1; });
    for (int chunk = blockIdx.x; chunk < n_chunks; chunk += gridDim.x) {
        float o[N8][4] = {};
        int begin = chunk * a.fa_chunk;
        fa_dec_chunk<TKV, HD>(o, sm, a, a.kv.per_row ? r : 0, kv_head, begin,
                              min(begin + a.fa_chunk, n_keys));
        int64_t at = ((int64_t)r * a.n_head + head0) * a.n_chunks + chunk; /* of the group's first head */
        if (threadIdx.x < heads) {
            a.ml[(at + (int64_t)threadIdx.x * a.n_chunks) * 2] = sm.m[threadIdx.x];
            a.ml[(at + (int64_t)threadIdx.x * a.n_chunks) * 2 + 1] = sm.l[threadIdx.x];
        }
#pragma unroll
        for (int d = 0; d < N8; d++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int head = lane / 4 + e / 2 * 8, c = (warp * N8 + d) * 8 + lane % 4 * 2 + e % 2;
                if (head < heads && c < a.kv.head_dim)
                    a.part[(at + (int64_t)head * a.n_chunks) * a.kv.head_dim + fa_dec_at(c, a.kv.head_dim)] =
                        o[d][e];
            }
        __syncthreads(); /* m and l are read before the next chunk resets them */
    }
}

enum status attention_decode_cuda(struct cuda_context *c, const fa_args &a, struct err *err) {
    const struct geometry *geo = &c->base.config.geometry;
    enum kernel_id id = a.kv.dtype == KV_F16 ? KERNEL_FA_DECODE : KERNEL_FA_DECODE_Q8;
    int n_splits = geo->fa_splits < a.n_chunks ? geo->fa_splits : a.n_chunks;
    cuda_attention_note(c, 0, 0, n_splits, a.n_chunks);
    dim3 grid((unsigned)n_splits, (unsigned)a.kv.n_kv_head * ceil_div(a.group, FA_DEC_GROUP),
              (unsigned)a.n_rows);
    RETURN_IF_ERROR(fa_dispatch(geo->fa_tkv, a.kv.head_dim, [&](auto tkv, auto hd) {
        constexpr int TKV = decltype(tkv)::value, HD = decltype(hd)::value;
        return cuda_start(c, id, fa_decode_kernel<TKV, HD>, grid, dim3(FA_DEC_THREADS), fa_decode_smem(HD),
                          err, a);
    }));
    c->pending.merge = {a.o, a.n_rows, a.n_head}; /* act_prepare of o usually follows */
    c->pending.kind = PENDING_MERGE;
    return STATUS_OK;
}
