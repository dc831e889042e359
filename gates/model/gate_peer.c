/* gate_peer.c - CLAIM: another engine (llama.cpp, recorded in fixtures/peer) gives every prompt the same ids, and greedy
 * streams agree with it or part at a small gap. Needs: the model the streams were recorded from (SmolLM2: tools/fetch-model,
 * SKIP with the reason when it is absent). Arms: ids, fork, a/a, negative.
 * Idea: up to the first token where the argmax differs, forcing the peer's tokens is the greedy stream of both.
 * Exercise: forkgate run --only model.peer.seedling */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/budget.h"
#include "gates/model/again.h"
#include "gates/model/model_gates.h"
#include "gates/model/streams.h"
#include "gates/table.h"

#define PEER_STEPS       64
#define PEER_QUICK_BYTES 200 /* quick battery: the seven short prompts */

struct peer_step {
    int32_t top1, top2;
    double logit1, logit2;
};

/* What forcing one prompt along the peer's tokens showed. */
struct peer_walk {
    struct peer_step steps[PEER_STEPS];
    int n, at;
    int fork; /* step of the first other argmax; -1: none */
    int32_t ours;
    double our_gap, peer_gap; /* at the fork */
    int n_vocab;
    struct hash128 rows; /* of all logits, chained */
};

struct peer_tables {
    table *prompts, *steps;
};

/* ---- the recording --------------------------------------------------------------------------------------------- */

static enum status tables_open(const char *source_dir, const char *stem, struct peer_tables *t,
                               struct err *err) {
    char path[4096];
    memset(t, 0, sizeof *t);
    (void)snprintf(path, sizeof path, "%s/fixtures/peer/%s_prompts.csv", source_dir, stem);
    RETURN_IF_ERROR(table_read(path, &t->prompts, err));
    (void)snprintf(path, sizeof path, "%s/fixtures/peer/%s_steps.csv", source_dir, stem);
    return table_read(path, &t->steps, err);
}

static void tables_close(struct peer_tables *t) {
    table_close(t->prompts);
    table_close(t->steps);
}

static enum status read_steps(const table *t, const char *prompt, struct peer_walk *w, struct err *err) {
    int c[6];
    static const char *const names[] = {"prompt", "step", "top1", "top2", "logit1", "logit2"};
    for (int i = 0; i < 6; i++) RETURN_IF_ERROR(table_need(t, names[i], &c[i], err));
    memset(w, 0, sizeof *w);
    w->fork = -1;
    for (size_t row = 0; row < table_rows(t) && w->n < PEER_STEPS; row++) {
        if (strcmp(table_cell(t, row, c[0], NULL), prompt) != 0) continue;
        int64_t step = 0, top1 = 0, top2 = 0;
        struct peer_step *s = &w->steps[w->n];
        RETURN_IF_ERROR(table_integer(t, row, c[1], w->n, w->n, &step, err));
        RETURN_IF_ERROR(table_integer(t, row, c[2], 0, INT32_MAX, &top1, err));
        RETURN_IF_ERROR(table_integer(t, row, c[3], 0, INT32_MAX, &top2, err));
        RETURN_IF_ERROR(table_real(t, row, c[4], &s->logit1, err));
        RETURN_IF_ERROR(table_real(t, row, c[5], &s->logit2, err));
        s->top1 = (int32_t)top1;
        s->top2 = (int32_t)top2;
        w->n++;
    }
    if (w->n == 0) return err_set(err, STATUS_FORMAT, "%s: no steps of %s", table_name(t), prompt);
    return STATUS_OK;
}

/* 1 when the row's ids column is exactly ids[0..n). */
static int ids_match(const char *text, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *end = NULL;
        long id = strtol(text, &end, 10);
        if (end == text || id != ids[i]) return 0;
        text = end;
    }
    return *text == '\0';
}

/* ---- one prompt ------------------------------------------------------------------------------------------------ */

static enum status see_row(void *ctx, int pos, const float *logits, const struct top2 *top, struct err *err) {
    struct peer_walk *w = ctx;
    const struct peer_step *s = &w->steps[w->at];
    (void)pos;
    if (top->first_bad >= 0)
        return err_set(err, STATUS_INVALID, "peer: NaN or Inf in the logits of step %d", w->at);
    if (w->fork < 0 && top->id1 != s->top1) {
        w->fork = w->at;
        w->ours = top->id1;
        w->our_gap = (double)top->logit1 - (double)logits[s->top1];
        w->peer_gap = top->id1 == s->top2 ? s->logit1 - s->logit2 : (double)NAN;
    }
    again_add(&w->rows, logits, (size_t)w->n_vocab);
    w->at++;
    return STATUS_OK;
}

