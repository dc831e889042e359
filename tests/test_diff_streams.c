/* test_diff_streams.c - what makes two streams comparable, and where they end: broken numbers, provenance, bytes, end tokens.
 * Not how close a fork was: test_diff.c. Source: ours. Exercise: ctest -R unit.diff_streams */
#include <criterion/criterion.h>

#include "tests/diff_pairs.h"

/* ---- field case A11: two broken dumps that match are INVALID ---- */

Test(diff_streams, case_a11_agreement_on_nan_is_invalid) {
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

Test(diff_streams, case_a11_all_minus_infinity_but_one_is_legal_and_has_no_gap) {
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

Test(diff_streams, one_side_broken_is_invalid_whatever_the_other_says) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 3);
    make_plain(&b, 2);
    make_record(&b, greedy(1000, 1.0f, 5, 0.0f), "!", 1, NULL); /* outside n_vocab 1000 */
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_INVALID);
}

Test(diff_streams, two_empty_streams_prove_nothing) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    verdict_is(compare_and_close(make_end(&a), make_end(&b), NULL), DIFF_NOT_COMPARABLE);
}

/* ---- field case A12: post-processing, and a hidden penalty ---- */

Test(diff_streams, case_a12_raw_argmax_agrees) {
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

Test(diff_streams, case_a12_what_must_match_and_what_is_only_reported) {
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
        cr_assert_str_eq(diff_key_note(must[i], "x", "y"), "must match");
    }
    static const char *const may[] = {"commit", "device", "geometry", "route", "kv", "made_up_key"};
    for (size_t i = 0; i < sizeof may / sizeof may[0]; i++) {
        const char *x[] = {may[i], "1", NULL}, *y[] = {may[i], "2", NULL};
        verdict_is(with_keys(x, y), DIFF_IDENTICAL);
        cr_assert_str_empty(diff_key_note(may[i], "x", "y"));
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

Test(diff_streams, case_a13_same_ids_with_a_destroyed_character_are_identical_with_a_note) {
    const int32_t ids[] = {10, 11, 12};
    const char *split[] = {"\xf0\x9f", "\x98\x8a", "\xff"},
               *broken[] = {"\xef\xbf\xbd", "\xef\xbf\xbd", "\xff"};
    struct diff_result r = compare_and_close(tokens(ids, split, 3), tokens(ids, broken, 3), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(r.texts_differ_at, 0);
    r = compare_and_close(tokens(ids, split, 3), tokens(ids, split, 3), NULL);
    cr_assert_eq(r.texts_differ_at, UINT64_MAX);
}

Test(diff_streams, case_a13_other_ids_with_equal_bytes_are_still_a_fork) {
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

Test(diff_streams, without_ids_identity_is_by_bytes_however_they_are_cut) {
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

Test(diff_streams, without_ids_equal_records_do_not_hide_other_bytes) {
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

Test(diff_streams, case_a18_a_the_tail_after_a_common_end_is_ignored_and_said_so) {
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

Test(diff_streams, case_a18_b_c_one_side_ends_the_other_goes_on) {
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

Test(diff_streams, case_a18_d_e_equal_as_far_as_both_go_is_length_never_identical) {
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

Test(diff_streams, case_a18_f_two_different_end_tokens_are_a_fork) {
    struct made a = make_begin(NULL, 0, plain_keys), b = make_begin(NULL, 0, plain_keys);
    make_plain(&a, 12);
    make_plain(&b, 12);
    add_eos(&a, 2, 3, 10.0f);
    add_eos(&b, 3, 2, 10.0f);
    struct diff_result r = compare_and_close(make_end(&a), make_end(&b), NULL);
    verdict_is(r, DIFF_FORK);
    cr_assert_eq(r.fork, 12);
}

Test(diff_streams, fork_at_the_last_token_and_identical_streams) {
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
