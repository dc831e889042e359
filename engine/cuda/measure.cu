/* measure.cu - for `forkgate bench --kernels`: a group of calls as one captured graph, and what the device can do at most.
 * Not in any op's path, not in the launch census, and no profiler: these loops only say what a rate is a share of.
 * Idea: read and copy walk memory far larger than the L2; the multiply loops issue products on operands that never leave
 * shared memory or registers, with ordinary values (zeros would draw less power and clock higher).
 * Source: ours. Exercise: forkgate bench --kernels --backend cuda */
#include <time.h>

#include "check.h"
#include "hopper.cuh"
#include "mma.cuh"

#define CEILING_BYTES   ((size_t)1 << 30)
#define CEILING_THREADS 256
#define CEILING_BLOCKS  8 /* of an SM, for memory */
#define MULTIPLY_STEPS  8192
#define MULTIPLY_UNROLL 4 /* products in flight before a wait */
#define S8_TILES        8 /* accumulators of a warp: independent chains */
#define S8_BLOCKS       4
#define TILE_BYTES      (128 * 64 * 2 + 256 * 64 * 2) /* two groups of 64 rows of A, 256 of B, 64 of K */
#define CEILING_ALIGN   1024

/* ---- memory ------------------------------------------------------------------------------------------------------ */

__global__ void __launch_bounds__(CEILING_THREADS) read_kernel(const uint4 *x, size_t n, uint4 *out) {
    uint4 sum = make_uint4(0, 0, 0, 0);
    for (size_t i = (size_t)blockIdx.x * CEILING_THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * CEILING_THREADS) {
        uint4 v = x[i];
        sum = make_uint4(sum.x ^ v.x, sum.y ^ v.y, sum.z ^ v.z, sum.w ^ v.w);
    }
    if (sum.x == 0x12345678u && sum.y == sum.z) out[0] = sum; /* never, but the reads are needed to know */
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

/* Two warpgroups, each m64 n256 k16 over and over. */
__global__ void __launch_bounds__(CEILING_THREADS, 1) f16_kernel(int steps, float *out) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t smem[];
    uint32_t base = (smem_address(smem) + CEILING_ALIGN - 1) / CEILING_ALIGN * CEILING_ALIGN;
    uint16_t *fill = (uint16_t *)(smem + (base - smem_address(smem)));
    for (int i = threadIdx.x; i < TILE_BYTES / 2; i += CEILING_THREADS)
        fill[i] = (uint16_t)(0x3400 + ((uint32_t)i * 2654435761u >> 22) + (i % 2 << 15)); /* +-0.25 .. 0.5 */
    __syncthreads();
    asm volatile("fence.proxy.async;" ::: "memory");
    uint64_t a = wgmma_rows(base + threadIdx.x / 128 * 64 * 64 * 2), b = wgmma_rows(base + 128 * 64 * 2);
    float acc[128];
#pragma unroll
    for (int i = 0; i < 128; i++) acc[i] = 0.0f;
    for (int s = 0; s < steps; s += MULTIPLY_UNROLL) {
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < MULTIPLY_UNROLL; k++)
            wgmma_shared(acc, a + k * (TC_K * 2 >> 4), b + k * (TC_K * 2 >> 4));
        wgmma_commit();
        wgmma_wait<0>();
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 128; i++) sum += acc[i];
    out[blockIdx.x * CEILING_THREADS + threadIdx.x] = sum;
#else
    (void)steps;
    (void)out;
#endif
}

__global__ void __launch_bounds__(CEILING_THREADS) s8_kernel(int steps, int *out) {
    int acc[S8_TILES][4] = {};
    uint32_t a[4], b[S8_TILES];
    for (int i = 0; i < 4; i++) a[i] = (threadIdx.x * 4 + i + 1) * 2654435761u;
    for (int i = 0; i < S8_TILES; i++) b[i] = (threadIdx.x * S8_TILES + i + 7) * 2246822519u;
    for (int s = 0; s < steps; s++)
#pragma unroll
        for (int i = 0; i < S8_TILES; i++) mma_s8_k32(acc[i], a, b[i], b[(i + 1) % S8_TILES]);
    int sum = 0;
    for (int i = 0; i < S8_TILES; i++) sum += acc[i][0] ^ acc[i][1] ^ acc[i][2] ^ acc[i][3];
    out[blockIdx.x * CEILING_THREADS + threadIdx.x] = sum;
}

/* ---- timing -------------------------------------------------------------------------------------------------------- */

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum status graph_of_calls(struct cuda_context *c, backend_call *call, void *ctx, int n,
                                  cudaGraphExec_t *exec, struct err *err) {
    cudaGraph_t graph = NULL;
    enum status s = STATUS_OK;
    CUDA_TRY(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal), err);
    for (int i = 0; i < n && s == STATUS_OK; i++) {
        s = call(ctx, i, err);
        if (s == STATUS_OK) s = cuda_settle(c, err); /* one call a launch: nothing waits for a partner */
    }
    cudaError_t e = cudaStreamEndCapture(c->stream, &graph);
    if (cuda_refused("cudaStreamEndCapture")) e = cudaErrorUnknown; /* a capture must end */
    if (s == STATUS_OK && e != cudaSuccess)
        s = cuda_failed(e, "cudaStreamEndCapture", __FILE__, __LINE__, err);
    if (s == STATUS_OK) {
        e = CUDA_CALL(cudaGraphInstantiate(exec, graph, 0));
        if (e != cudaSuccess) s = cuda_failed(e, "cudaGraphInstantiate", __FILE__, __LINE__, err);
    }
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    return s;
}

