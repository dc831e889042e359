/* test_fmath.c - fmath.h against long double libm and exact conversions: ULP bounds, endpoints, every f16 and bf16. */
#include <criterion/criterion.h>

#include <float.h>
#include <math.h>

#include "engine/fmath.h"

static uint32_t xorshift(uint32_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 17;
    return *s ^= *s << 5;
}

/* Error of got in units of the last place of the f32 nearest to want (subnormal spacing at the bottom). */
static double ulp_f32(float got, long double want) {
    int e;
    frexpl(want, &e);
    if (e < -125) e = -125;
    return (double)(fabsl((long double)got - want) / ldexpl(1.0L, e - 24));
}

/* Error relative to |want|, in units of 2^-53. */
static double relative_f64(double got, long double want) {
    return (double)(fabsl((long double)got - want) / fabsl(want) * 0x1p53L);
}

/* Value of f16 bits by the definition of the format, independent of fmath.h. */
static double f16_value(unsigned h) {
    int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    double v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

Test(fmath, every_f16_widens_exactly_and_comes_back) {
    for (unsigned h = 0; h < 65536; h++) {
        float x = fm_f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) {
            uint32_t quiet = (h & 0x8000u) << 16 | 0x7fc00000u | (h & 0x3ffu) << 13;
            cr_assert_eq(fm_f32_bits(x), quiet, "NaN %04x widened to %08x", h, fm_f32_bits(x));
            cr_assert_eq(fm_f32_to_f16(x), h | 0x200, "NaN %04x", h);
            continue;
        }
        double want = (h & 0x7fff) == 0x7c00 ? (h & 0x8000 ? -HUGE_VAL : HUGE_VAL) : f16_value(h);
        cr_assert_eq(fm_f32_bits(x), fm_f32_bits((float)want), "%04x widened to %a", h, (double)x);
        cr_assert_eq(fm_f32_to_f16(x), h, "%04x came back as %04x", h, fm_f32_to_f16(x));
    }
}

/* Between every pair of neighbours: just below, at, and just above the midpoint. */
Test(fmath, f16_rounds_to_nearest_even_at_every_midpoint) {
    for (unsigned h = 0; h < 0x7c00; h++) {
        double lo = f16_value(h), hi = h == 0x7bff ? 65536.0 : f16_value(h + 1);
        float mid = (float)((lo + hi) / 2); /* exact */
        unsigned even = h & 1 ? h + 1 : h;
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1.0f : 1.0f;
            cr_assert_eq(fm_f32_to_f16(s * nextafterf(mid, 0.0f)), h | sign, "below the middle after %04x",
                         h);
            cr_assert_eq(fm_f32_to_f16(s * mid), even | sign, "middle after %04x", h);
            cr_assert_eq(fm_f32_to_f16(s * nextafterf(mid, INFINITY)), (h + 1) | sign, "above after %04x", h);
        }
    }
    cr_assert_eq(fm_f32_to_f16(FLT_MAX), 0x7c00);
    cr_assert_eq(fm_f32_to_f16(-INFINITY), 0xfc00);
    cr_assert_eq(fm_f32_to_f16(FLT_TRUE_MIN), 0);
    cr_assert_eq(fm_f32_to_f16(-0.0f), 0x8000);
    cr_assert_eq(fm_f32_to_f16(fm_f32_from_bits(0x7f800001u)), 0x7e00, "a signalling NaN stays a NaN");
}

Test(fmath, every_bf16_comes_back_and_midpoints_round_to_even) {
    for (uint32_t b = 0; b < 65536; b++) {
        float x = fm_bf16_to_f32((uint16_t)b);
        cr_assert_eq(fm_f32_bits(x), b << 16);
        if (fm_f32_is_nan(x)) {
            cr_assert_eq(fm_f32_to_bf16(x), b | 0x40);
            continue;
        }
        cr_assert_eq(fm_f32_to_bf16(x), b);
        if ((b & 0x7fff) == 0x7f80) continue;
        cr_assert_eq(fm_f32_to_bf16(fm_f32_from_bits(b << 16 | 0x7fff)), b);
        cr_assert_eq(fm_f32_to_bf16(fm_f32_from_bits(b << 16 | 0x8000)), b + (b & 1));
        cr_assert_eq(fm_f32_to_bf16(fm_f32_from_bits(b << 16 | 0x8001)), b + 1);
    }
}

Test(fmath, exp2_is_exact_at_integers_and_at_its_ends) {
    for (int n = -126; n < 128; n++)
        cr_assert_eq(fm_f32_bits(fm_exp2f((float)n)), (uint32_t)(n + 127) << 23, "2^%d", n);
    cr_assert_eq(fm_f32_bits(fm_exp2f(0.0f)), 0x3f800000u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(-0.0f)), 0x3f800000u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(nextafterf(-126.0f, -INFINITY))), 0u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(-1e30f)), 0u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(-INFINITY)), 0u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(128.0f)), 0x7f800000u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(INFINITY)), 0x7f800000u);
    cr_assert_eq(fm_f32_bits(fm_exp2f(-NAN)), 0x7fc00000u);
}

