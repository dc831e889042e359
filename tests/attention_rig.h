/* attention_rig.h - what the attention tests share: a filled cache, one call, the contract written out naively, and a
 * float64 oracle. Not for other tests. Source: ours. Exercise: ctest -R unit.attention */
#ifndef FORKGATE_ATTENTION_RIG_H
#define FORKGATE_ATTENTION_RIG_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fmath.h"
#include "engine/ops/twins.h"
#include "engine/tcmodel.h"

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
static float rig_random(void) { /* uniform in [-1, 1) */
    rig_state = rig_state * 1664525u + 1013904223u;
    return (float)(rig_state >> 8) * 0x1p-23f - 1.0f;
}

static struct call call_default(void) {
    struct call c = {ARCH_SM90, geometry_default(ARCH_SM90), tc_have_avx2(), NULL, ROUTE_F16, 0};
    return c;
}

static size_t rig_heads(const struct rig *r) {
    return (size_t)r->n_kv * (size_t)r->group;
}
static size_t rig_outputs(const struct rig *r) {
    return (size_t)r->n_pos * rig_heads(r) * (size_t)r->hd;
}
static size_t rig_cache_elements(const struct rig *r) {
    return 2 * (size_t)r->kv.n_ctx * (size_t)r->n_kv * (size_t)r->hd;
}
/* Element offset of position j, head g in layer 1. */
static size_t rig_at(const struct rig *r, int j, int g) {
    return (((size_t)r->kv.n_ctx + (size_t)j) * (size_t)r->n_kv + (size_t)g) * (size_t)r->hd;
}

