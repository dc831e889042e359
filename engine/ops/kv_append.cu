/* kv_append.cu - kernels of kv_append: the step's keys and values into their caches, as f16 or q8_0 blocks.
 * Not paged: position-major rows, one per token.
 * Idea: the grid is (elements, rows, k or v); which cache and which position a row goes to is read on the device.
 * Source: ops.h. Exercise: device_parity --op kv_append */
#include "../cuda/check.h"
#include "../cuda/mma.cuh"
#include "../cuda/reduce.cuh"
#include "../fmath.h"

#define KV_AMAX_MIN 0x1p-14f /* as the twin */

/* Element offset of row r in its cache's layer. */
__device__ __forceinline__ int64_t kv_row_at(const kv_view &kv, int layer, int pos) {
    return ((int64_t)layer * kv.n_ctx + pos) * kv.n_kv_head * kv.head_dim;
}

__global__ void __launch_bounds__(ELEMENT_THREADS)
    kv_append_f16_kernel(kv_view kv, const int32_t *pos, int layer, const float *k, const float *v,
                         unsigned long long *overflow) {
    int r = blockIdx.y, i = blockIdx.x * ELEMENT_THREADS + threadIdx.x, n = kv.n_kv_head * kv.head_dim;
    int seq = kv.per_row && !FAULT_TOLD(KV_SLOT) ? r : 0;
    uint16_t *plane = (uint16_t *)(blockIdx.z == 0 ? kv.k[seq] : kv.v[seq]);
    const float *x = blockIdx.z == 0 ? k : v;
    uint16_t h = i < n ? f16_bits(x[(int64_t)r * n + i]) : (uint16_t)0;
    if (i < n) plane[kv_row_at(kv, layer, pos[r]) + i] = h;
    warp_count(f16_overflows(h), overflow);
}

__global__ void __launch_bounds__(KV_WARPS *WARP)
    kv_append_q8_kernel(kv_view kv, const int32_t *pos, int layer, const float *k, const float *v,
                        unsigned long long *overflow) {
    int r = blockIdx.y, b = blockIdx.x * KV_WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int n = kv.n_kv_head * kv.head_dim, seq = kv.per_row && !FAULT_TOLD(KV_SLOT) ? r : 0;
    if (b >= n / QK_32) return;
    block_q8_0 *plane = (block_q8_0 *)(blockIdx.z == 0 ? kv.k[seq] : kv.v[seq]);
    float x = (blockIdx.z == 0 ? k : v)[(int64_t)r * n + b * QK_32 + lane];
    float amax = __uint_as_float(__reduce_max_sync(WARP_ALL, __float_as_uint(x) & 0x7fffffffu));
    uint16_t d = f16_bits(amax / 127.0f);
    int storable = (d & 0x7c00) != 0x7c00; /* not a NaN, an Inf, or a finite amax whose scale has no f16 */
    int zero = !storable || amax < KV_AMAX_MIN;
    block_q8_0 *out = plane + kv_row_at(kv, layer, pos[r]) / QK_32 + b;
    out->qs[lane] = zero ? (int8_t)0 : (int8_t)fm_rintf(x * (127.0f / amax));
    if (lane != 0) return;
    out->d = zero ? (storable ? (uint16_t)0 : (uint16_t)0x7e00) : d;
    if (!storable) atomicAdd(overflow, 1ull);
}

extern "C" enum status kv_append_cuda(struct backend *self, const struct step *s, int layer, const float *k,
                                      const float *v, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    int n = c->kv.n_kv_head * c->kv.head_dim;
    FAULT_SITES(c->kv.per_row ? FAULT_BIT(KV_SLOT) : 0); /* the fused kernel's too */
    const struct rope_call *waiting = &c->pending.rope;
    if (c->pending.kind == PENDING_ROPE && c->kv.dtype == KV_F16 && waiting->parts == 2 &&
        waiting->part[1].x == k && waiting->n_rows == s->n_rows) {
        c->pending.kind = PENDING_NONE;
        return fused_rope_append(c, waiting, layer, v, err);
    }
    if (c->kv.dtype == KV_F16) {
        dim3 grid(ceil_div(n, ELEMENT_THREADS), (unsigned)s->n_rows, 2);
        return cuda_start(c, KERNEL_KV_F16, kv_append_f16_kernel, grid, dim3(ELEMENT_THREADS), 0, err, c->kv,
                          c->pos, layer, k, v, c->overflow);
    }
    dim3 grid(ceil_div(n / QK_32, KV_WARPS), (unsigned)s->n_rows, 2);
    return cuda_start(c, KERNEL_KV_Q8_0, kv_append_q8_kernel, grid, dim3(KV_WARPS * WARP), 0, err, c->kv,
                      c->pos, layer, k, v, c->overflow);
}
