/* test_dtype.c - block layouts and dequantisation against another implementation's values and hand-worked ones. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "dtype_vectors.h"
#include "engine/dtype.h"
#include "engine/dtype_codes.h"

static const int all_types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
#define N_TYPES (sizeof all_types / sizeof all_types[0])

struct vector_row {
    int code;
    int d_at, m_at; /* byte offsets of the scale and of the min's scale; -1: none */
    const uint32_t *expected;
};

static const struct vector_row vectors[] = {
    {DTYPE_Q4_0, 0, -1, expected_q4_0}, {DTYPE_Q4_1, 0, 2, expected_q4_1},
    {DTYPE_Q5_0, 0, -1, expected_q5_0}, {DTYPE_Q5_1, 0, 2, expected_q5_1},
    {DTYPE_Q8_0, 0, -1, expected_q8_0}, {DTYPE_Q4_K, 0, 2, expected_q4_k},
    {DTYPE_Q5_K, 0, 2, expected_q5_k},  {DTYPE_Q6_K, 208, -1, expected_q6_k}};

/* Equal as values and in the sign of zero. */
static int same(float got, double want) {
    double wide = (double)got;
    return memcmp(&wide, &want, sizeof want) == 0;
}

static void put_u16(uint8_t *p, int at, uint16_t value) {
    if (at >= 0) memcpy(p + at, &value, sizeof value);
}

/* The block bytes described at the head of dtype_vectors.h. */
static void vector_block(const struct vector_row *row, uint8_t *block) {
    uint32_t x = (uint32_t)row->code;
    for (int i = 0; i < dtype_info(row->code)->bytes; i++) {
        x = x * 1664525u + 1013904223u;
        block[i] = (uint8_t)(x >> 24);
    }
    put_u16(block, row->d_at, 0x2e66);
    put_u16(block, row->m_at, 0xb155);
}

Test(dtype, quantised_blocks_equal_another_implementation_bit_for_bit) {
    for (size_t t = 0; t < sizeof vectors / sizeof vectors[0]; t++) {
        const struct dtype_info *info = dtype_info(vectors[t].code);
        uint8_t block[256];
        float got[QK_256];
        vector_block(&vectors[t], block);
        dtype_dequantise((enum dtype)vectors[t].code, block, got, (size_t)info->block);
        for (int i = 0; i < info->block; i++) {
            uint32_t bits;
            memcpy(&bits, &got[i], sizeof bits);
            cr_assert_eq(bits, vectors[t].expected[i], "%s element %d: got %08x want %08x", info->name, i,
                         bits, vectors[t].expected[i]);
        }
    }
}

Test(dtype, float_types_widen_exactly) {
    static const uint16_t f16[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0xc000, 0x7bff, 0x7c00};
    static const double f16_want[] = {0.0, -0.0, 0x1p-24, 1023 * 0x1p-24, 0x1p-14,
                                      1.0, -2.0, 65504.0, INFINITY};
    static const uint16_t bf16[] = {0x0000, 0x0001, 0x3f80, 0xc040, 0x7f7f, 0xff80};
    static const double bf16_want[] = {0.0, 0x1p-133, 1.0, -3.0, 0x1.fep127, -INFINITY};
    float got[9];
    dtype_dequantise(DTYPE_F16, f16, got, 9);
    for (int i = 0; i < 9; i++) cr_assert(same(got[i], f16_want[i]), "f16 %04x", f16[i]);
    dtype_dequantise(DTYPE_BF16, bf16, got, 6);
    for (int i = 0; i < 6; i++) cr_assert(same(got[i], bf16_want[i]), "bf16 %04x", bf16[i]);
    static const float f32[] = {1.5f, -0x1p-149f, INFINITY};
    dtype_dequantise(DTYPE_F32, f32, got, 3);
    cr_assert_eq(memcmp(got, f32, sizeof f32), 0);
}

