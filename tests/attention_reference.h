/* attention_reference.h - three references of the attention tests: the contract written out one operation at a time, exact
 * softmax in float64, and plain untiled attention with the twin's accumulate primitive.
 * Not for other tests: gates have an oracle of their own. Source: ours. Exercise: ctest -R unit.attention */
#ifndef FORKGATE_ATTENTION_REFERENCE_H
#define FORKGATE_ATTENTION_REFERENCE_H

#include "attention_rig.h"

/* ---- the contract of ops.h for one row and head, one operation at a time ---------------------------------------- */
struct naive {
    float m, l, o[FA_HEAD_DIM_MAX];
};

static inline float naive_score(enum arch arch, const uint16_t *q, const uint16_t *k, int hd) {
    float s = 0.0f;
    for (int d = 0; d < hd; d += TC_K) s = tc_step_scalar(arch, TC_F16, q + d, k + d, s);
    return s;
}

static inline void naive_tile(const struct rig *r, const struct call *c, const uint16_t *q, int g, int pos,
                              int t0, struct naive *x) {
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

static inline void naive_row(const struct rig *r, const struct call *c, int pos, int head, float *out) {
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
static inline void oracle_row(const struct rig *r, int pos, int head, int round_q, double *out) {
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
static inline void plain_row(const struct rig *r, const struct call *c, int pos, int head, float *out) {
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

static inline void expect_contract(struct rig *r, struct call *c, int pos, const char *what) {
    float want[FA_HEAD_DIM_MAX];
    for (int h = 0; h < (int)rig_heads(r); h++) {
        naive_row(r, c, pos, h, want);
        expect_equal(r->o + ((size_t)pos * rig_heads(r) + (size_t)h) * (size_t)r->hd, want, (size_t)r->hd,
                     what);
    }
}

#endif
