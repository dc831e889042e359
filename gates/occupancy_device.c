/* occupancy_device.c - see occupancy_device.h. Inputs are zeros: nothing is judged but how blocks fit. */
#include "gates/occupancy_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = CHUNK_MAX,
    WIDTH = 8192,
    N_CTX = CHUNK_MAX,
    HEADS = 32,
    N_KV = 8,
    TYPES = 8,
    PRODUCT_N = 32768
};
#define FLOATS ((size_t)ROWS * WIDTH)

/* One backend and what its calls work on. */
struct stage {
    struct backend *b;
    float *x, *y, *z;
    struct act act[ACT_KINDS];
    void *keys, *values;
    struct err *err;
};

static enum status stage_buffers(struct stage *s) {
    void *p = NULL;
    float **floats[] = {&s->x, &s->y, &s->z};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        RETURN_IF_ERROR(s->b->alloc(s->b, FLOATS * sizeof(float), &p, s->err));
        RETURN_IF_ERROR(s->b->fill(s->b, p, 0, FLOATS * sizeof(float), s->err));
        *floats[i] = p;
    }
    for (int kind = ACT_F16; kind < ACT_KINDS; kind++) {
        RETURN_IF_ERROR(
            s->b->alloc(s->b, act_carve((enum act_kind)kind, ROWS, WIDTH, NULL, NULL), &p, s->err));
        (void)act_carve((enum act_kind)kind, ROWS, WIDTH, p, &s->act[kind]);
    }
    RETURN_IF_ERROR(
        s->b->alloc(s->b, s->b->attention_room(s->b, HEADS, FA_HEAD_DIM_MAX, N_CTX, NULL), &p, s->err));
    (void)s->b->attention_room(s->b, HEADS, FA_HEAD_DIM_MAX, N_CTX, p);
    void **planes[] = {&s->keys, &s->values};
    size_t bytes = (size_t)N_CTX * N_KV * FA_HEAD_DIM_MAX * sizeof(float);
    for (int i = 0; i < 2; i++) {
        RETURN_IF_ERROR(s->b->alloc(s->b, bytes, planes[i], s->err));
        RETURN_IF_ERROR(s->b->fill(s->b, *planes[i], 0, bytes, s->err));
    }
    return STATUS_OK;
}

/* A step's attention: `rows` prompt rows of one sequence, or a late position of as many. */
static enum status run_attention(struct stage *s, enum kv_dtype dtype, int head_dim, int rows) {
    static const int32_t ids[ROWS] = {0};
    static int32_t pos[ROWS];
    struct kv_cache kv = {dtype, 1, N_CTX, N_KV, head_dim, s->keys, s->values};
    const struct kv_cache *kvs[BATCH_MAX];
    int replayed, decode = rows <= BATCH_MAX;
    for (int i = 0; i < BATCH_MAX; i++) kvs[i] = &kv;
    for (int i = 0; i < rows; i++) pos[i] = decode ? N_CTX - 1 - i : i;
    struct step st = {rows, decode ? rows : 1, ids, pos, kvs};
    struct rope_table rope = {ROPE_HALF_SPLIT, head_dim, N_CTX, s->z, s->z};
    RETURN_IF_ERROR(s->b->step_begin(s->b, &st, &replayed, s->err));
    RETURN_IF_ERROR(s->b->rope(s->b, &st, &rope, HEADS, head_dim, s->x, s->err));
    RETURN_IF_ERROR(s->b->kv_append(s->b, &st, 0, s->x, s->y, s->err));
    RETURN_IF_ERROR(s->b->attention(s->b, &st, 0, HEADS, s->x, s->y, s->err));
    return s->b->step_end(s->b, &st, s->err);
}

static enum status run_attentions(struct stage *s) {
    static const int head_dims[] = {64, 128, 256};
    for (int d = 0; d < 3; d++)
        for (int dtype = KV_F16; dtype <= KV_Q8_0; dtype++) {
            RETURN_IF_ERROR(run_attention(s, (enum kv_dtype)dtype, head_dims[d], ROWS));
            RETURN_IF_ERROR(run_attention(s, (enum kv_dtype)dtype, head_dims[d], BATCH_MAX));
        }
    return STATUS_OK;
}

static enum status run_product(struct stage *s, enum dtype t) {
    static const int64_t rows[] = {1, 2, 64, ROWS / 16};
    const int64_t n = PRODUCT_N, k = 1024;
    struct weight w;
    void *zeros = calloc(1, (size_t)dtype_bytes(t, (uint64_t)(n * k)));
    if (zeros == NULL) return err_set(s->err, STATUS_NOMEM, "occupancy: out of memory");
    enum status st = s->b->weight_upload(s->b, WEIGHT_MATMUL, t, zeros, n, k, &w, s->err);
    free(zeros);
    for (int i = 0; i < 4 && st == STATUS_OK; i++) {
        struct act *a = &s->act[w.act];
        st = s->b->act_prepare(s->b, w.act, s->x, rows[i], k, a, s->err);
        if (st == STATUS_OK) st = s->b->matmul(s->b, &w, a, rows[i], s->y, s->err);
    }
    s->b->weight_free(s->b, &w);
    return st;
}

