/* attention_hopper.cu - fa_prefill_f16kv for sm_90a: wgmma fed by the bulk copy engine, for f16 caches and head_dim <= 128.
 * Not another softmax: tile by tile the operations and orders of attention_prefill.cu (ops.h), so the same bits.
 * Idea: a warpgroup owns 64 query rows, Q in registers. The scores of a span of 64 keys are one product (tiles of a span
 * are independent); softmax, rescale and P.V then go tile by tile, the next tile's exponentials while P.V runs. One warp
 * copies spans of K and V into a ring that all warpgroups of the block share; rows beyond the last key arrive as zeros.
 * Source: Shah et al. 2024 (FlashAttention-3); order ours. Exercise: device_parity --op attention */
#include <math.h>
#include <type_traits>

#include "../cuda/fa_hopper.cuh"
#include "../cuda/probe.cuh"

static_assert(FA_HOPPER_SPAN % FA_TKV_MAX == 0, "a span holds whole tiles");

struct fa_ring {
    uint32_t k, v, full, empty; /* shared memory: stages of K, of V; barriers: K's, then V's */
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Where span number `i` of a walk over chunks starts. */
struct fa_walk {
    int chunk, spans; /* keys of a chunk, spans of a chunk */
    __device__ __forceinline__ int key(int i) const { return i / spans * chunk + i % spans * FA_HOPPER_SPAN; }
};

template <int HD>
__device__ __forceinline__ void fa_wg_copy(const CUtensorMap *k, const CUtensorMap *v, fa_ring ring,
                                           fa_walk walk, int n_keys, int kv_head) {
    constexpr int BOXES = HD / TENSOR_BOX_X, BOX = FA_HOPPER_SPAN * TENSOR_BOX_X * 2;
    for (int i = 0; walk.key(i) < n_keys; i++) {
        int stage = i % FA_HOPPER_STAGES, parity = (i / FA_HOPPER_STAGES & 1) ^ 1;
        for (int which = 0; which < 2; which++) {
            uint32_t bar = (which * FA_HOPPER_STAGES + stage) * 8,
                     to = (which == 0 ? ring.k : ring.v) + stage * BOXES * BOX;
            mbarrier_wait(ring.empty + bar, parity);
            mbarrier_expect(ring.full + bar, BOXES * BOX / (FAULT_TOLD(FA_STRIDE) ? 2 : 1));
            for (int b = 0; b < BOXES; b++)
                tensor_load_3d(to + b * BOX, which == 0 ? k : v, b * TENSOR_BOX_X, kv_head, walk.key(i),
                               ring.full + bar);
        }
    }
}

/* The walk of one warpgroup over the keys of its rows; `last` is the last key of its first row of this thread. */
template <int TKV, int HD>
__device__ __forceinline__ void fa_wg_walk(fa_wg<HD> &r, fa_ring ring, fa_walk walk, float c, int n_keys,
                                           int last, int last_of_all) {
    constexpr int STAGE = HD * FA_HOPPER_SPAN * 2;
    int leader = threadIdx.x % WARPGROUP == 0;
    for (int i = 0; walk.key(i) < n_keys; i++) {
        int stage = i % FA_HOPPER_STAGES, parity = i / FA_HOPPER_STAGES & 1, key0 = walk.key(i);
        uint32_t k_bar = stage * 8, v_bar = (FA_HOPPER_STAGES + stage) * 8;
        int chunk_end = key0 / walk.chunk * walk.chunk + walk.chunk;
        int end = min(min(chunk_end, key0 + FA_HOPPER_SPAN), last_of_all + 1); /* keys any of our rows sees */
        int tiles = end > key0 ? (end - key0 + TKV - 1) / TKV : 0;
        if (!FAULT_TOLD(FA_WAIT)) mbarrier_wait(ring.full + k_bar, parity);
        float s[FA_HOPPER_SPAN / 2];
        if (tiles > 0) {
            fa_wg_scores(s, r, ring.k + stage * STAGE);
            wgmma_wait<0>();
        }
        if (leader) mbarrier_arrive(ring.empty + k_bar);
        if (tiles > 0) fa_wg_mask(s, c, key0, last);
        mbarrier_wait(ring.full + v_bar, parity);
        if (FAULT_TOLD(FA_NOSYNC) && leader) mbarrier_arrive(ring.empty + v_bar); /* before it is read */
        fa_wg_tiles<HD, TKV, 0>(r, s, ring.v + stage * STAGE, tiles);
        wgmma_wait<0>();
        if (!FAULT_TOLD(FA_NOSYNC) && leader) mbarrier_arrive(ring.empty + v_bar);
        if (key0 + FA_HOPPER_SPAN < chunk_end && walk.key(i + 1) < n_keys) continue;
        fa_wg_fold(r);
        r.start_chunk();
    }
}
#endif

template <int TKV, int HD, int WGS>
__global__ void __launch_bounds__((WGS + 1) * 128, 3 - WGS)
    fa_hopper_kernel(const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
                     fa_args a) {
    PROBE_BLOCK();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int STAGE = HD * FA_HOPPER_SPAN * 2, TQ = WGS * FA_HOPPER_ROWS;
    extern __shared__ uint8_t smem[];
    __shared__ uint64_t barriers[4 * FA_HOPPER_STAGES];
    uint32_t base = (smem_address(smem) + FA_HOPPER_ALIGN - 1) / FA_HOPPER_ALIGN * FA_HOPPER_ALIGN;
    uint32_t bars = smem_address(barriers);
    fa_ring ring = {base, base + FA_HOPPER_STAGES * STAGE, bars, bars + 2 * FA_HOPPER_STAGES * 8};
    int head = blockIdx.x, row0 = (int)(gridDim.y - 1 - blockIdx.y) * TQ; /* longest tiles first */
    int first = a.pos[0], n_keys = first + min(row0 + TQ, a.n_rows);
    fa_walk walk = {a.fa_chunk, (a.fa_chunk + FA_HOPPER_SPAN - 1) / FA_HOPPER_SPAN};
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * FA_HOPPER_STAGES; i++) {
            mbarrier_init(ring.full + i * 8, 1);
            mbarrier_init(ring.empty + i * 8, WGS);
        }
        mbarrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x >= WGS * WARPGROUP) {
        registers_give<WGS == 1 ? 40 : 24>();
        if (threadIdx.x == WGS * WARPGROUP) fa_wg_copy<HD>(&k, &v, ring, walk, n_keys, fa_kv_head(a, head));
        return;
    }
    registers_take<WGS == 1 ? 216 : 240>();
    int wg_row = row0 + threadIdx.x / WARPGROUP * FA_HOPPER_ROWS, lane = threadIdx.x % WARP;
    int my_row = wg_row + threadIdx.x % WARPGROUP / WARP * FA_ROWS_PER_WARP + lane / 4;
    int64_t stride = (int64_t)a.n_head * a.kv.head_dim, at = my_row * stride + (int64_t)head * a.kv.head_dim;
    bool low = my_row < a.n_rows, high = my_row + 8 < a.n_rows;
    bool written = !FAULT_TOLD(FA_TAIL_GUARD) || my_row - lane / 4 + FA_ROWS_PER_WARP <= a.n_rows;
    fa_wg<HD> r;
    fa_wg_query(r, low ? a.q + at : NULL, high ? a.q + at + 8 * stride : NULL, a.kv.head_dim, a.overflow);
    r.M[0] = r.M[1] = FA_MASKED;
    r.L[0] = r.L[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < HD / 2; i++) r.A[i] = 0.0f;
    r.start_chunk();
    if (FAULT_TOLD(FA_WINDOW)) first = 0;
    fa_wg_walk<TKV>(r, ring, walk, fa_factor(a, head), n_keys, first + my_row,
                    first + wg_row + FA_HOPPER_ROWS - 1);
    fa_wg_write(r, low && written ? a.o + at : NULL, 0, a.kv.head_dim);
    fa_wg_write(r, high && written ? a.o + at + 8 * stride : NULL, 1, a.kv.head_dim);
