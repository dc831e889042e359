/* matmul_f16.cu - prefill kernel of matmul on route f16: tiled GEMM on tensor cores, one k16 chain per output.
 * Not split-K: the accumulator of an output walks K in ascending steps of TC_K inside one warp, so tile sizes, row counts
 * and the decode kernel (matmul_f16_decode.cu) cannot change a bit.
 * Idea: a cp.async ring of GEMM_STAGES stages, rows padded so that ldmatrix meets no bank conflict, 2 x 4 warps.
 * Source: ours; CUTLASS's multistage structure. Exercise: device_parity --op matmul --route f16 */
#include "../cuda/check.h"
#include "../cuda/mma.cuh"
#include "../cuda/probe.cuh"
#include "matmul_cuda.h"

#define GEMM_ROW     (GEMM_BK + GEMM_PAD) /* elements of a staged row */
#define GEMM_CHUNKS  (GEMM_BK / 8)        /* 16-byte pieces of a row */
#define GEMM_THREADS (GEMM_WARPS * WARP)
#define GEMM_WARP_N  32

struct gemm_operand {
    const uint16_t *p; /* [rows, k_pad] */
    int64_t rows, k_pad;
};

/* Stages `tile` rows from row0, K elements k0 .. k0+GEMM_BK; zeros outside the operand. */
template <int TILE>
__device__ __forceinline__ void gemm_stage(uint32_t dst, const gemm_operand &x, int64_t row0, int64_t k0) {
#pragma unroll
    for (int i = threadIdx.x; i < TILE * GEMM_CHUNKS; i += GEMM_THREADS) {
        int r = i / GEMM_CHUNKS, c = i % GEMM_CHUNKS * 8;
        int valid = row0 + r < x.rows && k0 + c < x.k_pad;
        copy_async_16(dst + (r * GEMM_ROW + c) * 2, valid ? x.p + (row0 + r) * x.k_pad + k0 + c : x.p, valid);
    }
}

/* One k16 step of a warp's MT x 4 tiles. */
template <int MT>
__device__ __forceinline__ void gemm_step(float acc[MT][4][4], uint32_t a_at, uint32_t b_at) {
    uint32_t a[MT][4], b[2][4];
#pragma unroll
    for (int i = 0; i < MT; i++) ldmatrix_x4(a[i], a_at + i * 16 * GEMM_ROW * 2);
#pragma unroll
    for (int j = 0; j < 2; j++) ldmatrix_x4(b[j], b_at + j * 16 * GEMM_ROW * 2);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) mma_f16(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
}

template <int MT>
__device__ __forceinline__ void gemm_store(const float acc[MT][4][4], int64_t row, int64_t col, int64_t rows,
                                           int64_t n, const float *bias, float *y) {
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int64_t r = row + i * 16 + e / 2 * 8, c = col + j * 8 + e % 2;
                if (FAULT_TOLD(MM_CELLS) && j == 2) continue;
                if (r < rows && c < n)
                    y[FAULT_TOLD(MM_TNT) ? c * rows + r : r * n + c] =
                        bias != NULL ? acc[i][j][e] + bias[c] : acc[i][j][e];
            }
}

