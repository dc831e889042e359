/* parity_far.c - device_parity for attention far from the start: positions up to 131071, sampled rows on the twin.
 * Not less exact: a row of attention depends on its position and its cache alone, so the twin computes the sampled rows,
 * each as a sequence of its own over the same cache, and its bits must be the device's; the last row also meets float64.
 * Idea: sampled rows are the first and the last of every tile of query rows; positions of the cache repeat after a prime.
 * Source: ours. Exercise: device_parity --op far */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/cuda/launch.h"
#include "../engine/fmath.h"
#include "../engine/rng.h"
#include "../gates/oracle/oracle.h"
#include "parity_rig.h"

#define COUNT(a)       ((int)(sizeof(a) / sizeof(a)[0]))
#define GARBAGE_HALF   0x7e00u /* behind the last position: NaN, which must not be read */
#define FAR_CTX        131072
#define FAR_SLACK      1
#define FAR_PERIOD     4099 /* different positions of the cache: a prime, so that no tile meets its neighbour's */
#define FAR_SAMPLES    BATCH_MAX
#define FAR_ROWS_MAX   130
#define FAR_ORACLE_MIN 131000

/* One sequence in a cache of FAR_CTX + FAR_SLACK positions; batch: each row is a sequence, all over this cache. */
struct far_case {
    enum kv_dtype dtype;
    int n_kv_head, group, head_dim, rows, pos0, batch;
};

static size_t far_width(const struct far_case *c) {
    return (size_t)c->n_kv_head * (size_t)c->head_dim;
}

static size_t position_bytes(const struct far_case *c) {
    return c->dtype == KV_F16 ? far_width(c) * 2 : far_width(c) / QK_32 * sizeof(struct block_q8_0);
}

static void fill_position(const struct far_case *c, uint64_t seed, size_t p, uint8_t *out) {
    size_t width = far_width(c);
    for (size_t i = 0; i < width && c->dtype == KV_F16; i++) {
        uint64_t at = p * width + i;
        uint16_t h = fm_f32_to_f16(rng_normal(seed, at) * (rng_u64(seed + 1, at) % 97 == 0 ? 12.0f : 1.0f));
        memcpy(out + 2 * i, &h, sizeof h);
    }
    for (size_t i = 0; i < width / QK_32 && c->dtype == KV_Q8_0; i++) {
        struct block_q8_0 b;
        uint64_t at = p * width + i * QK_32;
        b.d = fm_f32_to_f16(0.01f + 0.02f * rng_uniform(seed, at));
        for (size_t j = 0; j < QK_32; j++) b.qs[j] = (int8_t)rng_u64(seed + 2, at + j);
        memcpy(out + i * sizeof b, &b, sizeof b);
    }
}

static uint8_t *make_plane(struct rig *r, const struct far_case *c) {
    size_t row = position_bytes(c), live = FAR_CTX, period = FAR_PERIOD;
    uint64_t seed = ++r->seed;
    uint8_t *plane = rig_memory((live + FAR_SLACK) * row);
    for (size_t p = 0; p < period; p++) fill_position(c, seed, p, plane + p * row);
    for (size_t at = period; at < live; at += period)
        memcpy(plane + at * row, plane, (live - at < period ? live - at : period) * row);
    for (size_t i = live * row; i + 1 < (live + FAR_SLACK) * row; i += 2) {
        uint16_t h = GARBAGE_HALF;
        memcpy(plane + i, &h, sizeof h);
    }
    return plane;
}

/* The planes of the last shape: K and V. */
struct planes {
    struct far_case of;
    uint8_t *k, *v;
};

static void planes_fit(struct rig *r, struct planes *p, const struct far_case *c) {
    if (p->k != NULL && p->of.dtype == c->dtype && p->of.n_kv_head == c->n_kv_head &&
        p->of.head_dim == c->head_dim)
        return;
    free(p->k);
    free(p->v);
    p->of = *c;
    p->k = make_plane(r, c);
    p->v = make_plane(r, c);
}

/* ---- float64: the last row, last head ---------------------------------------------------------------------------- */

