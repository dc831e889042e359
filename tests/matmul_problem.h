/* matmul_problem.h - one matrix product of any type and route, its operands made from a fixed stream of numbers.
 * Not a test: included by the tests and the benchmark of the products.
 * Source: ours. Exercise: ctest -R unit.matmul */
#ifndef FORKGATE_MATMUL_PROBLEM_H
#define FORKGATE_MATMUL_PROBLEM_H

#include <stddef.h>

#include "engine/backend.h"
#include "twin_variants.h"

static const enum dtype all_types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
#define N_TYPES (sizeof all_types / sizeof all_types[0])

struct problem {
    enum route route;
    enum dtype dtype;
    int64_t n, k, rows;
    uint8_t *src; /* [n, k] in the file's layout */
    float *x;     /* [rows, k] */
    float *bias;  /* [n] or NULL */
    struct weight w;
    struct act a;
    void *act_memory;
};

static inline const char *type_name(enum dtype t) {
    return dtype_info((int)t)->name;
}

static inline int is_runnable(enum route route, enum dtype t, int64_t k) {
    const struct dtype_info *info = dtype_info((int)t);
    return k % info->block == 0 && (route != ROUTE_Q8 || info->is_quantised);
}

/* Gives every block scales that are exact powers of two (exact != 0) or ordinary ones. */
static inline void set_scales(enum dtype t, uint8_t *src, size_t n_blocks, int exact) {
    const struct dtype_info *info = dtype_info((int)t);
    size_t d_at = t == DTYPE_Q6_K ? offsetof(struct block_q6_K, d) : 0;
    int has_min = t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K;
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *block = src + b * (size_t)info->bytes;
        uint16_t d = fm_f32_to_f16(exact ? 1.0f : rng_normal(70, b) * 0.01f);
        uint16_t m = fm_f32_to_f16(exact ? 2.0f : rng_normal(71, b) * 0.02f);
        memcpy(block + d_at, &d, sizeof d);
        if (has_min) memcpy(block + 2, &m, sizeof m);
    }
}

/* exact: integer weights and activations whose sums fit f32, so that every correct order gives the same bits. */
static inline void fill_weights(struct problem *p, int exact) {
    const struct dtype_info *info = dtype_info((int)p->dtype);
    size_t elements = (size_t)(p->n * p->k), bytes = (size_t)dtype_bytes(p->dtype, elements);
    p->src = malloc(bytes);
    if (info->is_quantised) {
        for (size_t i = 0; i < bytes; i++) p->src[i] = (uint8_t)rng_u64(72, i);
        if (exact && p->dtype == DTYPE_Q6_K) /* small sub-scales keep 18944 terms within 2^24 */
            for (size_t b = 0; b < bytes / 210; b++)
                for (int j = 0; j < 16; j++) p->src[b * 210 + 192 + (size_t)j] = (uint8_t)(j % 3 - 1);
        if (exact && (p->dtype == DTYPE_Q4_K || p->dtype == DTYPE_Q5_K))
            for (size_t b = 0; b < bytes / (size_t)info->bytes; b++)
                for (int j = 0; j < 12; j++) p->src[b * (size_t)info->bytes + 4 + (size_t)j] &= 3;
        set_scales(p->dtype, p->src, bytes / (size_t)info->bytes, exact);
        return;
    }
    for (size_t i = 0; i < elements; i++) {
        float x = exact ? (float)((int)(rng_u64(73, i) % 15) - 7) : rng_normal(73, i) * 0.05f;
        uint16_t half = p->dtype == DTYPE_F16 ? fm_f32_to_f16(x) : fm_f32_to_bf16(x);
        if (p->dtype == DTYPE_F32)
            memcpy(p->src + 4 * i, &x, 4);
        else
            memcpy(p->src + 2 * i, &half, 2);
    }
}

static inline void prepare(struct problem *p, const struct twin_ctx *t) {
    act_carve(p->w.act, p->rows, p->k, p->act_memory, &p->a);
    act_prepare_twin(t, p->w.act, p->x, p->rows, p->k, &p->a);
}

static inline struct problem problem_make(enum route route, enum dtype t, int64_t n, int64_t k, int64_t rows,
                                          int exact) {
    struct problem p = {.route = route, .dtype = t, .n = n, .k = k, .rows = rows};
    struct twin_ctx ctx = {.route = route, .arch = ARCH_SM90, .geometry = geometry_default(ARCH_SM90)};
    uint64_t overflow = 0;
    ctx.overflow = &overflow;
    fill_weights(&p, exact);
    p.x = random_floats(74, (size_t)(rows * k), 1.0f);
    if (exact) /* one element in eight, within +-3; 127 fixes every block's scale at 1 */
        for (int64_t i = 0; i < rows * k; i++)
            p.x[i] = rng_u64(75, (uint64_t)i) % 8 ? 0.0f : (float)((int)(rng_u64(76, (uint64_t)i) % 7) - 3);
    if (exact && route == ROUTE_Q8)
        for (int64_t i = 0; i < rows * k; i += 32) p.x[i] = i % 64 ? -127.0f : 127.0f;
    p.w = (struct weight){.dtype = t, .act = act_kind_for(route, t), .n = n, .k = k};
    struct err err = {""};
    enum status s = STATUS_OK;
    if (route == ROUTE_F32)
        p.w.data = p.src;
    else
        s = (route == ROUTE_F16 ? matmul_f16_pack : matmul_q8_pack)(t, p.src, n, k, &p.w.data, &err);
    if (s != STATUS_OK) abort();
    size_t bytes = act_carve(p.w.act, rows, k, NULL, NULL);
    p.act_memory = bytes == 0 ? NULL : malloc(bytes);
    prepare(&p, &ctx);
    return p;
}

static inline void problem_free(struct problem *p) {
    if (p->route != ROUTE_F32) free(p->w.data);
    free(p->src);
    free(p->x);
    free(p->bias);
    free(p->act_memory);
}

static inline void multiply(const struct problem *p, const struct twin_ctx *t, const struct act *a,
                            int64_t rows, float *y) {
    if (p->route == ROUTE_F32)
        matmul_f32_twin(t, &p->w, a, rows, y);
    else if (p->route == ROUTE_F16)
        matmul_f16_twin(t, &p->w, a, rows, y);
    else
        matmul_q8_twin(t, &p->w, a, rows, y);
}

/* The act of row r alone. */
static inline struct act act_row(const struct act *a, int64_t r) {
    struct act one = *a;
    int64_t block = act_block(a->kind), k_pad = (a->k + TC_K - 1) / TC_K * TC_K;
    if (a->f32 != NULL) one.f32 = a->f32 + r * a->k;
    if (a->f16 != NULL) one.f16 = a->f16 + r * k_pad;
    if (a->q == NULL) return one;
    one.q = a->q + r * a->k;
    one.d = a->d + r * (a->k / block);
    one.sum = a->sum + r * (a->k / ACT_SUM_GROUP);
    return one;
}

/* Row r of the activations as the product sees it. */
static inline double act_value(const struct act *a, int64_t r, int64_t i) {
    if (a->kind == ACT_F32) return (double)a->f32[r * a->k + i];
    if (a->kind == ACT_F16) return (double)fm_f16_to_f32(a->f16[r * ((a->k + TC_K - 1) / TC_K * TC_K) + i]);
    return (double)a->q[r * a->k + i] * (double)a->d[(r * a->k + i) / act_block(a->kind)];
}

#endif
