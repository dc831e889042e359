/* forward.c - see forward.h. Nothing here knows which backend runs it. */
#include "forward.h"

#include <string.h>

#include "fault.h"

/* ---- workspace ------------------------------------------------------------------------------------------------- */

#define ARENA_ALIGN 256

static size_t carve(size_t *used, size_t bytes) {
    size_t at = *used;
    *used += (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return at;
}

static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void note_kind(int used[ACT_KINDS], const struct weight *w) {
    used[w->act] = 1;
}

static void model_act_kinds(const struct model *m, int used[ACT_KINDS]) {
    memset(used, 0, ACT_KINDS * sizeof used[0]);
    note_kind(used, &m->output);
    for (int l = 0; l < m->config.n_layer; l++) {
        const struct model_layer *y = &m->layers[l];
        const struct weight *all[] = {&y->wq, &y->wk, &y->wv, &y->wo, &y->w_gate, &y->w_up, &y->w_down};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) note_kind(used, all[i]);
    }
}

/* One pass measures (base NULL), the second one assigns. */
static size_t workspace_layout(const struct model *m, int n_ctx, struct workspace *w, char *base) {
    const struct model_config *c = &m->config;
    size_t rows = (size_t)w->max_rows, q_cols = (size_t)c->n_head * (size_t)c->head_dim;
    size_t kv_cols = (size_t)c->n_kv_head * (size_t)c->head_dim;
    size_t h_cols = (size_t)c->n_embd, used = 0;
    struct {
        float **field;
        size_t floats;
    } const parts[] = {
        {&w->x, rows * (size_t)c->n_embd},
        {&w->h, rows * h_cols},
        {&w->q, rows * q_cols},
        {&w->k, rows * kv_cols},
        {&w->v, rows * kv_cols},
        {&w->o, rows * q_cols},
        {&w->gate, rows * (size_t)c->n_ff},
        {&w->up, rows * (size_t)c->n_ff},
        {&w->logits, (size_t)SCORE_ROWS * (size_t)c->n_vocab_rows},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t at = carve(&used, parts[i].floats * sizeof(float));
        if (base != NULL) *parts[i].field = (float *)(void *)(base + at);
    }
    size_t top_at = carve(&used, SCORE_ROWS * sizeof(struct top2));
    if (base != NULL) w->top = (struct top2 *)(void *)(base + top_at);
    struct backend *b = m->backend;
    size_t room = carve(&used, b->attention_room(b, c->n_head, c->head_dim, n_ctx, NULL));
    if (base != NULL) (void)b->attention_room(b, c->n_head, c->head_dim, n_ctx, base + room);
    int kinds[ACT_KINDS];
    model_act_kinds(m, kinds);
    int64_t k_max = max64(max64(c->n_embd, c->n_ff), (int64_t)q_cols);
    for (int kind = 0; kind < ACT_KINDS; kind++) {
        if (!kinds[kind]) continue;
        size_t at = carve(&used, act_carve((enum act_kind)kind, w->max_rows, k_max, NULL, NULL));
        if (base != NULL) (void)act_carve((enum act_kind)kind, w->max_rows, k_max, base + at, &w->act[kind]);
    }
    return used;
}

enum status workspace_open(const struct model *m, int max_rows, int n_ctx, struct workspace *out,
                           struct err *err) {
    memset(out, 0, sizeof *out);
    out->max_rows = max_rows;
    size_t bytes = workspace_layout(m, n_ctx, out, NULL);
    RETURN_IF_ERROR(m->backend->alloc(m->backend, bytes, &out->arena, err));
    (void)workspace_layout(m, n_ctx, out, out->arena);
    return STATUS_OK;
}

void workspace_close(const struct model *m, struct workspace *w) {
    if (w->arena != NULL) m->backend->free(m->backend, w->arena);
    memset(w, 0, sizeof *w);
}

/* ---- the pass -------------------------------------------------------------------------------------------------- */

struct pass {
    const struct model *m;
    struct backend *b;
    struct workspace *w;
    const struct step *s;
    struct observer *observer;
    int layer;
    int64_t rows;
};

static int is_watched(const struct pass *p) {
    return p->observer != NULL && (p->observer->fn != NULL || p->observer->tap != NULL);
}

static enum status tell_tap(const struct pass *p, const struct tap_event *event, struct err *err) {
    const struct observer *o = p->observer;
    if (o == NULL || o->tap == NULL) return STATUS_OK;
    return o->tap(o->tap_ctx, p->b, event, err);
}

static enum status observe_rows(const struct pass *p, const char *op, const char *tensor, const float *data,
                                int64_t rows, int64_t cols, const int32_t *pos, struct err *err) {
    struct observer *o = p->observer;
    struct tap_event seen = {op, tensor, p->layer, rows, cols, data, NULL, NULL, 0, pos};
    RETURN_IF_ERROR(tell_tap(p, &seen, err));
    if (o == NULL || o->fn == NULL) return STATUS_OK;
    size_t floats = (size_t)rows * (size_t)cols;
    if (floats > o->host_floats)
        return err_set(err, STATUS_LIMIT, "trace: %s of %zu floats exceeds the staging buffer", tensor,
                       floats);
    RETURN_IF_ERROR(p->b->copy_out(p->b, o->host, data, floats * sizeof(float), err));
    struct trace_event event = {op, tensor, p->layer, rows, cols, o->host, pos};
    o->fn(o->ctx, &event);
    return STATUS_OK;
}

