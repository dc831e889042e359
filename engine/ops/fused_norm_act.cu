/* fused_norm_act.cu - [add,] rmsnorm and act_prepare of whole rows in one pass: a thread block per row.
 * Not another order: thread t owns columns t, t + 256, .., the contract's lanes; the tree is rmsnorm.cu's. It writes the
 * sum, the normalised row and the prepared row, as the three kernels would.
 * Idea: the row stays in registers between its sum of squares, its scale and its codes.
 * Source: ours. Exercise: device_parity --op step */
#include "../cuda/act.cuh"
#include "../cuda/check.h"
#include "../cuda/norm.cuh"

struct norm_act_args {
    float *x;
    const float *t, *w;
    float eps;
    int cols, cols_pad; /* cols_pad: of an f16 row */
    float *y;
    act_out out;
};

/* Codes of blocks of 256: block i is column t + 256 i of every thread. */
template <int PER>
__device__ __forceinline__ void norm_act_q256(const float v[PER], const norm_act_args &g, int64_t r) {
    __shared__ uint32_t top[PER][NORM_THREADS / WARP];
    __shared__ float inverse[PER];
    __shared__ __align__(16) int8_t codes[PER * NORM_THREADS];
    int t = threadIdx.x, blocks = g.cols / ACT_BLOCK_256;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        uint32_t m = __reduce_max_sync(WARP_ALL, act_magnitude(v[i]));
        if (t % WARP == 0) top[i][t / WARP] = m;
    }
    __syncthreads();
    if (t < blocks) {
        uint32_t m = 0;
#pragma unroll
        for (int w = 0; w < NORM_THREADS / WARP; w++) m = max(m, top[t][w]);
        act_scale s = act_scale_of(__uint_as_float(m), g.out.overflow, true);
        inverse[t] = s.inverse;
        g.out.d[r * blocks + t] = s.d;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER; i++)
        if (i < blocks) codes[i * NORM_THREADS + t] = (int8_t)act_code(v[i], inverse[i]);
    __syncthreads();
    for (int j = t; j < g.cols / ACT_SUM_GROUP; j += NORM_THREADS) {
        int4 c = *(const int4 *)(const void *)&codes[j * ACT_SUM_GROUP];
        *(int4 *)(void *)(g.out.q + r * g.cols + j * ACT_SUM_GROUP) = c;
        g.out.sum[r * (g.cols / ACT_SUM_GROUP) + j] = (int16_t)act_sum16(c);
    }
}

/* Codes of blocks of 32: a warp's i-th column each. */
template <int PER>
__device__ __forceinline__ void norm_act_q32(const float v[PER], const norm_act_args &g, int64_t r) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int c = threadIdx.x + i * NORM_THREADS;
        if (c - lane >= g.cols) break; /* cols is a multiple of a block: the whole warp leaves */
        float amax = __uint_as_float(__reduce_max_sync(WARP_ALL, act_magnitude(v[i])));
        act_scale s = act_scale_of(amax, g.out.overflow, lane == 0);
        int code = act_code(v[i], s.inverse), sum = code;
#pragma unroll
        for (int k = 1; k < ACT_SUM_GROUP; k *= 2) sum += __shfl_xor_sync(WARP_ALL, sum, k);
        g.out.q[r * g.cols + c] = (int8_t)code;
        if (lane % ACT_SUM_GROUP == 0) g.out.sum[(r * g.cols + c) / ACT_SUM_GROUP] = (int16_t)sum;
        if (lane == 0) g.out.d[(r * g.cols + c) / ACT_BLOCK_32] = s.d;
    }
}

template <int PER>
__device__ __forceinline__ void norm_act_f16(const float v[PER], const norm_act_args &g, int64_t r) {
    unsigned over = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int c = threadIdx.x + i * NORM_THREADS;
        uint16_t h = c < g.cols ? f16_bits(v[i]) : (uint16_t)0;
        over += f16_overflows(h);
        if (c < (FAULT_TOLD(Q_PAD) ? g.cols : g.cols_pad)) g.out.f16[r * g.cols_pad + c] = h;
    }
    warp_count(over, g.out.overflow);
}

