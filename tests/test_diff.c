/* test_diff.c - one verdict for two streams: where they fork, how close it was, and what may never excuse a fork. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff.h"
#include "tests/dump_maker.h"

static const char *const plain_keys[] = {"n_vocab", "1000",           "logits", "f32", "sampler",
                                         "greedy",  "repeat_penalty", "1",      NULL};

static struct diff_result compare(dump *a, dump *b, const struct diff_control *control) {
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(diff_streams(a, b, control, &r, &err), STATUS_OK, "%s", err.message);
    return r;
}

static struct diff_result compare_and_close(dump *a, dump *b, const struct diff_control *control) {
    struct diff_result r = compare(a, b, control), back = compare(b, a, control);
    cr_assert_eq(r.verdict, back.verdict, "the verdict depends on the order: %s and %s", r.reason,
                 back.reason);
    dump_close(a);
    dump_close(b);
    return r;
}

static void verdict_is(struct diff_result r, enum diff_verdict want) {
    cr_assert_eq(r.verdict, want, "%s, want %s: %s", diff_verdict_name(r.verdict), diff_verdict_name(want),
                 r.reason);
    cr_assert(strlen(r.reason) > 10);
}

static int near(double x, double y) {
    return fabs(x - y) <= 1e-9 * (1.0 + fabs(y));
}

/* Equal up to record `at`, then ids 220 and 911 with the two logits swapped between the sides. */
static struct diff_result fork_pair(int at, float logit1, float logit2, const char *dtype,
                                    const struct diff_control *control) {
    const char *keys[] = {"n_vocab", "1000", "logits", dtype, NULL};
    struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
    make_plain(&a, at);
    make_plain(&b, at);
    make_record(&a, greedy(220, logit1, 911, logit2), " x", 2, NULL);
    make_record(&b, greedy(911, logit1, 220, logit2), " y", 2, NULL);
    make_record(&a, greedy(5, 900.0f, 6, 1.0f), " after", 6, NULL); /* past the fork: must not be looked at */
    make_record(&b, greedy(5, -900.0f, 6, -901.0f), " after", 6, NULL);
    return compare_and_close(make_end(&a), make_end(&b), control);
}

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
    cr_assert(
        near(one_fork(greedy(1, 20, 2, 19), greedy(3, 21, 1, 18.5f)).drift, 1.5)); /* top-1 against top-2 */
    cr_assert(
        near(one_fork(greedy(1, 20, 2, 19), greedy(3, 21, 2, 18.75f)).drift, 0.25)); /* top-2 against top-2 */
    cr_assert(near(one_fork(greedy(1, 20, 2, 19), greedy(2, 21, 1, 19.5f)).drift, 2.0)); /* both, swapped */
    struct diff_result none = one_fork(greedy(1, 20, 2, 19), greedy(3, 21, 4, 18));
    cr_assert_eq(none.drift_at, UINT64_MAX, "no id is on both sides");
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

/* ---- field case A11: two broken dumps that match are INVALID ---- */

Test(diff, case_a11_agreement_on_nan_is_invalid) {
    for (int kind = 0; kind < 2; kind++) {
        dump *d[2];
        for (int side = 0; side < 2; side++) {
            struct made m = make_begin(NULL, 0, plain_keys);
            make_plain(&m, 12);
            for (int i = 0; i < 4; i++)
                make_record(&m, greedy(0, kind == 0 ? (float)NAN : (float)INFINITY, 1, 0.0f), "!", 1, NULL);
            d[side] = make_end(&m);
        }
        struct diff_result r = compare_and_close(d[0], d[1], NULL);
        verdict_is(r, DIFF_INVALID);
        cr_assert(strstr(r.reason, "record 12") != NULL);
        cr_assert_eq(diff_exit_code(r.verdict), 2);
    }
}

