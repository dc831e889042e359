/* session.c - implements engine.h: open, sessions, chunked prefill, decode, batches, rewind. */
#include "engine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "forward.h"
#include "gguf.h"
#include "model.h"
#include "vocab.h"

struct engine {
    uint64_t serial;
    struct engine_config config;
    gguf *file;
    vocab *vocab;
    struct backend *backend;
    struct model *model;
    struct workspace ws;
    struct observer observer;
    struct device_info device;
};

struct session {
    engine *engine;
    struct kv_cache kv;
    int pos;
    int has_logits;
    float *logits; /* [n_vocab] host copy (backend host_alloc) */
    struct top2 top;
    uint64_t overflows;
};

/* ---- engine ---------------------------------------------------------------------------------------------------- */

struct engine_config engine_config_default(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct engine_config c;
    memset(&c, 0, sizeof c);
    c.backend = BACKEND_CPU;
    c.compute.route = ROUTE_F16;
    c.compute.arch = ARCH_SM90;
    c.compute.geometry = geometry_default(ARCH_SM90);
    c.compute.n_threads = cores < 1 ? 1 : cores > 64 ? 64 : (int)cores;
    c.compute.simd = SIMD_AUTO;
    c.compute.graphs = 1;
    c.kv = KV_F16;
    c.chunk = CHUNK_DEFAULT;
    return c;
}

static enum status engine_check(const struct engine_config *c, struct err *err) {
    RETURN_IF_ERROR(geometry_check(&c->compute.geometry, err));
    if (c->kv == KV_F32 && c->compute.route != ROUTE_F32)
        return err_set(err, STATUS_USAGE, "--kv f32 goes with --route f32 only, not with %s",
                       route_name(c->compute.route));
    if (c->chunk < 1 || c->chunk > CHUNK_MAX)
        return err_set(err, STATUS_USAGE, "--chunk %d must be 1 to %d", c->chunk, CHUNK_MAX);
    if (c->compute.n_threads < 1 || c->compute.n_threads > 64)
        return err_set(err, STATUS_USAGE, "--threads %d must be 1 to 64", c->compute.n_threads);
    if (c->n_ctx < 0) return err_set(err, STATUS_USAGE, "context length %d must not be negative", c->n_ctx);
    if (c->backend == BACKEND_CUDA && c->compute.route == ROUTE_F32)
        return err_set(err, STATUS_USAGE, "--route f32 runs on the CPU only");
    return STATUS_OK;
}

static enum status engine_load(engine *e, const char *path, struct err *err) {
    RETURN_IF_ERROR(gguf_open(path, &e->file, err));
    struct model_config mc;
    enum status s = model_read_config(e->file, &mc, err);
    if (s != STATUS_OK) return err_prefix(err, s, "%s", path);
    if (e->config.n_ctx == 0 || e->config.n_ctx > mc.n_ctx) e->config.n_ctx = mc.n_ctx;
    s = vocab_open(e->file, &e->vocab, err);
    if (s != STATUS_OK) return err_prefix(err, s, "%s", path);
    if (e->config.backend == BACKEND_CUDA) {
        RETURN_IF_ERROR(backend_cuda_device(&e->device, err));
        RETURN_IF_ERROR(backend_cuda_open(&e->config.compute, &e->backend, err));
    } else {
        RETURN_IF_ERROR(backend_cpu_open(&e->config.compute, &e->backend, err));
    }
    s = model_load(e->file, e->backend, e->config.n_ctx, &e->model, err);
    if (s != STATUS_OK) return err_prefix(err, s, "%s", path);
    int rows = e->config.chunk > SCORE_ROWS ? e->config.chunk : SCORE_ROWS;
    return workspace_open(e->model, rows, e->config.n_ctx, &e->ws, err);
}

enum status engine_open(const char *model_path, const struct engine_config *config, engine **out,
                        struct err *err) {
    *out = NULL;
    RETURN_IF_ERROR(engine_check(config, err));
    engine *e = calloc(1, sizeof *e);
    if (e == NULL) return err_set(err, STATUS_NOMEM, "engine: out of memory");
    static atomic_uint_fast64_t opened;
    e->serial = atomic_fetch_add(&opened, 1) + 1;
    e->config = *config;
    enum status s = engine_load(e, model_path, err);
    if (s != STATUS_OK) {
        engine_close(e);
        return s;
    }
    *out = e;
    return STATUS_OK;
}

