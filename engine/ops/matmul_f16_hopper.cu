/* matmul_f16_hopper.cu - prefill kernel of matmul on route f16 for sm_90a: wgmma fed by the bulk copy engine.
 * Not another order: each output is one k16 chain in ascending K, so its bits are those of matmul_f16.cu.
 * Idea: persistent clusters of two blocks; a block makes 128 x BN outputs with two warpgroups, a third one only copies.
 * The two blocks of a cluster share a column of weight tiles: each fetches half of it for both.
 * Source: CUTLASS's warp-specialised structure. Exercise: device_parity --op matmul --route f16 */
#include "../cuda/check.h"
#include "../cuda/hopper.cuh"
#include "../cuda/tensor_map.h"
#include "../cuda/probe.cuh"
#include "matmul_cuda.h"

#define WG_CLUSTER 2
static_assert(WG_BK == TENSOR_BOX_X, "a stage is one box wide");

/* Stage of one WG_BK step: BM rows of activations, BN rows of weights. */
template <int BN> struct wg_stage {
    static constexpr int A_BYTES = WG_BM * WG_BK * 2, BYTES = A_BYTES + BN * WG_BK * 2,
                         COUNT = (int)gemm_hopper_stages(BN);
};

struct wg_args {
    const float *bias;
    float *y;
    int rows, n, n_steps; /* n_steps: of WG_BK; what is beyond K is zero and changes nothing */
    int row_tiles;        /* of a whole cluster */
    int tiles;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct wg_ring {
    uint32_t data, full, empty; /* shared-memory addresses */
    int stage;
    uint32_t phase;

    __device__ __forceinline__ void next(int count) {
        if (++stage == count) {
            stage = 0;
            phase ^= 1;
        }
    }
    __device__ __forceinline__ uint32_t full_bar() const { return full + stage * 8; }
    __device__ __forceinline__ uint32_t empty_bar() const { return empty + stage * 8; }
};

/* One thread fetches: the block's own rows, and its half of the cluster's weights for both blocks. */
template <int BN>
__device__ __forceinline__ void wg_produce(const CUtensorMap *act, const CUtensorMap *w, const wg_args &g,
                                           wg_ring r, int first, int stride, int rank) {
    using S = wg_stage<BN>;
    constexpr int HALF = BN / WG_CLUSTER;
    for (int t = first; t < g.tiles; t += stride) {
        int row0 = (t % g.row_tiles * WG_CLUSTER + rank) * WG_BM, n0 = t / g.row_tiles * BN + rank * HALF;
        for (int k = 0; k < g.n_steps; k++) {
            uint32_t at = r.data + r.stage * S::BYTES;
            mbarrier_wait(r.empty_bar(), r.phase ^ 1);
            mbarrier_expect(r.full_bar(), S::BYTES);
            int from =
                FAULT_TOLD(MM_ROTATE) && r.stage == 1 && k >= S::COUNT ? 1 : k; /* as at the first turn */
            tensor_load_2d(at, act, from * WG_BK, row0, r.full_bar());
            tensor_load_2d_multicast(at + S::A_BYTES + rank * HALF * WG_BK * 2, w, k * WG_BK, n0,
                                     r.full_bar(), 3);
            r.next(S::COUNT);
        }
    }
}

/* Row r of the tile, columns c, c+1. */
__device__ __forceinline__ void wg_store(const wg_args &g, int r, int c, float x, float y) {
    if (r >= g.rows || c >= g.n) return;
    float *to = g.y + (int64_t)r * g.n + c;
    if (FAULT_TOLD(MM_TNT)) {
        g.y[(int64_t)c * g.rows + r] = x;
        if (c + 1 < g.n) g.y[(int64_t)(c + 1) * g.rows + r] = y;
        return;
    }
    if (g.n % 2 == 0) {
        *(float2 *)(void *)to = make_float2(x, y);
    } else {
        to[0] = x;
        if (c + 1 < g.n) to[1] = y;
    }
}

template <int BN>
__device__ __forceinline__ void wg_write(const float (&acc)[BN / 2], const wg_args &g, int row, int col) {
#pragma unroll
    for (int j = 0; j < BN / 8; j++) {
        int c = col + j * 8;
        if (FAULT_TOLD(MM_CELLS) && j % 4 == 2) continue;
        float low = 0.0f, high = 0.0f;
        if (g.bias != NULL) {
            low = c < g.n ? g.bias[c] : 0.0f;
            high = c + 1 < g.n ? g.bias[c + 1] : 0.0f;
            wg_store(g, row, c, acc[4 * j] + low, acc[4 * j + 1] + high);
            wg_store(g, row + 8, c, acc[4 * j + 2] + low, acc[4 * j + 3] + high);
        } else {
            wg_store(g, row, c, acc[4 * j], acc[4 * j + 1]);
            wg_store(g, row + 8, c, acc[4 * j + 2], acc[4 * j + 3]);
        }
    }
}

/* Warpgroup `wg` multiplies rows wg*64 .. +63 of the block's tiles. */
template <int BN>
__device__ __forceinline__ void wg_consume(const wg_args &g, wg_ring r, int first, int stride, int rank,
                                           int wg) {
    using S = wg_stage<BN>;
    int thread = threadIdx.x % WARPGROUP, warp = thread / WARP, lane = thread % WARP;
    for (int t = first; t < g.tiles; t += stride) {
        float acc[BN / 2];
#pragma unroll
        for (int i = 0; i < BN / 2; i++) acc[i] = 0.0f;
        uint32_t before = 0;
        for (int k = 0; k < g.n_steps; k++) {
            uint32_t at = r.data + r.stage * S::BYTES;
            uint64_t a = wgmma_rows(at + wg * 64 * WG_BK * 2), b = wgmma_rows(at + S::A_BYTES);
            mbarrier_wait(r.full_bar(), r.phase);
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < WG_BK / TC_K; s += FAULT_TOLD(MM_SKIP) ? 2 : 1)
                wgmma_shared(acc, a + s * (TC_K * 2 >> 4), b + s * (TC_K * 2 >> 4));
            wgmma_commit();
            wgmma_wait<1>(); /* the stage before has been read */
            if (k > 0 && thread < WG_CLUSTER) mbarrier_arrive_at(before, thread);
            before = r.empty_bar();
            r.next(S::COUNT);
        }
        wgmma_wait<0>();
        if (thread < WG_CLUSTER) mbarrier_arrive_at(before, thread);
        int row0 = (t % g.row_tiles * WG_CLUSTER + rank) * WG_BM + wg * 64 + warp * 16 + lane / 4;
        wg_write<BN>(acc, g, row0, t / g.row_tiles * BN + lane % 4 * 2);
    }
}
#endif

