/* gate_rope_table.c - CLAIM: keys and queries of the loaded model are rotated by pos * base^(-2i/n_rot), in the pairs its
 * architecture uses, at every position of its first step: of the whole context where that is at most CHUNK_MAX (4096).
 * Needs: model. Arms: q, k: layer 0 of that step, watched before and after the rotation (the step is stopped there, so 4096
 * positions cost a fraction of a second); a/a: that step again; negative: one of those values moved by 1.5 bounds must be seen.
 * Not op.rope: that judges the rotation by a given table; here the table and the pair order are the engine's own.
 * Exercise: forkgate run --only model.rope */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"
#include "gates/budget.h"
#include "gates/compare.h"
#include "gates/model/again.h"
#include "gates/model/model_gates.h"

/* What the model file says about its rotation. */
struct rotation {
    int n_rot, interleaved;
    double base, linear;
    const float *factors; /* [n_rot/2] or NULL */
};

struct watch {
    struct rotation rot;
    int head_dim, n_ctx;
    int64_t rows;
    float *before[2], *after[2]; /* q, k: [rows, cols] */
    int64_t cols[2];
    int32_t *pos; /* [rows] */
    int complete;
    engine *engine; /* whose step it was */
};

/* ---- the file's own words ------------------------------------------------------------------------------------ */
static const char *key_of(const char *arch, const char *rest, char out[96]) {
    (void)snprintf(out, 96, "%.40s.%.50s", arch, rest);
    return out;
}

static enum status read_rotation(const gguf *g, int head_dim, struct rotation *out, struct err *err) {
    struct gguf_string arch, type;
    char name[48], key[96];
    float value = 0;
    uint32_t n_rot = (uint32_t)head_dim;
    RETURN_IF_ERROR(gguf_get_string(g, "general.architecture", &arch, err));
    (void)snprintf(name, sizeof name, "%.*s", (int)(arch.length < 40 ? arch.length : 40), arch.data);
    out->base = 10000.0;
    out->linear = 1.0;
    if (gguf_get_f32(g, key_of(name, "rope.freq_base", key), &value, NULL) == STATUS_OK)
        out->base = (double)value;
    (void)gguf_get_u32(g, key_of(name, "rope.dimension_count", key), &n_rot, NULL);
    value = 0;
    if (gguf_get_f32(g, key_of(name, "rope.scaling.factor", key), &value, NULL) != STATUS_OK)
        (void)gguf_get_f32(g, key_of(name, "rope.scale_linear", key), &value, NULL); /* its older name */
    int linear = 1; /* what a factor means where no type is given */
    if (gguf_get_string(g, key_of(name, "rope.scaling.type", key), &type, NULL) == STATUS_OK)
        linear = type.length == 6 && memcmp(type.data, "linear", 6) == 0;
    if (linear && value > 0) out->linear = (double)value;
    const struct gguf_tensor *t = gguf_tensor_find(g, "rope_freqs.weight");
    out->factors = t == NULL ? NULL : t->data;
    out->n_rot = (int)n_rot;
    out->interleaved = strcmp(name, "llama") == 0; /* llama files hold pairs (2i, 2i+1), qwen files halves */
    return STATUS_OK;
}

/* ---- watching ------------------------------------------------------------------------------------------------ */
static enum status keep(struct watch *w, struct backend *b, const struct tap_event *e, float **to, int which,
                        struct err *err) {
    size_t bytes = (size_t)(e->rows * e->cols) * sizeof(float);
    free(*to);
    *to = malloc(bytes);
    if (*to == NULL) return err_set(err, STATUS_NOMEM, "rope: %zu bytes", bytes);
    w->cols[which] = e->cols;
    w->rows = e->rows;
    return b->copy_out(b, *to, e->data, bytes, err);
}

static int named(const char *tensor, const char *a, const char *b) {
    return strcmp(tensor, a) == 0 || strcmp(tensor, b) == 0;
}

static enum status see(void *ctx, struct backend *b, const struct tap_event *e, struct err *err) {
    struct watch *w = ctx;
    if (e->data == NULL || e->layer != 0) return STATUS_OK;
    if (named(e->tensor, "q", "q_norm")) return keep(w, b, e, &w->before[0], 0, err);
    if (named(e->tensor, "k", "k_norm")) return keep(w, b, e, &w->before[1], 1, err);
    if (strcmp(e->tensor, "q_rope") == 0) return keep(w, b, e, &w->after[0], 0, err);
    if (strcmp(e->tensor, "k_rope") != 0) return STATUS_OK;
    RETURN_IF_ERROR(keep(w, b, e, &w->after[1], 1, err));
    w->pos = malloc((size_t)e->rows * sizeof *w->pos);
    if (w->pos == NULL || e->pos == NULL) return err_set(err, STATUS_NOMEM, "rope: positions");
    memcpy(w->pos, e->pos, (size_t)e->rows * sizeof *w->pos);
    w->complete = 1;
    return err_set(err, STATUS_LIMIT, "seen"); /* nothing behind the rotation is wanted */
}

