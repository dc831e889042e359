/* test_diff_hostile.c - dumps made to look better than they are: what is not known, or said twice in two ways, excuses nothing.
 * Not about damaged bytes: every dump here is whole, and its hashes are right unless said otherwise.
 * Source: ours. Exercise: ctest -R unit.diff_hostile */
#include <stdlib.h>
#include <unistd.h>

#include "gates/diff_folder.h"
#include "gates/shell_word.h"
#include "tests/diff_pairs.h"

#define BASE "fa_tq=64,fa_tkv=32,fa_chunk=256,fa_splits=8"
#define T16  "fa_tq=64,fa_tkv=16,fa_chunk=256,fa_splits=8"
#define T64  "fa_tq=64,fa_tkv=64,fa_chunk=256,fa_splits=8"

/* ---- drift ---- */

enum { PREFIX = 10 };

/* Ten tokens 5, then a fork 0.01 wide between 5 and 6. second: the other candidate of the prefix. */
static dump *drifting(int32_t second, float logit2, int32_t choice, const struct dump_top *top) {
    struct err err = {""};
    struct provenance p;
    dump_writer *w = NULL;
    dump *d = NULL;
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "logits", "f32", &err), STATUS_OK);
    cr_assert_eq(dump_writer_open(NULL, &p, top == NULL ? 0 : 3, 0, &w, &err), STATUS_OK);
    for (int i = 0; i <= PREFIX; i++) {
        struct dump_record r =
            i < PREFIX ? greedy(5, 10.0f, second, logit2) : greedy(choice, 10.0f, choice == 5 ? 6 : 5, 9.99f);
        const struct dump_top last[3] = {{r.id1, r.logit1}, {r.id2, r.logit2}, {900, -1.0f}};
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)"x", 1, i < PREFIX ? top : last, NULL, &err),
                     STATUS_OK);
    }
    cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    return d;
}

Test(diff_hostile, an_id_that_one_side_lacks_has_moved_at_least_to_its_top_two) {
    const struct diff_control control = {0.006, "test"};
    struct diff_result r =
        compare_and_close(drifting(6, 1.0f, 5, NULL), drifting(8, 9.9f, 6, NULL), &control);
    verdict_is(r, DIFF_FORK);
    cr_assert(fabs(r.drift - 8.9) < 1e-6 && r.drift_at == 0, "drift %g at %d", r.drift, (int)r.drift_at);
    cr_assert(r.drift_at_least && strstr(r.reason, "drift at least 8.9 exceeds it") != NULL, "%s", r.reason);
    r = compare_and_close(drifting(6, 1.0f, 5, NULL), drifting(6, 1.0f, 6, NULL), &control);
    verdict_is(r, DIFF_KNIFE_EDGE);
    cr_assert_eq(r.drift_at_least, 0);
}

Test(diff_hostile, a_stored_list_says_how_far_an_id_has_moved) {
    const struct dump_top a[3] = {{5, 10.0f}, {6, 1.0f}, {8, 0.5f}},
                          b[3] = {{5, 10.0f}, {8, 9.9f}, {6, 0.75f}};
    struct diff_result r = compare_and_close(drifting(6, 1.0f, 5, a), drifting(8, 9.9f, 6, b), NULL);
    cr_assert(fabs(r.drift - 9.4) < 1e-6 && r.drift_at == 0, "drift %g", r.drift);
    cr_assert_eq(r.drift_at_least, 0);
}

/* ---- rails ---- */

/* Ten equal tokens; hashed: how many of the rows have a hash. */
static dump *railed(float logit1, int hashed) {
    struct made m = make_begin(NULL, 0, plain_keys);
    for (int i = 0; i < 10; i++) {
        struct dump_record r = greedy(7, logit1, 50, 15.0f);
        if (i >= hashed) r.flags |= DUMP_NO_HASH;
        make_record(&m, r, "x", 1, NULL);
    }
    return make_end(&m);
}

