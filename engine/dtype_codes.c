/* dtype_codes.c - see dtype_codes.h. */
#include "dtype_codes.h"

#include <string.h>

#include "fmath.h"

/* The fifth bit of element i, as 0 or 16. */
static int fifth_bit(const uint8_t qh[4], int i) {
    return (qh[i / 8] >> (i % 8) & 1) << 4;
}

/* Four bits of 32 elements, with a fifth where qh is not NULL, less offset. */
static void codes_32(const uint8_t qs[16], const uint8_t *qh, int offset, int8_t q[QK_32]) {
    for (int i = 0; i < QK_32; i++) {
        int code = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
        if (qh != NULL) code |= fifth_bit(qh, i);
        q[i] = (int8_t)(code - offset);
    }
}

/* Sub-blocks 2j and 2j+1 share 32 bytes of qs (low and high nibbles); bit j of qh[i] is the fifth bit of element i of
 * sub-block j. */
static void codes_45_k(const uint8_t qs[128], const uint8_t *qh, int8_t q[QK_256]) {
    for (int i = 0; i < QK_256; i++) {
        int j = i / 32, at = i % 32;
        int code = qs[32 * (j / 2) + at] >> (j % 2 * 4) & 15;
        if (qh != NULL) code |= (qh[at] >> j & 1) << 4;
        q[i] = (int8_t)code;
    }
}

static void scales_45_k(const uint8_t scales[12], struct block_codes *out) {
    for (int j = 0; j < 8; j++) {
        int scale, min;
        dtype_scale_min_k(scales, j, &scale, &min);
        out->scale[j] = (int8_t)scale;
        out->min[j] = (int8_t)min;
    }
}

/* Two halves of 128. In each, ql byte l and l+32 hold elements l and l+32 in their low and l+64 and l+96 in their high
 * nibbles; qh byte l holds the upper two bits of all four. */
static void codes_q6_k(const struct block_q6_K *b, int8_t q[QK_256]) {
    for (int i = 0; i < QK_256; i++) {
        int half = i / 128, quarter = i % 128 / 32, l = i % 32;
        int low = b->ql[64 * half + 32 * (quarter % 2) + l] >> (quarter / 2 * 4) & 15;
        int high = b->qh[32 * half + l] >> (2 * quarter) & 3;
        q[i] = (int8_t)((low | high << 4) - 32);
    }
}

static void block_codes_32(enum dtype t, const void *block, struct block_codes *out) {
    uint16_t d, m = 0;
    memcpy(&d, block, sizeof d); /* every 32-element type starts with its scale */
    if (t == DTYPE_Q8_0) {
        memcpy(out->q, ((const struct block_q8_0 *)block)->qs, QK_32);
    } else if (t == DTYPE_Q4_0) {
        codes_32(((const struct block_q4_0 *)block)->qs, NULL, 8, out->q);
    } else if (t == DTYPE_Q5_0) {
        const struct block_q5_0 *b = block;
        codes_32(b->qs, b->qh, 16, out->q);
    } else if (t == DTYPE_Q4_1) {
        const struct block_q4_1 *b = block;
        m = b->m;
        codes_32(b->qs, NULL, 0, out->q);
    } else {
        const struct block_q5_1 *b = block;
        m = b->m;
        codes_32(b->qs, b->qh, 0, out->q);
    }
    out->d = fm_f16_to_f32(d);
    out->m = fm_f16_to_f32(m);
}

void dtype_block_codes(enum dtype t, const void *block, struct block_codes *out) {
    if (t == DTYPE_Q4_K) {
        const struct block_q4_K *b = block;
        out->d = fm_f16_to_f32(b->d);
        out->m = fm_f16_to_f32(b->dmin);
        scales_45_k(b->scales, out);
        codes_45_k(b->qs, NULL, out->q);
    } else if (t == DTYPE_Q5_K) {
        const struct block_q5_K *b = block;
        out->d = fm_f16_to_f32(b->d);
        out->m = fm_f16_to_f32(b->dmin);
        scales_45_k(b->scales, out);
        codes_45_k(b->qs, b->qh, out->q);
    } else if (t == DTYPE_Q6_K) {
        const struct block_q6_K *b = block;
        out->d = fm_f16_to_f32(b->d);
        out->m = 0.0f;
        memcpy(out->scale, b->scales, sizeof b->scales);
        codes_q6_k(b, out->q);
    } else {
        block_codes_32(t, block, out);
    }
}
