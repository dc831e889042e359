/* parity_fused.c - device_parity for neighbouring calls that the device turns into one launch (engine/cuda/pending.h):
 * every tensor the calls would have written, against the twin, with nothing between them that would make them settle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/cuda/launch.h"
#include "parity_rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const char *kind_of(enum act_kind kind) {
    return act_kind_name(kind);
}

static struct pair floats_in(struct rig *r, enum fill f, size_t n) {
    float *x = rig_memory(n * 4);
    fill_floats(r, f, x, n);
    struct pair p = rig_input(r, x, n * 4);
    free(x);
    return p;
}

static int fits(enum act_kind kind, int64_t k) {
    return k % act_block(kind) == 0;
}

/* f16 rows hold NaNs of any payload where the input did; int8 rows hold bytes and a canonical NaN scale. */
static void compare_act(struct rig *r, struct verdict *v, const struct pair *a, enum act_kind kind) {
    if (kind == ACT_F16)
        verdict_halves(r, v, a, "act");
    else
        verdict_bytes(r, v, a, "act");
}

/* [x += t], t = norm(x), act(t): as forward.c does it, the norm's output in the addend's place. */
static void norm_case(struct rig *r, enum act_kind kind, int64_t rows, int64_t cols, int adds, enum fill f) {
    struct verdict v;
    if (!fits(kind, cols)) return;
    verdict_begin(&v, "fused", kind_of(kind), adds ? "add_norm_act" : "norm_act",
                  "rows=%lld cols=%lld family=%s", (long long)rows, (long long)cols, fill_name(f));
    size_t n = (size_t)(rows * cols);
    struct pair x = floats_in(r, f, n), t = floats_in(r, FILL_NORMAL, n),
                w = floats_in(r, FILL_NORMAL, (size_t)cols);
    struct pair a = rig_output(r, act_carve(kind, rows, cols, NULL, NULL));
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct act act;
        (void)act_carve(kind, rows, cols, a.p[s], &act);
        if (adds && !verdict_call(r, &v, s, b->add(b, x.p[s], t.p[s], rows * cols, &r->err))) continue;
        (void)(verdict_call(r, &v, s, b->rmsnorm(b, x.p[s], w.p[s], 1e-6f, rows, cols, t.p[s], &r->err)) &&
               verdict_call(r, &v, s, b->act_prepare(b, kind, t.p[s], rows, cols, &act, &r->err)));
    }
    verdict_overflow(r, &v);
    verdict_floats(r, &v, &x, "x");
    verdict_floats(r, &v, &t, "y");
    compare_act(r, &v, &a, kind);
    verdict_end(r, &v);
}

static void swiglu_case(struct rig *r, enum act_kind kind, int64_t rows, int64_t cols, enum fill f) {
    struct verdict v;
    if (!fits(kind, cols)) return;
    verdict_begin(&v, "fused", kind_of(kind), "swiglu_act", "rows=%lld cols=%lld family=%s", (long long)rows,
                  (long long)cols, fill_name(f));
    size_t n = (size_t)(rows * cols);
    struct pair g = floats_in(r, f, n), u = floats_in(r, FILL_OUTLIER, n);
    struct pair a = rig_output(r, act_carve(kind, rows, cols, NULL, NULL));
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct act act;
        (void)act_carve(kind, rows, cols, a.p[s], &act);
        (void)(verdict_call(r, &v, s, b->swiglu(b, g.p[s], u.p[s], rows * cols, g.p[s], &r->err)) &&
               verdict_call(r, &v, s, b->act_prepare(b, kind, g.p[s], rows, cols, &act, &r->err)));
    }
    verdict_overflow(r, &v);
    verdict_floats(r, &v, &g, "y");
    compare_act(r, &v, &a, kind);
    verdict_end(r, &v);
}

/* A step of one layer's tail: rope q, rope k, append, attention, act of its output. */
struct tail_case {
    int n_kv, group, head_dim, n_rot, rows, batch, pos0, n_ctx;
    enum rope_kind rope;
    enum kv_dtype dtype;
    enum act_kind kind;
};