static enum status run_step(engine *e, struct watch *w, int n, struct err *err) {
    session *s = NULL;
    int32_t *ids = calloc((size_t)n, sizeof *ids);
    if (ids == NULL) return err_set(err, STATUS_NOMEM, "rope: out of memory");
    for (int i = 0; i < n; i++) ids[i] = 1 + i % 97;
    enum status status = session_create(e, &s, err);
    if (status == STATUS_OK) {
        engine_set_tap(e, see, w);
        status = session_prefill(s, ids, (size_t)n, err);
        engine_set_tap(e, NULL, NULL);
        if (w->complete)
            status = STATUS_OK;
        else if (status == STATUS_OK)
            status = err_set(err, STATUS_INVALID, "rope: the engine showed no rotation");
    }
    session_close(s);
    free(ids);
    return status;
}

/* ---- judging ------------------------------------------------------------------------------------------------- */
static void true_rotation(const struct watch *w, int which, double *truth, double *scale) {
    const struct rotation *r = &w->rot;
    int half = r->n_rot / 2, n_head = (int)(w->cols[which] / w->head_dim);
    for (int64_t row = 0; row < w->rows; row++) {
        for (int h = 0; h < n_head; h++) {
            int64_t at = row * w->cols[which] + (int64_t)h * w->head_dim;
            for (int d = r->n_rot; d < w->head_dim; d++) truth[at + d] = (double)w->before[which][at + d];
            for (int i = 0; i < half; i++) {
                int64_t ia = at + (r->interleaved ? 2 * i : i),
                        ib = at + (r->interleaved ? 2 * i + 1 : i + half);
                double freq = pow(r->base, -2.0 * i / r->n_rot) / r->linear;
                if (r->factors != NULL) freq /= (double)r->factors[i];
                double a = (double)w->before[which][ia], b = (double)w->before[which][ib];
                double c = cos(w->pos[row] * freq), s = sin(w->pos[row] * freq);
                truth[ia] = a * c - b * s;
                truth[ib] = a * s + b * c;
                scale[ia] = scale[ib] = fabs(a) + fabs(b) + 0x1p-125;
            }
        }
    }
}

static struct evidence start_row(const struct watch *w, const char *arm, const char *metric) {
    struct evidence row;
    char of[40] = "";
    memset(&row, 0, sizeof row);
    if (w->rows < w->n_ctx) (void)snprintf(of, sizeof of, " of %d", w->n_ctx);
    (void)snprintf(row.test_case, sizeof row.test_case, "positions 0 to %lld%s", (long long)w->rows - 1, of);
    (void)snprintf(row.arm, sizeof row.arm, "%s", arm);
    (void)snprintf(row.metric, sizeof row.metric, "%s", metric);
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --only model.rope");
    streams_note_kernels(w->engine, row.kernels, sizeof row.kernels);
    return row;
}

/* The last rotated value of the last position moves by 1.5 bounds: the judge must see it. */
static void negative(const struct gate_context *ctx, const struct watch *w, int which, const double *truth,
                     const double *scale, const struct compare_shape *shape,
                     const struct compare_bounds *bounds) {
    size_t at = (size_t)(w->rows * w->cols[which]) - 1;
    while (at > 0 && !(scale[at] > 0)) at--; /* behind n_rot values are only passed through */
    float kept = w->after[which][at];
    double moved = truth[at] + 1.5 * bounds->pointwise * scale[at];
    w->after[which][at] = (float)moved;
    if ((double)w->after[which][at] < moved) w->after[which][at] = nextafterf((float)moved, INFINITY);
    struct compare_result r = compare_values(truth, scale, shape, w->after[which], shape, bounds);
    w->after[which][at] = kept;
    struct evidence row = start_row(w, "negative", "missed");
    row.value = r.verdict != VERDICT_FAIL;
    row.verdict = r.verdict == VERDICT_FAIL ? VERDICT_PASS : VERDICT_BLIND;
    (void)snprintf(row.note, sizeof row.note, "detection floor: %.3g in one value of the last position",
                   moved - truth[at]);
    ctx->emit(ctx->sink, &row);
}

