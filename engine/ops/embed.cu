/* embed.cu - kernel of embed: one table row per token, dequantised.
 * Not a gather of f16 copies: the table stays in the file's own type.
 * Idea: element by element, so every type takes the one formula of dtype.h.
 * Source: ours. Exercise: device_parity --op embed */
#include <type_traits>

#include "../cuda/check.h"
#include "../cuda/dequant.cuh"

template <int T>
__global__ void __launch_bounds__(ELEMENT_THREADS)
    embed_kernel(const uint8_t *table, const int32_t *id, int64_t cols, int64_t row_bytes, float *x) {
    int64_t r = blockIdx.y, c = (int64_t)blockIdx.x * ELEMENT_THREADS + threadIdx.x;
    if (c >= cols) return;
    x[r * cols + c] = dequant_element<T>(table + id[r] * row_bytes, c);
    if (T == DTYPE_Q4_0 && FAULT_TOLD(EMB_OFFSET))
        x[r * cols + c] += 8.0f * f16_value(((const block_q4_0 *)(table + id[r] * row_bytes))[c / QK_32].d);
}

extern "C" enum status embed_cuda(struct backend *self, const struct step *s, const struct weight *table,
                                  float *x, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    dim3 grid(ceil_div(table->k, ELEMENT_THREADS), (unsigned)s->n_rows);
    int64_t row_bytes = (int64_t)dtype_bytes(table->dtype, (uint64_t)table->k);
    FAULT_SITES((table->dtype == DTYPE_Q4_0 ? FAULT_BIT(EMB_OFFSET) : 0) |
                (table->dtype == DTYPE_Q5_0 ? FAULT_BIT(MM_MISALIGN) : 0));
    return dequant_dispatch(table->dtype, [&](auto type) {
        return cuda_start(c, KERNEL_EMBED, embed_kernel<decltype(type)::value>, grid, dim3(ELEMENT_THREADS),
                          0, err, (const uint8_t *)table->data, c->id, table->k, row_bytes, x);
    });
}
