/* test_oracle.c - the oracles against answers worked out by hand and against identities. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "gates/oracle/oracle.h"

#define NEAR(a, b, eps) cr_assert(fabs((a) - (b)) <= (eps), "got %.17g want %.17g", (double)(a), (double)(b))

Test(oracle, every_f16_survives_the_round_trip) {
    for (unsigned u = 0; u < 65536; u++) {
        double x = oracle_f16_value((uint16_t)u);
        unsigned back = oracle_f16_round(x);
        if (isnan(x))
            cr_assert((back & 0x7fff) > 0x7c00, "NaN %x became %x", u, back);
        else
            cr_assert_eq(back, u, "%x became %x", u, back);
    }
}

Test(oracle, f16_rounds_to_nearest_even_and_overflows_late) {
    cr_assert_eq(oracle_f16_round(1.0 + 0x1p-11), 0x3c00, "tie to even, down");
    cr_assert_eq(oracle_f16_round(1.0 + 3 * 0x1p-11), 0x3c02, "tie to even, up");
    cr_assert_eq(oracle_f16_round(65519.0), 0x7bff, "just below the overflow tie");
    cr_assert_eq(oracle_f16_round(65520.0), 0x7c00, "the tie itself overflows");
    cr_assert_eq(oracle_f16_round(0x1p-25), 0x0000, "half the smallest subnormal: tie to even");
    cr_assert_eq(oracle_f16_round(-0x1.8p-25), 0x8001, "above half");
    cr_assert_eq(oracle_f16_round(-0.0), 0x8000, "signed zero");
}

Test(oracle, quantised_blocks_by_hand) {
    double v[256], m[256];
    uint8_t q4[18] = {0x00, 0x38}; /* d = 0.5 */
    q4[2] = 0x9f;                  /* element 0: 15, element 16: 9 */
    oracle_dequant(DTYPE_Q4_0, q4, 32, v, m);
    NEAR(v[0], 3.5, 0);
    NEAR(v[16], 0.5, 0);
    NEAR(v[1], -4.0, 0);
    uint8_t q51[24] = {0x00, 0x3c, 0x00, 0xc0, 0x01, 0, 0, 0x80}; /* d = 1, m = -2, bits 0 and 31 */
    q51[8 + 15] = 0x30;                                           /* element 31: 3 | 16 */
    oracle_dequant(DTYPE_Q5_1, q51, 32, v, m);
    NEAR(v[0], 14.0, 0);
    NEAR(v[31], 17.0, 0);
    NEAR(m[31], 21.0, 0);
    uint8_t q4k[144] = {0x00, 0x3c, 0x00, 0x38}; /* d = 1, dmin = 0.5 */
    q4k[4] = 3 | 1 << 6;                         /* sub-block 0: scale 3; high bits of sub-block 4 */
    q4k[4 + 8] = 0x25;                           /* sub-block 4: scale 5 + 16, min 2 */
    q4k[4 + 4] = 7;                              /* sub-block 0: min 7 */
    q4k[16] = 0x04;
    q4k[16 + 64] = 0x02; /* group 2, lane 0: element 128 (sub-block 4) code 2 */
    oracle_dequant(DTYPE_Q4_K, q4k, 256, v, m);
    NEAR(v[0], 3 * 4 - 3.5, 0);
    NEAR(v[128], 21 * 2 - 1.0, 0);
    uint8_t q6k[210] = {0};
    q6k[0] = 0x51;              /* element 0 low 1, element 64 low 5 */
    q6k[128] = 0x30 | 0x02;     /* qh lane 0: element 0 high 2, element 64 high 3 */
    q6k[192] = 2;               /* scale of elements 0..15 */
    q6k[192 + 4] = (uint8_t)-1; /* scale of elements 64..79 */
    q6k[209] = 0x3c;            /* d = 1 */
    oracle_dequant(DTYPE_Q6_K, q6k, 256, v, m);
    NEAR(v[0], 2 * (33 - 32), 0);
    NEAR(v[64], -1 * (5 + 48 - 32), 0);
}

Test(oracle, rmsnorm_of_a_3_4_row) {
    float x[] = {3, 4}, w[] = {1, 2};
    double y[2], s[2];
    oracle_rmsnorm(x, w, 0.0, 1, 2, y, s);
    NEAR(y[0], 3 / sqrt(12.5), 1e-15);
    NEAR(y[1], 8 / sqrt(12.5), 1e-15);
}