static enum status judge(const struct gate_context *ctx, const struct watch *w, int which,
                         const struct compare_bounds *bounds, struct err *err) {
    size_t n = (size_t)(w->rows * w->cols[which]);
    double *truth = calloc(n, sizeof *truth), *scale = calloc(n, sizeof *scale);
    if (truth == NULL || scale == NULL) {
        free(truth);
        free(scale);
        return err_set(err, STATUS_NOMEM, "rope: out of memory");
    }
    true_rotation(w, which, truth, scale);
    struct compare_shape shape = {2, {w->rows, w->cols[which], 0, 0}};
    struct compare_result r = compare_values(truth, scale, &shape, w->after[which], &shape, bounds);
    struct evidence row = start_row(w, which == 0 ? "q" : "k", "max_scaled");
    (void)snprintf(row.note, sizeof row.note, "[position, column] %s", r.reason);
    row.value = r.errors.max_scaled;
    row.bound = bounds->pointwise;
    row.verdict = compare_judge(row.value, row.bound);
    ctx->emit(ctx->sink, &row);
    if (which == 1) negative(ctx, w, which, truth, scale, &shape, bounds);
    free(truth);
    free(scale);
    return STATUS_OK;
}

static void forget(struct watch *w) {
    for (int i = 0; i < 2; i++) {
        free(w->before[i]);
        free(w->after[i]);
    }
    free(w->pos);
}

/* The step once more, by tables that were made once more; of a large model by the same ones, in another session. */
static enum status again(const struct gate_context *ctx, engine *e, const struct watch *w, struct err *err) {
    struct engine_info info;
    struct watch second;
    struct hash128 rows[2] = {{{0}}, {{0}}};
    struct stream_arm own = {ctx, "model.rope", ROUTE_F16, e, NULL};
    char name[64];
    engine_describe(e, &info);
    memset(&second, 0, sizeof second);
    int reopen = (long long)info.model_bytes <= BATTERY_BRIEF_BYTES;
    if (reopen) RETURN_IF_ERROR(engine_open(ctx->model_path, &info.config, &own.engine, err));
    enum status s = run_step(own.engine, &second, (int)w->rows, err);
    for (int i = 0; i < 2 && s == STATUS_OK; i++) {
        again_add(&rows[0], w->after[i], (size_t)(w->rows * w->cols[i]));
        again_add(&rows[1], second.after[i], (size_t)(second.rows * second.cols[i]));
    }
    (void)snprintf(name, sizeof name, "positions 0 to %lld", (long long)w->rows - 1);
    if (s == STATUS_OK) again_row(&own, name, &rows[0], &rows[1]);
    if (reopen) engine_close(own.engine);
    forget(&second);
    return s;
}

static enum status watch_and_judge(const struct gate_context *ctx, engine *e, struct watch *w, const gguf *g,
                                   struct err *err) {
    struct engine_info info;
    struct compare_bounds bounds = {0, 0, 0, 0};
    struct budgets budgets;
    char path[4096];
    engine_describe(e, &info);
    w->engine = e;
    w->head_dim = info.head_dim;
    w->n_ctx = info.n_ctx;
    RETURN_IF_ERROR(read_rotation(g, info.head_dim, &w->rot, err));
    (void)snprintf(path, sizeof path, "%s/golden/budgets.csv", ctx->source_dir);
    RETURN_IF_ERROR(budgets_load(path, &budgets, err));
    enum status s = budgets_bound(&budgets, "rope_model", "f32", "max_scaled", &bounds.pointwise, err);
    budgets_free(&budgets);
    bounds.global = bounds.pointwise;
    if (s == STATUS_OK)
        s = run_step(e, w, info.config.chunk < info.n_ctx ? info.config.chunk : info.n_ctx, err);
    if (s == STATUS_OK) s = judge(ctx, w, 0, &bounds, err);
    if (s == STATUS_OK) s = judge(ctx, w, 1, &bounds, err);
    return s == STATUS_OK ? again(ctx, e, w, err) : s;
}

static enum status run(const struct gate_context *ctx, struct err *err) {
    struct engine_config config = ctx->config;
    engine *e = NULL;
    gguf *g = NULL;
    struct watch w;
    memset(&w, 0, sizeof w);
    config.compute.route = ROUTE_F16;
    config.compute.graphs = 0;
    config.kv = KV_F16;
    config.chunk = CHUNK_MAX; /* as much of the context as one step takes */
    RETURN_IF_ERROR(gguf_open(ctx->model_path, &g, err));
    enum status s = engine_open(ctx->model_path, &config, &e, err);
    if (s == STATUS_OK) s = watch_and_judge(ctx, e, &w, g, err);
    engine_close(e);
    gguf_close(g);
    forget(&w);
    return s;
}

const struct gate gate_model_rope = {
    "model.rope",
    TIER_PARITY,
    "the model's keys and queries are rotated rightly at every position of one step (at most 4096)",
    1,
    0,
    120,
    run};
