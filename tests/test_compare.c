/* test_compare.c - the comparator: what may pass, and everything that must not (field case A19 line by line). */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "gates/compare.h"

#define N 64

static const struct compare_shape flat = {1, {N, 0, 0, 0}};
static const struct compare_bounds tight = {1e-6, 1e-6, 0, 0};
static double truth[N];
static float got[N];

static void setup(void) {
    for (int i = 0; i < N; i++) {
        truth[i] = i * 0.5;
        got[i] = (float)truth[i];
    }
}

TestSuite(compare, .init = setup);

static struct compare_result judge(const struct compare_bounds *bounds) {
    return compare_values(truth, NULL, &flat, got, &flat, bounds);
}

Test(compare, equal_values_pass_and_carry_headroom) {
    got[7] += 4e-7f;
    struct compare_result r = judge(&tight);
    cr_assert_eq(r.verdict, VERDICT_PASS, "%s", r.reason);
    cr_assert(r.headroom > 0.0 && r.headroom <= 1.0, "%g", r.headroom);
    cr_assert(strstr(r.reason, "[7]") != NULL, "%s", r.reason);
}

Test(compare, a19_nan_never_passes) {
    got[3] = NAN;
    cr_assert_eq(judge(&tight).verdict, VERDICT_FAIL, "(a) NaN in the output");
    cr_assert(strstr(judge(&tight).reason, "[3]") != NULL, "names the element");
    setup();
    truth[3] = NAN;
    cr_assert_eq(judge(&tight).verdict, VERDICT_FAIL, "(b) NaN in the reference");
    got[3] = NAN;
    cr_assert_eq(judge(&tight).verdict, VERDICT_FAIL, "(c) NaN on both sides");
    struct compare_bounds opt_in = tight;
    opt_in.nan_pairs = 1;
    cr_assert_eq(judge(&opt_in).verdict, VERDICT_PASS, "(c) by opt-in only");
    got[7] += 4e-7f;
    struct compare_result beside = judge(&opt_in);
    cr_assert(beside.errors.worst == 7 && beside.errors.max_abs > 1e-7,
              "the others are measured all the same");
    got[7] += 1.0f;
    cr_assert_eq(judge(&opt_in).verdict, VERDICT_FAIL, "an allowed pair excuses nothing beside it");
    got[9] = NAN;
    cr_assert(isnan(judge(&opt_in).errors.max_scaled) && isnan(judge(&opt_in).errors.rms_scaled),
              "a refused result has no small error to judge again");
    cr_assert_eq(judge(&opt_in).verdict, VERDICT_FAIL, "an unpaired NaN beside a paired one");
}

Test(compare, a19_infinities) {
    truth[5] = INFINITY;
    got[5] = INFINITY;
    cr_assert_eq(judge(&tight).verdict, VERDICT_FAIL, "(d) equal infinities need the opt-in");
    struct compare_bounds opt_in = tight;
    opt_in.inf_pairs = 1;
    cr_assert_eq(judge(&opt_in).verdict, VERDICT_PASS, "(d) by opt-in");
    got[5] = -INFINITY;
    cr_assert_eq(judge(&opt_in).verdict, VERDICT_FAIL, "(e) opposite infinities");
}

Test(compare, a19_bad_bounds_and_shapes) {
    struct compare_bounds nan_bound = {NAN, 1e-6, 0, 0}, nan_global = {1e-6, NAN, 0, 0};
    struct compare_bounds inf_bound = {INFINITY, 1, 0, 0};
    cr_assert_eq(judge(&nan_bound).verdict, VERDICT_FAIL, "(f) NaN tolerance");
    cr_assert_eq(judge(&nan_global).verdict, VERDICT_FAIL, "(f) NaN global tolerance");
    cr_assert_eq(judge(&inf_bound).verdict, VERDICT_FAIL, "an infinite tolerance judges nothing");
    struct compare_shape empty = {1, {0, 0, 0, 0}}, square = {2, {8, 8, 0, 0}};
    cr_assert_eq(compare_values(truth, NULL, &empty, got, &empty, &tight).verdict, VERDICT_FAIL, "(g) empty");
    cr_assert_eq(compare_values(truth, NULL, &flat, got, &square, &tight).verdict, VERDICT_FAIL,
                 "(h) shapes");
}

Test(compare, one_bad_element_fails_pointwise_and_many_small_ones_globally) {
    struct compare_bounds b = {1e-3, 1e-4, 0, 0};
    got[60] += 0.01f;
    cr_assert_eq(judge(&b).verdict, VERDICT_FAIL, "pointwise");
    setup();
    for (int i = 0; i < N; i++) got[i] += 5e-4f;
    cr_assert_eq(judge(&b).verdict, VERDICT_FAIL, "global");
}

Test(compare, judge_accepts_only_value_at_most_bound) {
    cr_assert_eq(compare_judge(1.0, 1.0), VERDICT_PASS);
    cr_assert_eq(compare_judge(nextafter(1.0, 2.0), 1.0), VERDICT_FAIL);
    cr_assert_eq(compare_judge(NAN, 1.0), VERDICT_FAIL);
    cr_assert_eq(compare_judge(0.0, NAN), VERDICT_FAIL);
    cr_assert_eq(compare_judge(INFINITY, INFINITY), VERDICT_FAIL);
}

Test(compare, index_text_walks_the_shape) {
    struct compare_shape s = {3, {2, 3, 4, 0}};
    char text[64];
    compare_index_text(&s, 23, text, sizeof text);
    cr_assert_str_eq(text, "[1, 2, 3]");
    compare_index_text(&s, 4, text, sizeof text);
    cr_assert_str_eq(text, "[0, 1, 0]");
}

Test(compare, this_build_passes_its_own_self_test) {
    struct err err;
    cr_assert_eq(compare_self_test(&err), STATUS_OK, "%s", err.message);
}