Test(diff, case_a11_all_minus_infinity_but_one_is_legal_and_has_no_gap) {
    dump *d[2];
    for (int side = 0; side < 2; side++) {
        struct made m = make_begin(NULL, 0, plain_keys);
        make_record(&m, greedy(4 + side, 3.0f, 5, -(float)INFINITY), "!", 1, NULL);
        d[side] = make_end(&m);
    }
    struct diff_result r = compare_and_close(d[0], d[1], NULL);
    verdict_is(r, DIFF_FORK);
    cr_assert(isinf(r.gap_a) && near(r.ulps_a, -1.0));
}

Test(diff, one_side_broken_is_invalid_whatever_the_other_says) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 3);
    make_plain(&b, 2);
    make_record(&b, greedy(1000, 1.0f, 5, 0.0f), "!", 1, NULL); /* outside n_vocab 1000 */
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_INVALID);
}

Test(diff, two_empty_streams_prove_nothing) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_NOT_COMPARABLE);
}

/* ---- field case A12: post-processing, and a hidden penalty ---- */

Test(diff, case_a12_raw_argmax_agrees) {
    const char *keys[] = {"repeat_penalty", "1.1", "logits", "f32", NULL};
    struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
    make_plain(&a, 18);
    make_plain(&b, 18);
    struct dump_record r = greedy(1, 4.0f, 2, 3.5f);
    make_record(&a, r, "A", 1, NULL);
    r.token = 2;
    make_record(&b, r, "B", 1, NULL);
    struct diff_control huge = {100.0, "test"};
    struct diff_result d = compare_and_close(make_end(&a), make_end(&b), &huge);
    verdict_is(d, DIFF_FORK);
    cr_assert_eq(d.raw_argmax_agrees, 1);
    cr_assert(strstr(d.reason, "post-processing: raw argmax agrees") != NULL);
    cr_assert(near(d.gap_a, 0.5));
}

static struct diff_result with_keys(const char *const *ka, const char *const *kb) {
    struct made a = make_begin(NULL, 0, ka), b = make_begin(NULL, 0, kb);
    make_plain(&a, 3);
    make_plain(&b, 3);
    return compare_and_close(make_end(&a), make_end(&b), NULL);
}

Test(diff, case_a12_what_must_match_and_what_is_only_reported) {
    const char *none[] = {NULL};
    const char *penalty[] = {"repeat_penalty", "1.1", NULL}, *penalty2[] = {"repeat_penalty", "1.10", NULL};
    const char *off[] = {"repeat_penalty", "1", NULL}, *off2[] = {"repeat_penalty", "1.0", NULL};
    verdict_is(with_keys(penalty, none), DIFF_NOT_COMPARABLE);
    verdict_is(with_keys(off, none), DIFF_NOT_COMPARABLE); /* the silent side may have had one */
    verdict_is(with_keys(penalty, penalty2), DIFF_IDENTICAL);
    verdict_is(with_keys(off, off2), DIFF_IDENTICAL);
    verdict_is(with_keys(penalty, off), DIFF_NOT_COMPARABLE);
    static const char *const must[] = {"model.xxh3", "prompt.xxh3", "n_vocab",
                                       "sampler",    "tie_rule",    "ignore_eos"};
    for (size_t i = 0; i < sizeof must / sizeof must[0]; i++) {
        const char *x[] = {must[i], "500", NULL}, *y[] = {must[i], "501", NULL};
        struct diff_result r = with_keys(x, y);
        verdict_is(r, DIFF_NOT_COMPARABLE);
        cr_assert(strstr(r.reason, must[i]) != NULL && strstr(r.reason, "501") != NULL);
        cr_assert_eq(diff_key_required(must[i]), 1);
    }
    static const char *const may[] = {"commit", "device", "geometry", "route", "kv", "made_up_key"};
    for (size_t i = 0; i < sizeof may / sizeof may[0]; i++) {
        const char *x[] = {may[i], "1", NULL}, *y[] = {may[i], "2", NULL};
        verdict_is(with_keys(x, y), DIFF_IDENTICAL);
        cr_assert_eq(diff_key_required(may[i]), 0);
    }
    const char *no_eos[] = {"ignore_eos", "0", NULL}, *yes_eos[] = {"ignore_eos", "1", NULL};
    verdict_is(with_keys(no_eos, none), DIFF_IDENTICAL);
    verdict_is(with_keys(yes_eos, none), DIFF_NOT_COMPARABLE);
}