Test(fmath, exp2_and_exp_stay_within_their_ulp_bounds) {
    double worst2 = 0, worst = 0;
    uint32_t s = 1;
    for (int i = 0; i < 1000000; i++) {
        float u = (float)(xorshift(&s) >> 8) * 0x1p-24f;
        float x = i & 1 ? u * 253.9f - 126.0f : u * 2.0f - 1.0f;
        worst2 = fmax(worst2, ulp_f32(fm_exp2f(x), exp2l((long double)x)));
        float y = i & 1 ? u * 192.0f - 103.5f : u * 2.0f - 1.0f;
        if (y < 88.7f) worst = fmax(worst, ulp_f32(fm_expf(y), expl((long double)y)));
    }
    cr_log_info("exp2f %.3f ULP, expf %.3f ULP", worst2, worst);
    cr_assert(worst2 <= 1.0, "exp2f %.3f ULP", worst2);
    cr_assert(worst <= 1.5, "expf %.3f ULP", worst);
}

Test(fmath, exp_has_its_ends) {
    cr_assert_eq(fm_f32_bits(fm_expf(0.0f)), 0x3f800000u);
    cr_assert_eq(fm_f32_bits(fm_expf(-104.5f)), 0u);
    cr_assert_eq(fm_f32_bits(fm_expf(-INFINITY)), 0u);
    cr_assert_eq(fm_f32_bits(fm_expf(-103.5f)), 1u, "the smallest subnormal");
    cr_assert_eq(fm_f32_bits(fm_expf(88.73f)), 0x7f800000u);
    cr_assert_eq(fm_f32_bits(fm_expf(INFINITY)), 0x7f800000u);
    cr_assert_eq(fm_f32_bits(fm_expf(NAN)), 0x7fc00000u);
    cr_assert(fm_f32_is_finite(fm_expf(88.72f)));
}

static double unit(uint32_t *s) {
    return ((double)xorshift(s) + (double)xorshift(s) * 0x1p-32) * 0x1p-32;
}

Test(fmath, double_log_exp_pow_are_good_to_the_last_bits) {
    double worst_log = 0, worst_exp = 0, worst_pow = 0;
    uint32_t s = 7;
    for (int i = 0; i < 300000; i++) {
        double x = i & 1 ? exp2(unit(&s) * 2000 - 1000) : 0.5 + unit(&s) * 1.5;
        if (x > 1.0 || x < 1.0) worst_log = fmax(worst_log, relative_f64(fm_log(x), logl((long double)x)));
        double y = i & 1 ? unit(&s) * 1400 - 700 : unit(&s) * 2 - 1;
        worst_exp = fmax(worst_exp, relative_f64(fm_exp(y), expl((long double)y)));
        double base = exp2(unit(&s) * 40 - 10), power = unit(&s) * 4 - 2;
        if (i & 1) { /* log(base) small, power large: every bit of the logarithm's low part counts */
            base = 0.71 + unit(&s) * 0.7;
            power = unit(&s) * 200 - 100;
        }
        worst_pow =
            fmax(worst_pow, relative_f64(fm_pow(base, power), powl((long double)base, (long double)power)));
    }
    cr_log_info("log %.3f exp %.3f pow %.3f (units of 2^-53)", worst_log, worst_exp, worst_pow);
    cr_assert(worst_log <= 2.0, "log %.3f", worst_log);
    cr_assert(worst_exp <= 2.0, "exp %.3f", worst_exp);
    cr_assert(worst_pow <= 3.0, "pow %.3f", worst_pow);
}

static int same(double a, double b) {
    return fm_f64_bits(a) == fm_f64_bits(b);
}

Test(fmath, double_functions_have_their_ends) {
    cr_assert(same(fm_log(1.0), 0.0) && same(fm_exp(0.0), 1.0));
    cr_assert(same(fm_pow(10000.0, 0.0), 1.0) && same(fm_pow(1.0, 5.0), 1.0) &&
              same(fm_pow(2.0, -3.0), 0.125));
    cr_assert(same(fm_log(0.0), -HUGE_VAL) && same(fm_log(HUGE_VAL), HUGE_VAL));
    cr_assert(isnan(fm_log(-1.0)) && isnan(fm_log(fm_nan())) && isnan(fm_exp(fm_nan())) &&
              isnan(fm_pow(-2.0, 2.0)));
    cr_assert(same(fm_exp(710.0), HUGE_VAL) && same(fm_exp(-746.0), 0.0) && same(fm_exp(-HUGE_VAL), 0.0));
    cr_assert(same(fm_exp(-745.0), 0x1p-1074), "the smallest subnormal");
    cr_assert(relative_f64(fm_log(0x1p-1074), logl(0x1p-1074L)) <= 1.0, "log of a subnormal");
    cr_assert(same(fm_sin(0.0), 0.0) && same(fm_cos(0.0), 1.0));
    cr_assert(isnan(fm_sin(HUGE_VAL)) && isnan(fm_cos(fm_nan())) && isnan(fm_sin(0x1p31)));
}

Test(fmath, sin_and_cos_hold_up_to_a_million_radians) {
    double worst = 0;
    uint32_t s = 3;
    for (int i = 0; i < 400000; i++) {
        double x = i % 3 == 0   ? unit(&s) * 4 - 2
                   : i % 3 == 1 ? unit(&s) * 2e6 - 1e6
                                : (double)(xorshift(&s) % 1000000);
        if (i % 16 == 0) x = (double)(xorshift(&s) % 636619) * 1.5707963267948966; /* next to a zero */
        worst = fmax(worst, fabs((double)((long double)fm_sin(x) - sinl((long double)x))));
        worst = fmax(worst, fabs((double)((long double)fm_cos(x) - cosl((long double)x))));
    }
    cr_log_info("sin, cos: %.3g absolute", worst);
    cr_assert(worst <= 0x1p-52, "sin or cos off by %.3g", worst);
}
