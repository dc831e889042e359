/* quantise.c - the float types and the 32-element blocks (see quantise.h).
 * Not the K-quants (quantise_k.c).
 * Idea: the scale is what dtype.c will read back; codes are the nearest to x / scale, clamped.
 * Source: the ggml block layouts. Exercise: ctest -R unit.make_model */
#include "quantise.h"

#include <string.h>

#include "fmath.h"

#define BLOCK 32

static int nearest(float x, int min, int max) {
    if (x < (float)min) return min;
    return x > (float)max ? max : (int)fm_rintf(x);
}

struct range {
    float min, max;
    float extreme; /* the value of largest magnitude, with its sign */
};

/* 0 when a value is not finite. */
static int range_of(const float *x, struct range *r) {
    float low = x[0], high = x[0];
    uint32_t bad = 0;
    for (int i = 0; i < BLOCK; i++) {
        bad |= (uint32_t)!fm_f32_is_finite(x[i]);
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    r->min = low;
    r->max = high;
    r->extreme = -low > high ? low : high;
    return !bad;
}

/* Rounds a scale to f16; *back is what a reader gets, *inverse its reciprocal or 0. 0 on overflow. */
static int store_scale(float d, uint16_t *bits, float *back, float *inverse) {
    *bits = fm_f32_to_f16(d);
    *back = fm_f16_to_f32(*bits);
    *inverse = (*bits & 0x7fffu) != 0 ? 1.0f / *back : 0.0f;
    return fm_f32_is_finite(*back);
}

static int to_q8_0(const float *x, struct block_q8_0 *out) {
    struct range r;
    float d, inverse;
    if (!range_of(x, &r)) return 0;
    if (!store_scale((r.extreme < 0.0f ? -r.extreme : r.extreme) / 127.0f, &out->d, &d, &inverse)) return 0;
    for (int i = 0; i < BLOCK; i++) out->qs[i] = (int8_t)nearest(x[i] * inverse, -127, 127);
    return 1;
}

static void pack_nibbles(const int code[BLOCK], uint8_t qs[16]) {
    for (int i = 0; i < 16; i++) qs[i] = (uint8_t)((code[i] & 15) | (code[i + 16] & 15) << 4);
}

static void pack_fifth_bits(const int code[BLOCK], uint8_t qh[4]) {
    memset(qh, 0, 4);
    for (int i = 0; i < BLOCK; i++) qh[i / 8] = (uint8_t)(qh[i / 8] | (code[i] >> 4 & 1) << (i % 8));
}

/* Symmetric: the extreme value takes the code with one more step, -half. */
static int symmetric_codes(const float *x, int half, uint16_t *bits, int code[BLOCK]) {
    struct range r;
    float d, inverse;
    if (!range_of(x, &r) || !store_scale(r.extreme / (float)-half, bits, &d, &inverse)) return 0;
    for (int i = 0; i < BLOCK; i++) code[i] = nearest(x[i] * inverse, -half, half - 1) + half;
    return 1;
}

static int affine_codes(const float *x, int top, uint16_t *bits, uint16_t *min_bits, int code[BLOCK]) {
    struct range r;
    float d, inverse, min, unused;
    if (!range_of(x, &r) || !store_scale(r.min, min_bits, &min, &unused)) return 0;
    float span = r.max - min; /* the stored minimum may lie above the smallest value */
    if (!store_scale(span > 0.0f ? span / (float)top : 0.0f, bits, &d, &inverse)) return 0;
    for (int i = 0; i < BLOCK; i++) code[i] = nearest((x[i] - min) * inverse, 0, top);
    return 1;
}

static int to_q4_0(const float *x, struct block_q4_0 *out) {
    int code[BLOCK];
    if (!symmetric_codes(x, 8, &out->d, code)) return 0;
    pack_nibbles(code, out->qs);
    return 1;
}

static int to_q5_0(const float *x, struct block_q5_0 *out) {
    int code[BLOCK];
    if (!symmetric_codes(x, 16, &out->d, code)) return 0;
    pack_nibbles(code, out->qs);
    pack_fifth_bits(code, out->qh);
    return 1;
}

static int to_q4_1(const float *x, struct block_q4_1 *out) {
    int code[BLOCK];
    if (!affine_codes(x, 15, &out->d, &out->m, code)) return 0;
    pack_nibbles(code, out->qs);
    return 1;
}

static int to_q5_1(const float *x, struct block_q5_1 *out) {
    int code[BLOCK];
    if (!affine_codes(x, 31, &out->d, &out->m, code)) return 0;
    pack_nibbles(code, out->qs);
    pack_fifth_bits(code, out->qh);
    return 1;
}

static int to_f32(const float *x, float *out) {
    *out = *x;
    return fm_f32_is_finite(*x);
}

static int to_f16(const float *x, uint16_t *out) {
    *out = fm_f32_to_f16(*x);
    return (*out & 0x7c00u) != 0x7c00u;
}

static int to_bf16(const float *x, uint16_t *out) {
    *out = fm_f32_to_bf16(*x);
    return (*out & 0x7f80u) != 0x7f80u;
}

#define EACH_BLOCK(function, type, size)                                                                     \
    for (size_t i = 0; i < n / (size); i++)                                                                  \
        if (!function(src + i * (size), (type *)dst + i)) return refuse(t, i * (size), err)

static enum status refuse(enum dtype t, size_t element, struct err *err) {
    return err_set(err, STATUS_INVALID, "values from element %zu on cannot be stored as %s", element,
                   dtype_info((int)t)->name);
}

enum status quantise(enum dtype t, const float *src, void *dst, size_t n, struct err *err) {
    switch (t) {
    case DTYPE_F32:
        EACH_BLOCK(to_f32, float, 1u);
        break;
    case DTYPE_F16:
        EACH_BLOCK(to_f16, uint16_t, 1u);
        break;
    case DTYPE_BF16:
        EACH_BLOCK(to_bf16, uint16_t, 1u);
        break;
    case DTYPE_Q8_0:
        EACH_BLOCK(to_q8_0, struct block_q8_0, QK_32);
        break;
    case DTYPE_Q4_0:
        EACH_BLOCK(to_q4_0, struct block_q4_0, QK_32);
        break;
    case DTYPE_Q4_1:
        EACH_BLOCK(to_q4_1, struct block_q4_1, QK_32);
        break;
    case DTYPE_Q5_0:
        EACH_BLOCK(to_q5_0, struct block_q5_0, QK_32);
        break;
    case DTYPE_Q5_1:
        EACH_BLOCK(to_q5_1, struct block_q5_1, QK_32);
        break;
    case DTYPE_Q4_K:
        EACH_BLOCK(quantise_q4_k, struct block_q4_K, QK_256);
        break;
    case DTYPE_Q5_K:
        EACH_BLOCK(quantise_q5_k, struct block_q5_K, QK_256);
        break;
    case DTYPE_Q6_K:
        EACH_BLOCK(quantise_q6_k, struct block_q6_K, QK_256);
        break;
    }
    return STATUS_OK;
}