/* ---- field case A13: bytes, not text ---- */

static dump *tokens(const int32_t *ids, const char *const *texts, int n) {
    struct made m = make_begin(NULL, 0, plain_keys);
    for (int i = 0; i < n; i++)
        make_record(&m, greedy(ids[i], 20.0f, 900, 1.0f), texts[i], (uint32_t)strlen(texts[i]), NULL);
    return make_end(&m);
}

Test(diff, case_a13_same_ids_with_a_destroyed_character_are_identical_with_a_note) {
    const int32_t ids[] = {10, 11, 12};
    const char *split[] = {"\xf0\x9f", "\x98\x8a", "\xff"},
               *broken[] = {"\xef\xbf\xbd", "\xef\xbf\xbd", "\xff"};
    struct diff_result r = compare_and_close(tokens(ids, split, 3), tokens(ids, broken, 3), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(r.texts_differ_at, 0);
    r = compare_and_close(tokens(ids, split, 3), tokens(ids, split, 3), NULL);
    cr_assert_eq(r.texts_differ_at, UINT64_MAX);
}

Test(diff, case_a13_other_ids_with_equal_bytes_are_still_a_fork) {
    const int32_t one[] = {10, 11, 12}, two[] = {10, 13, 14};
    const char *t1[] = {"a", "\xe5", "\xa5\xbd"}, *t2[] = {"a", "\xe5\xa5", "\xbd"};
    struct diff_result r = compare_and_close(tokens(one, t1, 3), tokens(two, t2, 3), NULL);
    verdict_is(r, DIFF_FORK);
    cr_assert_eq(r.fork, 1);
    cr_assert_eq(r.text_offset, 1);
    cr_assert_eq(r.bytes_equal, 1);
}

static dump *only_text(const char *const *texts, int n) {
    struct made m = make_begin(NULL, 0, NULL);
    for (int i = 0; i < n; i++) {
        struct dump_record r = greedy(-1, 0, -1, 0);
        r.flags = DUMP_NO_ID | DUMP_NO_TOP1 | DUMP_NO_TOP2 | DUMP_NO_LSE | DUMP_NO_HASH;
        make_record(&m, r, texts[i], (uint32_t)strlen(texts[i]), NULL);
    }
    return make_end(&m);
}

Test(diff, without_ids_identity_is_by_bytes_however_they_are_cut) {
    const char *t1[] = {"he", "llo", " world"}, *t2[] = {"hel", "lo", " ", "world"},
               *t3[] = {"hel", "lo w", "orst"};
    const char *shorter[] = {"hel", "lo"};
    struct diff_result r = compare_and_close(only_text(t1, 3), only_text(t2, 4), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(r.by_bytes, 1);
    dump *a = only_text(t1, 3), *b = only_text(t3, 3);
    r = compare(a, b, NULL);
    verdict_is(r, DIFF_FORK);
    cr_assert_eq(r.text_offset, 9);
    cr_assert_eq(r.fork, 2);
    cr_assert_eq(r.fork_b, 2);
    dump_close(a);
    dump_close(b);
    verdict_is(compare_and_close(only_text(t1, 3), only_text(shorter, 2), NULL), DIFF_LENGTH);
    const int32_t ids[] = {1, 2, 3};
    verdict_is(compare_and_close(only_text(t1, 3), tokens(ids, t1, 3), NULL),
               DIFF_NOT_COMPARABLE); /* sampler unknown */
}

Test(diff, without_ids_equal_records_do_not_hide_other_bytes) {
    dump *d[2];
    for (int side = 0; side < 2; side++) {
        struct made m = make_begin(NULL, 0, NULL);
        for (int i = 0; i < 3000; i++) {
            struct dump_record r = greedy(-1, 0, -1, 0);
            r.flags = DUMP_NO_ID | DUMP_NO_TOP1 | DUMP_NO_TOP2 | DUMP_NO_LSE | DUMP_NO_HASH;
            make_record(&m, r, side && i == 500 ? "xz" : "xy", 2, NULL); /* the records are the same bytes */
        }
        d[side] = make_end(&m);
    }
    struct diff_result r = compare_and_close(d[0], d[1], NULL);
    verdict_is(r, DIFF_FORK);
    cr_assert_eq(r.fork, 500);
    cr_assert_eq(r.text_offset, 1001);
}

/* ---- field case A18: end tokens and lengths ---- */

static void add_eos(struct made *m, int32_t id, int32_t id2, float logit2) {
    struct dump_record r = greedy(id, 20.0f, id2, logit2);
    r.flags = DUMP_END;
    make_record(m, r, "", 0, NULL);
}

Test(diff, case_a18_a_the_tail_after_a_common_end_is_ignored_and_said_so) {
    for (int declared = 0; declared < 2; declared++) {
        const char *keys[] = {"ignore_eos", declared ? "1" : "0", NULL};
        struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
        make_plain(&a, 12);
        make_plain(&b, 12);
        add_eos(&a, 2, 7, 3.0f);
        add_eos(&b, 2, 7, 3.0f);
        make_plain(&a, 2);
        make_plain(&b, 2);
        make_record(&a, greedy(40, 20.0f, 41, 19.0f), "m", 1, NULL);
        make_record(&b, greedy(41, 20.0f, 40, 19.0f), "n", 1, NULL);
        struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
        verdict_is(r, declared ? DIFF_FORK : DIFF_IDENTICAL);
        if (declared) cr_assert_eq(r.fork, 15);
        if (!declared) {
            cr_assert_eq(r.compared, 13);
            cr_assert_eq(r.ignored_tail, 6);
            cr_assert(r.ended_by_eos_a == 1 && r.ended_by_eos_b == 1);
            cr_assert(strstr(r.reason, "after the common end") != NULL);
        }
    }
}

Test(diff, case_a18_b_c_one_side_ends_the_other_goes_on) {
    for (int tie = 0; tie < 2; tie++) {
        struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
        make_plain(&a, 12);
        make_plain(&b, 12);
        add_eos(&a, 2, 7, tie ? 20.0f : 16.0f);
        make_record(&b, greedy(7, 20.0f, 2, tie ? 20.0f : 16.0f), "on", 2, NULL);
        make_plain(&b, 3);
        struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
        verdict_is(r, tie ? DIFF_EXACT_TIE : DIFF_FORK);
        cr_assert_eq(r.fork, 12);
        cr_assert(near(r.gap_a, tie ? 0.0 : 4.0));
        cr_assert(r.ended_by_eos_a == 1 && r.ended_by_eos_b == 0);
    }
}

Test(diff, case_a18_d_e_equal_as_far_as_both_go_is_length_never_identical) {
    const char *ka[] = {"stop", "length", "n_requested", "12", NULL},
               *kb[] = {"stop", "length", "n_requested", "20", NULL};
    struct made a = make_begin(NULL, 0, ka), b = make_begin(NULL, 0, kb);
    make_plain(&a, 12);
    make_plain(&b, 20);
    struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
    verdict_is(r, DIFF_LENGTH);
    cr_assert_eq(diff_exit_code(r.verdict), 1);
    cr_assert_eq(r.compared, 12);
    cr_assert(strstr(r.reason, "budget 12") != NULL && strstr(r.reason, "budget 20") != NULL);
    a = make_begin(NULL, 0, plain_keys);
    b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 12);
    make_plain(&b, 12);
    add_eos(&a, 2, 7, 3.0f);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_LENGTH);
}

