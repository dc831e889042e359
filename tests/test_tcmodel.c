/* test_tcmodel.c - the accumulate model: rules worked by hand, an independent floating-point rendering of it, and
 * SIMD = scalar bit for bit over more than a million dot products of ordinary and hostile operands. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fmath.h"
#include "engine/tcmodel.h"
#include "gates/table.h"

static const enum arch archs[] = {ARCH_SM90, ARCH_SM80};
static const enum tc_type types[] = {TC_F16, TC_BF16};

static uint32_t rng_state;
static uint32_t rng(void) {
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 17;
    return rng_state ^= rng_state << 5;
}

static uint16_t encode(enum tc_type type, double x) {
    return type == TC_F16 ? fm_f32_to_f16((float)x) : fm_f32_to_bf16((float)x);
}

/* ---- rules worked by hand -------------------------------------------------------------------------------------- */
/* Terms are (a, b) pairs; the rest of the TC_K slots is zero. Spread: put them at the end instead of the start. */
struct pair {
    double a, b;
};
static float step(enum arch arch, enum tc_type type, const struct pair *terms, int n, float c) {
    uint16_t a[TC_K] = {0}, b[TC_K] = {0};
    for (int i = 0; i < n; i++) {
        a[i] = encode(type, terms[i].a);
        b[i] = encode(type, terms[i].b);
    }
    return tc_step_scalar(arch, type, a, b, c);
}

#define EXPECT(want, arch, type, c, ...)                                                                     \
    do {                                                                                                     \
        const struct pair terms_[] = {__VA_ARGS__};                                                          \
        float got_ = step(arch, type, terms_, (int)(sizeof terms_ / sizeof terms_[0]), (float)(c));          \
        cr_assert_eq(fm_f32_bits(got_), fm_f32_bits((float)(want)), "line %d: got %a, want %a", __LINE__,    \
                     (double)got_, (double)(want));                                                          \
    } while (0)

Test(tcmodel, results_are_cut_towards_zero_never_rounded) {
    for (int i = 0; i < 2; i++) {
        EXPECT(1 + 0x1p-23, archs[i], TC_F16, 1, {0x1p-11, 0x1.8p-12});
        EXPECT(-1 - 0x1p-23, archs[i], TC_F16, -1, {-0x1p-11, 0x1.8p-12});
        EXPECT(1 - 0x1p-24, archs[i], TC_F16, 1, {-0x1p-12, 0x1p-12}); /* exact */
        EXPECT(16.0 * 65504 * 65504 / 2, archs[i], TC_F16, 0, {65504, 65504}, {65504, 65504}, {65504, 65504},
               {65504, 65504}, {65504, 65504}, {65504, 65504}, {65504, 65504}, {65504, 65504});
    }
}

Test(tcmodel, sm_90_keeps_25_fractional_bits_and_sm_80_keeps_24) {
    const struct pair quarter = {0x1p-12, 0x1p-13}; /* 2^-25: four of them are one ulp of 1 */
    EXPECT(1 + 0x1p-23, ARCH_SM90, TC_F16, 1, quarter, quarter, quarter, quarter);
    EXPECT(1, ARCH_SM80, TC_F16, 1, quarter, quarter, quarter, quarter);
    const struct pair half = {0x1p-12, 0x1p-12};
    EXPECT(1 + 0x1p-23, ARCH_SM80, TC_F16, 1, half, half);
    const struct pair eighth = {0x1p-13, 0x1p-13};
    EXPECT(1, ARCH_SM90, TC_F16, 1, eighth, eighth, eighth, eighth, eighth, eighth, eighth, eighth);
}

Test(tcmodel, sm_80_is_two_blocks_of_eight_terms) {
    const struct pair half = {0x1p-12, 0x1p-12}, zero = {0, 0};
    /* the two halves of an ulp fall into different blocks: each is cut with its block */
    EXPECT(1, ARCH_SM80, TC_F16, 1, half, zero, zero, zero, zero, zero, zero, zero, half);
    EXPECT(1 + 0x1p-23, ARCH_SM90, TC_F16, 1, half, zero, zero, zero, zero, zero, zero, zero, half);
}

