/* dtype_codes.h - one quantised block taken apart: integer codes, f32 scales, integer sub-scales.
 * Not a value: dtype_dequantise and the q8 product each put the parts together by their own formula.
 * Idea: the bit layouts of eight block types are read in one place.
 * Source: the ggml block layouts. Exercise: ctest -R unit.dtype */
#ifndef FORKGATE_DTYPE_CODES_H
#define FORKGATE_DTYPE_CODES_H

#include "dtype.h"

/* With q the signed code (offsets -8, -16, -32 already taken off):
 *   Q8_0 Q4_0 Q5_0  x = d * q               Q4_1 Q5_1  x = d * q + m
 *   Q4_K Q5_K       x = (d*scale[j]) * q - (m*min[j]), j = i / 32        Q6_K  x = (d*scale[j]) * q, j = i / 16 */
struct block_codes {
    float d, m;       /* m: 0 where the type has none */
    int8_t q[QK_256]; /* [block] */
    int8_t scale[16]; /* [sub-blocks] K types only */
    int8_t min[8];    /* [sub-blocks] Q4_K and Q5_K only */
};

/* block points to one block of the quantised type t. */
void dtype_block_codes(enum dtype t, const void *block, struct block_codes *out);

#endif