static enum status walk(engine *e, const int32_t *prompt, size_t n_prompt, struct peer_walk *w,
                        struct err *err) {
    session *s = NULL;
    struct engine_info info;
    int32_t ids[PEER_STEPS];
    engine_describe(e, &info);
    w->n_vocab = info.n_vocab;
    ids[0] = prompt[n_prompt - 1];
    for (int i = 1; i < w->n; i++) ids[i] = w->steps[i - 1].top1;
    RETURN_IF_ERROR(session_create(e, &s, err));
    enum status status = n_prompt > 1 ? session_prefill(s, prompt, n_prompt - 1, err) : STATUS_OK;
    int room = session_room(s);
    if (w->n > room) w->n = room;
    if (status == STATUS_OK) status = session_score(s, ids, (size_t)w->n, see_row, w, err);
    session_close(s);
    return status;
}

static void fork_row(const struct stream_arm *a, const char *arm, const char *prompt,
                     const struct peer_walk *w, double bound) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.test_case, sizeof row.test_case, "%s", prompt);
    (void)snprintf(row.arm, sizeof row.arm, "%s", arm);
    (void)snprintf(row.metric, sizeof row.metric, "fork_gap");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --only %s", a->gate);
    streams_note_kernels(a->engine, row.kernels, sizeof row.kernels);
    row.bound = bound;
    row.value = w->fork < 0 ? 0.0 : fmax(w->our_gap, isnan(w->peer_gap) ? w->our_gap : w->peer_gap);
    if (w->fork < 0)
        (void)snprintf(row.note, sizeof row.note, "%d greedy tokens equal", w->n);
    else
        (void)snprintf(row.note, sizeof row.note,
                       "fork at token %d of %d: peer %d, ours %d; gap %.3g here, %.3g there", w->fork, w->n,
                       w->steps[w->fork].top1, w->ours, w->our_gap, w->peer_gap);
    row.verdict = w->at == w->n && row.value <= bound ? VERDICT_PASS : VERDICT_FAIL;
    a->ctx->emit(a->ctx->sink, &row);
}

static enum status judge_prompt(const struct stream_arm *a, const struct peer_tables *t,
                                const struct stream_prompt *p, double bound, struct err *err) {
    int name = 0, ids_column = 0;
    size_t row = 0, n = 0;
    int32_t *ids = NULL;
    struct peer_walk w;
    RETURN_IF_ERROR(table_need(t->prompts, "prompt", &name, err));
    RETURN_IF_ERROR(table_need(t->prompts, "ids", &ids_column, err));
    while (row < table_rows(t->prompts) && strcmp(table_cell(t->prompts, row, name, NULL), p->name) != 0)
        row++;
    if (row == table_rows(t->prompts))
        return err_set(err, STATUS_FORMAT, "%s: no prompt %s", table_name(t->prompts), p->name);
    RETURN_IF_ERROR(engine_encode(a->engine, p->bytes, p->n, 1, &ids, &n, err));
    int same = ids_match(table_cell(t->prompts, row, ids_column, NULL), ids, n);
    streams_count_row(a, "ids", p->name, same ? 0 : 1,
                      same ? "" : "the tokenizer gives other ids than the peer");
    enum status s = read_steps(t->steps, p->name, &w, err);
    if (s == STATUS_OK) s = walk(a->engine, ids, n, &w, err);
    free(ids);
    if (s == STATUS_OK) fork_row(a, "fork", p->name, &w, bound);
    return s;
}

/* One prompt twice, each time in a session of its own; stream.repeat opens engines of their own. */
static enum status again(const struct stream_arm *a, const struct peer_tables *t,
                         const struct stream_prompt *p, struct err *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    struct peer_walk w, second;
    RETURN_IF_ERROR(engine_encode(a->engine, p->bytes, p->n, 1, &ids, &n, err));
    enum status s = read_steps(t->steps, p->name, &w, err);
    second = w;
    if (s == STATUS_OK) s = walk(a->engine, ids, n, &w, err);
    if (s == STATUS_OK) s = walk(a->engine, ids, n, &second, err);
    if (s == STATUS_OK) again_row(a, p->name, &w.rows, &second.rows);
    free(ids);
    return s;
}

