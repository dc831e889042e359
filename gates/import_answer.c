/* import_answer.c - see import_answer.h. */
#include "gates/import_answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct import_sink *sink;
    const struct feed_cursor *host;
    const struct feed_slot *slots[FEED_ARRAYS]; /* NULL: not there */
    struct feed_walk walks[FEED_ARRAYS];
    struct feed_text bytes[3]; /* of the chosen token and its two candidates, when given as numbers */
    struct err *err;
};

/* ---- one candidate ------------------------------------------------------------------------------------------------ */

static enum status refuse(const struct reader *r, struct feed_place at, const char *what) {
    return feed_refuse(r->sink->source, at, r->err, "token %" PRIu64 ": %s", r->sink->count, what);
}

static enum status read_logprob(const struct reader *r, struct feed_place at, const json_t *v, double *out) {
    if (json_is_null(v))
        return refuse(r, at, "logprob is null (an echoed prompt has none: ask without echo)");
    if (!json_is_number(v)) return refuse(r, at, "logprob is missing or no number");
    *out = json_number_value(v);
    return STATUS_OK;
}

/* "token_id:123" is how vLLM names tokens on request. */
static void read_text(const char *text, size_t n, struct import_candidate *c) {
    static const char prefix[] = "token_id:";
    const size_t before = sizeof prefix - 1;
    c->text = (const uint8_t *)text;
    c->n = n;
    if (n <= before || n > before + 9 || memcmp(text, prefix, before) != 0) return;
    int32_t id = 0;
    for (size_t i = before; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return;
        id = id * 10 + (text[i] - '0');
    }
    c->id = id;
    c->n = 0;
}

static enum status read_bytes(const struct reader *r, struct feed_place at, const json_t *list,
                              struct feed_text *to, struct import_candidate *c) {
    size_t n = json_array_size(list);
    if (n > to->room) {
        free(to->bytes);
        to->bytes = malloc(n);
        to->room = to->bytes == NULL ? 0 : n;
        if (to->bytes == NULL)
            return err_set(r->err, STATUS_NOMEM, "%s: out of memory", r->sink->source->name);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t byte = json_integer_value(v);
        if (!json_is_integer(v) || byte < 0 || byte > 255)
            return refuse(r, at, "bytes: want numbers from 0 to 255");
        to->bytes[i] = (char)(uint8_t)byte;
    }
    c->text = (const uint8_t *)to->bytes;
    c->n = n;
    c->exact = 1;
    return STATUS_OK;
}

/* A text and the bytes behind it are one thing said twice. But a text may be cut before a character that is not whole
 * (llama.cpp), and stand for bytes that it cannot show: U+FFFD, or "bytes:\\xf0" (OpenAI). */
static int text_of_bytes(const char *text, size_t n, const struct import_candidate *c) {
    for (size_t i = 0; i + 3 <= n; i++)
        if (memcmp(text + i, "\xef\xbf\xbd", 3) == 0) return 1;
    if (n >= 6 && memcmp(text, "bytes:", 6) == 0) return 1;
    if (n > c->n || (n > 0 && memcmp(text, c->text, n) != 0)) return 0;
    return n == 0 || n == c->n || c->text[n] >= 0x80; /* what follows begins no ASCII character */
}

/* The bytes of a text in which U+FFFD stands for a part of a character: they are no more than the text. */
static int is_replaced(const json_t *text, const struct import_candidate *c) {
    const char *shown = json_string_value(text);
    return strstr(shown, "\xef\xbf\xbd") != NULL && c->n == json_string_length(text) &&
           memcmp(c->text, shown, c->n) == 0;
}