#endif
}

/* A plane of the cache as seen by this step: positions 0 .. n_keys-1, so that the copy engine zeroes what is beyond. */
static enum status fa_plane_map(struct cuda_context *c, const fa_args &a, const void *plane, int n_keys,
                                CUtensorMap *out, struct err *err) {
    uint64_t hd = (uint64_t)a.kv.head_dim, heads = (uint64_t)a.kv.n_kv_head;
    struct tensor_shape s = {(const uint16_t *)plane + a.layer_at,
                             3,
                             {hd, heads, (uint64_t)(FAULT(FA_UNWRITTEN_KV) ? a.kv.n_ctx : n_keys)},
                             {2, hd * 2, heads * hd * 2},
                             {TENSOR_BOX_X, 1, FAULT(FA_STRIDE) ? FA_HOPPER_SPAN / 2u : FA_HOPPER_SPAN}};
    return cuda_tensor_map(c, &s, out, err);
}

template <int TKV, int HD, int WGS>
static enum status fa_hopper_launch(struct cuda_context *c, const fa_args &a, const CUtensorMap maps[2],
                                    struct err *err) {
    dim3 grid((unsigned)a.n_head, ceil_div(a.n_rows, WGS * FA_HOPPER_ROWS));
    cuda_attention_note(c, WGS * FA_HOPPER_ROWS, a.n_rows, 0, 0);
    return cuda_start(c, KERNEL_FA_PREFILL_HOPPER, fa_hopper_kernel<TKV, HD, WGS>, grid,
                      dim3((WGS + 1) * 128), fa_hopper_smem(HD) * (FAULT(FA_SMEM_OVER) ? 2 : 1), err, maps[0],
                      maps[1], a);
}

enum status attention_hopper_cuda(struct cuda_context *c, const fa_args &a, int n_keys, struct err *err) {
    const struct geometry *geo = &c->base.config.geometry;
    CUtensorMap maps[2];
    RETURN_IF_ERROR(fa_plane_map(c, a, a.kv.k[0], n_keys, &maps[0], err));
    RETURN_IF_ERROR(fa_plane_map(c, a, a.kv.v[0], n_keys, &maps[1], err));
    return fa_dispatch(geo->fa_tkv, a.kv.head_dim, [&](auto tkv, auto hd) {
        constexpr int TKV = decltype(tkv)::value, HD = decltype(hd)::value > 128 ? 128 : decltype(hd)::value;
        if (geo->fa_tq == FA_HOPPER_ROWS) return fa_hopper_launch<TKV, HD, 1>(c, a, maps, err);
        return fa_hopper_launch<TKV, HD, 2>(c, a, maps, err);
    });
}
