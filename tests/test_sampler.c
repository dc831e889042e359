/* test_sampler.c - the rules of the next token: ties, penalties, draws, rows that cannot be judged. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "engine/rng.h"
#include "engine/sampler.h"
#include "engine/tcmodel.h"

static struct top2 census(const float *l, int n) {
    struct top2 t = {-1, -1, -INFINITY, -INFINITY, 0, 0, -1};
    for (int i = 0; i < n; i++) {
        int bad = isnan(l[i]) || (isinf(l[i]) && l[i] > 0);
        t.n_nan += isnan(l[i]) != 0;
        t.n_inf += isinf(l[i]) && l[i] > 0;
        if (bad && t.first_bad < 0) t.first_bad = i;
        if (!bad && (t.id1 < 0 || l[i] > t.logit1)) {
            t.id1 = i;
            t.logit1 = l[i];
        }
    }
    return t;
}

static int32_t next(struct sampler_config c, const float *l, int n, const uint8_t *seen, uint64_t step) {
    float scratch[64];
    int32_t token = -2;
    struct err err;
    struct top2 t = census(l, n);
    enum status s = sampler_next(&c, l, n, &t, seen, scratch, step, &token, &err);
    cr_assert_eq(s, STATUS_OK, "refused: %s", err.message);
    return token;
}

Test(sampler, penalty_is_once_per_distinct_id) {
    /* 4.0 seen (however often) becomes 3.636 and stays above 3.5; per occurrence it would be 3.005 */
    const float l[2] = {4.0f, 3.5f};
    const uint8_t seen[2] = {1, 0};
    struct sampler_config c = {1.1f, 0.0f, 0};
    cr_assert_eq(next(c, l, 2, seen, 0), 0);
}

Test(sampler, penalty_lowers_a_negative_logit) {
    /* -1.0 becomes -1.1, so the unseen -1.05 wins; dividing would have raised it to -0.909 */
    const float l[2] = {-1.0f, -1.05f};
    const uint8_t seen[2] = {1, 0};
    struct sampler_config c = {1.1f, 0.0f, 0};
    cr_assert_eq(next(c, l, 2, seen, 0), 1);
}

Test(sampler, tie_after_penalty_takes_the_lowest_id) {
    const float l[3] = {1.0f, 2.0f, 2.0f};
    const uint8_t seen[3] = {0, 0, 0};
    struct sampler_config c = {1.5f, 0.0f, 0};
    cr_assert_eq(next(c, l, 3, seen, 0), 1);
}

Test(sampler, draws_depend_on_seed_and_step_only_and_follow_the_distribution) {
    const float l[3] = {0.0f, 0.6931472f, -INFINITY}; /* probabilities 1/3, 2/3, 0 */
    struct sampler_config c = {1.0f, 1.0f, 7};
    int count[3] = {0, 0, 0};
    for (uint64_t step = 0; step < 3000; step++) count[next(c, l, 3, NULL, step)]++;
    cr_assert_eq(count[2], 0, "an id of probability zero was drawn");
    cr_assert(count[0] > 900 && count[0] < 1100, "drew id 0 %d times of 3000, expected about 1000", count[0]);
    cr_assert_eq(next(c, l, 3, NULL, 17), next(c, l, 3, NULL, 17));
}

Test(sampler, rows_that_cannot_be_judged_are_refused) {
    float rows[4][3] = {{NAN, 1, 2}, {1, 2, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}, {NAN, NAN, NAN}};
    struct sampler_config c = sampler_greedy();
    for (int r = 0; r < 4; r++) {
        struct top2 t = census(rows[r], 3);
        int32_t token = 0;
        struct err err;
        cr_assert_eq(sampler_next(&c, rows[r], 3, &t, NULL, NULL, 0, &token, &err), STATUS_INVALID, "row %d",
                     r);
        cr_assert_eq(token, -1, "row %d gave a token", r);
    }
}

Test(sampler, logsumexp_matches_a_long_double_sum) {
    float l[64];
    long double sum = 0;
    for (int i = 0; i < 64; i++) l[i] = rng_normal(3, (uint64_t)i) * 4.0f;
    float max = l[0];
    for (int i = 1; i < 64; i++) max = l[i] > max ? l[i] : max;
    for (int i = 0; i < 64; i++) sum += expl((long double)l[i]);
    cr_assert(fabs(sampler_logsumexp(l, 64, max) - (double)logl(sum)) < 1e-6, "off by more than 1e-6");
}

Test(sampler, logsumexp_is_the_same_on_both_code_paths) {
    static float l[1003];
    if (!tc_have_avx2()) cr_skip_test("no AVX2 here");
    for (uint64_t round = 0; round < 200; round++) {
        float max = -INFINITY, spread = (float)(1 + round % 40) * 4.0f;
        for (int i = 0; i < 1003; i++) {
            l[i] = rng_normal(round, (uint64_t)i) * spread;
            if (rng_u64(round, (uint64_t)i) % 97 == 0) l[i] = -INFINITY;
            if (l[i] > max) max = l[i];
        }
        double scalar = sampler_logsumexp_with(l, 1003, max, 0),
               simd = sampler_logsumexp_with(l, 1003, max, 1);
        cr_assert(memcmp(&scalar, &simd, sizeof scalar) == 0, "round %d: %a and %a", (int)round, scalar,
                  simd);
    }
}

Test(sampler, configuration_out_of_range_is_a_usage_error) {
    struct err err;
    struct sampler_config bad[] = {{0, 0, 0}, {-1, 0, 0}, {NAN, 0, 0}, {1, -1, 0}, {1, NAN, 0}, {1, 101, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(sampler_check(&bad[i], &err), STATUS_USAGE, "accepted row %zu", i);
}
