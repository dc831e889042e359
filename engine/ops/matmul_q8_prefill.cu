/* matmul_q8_prefill.cu - prefill kernel of matmul on route q8 (MMQ): int8 tensor cores over tiles of 128 x 64 outputs.
 * Not split-K: each output's f32 chain over blocks runs in ascending order in one thread, as in the decode kernel.
 * Idea: a stage is 256 of K: codes of the weight tile are decoded into shared memory with their offset taken off, so that
 * the MMA gives exact sub-block dots; integer sub-scales multiply them in registers.
 * Source: ours; the structure of ggml's mmq. Exercise: device_parity --op matmul --route q8 */
#include "../cuda/check.h"
#include "../cuda/units.cuh"
#include "../cuda/probe.cuh"
#include "matmul_cuda.h"

#define MMQ_ROW     (MMQ_BK + MMQ_PAD) /* bytes of a staged row of codes */
#define MMQ_THREADS (MMQ_WARPS * WARP)
#define MMQ_BLOCKS  (MMQ_BK / QK_32) /* blocks of 32 in a stage */

struct mmq_args {
    weight_planes w;
    const int8_t *q;    /* [rows, k] */
    const float *d;     /* [rows, k/BLOCK] */
    const int16_t *sum; /* [rows, k/16] */
    const float *bias;
    float *y;
    int64_t n, k, rows;
    int n_blocks; /* of a row, of the type's own size */
};

/* One stage in shared memory. K-quants use column 0 of dm and da. */
struct mmq_stage {
    int8_t w[MMQ_BN][MMQ_ROW];
    int8_t a[MMQ_BM][MMQ_ROW];
    uint8_t scale[MMQ_BN][MMQ_SUBS]; /* q4_K, q5_K: 8 scales, 8 mins; q6_K: 16 signed scales */
    float2 dm[MMQ_BN][MMQ_BLOCKS];
    float da[MMQ_BM][MMQ_BLOCKS];
    int16_t sum[MMQ_BM][MMQ_BLOCKS]; /* of 32 activation codes */
};

static_assert(sizeof(mmq_stage) == mmq_smem(), "launch.h says what a block asks for");

template <int T>
__device__ __forceinline__ void mmq_stage_unit(mmq_stage &s, const mmq_args &g, int r, int64_t n, int b,
                                               int col, int q) {
    using U = unit_of<T>;
    constexpr uint32_t OFFSET = T == DTYPE_Q4_0 ? 8 : T == DTYPE_Q5_0 ? 16 : T == DTYPE_Q6_K ? 32 : 0;
    bool live = n < g.n && b < g.n_blocks;
    int64_t block = n * g.n_blocks + b;
    U u;
    if (live) unit_load<T>(u, g.w, block, q);
#pragma unroll
    for (int i = 0; i < U::GROUPS; i++) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (live) {
            v = make_uint4(u.w[i][0], u.w[i][1], u.w[i][2], u.w[i][3]);
            if (OFFSET != 0)
                v = make_uint4(bytes_minus(v.x, OFFSET), bytes_minus(v.y, OFFSET), bytes_minus(v.z, OFFSET),
                               bytes_minus(v.w, OFFSET));
        }
        int at = col * U::BLOCK + unit_at<T>(q, i);
        *(uint4 *)(void *)&s.w[r][at] = v;
        int scale = live ? u.scale[i] : 0, min = live ? u.min[i] : 0;
        if (T == DTYPE_Q6_K) s.scale[r][at / 16] = (uint8_t)scale;
        if (U::K && U::MIN && i % 2 == 0) {
            s.scale[r][at / 32] = (uint8_t)scale;
            s.scale[r][8 + at / 32] = (uint8_t)min;
        }
    }
    if (q == 0) s.dm[r][col] = live ? block_scales<T>(g.w, block) : make_float2(0.0f, 0.0f);
}

template <int T>
__device__ __forceinline__ void mmq_load(mmq_stage &s, const mmq_args &g, int64_t n0, int64_t row0,
                                         int64_t k0) {
    using U = unit_of<T>;
    constexpr int PER_ROW = MMQ_BK / U::ELEMENTS;
    int b0 = (int)(k0 / U::BLOCK);
    for (int i = threadIdx.x; i < MMQ_BN * PER_ROW; i += MMQ_THREADS) {
        int r = i / PER_ROW, j = i % PER_ROW, col = j / U::PER_BLOCK;
        mmq_stage_unit<T>(s, g, r, n0 + r, b0 + col, col, j % U::PER_BLOCK);
    }
    for (int i = threadIdx.x; i < MMQ_BM * (MMQ_BK / 16); i += MMQ_THREADS) {
        int r = i / (MMQ_BK / 16), c = i % (MMQ_BK / 16) * 16;
        bool live = row0 + r < g.rows && k0 + c < g.k;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (live) v = *(const uint4 *)(const void *)(g.q + codes_at(row0 + r, g.rows, g.k) + k0 + c);
        *(uint4 *)(void *)&s.a[r][c] = v;
    }
    for (int i = threadIdx.x; i < MMQ_BM * MMQ_BLOCKS; i += MMQ_THREADS) {
        int r = i / MMQ_BLOCKS, c = i % MMQ_BLOCKS;
        bool live = row0 + r < g.rows && k0 + c * QK_32 < g.k;
        const int16_t *sum = g.sum + ((row0 + r) * g.k + k0 + c * QK_32) / ACT_SUM_GROUP;
        s.sum[r][c] = live ? (int16_t)(sum[0] + sum[1]) : (int16_t)0;
        if (U::K && c > 0) continue;
        s.da[r][c] = live ? g.d[(row0 + r) * g.n_blocks + b0 + c] : 0.0f;
    }
}

