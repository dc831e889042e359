/* parity_attention.c - device_parity for attention: prefill and split-KV decode against the twin, every instance.
 * The cache holds ordinary values up to the last position and NaN, Inf and noise behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/cuda/launch.h"
#include "../engine/fmath.h"
#include "../engine/rng.h"
#include "parity_rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

struct attention_case {
    enum kv_dtype dtype;
    int n_kv_head, group, head_dim;
    int rows, pos0; /* rows of one sequence from pos0 .. ; or one row in each of `rows` sequences */
    int batch;
    int slack; /* positions of cache behind the last one */
};

/* One cache plane on the host; positions >= n_live are garbage that must not be read. */
static void *make_plane(struct rig *r, const struct attention_case *c, int n_ctx, int n_live, size_t *bytes) {
    size_t width = (size_t)c->n_kv_head * (size_t)c->head_dim, n = (size_t)n_ctx * width,
           live = (size_t)n_live * width;
    uint64_t seed = ++r->seed;
    *bytes = c->dtype == KV_F16 ? n * 2 : n / QK_32 * sizeof(struct block_q8_0);
    uint8_t *plane = rig_memory(*bytes);
    if (c->dtype == KV_F16) {
        uint16_t *h = (uint16_t *)(void *)plane;
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = rng_u64(seed + 1, i);
            float x = rng_normal(seed, i) * (bits % 97 == 0 ? 40.0f : 1.0f);
            h[i] = i < live        ? fm_f32_to_f16(x)
                   : bits % 3 == 0 ? 0x7e00u
                   : bits % 3 == 1 ? 0x7c00u
                                   : (uint16_t)bits;
        }
        return plane;
    }
    for (size_t i = 0; i < n / QK_32; i++) {
        struct block_q8_0 b;
        uint64_t bits = rng_u64(seed + 1, i);
        b.d = i * QK_32 < live ? fm_f32_to_f16(0.01f + 0.02f * rng_uniform(seed, i))
              : bits % 2       ? 0x7e00u
                               : 0x7c00u;
        for (int j = 0; j < QK_32; j++) b.qs[j] = (int8_t)rng_u64(seed + 2, i * QK_32 + (size_t)j);
        memcpy(plane + i * sizeof b, &b, sizeof b);
    }
    return plane;
}

static void attention_case(struct rig *r, const struct attention_case *c, const char *arm) {
    struct verdict v;
    struct pair k[BATCH_MAX], val[BATCH_MAX];
    int n_seq = c->batch ? c->rows : 1, n_head = c->n_kv_head * c->group, last = 0;
    int32_t *id = rig_memory((size_t)c->rows * 4), *pos = rig_memory((size_t)c->rows * 4);
    char geometry[96];
    geometry_format(&r->side[1]->config.geometry, geometry, sizeof geometry);
    for (char *p = geometry; *p != '\0'; p++)
        if (*p == ',') *p = ' ';
    verdict_begin(&v, "attention", kv_dtype_name(c->dtype), arm, "rows=%d pos=%d heads=%d/%d head_dim=%d %s",
                  c->rows, c->pos0, n_head, c->n_kv_head, c->head_dim, geometry);
    for (int i = 0; i < c->rows; i++) {
        id[i] = 0;
        pos[i] = c->batch ? (c->pos0 + 97 * i) % (c->pos0 + 300) : c->pos0 + i;
        last = pos[i] > last ? pos[i] : last;
    }
    int n_ctx = last + 1 + c->slack;
    for (int i = 0; i < n_seq; i++) {
        size_t bytes;
        for (int which = 0; which < 2; which++) {
            void *plane = make_plane(r, c, n_ctx, c->batch ? pos[i] + 1 : last + 1, &bytes);
            *(which == 0 ? &k[i] : &val[i]) = rig_input(r, plane, bytes);
            free(plane);
        }
    }
    size_t n = (size_t)c->rows * (size_t)n_head * (size_t)c->head_dim;
    float *q = rig_memory(n * 4);
    fill_floats(r, FILL_OUTLIER, q, n);
    struct pair pq = rig_input(r, q, n * 4), o = rig_output(r, n * 4);
    rig_room(r, n_head, c->head_dim, n_ctx);
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct kv_cache kv[BATCH_MAX];
        const struct kv_cache *kvs[BATCH_MAX];
        for (int i = 0; i < n_seq; i++) {
            struct kv_cache one = {c->dtype, 1, n_ctx, c->n_kv_head, c->head_dim, k[i].p[s], val[i].p[s]};
            kv[i] = one;
            kvs[i] = &kv[i];
        }
        struct step st = {c->rows, n_seq, id, pos, kvs};
        int replayed;
        (void)(verdict_call(r, &v, s, b->step_begin(b, &st, &replayed, &r->err)) &&
               verdict_call(r, &v, s, b->attention(b, &st, 0, n_head, pq.p[s], o.p[s], &r->err)) &&
               verdict_call(r, &v, s, b->step_end(b, &st, &r->err)));
    }
    verdict_overflow(r, &v);
    verdict_floats(r, &v, &o, "o");
    verdict_end(r, &v);
    free(id);
    free(pos);
    free(q);
}

