/* import_token.c - see import_token.h. */
#include "gates/import_token.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/table.h"

#define ID_MAX (1 << 24) /* the largest vocabulary a dump may have */
#define SHOWN  48        /* bytes of a token that a message quotes */

static const char *shown(const struct import_candidate *c, char out[SHOWN]) {
    (void)table_escape(c->text, c->n, 0, 0, out, SHOWN);
    return out;
}

int import_same_text(const struct import_candidate *a, const struct import_candidate *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0);
}

/* A text that cannot be the token's bytes: a character was cut, and the server said U+FFFD or nothing instead; or the token is
 * a special one, whose text is not shown. */
static int is_lossy(const struct import_candidate *c) {
    if (c->n == 0 || c->exact) return c->n == 0;
    for (size_t i = 0; i + 3 <= c->n; i++)
        if (memcmp(c->text + i, "\xef\xbf\xbd", 3) == 0) return 1;
    return 0;
}

/* ---- ids ---------------------------------------------------------------------------------------------------------- */

/* One id, one text: two tokenizers in one stream are noticed. Only exact bytes say so. */
static enum status check_seen(struct import_sink *s, const struct import_token *t,
                              const struct import_candidate *c, struct err *err) {
    if (!c->exact || c->n == 0 || c->id < 0) return STATUS_OK;
    if ((size_t)c->id >= s->n_seen) {
        size_t room = s->n_seen == 0 ? 4096 : s->n_seen;
        while (room <= (size_t)c->id) room *= 2;
        uint32_t *grown = realloc(s->seen, room * sizeof *grown);
        if (grown == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", s->source->name);
        memset(grown + s->n_seen, 0, (room - s->n_seen) * sizeof *grown);
        s->seen = grown;
        s->n_seen = room;
    }
    struct hash128 h = hash_bytes(c->text, c->n);
    uint32_t mark = 0;
    memcpy(&mark, h.bytes, sizeof mark);
    mark |= 1u;
    char text[SHOWN];
    if (s->seen[c->id] != 0 && s->seen[c->id] != mark)
        return feed_refuse(s->source, t->place, err,
                           "token %" PRIu64
                           ": id %d is '%s' here and was another text before: mixed tokenizers",
                           s->count, (int)c->id, shown(c, text));
    s->seen[c->id] = mark;
    return STATUS_OK;
}

static int ends_with(const uint8_t *text, size_t n, const uint8_t *end, size_t n_end) {
    return n >= n_end && (n_end == 0 || memcmp(text + (n - n_end), end, n_end) == 0);
}

/* Can `own`, the tokenizer's bytes of the id, be what the server calls c? Exact bytes of a candidate are the token's; the
 * chosen token's may begin with those of a character begun before, and a text may lack its first blank. */
static int is_text_of(const struct import_candidate *c, const uint8_t *own, size_t n, int chosen) {
    if (c->n == 0 || is_lossy(c)) return 1;
    if (c->exact && !chosen) return c->n == n && memcmp(own, c->text, n) == 0;
    return ends_with(c->text, c->n, own, n) || (!c->exact && ends_with(own, n, c->text, c->n));
}

/* With a tokenizer: a told id must be in it and have these bytes; an untold one is looked up. */
static enum status resolve(struct import_sink *s, const struct import_token *t, struct import_candidate *c,
                           int chosen, struct err *err) {
    char text[SHOWN];
    int shared = 0;
    if (c->id >= ID_MAX || (s->ids != NULL && c->id >= import_ids_size(s->ids)))
        return feed_refuse(s->source, t->place, err,
                           "token %" PRIu64 ": id %d is outside the vocabulary of %s", s->count, (int)c->id,
                           s->ids != NULL ? s->options->tokenizer : "any model");
    if (s->ids == NULL) return STATUS_OK;
    if (c->id >= 0) {
        size_t n = 0;
        const uint8_t *own = import_ids_bytes(s->ids, c->id, &n);
        if (import_ids_special(s->ids, c->id) || is_text_of(c, own, n, chosen)) return STATUS_OK;
        return feed_refuse(s->source, t->place, err,
                           "token %" PRIu64 ": id %d is '%s' here and another text in %s: mixed tokenizers",
                           s->count, (int)c->id, shown(c, text), s->options->tokenizer);
    }
    if (is_lossy(c)) return STATUS_OK;
    c->id = import_ids_find(s->ids, c->text, c->n, &shared);
    s->ambiguous += shared > 1;
    c->shared = shared > 1;
    if (shared > 0) return STATUS_OK;
    return feed_refuse(s->source, t->place, err,
                       "token %" PRIu64 ": '%s' is no token of %s: mixed tokenizers", s->count,
                       shown(c, text), s->options->tokenizer);
}

/* The candidate that is the chosen token tells its own bytes; the chosen token may carry those of a character begun before. */
static int same_token(const struct import_candidate *a, const struct import_candidate *b) {
    if (a->id >= 0 && b->id >= 0) return a->id == b->id;
    return import_same_text(a, b);
}

/* What one token says of itself twice. */
static enum status check_token(const struct import_sink *s, const struct import_token *t, struct err *err) {
    const struct import_candidate *c = &t->chosen, *x = &t->best[0], *y = &t->best[1];
    char one[SHOWN], two[SHOWN];
    if (t->n_best == 2 && x->id >= 0 && x->id == y->id && !x->shared && !y->shared)
        return feed_refuse(s->source, t->place, err,
                           "token %" PRIu64 ": id %d is its first and its second choice", s->count,
                           (int)x->id);
    for (int k = 0; k < t->n_best; k++) {
        const struct import_candidate *b = &t->best[k];
        if (c->id < 0 || c->id != b->id || c->shared) continue;
        if (c->exact && b->exact && c->n > 0 && !ends_with(c->text, c->n, b->text, b->n))
            return feed_refuse(s->source, t->place, err,
                               "token %" PRIu64 ": id %d is '%s', and '%s' among the candidates", s->count,
                               (int)c->id, shown(c, one), shown(b, two));
        if (fabs(c->logprob - b->logprob) > IMPORT_LOGPROB_OVER)
            return feed_refuse(s->source, t->place, err,
                               "token %" PRIu64 ": its logprob is %.9g, and %.9g among the candidates",
                               s->count, c->logprob, b->logprob);
    }
    return STATUS_OK;
}

static enum status resolve_all(struct import_sink *s, struct import_token *t, struct err *err) {
    for (int k = 0; k < t->n_best; k++) {
        RETURN_IF_ERROR(resolve(s, t, &t->best[k], 0, err));
        RETURN_IF_ERROR(check_seen(s, t, &t->best[k], err));
        if (t->chosen.id < 0 && same_token(&t->chosen, &t->best[k])) t->chosen.id = t->best[k].id;
    }
    RETURN_IF_ERROR(resolve(s, t, &t->chosen, 1, err));
    RETURN_IF_ERROR(check_token(s, t, err));
    /* An id is worth nothing to a comparison when the candidates have none: better bytes, with the gap. */
    if (s->ids == NULL && t->n_best == 2 && (t->best[0].id < 0 || t->best[1].id < 0)) t->chosen.id = -1;
    return STATUS_OK;
}

/* ---- records ------------------------------------------------------------------------------------------------------ */

static enum status check_logprob(const struct import_sink *s, const struct import_token *t, double logprob,
                                 struct err *err) {
    if (logprob <= IMPORT_LOGPROB_OVER && isfinite((float)logprob)) return STATUS_OK;
    return feed_refuse(s->source, t->place, err, "token %" PRIu64 ": %.9g is no logprob", s->count, logprob);
}

/* A record whose candidates have no id is comparable by bytes only, unless the token itself has one. */
static enum status make_record(struct import_sink *s, const struct import_token *t, struct err *err) {
    struct dump_record *r = &s->held;
    memset(r, 0, sizeof *r);
    r->flags = DUMP_NO_LSE | DUMP_NO_HASH | DUMP_LOGPROBS;
    r->token = t->chosen.id;
    r->id1 = r->id2 = -1;
    if (t->chosen.id < 0) r->flags |= DUMP_NO_ID;
    RETURN_IF_ERROR(check_logprob(s, t, t->chosen.logprob, err));
    if (t->n_best < 2 && !s->options->partial)
        return feed_refuse(s->source, t->place, err,
                           "token %" PRIu64
                           ": top-2 is missing (ask the server for at least 2 logprobs, or import "
                           "with --partial)",
                           s->count);
    for (int k = 0; k < 2; k++) {
        const struct import_candidate *c = &t->best[k];
        uint32_t absent = k == 0 ? DUMP_NO_TOP1 : DUMP_NO_TOP2;
        int useless = k >= t->n_best || (c->id < 0 && t->chosen.id >= 0);
        if (useless) r->flags |= absent;
        if (useless) continue;
        RETURN_IF_ERROR(check_logprob(s, t, c->logprob, err));
        *(k == 0 ? &r->id1 : &r->id2) = c->id;
        *(k == 0 ? &r->logit1 : &r->logit2) = (float)c->logprob;
    }
    s->without_top2 += (r->flags & DUMP_NO_TOP2) != 0;
    return STATUS_OK;
}

static enum status hold_text(struct import_sink *s, const struct import_token *t, struct err *err) {
    const uint8_t *text = t->chosen.text;
    s->n_text = t->chosen.n;
    if (s->ids != NULL && t->chosen.id >= 0) text = import_ids_bytes(s->ids, t->chosen.id, &s->n_text);
    if (s->n_text >= s->room_text) {
        free(s->text);
        s->room_text = s->n_text * 2 + 64;
        s->text = malloc(s->room_text);
        if (s->text == NULL) {
            s->room_text = 0;
            return err_set(err, STATUS_NOMEM, "%s: out of memory", s->source->name);
        }
    }
    if (s->n_text > 0) memcpy(s->text, text, s->n_text);
    return STATUS_OK;
}

static enum status write_held(struct import_sink *s, struct err *err) {
    if (s->count == 0) return STATUS_OK;
    return dump_writer_add(s->w, &s->held, s->text, (uint32_t)s->n_text, NULL, NULL, err);
}

enum status import_sink_add(struct import_sink *s, struct import_token *t, struct err *err) {
    RETURN_IF_ERROR(write_held(s, err));
    import_blanks_add(&s->blanks, t->chosen.text, t->chosen.n);
    RETURN_IF_ERROR(resolve_all(s, t, err));
    RETURN_IF_ERROR(make_record(s, t, err));
    RETURN_IF_ERROR(hold_text(s, t, err));
    s->lossy += t->chosen.id < 0 && is_lossy(&t->chosen);
    s->with_id += t->chosen.id >= 0;
    s->count++;
    return STATUS_OK;
}

enum status import_sink_end(struct import_sink *s, int ended, struct err *err) {
    if (s->ids != NULL && s->count > 0 && s->held.token >= 0) ended |= import_ids_end(s->ids, s->held.token);
    if (ended && s->count > 0) s->held.flags |= DUMP_END;
    return write_held(s, err);
}

void import_sink_free(struct import_sink *s) {
    free(s->seen);
    free(s->text);
    s->seen = NULL;
    s->text = NULL;
    s->n_seen = s->room_text = 0;
}