/* {token, bytes?, id?, logprob} */
static enum status read_candidate(const struct reader *r, struct feed_place at, const json_t *v,
                                  struct feed_text *to, struct import_candidate *c) {
    const json_t *text = json_object_get(v, "token"), *bytes = json_object_get(v, "bytes");
    const json_t *id = json_object_get(v, "id");
    memset(c, 0, sizeof *c);
    c->id = -1;
    if (json_object_get(v, "prob") != NULL || json_object_get(v, "probs") != NULL)
        return refuse(r, at,
                      "probabilities behind the sampler are no logprobs of the model: ask without "
                      "post_sampling_probs");
    if (!json_is_string(text)) return refuse(r, at, "token: want a text");
    read_text(json_string_value(text), json_string_length(text), c);
    int named = c->id >= 0;
    if (id != NULL &&
        (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX))
        return refuse(r, at, "id: want a whole number");
    if (named && id != NULL && c->id != (int32_t)json_integer_value(id))
        return refuse(r, at, "id and token name two tokens");
    if (id != NULL) c->id = (int32_t)json_integer_value(id);
    if (json_is_array(bytes)) {
        RETURN_IF_ERROR(read_bytes(r, at, bytes, to, c));
        int fits = text_of_bytes(json_string_value(text), json_string_length(text), c);
        if (named && fits) /* vLLM: the bytes of the name, not of the token */
            c->n = 0, c->exact = 0;
        else if (is_replaced(text, c)) /* TensorRT-LLM, SGLang: the bytes of the text, not of the token */
            c->exact = 0;
        else if (!named && !fits)
            return refuse(r, at, "token and bytes are of two tokens");
    }
    return read_logprob(r, at, json_object_get(v, "logprob"), &c->logprob);
}

/* ---- the best two ------------------------------------------------------------------------------------------------- */

struct pick {
    size_t at[2];
    double logprob[2];
    int n;
};

/* vLLM and TensorRT-LLM write this where they have no logprob, or minus infinity. */
static int is_unknown(double logprob) {
    return logprob <= -9999.0 && logprob >= -9999.0;
}

/* Keeps the two largest; of equals the one listed first. */
static void offer(struct pick *p, size_t at, double logprob) {
    int k = p->n;
    if (is_unknown(logprob)) return;
    while (k > 0 && logprob > p->logprob[k - 1]) k--;
    if (k == 2) return;
    if (k == 0) {
        p->at[1] = p->at[0];
        p->logprob[1] = p->logprob[0];
    }
    p->at[k] = at;
    p->logprob[k] = logprob;
    if (p->n < 2) p->n++;
}

/* The chosen token is a candidate too, when the server's list stops before it, or when the list is a map of texts in which
 * another token of the same text took its place: half a character, or a blank that the server's decoder drops. */
static void offer_chosen(struct import_token *t) {
    if (is_unknown(t->chosen.logprob)) return;
    for (int k = 0; k < t->n_best; k++) {
        const struct import_candidate *b = &t->best[k];
        double apart = fabs(b->logprob - t->chosen.logprob);
        int ids = b->id >= 0 && t->chosen.id >= 0;
        if (ids ? b->id == t->chosen.id : apart <= IMPORT_LOGPROB_OVER && import_same_text(b, &t->chosen))
            return;
        if (apart <= 0.0) return; /* the same, written otherwise */
    }
    if (t->n_best == 2 && !(t->chosen.logprob > t->best[1].logprob)) return;
    int at = t->n_best > 0 && t->chosen.logprob > t->best[0].logprob ? 0 : t->n_best == 0 ? 0 : 1;
    if (at == 0) t->best[1] = t->best[0];
    t->best[at] = t->chosen;
    if (t->n_best < 2) t->n_best++;
}

/* top_logprobs as a list of candidates. */
static enum status pick_list(struct reader *r, struct feed_place at, const json_t *list,
                             struct import_token *t) {
    struct pick p;
    memset(&p, 0, sizeof p);
    for (size_t i = 0; i < json_array_size(list); i++) {
        double logprob = 0;
        RETURN_IF_ERROR(read_logprob(r, at, json_object_get(json_array_get(list, i), "logprob"), &logprob));
        offer(&p, i, logprob);
    }
    for (int k = 0; k < p.n; k++)
        RETURN_IF_ERROR(read_candidate(r, at, json_array_get(list, p.at[k]), &r->bytes[1 + k], &t->best[k]));
    t->n_best = p.n;
    return STATUS_OK;
}