static const int head_dims[] = {16, 64, 80, 96, 112, 128, 256};
static const int groups[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17};

static int refused(const struct attention_case *c) {
    return c->dtype == KV_Q8_0 && c->head_dim % QK_32 != 0;
}

static void prefill_cases(struct rig *r) {
    static const int rows[] = {2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 130, 500};
    static const int starts[] = {0, 1, 15, 31, 63, 200, 255, 256, 257, 1000};
    int turn = 0;
    for (int dtype = KV_F16; dtype <= KV_Q8_0; dtype++)
        for (int d = 0; d < COUNT(head_dims); d++)
            for (int i = 0; i < COUNT(rows); i++) {
                struct attention_case c = {(enum kv_dtype)dtype,
                                           1 + turn % 3,
                                           groups[turn % COUNT(groups)],
                                           head_dims[d],
                                           rows[i],
                                           starts[(turn + i) % COUNT(starts)],
                                           0,
                                           37};
                turn++;
                if (c.group > 8) c.n_kv_head = 1;
                if (refused(&c) || (r->quick && (c.rows > 66 || c.pos0 > 300 || turn % 3))) continue;
                attention_case(r, &c, "prefill");
            }
}

static void decode_cases(struct rig *r) {
    static const int pos[] = {0,  1,  2,   15,  16,  17,  31,  32,   33,   63,
                              64, 65, 255, 256, 257, 511, 512, 1000, 4095, 8190};
    int turn = 0;
    for (int dtype = KV_F16; dtype <= KV_Q8_0; dtype++)
        for (int d = 0; d < COUNT(head_dims); d++)
            for (int i = 0; i < COUNT(pos); i++) {
                struct attention_case c = {(enum kv_dtype)dtype,
                                           1 + turn % 4,
                                           groups[turn % COUNT(groups)],
                                           head_dims[d],
                                           1,
                                           pos[i],
                                           0,
                                           37};
                turn++;
                if (refused(&c) || (r->quick && (c.pos0 > 600 || turn % 3))) continue;
                attention_case(r, &c, "decode");
                if (i % 4 != 0) continue;
                c.batch = 1;
                c.rows = i % 8 == 0 ? BATCH_MAX : 3;
                attention_case(r, &c, "decode_batch");
            }
}

/* As many chunks as the merge kernels hold at a time, one fewer and one more; each ends with its last position. */
static void merge_cases(struct rig *r) {
    static const int chunks[] = {FA_MERGE_FEW - 1, FA_MERGE_FEW, FA_MERGE_FEW + 1,
                                 FA_MERGE_MAX - 1, FA_MERGE_MAX, FA_MERGE_MAX + 1};
    for (int i = 0; i < COUNT(chunks); i++) {
        struct attention_case c = {KV_F16, 2, 3, 64, 1, chunks[i] * FA_CHUNK_DEFAULT - 1, 0, 37};
        attention_case(r, &c, "decode");
    }
}

/* Every instance of the geometry on a few shapes; fa_tq and fa_splits must not matter, fa_tkv and fa_chunk do to both. */
static void instance_cases(struct rig *r, int tkv, int tq, int chunk, int splits) {
    struct geometry g = {tq, tkv, chunk, splits};
    static const int dims[] = {64, 96, 128, 256};
    rig_open(r, ROUTE_F16, &g, 0);
    for (int d = 0; d < COUNT(dims); d++) {
        struct attention_case c = {d == 1 ? KV_Q8_0 : KV_F16, 2, 7, dims[d], tq + 1, chunk + 3, 0, 64};
        attention_case(r, &c, "prefill");
        c.rows = 1;
        c.pos0 = 3 * chunk + tkv + 1;
        attention_case(r, &c, "decode");
    }
    rig_close(r);
}

void parity_attention(struct rig *r) {
    static const int tkvs[] = {16, 32, 64}, tqs[] = {64, 128}, chunks[] = {64, 256, 320, 1024},
                     splits[] = {1, 3, 8, 64};
    struct geometry g = geometry_default(ARCH_SM90);
    if (!rig_wants(r, "attention")) return;
    rig_open(r, ROUTE_F16, &g, 0);
    prefill_cases(r);
    decode_cases(r);
    if (!r->quick) {
        merge_cases(r);
        struct attention_case far = {KV_F16, 1, 2, 64, 1, 131071, 0, 1};
        attention_case(r, &far, "decode");
        far.rows = 3;
        far.pos0 = 131069;
        attention_case(r, &far, "prefill");
    }
    rig_close(r);
    for (int i = 0; i < COUNT(tkvs); i++)
        for (int j = 0; j < COUNT(tqs); j++)
            for (int c = 0; c < COUNT(chunks) - 2 * r->quick; c++)
                instance_cases(r, tkvs[i], tqs[j], chunks[c], splits[(i + j + c) % 4]);
}
