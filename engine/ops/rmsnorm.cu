/* rmsnorm.cu - kernels of rmsnorm: a warp per short row, a block per long one, the same tree in both.
 * Not two orders: lanes that own no column hold +0, so where the tree is cut between threads does not matter.
 * Idea: thread t of the warp kernel holds lanes t, t+32, .. t+224; the first three levels of the tree stay in registers.
 * Source: Zhang & Sennrich 2019, eq. 4; order in ops.h. Exercise: device_parity --op rmsnorm */
#include "../cuda/check.h"
#include "../cuda/norm.cuh"

__global__ void __launch_bounds__(NORM_WARP_ROWS *WARP)
    rmsnorm_warp_kernel(const float *x, const float *w, float eps, int64_t rows, int64_t cols, float *y) {
    int64_t r = (int64_t)blockIdx.x * NORM_WARP_ROWS + threadIdx.x / WARP;
    int t = threadIdx.x % WARP;
    if (r >= rows) return;
    x += r * cols;
    y += r * cols;
    float lane[8] = {};
    for (int64_t c0 = 0; c0 < cols; c0 += NORM_LANES)
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int64_t c = c0 + t + 32 * j;
            if (c < cols && !norm_skips(c, cols)) lane[j] = __fmaf_rn(x[c], x[c], lane[j]);
        }
    float scale = norm_scale(__shfl_sync(WARP_ALL, norm_tree(lane), 0), cols, eps);
    for (int64_t c = t; c < cols; c += WARP) y[c] = (x[c] * scale) * w[c];
}

__global__ void __launch_bounds__(NORM_THREADS)
    rmsnorm_row_kernel(const float *x, const float *w, float eps, int64_t cols, float *y) {
    __shared__ float lanes[NORM_LANES];
    __shared__ float scale_of_row;
    int t = threadIdx.x;
    x += (int64_t)blockIdx.x * cols;
    y += (int64_t)blockIdx.x * cols;
    float a = 0.0f;
#pragma unroll 4
    for (int64_t c = t; c < cols; c += NORM_LANES)
        if (!norm_skips(c, cols)) a = __fmaf_rn(x[c], x[c], a);
    lanes[t] = a;
    __syncthreads();
    if (t < WARP) {
        float lane[8];
#pragma unroll
        for (int j = 0; j < 8; j++) lane[j] = lanes[t + 32 * j];
        float sum = norm_tree(lane);
        if (t == 0) scale_of_row = norm_scale(sum, cols, eps);
    }
    __syncthreads();
    float scale = scale_of_row;
#pragma unroll 4
    for (int64_t c = t; c < cols; c += NORM_LANES) y[c] = (x[c] * scale) * w[c];
}

extern "C" enum status norm_launch(struct cuda_context *c, const struct norm_call *n, struct err *err) {
    NORM_SITES(n->cols);
    if (n->cols <= NORM_WARP_COLS)
        return cuda_start(c, KERNEL_RMSNORM_WARP, rmsnorm_warp_kernel,
                          dim3(ceil_div(n->rows, NORM_WARP_ROWS)), dim3(NORM_WARP_ROWS * WARP), 0, err, n->x,
                          n->w, n->eps, n->rows, n->cols, n->y);
    return cuda_start(c, KERNEL_RMSNORM_ROW, rmsnorm_row_kernel, dim3((unsigned)n->rows), dim3(NORM_THREADS),
                      0, err, n->x, n->w, n->eps, n->cols, n->y);
}

/* Joins a waiting add of the same rows, and waits itself: act_prepare of y usually follows. */
extern "C" enum status rmsnorm_cuda(struct backend *self, const float *x, const float *w, float eps,
                                    int64_t rows, int64_t cols, float *y, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    struct norm_call *n = &c->pending.norm;
    bool joins = c->pending.kind == PENDING_ADD && n->x == x && n->n == rows * cols && y != x;
    if (!joins) {
        RETURN_IF_ERROR(cuda_settle(c, err));
        *n = {(float *)x, NULL, NULL, 0.0f, rows * cols, 0, 0, NULL};
    }
    n->w = w;
    n->eps = eps;
    n->rows = rows;
    n->cols = cols;
    n->y = y;
    c->pending.kind = PENDING_NORM;
    return STATUS_OK;
}
