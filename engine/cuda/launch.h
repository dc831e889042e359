/* launch.h - block sizes, tiles and stage counts of the kernels: launch parameters that can never change a bit.
 * Not here: symbols that carry bits (engine/geometry.h).
 * Idea: kernel bounds, launchers, shared-memory sizes and the gates' edge sizes use the same symbol; nothing in a launch
 * is a bare number. Plain C11, so that host code and tests can include it.
 * Source: ours. Exercise: device_parity (edges are taken from here) */
#ifndef FORKGATE_LAUNCH_H
#define FORKGATE_LAUNCH_H

#include <stddef.h>

#include "../geometry.h"

#define WARP 32 /* lanes in lockstep */

/* ---- elementwise and row kernels ---------------------------------------------------------------------------- */
#define ELEMENT_THREADS 256        /* embed, rope, add, swiglu, conversions */
#define NORM_THREADS    NORM_LANES /* rmsnorm of long rows: one thread per lane of the contract's tree */
#define NORM_WARP_COLS                                                                                       \
    1024 /* up to this many columns one warp does a whole row (each thread holds 8 lanes) */
#define NORM_ACT_PER_MAX 32 /* columns a thread of the fused norm holds: rows of up to 8192 */
#define NORM_WARP_ROWS   4  /* rows (warps) per block of the warp kernel */
#define ACT_WARPS        8  /* activation blocks (one warp each) per thread block */
#define KV_WARPS         8  /* q8_0 cache blocks (one warp each) per thread block */
#define TOP2_THREADS     256
#define TOP2_PARTS       64 /* blocks that share one row of logits; their results merge by the exact order */
#define TOP2_ROWS        64 /* rows whose parts there is room for: a scored chunk */
#define UPLOAD_THREADS   256

#define CHECKSUM_THREADS    256
#define CHECKSUM_PER_THREAD 16   /* elements of a row that a thread sums before the row gets one more block */
#define CHECKSUM_SLICES     64   /* most blocks of a row */
#define CHECKSUM_ROWS       4096 /* rows summed before the sums are fetched */

/* ---- matmul, f16 --------------------------------------------------------------------------------------------- */
#define GEMM_BM     128 /* activation rows per block; 64 when the step has no more rows */
#define GEMM_BM_MIN 64
#define GEMM_BN     128 /* weight rows per block */
#define GEMM_BK     64  /* K elements per stage: 128 bytes a row, one full line */
#define GEMM_PAD    8   /* elements added to a staged row: ldmatrix rows then fall into different banks */
#define GEMM_STAGES 3   /* cp.async ring: 108 KB at BM 128, two blocks an SM */
#define GEMM_WARPS  8   /* 2 x 4 warps, each BM/2 x 32 outputs */

#define WG_BM      128 /* wgmma: activation rows of a block, 64 for each of its two multiplying warpgroups */
#define WG_BK      64
#define WG_THREADS 384
#define WG_STAGING                                                                                           \
    (200 * 1024)      /* bytes of stages; the rest of the opt-in limit is for barriers and alignment */
#define WG_ALIGN 1024 /* of a swizzled tile */

#define GEMV_ROWS                                                                                            \
    8 /* activation rows of the n8 side; steps of up to this many rows take the decode kernels */
#define GEMV_TILE   16  /* weight rows of the m16 side: one warp, one block */
#define GEMV_BK     128 /* K elements per stage */
#define GEMV_STAGES 6   /* 39 KB in flight a block: five blocks an SM cover the memory latency */

/* ---- matmul, q8 ---------------------------------------------------------------------------------------------- */
#define MMVQ_THREADS      128
#define MMVQ_ROWS_MAX     16    /* weight rows per block; fewer when that fills the device better */
#define MMVQ_RESIDENT     3     /* blocks an SM that there should be at least */
#define MMVQ_TERM_BYTES   32768 /* shared memory for the terms of a segment of K */
#define MATMUL_SHARED_MAX 3     /* matrices that one decode launch may multiply by the same activations */

#define MMQ_BN       128 /* weight rows per block */
#define MMQ_BM       64  /* activation rows per block */
#define MMQ_BK       256 /* K elements per stage: one super-block, or eight blocks of 32 */
#define MMQ_PAD      16  /* bytes added to a staged row of codes */
#define MMQ_WARPS    8   /* 4 x 2 warps, each 32 x 32 outputs */
#define MMQ_RESIDENT 2   /* blocks an SM, each 64 KB: one loads while the other multiplies */
#define MMQ_SUBS     16  /* most sub-blocks (scales) in a stage: q6_K */

