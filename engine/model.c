/* model.c - finds, shape-checks and uploads every tensor of a model (see model.h).
 * Not the configuration (model_config.c) and not the rotary table (model_rope.c).
 * Idea: one table of slots walked twice: first every tensor is found and its shape checked, and a tensor that nobody
 * asked for is refused; only then is anything uploaded.
 * Source: GGUF tensor names of llama, qwen2, qwen3. Exercise: ctest -R unit.model */
#include "model_impl.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64

enum extent { ONE, EMBD, Q_ROWS, KV_ROWS, FF, HEAD };
enum presence { REQUIRED, OPTIONAL, QWEN3_ONLY };

static const struct slot {
    const char *suffix;
    size_t at; /* offset of the struct weight in struct model_layer */
    enum extent n, k;
    enum presence presence;
} slots[] = {
    {"attn_norm.weight", offsetof(struct model_layer, attn_norm), ONE, EMBD, REQUIRED},
    {"attn_q.weight", offsetof(struct model_layer, wq), Q_ROWS, EMBD, REQUIRED},
    {"attn_k.weight", offsetof(struct model_layer, wk), KV_ROWS, EMBD, REQUIRED},
    {"attn_v.weight", offsetof(struct model_layer, wv), KV_ROWS, EMBD, REQUIRED},
    {"attn_output.weight", offsetof(struct model_layer, wo), EMBD, Q_ROWS, REQUIRED},
    {"attn_q.bias", offsetof(struct model_layer, bq), ONE, Q_ROWS, OPTIONAL},
    {"attn_k.bias", offsetof(struct model_layer, bk), ONE, KV_ROWS, OPTIONAL},
    {"attn_v.bias", offsetof(struct model_layer, bv), ONE, KV_ROWS, OPTIONAL},
    {"attn_output.bias", offsetof(struct model_layer, bo), ONE, EMBD, OPTIONAL},
    {"attn_q_norm.weight", offsetof(struct model_layer, q_norm), ONE, HEAD, QWEN3_ONLY},
    {"attn_k_norm.weight", offsetof(struct model_layer, k_norm), ONE, HEAD, QWEN3_ONLY},
    {"ffn_norm.weight", offsetof(struct model_layer, ffn_norm), ONE, EMBD, REQUIRED},
    {"ffn_gate.weight", offsetof(struct model_layer, w_gate), FF, EMBD, REQUIRED},
    {"ffn_up.weight", offsetof(struct model_layer, w_up), FF, EMBD, REQUIRED},
    {"ffn_down.weight", offsetof(struct model_layer, w_down), EMBD, FF, REQUIRED},
};
#define N_SLOTS (sizeof slots / sizeof slots[0])

struct binder {
    const gguf *g;
    struct model *m;
    uint8_t *seen; /* [tensor count] asked for by name */
    int upload;    /* 0: find and check only */
    struct err *err;
};

static int64_t extent_of(const struct model_config *c, enum extent e) {
    switch (e) {
    case ONE:
        return 1;
    case EMBD:
        return c->n_embd;
    case Q_ROWS:
        return (int64_t)c->n_head * c->head_dim;
    case KV_ROWS:
        return (int64_t)c->n_kv_head * c->head_dim;
    case FF:
        return c->n_ff;
    case HEAD:
        return c->head_dim;
    }
    return 0;
}

static const struct gguf_tensor *ask(struct binder *b, const char *name) {
    const struct gguf_tensor *t = gguf_tensor_find(b->g, name);
    if (t != NULL) b->seen[t - gguf_tensor_at(b->g, 0)] = 1;
    return t;
}

/* n == 1 is a vector: [k]; otherwise a matrix of n rows of k. */
static enum status bind(struct binder *b, const char *name, enum weight_use use, int64_t n, int64_t k,
                        struct weight *out) {
    const struct gguf_tensor *t = ask(b, name);
    if (t == NULL) return err_set(b->err, STATUS_FORMAT, "tensor '%s' is missing", name);
    if (t->dims[0] != (uint64_t)k || t->dims[1] != (uint64_t)n || t->dims[2] != 1 || t->dims[3] != 1)
        return err_set(b->err, STATUS_SHAPE,
                       "tensor '%s': shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                       "], expected [%" PRId64 ", %" PRId64 "]",
                       name, t->dims[0], t->dims[1], t->dims[2], t->dims[3], k, n);
    if (!b->upload) return STATUS_OK;
    struct backend *be = b->m->backend;
    enum status s = be->weight_upload(be, use, t->dtype, t->data, n, k, out, b->err);
    if (s != STATUS_OK) {
        memset(out, 0, sizeof *out);
        return err_prefix(b->err, s, "tensor '%s'", name);
    }
    out->bias = NULL;
    return STATUS_OK;
}

static struct weight *weight_at(struct model_layer *layer, size_t offset) {
    return (struct weight *)(void *)((char *)layer + offset);
}

/* Optional tensors are present in every layer or in none: one that is missing from some is damage, not a choice. */
static enum status is_present(struct binder *b, const struct slot *s, int layer, const char *name,
                              int *present) {
    *present = 1;
    if (s->presence == REQUIRED) return STATUS_OK;
    if (s->presence == QWEN3_ONLY) {
        *present = b->m->config.arch == MODEL_QWEN3;
        return STATUS_OK;
    }
    char first[NAME_BYTES];
    (void)snprintf(first, sizeof first, "blk.0.%s", s->suffix);
    *present = gguf_tensor_find(b->g, first) != NULL;
    if (layer > 0 && *present != (gguf_tensor_find(b->g, name) != NULL))
        return err_set(b->err, STATUS_FORMAT, "tensor '%s' is %s, unlike '%s'", name,
                       *present ? "missing" : "present", first);
    return STATUS_OK;
}