Test(oracle, rope_by_a_right_angle_swaps_the_pair) {
    float x[] = {1, 2, 3, 4, 9}, c[] = {0, 1}, sn[] = {1, 0};
    int32_t pos = 0;
    double y[5], s[5];
    oracle_rope(x, &pos, 1, 1, 5, 4, 0, c, sn, y, s); /* pairs (0,2), (1,3) */
    NEAR(y[0], -3, 0);
    NEAR(y[2], 1, 0);
    NEAR(y[1], 2, 0);
    NEAR(y[4], 9, 0);
    oracle_rope(x, &pos, 1, 1, 5, 4, 1, c, sn, y, s); /* pairs (0,1), (2,3) */
    NEAR(y[0], -2, 0);
    NEAR(y[1], 1, 0);
    NEAR(y[2], 3, 0);
}

Test(oracle, attention_over_equal_scores_is_the_mean_and_stops_at_pos) {
    double q[] = {0, 0}, k[] = {1, 2, 3, 4, 5, 6}, v[] = {1, 10, 3, 30, 500, 5000}, o[2], s[2];
    int32_t pos = 1;
    struct oracle_attention p = {q, k, v, &pos, 1, 1, 1, 2};
    oracle_attention(&p, o, s);
    NEAR(o[0], 2, 1e-15);
    NEAR(o[1], 20, 1e-14);
    NEAR(s[0], 30, 0);
}

Test(oracle, attention_groups_query_heads_by_division) {
    double q[] = {0, 0, 0, 0}, k[] = {0, 0}, v[] = {7, 9}, o[4], s[4]; /* 4 heads, 2 kv heads, head_dim 1 */
    int32_t pos = 0;
    struct oracle_attention p = {q, k, v, &pos, 1, 4, 2, 1};
    oracle_attention(&p, o, s);
    NEAR(o[0], 7, 0);
    NEAR(o[1], 7, 0);
    NEAR(o[2], 9, 0);
    NEAR(o[3], 9, 0);
}

Test(oracle, matmul_scale_is_the_sum_of_magnitudes) {
    double a[] = {1, -2}, w[] = {3, 4, 5, -6}, y[2], s[2];
    float bias[] = {0.5f, -1.0f};
    struct oracle_product p = {a, w, NULL, bias, 1, 2, 2};
    oracle_matmul(&p, y, s);
    NEAR(y[0], -4.5, 0);
    NEAR(y[1], 16, 0);
    NEAR(s[0], 11.5, 0);
    NEAR(s[1], 18, 0);
}

Test(oracle, top2_rule_on_the_rows_of_the_field_reports) {
    float rows[7][4] = {{1.0f, 3.5f, 3.5f, 2.0f}, {5, 5, 5, 5},         {NAN, 1, 2, 3},
                        {1, INFINITY, 2, 3},      {NAN, NAN, NAN, NAN}, {-INFINITY, 7, -INFINITY, -INFINITY},
                        {0.0f, -0.0f, -1, -2}};
    double out[7 * 7];
    oracle_top2(&rows[0][0], 7, 4, 4, out);
    static const int want[7][2] = {{1, 2}, {0, 1}, {3, 2}, {3, 2}, {-1, -1}, {1, 0}, {0, 1}};
    for (int r = 0; r < 7; r++) {
        cr_assert_eq((int)out[r * 7], want[r][0], "row %d", r);
        cr_assert_eq((int)out[r * 7 + 1], want[r][1], "row %d", r);
    }
    cr_assert_eq((int)out[2 * 7 + 4], 1, "one NaN");
    cr_assert_eq((int)out[3 * 7 + 5], 1, "one +Inf");
    cr_assert_eq((int)out[3 * 7 + 6], 1, "at index 1");
    cr_assert_eq((int)out[5 * 7 + 6], -1, "-Inf is legal");
}

Test(oracle, activation_codes_by_hand) {
    float x[32] = {0};
    double codes[32], scale, sums[2];
    uint64_t bad;
    x[0] = 127.0f;
    x[1] = -63.5f; /* tie: to even, -64 */
    x[2] = 62.5f;  /* tie: to even, 62 */
    oracle_act_q8(x, 32, 32, codes, &scale, sums, &bad);
    NEAR(codes[0], 127, 0);
    NEAR(codes[1], -64, 0);
    NEAR(codes[2], 62, 0);
    NEAR(scale, 1, 0);
    NEAR(sums[0], 125, 0);
    cr_assert_eq(bad, 0);
    x[5] = INFINITY;
    oracle_act_q8(x, 32, 32, codes, &scale, sums, &bad);
    cr_assert_eq(bad, 1);
    cr_assert(isnan(scale), "an unquantisable block has no scale");
}

