/* parity_steps.c - device_parity for whole steps: a one-layer decode, eager, captured and replayed, against the twin.
 * Idea: what a session does, without a model file: the same op calls in the same buffers, ids and positions changing.
 * A replay with stale arguments, a frozen grid or a counter that stands still shows here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parity_rig.h"

enum { WIDTH = 256, HEAD_DIM = 64, N_HEAD = 4, N_KV = 2, N_VOCAB = 97, N_CTX = 600, STEPS = 6 };

/* Buffers and weights of one side. */
struct layer {
    struct weight embed, qkv, k, v, out;
    const struct rope_table *rope;
    float *x, *h, *q, *kr, *vr, *o, *logits, *norm;
    struct act act;
    struct top2 *top;
};

static enum status layer_step(struct backend *b, const struct step *s, struct layer *l, struct err *err) {
    int64_t rows = s->n_rows;
    enum act_kind kind = l->qkv.act;
    RETURN_IF_ERROR(b->embed(b, s, &l->embed, l->x, err));
    RETURN_IF_ERROR(b->rmsnorm(b, l->x, l->norm, 1e-6f, rows, WIDTH, l->h, err));
    RETURN_IF_ERROR(b->act_prepare(b, kind, l->h, rows, WIDTH, &l->act, err));
    RETURN_IF_ERROR(b->matmul(b, &l->qkv, &l->act, rows, l->q, err));
    RETURN_IF_ERROR(b->matmul(b, &l->k, &l->act, rows, l->kr, err));
    RETURN_IF_ERROR(b->matmul(b, &l->v, &l->act, rows, l->vr, err));
    RETURN_IF_ERROR(b->rope(b, s, l->rope, N_HEAD, HEAD_DIM, l->q, err));
    RETURN_IF_ERROR(b->rope(b, s, l->rope, N_KV, HEAD_DIM, l->kr, err));
    RETURN_IF_ERROR(b->kv_append(b, s, 0, l->kr, l->vr, err));
    RETURN_IF_ERROR(b->attention(b, s, 0, N_HEAD, l->q, l->o, err));
    RETURN_IF_ERROR(b->act_prepare(b, kind, l->o, rows, WIDTH, &l->act, err));
    RETURN_IF_ERROR(b->matmul(b, &l->qkv, &l->act, rows, l->h, err));
    RETURN_IF_ERROR(b->add(b, l->x, l->h, rows * WIDTH, err));
    RETURN_IF_ERROR(b->rmsnorm(b, l->x, l->norm, 1e-6f, rows, WIDTH, l->h, err));
    RETURN_IF_ERROR(b->act_prepare(b, kind, l->h, rows, WIDTH, &l->act, err));
    RETURN_IF_ERROR(b->matmul(b, &l->qkv, &l->act, rows, l->o, err));
    RETURN_IF_ERROR(b->matmul(b, &l->qkv, &l->act, rows, l->q, err));
    RETURN_IF_ERROR(b->swiglu(b, l->o, l->q, rows * WIDTH, l->o, err));
    RETURN_IF_ERROR(b->act_prepare(b, kind, l->o, rows, WIDTH, &l->act, err));
    RETURN_IF_ERROR(b->matmul(b, &l->out, &l->act, rows, l->logits, err));
    return b->top2(b, l->logits, rows, N_VOCAB, N_VOCAB, l->top, err);
}

/* Everything both sides need, made once per suite. */
struct bench {
    struct pair x, h, q, kr, vr, o, logits, norm, act, top, cos_sin, k[BATCH_MAX], v[BATCH_MAX];
    struct layer layer[RIG_SIDES];
    struct rope_table rope[RIG_SIDES];
};

static void bench_weight(struct rig *r, enum weight_use use, const void *src, int64_t n, size_t offset,
                         struct bench *t) {
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct weight *w = (struct weight *)(void *)((char *)&t->layer[s] + offset);
        if (b->weight_upload(b, use, DTYPE_Q8_0, src, n, WIDTH, w, &r->err) != STATUS_OK) {
            fprintf(stderr, "device_parity: %s\n", r->err.message);
            exit(2);
        }
    }
}

static struct pair bench_cache(struct rig *r, size_t bytes) {
    uint16_t *h = rig_memory(bytes);
    fill_weights(r, DTYPE_F16, h, bytes / 2);
    struct pair p = rig_input(r, h, bytes);
    free(h);
    return p;
}