static enum status bind_layer(struct binder *b, int index) {
    struct model_layer *layer = &b->m->layers[index];
    for (size_t i = 0; i < N_SLOTS; i++) {
        const struct slot *s = &slots[i];
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "blk.%d.%s", index, s->suffix);
        int present = 0;
        RETURN_IF_ERROR(is_present(b, s, index, name, &present));
        if (!present) continue;
        enum weight_use use = s->n == ONE ? WEIGHT_VECTOR : WEIGHT_MATMUL;
        RETURN_IF_ERROR(bind(b, name, use, extent_of(&b->m->config, s->n), extent_of(&b->m->config, s->k),
                             weight_at(layer, s->at)));
    }
    layer->wq.bias = layer->bq.data;
    layer->wk.bias = layer->bk.data;
    layer->wv.bias = layer->bv.data;
    layer->wo.bias = layer->bo.data;
    return STATUS_OK;
}

static enum status bind_all(struct binder *b) {
    struct model *m = b->m;
    const struct model_config *c = &m->config;
    const char *output = c->tied ? "token_embd.weight" : "output.weight";
    RETURN_IF_ERROR(bind(b, "token_embd.weight", WEIGHT_EMBED, c->n_vocab_rows, c->n_embd, &m->token_embd));
    RETURN_IF_ERROR(bind(b, "output_norm.weight", WEIGHT_VECTOR, 1, c->n_embd, &m->output_norm));
    RETURN_IF_ERROR(bind(b, output, WEIGHT_MATMUL, c->n_vocab_rows, c->n_embd, &m->output));
    for (int i = 0; i < c->n_layer; i++) RETURN_IF_ERROR(bind_layer(b, i));
    return STATUS_OK;
}

static enum status find_factors(struct binder *b, const struct gguf_tensor **out) {
    *out = ask(b, "rope_freqs.weight");
    if (*out == NULL) return STATUS_OK;
    int half = b->m->config.n_rot / 2;
    if ((*out)->dtype != DTYPE_F32)
        return err_set(b->err, STATUS_UNSUPPORTED, "tensor 'rope_freqs.weight': type %s, not f32",
                       dtype_info((int)(*out)->dtype)->name);
    if ((*out)->dims[0] != (uint64_t)half || (*out)->bytes != (uint64_t)half * sizeof(float))
        return err_set(b->err, STATUS_SHAPE, "tensor 'rope_freqs.weight': length %" PRIu64 ", expected %d",
                       (*out)->dims[0], half);
    return STATUS_OK;
}

static enum status refuse_unknown(const struct binder *b) {
    for (uint64_t i = 0; i < gguf_tensor_count(b->g); i++) {
        struct gguf_string name = gguf_tensor_at(b->g, i)->name;
        if (!b->seen[i])
            return err_set(b->err, STATUS_UNSUPPORTED, "tensor '%.*s' is not part of this architecture",
                           (int)name.length, name.data);
    }
    return STATUS_OK;
}

static enum status load(struct model_owner *owner, const gguf *g, int n_ctx, struct err *err) {
    struct model *m = &owner->model;
    struct binder b = {g, m, NULL, 0, err};
    m->layers = calloc((size_t)m->config.n_layer, sizeof *m->layers);
    b.seen = calloc((size_t)gguf_tensor_count(g) + 1, 1);
    const struct gguf_tensor *factors = NULL;
    enum status s = STATUS_OK;
    if (m->layers == NULL || b.seen == NULL) s = err_set(err, STATUS_NOMEM, "no memory for the weight table");
    if (s == STATUS_OK) s = bind_all(&b);
    if (s == STATUS_OK) s = find_factors(&b, &factors);
    if (s == STATUS_OK) s = refuse_unknown(&b);
    b.upload = 1;
    if (s == STATUS_OK) s = model_make_rope(owner, factors, n_ctx, err);
    if (s == STATUS_OK) s = bind_all(&b);
    free(b.seen);
    return s;
}

enum status model_load(const gguf *g, struct backend *backend, int n_ctx, struct model **out,
                       struct err *err) {
    *out = NULL;
    struct model_config config;
    RETURN_IF_ERROR(model_read_config(g, &config, err));
    if (n_ctx < 0 || n_ctx > config.n_ctx)
        return err_set(err, STATUS_USAGE, "a context of %d positions; the model has 1 to %d", n_ctx,
                       config.n_ctx);
    struct model_owner *owner = calloc(1, sizeof *owner);
    if (owner == NULL) return err_set(err, STATUS_NOMEM, "no memory for a model");
    owner->model.config = config;
    owner->model.backend = backend;
    enum status s = load(owner, g, n_ctx > 0 ? n_ctx : config.n_ctx, err);
    if (s != STATUS_OK) {
        model_free(&owner->model);
        return s;
    }
    *out = &owner->model;
    return STATUS_OK;
}

static void drop(struct backend *be, struct weight *w) {
    if (w->data != NULL) be->weight_free(be, w);
}

void model_free(struct model *m) {
    if (m == NULL) return;
    struct model_owner *owner = (struct model_owner *)(void *)m;
    struct backend *be = m->backend;
    drop(be, &m->token_embd);
    drop(be, &m->output_norm);
    drop(be, &m->output);
    for (int i = 0; m->layers != NULL && i < m->config.n_layer; i++)
        for (size_t s = 0; s < N_SLOTS; s++) drop(be, weight_at(&m->layers[i], slots[s].at));
    for (int i = 0; i < 2; i++)
        if (owner->rope_memory[i] != NULL) be->free(be, owner->rope_memory[i]);
    free(m->layers);
    free(owner);
}
