/* explain_record.c - one teacher-forced run of an engine, seen through a tap, written down as a tape (explain_tape.h).
 * Not a comparison: it knows one side only.
 * Idea: every row is reduced to a checksum the moment it exists; what a plan names is kept, everything else is forgotten.
 * Source: ours. Exercise: ctest -R unit.explain */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/checksum.h"
#include "gates/explain_tape.h"

#define CACHE_ROWS 256 /* cache rows looked at in one go */

struct recorder {
    engine *engine;
    const struct tape_plan *plan;
    struct tape *out;
    int step, last_pos;        /* of the step under way */
    int index;                 /* ops seen since the step's or chunk's embed */
    const struct kv_cache *kv; /* of the latest kv_append */
    float *host;               /* rows as f32 */
    size_t host_floats;
    void *raw; /* rows as the backend keeps them */
    size_t raw_bytes;
    struct kernel_count before[BACKEND_KERNELS_MAX];
    char kernel[TAPE_NAME]; /* what ran for the current event */
};

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static enum status need_host(struct recorder *r, size_t floats, struct err *err) {
    if (floats <= r->host_floats) return STATUS_OK;
    float *bigger = realloc(r->host, floats * sizeof *bigger);
    if (bigger == NULL) return err_set(err, STATUS_NOMEM, "trace: no memory for %zu floats", floats);
    r->host = bigger;
    r->host_floats = floats;
    return STATUS_OK;
}

static enum status copy_raw(struct recorder *r, struct backend *b, const void *src, size_t bytes,
                            struct err *err) {
    if (bytes > r->raw_bytes) {
        void *bigger = realloc(r->raw, bytes);
        if (bigger == NULL) return err_set(err, STATUS_NOMEM, "trace: no memory for %zu bytes", bytes);
        r->raw = bigger;
        r->raw_bytes = bytes;
    }
    return b->copy_out(b, r->raw, src, bytes, err);
}

/* ---- which kernel ran ------------------------------------------------------------------------------------------ */

