/* attention_rows.h - private to the attention twin: what happens to one query row, in scalar and AVX2 code.
 * Not an API; both tables give the same bits (every operation below is fixed by the contract in ops.h).
 * Idea: the matrix products are tcmodel's; what is left is per-row work on a few dozen floats.
 * Source: Dao 2023 (FlashAttention-2). Exercise: ctest -R unit.attention */
#ifndef FORKGATE_ATTENTION_ROWS_H
#define FORKGATE_ATTENTION_ROWS_H

#include <stdint.h>

#include "twins.h"

struct attention_rows {
    /* One tile of one row: s[0 .. visible) are scores (overwritten; room for width), p gets width f16 weights, zero
     * from visible on; m and l are updated. Returns alpha, the factor of O (1 where the tile is the identity).
     * 1 <= visible <= width; width a multiple of TC_K. */
    float (*softmax)(float *s, int visible, int width, float c, float *m, float *l, uint16_t *p);
    void (*scale)(float *o, float alpha, int n); /* o = o * alpha */
    /* acc = fma(o, b, acc * a) */
    void (*merge)(float *acc, float a, const float *o, float b, int n);
    /* Route f32: F32_LANES strided fma lanes, then a halving tree. */
    float (*dot)(const float *x, const float *y, int n);
};

extern const struct attention_rows attention_rows_scalar;
extern const struct attention_rows attention_rows_avx2;

/* The whole op on route f32 (attention_f32.c). */
enum status attention_f32(const struct twin_ctx *t, const struct step *s, int layer, int n_head,
                          const float *q, float *o, struct err *err);

#endif