/* top_logprobs as {text: logprob}. */
static enum status pick_map(struct reader *r, struct feed_place at, json_t *map, struct import_token *t) {
    struct pick p;
    memset(&p, 0, sizeof p);
    const char *key = NULL, *keys[2] = {NULL, NULL};
    json_t *value = NULL;
    json_object_foreach(map, key, value) {
        double logprob = 0;
        RETURN_IF_ERROR(read_logprob(r, at, value, &logprob));
        struct pick before = p;
        if (is_unknown(logprob)) continue;
        offer(&p, 0, logprob);
        int first = before.n == 0 || logprob > before.logprob[0],
            second = before.n < 2 || logprob > before.logprob[1];
        if (first) keys[1] = keys[0];
        if (first || second) keys[first ? 0 : 1] = key;
    }
    for (int k = 0; k < p.n; k++) {
        memset(&t->best[k], 0, sizeof t->best[k]);
        t->best[k].id = -1;
        t->best[k].logprob = p.logprob[k];
        read_text(keys[k], strlen(keys[k]), &t->best[k]);
    }
    t->n_best = p.n;
    return STATUS_OK;
}

static enum status pick_any(struct reader *r, struct feed_place at, json_t *top, struct import_token *t) {
    t->n_best = 0;
    if (json_is_array(top))
        RETURN_IF_ERROR(pick_list(r, at, top, t));
    else if (json_is_object(top))
        RETURN_IF_ERROR(pick_map(r, at, top, t));
    else if (top != NULL && !json_is_null(top))
        return refuse(r, at, "top_logprobs: want a list or an object");
    offer_chosen(t);
    return STATUS_OK;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------- */

/* The next id of choices[].token_ids, where there is such a list. */
static enum status next_id(struct reader *r, int32_t *id) {
    json_t *v = NULL;
    if (r->slots[FEED_TOKEN_IDS] == NULL) return STATUS_OK;
    struct feed_walk *w = &r->walks[FEED_TOKEN_IDS];
    RETURN_IF_ERROR(feed_walk_next(w, &v, r->err));
    json_int_t n = json_integer_value(v);
    int good = json_is_integer(v) && n >= 0 && n <= INT32_MAX;
    json_decref(v);
    if (!good) return refuse(r, w->place, "token_ids is shorter than the tokens, or holds no whole number");
    if (*id >= 0 && *id != (int32_t)n)
        return refuse(r, w->place, "token_ids and the token are of two tokens");
    *id = (int32_t)n;
    return STATUS_OK;
}

static enum status add_entry(struct reader *r, struct feed_place at, json_t *entry) {
    struct import_token t;
    memset(&t, 0, sizeof t);
    t.place = at;
    RETURN_IF_ERROR(read_candidate(r, at, entry, &r->bytes[0], &t.chosen));
    if (json_object_get(entry, "top_probs") != NULL) return refuse(r, at, "top_probs are no logprobs");
    RETURN_IF_ERROR(next_id(r, &t.chosen.id));
    RETURN_IF_ERROR(pick_any(r, at, json_object_get(entry, "top_logprobs"), &t));
    return import_sink_add(r->sink, &t, r->err);
}

static enum status read_entries(struct reader *r, enum feed_array array) {
    for (;;) {
        json_t *entry = NULL;
        RETURN_IF_ERROR(feed_walk_next(&r->walks[array], &entry, r->err));
        if (entry == NULL) return STATUS_OK;
        enum status s = json_is_object(entry) ? add_entry(r, r->walks[array].place, entry)
                                              : refuse(r, r->walks[array].place, "want an object");
        json_decref(entry);
        RETURN_IF_ERROR(s);
    }
}

static enum status add_parallel(struct reader *r, json_t *text, json_t *logprob, json_t *top) {
    struct feed_place at = r->walks[FEED_TOKENS].place;
    struct import_token t;
    memset(&t, 0, sizeof t);
    t.place = at;
    t.chosen.id = -1;
    if (!json_is_string(text)) return refuse(r, at, "tokens: want texts");
    read_text(json_string_value(text), json_string_length(text), &t.chosen);
    RETURN_IF_ERROR(read_logprob(r, r->walks[FEED_TOKEN_LOGPROBS].place, logprob, &t.chosen.logprob));
    RETURN_IF_ERROR(next_id(r, &t.chosen.id));
    if (r->slots[FEED_TOP_LOGPROBS] != NULL) t.place = r->walks[FEED_TOP_LOGPROBS].place;
    RETURN_IF_ERROR(pick_any(r, t.place, top, &t));
    return import_sink_add(r->sink, &t, r->err);
}

static enum status read_parallel(struct reader *r) {
    if (r->slots[FEED_TOKEN_LOGPROBS] == NULL)
        return refuse(r, r->slots[FEED_TOKENS]->from, "tokens without token_logprobs");
    for (;;) {
        json_t *text = NULL, *logprob = NULL, *top = NULL;
        enum status s = feed_walk_next(&r->walks[FEED_TOKENS], &text, r->err);
        if (s == STATUS_OK) s = feed_walk_next(&r->walks[FEED_TOKEN_LOGPROBS], &logprob, r->err);
        if (s == STATUS_OK && r->slots[FEED_TOP_LOGPROBS] != NULL)
            s = feed_walk_next(&r->walks[FEED_TOP_LOGPROBS], &top, r->err);
        int over = text == NULL;
        if (s == STATUS_OK && over != (logprob == NULL))
            s = refuse(r, r->walks[FEED_TOKENS].place, "tokens and token_logprobs are of different lengths");
        if (s == STATUS_OK && !over) s = add_parallel(r, text, logprob, top);
        json_decref(text);
        json_decref(logprob);
        json_decref(top);
        if (over || s != STATUS_OK) return s;
    }
}

/* What is left of an array: its elements must be JSON too. A list of ids with more ids than tokens is noticed here. */
static enum status drain(struct reader *r, enum feed_array array) {
    for (;;) {
        json_t *v = NULL;
        RETURN_IF_ERROR(feed_walk_next(&r->walks[array], &v, r->err));
        if (v == NULL) return STATUS_OK;
        json_decref(v);
        if (array == FEED_TOKEN_IDS || array == FEED_TOP_LOGPROBS)
            return refuse(r, r->walks[array].place, "this list is longer than the tokens");
    }
}

static enum status read_all(struct reader *r) {
    for (int a = 0; a < FEED_ARRAYS; a++)
        if (r->slots[a] != NULL) feed_walk_open(&r->walks[a], r->host, r->slots[a]);
    if (r->slots[FEED_COMPLETION_PROBABILITIES] != NULL)
        RETURN_IF_ERROR(read_entries(r, FEED_COMPLETION_PROBABILITIES));
    if (r->slots[FEED_CONTENT] != NULL) RETURN_IF_ERROR(read_entries(r, FEED_CONTENT));
    if (r->slots[FEED_TOKENS] != NULL) RETURN_IF_ERROR(read_parallel(r));
    for (int a = 0; a < FEED_ARRAYS; a++)
        if (r->slots[a] != NULL) RETURN_IF_ERROR(drain(r, (enum feed_array)a));
    return STATUS_OK;
}

static enum status walk_other(const struct feed_cursor *host, const struct feed_slot *slot, struct err *err) {
    struct feed_walk w;
    json_t *v = NULL;
    enum status s = STATUS_OK;
    feed_walk_open(&w, host, slot);
    do {
        json_decref(v);
        s = feed_walk_next(&w, &v, err);
    } while (s == STATUS_OK && v != NULL);
    feed_walk_close(&w);
    return s;
}

enum status import_answer(struct import_sink *sink, const struct feed_cursor *host, const struct feed_doc *d,
                          int choice, struct err *err) {
    struct reader r;
    enum status s = STATUS_OK;
    memset(&r, 0, sizeof r);
    r.sink = sink;
    r.host = host;
    r.err = err;
    for (int i = 0; i < d->n_slots && s == STATUS_OK; i++) {
        if (d->slots[i].choice == choice)
            r.slots[d->slots[i].array] = &d->slots[i];
        else
            s = walk_other(host, &d->slots[i], err);
    }
    if (s == STATUS_OK) s = read_all(&r);
    for (int a = 0; a < FEED_ARRAYS; a++) feed_walk_close(&r.walks[a]);
    for (int k = 0; k < 3; k++) free(r.bytes[k].bytes);
    return s;
}

int import_answer_has(const struct feed_doc *d, int choice) {
    for (int i = 0; i < d->n_slots; i++) {
        enum feed_array a = d->slots[i].array;
        if (d->slots[i].choice != choice) continue;
        if (a == FEED_COMPLETION_PROBABILITIES || a == FEED_CONTENT || a == FEED_TOKENS) return 1;
    }
    return 0;
}