/* Several blocks in a row, and from an address that is only 2-byte aligned as blocks in a file are. */
Test(dtype, blocks_follow_each_other_at_their_own_stride) {
    for (size_t t = 0; t < sizeof vectors / sizeof vectors[0]; t++) {
        const struct dtype_info *info = dtype_info(vectors[t].code);
        uint16_t store[3 * 128 + 1];
        uint8_t *src = (uint8_t *)(store + 1);
        for (int b = 0; b < 3; b++) vector_block(&vectors[t], src + b * info->bytes);
        put_u16(src + info->bytes, vectors[t].d_at, 0); /* the middle block has scale zero */
        put_u16(src + info->bytes, vectors[t].m_at, 0);
        float got[3 * QK_256];
        dtype_dequantise((enum dtype)vectors[t].code, src, got, 3 * (size_t)info->block);
        size_t bytes = (size_t)info->block * sizeof(float);
        cr_assert_eq(memcmp(got, vectors[t].expected, bytes), 0, "%s block 0", info->name);
        cr_assert_eq(memcmp(got + 2 * info->block, vectors[t].expected, bytes), 0, "%s block 2", info->name);
        for (int i = 0; i < info->block; i++)
            cr_assert(fabsf(got[info->block + i]) <= 0.0f, "%s block 1 element %d", info->name, i);
    }
}

Test(dtype, six_bit_scales_and_mins_unpack_by_hand) {
    /* sub-block j < 4: low 6 bits of bytes j and j+4; j >= 4: nibbles of byte j+4, upper bits from bytes j-4 and j */
    static const uint8_t scales[12] = {0x3f, 0x41, 0x80, 0xc7, 0xd5, 0x95,
                                       0x55, 0x15, 0x21, 0x43, 0x65, 0x87};
    static const int want_scale[8] = {63, 1, 0, 7, 1, 3 | 16, 5 | 32, 7 | 48};
    static const int want_min[8] = {21, 21, 21, 21, 2 | 48, 4 | 32, 6 | 16, 8};
    for (int j = 0; j < 8; j++) {
        int scale = -1, min = -1;
        dtype_scale_min_k(scales, j, &scale, &min);
        cr_assert_eq(scale, want_scale[j], "scale %d: %d", j, scale);
        cr_assert_eq(min, want_min[j], "min %d: %d", j, min);
    }
}

Test(dtype, block_codes_hold_the_signed_range_of_each_type) {
    static const struct {
        int code, low, high;
    } ranges[] = {{DTYPE_Q8_0, -128, 127}, {DTYPE_Q4_0, -8, 7}, {DTYPE_Q4_1, 0, 15}, {DTYPE_Q5_0, -16, 15},
                  {DTYPE_Q5_1, 0, 31},     {DTYPE_Q4_K, 0, 15}, {DTYPE_Q5_K, 0, 31}, {DTYPE_Q6_K, -32, 31}};
    for (size_t t = 0; t < sizeof ranges / sizeof ranges[0]; t++) {
        const struct dtype_info *info = dtype_info(ranges[t].code);
        int low = 1000, high = -1000;
        for (int fill = 0; fill < 256; fill++) {
            uint8_t block[256];
            memset(block, fill, sizeof block);
            struct block_codes c;
            dtype_block_codes((enum dtype)ranges[t].code, block, &c);
            for (int i = 0; i < info->block; i++) {
                low = c.q[i] < low ? c.q[i] : low;
                high = c.q[i] > high ? c.q[i] : high;
            }
        }
        cr_assert(low == ranges[t].low && high == ranges[t].high, "%s: %d to %d", info->name, low, high);
    }
}

Test(dtype, names_codes_and_sizes_agree) {
    for (size_t t = 0; t < N_TYPES; t++) {
        const struct dtype_info *info = dtype_info(all_types[t]);
        cr_assert(info != NULL);
        cr_assert_eq(dtype_from_name(info->name), all_types[t], "%s", info->name);
        cr_assert_eq(dtype_bytes((enum dtype)all_types[t], (uint64_t)1 << 40),
                     ((uint64_t)1 << 40) / (uint64_t)info->block * (uint64_t)info->bytes, "%s", info->name);
        cr_assert(dtype_foreign_name(all_types[t]) == NULL, "%s is ours", info->name);
    }
    cr_assert_eq(dtype_from_name("Q4_K"), DTYPE_Q4_K);
    cr_assert_eq(dtype_from_name("Bf16"), DTYPE_BF16);
    static const char *const unknown[] = {"", "q4", "q4_k_m", "q4_0x", "iq2_xs", "f"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        cr_assert_eq(dtype_from_name(unknown[i]), -1, "accepted: %s", unknown[i]);
    cr_assert(dtype_info(-1) == NULL && dtype_info(4) == NULL && dtype_info(31) == NULL);
    cr_assert_str_eq(dtype_foreign_name(17), "iq2_xs");
    cr_assert(dtype_foreign_name(99) == NULL && dtype_foreign_name(-1) == NULL);
}
