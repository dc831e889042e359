/* bench_kernels.c - see bench_kernels.h: buffers, the table of ops and the rounds. Rows are in bench_kernels_csv.c. */
#include "gates/bench_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/rng.h"
#include "gates/oracle/oracle.h"

enum {
    N_HEAD = 28,
    N_KV = 4,
    HEAD_DIM = 128,
    N_CTX = 32768,
    KV_LAYERS = 8,
    WIDE = 18944,
    CHUNK = 4096,
    COPIES_MAX = 24
};
#define ROTATE_BYTES ((size_t)160 << 20) /* several times the L2 */
#define GRAPH_S      4e-3                /* a graph lasts about this long: its launch is then nothing */
#define CALLS_MAX    2048
#define PERIOD       ((size_t)1 << 20) /* elements after which inputs repeat */

/* One matrix, in as many copies as it takes. */
struct matrix {
    enum dtype t;
    int64_t n, k;
    int copies;
    struct weight w[COPIES_MAX];
};

enum kernel_op { OP_MATMUL, OP_ATTENTION, OP_RMSNORM, OP_ACT, OP_SWIGLU, OP_ADD };

/* What a call needs; one for each struct kernel_time. */
struct subject {
    struct stage *s;
    enum kernel_op op;
    struct matrix *m;
    int64_t rows, k;
    int first; /* attention: position of the first row */
};

/* One route's backend and everything its calls work on. */
struct stage {
    struct backend *b;
    float *x, *y, *z;
    struct act act[ACT_KINDS];
    struct kv_cache kv;
    struct step step;
    struct matrix m[16];
    int n_matrices;
};

struct bench_all {
    struct stage stage[2];
    struct subject subject[KERNEL_TIMES_MAX];
    struct kernel_times *out;
    struct err *err;
};

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static enum act_kind kind_of(const struct stage *s) {
    return s->b->config.route == ROUTE_F16 ? ACT_F16 : ACT_Q8_256;
}

static enum status call(void *ctx, int i, struct err *err) {
    const struct subject *u = ctx;
    struct stage *s = u->s;
    struct backend *b = s->b;
    switch (u->op) {
    case OP_MATMUL:
        return b->matmul(b, &u->m->w[i % u->m->copies], &s->act[u->m->w[0].act], u->rows, s->y, err);
    case OP_ATTENTION:
        return b->attention(b, &s->step, i % s->kv.n_layer, N_HEAD, s->x, s->y, err);
    case OP_RMSNORM:
        return b->rmsnorm(b, s->x, s->z, 1e-6f, u->rows, u->k, s->y, err);
    case OP_ACT:
        return b->act_prepare(b, kind_of(s), s->x, u->rows, u->k, &s->act[kind_of(s)], err);
    case OP_SWIGLU:
        return b->swiglu(b, s->x, s->z, u->rows * u->k, s->y, err);
    case OP_ADD:
        return b->add(b, s->y, s->z, u->rows * u->k, err);
    }
    return err_set(err, STATUS_USAGE, "bench: op %d", (int)u->op);
}