static enum status time_calls(struct backend *self, backend_call *call, void *ctx, int n, double *seconds,
                              struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    cudaGraphExec_t exec = NULL;
    cudaError_t e = cudaSuccess;
    RETURN_IF_ERROR(call(ctx, 0, err)); /* outside: shared memory is asked for */
    RETURN_IF_ERROR(self->sync(self, err));
    RETURN_IF_ERROR(graph_of_calls(c, call, ctx, n, &exec, err));
    for (int i = 0; i < 2 && e == cudaSuccess; i++) { /* the first launch uploads the graph */
        double start = now_s();
        e = CUDA_CALL(cudaGraphLaunch(exec, c->stream));
        if (e == cudaSuccess) e = CUDA_CALL(cudaStreamSynchronize(c->stream));
        *seconds = now_s() - start;
    }
    (void)cudaGraphExecDestroy(exec);
    return e == cudaSuccess ? STATUS_OK : cuda_failed(e, "cudaGraphLaunch", __FILE__, __LINE__, err);
}

/* ---- ceilings ------------------------------------------------------------------------------------------------------ */

struct loop {
    struct cuda_context *c;
    enum ceiling what;
    void *x, *y;
};

static enum status loop_call(void *ctx, int i, struct err *err) {
    const struct loop *l = (const struct loop *)ctx;
    size_t pieces = CEILING_BYTES / sizeof(uint4), smem = TILE_BYTES + CEILING_ALIGN;
    int steps = MULTIPLY_STEPS;
    void *reads[] = {(void *)&l->x, (void *)&pieces, (void *)&l->y}, *products[] = {&steps, (void *)&l->y};
    dim3 wide((unsigned)(l->c->n_sm * CEILING_BLOCKS)), block(CEILING_THREADS);
    (void)i;
    switch (l->what) {
    case CEILING_READ:
        return cuda_launch_loop(l->c, "ceiling_read", KERNEL_HANDLE(read_kernel), wide, block, 0, reads, err);
    case CEILING_COPY:
        return cuda_copy(l->c, l->y, l->x, CEILING_BYTES, cudaMemcpyDeviceToDevice, err);
    case CEILING_F16:
        return cuda_launch_loop(l->c, "ceiling_f16", KERNEL_HANDLE(f16_kernel), dim3((unsigned)l->c->n_sm),
                                block, smem, products, err);
    case CEILING_S8:
        return cuda_launch_loop(l->c, "ceiling_s8", KERNEL_HANDLE(s8_kernel),
                                dim3((unsigned)(l->c->n_sm * S8_BLOCKS)), block, 0, products, err);
    case CEILINGS:
        break;
    }
    return err_set(err, STATUS_USAGE, "ceiling %d", (int)l->what);
}

/* Bytes, or multiplications and additions, of one call. */
static double loop_work(const struct loop *l) {
    switch (l->what) {
    case CEILING_READ:
        return (double)CEILING_BYTES;
    case CEILING_COPY:
        return 2.0 * (double)CEILING_BYTES;
    case CEILING_F16:
        return 2.0 * 2 * 64 * 256 * TC_K * (double)MULTIPLY_STEPS * l->c->n_sm;
    case CEILING_S8:
        return 2.0 * 16 * 8 * 32 * S8_TILES * (double)MULTIPLY_STEPS * (CEILING_THREADS / WARP) * S8_BLOCKS *
               l->c->n_sm;
    case CEILINGS:
        break;
    }
    return 0.0;
}

static enum status ceiling_of(struct backend *self, enum ceiling what, double *per_second, struct err *err) {
    enum { CALLS = 16 };
    struct loop l = {cuda_context_of(self), what, NULL, NULL};
    double seconds = 0.0;
    *per_second = 0.0;
    if (what == CEILING_F16 && !l.c->hopper) return STATUS_OK;
    enum status s = self->alloc(self, CEILING_BYTES, &l.x, err);
    if (s == STATUS_OK) s = self->alloc(self, CEILING_BYTES, &l.y, err);
    if (s == STATUS_OK) s = self->fill(self, l.x, 1, CEILING_BYTES, err);
    if (s == STATUS_OK) s = self->time_calls(self, loop_call, &l, CALLS, &seconds, err);
    if (s == STATUS_OK) *per_second = CALLS * loop_work(&l) / seconds;
    self->free(self, l.x);
    self->free(self, l.y);
    return s;
}

static enum status memory_used(struct backend *self, size_t *bytes, struct err *err) {
    size_t all = 0, left = 0;
    RETURN_IF_ERROR(self->sync(self, err));
    CUDA_TRY(cudaMemGetInfo(&left, &all), err);
    *bytes = all - left;
    return STATUS_OK;
}

extern "C" void cuda_measure_table(struct backend *b) {
    b->launches = cuda_launches;
    b->time_calls = time_calls;
    b->ceiling = ceiling_of;
    b->memory_used = memory_used;
}