Test(diff, case_a18_f_two_different_end_tokens_are_a_fork) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 12);
    make_plain(&b, 12);
    add_eos(&a, 2, 3, 10.0f);
    add_eos(&b, 3, 2, 10.0f);
    struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
    verdict_is(r, DIFF_FORK);
    cr_assert_eq(r.fork, 12);
}

Test(diff, fork_at_the_last_token_and_identical_streams) {
    for (int fork = 0; fork < 2; fork++) {
        struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
        make_plain(&a, 99);
        make_plain(&b, 99);
        make_record(&a, greedy(1, 20.0f, 2, 10.0f), "x", 1, NULL);
        make_record(&b, fork ? greedy(2, 20.0f, 1, 10.0f) : greedy(1, 20.0f, 2, 10.0f), "x", 1, NULL);
        struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
        verdict_is(r, fork ? DIFF_FORK : DIFF_IDENTICAL);
        cr_assert_eq(r.fork, fork ? 99 : UINT64_MAX);
        cr_assert_eq(diff_exit_code(r.verdict), fork);
    }
}

/* ---- long streams: the hashes may skip nothing that matters ---- */

static struct dump_record long_record(int i) {
    return greedy(i % 900, 20.0f, 950, 15.0f + 0.001f * (float)(i % 7));
}