/* One step that adds n products of 2^exponent to c. */
static float step_of(enum arch arch, int n, int exponent, float c) {
    uint16_t a[TC_K] = {0}, b[TC_K] = {0};
    for (int i = 0; i < n; i++) {
        a[i] = oracle_f16_round(ldexp(1.0, exponent / 2));
        b[i] = oracle_f16_round(ldexp(1.0, exponent - exponent / 2));
    }
    return plain_tc_step(arch, a, b, c);
}

Test(oracle, tensor_core_step_keeps_25_bits_on_sm90_and_24_on_sm80) {
    cr_assert(step_of(ARCH_SM90, 16, 0, 0.0f) == 16.0f, "sixteen ones");
    cr_assert(step_of(ARCH_SM90, 1, -24, 1.0f) == 1.0f, "the sum is truncated to f32");
    cr_assert(step_of(ARCH_SM90, 2, -24, 1.0f) == 1.0f + 0x1p-23f, "halves add up before the truncation");
    cr_assert(step_of(ARCH_SM90, 8, -25, 1.0f) == 1.0f + 0x1p-22f, "25 fraction bits are kept");
    cr_assert(step_of(ARCH_SM90, 16, -26, 1.0f) == 1.0f, "bit 26 is cut from every term");
    cr_assert(step_of(ARCH_SM80, 8, -25, 1.0f) == 1.0f, "sm_80 keeps 24");
    cr_assert(step_of(ARCH_SM80, 8, -24, 1.0f) == 1.0f + 0x1p-21f, "and chains blocks of 8");
    uint16_t up[TC_K],
        down[TC_K]; /* sixteen times +-(1 + 2^-10)^2 beside 64: 2^-20 of each is cut towards zero */
    for (int i = 0; i < TC_K; i++) {
        up[i] = 0x3c01;
        down[i] = 0xbc01;
    }
    cr_assert(plain_tc_step(ARCH_SM90, up, up, 64.0f) == 80.03125f, "truncated, not rounded");
    cr_assert(plain_tc_step(ARCH_SM90, up, down, -64.0f) == -80.03125f, "towards zero on the negative side");
    uint16_t big[TC_K] = {0x7bff}, none[TC_K] = {0};
    cr_assert(plain_tc_step(ARCH_SM90, big, none, 0.0f) == 0.0f, "a zero with a large exponent beside it");
    cr_assert(plain_tc_step(ARCH_SM90, big, none, 0x1p-149f) == 0x1p-149f, "and beside the smallest C");
    uint16_t tiny[TC_K] = {0x8001}, small[TC_K] = {0x0001}; /* -2^-48 beside C = +-2^-149 */
    cr_assert(!signbit(plain_tc_step(ARCH_SM90, tiny, small, 0x1p-48f)), "an exact zero is +0");
    cr_assert(step_of(ARCH_SM90, 1, -24, -1.0f) == -1.0f + 0x1p-24f, "below 1 a finer step exists");
}

Test(oracle, plain_attention_agrees_with_the_truth) {
    enum { HD = 16, KEYS = 40 };
    uint16_t q[HD], k[KEYS * HD], v[KEYS * HD];
    double qd[HD], kd[KEYS * HD], vd[KEYS * HD], o[HD], scale[HD];
    for (int i = 0; i < KEYS * HD; i++) {
        kd[i] = oracle_f16_value(k[i] = oracle_f16_round(sin(i * 0.7)));
        vd[i] = oracle_f16_value(v[i] = oracle_f16_round(cos(i * 1.3)));
    }
    for (int i = 0; i < HD; i++) qd[i] = oracle_f16_value(q[i] = oracle_f16_round(sin(i * 2.1)));
    int32_t pos = KEYS - 1;
    struct oracle_attention p = {qd, kd, vd, &pos, 1, 1, 1, HD};
    oracle_attention(&p, o, scale);
    float got[HD];
    struct err err;
    cr_assert_eq(plain_attention(ARCH_SM90, q, k, v, HD, pos, HD, got, &err), STATUS_OK);
    for (int i = 0; i < HD; i++) NEAR((double)got[i], o[i], 0x1p-12);
}
