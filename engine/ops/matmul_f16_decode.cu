/* matmul_f16_decode.cu - decode kernel of matmul on route f16: 1 to GEMV_ROWS activation rows, one warp per 16 weight rows.
 * Not split-K: the same k16 chain per output as the prefill kernel. Weights are the A operand (m16) and activations the
 * n8 side here, the other way round there: products commute and a step's sum is exact before its truncation, so the bits
 * are the same; rows beyond the step are zeros in columns of their own.
 * Idea: the chain is short of parallelism but not of bytes: each warp keeps GEMV_STAGES stages in flight.
 * Source: ours. Exercise: device_parity --op matmul --route f16 */
#include "../cuda/check.h"
#include "../cuda/mma.cuh"
#include "../cuda/probe.cuh"
#include "matmul_cuda.h"

#define GEMV_ROW    (GEMV_BK + GEMM_PAD)
#define GEMV_CHUNKS (GEMV_BK / 8)
#define GEMV_STAGE  ((GEMV_TILE + GEMV_ROWS) * GEMV_ROW * 2)

struct gemv_args {
    const uint16_t *w, *a; /* [n, k_pad], [rows, k_pad] */
    const float *bias;
    float *y;
    int64_t n, k_pad;
    int rows;
};

__device__ __forceinline__ void gemv_stage(uint32_t dst, const gemv_args &g, int64_t n0, int64_t k0) {
#pragma unroll
    for (int i = threadIdx.x; i < (GEMV_TILE + GEMV_ROWS) * GEMV_CHUNKS; i += WARP) {
        int r = i / GEMV_CHUNKS, c = i % GEMV_CHUNKS * 8, ra = r - GEMV_TILE;
        int valid = k0 + c < g.k_pad && (ra < 0 ? n0 + r < g.n : ra < g.rows);
        const uint16_t *src = ra < 0 ? g.w + (n0 + r) * g.k_pad : g.a + (int64_t)ra * g.k_pad;
        copy_async_16(dst + (r * GEMV_ROW + c) * 2, valid ? src + k0 + c : g.a, valid);
    }
}

__global__ void __launch_bounds__(WARP) gemv_f16_kernel(gemv_args g) {
    PROBE_BLOCK();
    extern __shared__ __align__(128) uint8_t smem[];
    int lane = threadIdx.x;
    int64_t n0 = (int64_t)blockIdx.x * GEMV_TILE;
    int n_tiles = (int)((g.k_pad + GEMV_BK - 1) / GEMV_BK), n_steps = (int)(g.k_pad / TC_K);
    uint32_t base = smem_address(smem);
    uint32_t w_lane = lane % 16 * GEMV_ROW * 2 + (FAULT_TOLD(MM_KHALF) ? 0 : lane / 16 * 16);
    uint32_t a_lane = (GEMV_TILE + lane % 8) * GEMV_ROW * 2 + lane / 8 % 2 * 16;
    float acc[4] = {};
    for (int t = 0; t < GEMV_STAGES - 1; t++) {
        if (t < n_tiles) gemv_stage(base + t * GEMV_STAGE, g, n0, (int64_t)t * GEMV_BK);
        copy_async_commit();
    }
    for (int t = 0; t < n_tiles; t++) {
        copy_async_wait<GEMV_STAGES - 2>();
        __syncwarp(); /* stage t has arrived for all lanes; stage t-1 has been read by all */
        int next = t + GEMV_STAGES - 1;
        if (next < n_tiles && !(FAULT_TOLD(MM_ROTATE) && next % GEMV_STAGES == 1))
            gemv_stage(base + next % GEMV_STAGES * GEMV_STAGE, g, n0, (int64_t)next * GEMV_BK);
        copy_async_commit();
        uint32_t at = base + t % GEMV_STAGES * GEMV_STAGE;
        int steps = min(GEMV_BK / TC_K, n_steps - t * (GEMV_BK / TC_K));
#pragma unroll
        for (int s = 0; s < GEMV_BK / TC_K; s += FAULT_TOLD(MM_SKIP) ? 2 : 1) {
            if (s >= steps) break;
            uint32_t w[4], a[2];
            ldmatrix_x4(w, at + w_lane + s * 32);
            ldmatrix_x2(a, at + a_lane + s * 32);
            mma_f16(acc, w, a[0], a[1]);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        int64_t n = n0 + lane / 4 + e / 2 * 8;
        int r = lane % 4 * 2 + e % 2;
        int64_t at = FAULT_TOLD(MM_TNT) ? n * g.rows + r : r * g.n + n;
        if (n < g.n && r < g.rows) g.y[at] = g.bias != NULL ? acc[e] + g.bias[n] : acc[e];
    }
}

enum status matmul_f16_decode(struct cuda_context *c, const struct weight *w, const struct act *a,
                              int64_t rows, float *y, struct err *err) {
    int64_t k_pad = (w->k + TC_K - 1) / TC_K * TC_K;
    gemv_args g = {(const uint16_t *)w->data, a->f16, w->bias, y, w->n, k_pad, (int)rows};
    FAULT_SITES(FAULT_BIT(MM_KHALF) | (k_pad > TC_K ? FAULT_BIT(MM_SKIP) : 0) |
                (rows > 1 ? FAULT_BIT(MM_TNT) : 0) |
                (k_pad > GEMV_BK * GEMV_STAGES ? FAULT_BIT(MM_ROTATE) : 0));
    return cuda_start(c, KERNEL_GEMV_F16, gemv_f16_kernel, dim3(ceil_div(w->n, GEMV_TILE)), dim3(WARP),
                      gemv_smem(), err, g);
}
