/* q8_panel.h - the packed layout of a quantised matrix on route q8 and the kernels that read it.
 * Not the contract (ops.h) and not the file's layout (dtype.h).
 * Idea: a panel is Q8_ROWS output rows; the int32 lanes of a vector are those rows, so the f32 chain over blocks is a
 * plain vector fma and no sum ever crosses lanes.
 * Source: ours. Exercise: ctest -R unit.matmul */
#ifndef FORKGATE_Q8_PANEL_H
#define FORKGATE_Q8_PANEL_H

#include "../fault.h"
#include "twins.h"

#define Q8_ROWS 8 /* output rows in a panel: one AVX2 vector of int32 or f32 */
#define Q8_TILE 4 /* activation rows that share one load of the weights */

/* One record per (panel, block); the records of a panel follow each other in K order. Byte offsets in a record:
 *   0      codes int8 [block/4][Q8_ROWS][4]   four consecutive k of each row next to each other
 *   d      f32 [Q8_ROWS]
 *   m      f32 [Q8_ROWS]                      only where the type has a min term
 *   scale  int8 [n_sub][Q8_ROWS][2]           K types; each value twice: the SIMD kernel multiplies pairs
 *   min    int8 [n_sub][Q8_ROWS][2]           K types with a min term; the same */
struct q8_layout {
    int block, n_sub; /* elements of a block; sub-blocks with a scale of their own (1: none) */
    int has_min;
    size_t d, m, scale, min, record;
};

struct q8_layout q8_layout_of(enum dtype t);

/* out[r][j] = row r of the tile times row j of the panel, r < n_rows (1 or Q8_TILE); q, d, sum point to the first row of
 * the tile and k is the row length. Both give the same bits. */
struct q8_tile {
    const int8_t *q;    /* [n_rows, k] */
    const float *d;     /* [n_rows, k/block] */
    const int16_t *sum; /* [n_rows, k/ACT_SUM_GROUP] */
    int64_t k;
    int n_rows;
};
/* Record of block b. The plant: one of two buffers is never filled again after its first block. */
static inline const uint8_t *q8_record(const struct q8_layout *l, const uint8_t *panel, int64_t b) {
    if (b > 2 && b % 2 == 1 && FAULT(MM_ROTATE)) b = 1;
    return panel + (size_t)b * l->record;
}

/* Elements of a 32-element block that the integer product covers. */
static inline int q8_dot_length(void) {
    return FAULT(MM_SKIP) ? QK_32 / 2 : QK_32;
}

typedef void q8_panel_fn(const struct q8_layout *layout, const uint8_t *panel, const struct q8_tile *tile,
                         float out[Q8_TILE][Q8_ROWS]);
q8_panel_fn q8_panel_scalar, q8_panel_avx2;

#endif
