/* test_stats.c - gates/stats.h against values computed elsewhere: exact rationals and 60-digit decimals (Python).
 * Source: ours. Exercise: ctest -R unit.stats */
#include <criterion/criterion.h>
#include <math.h>

#include "gates/stats.h"

static int close_to(double got, double want, double relative) {
    return fabs(got - want) <= relative * fabs(want);
}

TestSuite(stats, .timeout = 30);

Test(stats, fisher_against_exact_rationals) {
    static const struct {
        uint64_t a, n_a, b, n_b;
        double p;
    } rows[] = {
        {7, 64, 5, 64, 0.38154039704012027},           {20, 64, 5, 64, 0.0007144915354105513},
        {12, 64, 3, 128, 0.0001592543726374103},       {1, 64, 0, 64, 0.5},
        {64, 64, 0, 64, 4.175165556793955e-38},        {3, 10, 1, 12, 0.22556390977443608},
        {300, 10000, 220, 9000, 0.010619408357292984}, {0, 64, 0, 64, 1.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double p = stats_fisher_greater(rows[i].a, rows[i].n_a, rows[i].b, rows[i].n_b);
        cr_assert(close_to(p, rows[i].p, 1e-9), "row %zu: %.17g, want %.17g", i, p, rows[i].p);
    }
}

Test(stats, fisher_is_one_sided) {
    cr_assert(stats_fisher_greater(5, 64, 20, 64) > 0.999,
              "fewer hits than the control are never suspicious");
    cr_assert(stats_fisher_greater(0, 64, 0, 64) <= 1.0, "a probability");
}

Test(stats, fisher_refuses_what_makes_no_sense) {
    cr_assert(isnan(stats_fisher_greater(65, 64, 0, 64)), "more hits than trials");
    cr_assert(isnan(stats_fisher_greater(0, 0, 0, 0)), "no trials at all");
}

Test(stats, clopper_pearson_against_exact_tails) {
    static const struct {
        uint64_t hits, n;
        double confidence, low, high;
    } rows[] = {
        {7, 64, 0.95, 0.04512102018711486, 0.21245722595540242},
        {0, 64, 0.95, 0.0, 0.056009089386636575},
        {64, 64, 0.95, 0.9439909106133634, 1.0},
        {1, 10, 0.99, 0.0005011285754646338, 0.5442870568996868},
        {250, 1000, 0.95, 0.22343040626468036, 0.27805000622375553},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stats_interval t = stats_clopper_pearson(rows[i].hits, rows[i].n, rows[i].confidence);
        cr_assert(close_to(t.low, rows[i].low, 1e-9), "row %zu low: %.17g, want %.17g", i, t.low,
                  rows[i].low);
        cr_assert(close_to(t.high, rows[i].high, 1e-9), "row %zu high: %.17g, want %.17g", i, t.high,
                  rows[i].high);
    }
    struct stats_interval none = stats_clopper_pearson(0, 0, 0.95), bad = stats_clopper_pearson(3, 2, 0.95);
    cr_assert(close_to(none.high, 1.0, 0) && none.low <= 0.0, "nothing seen: nothing known");
    cr_assert(isnan(bad.low) && isnan(bad.high), "more hits than trials");
}

Test(stats, mean_and_its_error) {
    const double x[] = {2, 4, 4, 4, 5, 5, 7, 9};
    struct stats_mean m = stats_mean_of(x, 8);
    cr_assert(close_to(m.mean, 5.0, 0), "mean %.17g", m.mean);
    cr_assert(close_to(m.sd, 2.1380899352993952, 1e-14), "sd %.17g", m.sd);
    cr_assert(close_to(m.se, 0.7559289460184544, 1e-14), "se %.17g", m.se);
    m = stats_mean_of(x, 1);
    cr_assert(close_to(m.mean, 2.0, 0) && isnan(m.se), "one value has no error");
    cr_assert(isnan(stats_mean_of(x, 0).mean), "no value has no mean");
    const double bad[] = {1, NAN, 2};
    cr_assert(isnan(stats_mean_of(bad, 3).mean) && isnan(stats_mean_of(bad, 3).se), "NaN stays");
}

Test(stats, median) {
    const double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, bad[] = {1, NAN, 2};
    cr_assert(close_to(stats_median(odd, 3), 5.0, 0), "odd");
    cr_assert(close_to(stats_median(even, 4), 2.5, 0), "even");
    cr_assert(isnan(stats_median(bad, 3)) && isnan(stats_median(odd, 0)), "NaN and nothing");
}