/* Everything behind n_pos, and the whole other layer, holds `poison`. */
static struct rig rig_open(int hd, int n_kv, int group, int n_pos, float q_scale, float v_scale,
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

static void rig_close(struct rig *r) {
    free(r->kv.k);
    free(r->kv.v);
    free(r->q);
    free(r->o);
}

/* Rows [first, first + n) in one step into r->o, which is poisoned before. */
static enum status rig_run(struct rig *r, struct call *c, int first, int n) {
    int32_t pos[CHUNK_MAX];
    for (int i = 0; i < n; i++) pos[i] = first + i;
    const struct kv_cache *kv = &r->kv;
    struct step s = {n, 1, NULL, pos, &kv};
    struct twin_ctx t = {c->route, c->arch, c->g, c->avx2, c->pool, &c->overflow};
    size_t row = rig_heads(r) * (size_t)r->hd;
    memset(r->o + (size_t)first * row, 0xff, (size_t)n * row * sizeof *r->o);
    struct err err;
    return attention_twin(&t, &s, 1, (int)rig_heads(r), r->q + (size_t)first * row,
                          r->o + (size_t)first * row, &err);
}

/* ---- the contract of ops.h for one row and head, one operation at a time ---------------------------------------- */
struct naive {
    float m, l, o[FA_HEAD_DIM_MAX];
};

static float naive_score(enum arch arch, const uint16_t *q, const uint16_t *k, int hd) {
    float s = 0.0f;
    for (int d = 0; d < hd; d += TC_K) s = tc_step_scalar(arch, TC_F16, q + d, k + d, s);
    return s;
}

static void naive_tile(const struct rig *r, const struct call *c, const uint16_t *q, int g, int pos, int t0,
                       struct naive *x) {
    const uint16_t *k = r->kv.k, *v = r->kv.v;
    float t[FA_TKV_MAX], p[FA_TKV_MAX], mn = x->m, lane[4] = {0};
    float factor = (float)(1.4426950408889634 / sqrt((double)r->hd));
    for (int j = 0; j < c->g.fa_tkv; j++) {
        t[j] = t0 + j > pos ? -INFINITY : naive_score(c->arch, q, k + rig_at(r, t0 + j, g), r->hd) * factor;
        mn = t[j] > mn ? t[j] : mn;
    }
    if (!(mn > -INFINITY)) return; /* the identity */
    float alpha = fm_exp2f(x->m - mn);
    uint16_t h[FA_TKV_MAX];
    for (int j = 0; j < c->g.fa_tkv; j++) {
        p[j] = t0 + j > pos ? 0.0f : fm_exp2f(t[j] - mn);
        h[j] = fm_f32_to_f16(p[j]);
    }
    for (int j = 0; j < c->g.fa_tkv; j += 8)
        for (int i = 0; i < 8; i++) lane[i / 2] = lane[i / 2] + p[j + i];
    x->l = fmaf(x->l, alpha, (lane[0] + lane[1]) + (lane[2] + lane[3]));
    x->m = mn;
    for (int d = 0; d < r->hd; d++) {
        float o = x->o[d] * alpha;
        for (int j = 0; j < c->g.fa_tkv; j += TC_K) {
            uint16_t column[TC_K] = {0};
            for (int i = 0; i < TC_K; i++)
                if (t0 + j + i <= pos) column[i] = v[rig_at(r, t0 + j + i, g) + (size_t)d];
            o = tc_step_scalar(c->arch, TC_F16, h + j, column, o);
        }
        x->o[d] = o;
    }
}

static void naive_row(const struct rig *r, const struct call *c, int pos, int head, float *out) {
    uint16_t q[FA_HEAD_DIM_MAX];
    const float *src = r->q + ((size_t)pos * rig_heads(r) + (size_t)head) * (size_t)r->hd;
    for (int d = 0; d < r->hd; d++) q[d] = fm_f32_to_f16(src[d]);
    struct naive a = {.m = -INFINITY};
    for (int c0 = 0; c0 <= pos; c0 += c->g.fa_chunk) {
        struct naive x = {.m = -INFINITY};
        for (int t0 = c0; t0 < c0 + c->g.fa_chunk && t0 <= pos; t0 += c->g.fa_tkv)
            naive_tile(r, c, q, head / r->group, pos, t0, &x);
        if (!(x.m > -INFINITY)) continue;
        if (!(a.m > -INFINITY)) {
            a = x;
            continue;
        }
        float mn = a.m > x.m ? a.m : x.m, fa = fm_exp2f(a.m - mn), fb = fm_exp2f(x.m - mn);
        a.l = fmaf(x.l, fb, a.l * fa);
        for (int d = 0; d < r->hd; d++) a.o[d] = fmaf(x.o[d], fb, a.o[d] * fa);
        a.m = mn;
    }
    for (int d = 0; d < r->hd; d++) out[d] = (a.o[d] * (1.0f / a.l)) + 0.0f;
}

/* ---- float64 ----------------------------------------------------------------------------------------------------- */
/* Exact softmax attention over the stored f16 values; q as the op sees it (f16 on the tensor-core routes). */
static void oracle_row(const struct rig *r, int pos, int head, int round_q, double *out) {
    const uint16_t *k = r->kv.k, *v = r->kv.v;
    const float *q = r->q + ((size_t)pos * rig_heads(r) + (size_t)head) * (size_t)r->hd;
    double *p = malloc((size_t)(pos + 1) * sizeof *p), top = -HUGE_VAL, sum = 0;
    if (p == NULL) abort();
    for (int j = 0; j <= pos; j++) {
        p[j] = 0;
        for (int d = 0; d < r->hd; d++) {
            float x = round_q ? fm_f16_to_f32(fm_f32_to_f16(q[d])) : q[d];
            p[j] += (double)x * (double)fm_f16_to_f32(k[rig_at(r, j, head / r->group) + (size_t)d]);
        }
        p[j] /= sqrt((double)r->hd);
        top = p[j] > top ? p[j] : top;
    }
    memset(out, 0, (size_t)r->hd * sizeof *out);
    for (int j = 0; j <= pos; j++) {
        double w = exp(p[j] - top);
        sum += w;
        for (int d = 0; d < r->hd; d++)
            out[d] += w * (double)fm_f16_to_f32(v[rig_at(r, j, head / r->group) + (size_t)d]);
    }
    for (int d = 0; d < r->hd; d++) out[d] /= sum;
    free(p);
}

/* Untiled attention with the same stored inputs and the same accumulate primitive: the control of the error bound. */
static void plain_row(const struct rig *r, const struct call *c, int pos, int head, float *out) {
    const uint16_t *k = r->kv.k, *v = r->kv.v;
    const float *src = r->q + ((size_t)pos * rig_heads(r) + (size_t)head) * (size_t)r->hd;
    uint16_t q[FA_HEAD_DIM_MAX], *p = calloc((size_t)pos + 1 + TC_K, sizeof *p);
    float *t = malloc(((size_t)pos + 1) * sizeof *t), top = -INFINITY, sum = 0;
    if (p == NULL || t == NULL) abort();
    for (int d = 0; d < r->hd; d++) q[d] = fm_f32_to_f16(src[d]);
    for (int j = 0; j <= pos; j++) {
        float s = naive_score(c->arch, q, k + rig_at(r, j, head / r->group), r->hd);
        t[j] = s * (float)(1.4426950408889634 / sqrt((double)r->hd));
        top = t[j] > top ? t[j] : top;
    }
    for (int j = 0; j <= pos; j++) {
        float e = fm_exp2f(t[j] - top);
        sum += e;
        p[j] = fm_f32_to_f16(e);
    }
    for (int d = 0; d < r->hd; d++) {
        float o = 0;
        for (int j = 0; j <= pos; j += TC_K) {
            uint16_t column[TC_K] = {0};
            for (int i = 0; i < TC_K && j + i <= pos; i++)
                column[i] = v[rig_at(r, j + i, head / r->group) + (size_t)d];
            o = tc_step_scalar(c->arch, TC_F16, p + j, column, o);
        }
        out[d] = o / sum;
    }
    free(p);
    free(t);
}

#endif