/* What a warp holds: 2 x 4 tiles of 16 weight rows x 8 activation rows. */
struct mmq_tiles {
    float acc[2][4][4];
};

/* Codes of one 32-element step of the warp's tiles. */
struct mmq_codes {
    uint32_t w[2][4], a[2][4];
};
__device__ __forceinline__ mmq_codes mmq_fetch(uint32_t w_at, uint32_t a_at, int sub) {
    mmq_codes c;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ldmatrix_x4(c.w[i], w_at + i * 16 * MMQ_ROW + sub * 32);
        ldmatrix_x4(c.a[i], a_at + i * 16 * MMQ_ROW + sub * 32);
        if (FAULT_TOLD(MM_SKIP)) c.w[i][2] = c.w[i][3] = 0; /* the second 16 of 32 */
    }
    return c;
}

/* Blocks of 32: one link of every output's chain per step. */
template <int T>
__device__ __forceinline__ void mmq_step_32(mmq_tiles &t, const mmq_stage &s, uint32_t w_at, uint32_t a_at,
                                            int wr, int ar, int sub) {
    mmq_codes c = mmq_fetch(w_at, a_at, sub);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float da[2] = {s.da[ar + j * 8][sub], s.da[ar + j * 8 + 1][sub]};
        float sum[2] = {(float)s.sum[ar + j * 8][sub], (float)s.sum[ar + j * 8 + 1][sub]};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int dot[4] = {0, 0, 0, 0};
            mma_s8_k32(dot, c.w[i], c.a[j / 2][j % 2 * 2], c.a[j / 2][j % 2 * 2 + 1]);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float2 dm = s.dm[wr + i * 16 + e / 2 * 8][sub];
                t.acc[i][j][e] = __fmaf_rn(dm.x * da[e % 2], (float)dot[e], t.acc[i][j][e]);
                if (unit_of<T>::MIN) t.acc[i][j][e] = __fmaf_rn(dm.y * da[e % 2], sum[e % 2], t.acc[i][j][e]);
            }
        }
    }
}

/* I of one super-block for every output of the warp: integer sub-scales times exact dots. */
template <int T>
__device__ __forceinline__ void mmq_super_dots(int sums[2][4][4], const mmq_stage &s, uint32_t w_at,
                                               uint32_t a_at, int wr) {
#pragma unroll
    for (int sub = 0; sub < MMQ_BLOCKS; sub++) {
        mmq_codes c = mmq_fetch(w_at, a_at, sub);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t *b = &c.a[j / 2][j % 2 * 2];
                int dot[4] = {0, 0, 0, 0}, high[4] = {0, 0, 0, 0};
                if (T == DTYPE_Q6_K) {
                    mma_s8_k16(dot, c.w[i][0], c.w[i][1], b[0]);
                    mma_s8_k16(high, c.w[i][2], c.w[i][3], b[1]);
                } else {
                    mma_s8_k32(dot, c.w[i], b[0], b[1]);
                }
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const uint8_t *scale = s.scale[wr + i * 16 + e / 2 * 8];
                    if (T == DTYPE_Q6_K)
                        sums[i][j][e] +=
                            (int8_t)scale[2 * sub] * dot[e] + (int8_t)scale[2 * sub + 1] * high[e];
                    else
                        sums[i][j][e] += scale[sub] * dot[e];
                }
            }
    }
}

/* The super-block's link of every output's chain. */
template <int T>
__device__ __forceinline__ void mmq_super(mmq_tiles &t, const mmq_stage &s, uint32_t w_at, uint32_t a_at,
                                          int wr, int ar) {
    int sums[2][4][4] = {};
    mmq_super_dots<T>(sums, s, w_at, a_at, wr);
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int a = ar + j * 8 + e % 2;
            float da = s.da[a][0];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int w = wr + i * 16 + e / 2 * 8;
                float2 dm = s.dm[w][0];
                t.acc[i][j][e] = __fmaf_rn(dm.x * da, (float)sums[i][j][e], t.acc[i][j][e]);
                if (!unit_of<T>::MIN) continue;
                int m = 0;
#pragma unroll
                for (int b = 0; b < MMQ_BLOCKS; b++) m += s.scale[w][8 + b] * s.sum[a][b];
                t.acc[i][j][e] = __fmaf_rn(-(dm.y * da), (float)m, t.acc[i][j][e]);
            }
        }
}