template <int KIND, int PER>
__global__ void __launch_bounds__(NORM_THREADS) norm_act_kernel(norm_act_args g) {
    __shared__ float lanes[NORM_LANES];
    __shared__ float scale_of_row;
    int t = threadIdx.x;
    int64_t r = blockIdx.x, at = r * g.cols;
    float v[PER], a = 0.0f;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int c = t + i * NORM_THREADS;
        v[i] = c < g.cols ? g.x[at + c] : 0.0f;
    }
    if (g.t != NULL) {
        float add[PER];
#pragma unroll
        for (int i = 0; i < PER; i++)
            add[i] = t + i * NORM_THREADS < g.cols ? g.t[at + t + i * NORM_THREADS] : 0.0f;
#pragma unroll
        for (int i = 0; i < PER; i++) {
            v[i] = v[i] + add[i];
            if (t + i * NORM_THREADS < g.cols) g.x[at + t + i * NORM_THREADS] = v[i];
        }
    }
#pragma unroll
    for (int i = 0; i < PER; i++) /* beyond the row: + 0 * 0 */
        if (!norm_skips(t + i * NORM_THREADS, g.cols)) a = __fmaf_rn(v[i], v[i], a);
    lanes[t] = a;
    __syncthreads();
    if (t < WARP) {
        float lane[8];
#pragma unroll
        for (int j = 0; j < 8; j++) lane[j] = lanes[t + 32 * j];
        float sum = norm_tree(lane);
        if (t == 0) scale_of_row = norm_scale(sum, g.cols, g.eps);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int c = t + i * NORM_THREADS;
        if (c >= g.cols) continue;
        v[i] = (v[i] * scale_of_row) * g.w[c];
        g.y[at + c] = v[i];
    }
    if constexpr (KIND == ACT_F16) norm_act_f16<PER>(v, g, r);
    if constexpr (KIND == ACT_Q8_32) norm_act_q32<PER>(v, g, r);
    if constexpr (KIND == ACT_Q8_256) norm_act_q256<PER>(v, g, r);
}

template <int PER>
static enum status norm_act_launch(struct cuda_context *c, enum act_kind kind, const norm_act_args &g,
                                   int64_t rows, struct err *err) {
    auto kernel = kind == ACT_F16     ? norm_act_kernel<ACT_F16, PER>
                  : kind == ACT_Q8_32 ? norm_act_kernel<ACT_Q8_32, PER>
                                      : norm_act_kernel<ACT_Q8_256, PER>;
    return cuda_start(c, KERNEL_NORM_ACT, kernel, dim3((unsigned)rows), dim3(NORM_THREADS), 0, err, g);
}

extern "C" enum status fused_norm_act(struct cuda_context *c, const struct norm_call *n,
                                      const struct act *out, int *done, struct err *err) {
    int block = act_block(out->kind);
    if (n->cols > NORM_ACT_PER_MAX * NORM_THREADS || n->cols % block != 0) return STATUS_OK;
    norm_act_args g = {n->x,         n->t,
                       n->w,         n->eps,
                       (int)n->cols, ((int)n->cols + TC_K - 1) / TC_K * TC_K,
                       n->y,         act_out_of(out, c->overflow)};
    NORM_SITES(n->cols);
    FAULT_SITES(out->kind != ACT_F16 ? FAULT_BIT(Q_AMAX126) : g.cols < g.cols_pad ? FAULT_BIT(Q_PAD) : 0);
    *done = 1;
    if (g.cols_pad <= 4 * NORM_THREADS) return norm_act_launch<4>(c, out->kind, g, n->rows, err);
    if (g.cols_pad <= 16 * NORM_THREADS) return norm_act_launch<16>(c, out->kind, g, n->rows, err);
    return norm_act_launch<NORM_ACT_PER_MAX>(c, out->kind, g, n->rows, err);
}
