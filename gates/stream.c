/* stream.c - see stream.h. */
#include "gates/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct stream {
    engine *engine;
    session *session;
    dump_writer *writer;
    struct provenance provenance;
    struct sampler_config sampler;
    const dump *follow;
    int ignore_eos, n_vocab, n_top_k, full_logits;
    int budget, count;
    int32_t token;        /* last token emitted */
    const char *stop;     /* NULL while running */
    uint8_t *seen;        /* [n_vocab] */
    float *scratch;       /* [n_vocab] */
    struct dump_top *top; /* [n_top_k] */
};

session *stream_session(struct stream *st) {
    return st->session;
}
int32_t stream_last_token(const struct stream *st) {
    return st->token;
}
int stream_ended(const struct stream *st) {
    return st->stop != NULL;
}

static int nothing_to_choose(const struct stream *st) {
    return st->follow != NULL;
}

/* ---- provenance ------------------------------------------------------------------------------------------------ */

static enum status describe_sampler(struct stream *st, struct err *err) {
    struct provenance *p = &st->provenance;
    const struct sampler_config *c = &st->sampler;
    if (c->temperature > 0.0f)
        RETURN_IF_ERROR(provenance_setf(p, err, "sampler", "temp=%.9g,seed=%llu", (double)c->temperature,
                                        (unsigned long long)c->seed));
    else
        RETURN_IF_ERROR(provenance_set(p, "sampler", "greedy", err));
    RETURN_IF_ERROR(provenance_setf(p, err, "repeat_penalty", "%.9g", (double)c->repeat_penalty));
    RETURN_IF_ERROR(provenance_set(p, "tie_rule", "lowest-id", err));
    return provenance_set(p, "ignore_eos", st->ignore_eos ? "1" : "0", err);
}

