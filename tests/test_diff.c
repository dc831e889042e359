/* test_diff.c - one verdict for two streams: where they fork, how close it was, and what may never excuse a fork. */
#include <criterion/criterion.h>

#include "tests/diff_pairs.h"

/* ---- field case A01: the near-tie bound scales with the logit's own ULP ---- */

Test(diff, case_a01_one_ulp_of_the_stored_dtype) {
    struct diff_result a = fork_pair(11, 33.75f, 33.5f, "bf16", NULL);
    verdict_is(a, DIFF_KNIFE_EDGE);
    cr_assert_eq(a.fork, 11);
    cr_assert(near(a.ulps_a, 1.0) && near(a.ulps_b, 1.0) && near(a.gap_a, 0.25) && near(a.ulp_a, 0.25));
    struct diff_result b = fork_pair(11, 20.25f, 20.0f, "bf16", NULL);
    verdict_is(b, DIFF_FORK);
    cr_assert(near(b.ulps_a, 2.0) && near(b.gap_a, 0.25));
    struct diff_result c = fork_pair(11, 33.75f, 32.75f, "bf16", NULL);
    verdict_is(c, DIFF_FORK);
    cr_assert(near(c.ulps_a, 4.0));
    struct diff_result d = fork_pair(11, 20.25f, 20.0f, "f32", NULL);
    verdict_is(d, DIFF_FORK);
    cr_assert(near(d.ulps_a, 131072.0));
    struct diff_result unknown = fork_pair(11, 33.75f, 33.5f, "int3", NULL);
    verdict_is(unknown, DIFF_FORK);
    cr_assert(near(unknown.ulps_a, -1.0));
    struct diff_result half = fork_pair(11, 33.75f, 33.71875f, "f16", NULL);
    verdict_is(half, DIFF_KNIFE_EDGE);
    struct diff_result negative = fork_pair(11, -33.5f, -33.75f, "bf16", NULL);
    verdict_is(negative, DIFF_KNIFE_EDGE);
    struct diff_result binade =
        fork_pair(11, -31.75f, -32.0f, "bf16", NULL); /* neighbours at the magnitude of 32 */
    verdict_is(binade, DIFF_KNIFE_EDGE);
}

Test(diff, larger_of_the_two_gaps_decides) {
    const char *keys[] = {"logits", "bf16", NULL};
    struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
    make_record(&a, greedy(1, 33.75f, 2, 33.5f), "x", 1, NULL);
    make_record(&b, greedy(2, 35.75f, 1, 33.75f), "y", 1, NULL);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_FORK);
}

Test(diff, a_third_choice_is_never_a_near_tie) {
    const char *keys[] = {"logits", "bf16", NULL};
    struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
    make_record(&a, greedy(1, 33.75f, 2, 33.75f), "x", 1, NULL); /* ties, but not with what B chose */
    make_record(&b, greedy(3, 33.75f, 4, 33.75f), "y", 1, NULL);
    struct diff_control huge = {1e9, "test"};
    struct diff_result r = compare_and_close(make_end(&a), make_end(&b), &huge);
    verdict_is(r, DIFF_FORK);
    cr_assert(strstr(r.reason, "not among the recorded candidates") != NULL);
}

/* ---- controls ---- */

