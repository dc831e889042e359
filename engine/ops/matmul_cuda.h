/* matmul_cuda.h - the launchers behind matmul_cuda: by route (f16, q8) and by rows (decode, prefill).
 * Not public. Idea: GEMV_ROWS decides between kernels that give the same bits.
 * Source: ours. Exercise: device_parity --op matmul */
#ifndef FORKGATE_MATMUL_CUDA_H
#define FORKGATE_MATMUL_CUDA_H

#include "../cuda/context.h"

enum status matmul_f16_prefill(struct cuda_context *c, const struct weight *w, const struct act *a,
                               int64_t rows, float *y, struct err *err);
/* sm_90a only (context.h: hopper) */
enum status matmul_f16_hopper(struct cuda_context *c, const struct weight *w, const struct act *a,
                              int64_t rows, float *y, struct err *err);
enum status matmul_f16_decode(struct cuda_context *c, const struct weight *w, const struct act *a,
                              int64_t rows, float *y, struct err *err);
enum status matmul_q8_prefill(struct cuda_context *c, const struct weight *w, const struct act *a,
                              int64_t rows, float *y, struct err *err);
/* count <= MATMUL_SHARED_MAX products of one weight type and K by the same activations, in one launch. */
enum status matmul_q8_decode(struct cuda_context *c, const struct product *p, int count, const struct act *a,
                             int64_t rows, struct err *err);

#endif
