/* gate_cache.c - CLAIM: a session's past is its own tokens and nothing else: not a rewound future, not an earlier prompt,
 * not what lies in the cache behind its last position. Needs: model. Arms: rewind, rewind-other (another future is computed
 * and dropped first), pair (A then B in one session against fresh B), tail (the cache behind pos is NaN).
 * Exercise: forkgate run --only stream.cache.f16 */
#include <stdlib.h>
#include <string.h>

#include "gates/model/forced.h"
#include "gates/model/model_gates.h"
#include "gates/poison.h"

#define SHORT_BYTES  1000
#define QUICK_TOKENS 12
#define REWIND_TO    3

static enum status run_on(struct forced *f, uint64_t until, const char *how, struct err *err) {
    while (forced_more(f) && f->at < until) RETURN_IF_ERROR(forced_step(f, how, err));
    return STATUS_OK;
}

/* Some tokens that are not the stream's own. */
static enum status wander(struct forced *f, int n, struct err *err) {
    for (int i = 0; i < n && session_room(f->session) > 0; i++)
        RETURN_IF_ERROR(
            session_decode(f->session, (int32_t)((forced_token(f) + 17 * (i + 1)) % f->n_vocab), err));
    return STATUS_OK;
}

static enum status rewind_arm(const struct stream_arm *a, struct forced *f, struct err *err) {
    RETURN_IF_ERROR(forced_prefill(f, "before the rewind", err));
    RETURN_IF_ERROR(run_on(f, UINT64_MAX, "before the rewind", err));
    uint64_t to = f->at < REWIND_TO ? f->at : REWIND_TO;
    RETURN_IF_ERROR(forced_rewind(f, to, err));
    RETURN_IF_ERROR(run_on(f, UINT64_MAX, "after a rewind", err));
    forced_row(a, "rewind", f);
    return STATUS_OK;
}

static enum status rewind_other_arm(const struct stream_arm *a, struct forced *f, struct err *err) {
    RETURN_IF_ERROR(forced_prefill(f, "before the detour", err));
    RETURN_IF_ERROR(run_on(f, REWIND_TO, "before the detour", err));
    uint64_t to = f->at;
    RETURN_IF_ERROR(wander(f, 6, err));
    RETURN_IF_ERROR(forced_rewind(f, to, err));
    RETURN_IF_ERROR(run_on(f, UINT64_MAX, "after another future was dropped", err));
    forced_row(a, "rewind-other", f);
    return STATUS_OK;
}

/* The whole of another prompt and some tokens, then back to nothing. */
static enum status pair_arm(const struct stream_arm *a, struct forced *f, const struct stream_prompt *other,
                            struct err *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(engine_encode(f->engine, other->bytes, other->n, 1, &ids, &n, err));
    enum status s = session_prefill(f->session, ids, n, err);
    free(ids);
    if (s == STATUS_OK) s = wander(f, 4, err);
    if (s == STATUS_OK) s = session_rewind(f->session, 0, err);
    if (s == STATUS_OK) s = forced_prefill(f, "after another prompt", err);
    if (s == STATUS_OK) s = run_on(f, UINT64_MAX, "after another prompt", err);
    if (s == STATUS_OK) forced_row(a, "pair", f);
    return s;
}

static enum status tail_arm(const struct stream_arm *a, struct forced *f, struct err *err) {
    RETURN_IF_ERROR(poison_tail(f->engine, f->session, err));
    RETURN_IF_ERROR(forced_prefill(f, "into a poisoned cache", err));
    while (forced_more(f)) {
        RETURN_IF_ERROR(poison_tail(f->engine, f->session, err));
        RETURN_IF_ERROR(forced_step(f, "with a poisoned tail", err));
    }
    forced_row(a, "tail", f);
    return STATUS_OK;
}

enum arm { REWIND, REWIND_OTHER, PAIR, TAIL, ARMS };

static enum status one_arm(const struct stream_arm *a, enum arm arm, const struct streams *s, int i,
                           const dump *base, struct err *err) {
    struct forced f;
    RETURN_IF_ERROR(forced_open(a->engine, &s->prompts[i], base, &f, err));
    enum status status = STATUS_OK;
    if (arm == REWIND) status = rewind_arm(a, &f, err);
    if (arm == REWIND_OTHER) status = rewind_other_arm(a, &f, err);
    if (arm == PAIR) status = pair_arm(a, &f, &s->prompts[(i + 1) % s->n], err);
    if (arm == TAIL) status = tail_arm(a, &f, err);
    forced_close(&f);
    return status;
}

static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, struct err *err) {
    (void)config;
    dump *base[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, BATCH_MAX, 0, base, err));
    enum status status = STATUS_OK;
    for (int i = 0; i < s->n; i++) /* quick: each prompt in one or two arms, each arm at several prompts */
        for (int arm = 0; arm < ARMS && status == STATUS_OK; arm++)
            if ((a->ctx->full_battery && !s->brief) || (i + arm) % 2 == 0)
                status = one_arm(a, (enum arm)arm, s, i, base[i], err);
    if (status == STATUS_OK) status = streams_negative_row(a, base[0], err);
    streams_close(base, s->n);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.cache.f16", ROUTE_F16, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.cache.q8", ROUTE_Q8, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_cache_f16 = {
    "stream.cache.f16",
    TIER_IDENTITY,
    "rewinds, earlier prompts and the cache tail leave no trace (route f16)",
    1,
    0,
    300,
    run_f16};

const struct gate gate_stream_cache_q8 = {
    "stream.cache.q8",
    TIER_IDENTITY,
    "rewinds, earlier prompts and the cache tail leave no trace (route q8)",
    1,
    0,
    300,
    run_q8};