Test(diff, knife_edge_needs_gap_and_drift_within_twice_delta) {
    struct diff_control wide = {0.2, "test"}, narrow = {0.1, "test"};
    verdict_is(fork_pair(3, 20.25f, 20.0f, "f32", &wide), DIFF_KNIFE_EDGE); /* 0.25 <= 0.4 */
    verdict_is(fork_pair(3, 20.25f, 20.0f, "f32", &narrow), DIFF_FORK);     /* 0.25 > 0.2 */
    struct diff_control nan_control = {(double)NAN, "test"};
    verdict_is(fork_pair(3, 20.25f, 20.0f, "f32", &nan_control), DIFF_FORK);
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 1);
    make_plain(&b, 1);
    make_record(&a, greedy(7, 20.0f, 8, 19.0f), "q", 1, NULL);
    make_record(&b, greedy(7, 20.5f, 8, 19.0f), "q", 1, NULL); /* drift 0.5 before a close fork */
    make_record(&a, greedy(1, 20.0f, 2, 19.9f), "x", 1, NULL);
    make_record(&b, greedy(2, 20.0f, 1, 19.9f), "y", 1, NULL);
    dump *x = make_end(&a), *y = make_end(&b);
    struct diff_result r = compare(x, y, &wide);
    verdict_is(r, DIFF_FORK);
    cr_assert(near(r.drift, 0.5) && r.drift_at == 1 && r.first_hash_diff == 1);
    struct diff_control wider = {0.25, "test"};
    verdict_is(compare(x, y, &wider), DIFF_KNIFE_EDGE);
    verdict_is(compare(x, y, NULL), DIFF_FORK);
    cr_assert(strstr(compare(x, y, NULL).reason, "--control") != NULL);
    dump_close(x);
    dump_close(y);
}

/* One record a side that differs in token: what of its numbers may be compared? */
static struct diff_result one_fork(struct dump_record x, struct dump_record y) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_record(&a, x, "x", 1, NULL);
    make_record(&b, y, "y", 1, NULL);
    return compare_and_close(make_end(&a), make_end(&b), NULL);
}

Test(diff, drift_compares_equal_ids_wherever_they_stand) {
    struct diff_result r = one_fork(greedy(1, 20, 2, 19), greedy(3, 19, 1, 18.5f)); /* top-1 against top-2 */
    cr_assert(near(r.drift, 1.5) && !r.drift_at_least);
    cr_assert(near(one_fork(greedy(1, 20, 2, 19), greedy(2, 21, 1, 19.5f)).drift, 2.0)); /* both, swapped */
    r = one_fork(greedy(1, 20, 2, 19), greedy(3, 21, 2, 18.75f)); /* 3 is at most 19 in A */
    cr_assert(near(r.drift, 2.0) && r.drift_at_least);
    r = one_fork(greedy(1, 20, 2, 19), greedy(3, 22, 4, 18)); /* no id is on both sides */
    cr_assert(near(r.drift, 3.0) && r.drift_at_least && r.drift_at == 0);
    struct dump_record bare = greedy(3, 22, 4, 18);
    bare.flags = DUMP_NO_TOP1 | DUMP_NO_TOP2;
    cr_assert_eq(one_fork(greedy(1, 20, 2, 19), bare).drift_at, UINT64_MAX, "nothing to compare with");
    struct dump_record x = greedy(1, 20, 2, 19), y = greedy(3, -1, 2, -2);
    y.flags = DUMP_LOGPROBS;
    cr_assert_eq(one_fork(x, y).drift_at, UINT64_MAX, "a logit and a logprob are not the same quantity");
}

Test(diff, the_forks_own_row_counts_as_drift) {
    /* Gaps stay small, yet both candidates jumped by 5: a broken build must not pass as a near-tie. */
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 2);
    make_plain(&b, 2);
    make_record(&a, greedy(1, 20.0f, 2, 19.9f), "x", 1, NULL);
    make_record(&b, greedy(2, 25.0f, 1, 24.9f), "y", 1, NULL);
    struct diff_control control = {0.2, "test"};
    struct diff_result r = compare_and_close(make_end(&a), make_end(&b), &control);
    verdict_is(r, DIFF_FORK);
    cr_assert_eq(r.drift_at, 2);
}

/* ---- field case A02: equal top logits, and the two sides take different ids ---- */

Test(diff, case_a02_exact_tie_names_the_tie_rule) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 30);
    make_plain(&b, 30);
    make_record(&a, greedy(3, 17.125f, 7, 17.125f), "x", 1, NULL);
    make_record(&b, greedy(7, 17.125f, 3, 17.125f), "y", 1, NULL);
    struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
    verdict_is(r, DIFF_EXACT_TIE);
    cr_assert_eq(r.fork, 30);
    cr_assert_eq(r.tie_rules_differ, 1);
    cr_assert(near(r.gap_a, 0.0) && near(r.gap_b, 0.0));
    cr_assert_eq(diff_exit_code(r.verdict), 1, "byte identity still fails");
}