void engine_close(engine *e) {
    if (e == NULL) return;
    if (e->model != NULL) workspace_close(e->model, &e->ws);
    model_free(e->model);
    if (e->backend != NULL) e->backend->close(e->backend);
    vocab_close(e->vocab);
    gguf_close(e->file);
    free(e->observer.host);
    free(e);
}

void engine_describe(const engine *e, struct engine_info *out) {
    static const char *const arch[] = {"llama", "qwen2", "qwen3"};
    const struct model_config *c = &e->model->config;
    memset(out, 0, sizeof *out);
    out->serial = e->serial;
    memcpy(out->model_name, c->name, sizeof out->model_name);
    strncpy(out->architecture, arch[c->arch], sizeof out->architecture - 1);
    strncpy(out->tokenizer, vocab_pre_name(e->vocab), sizeof out->tokenizer - 1);
    out->model_bytes = gguf_file_bytes(e->file);
    out->n_layer = c->n_layer;
    out->n_embd = c->n_embd;
    out->n_head = c->n_head;
    out->n_kv_head = c->n_kv_head;
    out->head_dim = c->head_dim;
    out->n_ff = c->n_ff;
    out->n_vocab = c->n_vocab;
    out->n_ctx = e->config.n_ctx;
    out->tied = c->tied;
    out->config = e->config;
    out->device = e->device;
}

const void *engine_model_data(const engine *e, uint64_t *bytes) {
    *bytes = gguf_file_bytes(e->file);
    return gguf_file_data(e->file);
}

enum status engine_encode(const engine *e, const char *text, size_t length, int parse_special, int32_t **ids,
                          size_t *n, struct err *err) {
    return vocab_encode(e->vocab, text, length, 1, parse_special, ids, n, err);
}

void engine_token_bytes(const engine *e, int32_t id, const uint8_t **bytes, size_t *length) {
    vocab_bytes(e->vocab, id, bytes, length);
}

int engine_is_end(const engine *e, int32_t id) {
    return vocab_is_end(e->vocab, id);
}

/* A replayed graph runs no host code between ops, so a watched step is always an eager one (same bits). */
static void choose_graphs(engine *e) {
    int watched = e->observer.fn != NULL || e->observer.tap != NULL;
    e->backend->config.graphs = watched ? 0 : e->config.compute.graphs;
}

enum status engine_set_trace(engine *e, trace_fn *fn, void *ctx, struct err *err) {
    const struct model_config *c = &e->model->config;
    e->observer.fn = NULL;
    if (fn != NULL && e->observer.host == NULL) {
        size_t widest = (size_t)(c->n_ff > c->n_embd ? c->n_ff : c->n_embd);
        size_t q_cols = (size_t)c->n_head * (size_t)c->head_dim;
        if (q_cols > widest) widest = q_cols;
        size_t floats = widest * (size_t)e->ws.max_rows, head = (size_t)SCORE_ROWS * (size_t)c->n_vocab_rows;
        if (head > floats) floats = head;
        e->observer.host = malloc(floats * sizeof(float));
        if (e->observer.host == NULL)
            return err_set(err, STATUS_NOMEM, "trace: no memory for %zu floats", floats);
        e->observer.host_floats = floats;
    }
    e->observer.fn = fn;
    e->observer.ctx = ctx;
    choose_graphs(e);
    return STATUS_OK;
}

void engine_set_tap(engine *e, tap_fn *fn, void *ctx) {
    e->observer.tap = fn;
    e->observer.tap_ctx = ctx;
    choose_graphs(e);
}

int engine_kernel_counts(engine *e, struct kernel_count out[BACKEND_KERNELS_MAX]) {
    return e->backend->kernel_counts(e->backend, out);
}

struct backend *engine_backend(engine *e) {
    return e->backend;
}

/* ---- sessions -------------------------------------------------------------------------------------------------- */

static size_t kv_bytes(const struct kv_cache *kv) {
    size_t elements = (size_t)kv->n_layer * (size_t)kv->n_ctx * (size_t)kv->n_kv_head * (size_t)kv->head_dim;
    if (kv->dtype == KV_F32) return elements * sizeof(float);
    if (kv->dtype == KV_F16) return elements * sizeof(uint16_t);
    return elements / QK_32 * sizeof(struct block_q8_0);
}