Test(tcmodel, a_product_keeps_the_sum_of_its_exponents) {
    /* 1.5 * 1.5 = 2.25 aligns as exponent 0, so terms of 2^-25 survive beside it: eight are an ulp of [2, 4) */
    const struct pair big = {1.5, 1.5}, small = {0x1p-12, 0x1p-13};
    EXPECT(2.25 + 0x1p-22, ARCH_SM90, TC_F16, 0, big, small, small, small, small, small, small, small, small);
    EXPECT(2.25, ARCH_SM90, TC_F16, 2.25, small, small, small, small, small, small, small, small);
}

Test(tcmodel, subnormal_inputs_align_by_the_smallest_exponent) {
    /* 2^-24 is subnormal: it aligns as exponent -14, so what is below 2^-39 is cut */
    EXPECT(0x1p-24, ARCH_SM90, TC_F16, 0, {0x1p-24, 1}, {0x1p-20, 0x1p-20}, {0x1p-20, 0x1p-20});
    EXPECT(0x1p-24 + 0x1p-39, ARCH_SM90, TC_F16, 0, {0x1p-24, 1}, {0x1p-20, 0x1p-19});
    EXPECT(0x1p-48, ARCH_SM90, TC_F16, 0, {0x1p-24, 0x1p-24});
}

Test(tcmodel, zero_operands_do_not_set_the_exponent) {
    EXPECT(0x1p-40, ARCH_SM90, TC_F16, 0, {0, 65504}, {-65504, 0}, {0x1p-20, 0x1p-20});
    EXPECT(0x1p-126, ARCH_SM90, TC_F16, 0x1p-126, {0, 65504});
    EXPECT(0x1p-149, ARCH_SM90, TC_F16, 0x1p-149, {0, 65504});
}

Test(tcmodel, an_exact_zero_is_plus_zero) {
    for (int i = 0; i < 2; i++) {
        EXPECT(0.0f, archs[i], TC_F16, -0.0f, {0, 1});
        EXPECT(0.0f, archs[i], TC_F16, -0.0f, {-0.0, 1}, {-0.0, 3});
        EXPECT(0.0f, archs[i], TC_F16, 0, {1, 1}, {-1, 1});
        EXPECT(0.0f, archs[i], TC_BF16, -3, {1, 3});
    }
}

Test(tcmodel, a_sum_cut_to_nothing_is_plus_zero_on_either_side) {
    for (int i = 0; i < 2; i++) {
        EXPECT(0.0f, archs[i], TC_BF16, 0, {-0x1p-75, 0x1p-75});
        EXPECT(0.0f, archs[i], TC_BF16, -0.0f, {0x1p-75, 0x1p-75});
    }
}

Test(tcmodel, steps_of_zeros_change_nothing) { /* why kernels may pad K */
    static const float all[] = {1.5f, -0x1p-149f, 0x1.fffffep127f, -0x1p-126f, INFINITY};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        EXPECT(all[i], ARCH_SM90, TC_F16, all[i], {0, 0});
        EXPECT(all[i], ARCH_SM80, TC_F16, all[i], {0, 0});
    }
}

Test(tcmodel, subnormal_results_are_produced_and_cut) {
    EXPECT(0x1p-145, ARCH_SM90, TC_BF16, 0, {0x1p-70, 0x1p-75});
    EXPECT(0x1p-149, ARCH_SM90, TC_BF16, 0, {0x1p-70, 0x1.8p-79});
    EXPECT(0x1.8p-148, ARCH_SM90, TC_BF16, 0x1p-149, {0x1p-70, 0x1p-78});
    EXPECT(0x1p-126 - 0x1p-149, ARCH_SM90, TC_BF16, 0x1p-126, {-0x1p-70, 0x1p-79});
}