/* ---- attention ----------------------------------------------------------------------------------------------- */
#define FA_PAD           8  /* elements added to a staged row of Q, K, V: hd+8 (DESIGN 2) */
#define FA_ROWS_PER_WARP 16 /* the m16 side of the MMA */
#define FA_DEC_WARPS     8
#define FA_DEC_GROUP     16  /* query heads of one KV group that fill the MMA rows */
#define FA_MERGE_COLS    256 /* columns of a row that one block of the fused merge finishes */
#define FA_MERGE_FEW     32  /* FA_MERGE_MAX of the fused merge, for each head of its block */
#define FA_MERGE_MAX     128 /* chunks whose weights the merge kernel holds in shared memory at a time */

#define FA_HOPPER_ROWS      64  /* query rows of a warpgroup: the m64 side of wgmma; fa_tq of them a block */
#define FA_HOPPER_WARPGROUP 128 /* threads */
#define FA_HOPPER_SPAN      64 /* keys whose scores are one product; a whole number of tiles of every fa_tkv */
#define FA_HOPPER_STAGES    2  /* spans of K and of V in flight */
#define FA_HOPPER_ALIGN     1024
#define FA_HOPPER_HD_MAX    128

/* Stages of WG_BK of K that fit, and the dynamic shared memory of a wgmma product with bn weight rows a block. */
static inline
#ifdef __CUDACC__
    constexpr
#endif
    size_t
    gemm_hopper_stages(int bn) {
    return (size_t)WG_STAGING / ((size_t)(WG_BM + bn) * WG_BK * 2);
}
static inline size_t gemm_hopper_smem(int bn) {
    return gemm_hopper_stages(bn) * (size_t)(WG_BM + bn) * WG_BK * 2 + WG_ALIGN;
}
static inline size_t gemm_smem(int bm) {
    return (size_t)GEMM_STAGES * (size_t)(bm + GEMM_BN) * (GEMM_BK + GEMM_PAD) * 2;
}
static inline size_t gemv_smem(void) {
    return (size_t)GEMV_STAGES * (GEMV_TILE + GEMV_ROWS) * (GEMV_BK + GEMM_PAD) * 2;
}

/* Codes of both tiles, scales and mins, d and dmin of each block of 32, activation scales and sums. */
static inline
#ifdef __CUDACC__
    constexpr
#endif
    size_t
    mmq_smem(void) {
    return (size_t)(MMQ_BN + MMQ_BM) * (MMQ_BK + MMQ_PAD) + (size_t)MMQ_BN * MMQ_SUBS +
           (size_t)MMQ_BN * (MMQ_BK / 32) * 8 + (size_t)MMQ_BM * (MMQ_BK / 32) * (4 + 2);
}

/* Smallest head_dim instance that holds head_dim; dims beyond it are zero and change no sum. */
static inline int fa_head_dim_instance(int head_dim) {
    return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

/* Dynamic shared memory of a prefill instance: the largest of what reuses the buffer. Staging is Q, one K and one V
 * tile in f16; the tail tile's write-back is tq rows of hd f32. */
static inline size_t fa_prefill_smem(int tq, int tkv, int hd) {
    size_t staging = (size_t)(tq + 2 * tkv) * (size_t)(hd + FA_PAD) * 2;
    size_t write_back = (size_t)tq * (size_t)hd * 4;
    return staging > write_back ? staging : write_back;
}

/* Dynamic shared memory of a wgmma instance: the ring of K and V spans, and the slack that aligns it. */
static inline size_t fa_hopper_smem(int hd) {
    return (size_t)FA_HOPPER_STAGES * 2 * FA_HOPPER_SPAN * (size_t)hd * 2 + FA_HOPPER_ALIGN;
}

/* Keys a decode block stages at once: K and V of a default chunk, or half of it where the head is twice as wide. */
static inline int fa_decode_segment(int hd) {
    return hd <= 128 ? 256 : 128;
}

/* Dynamic shared memory of a decode instance: Q and P rows in f16, K and V of one segment in f16, the row maxima, row
 * sums and rescale factors of its tiles (at most segment/16 tiles), and m and l of the rows. */
static inline size_t fa_decode_smem(int hd) {
    size_t segment = (size_t)fa_decode_segment(hd), row = (size_t)(hd + FA_PAD) * 2;
    size_t tiles = segment / TC_K;
    return FA_DEC_GROUP * (row + (segment + FA_PAD) * 2) + 2 * segment * row + 3 * tiles * FA_DEC_GROUP * 4 +
           2 * FA_DEC_GROUP * 4;
}

#endif