static void tail_side(struct rig *r, struct verdict *v, int s, const struct tail_case *c,
                      const struct pair *x, const struct pair *table, const struct pair k[],
                      const struct pair val[], const struct pair *a) {
    struct backend *b = r->side[s];
    struct kv_cache kv[BATCH_MAX];
    const struct kv_cache *kvs[BATCH_MAX];
    int32_t id[BATCH_MAX] = {0}, pos[BATCH_MAX];
    int n_seq = c->batch ? c->rows : 1, replayed, n_head = c->n_kv * c->group;
    int64_t width = (int64_t)n_head * c->head_dim;
    for (int i = 0; i < c->rows; i++) pos[i] = c->batch ? c->pos0 + 97 * i % 500 : c->pos0 + i;
    for (int i = 0; i < n_seq; i++) {
        struct kv_cache one = {c->dtype, 1, c->n_ctx, c->n_kv, c->head_dim, k[i].p[s], val[i].p[s]};
        kv[i] = one;
        kvs[i] = &kv[i];
    }
    struct step st = {c->rows, n_seq, id, pos, kvs};
    struct act act;
    const float *cos = table->p[s];
    struct rope_table rope = {c->rope, c->n_rot, c->n_ctx, cos,
                              cos + (size_t)c->n_ctx * (size_t)c->n_rot / 2};
    (void)act_carve(c->kind, c->rows, width, a->p[s], &act);
    (void)(verdict_call(r, v, s, b->step_begin(b, &st, &replayed, &r->err)) &&
           verdict_call(r, v, s, b->rope(b, &st, &rope, n_head, c->head_dim, x[0].p[s], &r->err)) &&
           verdict_call(r, v, s, b->rope(b, &st, &rope, c->n_kv, c->head_dim, x[1].p[s], &r->err)) &&
           verdict_call(r, v, s, b->kv_append(b, &st, 0, x[1].p[s], x[2].p[s], &r->err)) &&
           verdict_call(r, v, s, b->attention(b, &st, 0, n_head, x[0].p[s], x[3].p[s], &r->err)) &&
           verdict_call(r, v, s, b->act_prepare(b, c->kind, x[3].p[s], c->rows, width, &act, &r->err)) &&
           verdict_call(r, v, s, b->step_end(b, &st, &r->err)));
}

static void tail_case(struct rig *r, const struct tail_case *c) {
    struct verdict v;
    struct pair k[BATCH_MAX], val[BATCH_MAX], x[4];
    int64_t width = (int64_t)c->n_kv * c->group * c->head_dim, kv_width = (int64_t)c->n_kv * c->head_dim;
    int n_seq = c->batch ? c->rows : 1;
    if (!fits(c->kind, width) || (c->dtype == KV_Q8_0 && c->head_dim % QK_32 != 0)) return;
    verdict_begin(&v, "fused", kind_of(c->kind), c->batch ? "tail_decode" : "tail_prefill",
                  "rows=%d heads=%d/%d head_dim=%d rot=%d kv=%s", c->rows, c->n_kv * c->group, c->n_kv,
                  c->head_dim, c->n_rot, kv_dtype_name(c->dtype));
    size_t rows = (size_t)c->rows, plane = (size_t)c->n_ctx * (size_t)kv_width;
    x[0] = floats_in(r, FILL_NORMAL, rows * (size_t)width);
    x[1] = floats_in(r, FILL_NORMAL, rows * (size_t)kv_width);
    x[2] = floats_in(r, FILL_OUTLIER, rows * (size_t)kv_width);
    x[3] = rig_output(r, rows * (size_t)width * 4);
    struct pair table = floats_in(r, FILL_NORMAL, (size_t)c->n_ctx * (size_t)c->n_rot);
    struct pair a = rig_output(r, act_carve(c->kind, c->rows, width, NULL, NULL));
    rig_room(r, c->n_kv * c->group, c->head_dim, c->n_ctx);
    size_t bytes = c->dtype == KV_F16 ? plane * 2 : plane / QK_32 * sizeof(struct block_q8_0);
    void *cache = rig_memory(bytes);
    for (int i = 0; i < 2 * n_seq; i++) {
        fill_weights(r, c->dtype == KV_F16 ? DTYPE_F16 : DTYPE_Q8_0, cache, plane);
        *(i < n_seq ? &k[i] : &val[i - n_seq]) = rig_input(r, cache, bytes);
    }
    free(cache);
    for (int s = 0; s < RIG_SIDES; s++) tail_side(r, &v, s, c, x, &table, k, val, &a);
    verdict_overflow(r, &v);
    verdict_floats(r, &v, &x[0], "q");
    verdict_floats(r, &v, &x[1], "k");
    verdict_floats(r, &v, &x[3], "o");
    verdict_bytes(r, &v, &a, "act");
    for (int i = 0; i < n_seq; i++)
        verdict_bytes(r, &v, &k[i], "k_cache"), verdict_bytes(r, &v, &val[i], "v_cache");
    verdict_end(r, &v);
}

/* Products that share their activations: two of one type and one of another between them. */
static void products_case(struct rig *r, enum dtype t, enum dtype other, int64_t rows, int64_t k) {
    static const int64_t n[] = {131, 40, 515, 64};
    struct verdict v;
    struct pair y[4];
    enum dtype types[4] = {t, t, other, t};
    enum act_kind kind = act_kind_for(ROUTE_Q8, t);
    verdict_begin(&v, "fused", dtype_info((int)t)->name, "products", "rows=%lld k=%lld third=%s",
                  (long long)rows, (long long)k, dtype_info((int)other)->name);
    struct pair x = floats_in(r, FILL_OUTLIER, (size_t)(rows * k));
    struct pair a = rig_output(r, act_carve(kind, rows, k, NULL, NULL));
    void *src[4];
    for (int i = 0; i < 4; i++) {
        y[i] = rig_output(r, (size_t)(rows * n[i]) * 4);
        src[i] = rig_memory((size_t)dtype_bytes(types[i], (uint64_t)(n[i] * k)));
        fill_weights(r, types[i], src[i], (size_t)(n[i] * k));
    }
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct weight w[4];
        struct act act;
        int ok = 1;
        (void)act_carve(kind, rows, k, a.p[s], &act);
        for (int i = 0; i < 4; i++)
            ok &= verdict_call(r, &v, s,
                               b->weight_upload(b, WEIGHT_MATMUL, types[i], src[i], n[i], k, &w[i], &r->err));
        ok = ok && verdict_call(r, &v, s, b->act_prepare(b, kind, x.p[s], rows, k, &act, &r->err));
        for (int i = 0; i < 4 && ok; i++)
            ok = verdict_call(r, &v, s, b->matmul(b, &w[i], &act, rows, y[i].p[s], &r->err));
        for (int i = 0; i < 4; i++) b->weight_free(b, &w[i]);
    }
    for (int i = 0; i < 4; i++) {
        verdict_floats(r, &v, &y[i], "y");
        free(src[i]);
    }
    verdict_end(r, &v);
}