Test(tcmodel, alignment_never_goes_below_exponent_minus_133) {
    /* 73 * 7 = 511: one term of 2^-149 - 2^-158 and two of 2^-159, which the floor cuts away */
    EXPECT(0.0f, ARCH_SM90, TC_BF16, 0, {73 * 0x1p-79, 7 * 0x1p-79}, {0x1p-80, 0x1p-79}, {0x1p-80, 0x1p-79});
    EXPECT(0x1p-149, ARCH_SM90, TC_BF16, 0, {73 * 0x1p-79, 7 * 0x1p-79}, {0x1p-79, 0x1p-79});
}

Test(tcmodel, overflow_infinities_and_nan) {
    float inf = INFINITY, nan_out = fm_f32_from_bits(0x7fffffffu);
    double big = HUGE_VAL;
    for (int i = 0; i < 2; i++) {
        EXPECT(inf, archs[i], TC_BF16, 0, {0x1p100, 0x1p28});
        EXPECT(-inf, archs[i], TC_BF16, -0x1.fffffep127f, {-0x1p100, 0x1p10});
        EXPECT(0x1.fffffep127, archs[i], TC_F16, 0x1.fffffep127f, {65504, 65504});
        EXPECT(inf, archs[i], TC_F16, 1, {big, 2}, {65504, -65504});
        EXPECT(-inf, archs[i], TC_F16, -inf, {65504, 65504});
        EXPECT(nan_out, archs[i], TC_F16, 0, {big, 0});
        EXPECT(nan_out, archs[i], TC_F16, 0, {big, 1}, {-big, 1});
        EXPECT(nan_out, archs[i], TC_F16, -inf, {1, big});
        EXPECT(nan_out, archs[i], TC_BF16, fm_f32_from_bits(0xffc00123u), {1, 1});
        EXPECT(nan_out, archs[i], TC_BF16, 0, {1, 1}, {fm_nan(), 0});
    }
}

/* ---- captured from an H200 ------------------------------------------------------------------------------------- */
static void parse_operands(const char *hex, uint16_t out[TC_K]) {
    for (int k = 0; k < TC_K; k++) {
        char word[5] = {hex[4 * k], hex[4 * k + 1], hex[4 * k + 2], hex[4 * k + 3], 0};
        out[k] = (uint16_t)strtoul(word, NULL, 16);
    }
}

Test(tcmodel, sm_90_gives_the_results_captured_on_an_h200) {
    struct err err;
    table *t;
    cr_assert_eq(table_read(FORKGATE_SOURCE_DIR "/fixtures/tc_captured.csv", &t, &err), STATUS_OK);
    cr_assert(table_rows(t) >= 776, "%zu captured vectors", table_rows(t));
    for (size_t i = 0; i < table_rows(t); i++) {
        uint16_t a[TC_K], b[TC_K];
        enum tc_type type = strcmp(table_cell(t, i, 1, NULL), "f16") == 0 ? TC_F16 : TC_BF16;
        parse_operands(table_cell(t, i, 2, NULL), a);
        parse_operands(table_cell(t, i, 3, NULL), b);
        uint32_t c = (uint32_t)strtoul(table_cell(t, i, 4, NULL), NULL, 16);
        uint32_t want = (uint32_t)strtoul(table_cell(t, i, 5, NULL), NULL, 16);
        float got = tc_step_scalar(ARCH_SM90, type, a, b, fm_f32_from_bits(c));
        if (fm_f32_is_nan(got) && fm_f32_is_nan(fm_f32_from_bits(want))) continue;
        cr_assert_eq(fm_f32_bits(got), want, "record %zu (%s): %08x, the device gave %08x", i + 1,
                     table_cell(t, i, 0, NULL), fm_f32_bits(got), want);
    }
    table_close(t);
}

/* ---- the same model in floating point, after MMA-Sim's own rendering ------------------------------------------- */
static double value(enum tc_type type, uint16_t h, int *exp) {
    double v = (double)(type == TC_F16 ? fm_f16_to_f32(h) : fm_bf16_to_f32(h));
    int lowest = type == TC_F16 ? -14 : -126, e;
    (void)frexp(v, &e);
    *exp = e - 1 < lowest ? lowest : e - 1;
    return v;
}