template <int T> __global__ void __launch_bounds__(MMQ_THREADS, MMQ_RESIDENT) mmq_kernel(mmq_args g) {
    PROBE_BLOCK();
    extern __shared__ __align__(128) uint8_t smem[];
    mmq_stage &s = *(mmq_stage *)(void *)smem;
    int64_t n0 = (int64_t)blockIdx.x * MMQ_BN, row0 = (int64_t)blockIdx.y * MMQ_BM;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, wn = warp % 4 * 32, wm = warp / 4 * 32;
    uint32_t w_at = smem_address(&s.w[wn + lane % 16][FAULT_TOLD(MM_KHALF) ? 0 : lane / 16 * 16]);
    uint32_t a_at = smem_address(&s.a[wm + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 16]);
    int wr = wn + lane / 4, ar = wm + lane % 4 * 2;
    mmq_tiles t = {};
    for (int64_t k0 = 0; k0 < g.k; k0 += MMQ_BK) {
        if (!FAULT_TOLD(MM_ROTATE) || k0 / MMQ_BK % 2 == 0 || k0 == MMQ_BK) mmq_load<T>(s, g, n0, row0, k0);
        __syncthreads();
        if constexpr (unit_of<T>::K) {
            mmq_super<T>(t, s, w_at, a_at, wr, ar);
        } else { /* blocks past the end of the row are no links of the chain */
            int blocks = (int)min((int64_t)MMQ_BLOCKS, (g.k - k0) / QK_32);
            for (int sub = 0; sub < blocks; sub++) mmq_step_32<T>(t, s, w_at, a_at, wr, ar, sub);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int64_t n = n0 + wr + i * 16 + e / 2 * 8, r = row0 + ar + j * 8 + e % 2;
                if (n >= g.n || r >= g.rows || (FAULT_TOLD(MM_CELLS) && i == 1 && j == 2)) continue;
                int64_t at = FAULT_TOLD(MM_TNT) ? n * g.rows + r : r * g.n + n;
                g.y[at] = g.bias != NULL ? t.acc[i][j][e] + g.bias[n] : t.acc[i][j][e];
            }
}

template <int T>
static enum status mmq_launch(struct cuda_context *c, enum kernel_id id, const mmq_args &g, struct err *err) {
    dim3 grid(ceil_div(g.n, MMQ_BN), ceil_div(g.rows, MMQ_BM));
    FAULT_SITES(FAULT_BIT(MM_CELLS) | (g.k > 3 * MMQ_BK ? FAULT_BIT(MM_ROTATE) : 0));
    if (FAULT(MM_SMEMFAIL)) { /* more than the cap, and nobody asks how it went */
        (void)cuda_start(c, id, mmq_kernel<T>, grid, dim3(MMQ_THREADS), c->smem_optin + 1, err, g);
        return STATUS_OK;
    }
    return cuda_start(c, id, mmq_kernel<T>, grid, dim3(MMQ_THREADS), mmq_smem(), err, g);
}

enum status matmul_q8_prefill(struct cuda_context *c, const struct weight *w, const struct act *a,
                              int64_t rows, float *y, struct err *err) {
    int n_blocks = (int)(w->k / act_block(w->act));
    mmq_args g = {planes_locate(w->dtype, w->data, (size_t)(w->n * n_blocks)),
                  a->q,
                  a->d,
                  a->sum,
                  w->bias,
                  y,
                  w->n,
                  w->k,
                  rows,
                  n_blocks};
    UNIT_SITES(w->dtype, rows, w->k);
    switch (w->dtype) {
    case DTYPE_Q8_0:
        return mmq_launch<DTYPE_Q8_0>(c, KERNEL_MMQ_Q8_0, g, err);
    case DTYPE_Q4_0:
        return mmq_launch<DTYPE_Q4_0>(c, KERNEL_MMQ_Q4_0, g, err);
    case DTYPE_Q4_1:
        return mmq_launch<DTYPE_Q4_1>(c, KERNEL_MMQ_Q4_1, g, err);
    case DTYPE_Q5_0:
        return mmq_launch<DTYPE_Q5_0>(c, KERNEL_MMQ_Q5_0, g, err);
    case DTYPE_Q5_1:
        return mmq_launch<DTYPE_Q5_1>(c, KERNEL_MMQ_Q5_1, g, err);
    case DTYPE_Q4_K:
        return mmq_launch<DTYPE_Q4_K>(c, KERNEL_MMQ_Q4_K, g, err);
    case DTYPE_Q5_K:
        return mmq_launch<DTYPE_Q5_K>(c, KERNEL_MMQ_Q5_K, g, err);
    case DTYPE_Q6_K:
        return mmq_launch<DTYPE_Q6_K>(c, KERNEL_MMQ_Q6_K, g, err);
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        break;
    }
    return err_set(err, STATUS_UNSUPPORTED, "route q8 does not multiply %s weights",
                   dtype_info((int)w->dtype)->name);
}
