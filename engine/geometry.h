/* geometry.h - every tile, chunk, split, lane count and threshold that an op's arithmetic or launch depends on.
 * Not here: block and grid sizes of kernels that can never change bits (engine/cuda/launch.h).
 * Idea: twin, kernel, launcher, shared-memory size and the gates' edge sizes all use these symbols, so a size
 * cannot drift between them. Symbols marked BITS are part of the arithmetic contract (ops.h) and of the golden key.
 * Source: FlashAttention-2 (Dao 2023) for the tiling; the chunk fold is ours. Exercise: ctest -R unit.geometry */
#ifndef FORKGATE_GEOMETRY_H
#define FORKGATE_GEOMETRY_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tensor cores ---------------------------------------------------------------------------------------- */
#define TC_K         16 /* BITS: K of one mma.sync / wgmma step; longer products chain over TC_K steps in K order */
#define TC_BITS_SM90 25 /* BITS: fractional bits kept when the 16 products and C are aligned (one block) */
#define TC_BITS_SM80 24 /* BITS: the same on sm_80, which chains two 8-term blocks per TC_K step */
#define TC_PANEL     8  /* columns in one packed panel of the twin's B operand (one AVX2 vector of f32) */

/* ---- fixed-tree sums -------------------------------------------------------------------------------------- */
#define NORM_LANES 256 /* BITS: RMSNorm sums squares in this many strided lanes, then a halving tree */
#define F32_LANES  16  /* BITS: route f32 dot products: strided fmaf lanes, then a halving tree */

/* ---- quantised activations --------------------------------------------------------------------------------- */
#define ACT_BLOCK_32                                                                                         \
    32 /* BITS: activation block beside the weight types with blocks of 32 (Q8_0 Q4_0 Q4_1 Q5_0 Q5_1) */
#define ACT_BLOCK_256 256 /* BITS: activation block beside K-quant weights */
#define ACT_SUM_GROUP 16  /* elements per stored integer sum (min terms; 16 is Q6_K's sub-block) */

/* ---- attention --------------------------------------------------------------------------------------------- */
#define FA_TQ_DEFAULT     64  /* query rows per tile; never carries bits */
#define FA_TKV_DEFAULT    32  /* BITS: keys per tile: the online rescale happens once per tile */
#define FA_CHUNK_DEFAULT  256 /* BITS: absolute key positions per chunk: one (m, l, O) each, folded in order */
#define FA_SPLITS_DEFAULT 8   /* blocks that share the chunks of one decode row; never carries bits */
#define FA_TQ_MAX         128
#define FA_TKV_MAX        64
#define FA_CHUNK_MAX      4096
#define FA_SPLITS_MAX     64
#define FA_HEAD_DIM_MAX   256

/* ---- engine ------------------------------------------------------------------------------------------------ */
#define BATCH_MAX     8   /* streams in one engine_decode_batch */
#define CHUNK_DEFAULT 512 /* prompt rows per prefill step; never carries bits */
#define CHUNK_MAX     4096

enum arch { ARCH_SM80 = 80, ARCH_SM90 = 90 };

/* The run-time part of the geometry: one row of defaults per architecture, used by twin and kernel. */
struct geometry {
    int fa_tq;     /* 64 or 128 */
    int fa_tkv;    /* 16, 32 or 64          BITS */
    int fa_chunk;  /* multiple of fa_tkv, 64 .. FA_CHUNK_MAX    BITS */
    int fa_splits; /* 1 .. FA_SPLITS_MAX */
};

struct geometry geometry_default(enum arch arch);

/* STATUS_USAGE with the offending field named when a value has no instance. */
enum status geometry_check(const struct geometry *g, struct err *err);

/* Applies "fa_tkv=16,fa_tq=128" to *g (unknown key, empty value, trailing junk: STATUS_USAGE). */
enum status geometry_parse(const char *text, struct geometry *g, struct err *err);

/* Writes "fa_tq=64,fa_tkv=32,fa_chunk=256,fa_splits=8" (canonical order; 96 bytes are enough). */
void geometry_format(const struct geometry *g, char *out, int out_bytes);

#ifdef __cplusplus
}
#endif
#endif