/* A recording with its first token changed must be noticed as a fork at token 0. */
static enum status negative_row(const struct stream_arm *a, const struct peer_tables *t,
                                const struct stream_prompt *p, struct err *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    struct peer_walk w;
    RETURN_IF_ERROR(engine_encode(a->engine, p->bytes, p->n, 1, &ids, &n, err));
    enum status s = read_steps(t->steps, p->name, &w, err);
    if (s == STATUS_OK) {
        w.n = 1;
        w.steps[0].top1 = w.steps[0].top1 == 0 ? 1 : 0;
        s = walk(a->engine, ids, n, &w, err);
    }
    free(ids);
    if (s != STATUS_OK) return s;
    if (w.fork == 0)
        streams_count_row(a, "negative", p->name, 0, "detection floor: one token of one step");
    else
        streams_note_row(a, "negative", p->name, VERDICT_BLIND, "a changed peer token was not noticed");
    return STATUS_OK;
}

/* ---- the gates ------------------------------------------------------------------------------------------------- */

static enum status judge(const struct stream_arm *a, const char *stem, struct err *err) {
    struct peer_tables t;
    struct streams s;
    struct budgets b;
    char path[4096];
    double bound = 0;
    (void)snprintf(path, sizeof path, "%s/golden/budgets.csv", a->ctx->source_dir);
    RETURN_IF_ERROR(budgets_load(path, &b, err));
    enum status status = budgets_bound(&b, "peer", route_name(a->route), "fork_gap", &bound, err);
    budgets_free(&b);
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(streams_load(a->ctx->source_dir, 1, &s, err));
    if (!a->ctx->full_battery) streams_limit(&s, PEER_QUICK_BYTES, 0);
    status = tables_open(a->ctx->source_dir, stem, &t, err);
    for (int i = 0; i < s.n && status == STATUS_OK; i++)
        status = judge_prompt(a, &t, &s.prompts[i], bound, err);
    if (status == STATUS_OK) status = again(a, &t, &s.prompts[0], err);
    if (status == STATUS_OK) status = negative_row(a, &t, &s.prompts[0], err);
    tables_close(&t);
    streams_free(&s);
    return status;
}

static enum status run_model(const struct gate_context *ctx, const char *id, const char *model,
                             const char *stem, const char *absent, struct err *err) {
    struct stream_arm a = {ctx, id, ROUTE_Q8, NULL, NULL}; /* int8 activations, as the peer's own CPU path */
    struct engine_config config = streams_config(ctx, ROUTE_Q8);
    if (access(model, R_OK) != 0) {
        streams_note_row(&a, "fork", "", VERDICT_SKIP, absent);
        return STATUS_OK;
    }
    RETURN_IF_ERROR(engine_open(model, &config, &a.engine, err));
    enum status s = judge(&a, stem, err);
    engine_close(a.engine);
    return s;
}

static enum status run_seedling(const struct gate_context *ctx, struct err *err) {
    char model[4096];
    (void)snprintf(model, sizeof model, "%s/fixtures/models/seedling-q8_0.gguf", ctx->source_dir);
    return run_model(ctx, "model.peer.seedling", model, "seedling-q8_0", "the embedded model is missing",
                     err);
}

static enum status run_smollm2(const struct gate_context *ctx, struct err *err) {
    char model[4096];
    (void)snprintf(model, sizeof model, "%s/fixtures/models/downloaded/SmolLM2-135M-Instruct.Q4_1.gguf",
                   ctx->source_dir);
    return run_model(ctx, "model.peer.smollm2", model, "smollm2-135m-q4_1",
                     "SmolLM2-135M-Instruct.Q4_1.gguf is not here: tools/fetch-model gets it", err);
}

const struct gate gate_peer_seedling = {
    "model.peer.seedling",
    TIER_PARITY,
    "llama.cpp gives the same ids and the same greedy tokens up to a small gap",
    0, /* its own model, whatever -m says */
    0,
    300,
    run_seedling};
const struct gate gate_peer_smollm2 = {
    "model.peer.smollm2", TIER_PARITY, "the same on a public model, SmolLM2-135M-Instruct (Q4_1)", 0, 0, 900,
    run_smollm2};
