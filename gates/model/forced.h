/* forced.h - a session driven along a known stream by hand, each row of logits checked against that stream's record.
 * Not generate_score: here the gate decides every step (slots, rewinds, poison), and nothing is dumped.
 * Source: ours. Exercise: forkgate run --only stream.batch.f16 */
#ifndef FORKGATE_FORCED_H
#define FORKGATE_FORCED_H

#include "gates/model/streams.h"

struct forced {
    engine *engine;
    session *session;
    const dump *follow;
    const struct stream_prompt *prompt;
    int32_t *ids; /* [n_ids] of the prompt */
    size_t n_ids;
    int n_vocab;
    uint64_t at; /* record whose row the session's logits must be */
    uint64_t rows, wrong;
    char first[160]; /* the first wrong row, in words */
};

/* Creates a session (nothing computed yet). follow and prompt are borrowed. */
enum status forced_open(engine *e, const struct stream_prompt *p, const dump *follow, struct forced *out,
                        struct err *err);
void forced_close(struct forced *f);

/* Prefills the prompt from the session's position 0 and checks row 0. */
enum status forced_prefill(struct forced *f, const char *how, struct err *err);
/* Checks the session's logits against record `at`; how is quoted when they differ. */
void forced_check(struct forced *f, const char *how);
/* 1 while another token can be forced. */
int forced_more(const struct forced *f);
/* The token to feed next; the caller feeds it and then calls forced_fed. */
int32_t forced_token(const struct forced *f);
void forced_fed(struct forced *f, const char *how);
/* forced_token, one decode step alone, forced_fed. */
enum status forced_step(struct forced *f, const char *how, struct err *err);
/* Back to the state after token `at`: rewinds the session; the row of `at` is not available until the next step. */
enum status forced_rewind(struct forced *f, uint64_t at, struct err *err);

/* One evidence row: how many rows were wrong. A stream without a checked row counts as one wrong row. */
void forced_row(const struct stream_arm *a, const char *arm, const struct forced *f);

#endif