/* An architecture without clusters compiles an empty body; the attribute itself is an error there. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define WG_CLUSTER_DIMS
#else
#define WG_CLUSTER_DIMS __cluster_dims__(WG_CLUSTER, 1, 1)
#endif

template <int BN>
__global__ void WG_CLUSTER_DIMS __launch_bounds__(WG_THREADS, 1)
    gemm_hopper_kernel(const __grid_constant__ CUtensorMap act, const __grid_constant__ CUtensorMap w,
                       wg_args g) {
    PROBE_BLOCK();
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using S = wg_stage<BN>;
    extern __shared__ uint8_t smem[];
    __shared__ uint64_t barriers[2 * S::COUNT];
    uint32_t base = (uint32_t)__cvta_generic_to_shared(smem),
             bars = (uint32_t)__cvta_generic_to_shared(barriers);
    wg_ring r = {(base + WG_ALIGN - 1) / WG_ALIGN * WG_ALIGN, bars, bars + S::COUNT * 8, 0, 0};
    int rank = (int)cluster_rank(), first = blockIdx.x / WG_CLUSTER, stride = gridDim.x / WG_CLUSTER;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::COUNT; i++) {
            mbarrier_init(r.full + i * 8, 1);
            mbarrier_init(r.empty + i * 8, 2 * WG_CLUSTER); /* both warpgroups of both blocks */
        }
        mbarrier_init_done();
    }
    cluster_sync();
    if (threadIdx.x < WARPGROUP) {
        registers_give<40>();
        if (threadIdx.x == 0) wg_produce<BN>(&act, &w, g, r, first, stride, rank);
    } else {
        registers_take<232>();
        wg_consume<BN>(g, r, first, stride, rank, threadIdx.x / WARPGROUP - 1);
    }
    cluster_sync(); /* nobody leaves while the other block may still write or signal here */
#endif
}

template <int BN>
static enum status wg_launch(struct cuda_context *c, const struct weight *w, const struct act *a, wg_args g,
                             struct err *err) {
    using S = wg_stage<BN>;
    uint64_t k_pad = (uint64_t)(w->k + TC_K - 1) / TC_K * TC_K;
    struct tensor_shape act = {a->f16, 2, {k_pad, (uint64_t)g.rows}, {2, k_pad * 2}, {WG_BK, WG_BM}};
    struct tensor_shape weight = {
        w->data, 2, {k_pad, (uint64_t)g.n}, {2, k_pad * 2}, {WG_BK, BN / WG_CLUSTER}};
    CUtensorMap maps[2];
    RETURN_IF_ERROR(cuda_tensor_map(c, &act, &maps[0], err));
    RETURN_IF_ERROR(cuda_tensor_map(c, &weight, &maps[1], err));
    g.tiles = g.row_tiles * (int)ceil_div(g.n, BN);
    int clusters = c->n_sm / WG_CLUSTER < g.tiles ? c->n_sm / WG_CLUSTER : g.tiles;
    return cuda_start(c, KERNEL_GEMM_F16_HOPPER, gemm_hopper_kernel<BN>,
                      dim3((unsigned)(clusters * WG_CLUSTER)), dim3(WG_THREADS), gemm_hopper_smem(BN), err,
                      maps[0], maps[1], g);
}

extern "C" enum status cuda_hopper_loaded(int *out, struct err *err) {
    struct cudaFuncAttributes a;
    CUDA_TRY(cudaFuncGetAttributes(&a, (const void *)gemm_hopper_kernel<128>), err);
    *out = a.ptxVersion >= 90;
    return STATUS_OK;
}

/* Rounds of tiles that the device has to make, times the width of a tile. */
static int wg_cost(const struct cuda_context *c, const wg_args &g, int bn) {
    int tiles = g.row_tiles * (int)ceil_div(g.n, bn), clusters = c->n_sm / WG_CLUSTER;
    return (int)ceil_div(tiles, clusters) * bn;
}

enum status matmul_f16_hopper(struct cuda_context *c, const struct weight *w, const struct act *a,
                              int64_t rows, float *y, struct err *err) {
    wg_args g = {
        w->bias, y, (int)rows, (int)w->n, (int)ceil_div(w->k, WG_BK), (int)ceil_div(rows, WG_BM * WG_CLUSTER),
        0};
    if (wg_cost(c, g, 256) <= wg_cost(c, g, 128)) return wg_launch<256>(c, w, a, g, err);
    return wg_launch<128>(c, w, a, g, err);
}
