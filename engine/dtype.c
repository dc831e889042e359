/* dtype.c - see dtype.h: sizes, names, and the one dequantisation formula of each storage type.
 * Not a quantiser: make-model has its own; nothing here allocates or refuses.
 * Idea: a block is taken apart once (dtype_codes.h), then put together by the formula beside it in dtype.h.
 * Source: the ggml block layouts. Exercise: ctest -R unit.dtype */
#include "dtype.h"

#include <string.h>

#include "dtype_codes.h"
#include "fmath.h"

_Static_assert(sizeof(struct block_q4_0) == 18, "q4_0 block");
_Static_assert(sizeof(struct block_q4_1) == 20, "q4_1 block");
_Static_assert(sizeof(struct block_q5_0) == 22, "q5_0 block");
_Static_assert(sizeof(struct block_q5_1) == 24, "q5_1 block");
_Static_assert(sizeof(struct block_q8_0) == 34, "q8_0 block");
_Static_assert(sizeof(struct block_q4_K) == 144, "q4_k super-block");
_Static_assert(sizeof(struct block_q5_K) == 176, "q5_k super-block");
_Static_assert(sizeof(struct block_q6_K) == 210, "q6_k super-block");

struct dtype_row {
    int code;
    struct dtype_info info;
};

static const struct dtype_row rows[] = {
    {DTYPE_F32, {"f32", 1, 4, 0}},          {DTYPE_F16, {"f16", 1, 2, 0}},
    {DTYPE_BF16, {"bf16", 1, 2, 0}},        {DTYPE_Q8_0, {"q8_0", QK_32, 34, 1}},
    {DTYPE_Q4_0, {"q4_0", QK_32, 18, 1}},   {DTYPE_Q4_1, {"q4_1", QK_32, 20, 1}},
    {DTYPE_Q5_0, {"q5_0", QK_32, 22, 1}},   {DTYPE_Q5_1, {"q5_1", QK_32, 24, 1}},
    {DTYPE_Q4_K, {"q4_k", QK_256, 144, 1}}, {DTYPE_Q5_K, {"q5_k", QK_256, 176, 1}},
    {DTYPE_Q6_K, {"q6_k", QK_256, 210, 1}},
};

static const struct {
    int code;
    const char *name;
} foreign[] = {
    {4, "q4_2"},        {5, "q4_3"},        {9, "q8_1"},        {10, "q2_k"},    {11, "q3_k"},
    {15, "q8_k"},       {16, "iq2_xxs"},    {17, "iq2_xs"},     {18, "iq3_xxs"}, {19, "iq1_s"},
    {20, "iq4_nl"},     {21, "iq3_s"},      {22, "iq2_s"},      {23, "iq4_xs"},  {24, "i8"},
    {25, "i16"},        {26, "i32"},        {27, "i64"},        {28, "f64"},     {29, "iq1_m"},
    {31, "q4_0_4_4"},   {32, "q4_0_4_8"},   {33, "q4_0_8_8"},   {34, "tq1_0"},   {35, "tq2_0"},
    {36, "iq4_nl_4_4"}, {37, "iq4_nl_4_8"}, {38, "iq4_nl_8_8"}, {39, "mxfp4"},
};

const struct dtype_info *dtype_info(int code) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code) return &rows[i].info;
    return NULL;
}

static int ascii_lower(int c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

int dtype_from_name(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *a = rows[i].info.name, *b = name;
        while (*a != '\0' && *a == ascii_lower((unsigned char)*b)) a++, b++;
        if (*a == '\0' && *b == '\0') return rows[i].code;
    }
    return -1;
}

const char *dtype_foreign_name(int code) {
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (foreign[i].code == code) return foreign[i].name;
    return NULL;
}

uint64_t dtype_bytes(enum dtype t, uint64_t n) {
    const struct dtype_info *info = dtype_info((int)t);
    return info == NULL ? 0 : n / (uint64_t)info->block * (uint64_t)info->bytes;
}

void dtype_scale_min_k(const uint8_t scales[12], int j, int *scale, int *min) {
    if (j < 4) {
        *scale = scales[j] & 63;
        *min = scales[j + 4] & 63;
    } else { /* the upper two bits of sub-blocks 4..7 sit above the 6 bits of sub-blocks 0..3 */
        *scale = (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
        *min = (scales[j + 4] >> 4) | (scales[j] >> 6) << 4;
    }
}

/* y = s * q, or s * q + m: two roundings, never fused. */
static void scale_codes(const int8_t *q, int n, float s, int has_min, float m, float *y) {
    if (has_min)
        for (int i = 0; i < n; i++) y[i] = s * (float)q[i] + m;
    else
        for (int i = 0; i < n; i++) y[i] = s * (float)q[i];
}

/* One block of a quantised type by the formula of dtype.h; x - dmin*m is computed as x + (-(dmin*m)), the same bits. */
static void dequantise_block(enum dtype t, const void *block, float *y) {
    struct block_codes c;
    dtype_block_codes(t, block, &c);
    int is_45_k = t == DTYPE_Q4_K || t == DTYPE_Q5_K, sub = t == DTYPE_Q6_K ? 16 : 32;
    if (!is_45_k && t != DTYPE_Q6_K) {
        scale_codes(c.q, QK_32, c.d, t == DTYPE_Q4_1 || t == DTYPE_Q5_1, c.m, y);
        return;
    }
    for (int j = 0; j < QK_256 / sub; j++) {
        float min = is_45_k ? -(c.m * (float)c.min[j]) : 0.0f;
        scale_codes(c.q + j * sub, sub, c.d * (float)c.scale[j], is_45_k, min, y + j * sub);
    }
}

void dtype_dequantise(enum dtype t, const void *src, float *dst, size_t n) {
    const struct dtype_info *info = dtype_info((int)t);
    if (info->is_quantised) {
        for (size_t b = 0; b < n / (size_t)info->block; b++)
            dequantise_block(t, (const uint8_t *)src + b * (size_t)info->bytes,
                             dst + b * (size_t)info->block);
    } else if (t == DTYPE_F32) {
        memcpy(dst, src, n * sizeof *dst);
    } else {
        for (size_t i = 0; i < n; i++) {
            uint16_t bits;
            memcpy(&bits, (const uint8_t *)src + 2 * i, sizeof bits);
            dst[i] = t == DTYPE_F16 ? fm_f16_to_f32(bits) : fm_bf16_to_f32(bits);
        }
    }
}