template <int BM>
__global__ void __launch_bounds__(GEMM_THREADS)
    gemm_f16_kernel(gemm_operand act, gemm_operand w, const float *bias, float *y) {
    PROBE_BLOCK();
    constexpr int MT = BM / 32, STAGE = (BM + GEMM_BN) * GEMM_ROW * 2;
    extern __shared__ __align__(128) uint8_t smem[];
    int64_t row0 = (int64_t)blockIdx.y * BM, col0 = (int64_t)blockIdx.x * GEMM_BN;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, wm = warp / 4, wn = warp % 4;
    int n_tiles = (int)((act.k_pad + GEMM_BK - 1) / GEMM_BK), n_steps = (int)(act.k_pad / TC_K);
    uint32_t base = smem_address(smem);
    uint32_t a_lane = (wm * BM / 2 + lane % 16) * GEMM_ROW * 2 + (FAULT_TOLD(MM_KHALF) ? 0 : lane / 16 * 16);
    uint32_t b_lane = (BM + wn * GEMM_WARP_N + lane / 16 * 8 + lane % 8) * GEMM_ROW * 2 + lane / 8 % 2 * 16;
    float acc[MT][4][4] = {};
    for (int t = 0; t < GEMM_STAGES - 1; t++) {
        if (t < n_tiles) {
            gemm_stage<BM>(base + t * STAGE, act, row0, (int64_t)t * GEMM_BK);
            gemm_stage<GEMM_BN>(base + t * STAGE + BM * GEMM_ROW * 2, w, col0, (int64_t)t * GEMM_BK);
        }
        copy_async_commit();
    }
    for (int t = 0; t < n_tiles; t++) {
        copy_async_wait<GEMM_STAGES - 2>();
        __syncthreads(); /* stage t has arrived for all; stage t-1 has been read by all and may be overwritten */
        int next = t + GEMM_STAGES - 1;
        if (next < n_tiles && !(FAULT_TOLD(MM_ROTATE) && next % GEMM_STAGES == 1)) {
            uint32_t at = base + next % GEMM_STAGES * STAGE;
            gemm_stage<BM>(at, act, row0, (int64_t)next * GEMM_BK);
            gemm_stage<GEMM_BN>(at + BM * GEMM_ROW * 2, w, col0, (int64_t)next * GEMM_BK);
        }
        copy_async_commit();
        uint32_t at = base + t % GEMM_STAGES * STAGE;
        if ((t + 1) * (GEMM_BK / TC_K) <= n_steps) {
#pragma unroll
            for (int s = 0; s < GEMM_BK / TC_K; s += FAULT_TOLD(MM_SKIP) ? 2 : 1)
                gemm_step<MT>(acc, at + a_lane + s * 32, at + b_lane + s * 32);
        } else { /* the last stage is short: a step of zeros would turn -0 into +0 */
            for (int s = 0; s < n_steps - t * (GEMM_BK / TC_K); s += FAULT_TOLD(MM_SKIP) ? 2 : 1)
                gemm_step<MT>(acc, at + a_lane + s * 32, at + b_lane + s * 32);
        }
    }
    gemm_store<MT>(acc, row0 + wm * BM / 2 + lane / 4, col0 + wn * GEMM_WARP_N + lane % 4 * 2, act.rows,
                   w.rows, bias, y);
}

template <int BM>
static enum status gemm_launch(struct cuda_context *c, const gemm_operand &act, const gemm_operand &w,
                               const float *bias, float *y, struct err *err) {
    dim3 grid(ceil_div(w.rows, GEMM_BN), ceil_div(act.rows, BM));
    return cuda_start(c, KERNEL_GEMM_F16, gemm_f16_kernel<BM>, grid, dim3(GEMM_THREADS), gemm_smem(BM), err,
                      act, w, bias, y);
}

enum status matmul_f16_prefill(struct cuda_context *c, const struct weight *w, const struct act *a,
                               int64_t rows, float *y, struct err *err) {
    int64_t k_pad = (w->k + TC_K - 1) / TC_K * TC_K;
    int slow = c->hopper && rows > GEMM_BM_MIN && FAULT(MM_WRONGKEY),
        refused = c->hopper && rows <= GEMM_BM_MIN && FAULT(MM_FALLBACK);
    FAULT_SITES(FAULT_BIT(MM_CELLS) | FAULT_BIT(MM_TNT) | (k_pad > TC_K ? FAULT_BIT(MM_SKIP) : 0) |
                (k_pad > GEMM_BK * GEMM_STAGES ? FAULT_BIT(MM_ROTATE) : 0));
    if (c->hopper && ((rows > GEMM_BM_MIN && !slow) || refused))
        return matmul_f16_hopper(c, w, a, rows, y, err);
    FAULT_SITES(FAULT_BIT(MM_KHALF));
    gemm_operand act = {a->f16, rows, k_pad}, weight = {(const uint16_t *)w->data, w->n, k_pad};
    if (rows <= GEMM_BM_MIN) return gemm_launch<GEMM_BM_MIN>(c, act, weight, w->bias, y, err);
    return gemm_launch<GEMM_BM>(c, act, weight, w->bias, y, err);
}
