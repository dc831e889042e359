/* bisect.c - see bisect.h: the search, and the loop that remembers. */
#include "gates/bisect.h"

#include <stdlib.h>
#include <string.h>

#include "gates/file_hash.h"

const char *bisect_outcome_name(enum bisect_outcome o) {
    static const char *const names[] = {"unknown", "good", "bad", "untestable"};
    return names[o];
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct search {
    enum bisect_outcome *known; /* [n] */
    bisect_test *test;
    void *ctx;
    int tests;
};

static enum status ask(struct search *s, int i, struct err *err) {
    if (s->known[i] != BISECT_UNKNOWN) return STATUS_OK;
    s->tests++;
    return s->test(s->ctx, i, &s->known[i], err);
}

/* The first build from `at` on, in steps of `by`, that can be tested; n or -1 when there is none. */
static enum status testable_from(struct search *s, int n, int at, int by, int *out, struct err *err) {
    for (*out = at; *out >= 0 && *out < n; *out += by) {
        RETURN_IF_ERROR(ask(s, *out, err));
        if (s->known[*out] != BISECT_UNTESTABLE) return STATUS_OK;
    }
    return STATUS_OK;
}

/* A build strictly between lo and hi that can be tested, nearest to the middle first; -1 when there is none. */
static enum status testable_between(struct search *s, int lo, int hi, int *out, struct err *err) {
    int middle = lo + (hi - lo) / 2;
    for (int off = 0; off < hi - lo; off++)
        for (int side = -1; side <= 1; side += 2) {
            int i = middle + side * off;
            if (i <= lo || i >= hi || (off == 0 && side > 0)) continue;
            RETURN_IF_ERROR(ask(s, i, err));
            *out = i;
            if (s->known[i] != BISECT_UNTESTABLE) return STATUS_OK;
        }
    *out = -1;
    return STATUS_OK;
}

static enum status halve(struct search *s, struct bisect_result *out, struct err *err) {
    int lo = out->last_good, hi = out->first_bad, at = -1;
    while (hi - lo > 1) {
        RETURN_IF_ERROR(testable_between(s, lo, hi, &at, err));
        if (at < 0) break;
        if (s->known[at] == BISECT_GOOD)
            lo = at;
        else
            hi = at;
    }
    out->last_good = lo;
    out->first_bad = hi;
    out->end = hi - lo == 1 ? BISECT_FOUND : BISECT_AMONG;
    return STATUS_OK;
}

static enum status search_from_ends(struct search *s, int n, struct bisect_result *out, struct err *err) {
    int first = 0, last = 0;
    RETURN_IF_ERROR(testable_from(s, n, 0, 1, &first, err));
    if (first == n) {
        out->end = BISECT_NONE_TESTED;
        return STATUS_OK;
    }
    if (s->known[first] == BISECT_BAD) {
        out->end = BISECT_ALL_BAD;
        out->first_bad = first;
        return STATUS_OK;
    }
    out->last_good = first;
    RETURN_IF_ERROR(testable_from(s, n, n - 1, -1, &last, err));
    if (s->known[last] == BISECT_GOOD) {
        out->end = BISECT_NONE_BAD;
        out->last_good = last;
        return STATUS_OK;
    }
    out->first_bad = last;
    return halve(s, out, err);
}

enum status bisect_search(int n, bisect_test *test, void *ctx, struct bisect_result *out, struct err *err) {
    struct search s = {calloc((size_t)n, sizeof *s.known), test, ctx, 0};
    memset(out, 0, sizeof *out);
    out->first_bad = out->last_good = -1;
    if (s.known == NULL) return err_set(err, STATUS_NOMEM, "bisect: out of memory");
    enum status st = search_from_ends(&s, n, out, err);
    out->tests = s.tests;
    free(s.known);
    return st;
}

/* ---- over binaries ----------------------------------------------------------------------------------------------- */

static enum status test_binary(void *ctx, int i, enum bisect_outcome *out, struct err *err) {
    const struct bisect_request *r = ctx;
    struct bisect_item *item = &r->items[i];
    if (item->outcome == BISECT_UNKNOWN) {
        RETURN_IF_ERROR(bisect_judge(r, item, err));
        if (r->state != NULL) RETURN_IF_ERROR(bisect_state_save(r, err));
    }
    if (r->tested != NULL) r->tested(r->tested_ctx, i, item);
    *out = item->outcome;
    return STATUS_OK;
}

enum status bisect_run(const struct bisect_request *r, struct bisect_result *out, struct err *err) {
    if (!r->stream_only && (dump_flags(r->golden) & DUMP_NO_HASH) != 0)
        return err_set(
            err, STATUS_USAGE,
            "bisect: the golden has no hashes of its rows of logits: only tokens can be compared (--stream)");
    struct bisect_request copy = *r; /* the test function takes a plain pointer */
    struct err
        unread; /* a build that is not there, or cannot be read, is judged like any other: it will not start */
    for (int i = 0; i < r->n; i++)
        if (file_hash(r->items[i].binary, &r->items[i].hash, &unread) != STATUS_OK)
            memset(&r->items[i].hash, 0, sizeof r->items[i].hash);
    if (r->state != NULL) RETURN_IF_ERROR(bisect_state_load(r, err));
    return bisect_search(r->n, test_binary, &copy, out, err);
}