static enum status describe(struct stream *st, const struct generate_request *r, size_t n_prompt,
                            struct err *err) {
    struct provenance *p = &st->provenance;
    struct hash128 h = hash_bytes(r->prompt, r->prompt_bytes);
    char text[HASH_TEXT_BYTES];
    hash_format(&h, text);
    RETURN_IF_ERROR(generate_provenance(st->engine, p, err));
    RETURN_IF_ERROR(provenance_set(p, "prompt", r->prompt_name, err));
    RETURN_IF_ERROR(provenance_set(p, "prompt.xxh3", text, err));
    RETURN_IF_ERROR(provenance_setf(p, err, "prompt.tokens", "%zu", n_prompt));
    RETURN_IF_ERROR(describe_sampler(st, err));
    RETURN_IF_ERROR(provenance_setf(p, err, "n_requested", "%d", st->budget));
    if (st->follow == NULL) return STATUS_OK;
    struct dump_results results = dump_results(st->follow);
    hash_format(&results.stream, text);
    return provenance_set(p, "follow", text, err);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static enum status stream_buffers(struct stream *st, struct err *err) {
    size_t n = (size_t)st->n_vocab;
    st->seen = calloc(n, 1);
    st->scratch = malloc(n * sizeof *st->scratch);
    st->top = malloc(((size_t)st->n_top_k + 1) * sizeof *st->top);
    if (st->seen == NULL || st->scratch == NULL || st->top == NULL)
        return err_set(err, STATUS_NOMEM, "generate: out of memory");
    return STATUS_OK;
}

/* Forced ids index this model's tables, whatever model the followed dump is of. An invalid stream's last token is -1. */
static enum status check_forced(const struct stream *st, struct err *err) {
    for (int i = 0; st->follow != NULL && i < st->budget; i++) {
        int32_t token = dump_record_at(st->follow, (uint64_t)i)->token;
        if (token < (i + 1 < st->budget ? 0 : -1) || token >= st->n_vocab)
            return err_set(err, STATUS_USAGE,
                           "%s: record %d forces token %d, which this model's vocabulary of %d does not have",
                           dump_name(st->follow), i, (int)token, st->n_vocab);
    }
    return STATUS_OK;
}

static enum status stream_prepare(struct stream *st, const struct generate_request *r, int32_t **prompt,
                                  size_t *n_prompt, struct err *err) {
    struct engine_info info;
    engine_describe(st->engine, &info);
    st->n_vocab = info.n_vocab;
    RETURN_IF_ERROR(sampler_check(&st->sampler, err));
    if (r->n_top_k < 0 || r->n_top_k > 64)
        return err_set(err, STATUS_USAGE, "generate: top-k of %d (0 to 64)", r->n_top_k);
    if (r->follow != NULL && (uint64_t)st->budget > dump_count(r->follow))
        st->budget = (int)dump_count(r->follow);
    if (st->budget < 1) return err_set(err, STATUS_USAGE, "generate: a budget of %d tokens", st->budget);
    RETURN_IF_ERROR(check_forced(st, err));
    RETURN_IF_ERROR(engine_encode(st->engine, r->prompt, r->prompt_bytes, 1, prompt, n_prompt, err));
    RETURN_IF_ERROR(stream_buffers(st, err));
    for (size_t i = 0; i < *n_prompt; i++) st->seen[(*prompt)[i]] = 1;
    RETURN_IF_ERROR(session_create(st->engine, &st->session, err));
    RETURN_IF_ERROR(describe(st, r, *n_prompt, err));
    return dump_writer_open(r->out, &st->provenance, st->n_top_k, st->full_logits ? st->n_vocab : 0,
                            &st->writer, err);
}

static struct stream *stream_new(engine *e, const struct generate_request *r) {
    struct stream *st = calloc(1, sizeof *st);
    if (st == NULL) return NULL;
    st->engine = e;
    st->sampler = r->sampler;
    st->follow = r->follow;
    st->ignore_eos = r->ignore_eos;
    st->n_top_k = r->n_top_k;
    st->full_logits = r->full_logits;
    st->budget = r->n;
    st->token = -1;
    provenance_init(&st->provenance);
    return st;
}

enum status stream_open(engine *e, const struct generate_request *request, struct stream **out,
                        struct err *err) {
    int32_t *prompt = NULL;
    size_t n = 0;
    struct stream *st = stream_new(e, request);
    if (st == NULL) return err_set(err, STATUS_NOMEM, "generate: out of memory");
    enum status s = stream_prepare(st, request, &prompt, &n, err);
    if (s == STATUS_OK) s = session_prefill(st->session, prompt, n, err);
    free(prompt);
    if (s != STATUS_OK) {
        stream_abandon(st);
        return err_prefix(err, s, "prompt %s", request->prompt_name);
    }
    *out = st;
    return STATUS_OK;
}

static enum status forced_ids(const struct stream *st, const int32_t *prompt, size_t n_prompt, int32_t **ids,
                              size_t *n, struct err *err) {
    *ids = malloc((size_t)st->budget * sizeof **ids);
    if (*ids == NULL) return err_set(err, STATUS_NOMEM, "generate: out of memory");
    (*ids)[0] = prompt[n_prompt - 1];
    for (int i = 1; i < st->budget; i++) (*ids)[i] = dump_record_at(st->follow, (uint64_t)i - 1)->token;
    *n = (size_t)st->budget;
    if (n_prompt == 1) return STATUS_OK;
    return session_prefill(st->session, prompt, n_prompt - 1, err);
}

enum status stream_open_forced(engine *e, const struct generate_request *request, struct stream **out,
                               int32_t **ids, size_t *n, struct err *err) {
    int32_t *prompt = NULL;
    size_t n_prompt = 0;
    *ids = NULL;
    struct stream *st = stream_new(e, request);
    if (st == NULL) return err_set(err, STATUS_NOMEM, "generate: out of memory");
    enum status s = stream_prepare(st, request, &prompt, &n_prompt, err);
    if (s == STATUS_OK && n_prompt == 0)
        s = err_set(err, STATUS_USAGE, "no tokens (an empty prompt has nothing to continue)");
    if (s == STATUS_OK) s = forced_ids(st, prompt, n_prompt, ids, n, err);
    free(prompt);
    if (s != STATUS_OK) {
        free(*ids);
        *ids = NULL;
        stream_abandon(st);
        return err_prefix(err, s, "prompt %s", request->prompt_name);
    }
    *out = st;
    return STATUS_OK;
}

/* ---- one row --------------------------------------------------------------------------------------------------- */

/* The k largest logits in top2's order (larger first, equal: lower id first), by insertion: k is small. */
static void select_top_k(const float *logits, int n_vocab, struct dump_top *top, int k) {
    int held = 0;
    for (int32_t id = 0; id < n_vocab; id++) {
        float l = logits[id];
        if (held == k && !(l > top[k - 1].logit)) continue;
        int at = held < k ? held++ : k - 1;
        while (at > 0 && l > top[at - 1].logit) {
            top[at] = top[at - 1];
            at--;
        }
        top[at].id = id;
        top[at].logit = l;
    }
    for (; held < k; held++) {
        top[held].id = -1;
        top[held].logit = -INFINITY;
    }
}

static struct dump_record record_of(const struct stream *st, const float *logits, const struct top2 *top) {
    struct dump_record r;
    memset(&r, 0, sizeof r);
    r.token = st->token;
    r.id1 = top->id1;
    r.logit1 = top->first_bad >= 0 ? logits[top->first_bad] : top->logit1;
    r.id2 = top->id2;
    r.logit2 = top->logit2;
    if (top->id2 < 0) r.flags |= DUMP_NO_TOP2;
    r.row = hash_logits(logits, (size_t)st->n_vocab);
    if (top->first_bad >= 0)
        r.flags |= DUMP_NO_LSE;
    else
        r.logsumexp = sampler_logsumexp(logits, st->n_vocab, top->logit1);
    if (st->token >= 0 && engine_is_end(st->engine, st->token)) r.flags |= DUMP_END;
    return r;
}

/* Whether this was the last token, and why. */
static const char *stop_reason(const struct stream *st, const struct dump_record *r) {
    if (st->token < 0) return "invalid";
    if (st->count == st->budget) return "length";
    if (nothing_to_choose(st)) return NULL; /* a forced stream goes on to the end of what it follows */
    if ((r->flags & DUMP_END) != 0 && !st->ignore_eos) return "eos";
    return session_room(st->session) == 0 ? "context" : NULL;
}

enum status stream_take_row(struct stream *st, const float *logits, const struct top2 *top, struct err *err) {
    if (nothing_to_choose(st)) {
        st->token = dump_record_at(st->follow, (uint64_t)st->count)->token;
    } else {
        enum status s = sampler_next(&st->sampler, logits, st->n_vocab, top, st->seen, st->scratch,
                                     (uint64_t)st->count, &st->token, err);
        if (s != STATUS_OK && s != STATUS_INVALID)
            return s; /* an invalid row is recorded, then the stream ends */
    }
    struct dump_record r = record_of(st, logits, top);
    const uint8_t *text = NULL;
    size_t text_bytes = 0;
    if (st->token >= 0) {
        engine_token_bytes(st->engine, st->token, &text, &text_bytes);
        st->seen[st->token] = 1;
    }
    if (st->n_top_k > 0) select_top_k(logits, st->n_vocab, st->top, st->n_top_k);
    RETURN_IF_ERROR(dump_writer_add(st->writer, &r, text, (uint32_t)text_bytes, st->top,
                                    st->full_logits ? logits : NULL, err));
    st->count++;
    st->stop = stop_reason(st, &r);
    return STATUS_OK;
}

enum status stream_take_logits(struct stream *st, struct err *err) {
    return stream_take_row(st, session_logits(st->session), session_top2(st->session), err);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

enum status stream_finish(struct stream *st, dump **out, struct err *err) {
    unsigned long long overflows = session_overflows(st->session);
    enum status s = provenance_set(&st->provenance, "stop", st->stop != NULL ? st->stop : "length", err);
    if (s == STATUS_OK) s = provenance_setf(&st->provenance, err, "overflows", "%llu", overflows);
    if (s == STATUS_OK) {
        s = dump_writer_finish(st->writer, &st->provenance, out, err);
        st->writer = NULL;
    }
    stream_abandon(st);
    return s;
}

void stream_abandon(struct stream *st) {
    if (st == NULL) return;
    if (st->writer != NULL) dump_writer_abandon(st->writer);
    session_close(st->session);
    provenance_free(&st->provenance);
    free(st->seen);
    free(st->scratch);
    free(st->top);
    free(st);
}
