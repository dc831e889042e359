/* checksum.h - a 64-bit checksum of a row that does not depend on the order of summing: a screen for equal bits.
 * Not a golden: a screen says "look here"; what is stored and compared for good is XXH3-128. One word is enough for that:
 * two tensors that differ agree by chance once in 2^64, and every difference that is reported was copied and compared.
 * Idea: each element is mixed with its index and the results are added modulo 2^64, so any split over threads, lanes or
 * devices gives the same sum: the host walks a row, a device adds where the tensor lies (cuda/checksum.cu).
 * Source: the finaliser of SplitMix64 (Steele, Lea & Flood 2014). Exercise: ctest -R unit.explain ; ctest -R device.trace */
#ifndef FORKGATE_CHECKSUM_H
#define FORKGATE_CHECKSUM_H

#include "fmath.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the elements of rows lie in memory; each counts as the f32 that it stands for. */
enum row_kind {
    ROWS_F32,
    ROWS_F16,
    ROWS_I8,
    ROWS_I16,
    ROWS_Q8_0 /* struct block_q8_0: f16(d) * q */
};

/* n rows of cols elements; row i starts i * stride elements behind `data`. ROWS_Q8_0: cols and stride in whole blocks. */
struct row_span {
    enum row_kind kind;
    const void *data;
    int64_t n, cols, stride;
};

struct row_sum {
    uint64_t sum;     /* checksum_f32 of the row as f32 */
    uint32_t largest; /* bits of the largest |x| of the row, NaN left out */
    uint32_t zero;
};

#define ROW_BLOCK       32 /* elements of a block_q8_0 */
#define ROW_BLOCK_BYTES 34

/* A bijection of 64 bits whose every output bit depends on every input bit. */
FM_FN uint64_t checksum_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u; /* so that 0 does not map to 0 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* What element i of a row adds to its checksum; a NaN counts as 0x7fc00000, -0 and +0 are different. */
FM_FN uint64_t checksum_element(uint64_t i, float x) {
    return checksum_mix(i << 32 | (fm_f32_is_nan(x) ? 0x7fc00000u : fm_f32_bits(x)));
}

/* Bytes from the start of a row to its element i (ROWS_Q8_0: to the block that holds it). */
FM_FN size_t checksum_offset(enum row_kind kind, int64_t i) {
    if (kind == ROWS_Q8_0) return (size_t)(i / ROW_BLOCK) * ROW_BLOCK_BYTES;
    return (size_t)i * (kind == ROWS_F32 ? sizeof(float) : kind == ROWS_I8 ? 1 : 2);
}

/* Element i of a row as f32; exact for every kind but ROWS_Q8_0, whose product is rounded once. */
FM_FN float checksum_value(enum row_kind kind, const void *row, int64_t i) {
    const uint8_t *at = (const uint8_t *)row + checksum_offset(kind, i);
    uint32_t word = 0;
    uint16_t half = 0;
    if (kind == ROWS_I8) return (float)(int8_t)*at;
    if (kind == ROWS_F32) {
        memcpy(&word, at, sizeof word);
        return fm_f32_from_bits(word);
    }
    memcpy(&half, at, sizeof half);
    if (kind == ROWS_I16) return (float)(int16_t)half;
    if (kind == ROWS_F16) return fm_f16_to_f32(half);
    return fm_f16_to_f32(half) * (float)(int8_t)at[2 + i % ROW_BLOCK];
}

/* sum over i of checksum_element(i, x[i]), modulo 2^64. */
uint64_t checksum_f32(const float *x, int64_t n);

/* The part that row `pos` with checksum `sum` adds to the checksum of a tensor known as `tag`. */
uint64_t checksum_part(uint64_t sum, uint64_t pos, uint64_t tag);

/* The twin of the device's kernel: out[s->n] of rows in host memory. */
void checksum_rows(const struct row_span *s, struct row_sum *out);

/* Element 0 .. cols-1 of row r as f32. */
void checksum_widen(const struct row_span *s, int64_t r, float *out);

#ifdef __cplusplus
}
#endif
#endif
