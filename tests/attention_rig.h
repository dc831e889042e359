/* attention_rig.h - what the attention tests share: a filled, poisoned cache and one call of the twin.
 * Not for other tests. Source: ours. Exercise: ctest -R unit.attention */
#ifndef FORKGATE_ATTENTION_RIG_H
#define FORKGATE_ATTENTION_RIG_H

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fmath.h"
#include "engine/ops/twins.h"
#include "engine/tcmodel.h"

#define NAN_F16   0x7e00
#define TAIL_ROWS 40 /* cache rows behind the last used position */

/* One layer of interest (the second of two), n_pos positions in use, q for every position. */
struct rig {
    int hd, n_kv, group, n_pos;
    struct kv_cache kv;
    float *q, *o; /* [n_pos, n_kv * group, hd] */
};

struct call {
    enum arch arch;
    struct geometry g;
    int avx2;
    par *pool;
    enum route route;
    uint64_t overflow;
};

static uint32_t rig_state = 1;
static inline float rig_random(void) { /* uniform in [-1, 1) */
    rig_state = rig_state * 1664525u + 1013904223u;
    return (float)(rig_state >> 8) * 0x1p-23f - 1.0f;
}

static inline struct call call_default(void) {
    struct call c = {ARCH_SM90, geometry_default(ARCH_SM90), tc_have_avx2(), NULL, ROUTE_F16, 0};
    return c;
}

static inline size_t rig_heads(const struct rig *r) {
    return (size_t)r->n_kv * (size_t)r->group;
}
static inline size_t rig_outputs(const struct rig *r) {
    return (size_t)r->n_pos * rig_heads(r) * (size_t)r->hd;
}
static inline size_t rig_cache_elements(const struct rig *r) {
    return 2 * (size_t)r->kv.n_ctx * (size_t)r->n_kv * (size_t)r->hd;
}
/* Element offset of position j, head g in layer 1. */
static inline size_t rig_at(const struct rig *r, int j, int g) {
    return (((size_t)r->kv.n_ctx + (size_t)j) * (size_t)r->n_kv + (size_t)g) * (size_t)r->hd;
}

/* Everything behind n_pos, and the whole other layer, holds `poison`. */
static inline struct rig rig_open(int hd, int n_kv, int group, int n_pos, float q_scale, float v_scale,
                                  uint16_t poison) {
    struct rig r = {.hd = hd, .n_kv = n_kv, .group = group, .n_pos = n_pos};
    r.kv = (struct kv_cache){KV_F16, 2, n_pos + TAIL_ROWS, n_kv, hd, NULL, NULL};
    size_t n = rig_cache_elements(&r), row = (size_t)n_kv * (size_t)hd;
    uint16_t *k = malloc(n * sizeof *k), *v = malloc(n * sizeof *v);
    r.q = malloc(rig_outputs(&r) * sizeof *r.q);
    r.o = malloc(rig_outputs(&r) * sizeof *r.o);
    if (k == NULL || v == NULL || r.q == NULL || r.o == NULL) abort();
    for (size_t i = 0; i < n; i++) k[i] = v[i] = poison;
    for (size_t i = rig_at(&r, 0, 0); i < rig_at(&r, 0, 0) + (size_t)n_pos * row; i++) {
        k[i] = fm_f32_to_f16(rig_random() * 2.0f);
        v[i] = fm_f32_to_f16(rig_random() * v_scale);
    }
    for (size_t i = 0; i < rig_outputs(&r); i++) r.q[i] = rig_random() * q_scale;
    r.kv.k = k;
    r.kv.v = v;
    return r;
}

static inline void rig_close(struct rig *r) {
    free(r->kv.k);
    free(r->kv.v);
    free(r->q);
    free(r->o);
}

/* Rows [first, first + n) in one step into r->o, which is poisoned before. */
static inline enum status rig_run(struct rig *r, struct call *c, int first, int n) {
    int32_t pos[CHUNK_MAX];
    for (int i = 0; i < n; i++) pos[i] = first + i;
    const struct kv_cache *kv = &r->kv;
    struct step s = {n, 1, NULL, pos, &kv};
    struct twin_ctx t = {c->route, c->arch, c->g, c->avx2, c->pool, &c->overflow, NULL};
    size_t row = rig_heads(r) * (size_t)r->hd;
    memset(r->o + (size_t)first * row, 0xff, (size_t)n * row * sizeof *r->o);
    struct err err;
    return attention_twin(&t, &s, 1, (int)rig_heads(r), r->q + (size_t)first * row,
                          r->o + (size_t)first * row, &err);
}

static inline void expect_equal(const float *got, const float *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(fm_f32_bits(got[i]), fm_f32_bits(want[i]), "%s: element %zu is %a, not %a", what, i,
                     (double)got[i], (double)want[i]);
}

static inline float *copy_outputs(const struct rig *r) {
    float *x = malloc(rig_outputs(r) * sizeof *x);
    if (x == NULL) abort();
    memcpy(x, r->o, rig_outputs(r) * sizeof *x);
    return x;
}

#endif
