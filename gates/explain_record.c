/* explain_record.c - one teacher-forced run of an engine, seen through a tap, written down as a tape (explain_tape.h).
 * Not a comparison: it knows one side only.
 * Idea: every row is reduced to a checksum where it lies (backend row_sums); only rows that a plan names are copied, one at
 * a time. What waits for a partner is looked at after its launch, so a watched step launches what an unwatched one does.
 * Source: ours. Exercise: ctest -R unit.explain */
#include <stdlib.h>
#include <string.h>

#include "engine/checksum.h"
#include "gates/explain_tape.h"

#define CACHE_ROWS 256 /* cache rows looked at in one go */
#define HELD_MAX   8   /* events whose op has not been launched yet */
#define BUFFERS_MAX                                                                                          \
    512 /* buffers told apart: those of a workspace, and two halves of a cache for each layer */

struct recorder {
    engine *engine;
    const struct tape_plan *plan;
    struct tape *out;
    int step, last_pos;        /* of the step under way */
    int index;                 /* ops seen since the step's or chunk's embed */
    const struct kv_cache *kv; /* of the latest kv_append */
    float *host;               /* one row as f32 */
    size_t host_floats;
    void *raw; /* bytes as the backend keeps them */
    size_t raw_bytes;
    struct row_sum *sums;
    size_t n_sums;
    struct tap_event held[HELD_MAX]; /* [n_held], oldest first */
    int n_held;
    struct kernel_count before[BACKEND_KERNELS_MAX];
    char kernel[TAPE_NAME];           /* what ran for the current events */
    const void *buffers[BUFFERS_MAX]; /* [n_buffers] where results were left */
    int n_buffers;
};

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static enum status need(void **buffer, size_t *room, size_t n, size_t item_bytes, struct err *err) {
    if (n <= *room) return STATUS_OK;
    void *bigger = realloc(*buffer, n * item_bytes);
    if (bigger == NULL) return err_set(err, STATUS_NOMEM, "trace: no memory for %zu bytes", n * item_bytes);
    *buffer = bigger;
    *room = n;
    return STATUS_OK;
}

static void note_held(struct recorder *r) {
    const struct tape *t = r->out;
    uint64_t bytes = r->host_floats * sizeof *r->host + r->raw_bytes + r->n_sums * sizeof *r->sums +
                     t->rows_room * sizeof *t->rows + t->row_values_room * sizeof(float);
    for (int i = 0; i < t->n_captures; i++) bytes += t->captures[i].room * sizeof(float);
    if (bytes > r->out->cost.held) r->out->cost.held = bytes;
}

static enum status copy_raw(struct recorder *r, struct backend *b, const void *src, size_t bytes,
                            struct err *err) {
    RETURN_IF_ERROR(need(&r->raw, &r->raw_bytes, bytes, 1, err));
    r->out->cost.copied += bytes;
    return b->peek(b, r->raw, src, bytes, err);
}

/* ---- which kernel ran ------------------------------------------------------------------------------------------ */

