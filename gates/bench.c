/* bench.c - see bench.h. */
#include "gates/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/rng.h"

struct bench {
    engine *engine;
    struct bench_work work;
    int32_t *ids; /* [n_ids] of the prompt */
    size_t n_ids;
    int n_vocab, has_first;
    struct hash128 first; /* of the first round */
};

#define TOKENS_SEED 42

static enum status random_ids(bench *b, struct err *err) {
    struct engine_info info;
    engine_describe(b->engine, &info);
    b->n_ids = (size_t)b->work.n_tokens;
    b->ids = malloc(b->n_ids * sizeof *b->ids);
    if (b->ids == NULL) return err_set(err, STATUS_NOMEM, "bench: out of memory");
    for (size_t i = 0; i < b->n_ids; i++)
        b->ids[i] = (int32_t)(rng_u64(TOKENS_SEED, i) % (uint64_t)info.n_vocab);
    return STATUS_OK;
}

enum status bench_start(const char *model, const struct engine_config *config, const struct bench_work *w,
                        bench **out, struct err *err) {
    struct engine_info info;
    bench *b = calloc(1, sizeof *b);
    *out = NULL;
    if (b == NULL) return err_set(err, STATUS_NOMEM, "bench: out of memory");
    b->work = *w;
    enum status s = engine_open(model, config, &b->engine, err);
    if (s == STATUS_OK)
        s = w->n_tokens > 0
                ? random_ids(b, err)
                : engine_encode(b->engine, w->prompt, w->prompt_bytes, 1, &b->ids, &b->n_ids, err);
    if (s == STATUS_OK && b->n_ids == 0)
        s = err_set(err, STATUS_USAGE, "bench: prompt %s has no tokens", w->prompt_name);
    if (s != STATUS_OK) {
        bench_close(b);
        return s;
    }
    engine_describe(b->engine, &info);
    b->n_vocab = info.n_vocab;
    if (b->n_ids + (size_t)w->n_decode > (size_t)info.n_ctx) {
        s = err_set(err, STATUS_USAGE, "bench: %zu tokens of prompt and %d steps do not fit a context of %d",
                    b->n_ids, w->n_decode, info.n_ctx);
        bench_close(b);
        return s;
    }
    *out = b;
    return STATUS_OK;
}

void bench_close(bench *b) {
    if (b == NULL) return;
    engine_close(b->engine);
    free(b->ids);
    free(b);
}

size_t bench_prompt_tokens(const bench *b) {
    return b->n_ids;
}

engine *bench_engine(bench *b) {
    return b->engine;
}

/* ---- one round ------------------------------------------------------------------------------------------------- */
struct timing {
    double prefill_s, decode_s;
    hash_stream *chain;
    struct op_times *prefill, *decode; /* NULL: ops are not timed */
};

static void chain_row(const bench *b, const session *s, struct timing *t) {
    struct hash128 h = hash_logits(session_logits(s), (size_t)b->n_vocab);
    hash_update(t->chain, h.bytes, sizeof h.bytes);
}

static enum status decode_steps(bench *b, session *s, struct timing *t, struct err *err) {
    for (int i = 0; i < b->work.n_decode; i++) {
        int32_t id = session_top2(s)->id1;
        double began = op_timer_now();
        RETURN_IF_ERROR(session_decode(s, id, err));
        t->decode_s += op_timer_now() - began;
        chain_row(b, s, t);
    }
    return STATUS_OK;
}

static enum status run_session(bench *b, session *s, struct timing *t, struct err *err) {
    double began = op_timer_now();
    RETURN_IF_ERROR(session_prefill(s, b->ids, b->n_ids, err));
    t->prefill_s = op_timer_now() - began;
    if (t->prefill != NULL) *t->prefill = op_timer_take();
    chain_row(b, s, t);
    RETURN_IF_ERROR(decode_steps(b, s, t, err));
    if (t->decode != NULL) *t->decode = op_timer_take();
    return STATUS_OK;
}

/* The chain of this round must be that of the first: a fast wrong answer is no time at all. */
static enum status check_rows(bench *b, const struct hash128 *h, struct err *err) {
    char want[HASH_TEXT_BYTES], got[HASH_TEXT_BYTES];
    if (!b->has_first) b->first = *h;
    b->has_first = 1;
    if (hash_equal(&b->first, h)) return STATUS_OK;
    hash_format(&b->first, want);
    hash_format(h, got);
    return err_set(err, STATUS_INVALID, "bench: this round's logits (%s) are not the first round's (%s)", got,
                   want);
}

static enum status device_bytes(bench *b, size_t *out, struct err *err) {
    struct backend *backend = engine_backend(b->engine);
    *out = 0;
    return backend->memory_used == NULL ? STATUS_OK : backend->memory_used(backend, out, err);
}

static enum status run_round(bench *b, struct timing *t, struct bench_round *out, struct err *err) {
    session *s = NULL;
    RETURN_IF_ERROR(session_create(b->engine, &s, err));
    t->chain = hash_open();
    enum status status =
        t->chain != NULL ? run_session(b, s, t, err) : err_set(err, STATUS_NOMEM, "bench: out of memory");
    if (t->chain != NULL) out->logits = hash_peek(t->chain);
    hash_close(t->chain);
    if (status == STATUS_OK) status = device_bytes(b, &out->device_bytes, err);
    session_close(s);
    return status == STATUS_OK ? check_rows(b, &out->logits, err) : status;
}

enum status bench_run(bench *b, struct bench_round *out, struct err *err) {
    struct timing t;
    memset(&t, 0, sizeof t);
    RETURN_IF_ERROR(run_round(b, &t, out, err));
    out->prefill = (double)b->n_ids / t.prefill_s;
    out->decode = b->work.n_decode > 0 ? (double)b->work.n_decode / t.decode_s : (double)NAN;
    return STATUS_OK;
}

enum status bench_warm(bench *b, double seconds, struct err *err) {
    struct bench_round r;
    double until = op_timer_now() + seconds;
    do {
        RETURN_IF_ERROR(bench_run(b, &r, err));
    } while (op_timer_now() < until);
    return STATUS_OK;
}

enum status bench_ops(bench *b, struct op_times *prefill, struct op_times *decode, struct err *err) {
    struct bench_round round;
    struct timing t;
    memset(&t, 0, sizeof t);
    t.prefill = prefill;
    t.decode = decode;
    RETURN_IF_ERROR(op_timer_attach(b->engine, err));
    enum status s = run_round(b, &t, &round, err);
    op_timer_detach();
    return s;
}

void bench_clock(char *out, size_t room) {
    char line[256];
    double most = 0.0, mhz = 0.0;
    FILE *f = fopen("/proc/cpuinfo", "rb");
    while (f != NULL && fgets(line, (int)sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "cpu MHz", 7) != 0 || colon == NULL) continue;
        mhz = strtod(colon + 1, NULL);
        if (mhz > most) most = mhz;
    }
    if (f != NULL) (void)fclose(f);
    if (most > 0.0)
        (void)snprintf(out, room, "%.3f MHz", most);
    else
        (void)snprintf(out, room, "unknown");
}
