/* act_prepare.cu - kernels of act_prepare: f16 rows, or int8 blocks with exact group sums.
 * Not fused here: one prepared input is shared by all its consumers (q,k,v / gate,up).
 * Idea: one warp per block of 32 or 256; the maximum is over magnitude bits, sums are integers, so lanes may share freely.
 * Source: ops.h. Exercise: device_parity --op act_prepare */
#include "../cuda/act.cuh"
#include "../cuda/check.h"

__global__ void __launch_bounds__(ELEMENT_THREADS)
    act_f16_kernel(const float *x, int64_t k, int64_t k_pad, uint16_t *out, unsigned long long *overflow) {
    int64_t r = blockIdx.y, c = (int64_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x;
    uint16_t h = c < k ? f16_bits(x[r * k + c]) : (uint16_t)0;
    if (c < (FAULT_TOLD(Q_PAD) ? k : k_pad)) out[r * k_pad + c] = h;
    warp_count(f16_overflows(h), overflow);
}

/* BLOCK elements per warp: lane l holds elements l*PER .. l*PER+PER-1, so a group of 16 is 16/PER neighbouring lanes. */
template <int BLOCK>
__global__ void __launch_bounds__(ACT_WARPS *WARP)
    act_q8_kernel(const float *x, int64_t n_blocks, int8_t *q, float *d, int16_t *sum,
                  unsigned long long *overflow) {
    constexpr int PER = BLOCK / WARP, GROUP_LANES = ACT_SUM_GROUP / PER;
    int64_t b = (int64_t)blockIdx.x * ACT_WARPS + threadIdx.x / WARP;
    int lane = threadIdx.x % WARP;
    if (b >= n_blocks) return;
    int64_t at = b * BLOCK + lane * PER;
    float v[PER];
    uint32_t top = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        v[i] = x[at + i];
        top = max(top, act_magnitude(v[i]));
    }
    float amax = __uint_as_float(__reduce_max_sync(WARP_ALL, top));
    act_scale scale = act_scale_of(amax, overflow, lane == 0);
    int total = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int code = act_code(v[i], scale.inverse);
        q[at + i] = (int8_t)code;
        total += code;
    }
#pragma unroll
    for (int s = 1; s < GROUP_LANES; s *= 2) total += __shfl_xor_sync(WARP_ALL, total, s);
    if (lane % GROUP_LANES == 0) sum[at / ACT_SUM_GROUP] = (int16_t)total;
    if (lane == 0) d[b] = scale.d;
}

extern "C" enum status act_prepare_cuda(struct backend *self, enum act_kind kind, const float *x,
                                        int64_t rows, int64_t k, struct act *out, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    out->kind = kind;
    out->k = k;
    if (kind == ACT_F32)
        return err_set(err, STATUS_UNSUPPORTED, "act_prepare: f32 activations are for route f32");
    int done;
    RETURN_IF_ERROR(cuda_settle_prepared(c, kind, x, rows, k, out, &done, err));
    if (done) return STATUS_OK;
    if (kind == ACT_F16) {
        int64_t k_pad = (k + TC_K - 1) / TC_K * TC_K;
        dim3 grid(ceil_div(k_pad, ELEMENT_THREADS), (unsigned)rows);
        FAULT_SITES(k < k_pad ? FAULT_BIT(Q_PAD) : 0);
        return cuda_start(c, KERNEL_ACT_F16, act_f16_kernel, grid, dim3(ELEMENT_THREADS), 0, err, x, k, k_pad,
                          out->f16, c->overflow);
    }
    int64_t block = act_block(kind), n_blocks = rows * k / block;
    if (k % block != 0)
        return err_set(err, STATUS_SHAPE, "act_prepare: a row of %lld is not a multiple of %lld",
                       (long long)k, (long long)block);
    dim3 grid(ceil_div(n_blocks, ACT_WARPS)), threads(ACT_WARPS * WARP);
    FAULT_SITES(FAULT_BIT(Q_AMAX126));
    if (kind == ACT_Q8_32)
        return cuda_start(c, KERNEL_ACT_Q8_32, act_q8_kernel<ACT_BLOCK_32>, grid, threads, 0, err, x,
                          n_blocks, out->q, out->d, out->sum, c->overflow);
    return cuda_start(c, KERNEL_ACT_Q8_256, act_q8_kernel<ACT_BLOCK_256>, grid, threads, 0, err, x, n_blocks,
                      out->q, out->d, out->sum, c->overflow);
}