/* The kernels whose counters moved since the last look, "a+b" when there are several. */
static void note_kernel(struct recorder *r, const struct kernel_count *now, int n) {
    size_t used = 0;
    r->kernel[0] = '\0';
    for (int i = 0; i < n; i++) {
        if (now[i].calls == r->before[i].calls || used >= sizeof r->kernel) continue;
        int wrote =
            snprintf(r->kernel + used, sizeof r->kernel - used, "%s%s", used > 0 ? "+" : "", now[i].name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Rows of one tensor of one event, in backend memory. */
struct rows {
    const char *op, *tensor;
    int layer;
    struct row_span at;
    const int32_t *pos; /* [at.n] */
    const void *buffer; /* NULL: at.data */
};

static int is_head(const struct rows *y) {
    return y->layer < 0 && strcmp(y->op, "embed") != 0;
}

/* Addresses by order of appearance; -1 past BUFFERS_MAX. */
static int buffer_number(struct recorder *r, const void *address) {
    int i = 0;
    while (i < r->n_buffers && r->buffers[i] != address) i++;
    if (i == BUFFERS_MAX) return -1;
    if (i == r->n_buffers) r->buffers[r->n_buffers++] = address;
    return i;
}

static struct tape_op describe(struct recorder *r, const struct rows *y) {
    struct tape_op op;
    memset(&op, 0, sizeof op);
    op.layer = y->layer;
    op.cols = y->at.cols;
    (void)snprintf(op.op, sizeof op.op, "%s", y->op);
    (void)snprintf(op.tensor, sizeof op.tensor, "%s", y->tensor);
    (void)snprintf(op.kernel, sizeof op.kernel, "%s", r->kernel);
    op.buffer = buffer_number(r, y->buffer != NULL ? y->buffer : y->at.data);
    return op;
}

/* Leaves the checksum of every row in r->sums: made where the rows lie, or of a copy when the plan says so. */
static enum status sum_rows(struct recorder *r, struct backend *b, const struct row_span *at,
                            struct err *err) {
    void *sums = r->sums;
    enum status s = need(&sums, &r->n_sums, (size_t)at->n, sizeof *r->sums, err);
    r->sums = sums;
    RETURN_IF_ERROR(s);
    if (at->n == 0) return STATUS_OK;
    size_t bytes = checksum_offset(at->kind, (at->n - 1) * at->stride + at->cols);
    r->out->cost.screened += bytes;
    if (!r->plan->copies) return b->row_sums(b, at, r->sums, err);
    struct row_span copy = *at;
    RETURN_IF_ERROR(copy_raw(r, b, at->data, bytes, err));
    copy.data = r->raw;
    checksum_rows(&copy, r->sums);
    return STATUS_OK;
}

/* Row i as f32 in r->host. */
static enum status fetch_row(struct recorder *r, struct backend *b, const struct row_span *at, int64_t i,
                             struct err *err) {
    void *host = r->host;
    enum status s = need(&host, &r->host_floats, (size_t)at->cols, sizeof *r->host, err);
    r->host = host;
    RETURN_IF_ERROR(s);
    const uint8_t *src = (const uint8_t *)at->data + checksum_offset(at->kind, i * at->stride);
    RETURN_IF_ERROR(copy_raw(r, b, src, checksum_offset(at->kind, at->cols), err));
    struct row_span one = {at->kind, r->raw, 1, at->cols, at->cols};
    checksum_widen(&one, 0, r->host);
    return STATUS_OK;
}

static enum status keep_row(struct recorder *r, struct backend *b, const struct tape_op *what,
                            const struct rows *y, int64_t i, struct err *err) {
    for (int k = 0; k < r->plan->n_captures; k++) {
        struct tape_capture *c = &r->out->captures[k];
        if (c->pos != y->pos[i]) continue;
        struct tape_op op = *what;
        op.rows = 1;
        op.sum = r->sums[i].sum;
        op.at = c->n_values;
        RETURN_IF_ERROR(tape_add_op(&c->ops, &op, err));
        RETURN_IF_ERROR(fetch_row(r, b, &y->at, i, err));
        RETURN_IF_ERROR(tape_add_values(c, r->host, (size_t)op.cols, err));
    }
    return STATUS_OK;
}

static enum status list_row(struct recorder *r, struct backend *b, const struct rows *y, int64_t i,
                            struct err *err) {
    int fits = tape_row_fits(r->out, y->at.cols);
    if (fits) RETURN_IF_ERROR(fetch_row(r, b, &y->at, i, err));
    return tape_add_row(r->out, y->pos[i], r->sums[i].sum, fits ? r->host : NULL, fits ? y->at.cols : 0, err);
}

/* The only place that walks a tensor. */
static enum status take(struct recorder *r, struct backend *b, const struct rows *y, struct err *err) {
    struct tape_op what = describe(r, y);
    char key[TAPE_KEY];
    tape_op_key(&what, key);
    int listed = r->step == r->plan->ops_step;
    int rowed = listed && r->plan->rows_of != NULL && strcmp(key, r->plan->rows_of) == 0;
    int index = r->index++;
    if (listed && index >= r->out->ops.n) RETURN_IF_ERROR(tape_add_op(&r->out->ops, &what, err));
    RETURN_IF_ERROR(sum_rows(r, b, &y->at, err));
    for (int64_t i = 0; i < y->at.n; i++) {
        int pos = y->pos[i];
        if (is_head(y) && pos != r->last_pos) continue; /* where chunks end is no part of the answer */
        r->out->steps[r->step].sum += checksum_part(r->sums[i].sum, (uint64_t)pos, (uint64_t)index);
        if (listed) {
            r->out->ops.op[index].sum += checksum_part(r->sums[i].sum, (uint64_t)pos, 0);
            r->out->ops.op[index].rows++;
        }
        if (rowed) RETURN_IF_ERROR(list_row(r, b, y, i, err));
        RETURN_IF_ERROR(keep_row(r, b, &what, y, i, err));
    }
    note_held(r);
    return STATUS_OK;
}

/* ---- the three kinds of event ---------------------------------------------------------------------------------- */

static enum status take_data(struct recorder *r, struct backend *b, const struct tap_event *e,
                             struct err *err) {
    struct rows y = {e->op,  e->tensor, e->layer, {ROWS_F32, e->data, e->rows, e->cols, e->cols},
                     e->pos, NULL};
    return take(r, b, &y, err);
}

/* Codes, scales and sums are three tensors: a flipped code, a moved scale and a forgotten sum are different findings. */
static enum status take_q8(struct recorder *r, struct backend *b, const struct tap_event *e,
                           const char *tensor, struct err *err) {
    int64_t blocks = e->cols / act_block(e->act->kind), groups = e->cols / ACT_SUM_GROUP;
    char d_name[TAPE_NAME], sum_name[TAPE_NAME];
    (void)snprintf(d_name, sizeof d_name, "%.30s.d", tensor);
    (void)snprintf(sum_name, sizeof sum_name, "%.30s.sum", tensor);
    const struct rows parts[] = {
        {e->op, tensor, e->layer, {ROWS_I8, e->act->q, e->rows, e->cols, e->cols}, e->pos, NULL},
        {e->op, d_name, e->layer, {ROWS_F32, e->act->d, e->rows, blocks, blocks}, e->pos, NULL},
        {e->op, sum_name, e->layer, {ROWS_I16, e->act->sum, e->rows, groups, groups}, e->pos, NULL}};
    for (int i = 0; i < 3; i++) RETURN_IF_ERROR(take(r, b, &parts[i], err));
    return STATUS_OK;
}

static enum status take_act(struct recorder *r, struct backend *b, const struct tap_event *e,
                            struct err *err) {
    char tensor[TAPE_NAME];
    enum act_kind kind = e->act->kind;
    (void)snprintf(tensor, sizeof tensor, "%.24s.%s", e->tensor, act_kind_name(kind));
    if (kind == ACT_F32) { /* it is its input; that it was prepared at all is the news */
        struct rows y = {e->op,  tensor, e->layer, {ROWS_F32, e->act->f32, e->rows, e->cols, e->cols},
                         e->pos, NULL};
        return take(r, b, &y, err);
    }
    if (kind != ACT_F16) return take_q8(r, b, e, tensor, err);
    int64_t stride = (e->cols + TC_K - 1) / TC_K * TC_K;
    struct rows y = {e->op,  tensor, e->layer, {ROWS_F16, e->act->f16, e->rows, e->cols, stride},
                     e->pos, NULL};
    return take(r, b, &y, err);
}

/* Rows [first, first + n) of one half of a layer's cache. */
static struct row_span cache_span(const struct kv_cache *kv, const void *half, int layer, int first,
                                  int64_t n) {
    static const enum row_kind kinds[] = {ROWS_F16, ROWS_Q8_0, ROWS_F32}; /* by enum kv_dtype */
    int64_t row = (int64_t)kv->n_kv_head * kv->head_dim, at = (int64_t)layer * kv->n_ctx + first;
    const uint8_t *data = (const uint8_t *)half + checksum_offset(kinds[kv->dtype], at * row);
    struct row_span span = {kinds[kv->dtype], data, n, row, row};
    return span;
}

static enum status take_kv(struct recorder *r, struct backend *b, const struct tap_event *e,
                           struct err *err) {
    const struct kv_cache *kv = e->kv[0];
    r->kv = kv;
    const void *of_k = cache_span(kv, kv->k, e->layer, 0, 0).data,
               *of_v = cache_span(kv, kv->v, e->layer, 0, 0).data;
    struct row_span k_rows = cache_span(kv, kv->k, e->layer, e->pos[0], e->rows);
    struct row_span v_rows = cache_span(kv, kv->v, e->layer, e->pos[0], e->rows);
    struct rows k = {e->op, "k_cache", e->layer, k_rows, e->pos, of_k};
    struct rows v = {e->op, "v_cache", e->layer, v_rows, e->pos, of_v};
    RETURN_IF_ERROR(take(r, b, &k, err));
    return take(r, b, &v, err);
}

/* What attention at `pos` may read: the sum of the layer's cache rows 0 .. pos, and the largest |v|. Captures only. */
static enum status take_cache_seen(struct recorder *r, struct backend *b, const struct tap_event *e,
                                   struct tape_capture *c, struct err *err) {
    struct tape_op op;
    uint32_t v_max = 0;
    memset(&op, 0, sizeof op);
    op.layer = e->layer;
    op.rows = c->pos + 1;
    op.cols = 1;
    op.buffer = -1;
    op.at = c->n_values;
    (void)snprintf(op.op, sizeof op.op, "kv_read");
    (void)snprintf(op.tensor, sizeof op.tensor, "kv");
    for (int half = 0; half < 2; half++)
        for (int first = 0; first <= c->pos; first += CACHE_ROWS) {
            int n = c->pos + 1 - first < CACHE_ROWS ? c->pos + 1 - first : CACHE_ROWS;
            struct row_span at = cache_span(r->kv, half == 0 ? r->kv->k : r->kv->v, e->layer, first, n);
            RETURN_IF_ERROR(sum_rows(r, b, &at, err));
            for (int i = 0; i < n; i++) {
                op.sum += checksum_part(r->sums[i].sum, (uint64_t)(first + i), (uint64_t)half);
                if (half == 1 && r->sums[i].largest > v_max) v_max = r->sums[i].largest;
            }
        }
    float largest;
    memcpy(&largest, &v_max, sizeof largest);
    RETURN_IF_ERROR(tape_add_op(&c->ops, &op, err));
    return tape_add_values(c, &largest, 1, err);
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

static enum status take_event(struct recorder *r, struct backend *b, const struct tap_event *e,
                              struct err *err) {
    if (strcmp(e->op, "embed") == 0) r->index = 0;
    if (e->act != NULL) return take_act(r, b, e, err);
    if (e->kv != NULL) return take_kv(r, b, e, err);
    if (strcmp(e->op, "attention") == 0) RETURN_IF_ERROR(take_caches_seen(r, b, e, err));
    return take_data(r, b, e, err);
}

/* The latest calls may wait for a partner: their events are kept until they have been launched. */
static enum status on_event(void *ctx, struct backend *b, const struct tap_event *e, struct err *err) {
    struct recorder *r = ctx;
    struct kernel_count now[BACKEND_KERNELS_MAX];
    int n = 0;
    if (r->n_held == HELD_MAX)
        return err_set(err, STATUS_LIMIT, "trace: %d ops before %s wait to be launched", HELD_MAX, e->op);
    r->held[r->n_held++] = *e;
    int ready = r->n_held - b->waiting(b, now, &n);
    if (ready <= 0) return STATUS_OK;
    note_kernel(r, now, n);
    for (int i = 0; i < ready; i++) RETURN_IF_ERROR(take_event(r, b, &r->held[i], err));
    r->n_held -= ready;
    memmove(r->held, r->held + ready, (size_t)r->n_held * sizeof r->held[0]);
    (void)b->waiting(b, r->before, &n); /* looking launches kernels too */
    return STATUS_OK;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static enum status finish_step(struct recorder *r, session *s, int n_vocab, struct err *err) {
    if (r->n_held != 0)
        return err_set(err, STATUS_DEVICE, "trace: step %d ended before %s was launched", r->step,
                       r->held[0].op);
    struct tape_step *t = &r->out->steps[r->step];
    t->pos = r->last_pos;
    t->row = hash_logits(session_logits(s), (size_t)n_vocab);
    t->top = *session_top2(s);
    r->out->n_steps = r->step + 1;
    if (r->plan->progress != NULL)
        r->plan->progress(r->plan->progress_ctx, (uint64_t)r->step + 1, (uint64_t)r->plan->n_steps);
    return STATUS_OK;
}

static enum status run_steps(struct recorder *r, session *s, struct err *err) {
    const struct tape_plan *p = r->plan;
    struct engine_info info;
    engine_describe(r->engine, &info);
    r->last_pos = (int)p->n_prompt - 1;
    (void)engine_kernel_counts(r->engine, r->before);
    RETURN_IF_ERROR(session_prefill(s, p->prompt, p->n_prompt, err));
    RETURN_IF_ERROR(finish_step(r, s, info.n_vocab, err));
    for (r->step = 1; r->step < p->n_steps; r->step++) {
        r->last_pos = session_pos(s);
        (void)engine_kernel_counts(r->engine, r->before);
        RETURN_IF_ERROR(session_decode(s, p->forced[r->step - 1], err));
        RETURN_IF_ERROR(finish_step(r, s, info.n_vocab, err));
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
    free(r->sums);
    free(r);
    return st;
}
