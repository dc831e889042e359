/* diff_pairs.h - two streams made in memory, compared both ways round: what the tests of diff share.
 * Not for the product. Source: ours. */
#ifndef FORKGATE_TESTS_DIFF_PAIRS_H
#define FORKGATE_TESTS_DIFF_PAIRS_H

#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

#include "gates/diff.h"
#include "tests/dump_maker.h"

static const char *const plain_keys[] = {"n_vocab", "1000",           "logits", "f32", "sampler",
                                         "greedy",  "repeat_penalty", "1",      NULL};

static inline struct diff_result compare(dump *a, dump *b, const struct diff_control *control) {
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(diff_streams(a, b, control, &r, &err), STATUS_OK, "%s", err.message);
    return r;
}

static inline struct diff_result compare_and_close(dump *a, dump *b, const struct diff_control *control) {
    struct diff_result r = compare(a, b, control), back = compare(b, a, control);
    cr_assert_eq(r.verdict, back.verdict, "the verdict depends on the order: %s and %s", r.reason,
                 back.reason);
    dump_close(a);
    dump_close(b);
    return r;
}

static inline void verdict_is(struct diff_result r, enum diff_verdict want) {
    cr_assert_eq(r.verdict, want, "%s, want %s: %s", diff_verdict_name(r.verdict), diff_verdict_name(want),
                 r.reason);
    cr_assert(strlen(r.reason) > 10);
}

static inline int near(double x, double y) {
    return fabs(x - y) <= 1e-9 * (1.0 + fabs(y));
}

/* Equal up to record `at`, then ids 220 and 911 with the two logits swapped between the sides. */
static inline struct diff_result fork_pair(int at, float logit1, float logit2, const char *dtype,
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

#endif
