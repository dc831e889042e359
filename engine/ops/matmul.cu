/* matmul.cu - the launcher of matmul: which kernel serves this activation kind and this many rows.
 * Not a tuner: one threshold, GEMV_ROWS, on both routes, and no bit depends on it.
 * Source: ours. Exercise: device_parity --op matmul */
#include "matmul_cuda.h"

extern "C" enum status matmul_cuda(struct backend *self, const struct weight *w, const struct act *a,
                                   int64_t rows, float *y, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    if (a->kind != w->act || a->k != w->k)
        return err_set(err, STATUS_SHAPE, "matmul: input is %s of %lld, the weight wants %s of %lld",
                       act_kind_name(a->kind), (long long)a->k, act_kind_name(w->act), (long long)w->k);
    if (a->kind == ACT_F16)
        return rows <= GEMV_ROWS ? matmul_f16_decode(c, w, a, rows, y, err)
                                 : matmul_f16_prefill(c, w, a, rows, y, err);
    if (rows > GEMV_ROWS) return matmul_q8_prefill(c, w, a, rows, y, err);
    struct product p = {*w, y};
    return matmul_q8_decode(c, &p, 1, a, rows, err);
}
