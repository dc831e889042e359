/* quantise_k.c - the K-quants: super-blocks of 256 with small integer sub-scales (see quantise.h).
 * Not a search: each sub-block takes its own range, the super-block the largest sub-scale.
 * Idea: sub-scales are rounded first (never to 0 where the sub-block is not flat), then the codes are chosen against
 * the rounded scale. Source: the ggml block layouts. Exercise: ctest -R unit.make_model */
#include "quantise.h"

#include <string.h>

#include "fmath.h"

#define SUB_SCALE_TOP 63 /* 6-bit sub-scales and mins of q4_K and q5_K */

static int nearest(float x, int min, int max) {
    if (x < (float)min) return min;
    return x > (float)max ? max : (int)fm_rintf(x);
}

static int all_finite(const float *x) {
    uint32_t bad = 0;
    for (int i = 0; i < QK_256; i++) bad |= (uint32_t)!fm_f32_is_finite(x[i]);
    return !bad;
}

/* What q4_K and q5_K share: d, dmin, eight 6-bit scales and mins, 256 codes 0 .. top. */
struct affine {
    uint16_t d, dmin;
    uint8_t scale[8], min[8];
    uint8_t code[QK_256];
};

static int store(float v, uint16_t *bits, float *back) {
    *bits = fm_f32_to_f16(v);
    *back = fm_f16_to_f32(*bits);
    return fm_f32_is_finite(*back);
}

/* The largest of eight values, over 63, as f16; then each as a multiple of it. */
static int store_sub_scales(const float v[8], uint16_t *bits, float *unit, uint8_t out[8]) {
    float most = 0.0f;
    for (int j = 0; j < 8; j++) most = v[j] > most ? v[j] : most;
    if (!store(most / (float)SUB_SCALE_TOP, bits, unit)) return 0;
    float inverse = *unit > 0.0f ? 1.0f / *unit : 0.0f;
    for (int j = 0; j < 8; j++) out[j] = (uint8_t)nearest(v[j] * inverse, 0, SUB_SCALE_TOP);
    return 1;
}

static int affine_codes(const float *x, int top, struct affine *a) {
    if (!all_finite(x)) return 0;
    float scale[8], below[8], d, dmin;
    for (int j = 0; j < 8; j++) {
        float low = 0.0f, high = 0.0f; /* the stored min only ever lowers: the range contains 0 */
        for (int i = 32 * j; i < 32 * j + 32; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        below[j] = -low;
        scale[j] = (high - low) / (float)top;
    }
    if (!store_sub_scales(scale, &a->d, &d, a->scale) || !store_sub_scales(below, &a->dmin, &dmin, a->min))
        return 0;
    for (int j = 0; j < 8; j++) {
        if (a->scale[j] == 0 && scale[j] > 0.0f && d > 0.0f) a->scale[j] = 1;
        float step = d * (float)a->scale[j], base = dmin * (float)a->min[j];
        float inverse = step > 0.0f ? 1.0f / step : 0.0f;
        for (int i = 32 * j; i < 32 * j + 32; i++)
            a->code[i] = (uint8_t)nearest((x[i] + base) * inverse, 0, top);
    }
    return 1;
}

/* The inverse of dtype_scale_min_k. */
static void pack_scales(const struct affine *a, uint8_t out[12]) {
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(a->scale[j] | (a->scale[j + 4] >> 4) << 6);
        out[j + 4] = (uint8_t)(a->min[j] | (a->min[j + 4] >> 4) << 6);
        out[j + 8] = (uint8_t)((a->scale[j + 4] & 15) | (a->min[j + 4] & 15) << 4);
    }
}

/* Sub-blocks 2j and 2j+1 share 32 bytes: low and high nibbles. */
static void pack_nibbles(const uint8_t code[QK_256], uint8_t qs[128]) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 32; i++)
            qs[32 * j + i] = (uint8_t)((code[64 * j + i] & 15) | (code[64 * j + 32 + i] & 15) << 4);
}

int quantise_q4_k(const float *x, struct block_q4_K *out) {
    struct affine a;
    if (!affine_codes(x, 15, &a)) return 0;
    out->d = a.d;
    out->dmin = a.dmin;
    pack_scales(&a, out->scales);
    pack_nibbles(a.code, out->qs);
    return 1;
}

int quantise_q5_k(const float *x, struct block_q5_K *out) {
    struct affine a;
    if (!affine_codes(x, 31, &a)) return 0;
    out->d = a.d;
    out->dmin = a.dmin;
    pack_scales(&a, out->scales);
    pack_nibbles(a.code, out->qs);
    memset(out->qh, 0, sizeof out->qh);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) out->qh[i] = (uint8_t)(out->qh[i] | (a.code[32 * j + i] >> 4 & 1) << j);
    return 1;
}

/* Two halves of 128: ql byte l and l+32 hold elements l, l+32 (low) and l+64, l+96 (high nibbles), qh byte l the upper
 * two bits of all four. */
static void pack_q6(const uint8_t code[QK_256], struct block_q6_K *out) {
    for (int half = 0; half < 2; half++) {
        const uint8_t *c = code + 128 * half;
        for (int l = 0; l < 32; l++) {
            out->ql[64 * half + l] = (uint8_t)((c[l] & 15) | (c[l + 64] & 15) << 4);
            out->ql[64 * half + 32 + l] = (uint8_t)((c[l + 32] & 15) | (c[l + 96] & 15) << 4);
            out->qh[32 * half + l] =
                (uint8_t)(c[l] >> 4 | (c[l + 32] >> 4) << 2 | (c[l + 64] >> 4) << 4 | (c[l + 96] >> 4) << 6);
        }
    }
}

int quantise_q6_k(const float *x, struct block_q6_K *out) {
    if (!all_finite(x)) return 0;
    float scale[16], d, most = 0.0f;
    for (int j = 0; j < 16; j++) {
        float low = x[16 * j], high = low;
        for (int i = 16 * j; i < 16 * j + 16; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        scale[j] = (-low > high ? low : high) / -32.0f; /* the extreme value takes code -32 */
        float size = scale[j] < 0.0f ? -scale[j] : scale[j];
        most = size > most ? size : most;
    }
    if (!store(most / 127.0f, &out->d, &d)) return 0;
    float inverse_d = d > 0.0f ? 1.0f / d : 0.0f;
    uint8_t code[QK_256];
    for (int j = 0; j < 16; j++) {
        out->scales[j] = (int8_t)nearest(scale[j] * inverse_d, -127, 127);
        float step = d * (float)out->scales[j];
        float inverse = step > 0.0f || step < 0.0f ? 1.0f / step : 0.0f;
        for (int i = 16 * j; i < 16 * j + 16; i++) code[i] = (uint8_t)(nearest(x[i] * inverse, -32, 31) + 32);
    }
    pack_q6(code, out);
    return 1;
}