static float cut_to_f32(double v) {
    int e;
    (void)frexp(v, &e);
    if (e > 128) return v < 0 ? -INFINITY : INFINITY;
    int lsb = e - 24 < -149 ? -149 : e - 24;
    return (float)ldexp(trunc(ldexp(v, -lsb)), lsb);
}

static float block_double(int bits, enum tc_type type, int terms, const uint16_t *a, const uint16_t *b,
                          float c) {
    double v[TC_K + 1];
    int top = -133, e[TC_K + 1], ea, eb;
    for (int k = 0; k < terms; k++) {
        v[k] = value(type, a[k], &ea) * value(type, b[k], &eb);
        e[k] = ea + eb;
    }
    v[terms] = (double)c;
    (void)frexp(v[terms], &e[terms]);
    e[terms] = e[terms] - 1 < -126 ? -126 : e[terms] - 1;
    for (int k = 0; k <= terms; k++)
        if (fabs(v[k]) > 0 && e[k] > top) top = e[k];
    double sum = 0;
    for (int k = 0; k <= terms; k++) sum += trunc(ldexp(v[k], bits - top));
    return fabs(sum) > 0 ? cut_to_f32(ldexp(sum, top - bits)) : 0.0f;
}

static float step_double(enum arch arch, enum tc_type type, const uint16_t *a, const uint16_t *b, float c) {
    if (arch == ARCH_SM90) return block_double(25, type, 16, a, b, c);
    c = block_double(24, type, 8, a, b, c);
    return fm_f32_is_finite(c) ? block_double(24, type, 8, a + 8, b + 8, c) : c;
}

/* ---- operand families ------------------------------------------------------------------------------------------ */
enum family { NORMAL, WIDE, SUBNORMAL, ZEROS, CANCELLING, FINITE_BITS, SATURATED, ANY_BITS, FAMILIES };

static uint16_t operand(enum tc_type type, enum family f, int k) {
    uint16_t inf = type == TC_F16 ? 0x7c00 : 0x7f80;
    uint16_t bits = (uint16_t)rng(), sign = bits & 0x8000;
    double u = (double)(rng() >> 8) * 0x1p-23 - 1;
    switch (f) {
    case NORMAL:
    case CANCELLING:
        return encode(type, (f == CANCELLING && k & 1 ? 1.0 : 3.0) * u);
    case WIDE:
        return encode(type, ldexp(u, (int)(rng() % 24) - 12));
    case SUBNORMAL:
        return (uint16_t)(bits & (type == TC_F16 ? 0x87ff : 0x80ff));
    case ZEROS:
        if (rng() % 4 != 0) return sign;
        return rng() & 1 ? encode(type, u) : bits & inf ? (uint16_t)(bits & ~0x0400) : bits;
    case SATURATED:
        return rng() % 64 != 0 ? 0x3fff : 0x3ffe; /* the largest significand of both types */
    case FINITE_BITS:
        return (bits & inf) == inf ? (uint16_t)(bits & ~inf) : bits;
    case ANY_BITS:
        if (rng() % 16 != 0) return encode(type, u);
        return rng() & 1 ? bits : (uint16_t)(sign | (rng() % 3 != 0 ? inf : 0) | (rng() % 4 == 0));
    case FAMILIES:
        break;
    }
    return 0;
}

static float accumulator(enum family f) {
    static const float corners[] = {0.0f,  -0.0f, 1e-40f, -1e-45f, 1e9f,
                                    -1e9f, 3e38f, 1e-30f, -64.0f,  0x1p-28f};
    uint32_t pick = rng() % 16;
    if (pick < 10) return corners[pick];
    if (f == SATURATED) return (float)(rng() >> 8) * 0x1p-23f; /* pushes the sum past 2^31 */
    if (f == ANY_BITS && pick == 10) return fm_f32_from_bits(rng());
    return (float)((double)(rng() >> 8) * 0x1p-23 - 1) * ldexpf(1.0f, (int)(rng() % 60) - 30);
}

