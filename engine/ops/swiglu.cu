/* swiglu.cu - kernel of swiglu: SiLU(g) * u with the shared exp. The call waits (pending.h): act_prepare usually follows.
 * Not an approximation by MUFU: fm_expf is the twin's own code.
 * Source: ours. Exercise: device_parity --op swiglu */
#include "../cuda/check.h"
#include "../fmath.h"

__global__ void __launch_bounds__(ELEMENT_THREADS)
    swiglu_kernel(const float *g, const float *u, int64_t n, float *y) {
    int64_t i = (int64_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x;
    if (i < n) y[i] = (g[i] * (1.0f / (1.0f + fm_expf(-g[i])))) * u[i];
}

extern "C" enum status swiglu_launch(struct cuda_context *c, const struct swiglu_call *s, struct err *err) {
    int64_t count = s->n % 256 != 0 && FAULT(SW_TAIL) ? s->n / 256 * 256 : s->n;
    return cuda_start(c, KERNEL_SWIGLU, swiglu_kernel, dim3(ceil_div(s->n, ELEMENT_THREADS)),
                      dim3(ELEMENT_THREADS), 0, err, s->g, s->u, count, s->y);
}

extern "C" enum status swiglu_cuda(struct backend *self, const float *g, const float *u, int64_t n, float *y,
                                   struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_settle(c, err));
    c->pending.swiglu = {g, u, n, y};
    c->pending.kind = PENDING_SWIGLU;
    return STATUS_OK;
}
