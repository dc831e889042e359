/* launch_table.h - which kernel of a CUDA device is for which shape, and from how many rows on.
 * Not asked of the launchers: thresholds and names are written down a second time, on purpose, because a table that asked
 * them would believe them. unit.ladder holds the numbers against those of the launchers.
 * Source: ours. Exercise: ctest -R unit.ladder */
#ifndef FORKGATE_LAUNCH_TABLE_H
#define FORKGATE_LAUNCH_TABLE_H

#include "engine/engine.h"

enum {
    DECODE_ROWS = 8,      /* products of up to this many rows are matrix-vector ones */
    SMALL_TILE_ROWS = 64, /* up to this many take the GEMM with the small tile */
    WGMMA_HEAD_DIM = 128
};

/* Does the device of this configuration run wgmma? The emulator says that it is an sm_90 without. */
int launch_table_has_wgmma(const struct engine_config *config);

/* The product of `rows` activation rows; dtype: of the weight, read on q8 only. */
void launch_table_product(enum route route, const char *dtype, int64_t rows, int wgmma, char out[48]);

/* Attention over a cache of this type. prefill: several rows of one sequence, else one row of each. */
void launch_table_attention(enum kv_dtype kv, int prefill, int head_dim, int wgmma, char out[48]);

#endif