static enum status observe(const struct pass *p, const char *op, const char *tensor, const float *data,
                           int64_t cols, struct err *err) {
    return observe_rows(p, op, tensor, data, p->rows, cols, p->s->pos, err);
}

static enum status norm(const struct pass *p, const char *tensor, const float *x, const struct weight *w,
                        float *y, struct err *err) {
    int64_t cols = p->m->config.n_embd;
    float eps = p->m->config.rms_eps;
    if (is_watched(p) && FAULT(RT_OBSERVER)) eps *= 1.001f;
    RETURN_IF_ERROR(p->b->rmsnorm(p->b, x, w->data, eps, p->rows, cols, y, err));
    return observe(p, "rmsnorm", tensor, y, cols, err);
}

/* qwen3: every head of q or k is normalised on its own, in place. */
static enum status head_norm(const struct pass *p, const char *tensor, const struct weight *w, int n_head,
                             float *x, struct err *err) {
    const struct model_config *c = &p->m->config;
    RETURN_IF_ERROR(p->b->rmsnorm(p->b, x, w->data, c->rms_eps, p->rows * n_head, c->head_dim, x, err));
    return observe(p, "rmsnorm", tensor, x, (int64_t)n_head * c->head_dim, err);
}

/* The plant: the buffers of the last consumer decide what is written, and a q6_K matrix reads no sums. */
static enum status prepare_kind(const struct pass *p, enum act_kind kind, const float *x, int64_t k,
                                const struct weight *last, struct err *err) {
    struct act *out = &p->w->act[kind], elsewhere = *out;
    if (last->dtype != DTYPE_Q6_K || !FAULT(FU_SKIPWRITE))
        return p->b->act_prepare(p->b, kind, x, p->rows, k, out, err);
    out->k = k;
    elsewhere.sum = (int16_t *)(void *)p->w->up;
    return p->b->act_prepare(p->b, kind, x, p->rows, k, &elsewhere, err);
}

/* Prepares x once for every form its consumers want. Which forms is decided by the weights, never by a pointer: a cache
 * keyed on addresses would serve stale codes when a buffer is reused. */
static enum status prepare(const struct pass *p, const char *tensor, const float *x, int64_t k,
                           const struct weight *const *consumers, int n, struct err *err) {
    const int32_t *pos = p->s->pos + (p->s->n_rows - p->rows); /* the head's rows are the step's last */
    int done[ACT_KINDS] = {0};
    for (int i = 0; i < n; i++) {
        enum act_kind kind = consumers[i]->act;
        if (done[kind]) continue;
        done[kind] = 1;
        if (p->layer != 0 && x == p->w->h && FAULT(FU_STALEKEY)) { /* same pointer, same shape: a hit */
            p->w->act[kind].k = k;
            continue;
        }
        RETURN_IF_ERROR(prepare_kind(p, kind, x, k, consumers[n - 1], err));
        struct tap_event seen = {"act_prepare", tensor,           p->layer, p->rows, k,
                                 NULL,          &p->w->act[kind], NULL,     0,       pos};
        RETURN_IF_ERROR(tell_tap(p, &seen, err));
    }
    return STATUS_OK;
}

static enum status product(const struct pass *p, const char *tensor, const struct weight *w, float *y,
                           struct err *err) {
    RETURN_IF_ERROR(p->b->matmul(p->b, w, &p->w->act[w->act], p->rows, y, err));
    return observe(p, "matmul", tensor, y, w->n, err);
}

