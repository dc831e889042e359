/* tcmodel.h - the accumulate model of NVIDIA tensor cores for f16 and bf16 inputs with f32 accumulation, on the CPU.
 * Not a simulator of mma layouts: M and N tiling does not change bits, K order does.
 * Idea: one TC_K step is exact products, aligned to the largest exponent, truncated to a fixed number of fractional bits,
 * added exactly with C, truncated to f32 (rules in tcmodel.c). SIMD and scalar code give the same bits.
 * Source: MMA-Sim (arXiv 2511.10909); Khattak & Mikaitis (arXiv 2512.07004); measured on H200. Exercise: ctest -R unit.tcmodel */
#ifndef FORKGATE_TCMODEL_H
#define FORKGATE_TCMODEL_H

#include <stddef.h>
#include <stdint.h>

#include "geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tc_type { TC_F16 = 0, TC_BF16 = 1 };

/* One step in plain integer arithmetic, the reference of everything else here: returns tc(c, a . b) over TC_K terms,
 * NaN and Inf included (any NaN result is 0x7fffffff as on the device; compare NaN as a class). */
float tc_step_scalar(enum arch arch, enum tc_type type, const uint16_t a[TC_K], const uint16_t b[TC_K],
                     float c);

/* B packed in panels of TC_PANEL columns: panel p holds, for each k, columns 8p .. 8p+7 next to each other:
 * out[(p * k_pad + k) * TC_PANEL + j]; k_pad = k rounded up to TC_K, n rounded up to TC_PANEL; padding is +0. */
size_t tc_packed_elements(int64_t n, int64_t k);
/* b[col * ldb + k]: rows of B^T are contiguous (weights [n, k], keys [pos, head_dim]). */
void tc_pack_rows(const uint16_t *b, int64_t ldb, int64_t n, int64_t k, uint16_t *out);
/* b[k * ldb + col]: B itself row-major (V of P.V: k = key, col = dim). */
void tc_pack_cols(const uint16_t *b, int64_t ldb, int64_t n, int64_t k, uint16_t *out);

/* c[i*ldc + j] = chain over k/TC_K steps in ascending K of tc(c, a row i, column j), for i < m and j in [j0, j1);
 * j0 a multiple of TC_PANEL. accumulate: start from c, else from +0. a rows must be zero-padded to k_pad.
 * c needs room only for the n real columns (j1 <= n). use_avx2 must be 0 where the machine has no AVX2+FMA+F16C. */
void tc_gemm(enum arch arch, enum tc_type type, int use_avx2, const uint16_t *a, int64_t lda, int64_t m,
             const uint16_t *packed_b, int64_t k, int64_t j0, int64_t j1, float *c, int64_t ldc,
             int accumulate);

/* 1 when the machine has AVX2, FMA and F16C. */
int tc_have_avx2(void);

#ifdef __cplusplus
}
#endif
#endif
