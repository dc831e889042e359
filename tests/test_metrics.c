/* test_metrics.c - metrics see every class, name the worst element, and never turn NaN into a small number. */
#include <criterion/criterion.h>

#include <math.h>

#include "gates/metrics.h"

Test(metrics, census_counts_every_class_and_names_the_first_bad) {
    float x[] = {0.0f, -0.0f, 1.0f, 1e-40f, INFINITY, -INFINITY, NAN, 2.0f};
    struct census c = metrics_census(x, 8);
    cr_assert_eq(c.n_zero, 2);
    cr_assert_eq(c.n_subnormal, 1);
    cr_assert_eq(c.n_pos_inf, 1);
    cr_assert_eq(c.n_neg_inf, 1);
    cr_assert_eq(c.n_nan, 1);
    cr_assert_eq(c.first_bad, 4);
    cr_assert_eq(metrics_census(x, 4).first_bad, METRICS_NONE);
}

Test(metrics, ulps_cross_zero_and_refuse_nan) {
    cr_assert_eq(metrics_ulps(1.0f, 1.0f), 0);
    cr_assert_eq(metrics_ulps(1.0f, nextafterf(1.0f, 2.0f)), 1);
    cr_assert_eq(metrics_ulps(0.0f, -0.0f), 0);
    cr_assert_eq(metrics_ulps(1e-45f, -1e-45f), 2);
    cr_assert_eq(metrics_ulps(NAN, 1.0f), UINT32_MAX);
    cr_assert_eq(metrics_ulps(1.0f, NAN), UINT32_MAX);
    cr_assert(metrics_ulps(-3e38f, 3e38f) > 1u << 30);
}

Test(metrics, ulp_size_follows_the_binade_of_the_dtype) {
    cr_assert(metrics_ulp_size(33.75, 7, -126) == 0.25, "bf16 in [32,64)");
    cr_assert(metrics_ulp_size(20.25, 7, -126) == 0.125, "bf16 in [16,32)");
    cr_assert(metrics_ulp_size(20.25, 23, -126) == 0x1p-19, "f32 in [16,32)");
    cr_assert(metrics_ulp_size(0.0, 10, -14) == 0x1p-24, "f16 at zero");
    cr_assert(isnan(metrics_ulp_size(INFINITY, 23, -126)), "infinity has no step");
}

Test(metrics, errors_name_the_worst_scaled_element) {
    double truth[] = {1, 100, 1000}, scale[] = {1, 100, 1000};
    float got[] = {1.25f, 100.5f, 1000.75f};
    struct errors e = metrics_errors(truth, scale, got, 3);
    cr_assert_eq(e.worst, 0);
    cr_assert(e.max_scaled == 0.25, "%g", e.max_scaled);
    cr_assert(e.max_abs == 0.75, "%g", e.max_abs);
    cr_assert(fabs(e.rms_scaled - sqrt((0.0625 + 2.5e-5 + 5.625e-7) / 3)) < 1e-12, "%g", e.rms_scaled);
    cr_assert(fabs(e.nmse - (0.0625 + 0.25 + 0.5625) / 1010001) < 1e-15, "%g", e.nmse);
}

Test(metrics, nan_or_nothing_makes_every_metric_nan) {
    double truth[] = {1, NAN}, inf[] = {1, INFINITY};
    float got[] = {1.0f, 1.0f}, bad[] = {1.0f, NAN}, same[] = {1.0f, INFINITY};
    struct errors cases[] = {metrics_errors(truth, NULL, got, 2), metrics_errors(truth, NULL, bad, 2),
                             metrics_errors(inf, NULL, same, 2), metrics_errors(truth, NULL, got, 0)};
    for (int i = 0; i < 4; i++) {
        cr_assert(isnan(cases[i].max_abs) && isnan(cases[i].max_scaled), "case %d", i);
        cr_assert(isnan(cases[i].rms_scaled) && isnan(cases[i].nmse), "case %d", i);
    }
    cr_assert_eq(cases[1].worst, 1);
    cr_assert_eq(cases[3].worst, METRICS_NONE);
}

Test(metrics, a_scale_of_zero_allows_no_error) {
    double truth[] = {0, 5}, scale[] = {0, 5};
    float exact[] = {0.0f, 5.0f}, off[] = {1e-30f, 5.0f};
    cr_assert(metrics_errors(truth, scale, exact, 2).max_scaled <= 0.0, "exact");
    cr_assert(isinf(metrics_errors(truth, scale, off, 2).max_scaled), "any error is infinite");
}

Test(metrics, bits_differ_counts_signed_zero_but_not_nan_payloads) {
    float a[] = {0.0f, NAN, 1.0f}, b[] = {-0.0f, -NAN, 1.0f};
    size_t first;
    cr_assert_eq(metrics_bits_differ(a, b, 3, &first), 1);
    cr_assert_eq(first, 0);
    cr_assert_eq(metrics_bits_differ(a, a, 3, &first), 0);
    cr_assert_eq(first, METRICS_NONE);
}