static enum status run_rows(struct stage *s) {
    enum act_kind kind = s->b->config.route == ROUTE_F16 ? ACT_F16 : ACT_Q8_256;
    struct top2 *top = (struct top2 *)(void *)s->z;
    for (int64_t cols = 512; cols <= WIDTH; cols *= 4) { /* at most 1024: a warp holds a row */
        RETURN_IF_ERROR(s->b->add(s->b, s->x, s->y, ROWS * cols, s->err));
        RETURN_IF_ERROR(s->b->rmsnorm(s->b, s->x, s->z, 1e-6f, ROWS, cols, s->y, s->err));
        RETURN_IF_ERROR(s->b->act_prepare(s->b, kind, s->y, ROWS, cols, &s->act[kind], s->err));
        RETURN_IF_ERROR(s->b->rmsnorm(s->b, s->x, s->z, 1e-6f, ROWS, cols, s->y, s->err)); /* alone */
        RETURN_IF_ERROR(s->b->add(s->b, s->x, s->y, ROWS * cols, s->err));
        RETURN_IF_ERROR(s->b->swiglu(s->b, s->x, s->y, ROWS * cols, s->x, s->err));
        RETURN_IF_ERROR(s->b->act_prepare(s->b, kind, s->x, ROWS, cols, &s->act[kind], s->err));
        RETURN_IF_ERROR(s->b->swiglu(s->b, s->x, s->y, ROWS * cols, s->x, s->err));
    }
    return s->b->top2(s->b, s->x, 2, WIDTH, WIDTH, top, s->err);
}

static enum status run_products(struct stage *s) {
    static const enum dtype types[TYPES] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                                            DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    if (s->b->config.route == ROUTE_F16) return run_product(s, DTYPE_F16);
    for (int i = 0; i < TYPES; i++) RETURN_IF_ERROR(run_product(s, types[i]));
    return STATUS_OK;
}

/* Adds the launches that are not listed yet. */
static enum status list(const struct kernel_launch *l, int n_l, const char *geometry,
                        struct occupancy_seen *out, int *n, struct err *err) {
    for (int i = 0; i < n_l; i++) {
        struct occupancy_seen s;
        int known = 0;
        memset(&s, 0, sizeof s);
        (void)snprintf(s.needs.kernel, sizeof s.needs.kernel, "%s", l[i].kernel);
        (void)snprintf(s.needs.geometry, sizeof s.needs.geometry, "%s",
                       strncmp(l[i].kernel, "fa_", 3) == 0 ? geometry : "");
        s.needs.threads = l[i].threads;
        s.needs.registers = l[i].registers;
        s.needs.shared = l[i].shared;
        s.needs.dynamic = l[i].dynamic;
        s.queried = l[i].queried;
        s.measured = l[i].measured;
        for (int j = 0; j < *n && !known; j++) {
            known = memcmp(&out[j].needs, &s.needs, sizeof s.needs) == 0;
            if (known && s.measured > out[j].measured) out[j].measured = s.measured;
        }
        if (known) continue;
        if (*n == OCCUPANCY_SEEN_MAX)
            return err_set(err, STATUS_LIMIT, "occupancy: more than %d kinds of launch", OCCUPANCY_SEEN_MAX);
        out[(*n)++] = s;
    }
    return STATUS_OK;
}

static enum status run_stage(struct stage *s, struct occupancy_seen *out, int *n) {
    static struct kernel_launch launches[BACKEND_LAUNCHES_MAX];
    char geometry[64];
    int n_launches = 0;
    RETURN_IF_ERROR(stage_buffers(s));
    RETURN_IF_ERROR(run_attentions(s));
    RETURN_IF_ERROR(run_products(s));
    RETURN_IF_ERROR(run_rows(s));
    RETURN_IF_ERROR(s->b->sync(s->b, s->err));
    RETURN_IF_ERROR(s->b->launches(s->b, launches, &n_launches, s->err));
    (void)snprintf(geometry, sizeof geometry, "fa_tq=%d fa_tkv=%d", s->b->config.geometry.fa_tq,
                   s->b->config.geometry.fa_tkv);
    return list(launches, n_launches, geometry, out, n, s->err);
}

enum status occupancy_seen_on_device(struct occupancy_seen out[OCCUPANCY_SEEN_MAX], int *n, struct err *err) {
    static const int tqs[] = {64, 128}, tkvs[] = {16, 32, 64};
    struct device_info d;
    *n = 0;
    RETURN_IF_ERROR(backend_cuda_device(&d, err));
    for (int route = ROUTE_F16; route <= ROUTE_Q8; route++)
        for (int i = 0; i < 6; i++) {
            struct backend_config c;
            struct stage s;
            memset(&c, 0, sizeof c);
            memset(&s, 0, sizeof s);
            c.route = (enum route)route;
            c.arch = d.cc_major == 9 ? ARCH_SM90 : ARCH_SM80;
            c.geometry = geometry_default(c.arch);
            c.geometry.fa_tq = tqs[i / 3];
            c.geometry.fa_tkv = tkvs[i % 3];
            s.err = err;
            RETURN_IF_ERROR(backend_cuda_open(&c, &s.b, err));
            enum status st = run_stage(&s, out, n);
            s.b->close(s.b);
            RETURN_IF_ERROR(st);
        }
    return STATUS_OK;
}
