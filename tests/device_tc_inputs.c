/* device_tc_inputs.c - see device_tc_inputs.h. */
#include "device_tc_inputs.h"

#include <math.h>

#include "../engine/fmath.h"
#include "../engine/rng.h"

const char *tc_family_name(enum tc_family f) {
    static const char *const names[FAMILY_COUNT] = {"normal",     "wide",    "subnormal", "zeros",
                                                    "cancelling", "special", "any_bits",  "tiny"};
    return names[f];
}

static uint16_t from_f32(enum tc_type type, float x) {
    return type == TC_F16 ? fm_f32_to_f16(x) : fm_f32_to_bf16(x);
}
static float to_f32(enum tc_type type, uint16_t h) {
    return type == TC_F16 ? fm_f16_to_f32(h) : fm_bf16_to_f32(h);
}

/* A random significand at a random exponent; sums of products stay finite. */
static uint16_t wide_value(enum tc_type type, uint64_t bits) {
    int mant_bits = type == TC_F16 ? 10 : 7;
    uint32_t mant = (uint32_t)bits & ((1u << mant_bits) - 1u), sign = (uint32_t)(bits >> 16) & 1u;
    uint32_t low = type == TC_F16 ? 0u : 70u, span = type == TC_F16 ? 31u : 115u;
    uint32_t exp = low + (uint32_t)(bits >> 32) % span;
    return (uint16_t)(sign << 15 | exp << mant_bits | mant);
}

static uint16_t subnormal_value(enum tc_type type, uint64_t bits) {
    int mant_bits = type == TC_F16 ? 10 : 7;
    uint32_t mant = (uint32_t)bits & ((1u << mant_bits) - 1u), sign = (uint32_t)(bits >> 16) & 1u;
    uint32_t exp = (bits >> 32) % 4 == 0 ? (uint32_t)(bits >> 40) % 3u : 0u;
    return (uint16_t)(sign << 15 | exp << mant_bits | mant);
}

/* bf16: products from 2^-166 to 2^-104; f16: every exponent below 2^-7. */
static uint16_t tiny_value(enum tc_type type, uint64_t bits) {
    int mant_bits = type == TC_F16 ? 10 : 7;
    uint32_t mant = (uint32_t)bits & ((1u << mant_bits) - 1u), sign = (uint32_t)(bits >> 16) & 1u;
    uint32_t low = type == TC_F16 ? 0u : 44u, span = type == TC_F16 ? 8u : 31u;
    if (bits >> 60 == 0) return (uint16_t)(sign << 15);
    return (uint16_t)(sign << 15 | (low + (uint32_t)(bits >> 32) % span) << mant_bits | mant);
}

static uint16_t special_value(enum tc_type type, uint64_t bits) {
    uint16_t inf = type == TC_F16 ? 0x7c00 : 0x7f80, sign = (uint16_t)((bits >> 16 & 1u) << 15);
    return (uint16_t)(sign | inf | ((bits >> 20) % 3 == 0 ? 1u : 0u));
}

/* Element i of operand stream `seed`; k_index is its place along K (pairs cancel). */
static uint16_t value_of(enum tc_family f, enum tc_type type, uint64_t seed, uint64_t i, int k_index,
                         int is_a) {
    uint64_t bits = rng_u64(seed, i);
    switch (f) {
    case FAMILY_NORMAL:
        break;
    case FAMILY_WIDE:
        return wide_value(type, bits);
    case FAMILY_SUBNORMAL:
        return is_a || bits >> 60 < 8 ? subnormal_value(type, bits) : wide_value(type, bits);
    case FAMILY_ZEROS:
        if (bits >> 63) return (uint16_t)((bits >> 62 & 1u) << 15);
        return wide_value(type, bits);
    case FAMILY_CANCELLING: /* a[2j+1] = -a[2j]; b[2j+1] = b[2j], or its neighbour */
        if (k_index % 2 == 0) return wide_value(type, bits);
        if (is_a) return wide_value(type, rng_u64(seed, i - 1)) ^ 0x8000u;
        return wide_value(type, rng_u64(seed, i - 1)) ^ (uint16_t)(bits & 1u);
    case FAMILY_SPECIAL:
        if (bits % 97 == 0) return special_value(type, bits);
        break;
    case FAMILY_ANY_BITS:
        return (uint16_t)bits;
    case FAMILY_TINY:
        return tiny_value(type, bits);
    case FAMILY_COUNT:
        break;
    }
    return from_f32(type, rng_normal(seed, i));
}

/* C from 2^-133 (an f32 subnormal) to 2^30, of either sign, sometimes zero, special where the family is. */
static float addend(enum tc_family f, uint64_t bits) {
    if (f == FAMILY_ANY_BITS) return fm_f32_from_bits((uint32_t)bits);
    if (bits >> 60 == 0) return 0.0f;
    if (f == FAMILY_TINY) { /* zero, or any magnitude from the smallest subnormal to 2^-104 */
        if (bits >> 62 == 0) return 0.0f;
        uint32_t u = (uint32_t)bits & 0x7fffffu, sign = (uint32_t)(bits >> 40 & 1u) << 31;
        uint32_t field = (uint32_t)(bits >> 32 & 0xffu) % 46u;
        return fm_f32_from_bits(sign | (field > 22u ? field - 22u : 0u) << 23 |
                                (field > 22u ? u : u >> field));
    }
    if (f == FAMILY_SPECIAL && bits % 89 == 0)
        return fm_f32_from_bits(0x7f800000u | (uint32_t)(bits >> 32 & 1u) << 31);
    int exp = f == FAMILY_NORMAL ? (int)(bits >> 32 & 7u) - 4 : (int)(bits >> 32 & 0xffu) % 164 - 133;
    float mant = 1.0f + (float)(bits & 0x7fffffu) * 0x1p-23f;
    return ldexpf(bits >> 40 & 1u ? -mant : mant, exp);
}

void tc_family_tile(enum tc_family f, enum tc_type type, int tile, int k, uint16_t *a, uint16_t *b,
                    float *c) {
    uint64_t seed =
        ((uint64_t)f * 2u + (uint64_t)type) * 1000003u + (uint64_t)tile * 3u + (uint64_t)k * 7919u;
    for (int i = 0; i < TC_TEST_M * k; i++) a[i] = value_of(f, type, seed, (uint64_t)i, i % k, 1);
    for (int i = 0; i < TC_TEST_N * k; i++) b[i] = value_of(f, type, seed + 1, (uint64_t)i, i % k, 0);
    for (int i = 0; i < TC_TEST_M * TC_TEST_N; i++) {
        c[i] = addend(f, rng_u64(seed + 2, (uint64_t)i));
        if (f != FAMILY_CANCELLING || i % 2 == 0) continue;
        double sum = 0.0; /* C close to minus the sum: what is left is what truncation left */
        for (int j = 0; j < k; j++)
            sum += (double)to_f32(type, a[i / TC_TEST_N * k + j]) *
                   (double)to_f32(type, b[i % TC_TEST_N * k + j]);
        c[i] = (float)-sum;
    }
}