static void row_cases(struct rig *r, enum route route) {
    static const int64_t cols[] = {1,    7,    32,   100,  256,  288,  768,  1024, 1056,
                                   3584, 4096, 4352, 7936, 8191, 8192, 8193, 8448},
                         wide[] = {8, 32, 100, 256, 896, 2048, 18944}, rows[] = {1, 2, 5, 65};
    int turn = 0;
    for (int kind = ACT_F16; kind <= ACT_Q8_256; kind++) {
        if ((kind == ACT_F16) != (route == ROUTE_F16)) continue;
        for (int i = 0; i < COUNT(rows); i++) {
            if (r->quick && rows[i] > 2) continue;
            for (int c = 0; c < COUNT(cols); c++, turn++)
                norm_case(r, (enum act_kind)kind, rows[i], cols[c], turn % 3 != 0,
                          (enum fill)(turn % FILL_COUNT));
            for (int c = 0; c < COUNT(wide); c++, turn++)
                swiglu_case(r, (enum act_kind)kind, rows[i], wide[c], (enum fill)(turn % FILL_COUNT));
        }
    }
}

static void tail_cases(struct rig *r, enum route route) {
    static const int head_dims[] = {16, 64, 80, 128, 256}, groups[] = {1, 3, 7, 8};
    int turn = 0;
    for (int kind = ACT_F16; kind <= ACT_Q8_256; kind++) {
        if ((kind == ACT_F16) != (route == ROUTE_F16)) continue;
        for (int d = 0; d < COUNT(head_dims); d++)
            for (int g = 0; g < COUNT(groups); g++, turn++) {
                struct tail_case c = {1 + turn % 2 * 3,
                                      groups[g],
                                      head_dims[d],
                                      turn % 2 ? head_dims[d] : head_dims[d] / 2,
                                      turn % 3 == 0   ? 1
                                      : turn % 3 == 1 ? 5
                                                      : BATCH_MAX,
                                      turn % 4 != 3,
                                      turn % 4 != 3 ? 40 : 300,
                                      600,
                                      turn % 2 ? ROPE_HALF_SPLIT : ROPE_INTERLEAVED,
                                      turn % 5 == 4 ? KV_Q8_0 : KV_F16,
                                      (enum act_kind)kind};
                tail_case(r, &c);
            }
    }
}

/* As many chunks as the fused merge holds at a time, one fewer and one more. */
static void merge_cases(struct rig *r, enum route route) {
    struct geometry g = geometry_default(ARCH_SM90);
    g.fa_chunk = 64;
    rig_open(r, route, &g, 0);
    for (int n = FA_MERGE_FEW - 1; n <= FA_MERGE_FEW + 1; n++) {
        enum act_kind kind = route == ROUTE_F16 ? ACT_F16 : n % 2 ? ACT_Q8_32 : ACT_Q8_256;
        struct tail_case c = {2,      4,   64, 64, 1, 1, n * g.fa_chunk - 1, n * g.fa_chunk, ROPE_HALF_SPLIT,
                              KV_F16, kind};
        tail_case(r, &c);
    }
    rig_close(r);
}

void parity_fused(struct rig *r) {
    struct geometry g = geometry_default(ARCH_SM90);
    static const enum dtype types[][2] = {{DTYPE_Q4_K, DTYPE_Q6_K}, {DTYPE_Q6_K, DTYPE_Q4_K},
                                          {DTYPE_Q5_K, DTYPE_Q5_K}, {DTYPE_Q8_0, DTYPE_Q4_0},
                                          {DTYPE_Q4_1, DTYPE_Q4_1}, {DTYPE_Q5_1, DTYPE_Q5_0}};
    if (!rig_wants(r, "fused")) return;
    for (int route = ROUTE_F16; route <= ROUTE_Q8; route++) {
        rig_open(r, (enum route)route, &g, 0);
        row_cases(r, (enum route)route);
        tail_cases(r, (enum route)route);
        if (route == ROUTE_Q8)
            for (int t = 0; t < COUNT(types); t++)
                for (int64_t rows = 1; rows <= GEMV_ROWS; rows += 3)
                    products_case(r, types[t][0], types[t][1], rows, rows % 2 ? 1280 : 3584);
        rig_close(r);
        merge_cases(r, (enum route)route);
    }
}
