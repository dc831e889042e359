/* add.cu - kernel of add: the residual sum, one f32 addition per element. Source: ours. Exercise: device_parity --op add */
#include "../cuda/check.h"

__global__ void __launch_bounds__(ELEMENT_THREADS) add_kernel(float *x, const float *t, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x;
    if (i < n) x[i] = x[i] + t[i];
}

extern "C" enum status add_cuda(struct backend *self, float *x, const float *t, int64_t n, struct err *err) {
    return cuda_start(cuda_context_of(self), KERNEL_ADD, add_kernel, dim3(ceil_div(n, ELEMENT_THREADS)),
                      dim3(ELEMENT_THREADS), 0, err, x, t, n);
}