Test(diff, case_a02_the_last_wins_engine_records_the_low_id_as_top_1) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_record(&a, greedy(3, 17.125f, 7, 17.125f), "x", 1, NULL);
    struct dump_record r = greedy(3, 17.125f, 7, 17.125f);
    r.token = 7;
    make_record(&b, r, "y", 1, NULL);
    struct diff_result d = compare_and_close(make_end(&a), make_end(&b), NULL);
    verdict_is(d, DIFF_EXACT_TIE);
    cr_assert_eq(d.tie_rules_differ, 1);
}

Test(diff, case_a02_narrowing_to_bf16_makes_the_tie) {
    const char *f32[] = {"logits", "f32", NULL}, *bf16[] = {"logits", "bf16", NULL};
    struct made a = make_begin(NULL, 0, f32), b = make_begin(NULL, 0, bf16);
    make_record(&a, greedy(7, 17.15f, 3, 17.12f), "x", 1, NULL);
    make_record(&b, greedy(3, 17.125f, 7, 17.125f), "y", 1, NULL);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_EXACT_TIE);
    a = make_begin(NULL, 0, f32); /* a tie on one side excuses nothing when the other side was sure */
    b = make_begin(NULL, 0, bf16);
    make_record(&a, greedy(7, 19.0f, 3, 17.12f), "x", 1, NULL);
    make_record(&b, greedy(3, 17.125f, 7, 17.125f), "y", 1, NULL);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_FORK);
}

/* ---- field case A03: a fork at index 0; metrics stop there ---- */

Test(diff, case_a03_fork_at_the_first_token) {
    struct diff_result r = fork_pair(0, 33.75f, 33.5f, "bf16", NULL);
    verdict_is(r, DIFF_KNIFE_EDGE);
    cr_assert_eq(r.fork, 0);
    cr_assert_eq(r.compared, 0);
    cr_assert_eq(r.text_offset, 0);
    cr_assert(r.drift <= 0.25, "records after the fork (1800 apart) must not be measured");
}

static dump *full_rows(float bump, int at) {
    static float row[256];
    const char *keys[] = {"n_vocab", "256", NULL};
    struct made m = make_begin(NULL, 256, keys);
    for (int i = 0; i < 3; i++) {
        for (int v = 0; v < 256; v++) row[v] = 0.001f * (float)v;
        if (i == 1 && at >= 0) row[at] += bump;
        struct dump_record r = greedy(255, row[255], 254, row[254]);
        r.row = hash_logits(row, 256);
        make_record(&m, r, "z", 1, row);
    }
    return make_end(&m);
}

Test(diff, case_a03_same_shape_neighbours_must_give_the_same_256_logits) {
    struct diff_result same = compare_and_close(full_rows(0, -1), full_rows(0, -1), NULL);
    verdict_is(same, DIFF_IDENTICAL);
    cr_assert_eq(same.full_rows, 3);
    cr_assert_eq(same.full_differing, 0);
    struct diff_result one = compare_and_close(full_rows(0, -1), full_rows(1e-8f, 40), NULL);
    verdict_is(one, DIFF_IDENTICAL); /* the tokens are; the rails are not, and that is said */
    cr_assert_eq(one.full_differing, 1);
    cr_assert_eq(one.first_hash_diff, 1);
    cr_assert(strstr(one.reason, "logits differ: first at step 1") != NULL);
}

/* A tie on one side excuses nothing when the other side emitted a token far below its own argmax. */
Test(diff, a_token_below_its_own_argmax_is_no_tie) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_record(&a, greedy(3, 17.125f, 7, 17.125f), "x", 1, NULL);
    struct dump_record r = greedy(3, 20.0f, 7, 10.0f);
    r.token = 7;
    make_record(&b, r, "y", 1, NULL);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_FORK);
}
