/* explain_plants.c - see explain_plants.h. CPU backend only: backend memory is host memory. */
#include "tests/explain_plants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checksum.h"

const struct plant_case plant_cases[PLANT_CASES] = {
    {PLANT_TAIL_ZERO, "tail-zero", EXPLAIN_UNWRITTEN, 2, "attention", "attn"},
    {PLANT_TAIL_NAN, "tail-nan", EXPLAIN_UNWRITTEN, 2, "attention", "attn"},
    {PLANT_ROW_COPY, "row-copy", EXPLAIN_STALE, 0, "attention", "attn"},
    {PLANT_ROPE_SKIP, "rope-skip", EXPLAIN_STALE, 0, "rope", "q_rope"},
    {PLANT_STALE_ACT, "stale-act", EXPLAIN_STALE, 0, "act_prepare", "ffn_norm.q8_32"},
    {PLANT_NORM_TAIL, "norm-tail", EXPLAIN_STALE, 1, "rmsnorm", "attn_norm"},
    {PLANT_MM_HALF, "mm-half", EXPLAIN_WRONG_VALUE, 0, "matmul", "ffn_gate"},
    {PLANT_KV_SCALE, "kv-scale", EXPLAIN_WRONG_VALUE, 0, "kv_append", "k_cache"},
    {PLANT_KV_CLOBBER, "kv-clobber", EXPLAIN_STALE, 1, "attention", "attn"},
    {PLANT_ADD_ULP, "add-ulp", EXPLAIN_REGROUPING, 0, "add", "attn_residual"},
    {PLANT_ADD_PERCENT, "add-percent", EXPLAIN_WRONG_VALUE, 0, "add", "attn_residual"},
    {PLANT_TOP2_SWAP, "top2-swap", EXPLAIN_SAMPLING, -1, "top2", "top2"},
    {PLANT_NOISE, "noise", EXPLAIN_NOT_REPEATABLE, 3, "attention", "attn"}};

#define TAIL 16

static struct backend plain; /* the op table as it was */
static enum plant planted;
static int calls;          /* of the planted op */
static const float *fresh; /* the buffer prepared last */
static struct engine_info shape;

static enum status bad_attention(struct backend *b, const struct step *s, int layer, int n_head,
                                 const float *q, float *o, struct err *err) {
    int cols = shape.n_head * shape.head_dim;
    RETURN_IF_ERROR(plain.attention(b, s, layer, n_head, q, o, err));
    for (int r = 0; r < s->n_rows; r++)
        for (int c = cols - TAIL; c < cols && layer == 2; c++) {
            if (planted == PLANT_TAIL_ZERO) o[r * cols + c] = 0.0f;
            if (planted == PLANT_TAIL_NAN) o[r * cols + c] = NAN;
        }
    if (planted == PLANT_ROW_COPY && layer == 0 && s->n_rows > 5)
        memcpy(o + 5 * cols, o + 4 * cols, (size_t)cols * sizeof *o);
    for (int c = 0; planted == PLANT_LAST_ROW && layer == 0 && s->n_rows > 1 && c < cols; c++)
        o[(s->n_rows - 1) * cols + c] *= 2.0f;
    if (planted == PLANT_NOISE && layer == 3) o[3] += (float)++calls * 1e-6f;
    return STATUS_OK;
}

static enum status bad_rope(struct backend *b, const struct step *s, const struct rope_table *t, int n_head,
                            int head_dim, float *x, struct err *err) {
    (void)b, (void)s, (void)t, (void)n_head, (void)head_dim, (void)x, (void)err;
    return STATUS_OK;
}

static enum status bad_act(struct backend *b, enum act_kind kind, const float *x, int64_t rows, int64_t k,
                           struct act *out, struct err *err) {
    if (fresh == x && out->k == k) return STATUS_OK; /* "this buffer was prepared already" */
    if (fresh == NULL) fresh = x;
    return plain.act_prepare(b, kind, x, rows, k, out, err);
}

static enum status forget_act(struct backend *b, const struct step *s, const struct weight *table, float *x,
                              struct err *err) {
    fresh = NULL;
    calls = 0;
    return plain.embed(b, s, table, x, err);
}

static enum status bad_norm(struct backend *b, const float *x, const float *w, float eps, int64_t rows,
                            int64_t cols, float *y, struct err *err) {
    float *old = malloc((size_t)(rows * cols) * sizeof *old);
    memcpy(old, y, (size_t)(rows * cols) * sizeof *old);
    enum status s = plain.rmsnorm(b, x, w, eps, rows, cols, y, err);
    if (++calls > 2) /* two norms a layer: layer 0 is whole */
        for (int64_t r = 0; r < rows; r++)
            memcpy(y + (r + 1) * cols - TAIL, old + (r + 1) * cols - TAIL, TAIL * sizeof *y);
    free(old);
    return s;
}

static enum status bad_matmul(struct backend *b, const struct weight *w, const struct act *a, int64_t rows,
                              float *y, struct err *err) {
    RETURN_IF_ERROR(plain.matmul(b, w, a, rows, y, err));
    int64_t columns = planted == PLANT_MM_HALF ? shape.n_ff : (int64_t)shape.n_kv_head * shape.head_dim;
    for (int64_t i = 0; i < rows * w->n && w->n == columns; i++) y[i] *= 0.5f;
    return STATUS_OK;
}