static void make_rows(enum tc_type type, enum family f, uint16_t *x, int64_t rows, int64_t k, int64_t ld,
                      int is_b) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i++) {
            x[r * ld + i] = operand(type, f, (int)i);
            /* pairs of products that nearly or exactly cancel: equal a, opposite b */
            if (f == CANCELLING && i & 1 && rng() % 8 != 0)
                x[r * ld + i] = x[r * ld + i - 1] ^ (is_b ? 0x8000 : 0);
        }
}

Test(tcmodel, the_integer_model_agrees_with_the_floating_point_one) {
    rng_state = 1;
    for (int t = 0; t < 2; t++)
        for (int f = NORMAL; f < ANY_BITS; f++)
            for (int i = 0; i < 20000; i++) {
                uint16_t a[TC_K], b[TC_K];
                make_rows(types[t], (enum family)f, a, 1, TC_K, TC_K, 0);
                make_rows(types[t], (enum family)f, b, 1, TC_K, TC_K, 1);
                float c = accumulator((enum family)f);
                for (int r = 0; r < 2; r++) {
                    float got = tc_step_scalar(archs[r], types[t], a, b, c);
                    float want = step_double(archs[r], types[t], a, b, c);
                    if (fabs((double)want) > 0 || fabs((double)got) > 0)
                        cr_assert_eq(fm_f32_bits(got), fm_f32_bits(want),
                                     "type %d family %d arch %d #%d: %a, not %a", t, f, (int)archs[r], i,
                                     (double)got, (double)want);
                }
            }
}

/* ---- tc_gemm --------------------------------------------------------------------------------------------------- */
#define M_MAX 70
#define N_MAX 45
#define K_MAX 560

struct arena {
    uint16_t a[M_MAX * K_MAX], b[N_MAX * K_MAX], packed[48 * K_MAX];
    float want[M_MAX * (N_MAX + 3)], got[M_MAX * (N_MAX + 3)];
};

static void compare(enum arch arch, enum tc_type type, enum family f, int64_t m, int64_t n, int64_t k,
                    int accumulate, struct arena *s) {
    int64_t k_pad = (k + TC_K - 1) / TC_K * TC_K, ldc = n + 3;
    memset(s->a, 0, sizeof s->a);
    make_rows(type, f, s->a, m, k, k_pad, 0);
    make_rows(type, f, s->b, n, k, k, 1);
    cr_assert_leq(tc_packed_elements(n, k), sizeof s->packed / sizeof s->packed[0]);
    tc_pack_rows(s->b, k, n, k, s->packed);
    for (int64_t i = 0; i < m * ldc; i++) s->got[i] = s->want[i] = accumulator(f);
    tc_gemm(arch, type, 0, s->a, k_pad, m, s->packed, k, 0, n, s->want, ldc, accumulate);
    tc_gemm(arch, type, 1, s->a, k_pad, m, s->packed, k, 0, n, s->got, ldc, accumulate);
    for (int64_t i = 0; i < m * ldc; i++)
        cr_assert_eq(fm_f32_bits(s->got[i]), fm_f32_bits(s->want[i]),
                     "arch %d type %d family %d m %ld n %ld k %ld acc %d at %ld,%ld: simd %a scalar %a",
                     (int)arch, (int)type, (int)f, (long)m, (long)n, (long)k, accumulate, (long)(i / ldc),
                     (long)(i % ldc), (double)s->got[i], (double)s->want[i]);
}