static enum status attention_block(const struct pass *p, const struct model_layer *y, struct err *err) {
    const struct model_config *c = &p->m->config;
    struct workspace *w = p->w;
    int64_t q_cols = (int64_t)c->n_head * c->head_dim, kv_cols = (int64_t)c->n_kv_head * c->head_dim;
    RETURN_IF_ERROR(norm(p, "attn_norm", w->x, &y->attn_norm, w->h, err));
    const struct weight *const qkv[] = {&y->wq, &y->wk, &y->wv};
    RETURN_IF_ERROR(prepare(p, "attn_norm", w->h, c->n_embd, qkv, 3, err));
    RETURN_IF_ERROR(product(p, "q", &y->wq, w->q, err));
    RETURN_IF_ERROR(product(p, "k", &y->wk, w->k, err));
    RETURN_IF_ERROR(product(p, "v", &y->wv, w->v, err));
    if (y->q_norm.data != NULL) {
        RETURN_IF_ERROR(head_norm(p, "q_norm", &y->q_norm, c->n_head, w->q, err));
        RETURN_IF_ERROR(head_norm(p, "k_norm", &y->k_norm, c->n_kv_head, w->k, err));
    }
    RETURN_IF_ERROR(p->b->rope(p->b, p->s, &p->m->rope, c->n_head, c->head_dim, w->q, err));
    RETURN_IF_ERROR(observe(p, "rope", "q_rope", w->q, q_cols, err));
    RETURN_IF_ERROR(p->b->rope(p->b, p->s, &p->m->rope, c->n_kv_head, c->head_dim, w->k, err));
    RETURN_IF_ERROR(observe(p, "rope", "k_rope", w->k, kv_cols, err));
    RETURN_IF_ERROR(p->b->kv_append(p->b, p->s, p->layer, w->k, w->v, err));
    struct tap_event seen = {"kv_append", "kv", p->layer, p->rows,     kv_cols,
                             NULL,        NULL, p->s->kv, p->s->n_seq, p->s->pos};
    RETURN_IF_ERROR(tell_tap(p, &seen, err));
    RETURN_IF_ERROR(p->b->attention(p->b, p->s, p->layer, c->n_head, w->q, w->o, err));
    RETURN_IF_ERROR(observe(p, "attention", "attn", w->o, q_cols, err));
    const struct weight *const out[] = {&y->wo};
    RETURN_IF_ERROR(prepare(p, "attn", w->o, q_cols, out, 1, err));
    RETURN_IF_ERROR(product(p, "attn_out", &y->wo, w->h, err));
    RETURN_IF_ERROR(p->b->add(p->b, w->x, w->h, p->rows * c->n_embd, err));
    return observe(p, "add", "attn_residual", w->x, c->n_embd, err);
}

static enum status ffn_block(const struct pass *p, const struct model_layer *y, struct err *err) {
    const struct model_config *c = &p->m->config;
    struct workspace *w = p->w;
    RETURN_IF_ERROR(norm(p, "ffn_norm", w->x, &y->ffn_norm, w->h, err));
    const struct weight *const gate_up[] = {&y->w_gate, &y->w_up};
    RETURN_IF_ERROR(prepare(p, "ffn_norm", w->h, c->n_embd, gate_up, 2, err));
    RETURN_IF_ERROR(product(p, "ffn_gate", &y->w_gate, w->gate, err));
    RETURN_IF_ERROR(product(p, "ffn_up", &y->w_up, w->up, err));
    RETURN_IF_ERROR(p->b->swiglu(p->b, w->gate, w->up, p->rows * c->n_ff, w->gate, err));
    RETURN_IF_ERROR(observe(p, "swiglu", "ffn_act", w->gate, c->n_ff, err));
    const struct weight *const down[] = {&y->w_down};
    RETURN_IF_ERROR(prepare(p, "ffn_act", w->gate, c->n_ff, down, 1, err));
    RETURN_IF_ERROR(product(p, "ffn_down", &y->w_down, w->h, err));
    RETURN_IF_ERROR(p->b->add(p->b, w->x, w->h, p->rows * c->n_embd, err));
    return observe(p, "add", "ffn_residual", w->x, c->n_embd, err);
}

static enum status head(struct pass *p, int head_row, struct err *err) {
    const struct model_config *c = &p->m->config;
    struct workspace *w = p->w;
    const int32_t *pos = p->s->pos + head_row;
    p->layer = -1;
    p->rows -= head_row;
    const float *x = w->x + (int64_t)head_row * c->n_embd;
    RETURN_IF_ERROR(
        p->b->rmsnorm(p->b, x, p->m->output_norm.data, c->rms_eps, p->rows, c->n_embd, w->h, err));
    RETURN_IF_ERROR(observe_rows(p, "rmsnorm", "output_norm", w->h, p->rows, c->n_embd, pos, err));
    const struct weight *const out[] = {&p->m->output};
    RETURN_IF_ERROR(prepare(p, "output_norm", w->h, c->n_embd, out, 1, err));
    RETURN_IF_ERROR(p->b->matmul(p->b, &p->m->output, &w->act[p->m->output.act], p->rows, w->logits, err));
    RETURN_IF_ERROR(observe_rows(p, "matmul", "logits", w->logits, p->rows, c->n_vocab_rows, pos, err));
    return p->b->top2(p->b, w->logits, p->rows, c->n_vocab, c->n_vocab_rows, w->top, err);
}

enum status forward_step(const struct model *m, struct workspace *w, const struct step *s, int head_row,
                         struct observer *observer, struct err *err) {
    if (s->n_rows > w->max_rows || s->n_rows - head_row > SCORE_ROWS)
        return err_set(err, STATUS_LIMIT,
                       "forward: %d rows, %d of them with logits, exceed the workspace (%d, %d)", s->n_rows,
                       s->n_rows - head_row, w->max_rows, SCORE_ROWS);
    struct pass p = {m, m->backend, w, s, observer, -1, s->n_rows};
    RETURN_IF_ERROR(p.b->embed(p.b, s, &m->token_embd, w->x, err));
    RETURN_IF_ERROR(observe(&p, "embed", "embed", w->x, m->config.n_embd, err));
    for (p.layer = 0; p.layer < m->config.n_layer; p.layer++) {
        RETURN_IF_ERROR(attention_block(&p, &m->layers[p.layer], err));
        RETURN_IF_ERROR(ffn_block(&p, &m->layers[p.layer], err));
    }
    return head(&p, head_row, err);
}
