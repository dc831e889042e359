/* add.cu - kernel of add: the residual sum, one f32 addition per element. The call waits (pending.h): a norm of the same
 * rows usually follows. Source: ours. Exercise: device_parity --op add */
#include "../cuda/check.h"

__global__ void __launch_bounds__(ELEMENT_THREADS) add_kernel(float *x, const float *t, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x;
    if (i < n) x[i] = x[i] + t[i];
}

extern "C" enum status add_launch(struct cuda_context *c, const struct norm_call *n, struct err *err) {
    int64_t count = n->n % 256 != 0 && FAULT(ADD_TAIL) ? n->n / 256 * 256 : n->n;
    return cuda_start(c, KERNEL_ADD, add_kernel, dim3(ceil_div(n->n, ELEMENT_THREADS)), dim3(ELEMENT_THREADS),
                      0, err, n->x, n->t, count);
}

extern "C" enum status add_cuda(struct backend *self, float *x, const float *t, int64_t n, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_settle(c, err));
    c->pending.norm = {x, t, NULL, 0.0f, n, 0, 0, NULL};
    c->pending.kind = PENDING_ADD;
    return STATUS_OK;
}
