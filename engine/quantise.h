/* quantise.h - f32 values to any of the storage types of dtype.h.
 * Not a competitor of llama.cpp's quantisers: no importance matrix and no scale search; simple, valid, deterministic.
 * Idea: every scale is rounded to its stored form first and the codes are chosen against what a reader will see, so a
 * code never hides a scale's rounding. Only IEEE f32 operations: the same bits on every machine.
 * Source: the ggml block layouts. Exercise: ctest -R unit.make_model */
#ifndef FORKGATE_QUANTISE_H
#define FORKGATE_QUANTISE_H

#include <stddef.h>

#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst receives dtype_bytes(t, n) bytes for src[0..n); n a multiple of the type's block.
 * STATUS_INVALID when a value is not finite, or overflows f16 as a value or as a block scale; dst is then undefined. */
enum status quantise(enum dtype t, const float *src, void *dst, size_t n, struct err *err);

/* The K-quants (quantise_k.c): one super-block of 256. 0 when a value or scale cannot be stored. */
int quantise_q4_k(const float *x, struct block_q4_K *out);
int quantise_q5_k(const float *x, struct block_q5_K *out);
int quantise_q6_k(const float *x, struct block_q6_K *out);

#ifdef __cplusplus
}
#endif
#endif