static enum status bad_kv(struct backend *b, const struct step *s, int layer, const float *k, const float *v,
                          struct err *err) {
    size_t row = (size_t)shape.n_kv_head * (size_t)shape.head_dim, n = (size_t)s->n_rows * row;
    float *larger = malloc(n * sizeof *larger);
    for (size_t i = 0; i < n; i++) larger[i] = planted == PLANT_KV_SCALE ? k[i] * 1.01f : k[i];
    enum status st = plain.kv_append(b, s, layer, larger, v, err);
    free(larger);
    if (planted == PLANT_KV_CLOBBER && s->n_rows == 1 && layer == 1) {
        uint16_t *cache = s->kv[0]->k;
        memset(cache + ((size_t)layer * (size_t)s->kv[0]->n_ctx + 1) * row, 0, row * sizeof *cache);
    }
    return st;
}

static enum status bad_add(struct backend *b, float *x, const float *t, int64_t n, struct err *err) {
    RETURN_IF_ERROR(plain.add(b, x, t, n, err));
    if (planted == PLANT_ADD_ULP) x[7] = nextafterf(x[7], 1e9f);
    if (planted == PLANT_ADD_PERCENT) x[7] *= 1.01f;
    return STATUS_OK;
}

static enum status bad_top2(struct backend *b, const float *logits, int64_t rows, int64_t n_vocab,
                            int64_t stride, struct top2 *out, struct err *err) {
    RETURN_IF_ERROR(plain.top2(b, logits, rows, n_vocab, stride, out, err));
    for (int64_t r = 0; r < rows; r++) {
        struct top2 t = out[r];
        out[r].id1 = t.id2;
        out[r].logit1 = t.logit2;
        out[r].id2 = t.id1;
        out[r].logit2 = t.logit1;
    }
    return STATUS_OK;
}

/* ---- a backend whose calls wait (engine/cuda/pending.h), as far as a watcher can tell ---------------------------- */

static int waiting_calls;
static const void *waiting_output[4]; /* [waiting_calls] must not be looked at */

static void now_waits(int n, const void *y) {
    waiting_calls = n;
    if (n > 0) waiting_output[n - 1] = y;
}
static enum status wait_rope(struct backend *b, const struct step *s, const struct rope_table *t, int n_head,
                             int head_dim, float *x, struct err *err) {
    now_waits(waiting_calls + 1, x);
    return plain.rope(b, s, t, n_head, head_dim, x, err);
}
static enum status wait_add(struct backend *b, float *x, const float *t, int64_t n, struct err *err) {
    now_waits(1, x);
    return plain.add(b, x, t, n, err);
}
static enum status wait_norm(struct backend *b, const float *x, const float *w, float eps, int64_t rows,
                             int64_t cols, float *y, struct err *err) {
    now_waits(waiting_calls + 1, y); /* joins a waiting add */
    return plain.rmsnorm(b, x, w, eps, rows, cols, y, err);
}
static enum status wait_attention(struct backend *b, const struct step *s, int layer, int n_head,
                                  const float *q, float *o, struct err *err) {
    now_waits(1, o);
    return plain.attention(b, s, layer, n_head, q, o, err);
}
static enum status launch_act(struct backend *b, enum act_kind kind, const float *x, int64_t rows, int64_t k,
                              struct act *out, struct err *err) {
    now_waits(0, NULL);
    return plain.act_prepare(b, kind, x, rows, k, out, err);
}
static enum status launch_kv(struct backend *b, const struct step *s, int layer, const float *k,
                             const float *v, struct err *err) {
    now_waits(0, NULL);
    return plain.kv_append(b, s, layer, k, v, err);
}
static int say_waiting(struct backend *b, struct kernel_count out[BACKEND_KERNELS_MAX], int *n) {
    *n = plain.kernel_counts(b, out);
    return waiting_calls;
}
static enum status look(struct backend *b, const struct row_span *rows, struct row_sum *host,
                        struct err *err) {
    for (int i = 0; i < waiting_calls; i++)
        if (rows->data == waiting_output[i])
            return err_set(err, STATUS_INVALID, "looked at what is not written yet");
    return plain.row_sums(b, rows, host, err);
}

static void make_wait(struct backend *b) {
    waiting_calls = 0;
    b->rope = wait_rope;
    b->add = wait_add;
    b->rmsnorm = wait_norm;
    b->attention = wait_attention;
    b->act_prepare = launch_act;
    b->kv_append = launch_kv;
    b->waiting = say_waiting;
    b->row_sums = look;
}

void plant_into(engine *e, enum plant plant) {
    struct backend *b = engine_backend(e);
    engine_describe(e, &shape);
    plain = *b;
    planted = plant;
    calls = 0;
    fresh = NULL;
    if (plant == PLANT_TAIL_ZERO || plant == PLANT_TAIL_NAN || plant == PLANT_ROW_COPY ||
        plant == PLANT_NOISE || plant == PLANT_LAST_ROW)
        b->attention = bad_attention;
    if (plant == PLANT_ROPE_SKIP) b->rope = bad_rope;
    if (plant == PLANT_STALE_ACT) b->act_prepare = bad_act;
    if (plant == PLANT_STALE_ACT || plant == PLANT_NORM_TAIL) b->embed = forget_act;
    if (plant == PLANT_NORM_TAIL) b->rmsnorm = bad_norm;
    if (plant == PLANT_MM_HALF || plant == PLANT_V_HALF) b->matmul = bad_matmul;
    if (plant == PLANT_KV_SCALE || plant == PLANT_KV_CLOBBER) b->kv_append = bad_kv;
    if (plant == PLANT_ADD_ULP || plant == PLANT_ADD_PERCENT) b->add = bad_add;
    if (plant == PLANT_TOP2_SWAP) b->top2 = bad_top2;
    if (plant == PLANT_WAITS) make_wait(b);
}
