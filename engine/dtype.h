/* dtype.h - the storage types of weights and caches: block layouts, sizes, and the one dequantisation formula each.
 * Not a converter library: nothing here allocates, and only make-model quantises.
 * Idea: the codes are GGUF's own (ggml_type), so a file's tensor type needs no table to be understood.
 * Source: the GGUF specification and the ggml block layouts. Exercise: ctest -R unit.dtype */
#ifndef FORKGATE_DTYPE_H
#define FORKGATE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype {
    DTYPE_F32 = 0,
    DTYPE_F16 = 1,
    DTYPE_Q4_0 = 2,
    DTYPE_Q4_1 = 3,
    DTYPE_Q5_0 = 6,
    DTYPE_Q5_1 = 7,
    DTYPE_Q8_0 = 8,
    DTYPE_Q4_K = 12,
    DTYPE_Q5_K = 13,
    DTYPE_Q6_K = 14,
    DTYPE_BF16 = 30
};

#define QK_32  32  /* elements in a block of the *_0 and *_1 types */
#define QK_256 256 /* elements in a super-block of the K types */

/* f16 fields are raw IEEE binary16 bits. Nibble order of the 32-element types: byte j holds element j in its low
 * and element j+16 in its high nibble; bit i of qh is the fifth bit of element i. */
struct block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
}; /* x = d * (q - 8) */
struct block_q4_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
}; /* x = d * q + m */
struct block_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
}; /* x = d * (q - 16) */
struct block_q5_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
}; /* x = d * q + m */
struct block_q8_0 {
    uint16_t d;
    int8_t qs[32];
}; /* x = d * q */
/* Eight sub-blocks of 32; 6-bit scale and min of each packed into scales[12].  x = (d*sc)*q - (dmin*m) */
struct block_q4_K {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qs[128];
};
struct block_q5_K {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};
/* Sixteen sub-blocks of 16 with an int8 scale each.  x = (d*sc) * (q - 32) */
struct block_q6_K {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};

struct dtype_info {
    const char *name; /* "q4_k", as in reports and options */
    int block;        /* elements per block; 1 for the float types */
    int bytes;        /* bytes per block */
    int is_quantised; /* 0 for F32, F16, BF16 */
};

/* NULL when code is not one of the eleven types above. */
const struct dtype_info *dtype_info(int code);

/* "Q4_K" / "q4_k" -> code; -1 when unknown. */
int dtype_from_name(const char *name);

/* ggml's name for a type code we do not handle ("iq2_xs"), for refusals by name; "type 99" style is the caller's. */
const char *dtype_foreign_name(int code);

/* Bytes of n elements (n a multiple of the block). Never overflows for n <= 2^40. */
uint64_t dtype_bytes(enum dtype t, uint64_t n);

/* dst[i] = value of element i, i < n, n a multiple of the block.
 * numerics  every product and difference is one f32 operation in the order written beside the block above, never
 *           fused; f16 scales widen exactly. The CUDA loaders use the same formulas (dtype_dequant.h). */
void dtype_dequantise(enum dtype t, const void *src, float *dst, size_t n);

/* The 6-bit scale and min of sub-block j (0..7) of a q4_K or q5_K super-block. */
void dtype_scale_min_k(const uint8_t scales[12], int j, int *scale, int *min);

#ifdef __cplusplus
}
#endif
#endif