static dump *long_stream(const char *path, int n, int change_at, int kind) {
    struct made m = make_begin(path, 0, plain_keys);
    for (int i = 0; i < n; i++) {
        struct dump_record r = long_record(i);
        if (i == change_at && kind == 0) r.token = r.id1 = 901;
        if (i == change_at && kind == 1) {
            if (i % 2 == 1) r.logit1 += 0.5f;
            else r.logit2 += 0.5f;
            r.row.bytes[3] ^= 1;
        }
        if (i == change_at && kind == 2) r.flags |= DUMP_END;
        make_record(&m, r, "ab", 2, NULL);
    }
    return make_end(&m);
}

Test(diff, a_change_anywhere_in_ten_blocks_is_found, .timeout = 60) {
    char pa[64], pb[64];
    char folder[] = "/tmp/forkgate-test-diff-XXXXXX";
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(pa, sizeof pa, "%s/a.fgd", folder);
    (void)snprintf(pb, sizeof pb, "%s/b.fgd", folder);
    enum { N = 10000 };
    dump_close(long_stream(pa, N, -1, 0));
    const int places[] = {0, 1, 1023, 1024, 1025, 5000, 9215, 9216, 9999};
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        for (int kind = 0; kind < 2; kind++) {
            dump_close(long_stream(pb, N, places[k], kind));
            dump *a = NULL, *b = NULL;
            struct diff_result together, apart;
            struct err err = {""};
            cr_assert_eq(diff_files(pa, pb, NULL, &a, &b, &together, &err), STATUS_OK, "%s", err.message);
            apart = compare(a, b, NULL);
            cr_assert_eq(memcmp(&together, &apart, offsetof(struct diff_result, reason)), 0,
                         "one pass and two agree");
            cr_assert_eq(together.fork, kind == 0 ? (uint64_t)places[k] : UINT64_MAX);
            if (kind == 1) cr_assert_eq(together.first_hash_diff, (uint64_t)places[k]);
            if (kind == 1) cr_assert(near(together.drift, 0.5) && together.drift_at == (uint64_t)places[k]);
            dump_close(a);
            dump_close(b);
        }
    }
    (void)remove(pa);
    (void)remove(pb);
    (void)remove(folder);
}

/* One of many shapes: an end, a missing id, an invalid record, another length, whole rows, top-k's stride. */
static void write_shape(const char *path, int shape, int side) {
    enum { N = 4000 };
    const char *keys[] = {"n_vocab", "1000", shape == 5 ? "ignore_eos" : "note", "1", NULL};
    struct made m = make_begin(path, shape == 6 || (shape == 7 && side) ? 3 : 0, keys);
    float row[3] = {0, 1, 2};
    int n = shape == 4 && side ? N - 1500 : N;
    for (int i = 0; i < n; i++) {
        struct dump_record r = long_record(i);
        if ((shape == 1 || shape == 5) && (i == 1500 || i == 2500)) r.flags = DUMP_END;
        if (shape == 2 && i >= 2100) r.flags = DUMP_NO_ID;
        if (shape == 3 && i == 2047) r.id1 = 5000;
        if (side && i == 3000 && shape != 4) r.logit1 += 0.25f;
        if (side && i == 3500 && shape != 4) r.token = r.id1 = 901;
        make_record(&m, r, i % 3 ? "ab" : "c", i % 3 ? 2 : 1, row);
    }
    dump_close(make_end(&m));
}