Test(tcmodel, simd_equals_scalar_on_more_than_a_million_dot_products) {
    if (!tc_have_avx2()) cr_skip_test("no AVX2 here");
    struct arena *s = malloc(sizeof *s);
    cr_assert(s != NULL);
    rng_state = 2;
    long dots = 0;
    for (int t = 0; t < 2; t++)
        for (int r = 0; r < 2; r++)
            for (int f = NORMAL; f < FAMILIES; f++) {
                for (int round = 0; round < 14; round++, dots += 40L * 40)
                    compare(archs[r], types[t], (enum family)f, 40, 40, 16, 1, s);
                for (int round = 0; round < 4; round++, dots += 40L * 40 * 4)
                    compare(archs[r], types[t], (enum family)f, 40, 40, 64, round & 1, s);
            }
    free(s);
    cr_assert(dots > 1000000, "only %ld", dots);
}

Test(tcmodel, simd_equals_scalar_at_every_odd_shape) {
    if (!tc_have_avx2()) cr_skip_test("no AVX2 here");
    struct arena *s = malloc(sizeof *s);
    cr_assert(s != NULL);
    rng_state = 3;
    static const int64_t ks[] = {1, 15, 16, 17, 100, 256, 257, 272, 560};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
        for (int64_t n = 1; n <= N_MAX; n += 4)
            for (int t = 0; t < 2; t++) compare(archs[i & 1], types[t], NORMAL, 1 + n % 3, n, ks[i], t, s);
    for (int64_t m = 31; m <= M_MAX; m += 13) compare(ARCH_SM90, TC_F16, WIDE, m, 9, 300, 1, s);
    free(s);
}

/* gemm against the step itself, for a strip [j0, j1) of the columns; nothing outside is written. */
Test(tcmodel, gemm_is_the_chain_of_steps_and_writes_only_its_strip) {
    struct arena *s = malloc(sizeof *s);
    cr_assert(s != NULL);
    rng_state = 4;
    const int64_t m = 3, n = 37, k = 90, k_pad = 96;
    for (int avx2 = 0; avx2 <= tc_have_avx2(); avx2++)
        for (int r = 0; r < 2; r++) {
            memset(s->a, 0, sizeof s->a);
            make_rows(TC_F16, NORMAL, s->a, m, k, k_pad, 0);
            make_rows(TC_F16, NORMAL, s->b, n, k, k, 1);
            tc_pack_rows(s->b, k, n, k, s->packed);
            for (int64_t i = 0; i < m * n; i++) s->got[i] = 77.0f;
            tc_gemm(archs[r], TC_F16, avx2, s->a, k_pad, m, s->packed, k, 16, 37, s->got, n, 0);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    uint16_t col[96] = {0};
                    memcpy(col, s->b + j * k, (size_t)k * sizeof *col);
                    float want = j < 16 ? 77.0f : 0.0f;
                    for (int64_t q = 0; j >= 16 && q < k_pad; q += TC_K)
                        want = tc_step_scalar(archs[r], TC_F16, s->a + i * k_pad + q, col + q, want);
                    cr_assert_eq(fm_f32_bits(s->got[i * n + j]), fm_f32_bits(want), "avx2 %d at %ld,%ld",
                                 avx2, (long)i, (long)j);
                }
        }
    free(s);
}

Test(tcmodel, packing_by_rows_and_by_columns_agree_and_pad_with_zeros) {
    enum { N = 13, K = 21, K_PAD = 32 };
    uint16_t rows[N * K], cols[K * N], a[16 * K_PAD], b[16 * K_PAD];
    for (int j = 0; j < N; j++)
        for (int k = 0; k < K; k++) rows[j * K + k] = cols[k * N + j] = (uint16_t)(j * 100 + k + 1);
    cr_assert_eq(tc_packed_elements(N, K), 16 * K_PAD);
    memset(a, 0xff, sizeof a);
    memset(b, 0xff, sizeof b);
    tc_pack_rows(rows, K, N, K, a);
    tc_pack_cols(cols, N, N, K, b);
    cr_assert_arr_eq(a, b, sizeof a);
    for (int j = 0; j < 16; j++)
        for (int k = 0; k < K_PAD; k++)
            cr_assert_eq(a[(j / TC_PANEL * K_PAD + k) * TC_PANEL + j % TC_PANEL],
                         j < N && k < K ? j * 100 + k + 1 : 0, "column %d, k %d", j, k);
}
