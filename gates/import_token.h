/* import_token.h - one token as a server tells it, and the sink that makes records of them.
 * Not a reader of JSON: import_answer.c does that.
 * Idea: whatever the server's dialect, a token is a text, perhaps an id, a logprob and its best two candidates.
 * Source: ours. Exercise: ctest -R unit.import_json */
#ifndef FORKGATE_IMPORT_TOKEN_H
#define FORKGATE_IMPORT_TOKEN_H

#include "gates/dump.h"
#include "gates/feed.h"
#include "gates/import_blanks.h"
#include "gates/import_ids.h"
#include "gates/import_json.h"

/* A logprob above 0 by more than rounding is no logprob, and two that differ by more are two. */
#define IMPORT_LOGPROB_OVER 1e-3

struct import_candidate {
    const uint8_t *text;
    size_t n;
    int exact;  /* the bytes were given as numbers; a text may hold U+FFFD where bytes were lost */
    int shared; /* more than one token of the tokenizer has this text: the id is a guess */
    int32_t id; /* -1: not told */
    double logprob;
};

int import_same_text(const struct import_candidate *a, const struct import_candidate *b);

struct import_token {
    struct feed_place place;
    struct import_candidate chosen, best[2];
    int n_best;
};

struct import_sink {
    const struct feed_source *source;
    const struct import_json_options *options;
    import_ids *ids; /* NULL: no tokenizer */
    dump_writer *w;
    uint64_t count, with_id, lossy, ambiguous, without_top2;
    struct import_blanks blanks; /* of the tokens' texts, as the server says them */
    uint32_t *seen;              /* [n_seen] a mark of the bytes an id had so far, 0: not met */
    size_t n_seen;
    struct dump_record held; /* the last token: whether it ends the stream is known only at the end */
    uint8_t *text;           /* [n_text] of it */
    size_t n_text, room_text;
};

/* Takes one token. STATUS_FORMAT where it stands: no top-2, a text the tokenizer does not have, an id whose bytes are others
 * than before or than the tokenizer's, two candidates that are one token, a chosen token that is another one or has another
 * logprob among its candidates, a logprob above 0. */
enum status import_sink_add(struct import_sink *s, struct import_token *t, struct err *err);

/* Writes the last token; ended: the server says that it is the end token (a tokenizer knows by itself). */
enum status import_sink_end(struct import_sink *s, int ended, struct err *err);
void import_sink_free(struct import_sink *s); /* not the writer, not the ids */

#endif
