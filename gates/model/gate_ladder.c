/* gate_ladder.c - CLAIM: on both sides of every threshold where another kernel, tile or chunk takes over, the logits are
 * those of the same tokens one by one, and the kernels that ran are those for that size. Needs: model. Arms: ladder (a rung's
 * step and the decode step behind it, bit for bit), dispatched (kernels counted during exactly that rung), negative.
 * Idea: one stream made token by token is the base of all rungs and the prefix of those that have one; behind a rung's first
 * position its cache is NaN. Quick: a rung at a key count is a short step; full: the whole prompt.
 * Exercise: forkgate run --only stream.ladder.f16 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/model/ladder.h"
#include "gates/model/model_gates.h"
#include "gates/poison.h"

struct walk {
    engine *engine;
    session *session;
    int n_vocab;
    int32_t *ids; /* [n_ids] the last prompt's tokens, from its start again where it is too short */
    int n_ids;
    struct ladder_shape shape;
    struct rung rungs[LADDER_RUNGS];
    struct rung_made want[LADDER_RUNGS];
    int n;
    int alone; /* that many tokens of the base one by one; behind them those near a rung */
};

/* ---- the base -------------------------------------------------------------------------------------------------- */
static enum status take_row(struct walk *w, struct hash128 *row, int *not_finite, struct err *err) {
    const float *logits = session_logits(w->session);
    if (logits == NULL) return err_set(err, STATUS_INVALID, "ladder: a step left no logits");
    *row = hash_logits(logits, (size_t)w->n_vocab);
    *not_finite += session_top2(w->session)->first_bad >= 0;
    return STATUS_OK;
}

/* The logits behind token `pos` belong to these rungs. Returns 1 where there is one. */
static enum status take_base(struct walk *w, int pos, struct err *err) {
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < 2; k++)
            if (w->rungs[i].keys - 1 + k == pos)
                RETURN_IF_ERROR(take_row(w, &w->want[i].row[k], &w->want[i].not_finite, err));
    return STATUS_OK;
}

/* The first position from pos on that is made alone. */
static int next_alone(const struct walk *w, int pos) {
    int next = w->n_ids;
    if (pos < w->alone) return pos;
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < 2; k++) {
            int at = w->rungs[i].keys - 1 + k;
            if (at >= pos && at < next) next = at;
        }
    return next;
}

static enum status make_base(struct walk *w, struct err *err) {
    for (int pos = 0; pos < w->n_ids; pos++) {
        int next = next_alone(w, pos);
        if (next > pos) RETURN_IF_ERROR(session_prefill(w->session, w->ids + pos, (size_t)(next - pos), err));
        pos = next;
        if (pos == w->n_ids) break;
        RETURN_IF_ERROR(session_decode(w->session, w->ids[pos], err));
        RETURN_IF_ERROR(take_base(w, pos, err));
    }
    return STATUS_OK;
}

/* ---- a rung ---------------------------------------------------------------------------------------------------- */
static enum status climb(struct walk *w, const struct rung *r, struct rung_made *got, struct err *err) {
    struct launches before;
    int start = r->keys - r->rows;
    memset(got, 0, sizeof *got);
    RETURN_IF_ERROR(session_rewind(w->session, start, err));
    RETURN_IF_ERROR(poison_tail(w->engine, w->session, err));
    launches_now(w->engine, &before);
    RETURN_IF_ERROR(session_prefill(w->session, w->ids + start, (size_t)r->rows, err));
    launches_since(w->engine, &before, &got->step);
    RETURN_IF_ERROR(take_row(w, &got->row[0], &got->not_finite, err));
    launches_now(w->engine, &before);
    RETURN_IF_ERROR(session_decode(w->session, w->ids[r->keys], err));
    launches_since(w->engine, &before, &got->decode);
    return take_row(w, &got->row[1], &got->not_finite, err);
}

/* The hash of the session's row with the lowest bit of its last logit flipped. */
static enum status damage(const struct walk *w, struct hash128 *out, struct err *err) {
    size_t n = (size_t)w->n_vocab;
    float *row = malloc(n * sizeof *row);
    uint32_t bits;
    if (row == NULL) return err_set(err, STATUS_NOMEM, "ladder: a row of %zu logits", n);
    memcpy(row, session_logits(w->session), n * sizeof *row);
    memcpy(&bits, &row[n - 1], sizeof bits);
    bits ^= 1;
    memcpy(&row[n - 1], &bits, sizeof bits);
    *out = hash_logits(row, n);
    free(row);
    return STATUS_OK;
}

/* From the last rung to the first: behind its first position a rung leaves nothing of the base. */
static enum status climb_all(const struct stream_arm *a, struct walk *w, struct err *err) {
    struct rung_made got;
    struct hash128 damaged;
    for (int i = w->n - 1; i >= 0; i--) {
        RETURN_IF_ERROR(climb(w, &w->rungs[i], &got, err));
        ladder_rows(a, &w->shape, &w->rungs[i], &w->want[i], &got);
    }
    RETURN_IF_ERROR(damage(w, &damaged, err));
    ladder_negative_rows(a, &w->shape, &w->rungs[0], &got, &damaged);
    return STATUS_OK;
}