/* What must stand before the calls: this op's activations or positions. */
static enum status prepare(const struct subject *u, struct err *err) {
    struct stage *s = u->s;
    struct backend *b = s->b;
    int replayed;
    if (u->op == OP_MATMUL)
        return b->act_prepare(b, u->m->w[0].act, s->x, u->rows, u->m->k, &s->act[u->m->w[0].act], err);
    if (u->op != OP_ATTENTION) return STATUS_OK;
    static const int32_t id[CHUNK] = {0};
    static int32_t pos[CHUNK];
    static const struct kv_cache *kv[1];
    for (int i = 0; i < u->rows; i++) pos[i] = u->first + i;
    kv[0] = &s->kv;
    s->step = (struct step){(int)u->rows, 1, id, pos, kv};
    return b->step_begin(b, &s->step, &replayed, err);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------ */

static enum status alloc_filled(struct backend *b, const void *pattern, size_t period, size_t bytes,
                                void **out, struct err *err) {
    RETURN_IF_ERROR(b->alloc(b, bytes, out, err));
    for (size_t at = 0; at < bytes; at += period) {
        size_t n = bytes - at < period ? bytes - at : period;
        RETURN_IF_ERROR(b->copy_in(b, (char *)*out + at, pattern, n, err));
    }
    return STATUS_OK;
}

static enum status open_stage(struct stage *s, const struct backend_config *config, enum route route,
                              const float *floats, const uint16_t *halves, struct err *err) {
    struct backend_config c = *config;
    size_t wide = (size_t)CHUNK * WIDE * sizeof(float);
    void *p = NULL;
    c.route = route;
    c.graphs = 0;
    RETURN_IF_ERROR(backend_cuda_open(&c, &s->b, err));
    float **buffers[] = {&s->x, &s->y, &s->z};
    for (int i = 0; i < 3; i++) {
        RETURN_IF_ERROR(alloc_filled(s->b, floats, PERIOD * sizeof(float), wide, &p, err));
        *buffers[i] = p;
    }
    for (int kind = ACT_F16; kind < ACT_KINDS; kind++) {
        RETURN_IF_ERROR(s->b->alloc(s->b, act_carve((enum act_kind)kind, CHUNK, WIDE, NULL, NULL), &p, err));
        (void)act_carve((enum act_kind)kind, CHUNK, WIDE, p, &s->act[kind]);
        s->act[kind].kind = (enum act_kind)kind;
    }
    RETURN_IF_ERROR(s->b->alloc(s->b, s->b->attention_room(s->b, N_HEAD, HEAD_DIM, N_CTX, NULL), &p, err));
    (void)s->b->attention_room(s->b, N_HEAD, HEAD_DIM, N_CTX, p);
    s->kv = (struct kv_cache){KV_F16, KV_LAYERS, N_CTX, N_KV, HEAD_DIM, NULL, NULL};
    size_t plane = (size_t)KV_LAYERS * N_CTX * N_KV * HEAD_DIM * sizeof *halves;
    RETURN_IF_ERROR(alloc_filled(s->b, halves, PERIOD * sizeof *halves, plane, &s->kv.k, err));
    return alloc_filled(s->b, halves, PERIOD * sizeof *halves, plane, &s->kv.v, err);
}

/* Weights of any code with small scales: bytes of a block alternate between any and small, as scales are somewhere. */
static enum status add_matrix(struct stage *s, enum dtype t, int64_t n, int64_t k, const uint16_t *halves,
                              struct err *err) {
    size_t bytes = (size_t)dtype_bytes(t, (uint64_t)(n * k)),
           period = (size_t)dtype_info((int)t)->bytes * 8192;
    struct matrix *m = &s->m[s->n_matrices++];
    uint8_t *host = malloc(bytes + period);
    enum status st = host == NULL ? err_set(err, STATUS_NOMEM, "bench: out of memory") : STATUS_OK;
    for (size_t i = 0; i < period && st == STATUS_OK; i++) {
        size_t in = i % (size_t)dtype_info((int)t)->bytes;
        host[i] = (uint8_t)(in % 2 ? rng_u64(1, i) & 0x2f : rng_u64(1, i));
        if (t == DTYPE_F16) host[i] = ((const uint8_t *)halves)[i];
    }
    for (size_t at = period; at < bytes && st == STATUS_OK; at += period) memcpy(host + at, host, period);
    m->t = t;
    m->n = n;
    m->k = k;
    m->copies = (int)(ROTATE_BYTES / bytes) + 1;
    if (m->copies > COPIES_MAX) m->copies = COPIES_MAX;
    for (int i = 0; i < m->copies && st == STATUS_OK; i++)
        st = s->b->weight_upload(s->b, WEIGHT_MATMUL, t, host, n, k, &m->w[i], err);
    free(host);
    return st;
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static struct kernel_time *add_time(struct bench_all *a, struct stage *s, enum kernel_op op, int64_t rows,
                                    struct subject **u) {
    struct kernel_times *t = a->out;
    struct kernel_time *k = &t->time[t->n];
    *u = &a->subject[t->n];
    if (t->n < KERNEL_TIMES_MAX - 1) t->n++; /* the table below is shorter */
    k->route = s->b->config.route;
    k->product = k->route == ROUTE_Q8 && op == OP_MATMUL ? CEILING_S8 : CEILING_F16;
    (*u)->s = s;
    (*u)->op = op;
    (*u)->rows = rows;
    return k;
}

static void add_matmul(struct bench_all *a, struct stage *s, struct matrix *m, int64_t rows) {
    struct subject *u;
    struct kernel_time *k = add_time(a, s, OP_MATMUL, rows, &u);
    u->m = m;
    k->bytes = (double)dtype_bytes(m->t, (uint64_t)(m->n * m->k));
    k->operations = 2.0 * (double)rows * (double)m->n * (double)m->k;
    (void)snprintf(k->op, sizeof k->op, "matmul %s", dtype_info((int)m->t)->name);
    (void)snprintf(k->shape, sizeof k->shape, "rows=%lld n=%lld k=%lld", (long long)rows, (long long)m->n,
                   (long long)m->k);
}

static void add_attention(struct bench_all *a, struct stage *s, int rows, int first) {
    struct subject *u;
    struct kernel_time *k = add_time(a, s, OP_ATTENTION, rows, &u);
    u->first = first;
    k->bytes = 2.0 * 2.0 * (double)(first + rows) * N_KV * HEAD_DIM;
    k->operations = 4.0 * (first + (rows + 1) / 2.0) * rows * N_HEAD * HEAD_DIM;
    (void)snprintf(k->op, sizeof k->op, "%s", rows == 1 ? "attention decode" : "attention prefill");
    (void)snprintf(k->shape, sizeof k->shape, "rows=%d first=%d heads=28/4 head_dim=128", rows, first);
}

static void add_rows(struct bench_all *a, struct stage *s, int64_t rows) {
    static const struct {
        const char *name;
        enum kernel_op op;
        int64_t k;
        double bytes; /* per element, read and written */
    } all[] = {{"rmsnorm", OP_RMSNORM, 3584, 8},
               {"act_prepare", OP_ACT, 3584, 6},
               {"add", OP_ADD, 3584, 12},
               {"swiglu", OP_SWIGLU, WIDE, 12},
               {"act_prepare", OP_ACT, WIDE, 6}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct subject *u;
        struct kernel_time *k = add_time(a, s, all[i].op, rows, &u);
        u->k = all[i].k;
        k->bytes = all[i].bytes * (double)rows * (double)all[i].k;
        if (all[i].op == OP_ACT && s->b->config.route == ROUTE_Q8) k->bytes *= 5.0 / 6.0;
        (void)snprintf(k->op, sizeof k->op, "%s", all[i].name);
        (void)snprintf(k->shape, sizeof k->shape, "rows=%lld cols=%lld", (long long)rows, (long long)u->k);
    }
}

static enum status fill_f16(struct bench_all *a, struct stage *s, const uint16_t *halves, struct err *err) {
    static const int64_t shapes[][2] = {
        {3584, 3584}, {512, 3584}, {WIDE, 3584}, {3584, WIDE}, {152064, 3584}};
    for (int i = 0; i < 5; i++)
        RETURN_IF_ERROR(add_matrix(s, DTYPE_F16, shapes[i][0], shapes[i][1], halves, err));
    for (int i = 0; i < 5; i++) {
        if (i < 4) add_matmul(a, s, &s->m[i], 3325), add_matmul(a, s, &s->m[i], 512);
        add_matmul(a, s, &s->m[i], 1);
    }
    add_attention(a, s, 3325, 0);
    add_attention(a, s, 512, 2813);
    add_attention(a, s, CHUNK, 12288);
    add_rows(a, s, 3325);
    return STATUS_OK;
}

static enum status fill_q8(struct bench_all *a, struct stage *s, const uint16_t *halves, struct err *err) {
    static const struct {
        enum dtype t;
        int64_t n, k;
        int prefill;
    } all[] = {{DTYPE_Q4_K, 3584, 3584, 1}, {DTYPE_Q4_K, 512, 3584, 1},  {DTYPE_Q4_K, WIDE, 3584, 1},
               {DTYPE_Q4_K, 3584, WIDE, 1}, {DTYPE_Q6_K, 3584, WIDE, 1}, {DTYPE_Q6_K, 152064, 3584, 0},
               {DTYPE_Q8_0, WIDE, 3584, 1}, {DTYPE_Q4_0, WIDE, 3584, 0}, {DTYPE_Q5_K, WIDE, 3584, 0}};
    static const int contexts[] = {40, 2047, 3324, 8191, N_CTX - 1};
    for (int i = 0; i < 9; i++) {
        RETURN_IF_ERROR(add_matrix(s, all[i].t, all[i].n, all[i].k, halves, err));
        add_matmul(a, s, &s->m[i], 1);
        if (all[i].prefill) add_matmul(a, s, &s->m[i], 3325);
    }
    add_matmul(a, s, &s->m[2], 8);
    for (int i = 0; i < 5; i++) add_attention(a, s, 1, contexts[i]);
    add_rows(a, s, 1);
    return STATUS_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------- */

static enum status time_round(struct bench_all *a, int round, struct err *err) {
    struct kernel_times *t = a->out;
    struct backend *first = a->stage[0].b;
    for (int c = 0; c < CEILINGS; c++)
        RETURN_IF_ERROR(first->ceiling(first, (enum ceiling)c, &t->ceiling[c][round], err));
    for (int i = 0; i < t->n; i++) {
        struct kernel_time *k = &t->time[i];
        struct subject *u = &a->subject[i];
        struct backend *b = u->s->b;
        double s = 0.0;
        RETURN_IF_ERROR(prepare(u, err));
        if (k->calls == 0) { /* a short graph says how long the real one should be */
            RETURN_IF_ERROR(b->time_calls(b, call, u, 4, &s, err));
            double want = GRAPH_S * 4.0 / s;
            k->calls = want < 4.0 ? 4 : want > CALLS_MAX ? CALLS_MAX : (int)want;
        }
        RETURN_IF_ERROR(b->time_calls(b, call, u, k->calls, &s, err));
        k->seconds[round] = s / k->calls;
    }
    return STATUS_OK;
}

static enum status run_all(struct bench_all *a, const struct backend_config *config, int rounds,
                           const float *floats, const uint16_t *halves, void (*progress)(int done, int all),
                           struct err *err) {
    for (int route = ROUTE_F16; route <= ROUTE_Q8; route++)
        RETURN_IF_ERROR(
            open_stage(&a->stage[route == ROUTE_Q8], config, (enum route)route, floats, halves, err));
    RETURN_IF_ERROR(fill_f16(a, &a->stage[0], halves, err));
    RETURN_IF_ERROR(fill_q8(a, &a->stage[1], halves, err));
    for (int round = 0; round < rounds; round++) {
        RETURN_IF_ERROR(time_round(a, round, err));
        a->out->rounds = round + 1;
        if (progress != NULL) progress(round + 1, rounds);
    }
    return STATUS_OK;
}

enum status bench_kernels(const struct backend_config *config, int rounds, struct kernel_times *out,
                          void (*progress)(int done, int all), struct err *err) {
    struct bench_all *a = calloc(1, sizeof *a);
    float *floats = malloc(PERIOD * sizeof *floats);
    uint16_t *halves = malloc(PERIOD * sizeof *halves);
    enum status s = STATUS_OK;
    memset(out, 0, sizeof *out);
    if (a == NULL || floats == NULL || halves == NULL) {
        s = err_set(err, STATUS_NOMEM, "bench: out of memory");
    } else {
        for (size_t i = 0; i < PERIOD; i++) {
            floats[i] = rng_normal(3, i);
            halves[i] = oracle_f16_round((double)floats[i] * 0.05);
        }
        a->out = out;
        s = run_all(a, config, rounds < KERNEL_ROUNDS_MAX ? rounds : KERNEL_ROUNDS_MAX, floats, halves,
                    progress, err);
        for (int i = 0; i < 2; i++)
            if (a->stage[i].b != NULL) a->stage[i].b->close(a->stage[i].b);
    }
    free(a);
    free(floats);
    free(halves);
    return s;
}