/* Keys of the last KV head as float64. */
static double *head_values(const struct far_case *c, const uint8_t *plane, int n) {
    size_t hd = (size_t)c->head_dim, first = far_width(c) - hd;
    double *out = rig_memory((size_t)n * hd * sizeof *out);
    for (size_t p = 0; p < (size_t)n; p++) {
        const uint8_t *row = plane + p * position_bytes(c);
        for (size_t d = 0; d < hd; d++) {
            uint16_t h;
            struct block_q8_0 b;
            if (c->dtype == KV_F16) {
                memcpy(&h, row + 2 * (first + d), sizeof h);
            } else {
                memcpy(&b, row + (first + d) / QK_32 * sizeof b, sizeof b);
                h = oracle_f16_round((double)(float)(b.qs[(first + d) % QK_32] * oracle_f16_value(b.d)));
            }
            out[p * hd + d] = oracle_f16_value(h);
        }
    }
    return out;
}

static void judge_oracle(struct rig *r, struct verdict *v, const struct far_case *c, const uint8_t *k,
                         const uint8_t *val, const float *q, int32_t pos, const float *o) {
    double query[FA_HEAD_DIM_MAX], truth[FA_HEAD_DIM_MAX], scale[FA_HEAD_DIM_MAX];
    double *keys = head_values(c, k, pos + 1), *values = head_values(c, val, pos + 1);
    for (int d = 0; d < c->head_dim; d++) query[d] = oracle_f16_value(oracle_f16_round((double)q[d]));
    double budget = rig_budget(r, "attention", kv_dtype_name(c->dtype)); /* of max |v| */
    struct oracle_attention p = {query, keys, values, &pos, 1, 1, 1, c->head_dim};
    oracle_attention(&p, truth, scale);
    for (int d = 0; d < c->head_dim; d++) verdict_oracle(v, o[d], truth[d], budget, scale[d]);
    free(keys);
    free(values);
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

/* Rows whose outputs the twin computes: tile edges of every instance and the last row; all rows of a batch. */
static int sample_rows(const struct far_case *c, int row[FAR_SAMPLES]) {
    static const int edges[] = {0, 15, 16, 63, 64, 127, 128};
    int n = 0;
    for (int i = 0; i < COUNT(edges) && !c->batch && edges[i] < c->rows - 1; i++) row[n++] = edges[i];
    while (c->batch && n < c->rows - 1) row[n] = n, n++;
    row[n++] = c->rows - 1;
    return n;
}

static void attend(struct rig *r, struct verdict *v, int side, const struct far_case *c, const int32_t *pos,
                   int rows, int n_seq, const struct pair *k, const struct pair *val, const struct pair *q,
                   const struct pair *o) {
    static const int32_t id[FAR_ROWS_MAX] = {0};
    struct backend *b = r->side[side];
    struct kv_cache kv = {c->dtype,    1,          FAR_CTX + FAR_SLACK, c->n_kv_head,
                          c->head_dim, k->p[side], val->p[side]};
    const struct kv_cache *kvs[BATCH_MAX];
    for (int i = 0; i < BATCH_MAX; i++) kvs[i] = &kv;
    struct step st = {rows, n_seq, id, pos, kvs};
    int replayed, n_head = c->n_kv_head * c->group;
    (void)(verdict_call(r, v, side, b->step_begin(b, &st, &replayed, &r->err)) &&
           verdict_call(r, v, side, b->attention(b, &st, 0, n_head, q->p[side], o->p[side], &r->err)) &&
           verdict_call(r, v, side, b->step_end(b, &st, &r->err)));
}

static void far_case(struct rig *r, struct planes *planes, const struct far_case *c, const char *arm) {
    struct verdict v;
    int row[FAR_SAMPLES], n = sample_rows(c, row), n_head = c->n_kv_head * c->group;
    int32_t pos[FAR_ROWS_MAX], sampled[FAR_SAMPLES];
    size_t width = (size_t)n_head * (size_t)c->head_dim, all = (size_t)c->rows * width;
    char geometry[96];
    geometry_format(&r->side[1]->config.geometry, geometry, sizeof geometry);
    for (char *p = geometry; *p != '\0'; p++)
        if (*p == ',') *p = ' ';
    for (int i = 0; i < c->rows; i++) pos[i] = c->batch ? c->pos0 - 16411 * i : c->pos0 + i;
    for (int i = 0; i < n; i++) sampled[i] = pos[row[i]];
    verdict_begin(&v, "attention", kv_dtype_name(c->dtype), arm,
                  "rows=%d pos=%d heads=%d/%d head_dim=%d %s sampled=%zu", c->rows, c->pos0, n_head,
                  c->n_kv_head, c->head_dim, geometry, (size_t)n * width);
    planes_fit(r, planes, c);
    size_t plane = (FAR_CTX + FAR_SLACK) * position_bytes(c);
    float *q = rig_memory(all * 4), *few = rig_memory((size_t)n * width * 4);
    int64_t *index = rig_memory((size_t)n * width * sizeof *index);
    fill_floats(r, FILL_NORMAL, q, all);
    for (int i = 0; i < n; i++) {
        memcpy(few + (size_t)i * width, q + (size_t)row[i] * width, width * 4);
        for (size_t e = 0; e < width; e++)
            index[(size_t)i * width + e] = row[i] * (int64_t)width + (int64_t)e;
    }
    struct pair pk = rig_input(r, planes->k, plane), pv = rig_input(r, planes->v, plane),
                pq = rig_input_sized(r, few, (size_t)n * width * 4, q, all * 4),
                po = rig_output_sized(r, (size_t)n * width * 4, all * 4);
    rig_room(r, n_head, c->head_dim, FAR_CTX + FAR_SLACK);
    attend(r, &v, 0, c, sampled, n, n, &pk, &pv, &pq, &po);
    attend(r, &v, 1, c, pos, c->rows, c->batch ? c->rows : 1, &pk, &pv, &pq, &po);
    verdict_overflow(r, &v);
    verdict_sample(r, &v, &po, index, (size_t)n * width);
    size_t last = (size_t)n * width - (size_t)c->head_dim;
    if (!c->batch && sampled[n - 1] >= FAR_ORACLE_MIN)
        judge_oracle(r, &v, c, planes->k, planes->v, few + last, sampled[n - 1],
                     (const float *)po.p[0] + last);
    verdict_end(r, &v);
    free(q), free(few), free(index);
}

/* The 7B shape at the default geometry. */
static void model_cases(struct rig *r, struct planes *planes) {
    static const int ends[] = {16384, 32768, 65537, 99991, FAR_CTX};
    struct geometry g = geometry_default(ARCH_SM90);
    rig_open(r, ROUTE_F16, &g, 0);
    for (int dtype = KV_F16; dtype <= KV_Q8_0; dtype++) {
        for (int i = 0; i < COUNT(ends); i++) {
            struct far_case c = {(enum kv_dtype)dtype, 4, 7, 128, FAR_ROWS_MAX, ends[i] - FAR_ROWS_MAX, 0};
            far_case(r, planes, &c, "far_prefill");
            c.rows = 1;
            c.pos0 = ends[i] - 1;
            far_case(r, planes, &c, "far_decode");
        }
        struct far_case batch = {(enum kv_dtype)dtype, 4, 7, 128, BATCH_MAX, FAR_CTX - 1, 1};
        far_case(r, planes, &batch, "far_batch");
    }
    rig_close(r);
}

/* Every instance at one shape, with the heads of one KV head. */
static void instance_cases(struct rig *r, struct planes *planes, enum kv_dtype dtype, int head_dim) {
    static const int tkvs[] = {16, 32, 64}, tqs[] = {64, 128}, splits[] = {1, 8, 64};
    for (int i = 0; i < COUNT(tkvs) * COUNT(tqs); i++) {
        struct geometry g = geometry_default(ARCH_SM90);
        g.fa_tkv = tkvs[i % 3];
        g.fa_tq = tqs[i / 3];
        g.fa_splits = splits[(i + i / 3) % 3];
        rig_open(r, ROUTE_F16, &g, 0);
        struct far_case c = {dtype, 1, 2, head_dim, g.fa_tq + 2, FAR_CTX - g.fa_tq - 2, 0};
        far_case(r, planes, &c, "far_prefill");
        c.rows = 1;
        c.pos0 = FAR_CTX - 1;
        far_case(r, planes, &c, "far_decode");
        rig_close(r);
    }
}

void parity_far(struct rig *r) {
    struct planes planes = {.k = NULL};
    if (!rig_wants(r, "far") || r->quick) return;
    model_cases(r, &planes);
    for (int dtype = KV_F16; dtype <= KV_Q8_0; dtype++)
        for (int head_dim = 64; head_dim <= FA_HEAD_DIM_MAX; head_dim *= 2)
            instance_cases(r, &planes, (enum kv_dtype)dtype, head_dim);
    free(planes.k);
    free(planes.v);
}