/* The candidate's chunks are too short for some rung: the same on an engine with longer ones. */
static enum status climb_elsewhere(const struct stream_arm *a, const struct engine_config *config, int chunk,
                                   struct walk *w, struct err *err) {
    struct engine_config longer = *config;
    longer.chunk = chunk;
    session_close(w->session);
    w->session = NULL;
    RETURN_IF_ERROR(engine_open(a->ctx->model_path, &longer, &w->engine, err));
    enum status status = session_create(w->engine, &w->session, err);
    if (status == STATUS_OK) status = session_prefill(w->session, w->ids, (size_t)w->n_ids, err);
    if (status == STATUS_OK) status = climb_all(a, w, err);
    session_close(w->session);
    w->session = NULL;
    engine_close(w->engine);
    return status;
}

/* ---- the gate -------------------------------------------------------------------------------------------------- */
/* Rungs that the context cannot hold are a SKIP with their numbers. */
static void drop_too_long(const struct stream_arm *a, struct walk *w, int n_ctx) {
    int kept = 0;
    for (int i = 0; i < w->n; i++) {
        char rung[64], note[96];
        if (w->rungs[i].keys < n_ctx) {
            w->rungs[kept++] = w->rungs[i];
            continue;
        }
        (void)snprintf(rung, sizeof rung, "rows=%d keys=%d", w->rungs[i].rows, w->rungs[i].keys);
        (void)snprintf(note, sizeof note, "%d tokens do not fit a context of %d", w->rungs[i].keys + 1,
                       n_ctx);
        streams_note_row(a, "ladder", rung, VERDICT_SKIP, note);
    }
    w->n = kept;
}

static enum status take_tokens(struct walk *w, const struct stream_prompt *p, struct err *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    for (int i = 0; i < w->n; i++)
        if (w->rungs[i].keys + 1 > w->n_ids) w->n_ids = w->rungs[i].keys + 1;
    RETURN_IF_ERROR(engine_encode(w->engine, p->bytes, p->n, 1, &ids, &n, err));
    w->ids = n == 0 ? NULL : malloc((size_t)w->n_ids * sizeof *w->ids);
    for (int i = 0; w->ids != NULL && i < w->n_ids; i++) w->ids[i] = ids[(size_t)i % n];
    free(ids);
    return w->ids != NULL ? STATUS_OK : err_set(err, STATUS_NOMEM, "ladder: tokens of %s", p->name);
}

static enum status walk_on(const struct stream_arm *a, const struct engine_config *config,
                           const struct streams *s, struct walk *w, struct err *err) {
    struct engine_info info;
    int widest = 0;
    engine_describe(w->engine, &info);
    w->n_vocab = info.n_vocab;
    w->shape = ladder_shape_of(w->engine);
    drop_too_long(a, w, info.n_ctx);
    for (int i = 0; i < w->n; i++) {
        const struct rung *r = &w->rungs[i];
        if (r->rows > widest) widest = r->rows;
        if (r->rows == r->keys && r->keys >= w->alone) w->alone = r->keys + 1;
    }
    enum status status = take_tokens(w, &s->prompts[s->n - 1], err);
    if (status == STATUS_OK) status = session_create(w->engine, &w->session, err);
    if (status == STATUS_OK) status = make_base(w, err);
    if (status == STATUS_OK)
        status = config->chunk < widest ? climb_elsewhere(a, config, widest, w, err) : climb_all(a, w, err);
    session_close(w->session);
    free(w->ids);
    return status;
}

static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, struct err *err) {
    struct walk *w = calloc(1, sizeof *w);
    if (w == NULL) return err_set(err, STATUS_NOMEM, "ladder: out of memory");
    w->engine = a->engine;
    w->n = ladder_rungs(&config->compute.geometry, a->ctx->full_battery && !s->brief, w->rungs);
    enum status status = walk_on(a, config, s, w, err);
    free(w);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.ladder.f16", ROUTE_F16, SIZE_MAX, 1, judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.ladder.q8", ROUTE_Q8, SIZE_MAX, 1, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_ladder_f16 = {"stream.ladder.f16",
                                            TIER_IDENTITY,
                                            "both sides of every dispatch threshold give the bits of single "
                                            "tokens, by the kernel for that size (route f16)",
                                            1,
                                            0,
                                            300,
                                            run_f16};

const struct gate gate_stream_ladder_q8 = {"stream.ladder.q8",
                                           TIER_IDENTITY,
                                           "both sides of every dispatch threshold give the bits of single "
                                           "tokens, by the kernel for that size (route q8)",
                                           1,
                                           0,
                                           300,
                                           run_q8};