Test(diff_hostile, rails_are_the_same_only_where_every_row_says_so) {
    struct diff_result r = compare_and_close(railed(20.0f, 10), railed(20.0f, 10), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert(diff_rails(&r) == DIFF_RAILS_SAME && diff_exit_code_bits(&r) == 0);
    r = compare_and_close(railed(20.0f, 10), railed(20.0f, 9), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert(diff_rails(&r) == DIFF_RAILS_UNKNOWN && diff_exit_code_bits(&r) == 2);
    cr_assert(strstr(r.reason, "every row") == NULL, "%s", r.reason);
    r = compare_and_close(railed(20.0f, 0), railed(20.5f, 0), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert(diff_rails(&r) == DIFF_RAILS_DIFFER && diff_exit_code_bits(&r) == 1);
    cr_assert(strstr(r.reason, "largest change 0.5 at step 0") != NULL, "%s", r.reason);
    cr_assert_eq(diff_exit_code(r.verdict), 0); /* who did not ask for the rails */
}

/* Sixteen logits a row, stored whole; other: the value of one that is no candidate. */
static dump *with_rows(float other, uint32_t flags, int right) {
    const char *keys[] = {"n_vocab", "16", NULL};
    struct made m = make_begin(NULL, 16, keys);
    for (int i = 0; i < 10; i++) {
        float row[16] = {0.0f};
        row[5] = 10.0f;
        row[6] = 9.0f;
        struct dump_record r = greedy(5, 10.0f, 6, 9.0f);
        row[9] = 1.0f;
        r.row = hash_logits(row, 16);
        row[9] = other;
        if (right) r.row = hash_logits(row, 16);
        r.flags |= flags;
        make_record(&m, r, "x", 1, row);
    }
    return make_end(&m);
}

Test(diff_hostile, a_stored_row_is_of_its_hash_or_nothing_is_judged) {
    struct diff_result r = compare_and_close(with_rows(1.0f, 0, 1), with_rows(1.0f, 0, 1), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(diff_rails(&r), DIFF_RAILS_SAME);
    r = compare_and_close(with_rows(1.0f, 0, 1), with_rows(8.0f, 0, 0), NULL);
    verdict_is(r, DIFF_INVALID);
    cr_assert(strstr(r.reason, "does not hash to") != NULL, "%s", r.reason);
    r = compare_and_close(with_rows(1.0f, 0, 1), with_rows(9.5f, 0, 1), NULL);
    verdict_is(r, DIFF_INVALID);
    cr_assert(strstr(r.reason, "second logit above") != NULL, "%s", r.reason);
    r = compare_and_close(with_rows(1.0f, DUMP_NO_HASH, 0), with_rows(8.0f, DUMP_NO_HASH, 0), NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(r.full_differing, 10);
    cr_assert(diff_rails(&r) == DIFF_RAILS_DIFFER && strstr(r.reason, "10 stored logits differ") != NULL,
              "%s", r.reason);
}

/* ---- top-k ---- */

static dump *with_top(struct dump_top third) {
    struct err err = {""};
    struct provenance p;
    dump_writer *w = NULL;
    dump *d = NULL;
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "n_vocab", "1000", &err), STATUS_OK);
    cr_assert_eq(dump_writer_open(NULL, &p, 3, 0, &w, &err), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        struct dump_record r = greedy(5, 10.0f, 6, 9.0f);
        const struct dump_top top[3] = {{5, 10.0f}, {6, 9.0f}, i == 2 ? third : (struct dump_top){60, 1.0f}};
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)"x", 1, top, NULL, &err), STATUS_OK);
    }
    cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    return d;
}