static void bench_make(struct rig *r, struct bench *t, int rows) {
    size_t row = (size_t)rows * WIDTH * 4, cache = (size_t)N_CTX * N_KV * HEAD_DIM * 2;
    size_t n_table = (size_t)N_CTX * HEAD_DIM;
    float *numbers = rig_memory(n_table * 4);
    void *src = rig_memory((size_t)dtype_bytes(DTYPE_Q8_0, WIDTH * WIDTH));
    fill_floats(r, FILL_NORMAL, numbers, n_table);
    t->cos_sin = rig_input(r, numbers, n_table * 4);
    t->norm = rig_input(r, numbers, WIDTH * 4);
    t->x = rig_output(r, row), t->h = rig_output(r, row), t->q = rig_output(r, row),
    t->o = rig_output(r, row);
    t->kr = rig_output(r, row), t->vr = rig_output(r, row);
    t->logits = rig_output(r, (size_t)rows * N_VOCAB * 4);
    t->top = rig_output(r, (size_t)rows * sizeof(struct top2));
    rig_room(r, N_HEAD, HEAD_DIM, N_CTX);
    enum act_kind kind = act_kind_for(r->side[0]->config.route, DTYPE_Q8_0);
    t->act = rig_output(r, act_carve(kind, rows, WIDTH, NULL, NULL));
    for (int i = 0; i < rows;
         i++) { /* steps leave gaps between their positions: what lies there is ordinary */
        t->k[i] = bench_cache(r, cache);
        t->v[i] = bench_cache(r, cache);
    }
    static const size_t at[] = {offsetof(struct layer, embed), offsetof(struct layer, qkv),
                                offsetof(struct layer, k), offsetof(struct layer, v),
                                offsetof(struct layer, out)};
    static const int64_t n[] = {N_VOCAB, N_HEAD * HEAD_DIM, N_KV * HEAD_DIM, N_KV * HEAD_DIM, N_VOCAB};
    for (int i = 0; i < 5; i++) {
        fill_weights(r, DTYPE_Q8_0, src, (size_t)n[i] * WIDTH);
        bench_weight(r, i == 0 ? WEIGHT_EMBED : WEIGHT_MATMUL, src, n[i], at[i], t);
    }
    for (int s = 0; s < RIG_SIDES; s++) {
        struct layer *l = &t->layer[s];
        const float *table = t->cos_sin.p[s];
        struct rope_table rope = {ROPE_HALF_SPLIT, HEAD_DIM, N_CTX, table, table + N_CTX * HEAD_DIM / 2};
        t->rope[s] = rope;
        l->rope = &t->rope[s];
        l->x = t->x.p[s], l->h = t->h.p[s], l->q = t->q.p[s], l->o = t->o.p[s];
        l->kr = t->kr.p[s], l->vr = t->vr.p[s], l->logits = t->logits.p[s], l->norm = t->norm.p[s];
        l->top = t->top.p[s];
        (void)act_carve(kind, rows, WIDTH, t->act.p[s], &l->act);
    }
    free(numbers);
    free(src);
}

/* One step on both sides; *replayed says whether the device ran it as a graph. */
static void bench_step(struct rig *r, struct verdict *v, struct bench *t, int rows, int step, int *replayed) {
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct kv_cache kv[BATCH_MAX];
        const struct kv_cache *kvs[BATCH_MAX];
        int32_t id[BATCH_MAX], pos[BATCH_MAX];
        for (int i = 0; i < rows; i++) {
            struct kv_cache one = {KV_F16, 1, N_CTX, N_KV, HEAD_DIM, t->k[i].p[s], t->v[i].p[s]};
            kv[i] = one;
            kvs[i] = &kv[i];
            id[i] = (step * 31 + i * 7) % N_VOCAB;
            pos[i] = step * 90 + i; /* crosses chunks between steps */
        }
        struct step st = {rows, rows, id, pos, kvs};
        *replayed = 0;
        if (!verdict_call(r, v, s, b->step_begin(b, &st, replayed, &r->err))) continue;
        if (!*replayed) (void)verdict_call(r, v, s, layer_step(b, &st, &t->layer[s], &r->err));
        (void)verdict_call(r, v, s, b->step_end(b, &st, &r->err));
    }
}

static uint64_t calls_of(struct backend *b) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    uint64_t total = 0;
    int n = b->kernel_counts(b, counts);
    for (int i = 0; i < n; i++) total += counts[i].calls;
    return total;
}

static void step_suite(struct rig *r, enum route route, int rows, int graphs) {
    struct geometry g = geometry_default(ARCH_SM90);
    struct bench t;
    struct verdict v;
    int replays = 0;
    uint64_t per_step = 0;
    memset(&t, 0, sizeof t);
    rig_open(r, route, &g, graphs);
    bench_make(r, &t, rows);
    verdict_begin(&v, "step", route_name(route), graphs ? "graph" : "eager", "rows=%d steps=%d", rows, STEPS);
    for (int step = 0; step < STEPS; step++) {
        int replayed = 0;
        uint64_t before = calls_of(r->side[1]);
        rig_poison(r, &t.logits);
        rig_poison(r, &t.top);
        bench_step(r, &v, &t, rows, step, &replayed);
        replays += replayed;
        uint64_t ran = calls_of(r->side[1]) - before;
        if (step == 0) per_step = ran;
        if (ran != per_step || ran == 0) v.mismatches++, v.where = "kernel count";
        verdict_floats(r, &v, &t.logits, "logits");
        verdict_bytes(r, &v, &t.top, "top2");
        for (int i = 0; i < rows; i++) verdict_bytes(r, &v, &t.k[i], "k"), verdict_bytes(r, &v, &t.v[i], "v");
    }
    if (graphs && replays != STEPS - 2) v.mismatches++, v.where = "replays";
    verdict_overflow(r, &v);
    verdict_end(r, &v);
    rig_close(r);
}

void parity_steps(struct rig *r) {
    static const int rows[] = {1, 2, 3, BATCH_MAX};
    if (!rig_wants(r, "step")) return;
    for (int route = ROUTE_F16; route <= ROUTE_Q8; route++)
        for (int i = 0; i < 4; i++)
            for (int graphs = 0; graphs < 2; graphs++) step_suite(r, (enum route)route, rows[i], graphs);
}