enum status session_create(engine *e, session **out, struct err *err) {
    const struct model_config *c = &e->model->config;
    *out = NULL;
    if (e->config.kv == KV_Q8_0 && c->head_dim % QK_32 != 0)
        return err_set(err, STATUS_UNSUPPORTED, "--kv q8_0 needs a head_dim that is a multiple of %d, not %d",
                       QK_32, c->head_dim);
    session *s = calloc(1, sizeof *s);
    if (s == NULL) return err_set(err, STATUS_NOMEM, "session: out of memory");
    s->engine = e;
    struct kv_cache kv = {e->config.kv, c->n_layer, e->config.n_ctx, c->n_kv_head, c->head_dim, NULL, NULL};
    s->kv = kv;
    void *logits;
    enum status st = e->backend->host_alloc(e->backend, (size_t)c->n_vocab * sizeof(float), &logits, err);
    s->logits = logits;
    size_t bytes = kv_bytes(&s->kv);
    if (st == STATUS_OK) st = e->backend->alloc(e->backend, bytes, &s->kv.k, err);
    if (st == STATUS_OK) st = e->backend->alloc(e->backend, bytes, &s->kv.v, err);
    if (st != STATUS_OK) {
        session_close(s);
        return err_prefix(err, st, "session: KV cache of 2 x %zu bytes", bytes);
    }
    *out = s;
    return STATUS_OK;
}

void session_close(session *s) {
    if (s == NULL) return;
    struct backend *b = s->engine->backend;
    struct err ignored; /* a graph that could not be dropped is dropped with the backend */
    (void)b->step_forget(b, &ignored);
    if (s->kv.k != NULL) b->free(b, s->kv.k);
    if (s->kv.v != NULL) b->free(b, s->kv.v);
    b->host_free(b, s->logits);
    free(s);
}

int session_pos(const session *s) {
    return s->pos;
}
int session_room(const session *s) {
    return s->kv.n_ctx - s->pos;
}
const float *session_logits(const session *s) {
    return s->has_logits ? s->logits : NULL;
}
const struct top2 *session_top2(const session *s) {
    return s->has_logits ? &s->top : NULL;
}
uint64_t session_overflows(const session *s) {
    return s->overflows;
}
struct kv_cache *session_kv(session *s) {
    return &s->kv;
}

static enum status check_tokens(const session *s, const int32_t *ids, size_t n, struct err *err) {
    int n_vocab = s->engine->model->config.n_vocab;
    if (n == 0)
        return err_set(err, STATUS_USAGE, "session: no tokens (an empty prompt has nothing to continue)");
    if (n > (size_t)session_room(s))
        return err_set(err, STATUS_LIMIT, "session: %zu tokens do not fit: position %d of %d", n, s->pos,
                       s->kv.n_ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab)
            return err_set(err, STATUS_INVALID, "session: token id %d at %zu is outside the vocabulary of %d",
                           ids[i], i, n_vocab);
    return STATUS_OK;
}

/* One step of the backend: rows in; logits and top-2 of rows [head_row, n_rows) are left in the workspace, and row i of
 * them is copied to takers[i], in the step's one wait. */
static enum status run_step(engine *e, const struct step *st, int head_row, session *const *takers,
                            int n_takers, uint64_t *overflows, struct err *err) {
    struct backend *b = e->backend;
    const struct model_config *c = &e->model->config;
    struct fetch f[FETCHES_MAX];
    int replayed = 0;
    for (int i = 0; i < n_takers; i++) {
        const float *row = e->ws.logits + (int64_t)i * c->n_vocab_rows;
        f[2 * i] = (struct fetch){takers[i]->logits, row, (size_t)c->n_vocab * sizeof(float)};
        f[2 * i + 1] = (struct fetch){&takers[i]->top, e->ws.top + i, sizeof takers[i]->top};
    }
    RETURN_IF_ERROR(b->step_begin(b, st, &replayed, err));
    if (!replayed) RETURN_IF_ERROR(forward_step(e->model, &e->ws, st, head_row, &e->observer, err));
    RETURN_IF_ERROR(b->step_end(b, st, err));
    RETURN_IF_ERROR(b->fetch(b, f, 2 * n_takers, overflows, err));
    for (int i = 0; i < n_takers; i++) takers[i]->has_logits = 1;
    return STATUS_OK;
}

/* Copies row `row` of the workspace's head output into the session. */
static enum status take_logits(session *s, int row, struct err *err) {
    engine *e = s->engine;
    const struct model_config *c = &e->model->config;
    const float *from = e->ws.logits + (int64_t)row * c->n_vocab_rows;
    s->has_logits = 0;
    RETURN_IF_ERROR(
        e->backend->copy_out(e->backend, s->logits, from, (size_t)c->n_vocab * sizeof(float), err));
    RETURN_IF_ERROR(e->backend->copy_out(e->backend, &s->top, e->ws.top + row, sizeof s->top, err));
    s->has_logits = 1;
    return STATUS_OK;
}