Test(diff, one_pass_over_two_files_says_what_two_opened_dumps_say, .timeout = 60) {
    char folder[] = "/tmp/forkgate-test-diff-XXXXXX", pa[64], pb[64];
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(pa, sizeof pa, "%s/a.fgd", folder);
    (void)snprintf(pb, sizeof pb, "%s/b.fgd", folder);
    for (int shape = 0; shape < 8; shape++) {
        write_shape(pa, shape, 0);
        write_shape(pb, shape, 1);
        for (int swap = 0; swap < 2; swap++) {
            dump *a = NULL, *b = NULL, *c = NULL, *d = NULL;
            struct diff_result together;
            struct err err = {""};
            const char *x = swap ? pb : pa, *y = swap ? pa : pb;
            cr_assert_eq(diff_files(x, y, NULL, &a, &b, &together, &err), STATUS_OK, "%s", err.message);
            cr_assert_eq(dump_open(x, &c, &err), STATUS_OK, "%s", err.message);
            cr_assert_eq(dump_open(y, &d, &err), STATUS_OK, "%s", err.message);
            struct diff_result apart = compare(c, d, NULL);
            cr_assert_eq(memcmp(&together, &apart, sizeof apart), 0, "shape %d: %s, %s", shape,
                         together.reason, apart.reason);
            cr_assert_eq(dump_first_end(a), dump_first_end(c));
            cr_assert_eq(dump_first_without_id(b), dump_first_without_id(d));
            const char *why = NULL;
            cr_assert_eq(dump_first_invalid(b, &why), dump_first_invalid(d, &why), "shape %d", shape);
            dump_close(a);
            dump_close(b);
            dump_close(c);
            dump_close(d);
        }
    }
    (void)remove(pa);
    (void)remove(pb);
    (void)remove(folder);
}

Test(diff, an_end_inside_an_equal_block_hides_a_later_difference) {
    dump *a = long_stream(NULL, 5000, 700, 2), *b = long_stream(NULL, 6000, 700, 2);
    struct diff_result r = compare_and_close(a, b, NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(r.compared, 701);
    cr_assert_eq(r.ignored_tail, 4299 + 5299);
}

Test(diff, damage_on_either_side_is_refused_with_its_file) {
    char folder[] = "/tmp/forkgate-test-diff-XXXXXX", pa[64], pb[64];
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(pa, sizeof pa, "%s/a.fgd", folder);
    (void)snprintf(pb, sizeof pb, "%s/b.fgd", folder);
    dump_close(long_stream(pa, 3000, -1, 0));
    dump_close(long_stream(pb, 3000, 2, 0)); /* forks early: the rest must be verified all the same */
    FILE *f = fopen(pb, "r+b");
    cr_assert(f != NULL && fseek(f, 150000, SEEK_SET) == 0 && fputc('!', f) == '!');
    (void)fclose(f);
    dump *a = NULL, *b = NULL;
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(diff_files(pa, pb, NULL, &a, &b, &r, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "b.fgd: first bad block: 3") != NULL && a == NULL && b == NULL);
    cr_assert_eq(diff_files(pb, pa, NULL, &a, &b, &r, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "b.fgd") != NULL);
    cr_assert_eq(diff_files(pa, "/nonexistent.fgd", NULL, &a, &b, &r, &err), STATUS_IO);
    (void)remove(pa);
    (void)remove(pb);
    (void)remove(folder);
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