/* The kernels whose counters moved since the last event, "a+b" when there are several. */
static void note_kernel(struct recorder *r) {
    struct kernel_count now[BACKEND_KERNELS_MAX];
    int n = engine_kernel_counts(r->engine, now);
    size_t used = 0;
    r->kernel[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (now[i].calls == r->before[i].calls || used >= sizeof r->kernel) continue;
        int wrote =
            snprintf(r->kernel + used, sizeof r->kernel - used, "%s%s", used > 0 ? "+" : "", now[i].name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    memcpy(r->before, now, (size_t)n * sizeof now[0]);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Rows of one tensor of one event, as f32. */
struct rows {
    const char *op, *tensor;
    int layer;
    int64_t n, cols, stride; /* stride: floats from row to row */
    const float *x;
    const int32_t *pos; /* [n] */
};

static int is_head(const struct rows *y) {
    return y->layer < 0 && strcmp(y->op, "embed") != 0;
}

static struct tape_op describe(const struct recorder *r, const struct rows *y) {
    struct tape_op op;
    memset(&op, 0, sizeof op);
    op.layer = y->layer;
    op.cols = y->cols;
    (void)snprintf(op.op, sizeof op.op, "%s", y->op);
    (void)snprintf(op.tensor, sizeof op.tensor, "%s", y->tensor);
    (void)snprintf(op.kernel, sizeof op.kernel, "%s", r->kernel);
    return op;
}

static enum status keep_row(struct recorder *r, const struct tape_op *what, const float *row, int pos,
                            struct err *err) {
    for (int i = 0; i < r->plan->n_captures; i++) {
        struct tape_capture *c = &r->out->captures[i];
        if (c->pos != pos) continue;
        struct tape_op op = *what;
        op.rows = 1;
        op.sum = checksum_f32(row, op.cols);
        op.at = c->n_values;
        RETURN_IF_ERROR(tape_add_op(&c->ops, &op, err));
        RETURN_IF_ERROR(tape_add_values(c, row, (size_t)op.cols, err));
    }
    return STATUS_OK;
}

/* The sums of the named op, one per row. Here is the only place that walks a tensor: a device that adds in place (the
 * sum has no order) replaces the copy that came before it. */
static enum status take(struct recorder *r, const struct rows *y, struct err *err) {
    struct tape_op what = describe(r, y);
    char key[TAPE_KEY];
    tape_op_key(&what, key);
    int listed = r->step == r->plan->ops_step;
    int rowed = listed && r->plan->rows_of != NULL && strcmp(key, r->plan->rows_of) == 0;
    int index = r->index++;
    if (listed && index >= r->out->ops.n) RETURN_IF_ERROR(tape_add_op(&r->out->ops, &what, err));
    for (int64_t i = 0; i < y->n; i++) {
        int pos = y->pos[i];
        if (is_head(y) && pos != r->last_pos) continue; /* where chunks end is no part of the answer */
        const float *row = y->x + i * y->stride;
        uint64_t sum = checksum_f32(row, y->cols);
        r->out->steps[r->step].sum += checksum_part(sum, (uint64_t)pos, (uint64_t)index);
        if (listed) {
            r->out->ops.op[index].sum += checksum_part(sum, (uint64_t)pos, 0);
            r->out->ops.op[index].rows++;
        }
        if (rowed) RETURN_IF_ERROR(tape_add_row(r->out, pos, sum, row, y->cols, err));
        RETURN_IF_ERROR(keep_row(r, &what, row, pos, err));
    }
    return STATUS_OK;
}

/* ---- the three kinds of event ---------------------------------------------------------------------------------- */

static enum status take_data(struct recorder *r, struct backend *b, const struct tap_event *e,
                             struct err *err) {
    size_t floats = (size_t)e->rows * (size_t)e->cols;
    RETURN_IF_ERROR(need_host(r, floats, err));
    RETURN_IF_ERROR(b->copy_out(b, r->host, e->data, floats * sizeof(float), err));
    struct rows y = {e->op, e->tensor, e->layer, e->rows, e->cols, e->cols, r->host, e->pos};
    return take(r, &y, err);
}

static enum status take_f16(struct recorder *r, struct backend *b, const struct tap_event *e,
                            const char *tensor, struct err *err) {
    int64_t stride = (e->cols + TC_K - 1) / TC_K * TC_K;
    size_t n = (size_t)(e->rows * stride);
    RETURN_IF_ERROR(need_host(r, n, err));
    RETURN_IF_ERROR(copy_raw(r, b, e->act->f16, n * sizeof(uint16_t), err));
    dtype_dequantise(DTYPE_F16, r->raw, r->host, n);
    struct rows y = {e->op, tensor, e->layer, e->rows, e->cols, stride, r->host, e->pos};
    return take(r, &y, err);
}

/* Codes, scales and sums are three tensors: a flipped code, a moved scale and a forgotten sum are different findings. */
static enum status take_q8(struct recorder *r, struct backend *b, const struct tap_event *e,
                           const char *tensor, struct err *err) {
    size_t n = (size_t)(e->rows * e->cols);
    int64_t blocks = e->cols / act_block(e->act->kind), groups = e->cols / ACT_SUM_GROUP;
    char name[TAPE_NAME];
    RETURN_IF_ERROR(need_host(r, n, err));
    RETURN_IF_ERROR(copy_raw(r, b, e->act->q, n, err));
    for (size_t i = 0; i < n; i++) r->host[i] = (float)((const int8_t *)r->raw)[i];
    struct rows codes = {e->op, tensor, e->layer, e->rows, e->cols, e->cols, r->host, e->pos};
    RETURN_IF_ERROR(take(r, &codes, err));
    RETURN_IF_ERROR(b->copy_out(b, r->host, e->act->d, (size_t)(e->rows * blocks) * sizeof(float), err));
    (void)snprintf(name, sizeof name, "%.30s.d", tensor);
    struct rows d = {e->op, name, e->layer, e->rows, blocks, blocks, r->host, e->pos};
    RETURN_IF_ERROR(take(r, &d, err));
    n = (size_t)(e->rows * groups);
    RETURN_IF_ERROR(copy_raw(r, b, e->act->sum, n * sizeof(int16_t), err));
    for (size_t i = 0; i < n; i++) r->host[i] = (float)((const int16_t *)r->raw)[i];
    (void)snprintf(name, sizeof name, "%.30s.sum", tensor);
    struct rows sums = {e->op, name, e->layer, e->rows, groups, groups, r->host, e->pos};
    return take(r, &sums, err);
}

static enum status take_act(struct recorder *r, struct backend *b, const struct tap_event *e,
                            struct err *err) {
    char tensor[TAPE_NAME];
    enum act_kind kind = e->act->kind;
    (void)snprintf(tensor, sizeof tensor, "%.24s.%s", e->tensor, act_kind_name(kind));
    if (kind == ACT_F32) return STATUS_OK; /* aliases its input */
    if (kind == ACT_F16) return take_f16(r, b, e, tensor, err);
    return take_q8(r, b, e, tensor, err);
}

/* Cache rows [first, first + n) of a layer, as f32 in r->host. */
static enum status cache_rows(struct recorder *r, struct backend *b, const struct kv_cache *kv,
                              const void *base, int layer, int first, int n, struct err *err) {
    static const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0, DTYPE_F32}; /* by enum kv_dtype */
    enum dtype t = types[kv->dtype];
    uint64_t row = (uint64_t)kv->n_kv_head * (uint64_t)kv->head_dim, wanted = row * (uint64_t)n;
    uint64_t at = ((uint64_t)layer * (uint64_t)kv->n_ctx + (uint64_t)first) * row;
    const uint8_t *src = (const uint8_t *)base + dtype_bytes(t, at);
    RETURN_IF_ERROR(need_host(r, (size_t)wanted, err));
    RETURN_IF_ERROR(copy_raw(r, b, src, (size_t)dtype_bytes(t, wanted), err));
    dtype_dequantise(t, r->raw, r->host, (size_t)wanted);
    return STATUS_OK;
}

static enum status take_kv(struct recorder *r, struct backend *b, const struct tap_event *e,
                           struct err *err) {
    const struct kv_cache *kv = e->kv[0];
    r->kv = kv;
    for (int half = 0; half < 2; half++) {
        const void *base = half == 0 ? kv->k : kv->v;
        RETURN_IF_ERROR(cache_rows(r, b, kv, base, e->layer, e->pos[0], (int)e->rows, err));
        const char *tensor = half == 0 ? "k_cache" : "v_cache";
        struct rows y = {e->op, tensor, e->layer, e->rows, e->cols, e->cols, r->host, e->pos};
        RETURN_IF_ERROR(take(r, &y, err));
    }
    return STATUS_OK;
}

static float largest(const float *x, int64_t n, float so_far) {
    for (int64_t i = 0; i < n; i++)
        if (fabsf(x[i]) > so_far) so_far = fabsf(x[i]);
    return so_far;
}

/* What attention at `pos` may read: the sum of the layer's cache rows 0 .. pos, and the largest |v|. Captures only. */
static enum status take_cache_seen(struct recorder *r, struct backend *b, const struct tap_event *e,
                                   struct tape_capture *c, struct err *err) {
    struct tape_op op;
    float v_max = 0.0f;
    memset(&op, 0, sizeof op);
    op.layer = e->layer;
    op.rows = c->pos + 1;
    op.cols = 1;
    op.at = c->n_values;
    (void)snprintf(op.op, sizeof op.op, "kv_read");
    (void)snprintf(op.tensor, sizeof op.tensor, "kv");
    int64_t cols = (int64_t)r->kv->n_kv_head * r->kv->head_dim;
    for (int half = 0; half < 2; half++)
        for (int first = 0; first <= c->pos; first += CACHE_ROWS) {
            int n = c->pos + 1 - first < CACHE_ROWS ? c->pos + 1 - first : CACHE_ROWS;
            const void *base = half == 0 ? r->kv->k : r->kv->v;
            RETURN_IF_ERROR(cache_rows(r, b, r->kv, base, e->layer, first, n, err));
            for (int i = 0; i < n; i++)
                op.sum += checksum_part(checksum_f32(r->host + i * cols, cols), (uint64_t)(first + i),
                                        (uint64_t)half);
            if (half == 1) v_max = largest(r->host, n * cols, v_max);
        }
    RETURN_IF_ERROR(tape_add_op(&c->ops, &op, err));
    return tape_add_values(c, &v_max, 1, err);
}

static enum status take_caches_seen(struct recorder *r, struct backend *b, const struct tap_event *e,
                                    struct err *err) {
    for (int i = 0; i < r->plan->n_captures; i++) {
        struct tape_capture *c = &r->out->captures[i];
        if (c->pos < e->pos[0] || c->pos > e->pos[e->rows - 1] || r->kv == NULL) continue;
        RETURN_IF_ERROR(take_cache_seen(r, b, e, c, err));
    }
    return STATUS_OK;
}

static enum status on_event(void *ctx, struct backend *b, const struct tap_event *e, struct err *err) {
    struct recorder *r = ctx;
    if (strcmp(e->op, "embed") == 0) r->index = 0;
    note_kernel(r);
    if (e->act != NULL) return take_act(r, b, e, err);
    if (e->kv != NULL) return take_kv(r, b, e, err);
    if (strcmp(e->op, "attention") == 0) RETURN_IF_ERROR(take_caches_seen(r, b, e, err));
    return take_data(r, b, e, err);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void finish_step(struct recorder *r, session *s, int n_vocab) {
    struct tape_step *t = &r->out->steps[r->step];
    t->pos = r->last_pos;
    t->row = hash_logits(session_logits(s), (size_t)n_vocab);
    t->top = *session_top2(s);
    r->out->n_steps = r->step + 1;
    if (r->plan->progress != NULL)
        r->plan->progress(r->plan->progress_ctx, (uint64_t)r->step + 1, (uint64_t)r->plan->n_steps);
}

static enum status run_steps(struct recorder *r, session *s, struct err *err) {
    const struct tape_plan *p = r->plan;
    struct engine_info info;
    engine_describe(r->engine, &info);
    r->last_pos = (int)p->n_prompt - 1;
    (void)engine_kernel_counts(r->engine, r->before);
    RETURN_IF_ERROR(session_prefill(s, p->prompt, p->n_prompt, err));
    finish_step(r, s, info.n_vocab);
    for (r->step = 1; r->step < p->n_steps; r->step++) {
        r->last_pos = session_pos(s);
        (void)engine_kernel_counts(r->engine, r->before);
        RETURN_IF_ERROR(session_decode(s, p->forced[r->step - 1], err));
        finish_step(r, s, info.n_vocab);
    }
    return STATUS_OK;
}

static enum status tape_prepare(const struct tape_plan *p, struct tape *out, struct err *err) {
    memset(out, 0, sizeof *out);
    if (p->n_steps < 1 || p->n_captures < 0 || p->n_captures > TAPE_CAPTURES)
        return err_set(err, STATUS_USAGE, "trace: %d steps and %d captured rows (1 or more, 0 to %d)",
                       p->n_steps, p->n_captures, TAPE_CAPTURES);
    out->steps = calloc((size_t)p->n_steps, sizeof *out->steps);
    if (out->steps == NULL) return err_set(err, STATUS_NOMEM, "trace: no memory for %d steps", p->n_steps);
    out->n_captures = p->n_captures;
    for (int i = 0; i < p->n_captures; i++) out->captures[i].pos = p->captures[i];
    return STATUS_OK;
}

enum status tape_record(engine *e, const struct tape_plan *plan, struct tape *out, struct err *err) {
    session *s = NULL;
    RETURN_IF_ERROR(tape_prepare(plan, out, err));
    struct recorder *r = calloc(1, sizeof *r);
    if (r == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    r->engine = e;
    r->plan = plan;
    r->out = out;
    enum status st = session_create(e, &s, err);
    if (st == STATUS_OK) {
        engine_set_tap(e, on_event, r);
        st = run_steps(r, s, err);
        engine_set_tap(e, NULL, NULL);
    }
    session_close(s);
    free(r->host);
    free(r->raw);
    free(r);
    return st;
}