/* Runs ids[0..n) as one step of consecutive rows; takes the first logits row when asked to. */
static enum status append_rows(session *s, const int32_t *ids, int n, int head_row, int takes,
                               struct err *err) {
    int32_t pos[CHUNK_MAX];
    const struct kv_cache *kv[1] = {&s->kv};
    session *const one[1] = {s};
    for (int i = 0; i < n; i++) pos[i] = s->pos + i;
    struct step st = {n, 1, ids, pos, kv};
    uint64_t overflows = 0;
    s->has_logits = 0;
    RETURN_IF_ERROR(run_step(s->engine, &st, head_row, one, takes, &overflows, err));
    s->pos += n;
    s->overflows += overflows;
    return STATUS_OK;
}

enum status session_prefill(session *s, const int32_t *ids, size_t n, struct err *err) {
    RETURN_IF_ERROR(check_tokens(s, ids, n, err));
    size_t chunk = (size_t)s->engine->config.chunk;
    for (size_t at = 0; at < n; at += chunk) {
        int rows = (int)(n - at < chunk ? n - at : chunk);
        RETURN_IF_ERROR(append_rows(s, ids + at, rows, rows - 1, at + chunk >= n, err));
    }
    return STATUS_OK;
}

enum status session_score(session *s, const int32_t *ids, size_t n, score_fn *fn, void *ctx,
                          struct err *err) {
    RETURN_IF_ERROR(check_tokens(s, ids, n, err));
    size_t chunk = (size_t)s->engine->config.chunk;
    if (chunk > SCORE_ROWS) chunk = SCORE_ROWS;
    for (size_t at = 0; at < n; at += chunk) {
        int rows = (int)(n - at < chunk ? n - at : chunk), first = s->pos;
        RETURN_IF_ERROR(append_rows(s, ids + at, rows, 0, 0, err));
        for (int r = 0; r < rows; r++) {
            RETURN_IF_ERROR(take_logits(s, r, err));
            RETURN_IF_ERROR(fn(ctx, first + r, s->logits, &s->top, err));
        }
    }
    return STATUS_OK;
}

enum status engine_decode_batch(engine *e, session *const *sessions, const int32_t *ids, int n,
                                struct err *err) {
    if (n < 1 || n > BATCH_MAX)
        return err_set(err, STATUS_USAGE, "decode: %d streams in a batch (1 to %d)", n, BATCH_MAX);
    int32_t pos[BATCH_MAX];
    const struct kv_cache *kv[BATCH_MAX];
    for (int i = 0; i < n; i++) {
        if (sessions[i]->engine != e)
            return err_set(err, STATUS_USAGE, "decode: session %d is of another engine", i);
        for (int j = 0; j < i; j++)
            if (sessions[i] == sessions[j])
                return err_set(err, STATUS_USAGE,
                               "decode: session %d is in the batch twice (slots %d and %d)", j, j, i);
        RETURN_IF_ERROR(check_tokens(sessions[i], ids + i, 1, err));
        pos[i] = sessions[i]->pos;
        kv[i] = &sessions[i]->kv;
        sessions[i]->has_logits = 0;
    }
    struct step st = {n, n, ids, pos, kv};
    uint64_t overflows = 0;
    RETURN_IF_ERROR(run_step(e, &st, 0, sessions, n, &overflows, err));
    for (int i = 0; i < n; i++) {
        sessions[i]->pos++;
        sessions[i]->overflows +=
            overflows; /* which row it was is not known: every stream of the step is suspect */
    }
    return STATUS_OK;
}

enum status session_decode(session *s, int32_t id, struct err *err) {
    session *const one[1] = {s};
    return engine_decode_batch(s->engine, one, &id, 1, err);
}

enum status session_rewind(session *s, int pos, struct err *err) {
    if (pos < 0 || pos > s->pos)
        return err_set(err, STATUS_USAGE, "rewind: position %d is not in 0 to %d", pos, s->pos);
    s->has_logits = 0;
    if (pos > 0 && pos < s->pos && FAULT(KV_REWIND)) return STATUS_OK;
    s->pos = pos == 0 && s->pos > 0 && FAULT(KV_STALE) ? 1 : pos;
    return STATUS_OK;
}