Test(diff_hostile, a_list_that_cannot_be_true_is_invalid) {
    static const struct {
        struct dump_top third;
        const char *why; /* NULL: may be judged */
    } cases[] = {{{7, 8.5f}, NULL},
                 {{7, 9.0f}, NULL},
                 {{-1, -(float)INFINITY}, NULL}, /* more asked for than the vocabulary has */
                 {{7, -(float)INFINITY}, NULL},
                 {{7, (float)NAN}, "a top-k logit is NaN or +Inf"},
                 {{7, (float)INFINITY}, "a top-k logit is NaN or +Inf"},
                 {{7, 10.5f}, "a top-k logit is above the recorded top-1"},
                 {{7, 9.5f}, "a second top-k logit is above the recorded top-2"},
                 {{1000, 1.0f}, "a top-k id is outside the vocabulary"},
                 {{-1, 1.0f}, "a top-k id is outside the vocabulary"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dump *d = with_top(cases[i].third);
        const char *why = NULL;
        cr_assert_eq(dump_first_invalid(d, &why), cases[i].why == NULL ? UINT64_MAX : 2, "case %d", (int)i);
        if (cases[i].why != NULL) cr_assert_str_eq(why, cases[i].why);
        verdict_is(compare_and_close(d, with_top(cases[i].third), NULL),
                   cases[i].why == NULL ? DIFF_IDENTICAL : DIFF_INVALID);
    }
}

/* ---- nothing to compare ---- */

static dump *silent(int n, int32_t id, int from, uint32_t last) {
    struct made m = make_begin(NULL, 0, NULL);
    for (int i = 0; i < n; i++) {
        struct dump_record r = greedy(i < from ? 7 : id, 20.0f, 50, 15.0f);
        if (r.token < 0) {
            r.flags |= DUMP_NO_ID;
            r.id1 = 7;
        }
        if (i == n - 1) r.flags |= last;
        make_record(&m, r, "", 0, NULL);
    }
    return make_end(&m);
}

Test(diff_hostile, neither_ids_nor_bytes_are_no_agreement) {
    verdict_is(compare_and_close(silent(10, -1, 0, 0), silent(5, -1, 0, 0), NULL), DIFF_NOT_COMPARABLE);
    verdict_is(compare_and_close(silent(5, -1, 0, 0), silent(5, -1, 0, 0), NULL), DIFF_NOT_COMPARABLE);
    verdict_is(compare_and_close(silent(10, -1, 0, 0), silent(8, 7, 0, 0), NULL), DIFF_NOT_COMPARABLE);
    verdict_is(compare_and_close(silent(9, -1, 1, 0), silent(5, -1, 1, 0), NULL), DIFF_NOT_COMPARABLE);
    verdict_is(compare_and_close(silent(9, -1, 0, DUMP_END), silent(9, -1, 0, DUMP_END), NULL),
               DIFF_NOT_COMPARABLE);
    verdict_is(compare_and_close(silent(9, -1, 8, DUMP_END), silent(9, -1, 8, DUMP_END), NULL),
               DIFF_IDENTICAL);
    verdict_is(compare_and_close(silent(9, 7, 0, 0), silent(9, 7, 0, 0), NULL), DIFF_IDENTICAL);
}

/* ---- provenance ---- */

static enum diff_verdict with_key(const char *key, const char *x, const char *y) {
    const char *a[] = {key, x, NULL}, *b[] = {key, y, NULL};
    struct made ma = make_begin(NULL, 0, a), mb = make_begin(NULL, 0, b);
    make_plain(&ma, 3);
    make_plain(&mb, 3);
    return compare_and_close(make_end(&ma), make_end(&mb), NULL).verdict;
}

Test(diff_hostile, a_hash_is_not_a_number) {
    cr_assert_eq(
        with_key("model.xxh3", "12345678901234567890123456789012", "12345678901234567890123456789013"),
        DIFF_NOT_COMPARABLE);
    cr_assert_eq(with_key("prompt.xxh3", "1e999", "7e888"), DIFF_NOT_COMPARABLE);
    cr_assert_eq(with_key("prompt.xxh3", "10", "1e1"), DIFF_NOT_COMPARABLE);
    cr_assert_eq(with_key("repeat_penalty", "1e999", "7e888"), DIFF_NOT_COMPARABLE);
    cr_assert_eq(with_key("repeat_penalty", "1.10", "1.1"), DIFF_IDENTICAL);
}

Test(diff_hostile, a_key_that_one_side_lacks_is_not_said_to_match) {
    cr_assert_str_eq(diff_key_note("model.xxh3", "m", "n"), "must match");
    cr_assert_str_eq(diff_key_note("model.xxh3", "m", NULL), "must match; not known on one side");
    cr_assert_str_eq(diff_key_note("prompt.xxh3", NULL, "p"), "must match; not known on one side");
    cr_assert_str_eq(diff_key_note("sampler", NULL, "greedy"), "must match"); /* refused */
    cr_assert_str_empty(diff_key_note("commit", "x", NULL));
}

/* ---- controls ---- */

static char folder[] = "/tmp/forkgate-test-hostile-XXXXXX";
static char paths[4][80];

static void make_folder(void) {
    static const char *const names[] = {"x.fgd", "y.fgd", "a.fgd", "b.fgd"};
    cr_assert(mkdtemp(folder) != NULL);
    for (int i = 0; i < 4; i++) (void)snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
}
static void remove_folder(void) {
    for (int i = 0; i < 4; i++) (void)unlink(paths[i]);
    if (rmdir(folder) != 0) abort();
}
TestSuite(hostile_control, .init = make_folder, .fini = remove_folder);

/* Ten tokens, then 220 or 911, half a nat apart. */
static dump *tile(const char *path, const char *geometry, int32_t last, const char *key, const char *value) {
    const char *keys[] = {"model.xxh3", "m",   "prompt.xxh3", "p",   "geometry", geometry,
                          "logits",     "f32", key,           value, NULL};
    struct made m = make_begin(path, 0, keys);
    make_plain(&m, 10);
    make_record(&m, greedy(last, 20.0f, last == 220 ? 911 : 220, 19.5f), "z", 1, NULL);
    return make_end(&m);
}

/* What Y is beside a replay of X whose logits are all moved. */
struct lie {
    const char *key, *value; /* provenance of Y that X has not */
    float moved;
    uint32_t flags;
    int32_t token; /* of its last record; 0: X's */
};

static struct diff_result judged_by(const struct lie *lie) {
    dump *x = tile(paths[0], BASE, 220, NULL, NULL), *a = NULL, *b = NULL;
    char hash[HASH_TEXT_BYTES];
    struct dump_results results = dump_results(x);
    hash_format(&results.stream, hash);
    const char *keys[] = {"model.xxh3", "m",      "prompt.xxh3", "p",      "geometry", T64, "logits",
                          "f32",        "follow", hash,          lie->key, lie->value, NULL};
    struct made y = make_begin(paths[1], 0, keys);
    for (uint64_t i = 0; i < dump_count(x); i++) {
        struct dump_record r = *dump_record_at(x, i);
        r.logit1 += lie->moved;
        r.logit2 += lie->moved;
        r.flags |= lie->flags;
        if (i == 10 && lie->token != 0) r.token = r.id1 = lie->token;
        make_record(&y, r, "y", 1, NULL);
    }
    dump_close(make_end(&y));
    dump_close(x);
    dump_close(tile(paths[2], BASE, 220, NULL, NULL));
    dump_close(tile(paths[3], T16, 911, NULL, NULL));
    const struct diff_options o = {folder, NULL};
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(diff_with_control(paths[2], paths[3], &o, &a, &b, &r, &err), STATUS_OK, "%s", err.message);
    dump_close(a);
    dump_close(b);
    return r;
}

Test(hostile_control, only_a_true_replay_of_the_same_build_is_noise) {
    static const struct lie true_replay = {NULL, NULL, 0.3f, 0, 0};
    struct diff_result r = judged_by(&true_replay);
    verdict_is(r, DIFF_KNIFE_EDGE);
    cr_assert(fabs(r.control.delta - 0.3) < 1e-5);
    static const struct lie lies[] = {{NULL, NULL, -9.75f, DUMP_LOGPROBS, 0},
                                      {NULL, NULL, 0.3f, 0, 77},
                                      {"compiler", "clang", 0.3f, 0, 0},
                                      {"flags", "-O3 -mfma", 0.3f, 0, 0},
                                      {"device", "other", 0.3f, 0, 0},
                                      {"cc", "8.0", 0.3f, 0, 0},
                                      {"driver", "1", 0.3f, 0, 0},
                                      {"runtime", "1", 0.3f, 0, 0}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        r = judged_by(&lies[i]);
        cr_assert_eq(r.verdict, DIFF_FORK, "lie %d: %s", (int)i, r.reason);
        cr_assert(r.control.delta < 0.0 && r.control_asked, "lie %d", (int)i);
        cr_assert(strstr(r.control.source, "no pair there is a control") != NULL, "%s", r.control.source);
    }
}

/* A masked candidate (-Inf) on one side of a pair would make any fork legal. */
Test(hostile_control, an_infinite_change_is_no_noise) {
    static const struct lie masked = {NULL, NULL, -(float)INFINITY, DUMP_NO_TOP1, 0};
    struct diff_result r = judged_by(&masked);
    verdict_is(r, DIFF_FORK);
    cr_assert(r.control.delta < 0.0 && r.control_asked, "delta %g", r.control.delta);
}

/* ---- what is pasted ---- */

Test(diff_hostile, a_name_is_one_word_for_a_shell) {
    char text[64] = "forkgate diff";
    cr_assert(shell_word_add(text, sizeof text, "a/b.fgd") && shell_word_add(text, sizeof text, "it's $x"));
    cr_assert_str_eq(text, "forkgate diff a/b.fgd 'it'\"'\"'s $x'");
    cr_assert(shell_word_add(text, sizeof text, ""));
    cr_assert_eq(shell_word_add(text, sizeof text, "a name that does not fit any more"), 0);
    cr_assert_str_eq(text, "forkgate diff a/b.fgd 'it'\"'\"'s $x' ''");
}
