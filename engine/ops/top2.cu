/* top2.cu - kernels of top2: a census and the two largest logits of a row, shared by many blocks.
 * Not a sampler. Idea: (larger logit, then lower id) is a total order, so any merge order gives the twin's answer;
 * TOP2_PARTS blocks take contiguous slices of a row, one more block merges their results.
 * Source: ours. Exercise: device_parity --op top2 */
#include "../cuda/check.h"
#include "../cuda/reduce.cuh"
#include "../fmath.h"

/* Is (logit a, id ia) ahead of (b, ib)? id -1 is "none". Equal logits, +0 and -0 included: the lower id. */
__device__ __forceinline__ bool top2_ahead(float a, int ia, float b, int ib) {
    if (ia < 0 || ib < 0) return ia >= 0;
    return a > b || (a == b && (FAULT_TOLD(RT_TIE) ? ia > ib : ia < ib));
}

__device__ __forceinline__ void top2_offer(top2 &t, float x, int id) {
    if (top2_ahead(x, id, t.logit1, t.id1)) {
        t.logit2 = t.logit1;
        t.id2 = t.id1;
        t.logit1 = x;
        t.id1 = id;
    } else if (top2_ahead(x, id, t.logit2, t.id2)) {
        t.logit2 = x;
        t.id2 = id;
    }
}

__device__ __forceinline__ top2 top2_none() {
    float lowest = fm_f32_from_bits(0xff800000u);
    return {-1, -1, lowest, lowest, 0, 0, -1};
}

__device__ __forceinline__ void top2_join(top2 &t, const top2 &o) {
    top2_offer(t, o.logit1, o.id1);
    top2_offer(t, o.logit2, o.id2);
    t.n_nan += o.n_nan;
    t.n_inf += o.n_inf;
    if (o.first_bad >= 0 && (t.first_bad < 0 || o.first_bad < t.first_bad)) t.first_bad = o.first_bad;
}

/* Joins the results of all threads of the block; valid in thread 0. */
__device__ void top2_block(top2 &mine) {
    __shared__ top2 all[TOP2_THREADS];
    all[threadIdx.x] = mine;
    __syncthreads();
    for (int s = TOP2_THREADS / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) top2_join(all[threadIdx.x], all[threadIdx.x + s]);
        __syncthreads();
    }
    mine = all[0];
}

__global__ void __launch_bounds__(TOP2_THREADS)
    top2_part_kernel(const float *logits, int64_t n, int64_t stride, top2 *parts) {
    int64_t r = blockIdx.y, slice = (n + TOP2_PARTS - 1) / TOP2_PARTS, begin = blockIdx.x * slice;
    int64_t end = begin + slice < n ? begin + slice : n;
    const float *x = logits + r * stride;
    top2 t = top2_none();
    for (int64_t i = begin + threadIdx.x; i < end; i += TOP2_THREADS) {
        float v = x[i];
        int nan = fm_f32_is_nan(v), inf = fm_f32_bits(v) == 0x7f800000u;
        if ((nan || inf) && !FAULT_TOLD(RT_NAN)) {
            t.n_nan += nan;
            t.n_inf += inf;
            if (t.first_bad < 0) t.first_bad = (int32_t)i;
        } else {
            top2_offer(t, v, (int)i);
        }
    }
    top2_block(t);
    if (threadIdx.x == 0) parts[r * TOP2_PARTS + blockIdx.x] = t;
}

__global__ void __launch_bounds__(TOP2_THREADS) top2_merge_kernel(const top2 *parts, top2 *out) {
    top2 t = threadIdx.x < TOP2_PARTS ? parts[(int64_t)blockIdx.x * TOP2_PARTS + threadIdx.x] : top2_none();
    top2_block(t);
    if (threadIdx.x == 0) out[blockIdx.x] = t;
}

extern "C" enum status top2_cuda(struct backend *self, const float *logits, int64_t rows, int64_t n_vocab,
                                 int64_t stride, struct top2 *out, struct err *err) {
    static_assert(TOP2_PARTS <= TOP2_THREADS, "the merge takes one part per thread");
    struct cuda_context *c = cuda_context_of(self);
    FAULT_SITES(FAULT_BIT(RT_TIE) | FAULT_BIT(RT_NAN));
    if (n_vocab < stride && FAULT(RT_PAD_VOCAB)) n_vocab = stride;
    for (int64_t r = 0; r < rows; r += TOP2_ROWS) { /* what the parts have room for */
        unsigned n = (unsigned)(rows - r < TOP2_ROWS ? rows - r : TOP2_ROWS);
        RETURN_IF_ERROR(cuda_start(c, KERNEL_TOP2_PART, top2_part_kernel, dim3(TOP2_PARTS, n),
                                   dim3(TOP2_THREADS), 0, err, logits + r * stride, n_vocab, stride,
                                   c->top2_parts));
        RETURN_IF_ERROR(cuda_start(c, KERNEL_TOP2_MERGE, top2_merge_kernel, dim3(n), dim3(TOP2_THREADS), 0,
                                   err, c->top2_parts, out + r));
    }
    return STATUS_OK;
}
