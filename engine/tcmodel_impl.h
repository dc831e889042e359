/* tcmodel_impl.h - private to tcmodel.c and tcmodel_avx2.c: what the SIMD path borrows from the scalar one.
 * Not an API. Source: ours. Exercise: ctest -R unit.tcmodel */
#ifndef FORKGATE_TCMODEL_IMPL_H
#define FORKGATE_TCMODEL_IMPL_H

#include "fault.h"
#include "tcmodel.h"

#define TC_TILE_K 256 /* K of one pass: 8 columns of it, decoded, stay in the first-level cache */

/* Fractional bits and terms of one accumulate block (a TC_K step is one block on sm_90, two on sm_80). */
static inline int tc_bits(enum arch arch) {
    return arch == ARCH_SM80 ? TC_BITS_SM80 : TC_BITS_SM90 - FAULT(TC_24BIT);
}
static inline int tc_terms(enum arch arch) {
    return arch == ARCH_SM80 ? TC_K / 2 : TC_K;
}

/* c[j] = chain over k (a multiple of TC_K, <= TC_TILE_K) of column j < n_cols of one packed panel. */
void tc_chain_scalar(enum arch arch, enum tc_type type, const uint16_t *a, const uint16_t *panel, int k,
                     int n_cols, float *c);

/* tc_gemm, accumulating, with k already rounded up to TC_K. */
void tc_gemm_avx2(enum arch arch, enum tc_type type, const uint16_t *a, int64_t lda, int64_t m,
                  const uint16_t *packed_b, int64_t k_pad, int64_t j0, int64_t j1, float *c, int64_t ldc);

#endif
