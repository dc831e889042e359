/* attention_f32.c - twin of attention on route f32: f32 scores by fma lanes, softmax sums in double; any cache type.
 * Not on a device and not tiled: the accurate arm against the oracle.
 * Idea: an item is one query row of one KV head; a key or value row is widened once for all heads of the group.
 * Source: ours. Exercise: ctest -R unit.attention */
#include <math.h>
#include <stdlib.h>

#include "../fmath.h"
#include "attention_rows.h"

struct f32_job {
    const struct twin_ctx *t;
    const struct attention_rows *rows;
    const struct step *s;
    const float *q;
    float *o;
    int layer, n_head, n_kv_head, group, head_dim;
    int max_keys;
    double *o_sum; /* [threads, group, head_dim + 1] outputs, then the group's sums */
    float *p;      /* [threads, group, max_keys] scores, then weights */
};

/* Row j of head g of a cache plane, widened to f32. */
static const float *widen(const struct f32_job *job, const struct kv_cache *kv, const void *plane, int64_t j,
                          int g, float *out) {
    int hd = job->head_dim;
    int64_t at = (((int64_t)job->layer * kv->n_ctx + j) * job->n_kv_head + g) * hd;
    switch (kv->dtype) {
    case KV_F32:
        return (const float *)plane + at;
    case KV_F16:
        for (int d = 0; d < hd; d++) out[d] = fm_f16_to_f32(((const uint16_t *)plane)[at + d]);
        break;
    case KV_Q8_0:
        for (int d = 0; d < hd; d++) {
            const struct block_q8_0 *b = (const struct block_q8_0 *)plane + (at + d) / QK_32;
            float x = (float)b->qs[d % QK_32] * fm_f16_to_f32(b->d);
            out[d] = fm_f16_to_f32(fm_f32_to_f16(x)); /* a q8_0 element is an f16 value on every route */
        }
        break;
    }
    return out;
}

/* Scores of one head to weights; returns their sum. */
static double weights(float *p, int n) {
    float m = -(float)INFINITY;
    double sum = 0;
    for (int j = 0; j < n; j++) m = p[j] > m ? p[j] : m; /* a NaN never wins */
    for (int j = 0; j < n; j++) {
        p[j] = fm_exp2f(p[j] - m);
        sum += (double)p[j];
    }
    return sum;
}

static void attend_row(const struct f32_job *job, int r, int g, float *p, double *o_sum) {
    const struct kv_cache *kv = job->s->kv[job->s->n_seq == 1 ? 0 : r];
    int hd = job->head_dim, n = job->s->pos[r] + 1;
    int64_t at = ((int64_t)r * job->n_head + g * job->group) * hd;
    float factor = (float)(0x1.71547652b82fep+0 / sqrt((double)hd)), row[FA_HEAD_DIM_MAX];
    for (int j = 0; j < n; j++) {
        const float *k = widen(job, kv, kv->k, j, g, row);
        for (int h = 0; h < job->group; h++)
            p[(int64_t)h * job->max_keys + j] = job->rows->dot(job->q + at + h * hd, k, hd) * factor;
    }
    double *l = o_sum + job->group * hd; /* one sum per head behind the outputs */
    for (int i = 0; i < job->group * hd; i++) o_sum[i] = 0;
    for (int h = 0; h < job->group; h++) l[h] = weights(p + (int64_t)h * job->max_keys, n);
    for (int j = 0; j < n; j++) {
        const float *v = widen(job, kv, kv->v, j, g, row);
        for (int h = 0; h < job->group; h++) {
            double weight = (double)p[(int64_t)h * job->max_keys + j], *out = o_sum + h * hd;
            for (int d = 0; d < hd; d++) out[d] += weight * (double)v[d]; /* the product is exact */
        }
    }
    for (int i = 0; i < job->group * hd; i++) job->o[at + i] = (float)(o_sum[i] / l[i / hd]);
}

static void attend_rows(void *ctx, int64_t begin, int64_t end, int thread) {
    const struct f32_job *job = ctx;
    float *p = job->p + (int64_t)thread * job->group * job->max_keys;
    double *o_sum = job->o_sum + (int64_t)thread * job->group * (job->head_dim + 1);
    for (int64_t i = begin; i < end; i++) {
        /* rows grow with their position: light and heavy ones alternate */
        int64_t r = i / job->n_kv_head, mixed = r % 2 == 0 ? r / 2 : job->s->n_rows - 1 - r / 2;
        attend_row(job, (int)mixed, (int)(i % job->n_kv_head), p, o_sum);
    }
}

enum status attention_f32(const struct twin_ctx *t, const struct step *s, int layer, int n_head,
                          const float *q, float *o, struct err *err) {
    const struct kv_cache *kv = s->kv[0];
    struct f32_job job = {.t = t, .s = s, .q = q, .o = o, .layer = layer, .n_head = n_head};
    job.rows = t->use_avx2 ? &attention_rows_avx2 : &attention_rows_scalar;
    job.n_kv_head = kv->n_kv_head;
    job.group = n_head / kv->n_kv_head;
    job.head_dim = kv->head_dim;
    for (int r = 0; r < s->n_rows; r++)
        job.max_keys = s->pos[r] >= job.max_keys ? s->pos[r] + 1 : job.max_keys;
    size_t heads = (size_t)par_threads(t->pool) * (size_t)job.group;
    size_t sums = heads * (size_t)(job.head_dim + 1) * sizeof *job.o_sum;
    size_t bytes = sums + heads * (size_t)job.max_keys * sizeof *job.p;
    job.o_sum = malloc(bytes);
    if (job.o_sum == NULL)
        return err_set(err, STATUS_NOMEM, "attention: %zu bytes of scratch for %d rows", bytes, s->n_rows);
    job.p = (float *)(void *)((char *)job.o_sum + sums);
    par_for(t->pool, (int64_t)s->n_rows * job.n_kv_head, 1, attend_rows, &job);
    free(job.o_sum);
    return STATUS_OK;
}
