/* checksum.cu - what a watcher may do on the device without changing what runs: sum rows where they lie, copy a few bytes
 * out, and ask what waits (backend.h). Not an op, and no golden: see checksum.h.
 * Idea: sums of mixed elements are integers, so threads, slices of a row and atomics add them in any order; calls that
 * wait for a partner (pending.h) are left waiting, so a watched step launches the kernels of an unwatched one.
 * Source: ours. Exercise: ctest -R device.trace */
#include "../checksum.h"

#include "check.h"

static_assert(sizeof(struct row_sum) == 16, "sums are fetched as they lie");

template <int KIND>
__global__ void __launch_bounds__(CHECKSUM_THREADS) row_sums_kernel(row_span s, row_sum *out) {
    __shared__ unsigned long long block_sum;
    __shared__ uint32_t block_largest;
    if (threadIdx.x == 0) block_sum = block_largest = 0;
    __syncthreads();
    const char *row = (const char *)s.data + checksum_offset((row_kind)KIND, blockIdx.x * s.stride);
    unsigned long long sum = 0;
    uint32_t largest = 0;
    int64_t step = (int64_t)CHECKSUM_THREADS * gridDim.y;
    for (int64_t i = (int64_t)blockIdx.y * CHECKSUM_THREADS + threadIdx.x; i < s.cols; i += step) {
        float x = checksum_value((row_kind)KIND, row, i);
        uint32_t magnitude = fm_f32_bits(x) & 0x7fffffffu;
        sum += checksum_element((uint64_t)i, x);
        if (!fm_f32_is_nan(x) && magnitude > largest) largest = magnitude;
    }
    atomicAdd(&block_sum, sum);
    atomicMax(&block_largest, largest);
    __syncthreads();
    if (threadIdx.x != 0) return;
    atomicAdd((unsigned long long *)&out[blockIdx.x].sum, block_sum);
    atomicMax(&out[blockIdx.x].largest, block_largest);
}

static enum status sums_launch(struct cuda_context *c, const row_span *s, row_sum *out, struct err *err) {
    static void (*const kernels[])(row_span, row_sum *) = {
        row_sums_kernel<ROWS_F32>, row_sums_kernel<ROWS_F16>, row_sums_kernel<ROWS_I8>,
        row_sums_kernel<ROWS_I16>, row_sums_kernel<ROWS_Q8_0>};
    unsigned slices = ceil_div(s->cols, (int64_t)CHECKSUM_THREADS * CHECKSUM_PER_THREAD);
    dim3 grid((unsigned)s->n, slices < CHECKSUM_SLICES ? slices : CHECKSUM_SLICES);
    RETURN_IF_ERROR(cuda_fill(c, out, 0, (size_t)s->n * sizeof *out, err));
    return cuda_start(c, KERNEL_CHECKSUM, kernels[s->kind], grid, dim3(CHECKSUM_THREADS), 0, err, *s, out);
}

static enum status sums_fetch(struct cuda_context *c, const struct row_span *s, struct row_sum *host,
                              struct err *err) {
    for (int64_t r = 0; r < s->n; r += CHECKSUM_ROWS) {
        row_span part = *s;
        part.data = (const char *)s->data + checksum_offset(s->kind, r * s->stride);
        part.n = s->n - r < CHECKSUM_ROWS ? s->n - r : CHECKSUM_ROWS;
        RETURN_IF_ERROR(sums_launch(c, &part, c->row_sums, err));
        RETURN_IF_ERROR(
            cuda_copy(c, host + r, c->row_sums, (size_t)part.n * sizeof *host, cudaMemcpyDeviceToHost, err));
    }
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    return STATUS_OK;
}

static enum status bytes_fetch(struct cuda_context *c, void *host, const void *src, size_t bytes,
                               struct err *err) {
    RETURN_IF_ERROR(cuda_copy(c, host, src, bytes, cudaMemcpyDeviceToHost, err));
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    return STATUS_OK;
}

/* What waits is put aside meanwhile: a launch or a copy would settle it. Looking comes before it in the stream, as it does
 * in the order of calls; what waits has not written yet, so nothing of it is looked at. */
extern "C" enum status row_sums_cuda(struct backend *self, const struct row_span *s, struct row_sum *host,
                                     struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    enum pending_kind waiting = c->pending.kind;
    if (s->n == 0 || s->cols == 0) {
        for (int64_t r = 0; r < s->n; r++) host[r] = {0, 0, 0};
        return STATUS_OK;
    }
    c->pending.kind = PENDING_NONE;
    enum status st = sums_fetch(c, s, host, err);
    c->pending.kind = waiting;
    return st;
}

extern "C" enum status peek_cuda(struct backend *self, void *host, const void *src, size_t bytes,
                                 struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    enum pending_kind waiting = c->pending.kind;
    c->pending.kind = PENDING_NONE;
    enum status st = bytes_fetch(c, host, src, bytes, err);
    c->pending.kind = waiting;
    return st;
}

extern "C" int waiting_cuda(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX], int *n) {
    static_assert(CUDA_KERNEL_COUNT <= BACKEND_KERNELS_MAX, "the census must hold every kernel");
    const struct cuda_context *c = cuda_context_of(self);
    for (int i = 0; i < CUDA_KERNEL_COUNT; i++) out[i] = {cuda_kernel_name((enum kernel_id)i), c->calls[i]};
    *n = CUDA_KERNEL_COUNT;
    switch (c->pending.kind) {
    case PENDING_NONE:
        return 0;
    case PENDING_NORM:
        return c->pending.norm.t != NULL ? 2 : 1;
    case PENDING_ROPE:
        return c->pending.rope.parts;
    case PENDING_ADD:
    case PENDING_SWIGLU:
    case PENDING_MERGE:
        return 1;
    }
    return 0;
}

extern "C" int kernel_counts_cuda(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX]) {
    int n = 0;
    cuda_settle_quietly(cuda_context_of(self));
    (void)waiting_cuda(self, out, &n);
    return n;
}
