/* parity_cache.c - device_parity for rope and kv_append: what happens to a row on its way into the cache. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parity_rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))
#define ROWS_MAX 130
#define LAST_POS 131071 /* the longest context asked for */

static const int head_dims[] = {16, 64, 80, 96, 112, 128, 256};

/* rope tables of LAST_POS + 1 rows, filled once per n_rot; any numbers will do, both sides read the same bytes. */
static struct pair rope_numbers(struct rig *r, int half) {
    size_t n = (size_t)(LAST_POS + 1) * (size_t)half;
    float *x = rig_memory(n * 4);
    for (size_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u) % 65536u) * 0x1p-15f - 1.0f;
    struct pair p = rig_input(r, x, n * 4);
    free(x);
    return p;
}

static void rope_case(struct rig *r, enum rope_kind kind, int head_dim, int n_rot, int n_head, int rows,
                      int pos0) {
    struct verdict v;
    int32_t id[ROWS_MAX] = {0}, pos[ROWS_MAX];
    size_t n = (size_t)rows * (size_t)n_head * (size_t)head_dim;
    float *x = rig_memory(n * 4);
    verdict_begin(&v, "rope", "f32", kind == ROPE_HALF_SPLIT ? "half_split" : "interleaved",
                  "rows=%d heads=%d head_dim=%d n_rot=%d pos=%d", rows, n_head, head_dim, n_rot, pos0);
    fill_floats(r, FILL_OUTLIER, x, n);
    for (int i = 0; i < rows; i++) pos[i] = pos0 + i;
    struct pair px = rig_input(r, x, n * 4), table = rope_numbers(r, n_rot / 2);
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct kv_cache kv = {KV_F16, 1, LAST_POS + 1, 1, 16, NULL, NULL};
        const struct kv_cache *kvs[1] = {&kv};
        struct step st = {rows, 1, id, pos, kvs};
        const float *numbers = table.p[s];
        struct rope_table t = {kind, n_rot, LAST_POS + 1, numbers, numbers + n_rot / 2};
        int replayed;
        t.n_pos = LAST_POS; /* sin starts half a row later: still inside the buffer */
        (void)(verdict_call(r, &v, s, b->step_begin(b, &st, &replayed, &r->err)) &&
               verdict_call(r, &v, s, b->rope(b, &st, &t, n_head, head_dim, px.p[s], &r->err)) &&
               verdict_call(r, &v, s, b->step_end(b, &st, &r->err)));
    }
    verdict_floats(r, &v, &px, "x");
    verdict_end(r, &v);
    free(x);
}

static void rope_cases(struct rig *r) {
    for (int i = 0; i < COUNT(head_dims); i++)
        for (int kind = 0; kind < 2; kind++) {
            int hd = head_dims[i];
            rope_case(r, (enum rope_kind)kind, hd, hd, 7, 65, 1000);
            rope_case(r, (enum rope_kind)kind, hd, hd / 4 * 2, 2, 9, 0);
            if (!r->quick) rope_case(r, (enum rope_kind)kind, hd, hd, 3, 3, LAST_POS - 3);
        }
}

struct cache_shape {
    enum kv_dtype dtype;
    int n_layer, n_ctx, n_kv_head, head_dim;
};

static size_t cache_bytes(const struct cache_shape *c) {
    size_t n = (size_t)c->n_layer * (size_t)c->n_ctx * (size_t)c->n_kv_head * (size_t)c->head_dim;
    return c->dtype == KV_F16 ? n * 2 : n / QK_32 * sizeof(struct block_q8_0);
}

/* Appends `rows` rows at pos0 (one sequence), or one row to each of `rows` caches, to layer 1 of 2. */
static void append_case(struct rig *r, const struct cache_shape *c, int rows, int pos0, int batch,
                        enum fill f) {
    struct verdict v;
    int32_t id[ROWS_MAX] = {0}, pos[ROWS_MAX];
    int n_seq = batch ? rows : 1;
    size_t n = (size_t)rows * (size_t)c->n_kv_head * (size_t)c->head_dim;
    float *k = rig_memory(n * 4), *val = rig_memory(n * 4);
    struct pair ck[BATCH_MAX], cv[BATCH_MAX];
    verdict_begin(&v, "kv_append", kv_dtype_name(c->dtype), batch ? "batch" : "plain",
                  "rows=%d pos=%d kv_heads=%d head_dim=%d family=%s", rows, pos0, c->n_kv_head, c->head_dim,
                  fill_name(f));
    fill_floats(r, f, k, n);
    fill_floats(r, f, val, n);
    for (int i = 0; i < rows; i++) pos[i] = batch ? (pos0 + 5 * i) % c->n_ctx : pos0 + i;
    struct pair pk = rig_input(r, k, n * 4), pv = rig_input(r, val, n * 4);
    for (int i = 0; i < n_seq; i++) {
        ck[i] = rig_output(r, cache_bytes(c));
        cv[i] = rig_output(r, cache_bytes(c));
    }
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct kv_cache kv[BATCH_MAX];
        const struct kv_cache *kvs[BATCH_MAX];
        for (int i = 0; i < n_seq; i++) {
            struct kv_cache one = {c->dtype,    c->n_layer, c->n_ctx,  c->n_kv_head,
                                   c->head_dim, ck[i].p[s], cv[i].p[s]};
            kv[i] = one;
            kvs[i] = &kv[i];
        }
        struct step st = {rows, n_seq, id, pos, kvs};
        int replayed;
        (void)(verdict_call(r, &v, s, b->step_begin(b, &st, &replayed, &r->err)) &&
               verdict_call(r, &v, s, b->kv_append(b, &st, 1, pk.p[s], pv.p[s], &r->err)) &&
               verdict_call(r, &v, s, b->step_end(b, &st, &r->err)));
    }
    for (int i = 0; i < n_seq; i++) {
        if (f == FILL_SPECIAL && c->dtype == KV_F16) continue; /* f16 NaN payloads are a class */
        verdict_bytes(r, &v, &ck[i], "k");
        verdict_bytes(r, &v, &cv[i], "v");
    }
    verdict_overflow(r, &v);
    verdict_end(r, &v);
    free(k);
    free(val);
}

static void append_cases(struct rig *r) {
    static const int kv_heads[] = {1, 2, 3, 4, 8};
    static const int rows[] = {1, 2, 7, 8, 9, 64, 65};
    for (int d = 0; d < COUNT(head_dims); d++)
        for (int dtype = KV_F16; dtype <= KV_Q8_0; dtype++) {
            struct cache_shape c = {(enum kv_dtype)dtype, 2, 96, kv_heads[d % COUNT(kv_heads)], head_dims[d]};
            if (c.dtype == KV_Q8_0 && c.head_dim % QK_32 != 0) continue;
            for (int i = 0; i < COUNT(rows); i++)
                append_case(r, &c, rows[i], i * 3, 0, (enum fill)((d + i) % FILL_COUNT));
            append_case(r, &c, BATCH_MAX, 11, 1, FILL_NORMAL);
            append_case(r, &c, 3, 90, 1, FILL_SPECIAL);
        }
}

void parity_cache(struct rig *r) {
    struct geometry g = geometry_default(ARCH_SM90);
    if (!rig_wants(r, "rope") && !rig_wants(r, "kv_append")) return;
    rig_open(r, ROUTE_F16, &g, 0);
    if (rig_wants(r, "rope")) rope_cases(r);
    if (rig_wants(r, "kv_append")) append_cases(r);
    rig_close(r);
}
