/* op_timer.c - see op_timer.h. */
#include "gates/op_timer.h"

#include <string.h>
#include <time.h>

static struct {
    struct backend *backend; /* whose table holds the shims; NULL: none */
    struct backend original; /* the table before */
    struct op_times times;
} timer;

double op_timer_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *op_timer_name(enum timed_op op) {
    static const char *const names[TIMED_OPS] = {"embed",     "rmsnorm",   "act_prepare", "matmul", "rope",
                                                 "kv_append", "attention", "swiglu",      "add",    "top2"};
    return names[op];
}

/* Waits for the device, so that the time belongs to this op; the op's own error goes before the wait's. */
static enum status done(struct backend *self, enum timed_op op, double began, enum status s,
                        struct err *err) {
    if (s == STATUS_OK) s = timer.original.sync(self, err);
    timer.times.calls[op]++;
    timer.times.seconds[op] += op_timer_now() - began;
    return s;
}

/* ---- shims ------------------------------------------------------------------------------------------------------- */
static enum status timed_embed(struct backend *self, const struct step *s, const struct weight *table,
                               float *x, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_EMBED, t, timer.original.embed(self, s, table, x, err), err);
}

static enum status timed_rmsnorm(struct backend *self, const float *x, const float *w, float eps,
                                 int64_t rows, int64_t cols, float *y, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_RMSNORM, t, timer.original.rmsnorm(self, x, w, eps, rows, cols, y, err), err);
}

static enum status timed_act_prepare(struct backend *self, enum act_kind kind, const float *x, int64_t rows,
                                     int64_t k, struct act *out, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_ACT_PREPARE, t, timer.original.act_prepare(self, kind, x, rows, k, out, err),
                err);
}

static enum status timed_matmul(struct backend *self, const struct weight *w, const struct act *a,
                                int64_t rows, float *y, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_MATMUL, t, timer.original.matmul(self, w, a, rows, y, err), err);
}

static enum status timed_rope(struct backend *self, const struct step *s, const struct rope_table *table,
                              int n_head, int head_dim, float *x, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_ROPE, t, timer.original.rope(self, s, table, n_head, head_dim, x, err), err);
}

static enum status timed_kv_append(struct backend *self, const struct step *s, int layer, const float *k,
                                   const float *v, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_KV_APPEND, t, timer.original.kv_append(self, s, layer, k, v, err), err);
}

static enum status timed_attention(struct backend *self, const struct step *s, int layer, int n_head,
                                   const float *q, float *o, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_ATTENTION, t, timer.original.attention(self, s, layer, n_head, q, o, err), err);
}

static enum status timed_swiglu(struct backend *self, const float *g, const float *u, int64_t n, float *y,
                                struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_SWIGLU, t, timer.original.swiglu(self, g, u, n, y, err), err);
}

static enum status timed_add(struct backend *self, float *x, const float *y, int64_t n, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_ADD, t, timer.original.add(self, x, y, n, err), err);
}

static enum status timed_top2(struct backend *self, const float *logits, int64_t rows, int64_t n_vocab,
                              int64_t stride, struct top2 *out, struct err *err) {
    double t = op_timer_now();
    return done(self, TIMED_TOP2, t, timer.original.top2(self, logits, rows, n_vocab, stride, out, err), err);
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */
enum status op_timer_attach(engine *e, struct err *err) {
    struct backend *b = engine_backend(e);
    if (timer.backend != NULL) return err_set(err, STATUS_USAGE, "op timer: another engine is being timed");
    memset(&timer, 0, sizeof timer);
    timer.backend = b;
    timer.original = *b;
    b->embed = timed_embed;
    b->rmsnorm = timed_rmsnorm;
    b->act_prepare = timed_act_prepare;
    b->matmul = timed_matmul;
    b->rope = timed_rope;
    b->kv_append = timed_kv_append;
    b->attention = timed_attention;
    b->swiglu = timed_swiglu;
    b->add = timed_add;
    b->top2 = timed_top2;
    return STATUS_OK;
}

struct op_times op_timer_take(void) {
    struct op_times t = timer.times;
    memset(&timer.times, 0, sizeof timer.times);
    return t;
}

void op_timer_detach(void) {
    struct backend *b = timer.backend, *o = &timer.original;
    if (b == NULL) return;
    b->embed = o->embed; /* the ops only: the backend's own state has moved on since */
    b->rmsnorm = o->rmsnorm;
    b->act_prepare = o->act_prepare;
    b->matmul = o->matmul;
    b->rope = o->rope;
    b->kv_append = o->kv_append;
    b->attention = o->attention;
    b->swiglu = o->swiglu;
    b->add = o->add;
    b->top2 = o->top2;
    timer.backend = NULL;
}
