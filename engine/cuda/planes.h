/* planes.h - the device layout of quantised weights: the file's blocks, cut into planes of aligned fields.
 * Not another quantisation: every byte of the file is kept, only moved.
 * Idea: blocks of 22, 34 or 210 bytes cannot be read in 16-byte pieces; four planes (codes, high bits, scales, d), each
 * [n, blocks of a row] and 256-byte aligned, can.
 * Source: ours; block layouts in dtype.h. Exercise: device_parity --op matmul */
#ifndef FORKGATE_PLANES_H
#define FORKGATE_PLANES_H

#include <stddef.h>

#include "../dtype.h"

struct plane {
    int at, bytes; /* where the field starts in the file's block, and its length; 0 bytes: no such plane */
};

struct plane_set {
    struct plane part[4]; /* codes, high bits, scales (with d and m where they are neighbours), d of q6_K */
};

static inline struct plane_set planes_of(enum dtype t) {
    static const struct plane_set none = {{{0, 0}, {0, 0}, {0, 0}, {0, 0}}};
    static const struct plane_set q8_0 = {{{2, 32}, {0, 0}, {0, 2}, {0, 0}}};
    static const struct plane_set q4_0 = {{{2, 16}, {0, 0}, {0, 2}, {0, 0}}};
    static const struct plane_set q4_1 = {{{4, 16}, {0, 0}, {0, 4}, {0, 0}}};
    static const struct plane_set q5_0 = {{{6, 16}, {2, 4}, {0, 2}, {0, 0}}};
    static const struct plane_set q5_1 = {{{8, 16}, {4, 4}, {0, 4}, {0, 0}}};
    static const struct plane_set q4_k = {{{16, 128}, {0, 0}, {0, 16}, {0, 0}}};
    static const struct plane_set q5_k = {{{48, 128}, {16, 32}, {0, 16}, {0, 0}}};
    static const struct plane_set q6_k = {{{0, 128}, {128, 64}, {192, 16}, {208, 2}}};
    switch (t) {
    case DTYPE_Q8_0:
        return q8_0;
    case DTYPE_Q4_0:
        return q4_0;
    case DTYPE_Q4_1:
        return q4_1;
    case DTYPE_Q5_0:
        return q5_0;
    case DTYPE_Q5_1:
        return q5_1;
    case DTYPE_Q4_K:
        return q4_k;
    case DTYPE_Q5_K:
        return q5_k;
    case DTYPE_Q6_K:
        return q6_k;
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        break;
    }
    return none;
}

/* Byte offset of plane i (i == 4: the whole size) for n_blocks blocks. */
static inline size_t plane_offset(const struct plane_set *s, int i, size_t n_blocks) {
    size_t at = 0;
    for (int p = 0; p < i; p++) at += ((size_t)s->part[p].bytes * n_blocks + 255) / 256 * 256;
    return at;
}

/* The planes of an uploaded matrix. */
struct weight_planes {
    const unsigned char *qs, *qh, *sc, *d;
};

static inline struct weight_planes planes_locate(enum dtype t, const void *data, size_t n_blocks) {
    struct plane_set s = planes_of(t);
    const unsigned char *base = (const unsigned char *)data;
    struct weight_planes w = {base, base + plane_offset(&s, 1, n_blocks),
                              base + plane_offset(&s, 2, n_blocks), base + plane_offset(&s, 3, n_blocks)};
    return w;
}

#endif
