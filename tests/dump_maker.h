/* dump_maker.h - small dumps in memory for tests: a list of records with their text, and provenance as pairs.
 * Not for the product. Every failure of the writer fails the test.
 * Source: ours. */
#ifndef FORKGATE_TESTS_DUMP_MAKER_H
#define FORKGATE_TESTS_DUMP_MAKER_H

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "gates/dump.h"

struct made {
    dump_writer *w;
    struct provenance p;
};

/* pairs: key, value, key, value, .., NULL */
static inline struct made make_begin(const char *path, int n_logits, const char *const *pairs) {
    struct made m;
    struct err err = {""};
    provenance_init(&m.p);
    for (; pairs != NULL && *pairs != NULL; pairs += 2)
        cr_assert_eq(provenance_set(&m.p, pairs[0], pairs[1], &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_writer_open(path, &m.p, 0, n_logits, &m.w, &err), STATUS_OK, "%s", err.message);
    return m;
}

static inline void make_record(struct made *m, struct dump_record r, const void *text, uint32_t n,
                               const float *logits) {
    struct err err = {""};
    cr_assert_eq(dump_writer_add(m->w, &r, text, n, NULL, logits, &err), STATUS_OK, "%s", err.message);
}

static inline dump *make_end(struct made *m) {
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(dump_writer_finish(m->w, &m->p, &d, &err), STATUS_OK, "%s", err.message);
    provenance_free(&m->p);
    return d;
}

/* A greedy record: the token is the raw top-1. The row hash is made from the numbers, so equal numbers hash equally. */
static inline struct dump_record greedy(int32_t token, float logit1, int32_t id2, float logit2) {
    struct dump_record r;
    memset(&r, 0, sizeof r);
    r.token = token;
    r.id1 = token;
    r.logit1 = logit1;
    r.id2 = id2;
    r.logit2 = logit2;
    r.logsumexp = (double)logit1 + 0.5;
    struct {
        float a, b;
        int32_t c, d;
    } row = {logit1, logit2, token, id2};
    r.row = hash_bytes(&row, sizeof row);
    return r;
}

/* n plain records that are the same in every dump: token 100 + i, gap 5. */
static inline void make_plain(struct made *m, int n) {
    for (int i = 0; i < n; i++) {
        char text[8];
        int length = snprintf(text, sizeof text, " w%d", i);
        make_record(m, greedy(100 + i, 20.0f, 50, 15.0f), text, (uint32_t)length, NULL);
    }
}

#endif
