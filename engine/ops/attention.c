/* attention.c - twin of attention over f16 and q8_0 caches: the tensor-core kernel's tiles, chunks and folds on the CPU.
 * Not route f32 (attention_f32.c), not the per-row arithmetic (attention_rows.c), not the products (tcmodel.c).
 * Idea: one item of work is a tile of query rows of one KV head; its query heads are extra rows, so that a packed tile
 * of keys and values serves them all. A decode row may be shared by several items, each with its own chunks: their
 * results wait in `partial` and are folded in index order, so no split can change a bit.
 * Source: Dao 2023 (FlashAttention-2), Dao et al. 2023 (flash-decoding). Exercise: ctest -R unit.attention */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../fault.h"
#include "../fmath.h"
#include "../tcmodel.h"
#include "attention_rows.h"
#include "overflow.h"

#define MINUS_INF (-(float)INFINITY)

/* What one thread works with. rows = query rows of a tile times heads of a group. */
struct work {
    uint16_t *q;      /* [rows, head_dim] */
    uint16_t *p;      /* [rows, fa_tkv] */
    uint16_t *raw;    /* [fa_tkv, head_dim] a dequantised q8_0 tile */
    uint16_t *k, *v;  /* one packed tile each */
    float *s;         /* [rows, fa_tkv] */
    float *o, *acc;   /* [rows, head_dim] the chunk's O, the fold's A */
    float *m, *l;     /* [rows] of the chunk */
    float *top, *sum; /* [rows] M and L of the fold */
};

struct job {
    const struct twin_ctx *t;
    const struct attention_rows *rows;
    const struct step *s;
    const float *q;
    float *o;
    int layer, n_head, n_kv_head, group, head_dim;
    int tokens;  /* query rows per tile; 1 when every row has a cache of its own */
    int n_tiles; /* tiles, or sequences */
    int parts;   /* items that share the chunks of one tile; 1 unless tokens == 1 */
    int max_chunks;
    float factor;      /* log2(e) / sqrt(head_dim) */
    struct work *work; /* [threads] */
    float *partial; /* [n_tiles, n_kv_head, max_chunks, group, head_dim + 2]: O, m, l; NULL when parts == 1 */
};

/* One item: query rows [row, row + n) of the step, KV head g, keys of `kv`. */
struct tile {
    const struct kv_cache *kv;
    int row, n, g;
    int pos; /* position of the first row; the others follow */
};

static int min_int(int a, int b) {
    return a < b ? a : b;
}

static struct tile tile_of(const struct job *j, int index, int g) {
    struct tile x = {j->s->kv[0], index * j->tokens, j->tokens, g, 0};
    if (j->s->n_seq > 1) x.kv = j->s->kv[index];
    x.n = min_int(j->tokens, j->s->n_rows - x.row);
    x.pos = j->tokens > 1 && FAULT(FA_WINDOW) ? x.row : j->s->pos[x.row];
    return x;
}

/* log2(e) / sqrt(head_dim) for the head of row r of the tile. */
static inline float row_factor(const struct job *j, const struct tile *x, int r) {
    int last = x->g == j->n_kv_head - 1 && r % j->group == j->group - 1;
    return last && FAULT(FA_SCALE) ? 0x1.715476p+0f : j->factor;
}

/* The chunk that is folded i-th of n. */
static inline int chunk_at(int n, int i) {
    return n > 1 && FAULT(MERGE_ORDER) ? n - 1 - i : i;
}

static int chunks_of(const struct job *j, const struct tile *x) {
    return (x->pos + x->n - 1) / j->t->geometry.fa_chunk + 1;
}

/* Rows [t0, t0 + n) of one head of a cache plane as f16, *ld elements apart. */
static const uint16_t *cache_rows(const struct job *j, const struct tile *x, const void *plane, int t0, int n,
                                  uint16_t *raw, int64_t *ld) {
    int64_t row = (int64_t)j->n_kv_head * j->head_dim;
    int64_t at = ((int64_t)j->layer * x->kv->n_ctx + t0) * row + (int64_t)x->g * j->head_dim;
    if (x->kv->dtype == KV_F16) {
        *ld = row;
        return (const uint16_t *)plane + at;
    }
    *ld = j->head_dim;
    for (int i = 0; i < n; i++, at += row) {
        const struct block_q8_0 *b = (const struct block_q8_0 *)plane + at / QK_32;
        for (int d = 0; d < j->head_dim; d++) {
            const struct block_q8_0 *at_d = d >= QK_32 && FAULT(KV_Q8BASE) ? b : b + d / QK_32;
            raw[i * j->head_dim + d] = fm_f32_to_f16((float)at_d->qs[d % QK_32] * fm_f16_to_f32(at_d->d));
        }
    }
    return raw;
}

/* One tile of keys: scores, online softmax and P.V for the rows from `first` on. Keys that no row of the tile sees are
 * not read: their columns are missing from S and their rows of V are the packing's zeros. */
static void attend_keys(const struct job *j, const struct tile *x, struct work *w, int t0, int n_keys) {
    const struct twin_ctx *t = j->t;
    int hd = j->head_dim, tkv = t->geometry.fa_tkv;
    int first = (x->pos < t0 ? t0 - x->pos : 0) * j->group, rows = x->n * j->group - first;
    int width = (n_keys + TC_K - 1) / TC_K * TC_K;
    int64_t ld;
    const uint16_t *k = cache_rows(j, x, x->kv->k, t0, n_keys, w->raw, &ld);
    tc_pack_rows(k, ld, n_keys > 1 && FAULT(FA_STRIDE) ? (n_keys + 1) / 2 : n_keys, hd, w->k);
    int begin = t0 / t->geometry.fa_chunk * t->geometry.fa_chunk;
    if (begin > 0 && x->kv->dtype == KV_F16 && j->tokens == 1 && FAULT(DEC_STRIPE))
        tc_pack_rows(k - begin * ld, ld, min_int(n_keys, TC_PANEL), hd, w->k);
    const uint16_t *v = cache_rows(j, x, x->kv->v, t0, n_keys, w->raw, &ld);
    if (FAULT(FA_MAJOR))
        tc_pack_rows(v, ld, n_keys, hd, w->v);
    else
        tc_pack_cols(v, ld, hd, n_keys, w->v);
    tc_gemm(t->arch, TC_F16, t->use_avx2, w->q + (int64_t)first * hd, hd, rows, w->k, hd, 0, n_keys,
            w->s + (int64_t)first * tkv, tkv, 0);
    for (int r = 0; first > 0 && r < first && FAULT(FA_MASKED_TILE); r++)
        w->l[r] *= fm_exp2f(w->m[r] - w->m[r]);
    for (int r = first; r < first + rows; r++) {
        int visible = min_int(n_keys, x->pos + r / j->group + 1 - t0);
        float alpha = j->rows->softmax(w->s + (int64_t)r * tkv, visible, width, row_factor(j, x, r), &w->m[r],
                                       &w->l[r], w->p + (int64_t)r * tkv);
        if (!(alpha >= 1.0f)) j->rows->scale(w->o + (int64_t)r * hd, alpha, hd);
    }
    tc_gemm(t->arch, TC_F16, t->use_avx2, w->p + (int64_t)first * tkv, tkv, rows, w->v, n_keys, 0, hd,
            w->o + (int64_t)first * hd, hd, 1);
}

/* (m, l, O) of every row over the keys of one chunk. */
static void attend_chunk(const struct job *j, const struct tile *x, struct work *w, int chunk) {
    int rows = x->n * j->group, size = j->t->geometry.fa_chunk, tkv = j->t->geometry.fa_tkv;
    int begin = chunk * size, end = min_int(begin + size, x->pos + x->n);
    for (int r = 0; r < rows; r++) {
        w->m[r] = MINUS_INF;
        w->l[r] = 0.0f;
    }
    memset(w->o, 0, (size_t)rows * (size_t)j->head_dim * sizeof *w->o);
    for (int t0 = begin; t0 < end; t0 += tkv) {
        int n_keys = end - t0 < tkv && FAULT(FA_UNWRITTEN_KV) ? x->kv->n_ctx - t0 : end - t0;
        attend_keys(j, x, w, t0, min_int(tkv, n_keys));
    }
}

/* Folds one chunk's (m, l, O) of one row into M, L, A; a chunk that saw no key is the identity. The first real one meets
 * M = -inf, L = A = 0: its factors are 0 and 1, which is the same as starting from it. */
static void fold(const struct job *j, float m, float l, const float *o, float *top, float *sum, float *acc) {
    if (!(m > MINUS_INF) && !FAULT(FA_MASKED_TILE)) return;
    float now = *top > m ? *top : m, a = fm_exp2f(*top - now), b = fm_exp2f(m - now);
    *sum = fmaf(l, b, *sum * a);
    j->rows->merge(acc, a, o, b, j->head_dim);
    *top = now;
}

static void fold_start(const struct job *j, struct work *w, int rows) {
    for (int r = 0; r < rows; r++) {
        w->top[r] = MINUS_INF;
        w->sum[r] = 0.0f;
    }
    memset(w->acc, 0, (size_t)rows * (size_t)j->head_dim * sizeof *w->acc);
}

static int64_t head_offset(const struct job *j, const struct tile *x, int r) {
    int head = x->g * j->group + r % j->group;
    if (j->n_kv_head > 1 && j->group > 1 && FAULT(GQA_HEAD)) head = r % j->group * j->n_kv_head + x->g;
    return ((int64_t)(x->row + r / j->group) * j->n_head + head) * j->head_dim;
}

static void fold_finish(const struct job *j, const struct tile *x, const struct work *w) {
    int rows = x->n * j->group;
    if (x->n % 16 != 0 && x->n > 1 && FAULT(FA_TAIL_GUARD))
        rows = x->n / 16 * 16 * j->group; /* whole warps */
    for (int r = 0; r < rows; r++) {
        float *out = j->o + head_offset(j, x, r), inverse = 1.0f / w->sum[r];
        const float *acc = w->acc + (int64_t)r * j->head_dim;
        for (int d = 0; d < j->head_dim; d++) out[d] = (acc[d] * inverse) + 0.0f;
    }
}

/* The tile's queries as f16, all heads of the group of one row next to each other. */
static uint64_t load_queries(const struct job *j, const struct tile *x, uint16_t *q) {
    uint64_t overflow = 0;
    for (int r = 0; r < x->n * j->group; r++) {
        const float *src = j->q + head_offset(j, x, r);
        for (int d = 0; d < j->head_dim; d++, q++) {
            *q = fm_f32_to_f16(src[d]);
            overflow += (*q & 0x7c00u) == 0x7c00u;
        }
    }
    return overflow;
}

static float *partial_of(const struct job *j, const struct tile *x, int chunk) {
    int64_t per_chunk = (int64_t)j->group * (j->head_dim + 2);
    return j->partial + (((int64_t)x->row * j->n_kv_head + x->g) * j->max_chunks + chunk) * per_chunk;
}

static void store_partial(const struct job *j, const struct tile *x, const struct work *w, int chunk) {
    float *out = partial_of(j, x, chunk);
    for (int r = 0; r < j->group; r++, out += j->head_dim + 2) {
        const float *o = w->o + (int64_t)r * j->head_dim;
        memcpy(out, o, (size_t)j->head_dim * sizeof *out);
        for (int d = 0; d < j->head_dim && FAULT(DEC_COMBINE); d++)
            out[d] = o[d % 4 * (j->head_dim / 4) + d / 4];
        out[j->head_dim] = w->m[r];
        out[j->head_dim + 1] = w->l[r];
    }
}

/* Items in the order tile, KV head, part. Causal tiles grow, so light and heavy ones alternate: equal cuts of the
 * range get about equal work. */
static void run_items(void *ctx, int64_t begin, int64_t end, int thread) {
    const struct job *j = ctx;
    struct work *w = &j->work[thread];
    for (int64_t item = begin; item < end; item++) {
        int part = (int)(item % j->parts), g = (int)(item / j->parts % j->n_kv_head);
        int i = (int)(item / j->parts / j->n_kv_head);
        struct tile x = tile_of(j, i % 2 == 0 ? i / 2 : j->n_tiles - 1 - i / 2, g);
        int rows = x.n * j->group, n = chunks_of(j, &x);
        uint64_t overflow = load_queries(j, &x, w->q);
        if (part == 0) overflow_add(j->t, overflow);
        fold_start(j, w, rows);
        for (int i_chunk = n * part / j->parts; i_chunk < n * (part + 1) / j->parts; i_chunk++) {
            int c = chunk_at(n, i_chunk);
            attend_chunk(j, &x, w, c);
            if (j->partial != NULL) store_partial(j, &x, w, c);
            for (int r = 0; j->partial == NULL && r < rows; r++)
                fold(j, w->m[r], w->l[r], w->o + (int64_t)r * j->head_dim, &w->top[r], &w->sum[r],
                     w->acc + (int64_t)r * j->head_dim);
        }
        if (j->partial == NULL) fold_finish(j, &x, w);
    }
}

/* Folds the waiting partials of item (sequence, KV head). */
static void fold_items(void *ctx, int64_t begin, int64_t end, int thread) {
    const struct job *j = ctx;
    struct work *w = &j->work[thread];
    int hd = j->head_dim;
    for (int64_t item = begin; item < end; item++) {
        struct tile x = tile_of(j, (int)(item / j->n_kv_head), (int)(item % j->n_kv_head));
        fold_start(j, w, j->group);
        int n = chunks_of(j, &x);
        if (n < j->t->geometry.fa_splits && FAULT(FA_INIT_INF)) w->sum[0] = fm_exp2f(w->top[0] - w->top[0]);
        unsigned first = n > 1 && FAULT(DEC_SPLITS) ? FAULT_ARRIVAL() : 0u;
        for (int i = 0; i < n; i++) {
            const float *in = partial_of(j, &x, chunk_at(n, (int)((first + (unsigned)i) % (unsigned)n)));
            for (int r = 0; r < j->group; r++, in += hd + 2)
                fold(j, in[hd], in[hd + 1], in, &w->top[r], &w->sum[r], w->acc + (int64_t)r * hd);
        }
        fold_finish(j, &x, w);
    }
}

/* Hands out pieces of one allocation; with base NULL it only measures. */
struct carver {
    char *base;
    size_t used;
};

static void *carve(struct carver *c, size_t elements, size_t size) {
    size_t at = c->used;
    c->used += (elements * size + 63) / 64 * 64;
    return c->base == NULL ? NULL : c->base + at;
}

static void carve_work(const struct job *j, struct carver *c, struct work *w) {
    size_t hd = (size_t)j->head_dim, tkv = (size_t)j->t->geometry.fa_tkv;
    size_t rows = (size_t)j->tokens * (size_t)j->group;
    w->q = carve(c, rows * hd, sizeof *w->q);
    w->p = carve(c, rows * tkv, sizeof *w->p);
    w->raw = carve(c, j->s->kv[0]->dtype == KV_Q8_0 ? tkv * hd : 0, sizeof *w->raw);
    w->k = carve(c, tc_packed_elements((int64_t)tkv, (int64_t)hd), sizeof *w->k);
    w->v = carve(c, tc_packed_elements((int64_t)hd, (int64_t)tkv), sizeof *w->v);
    w->s = carve(c, rows * tkv, sizeof *w->s);
    w->o = carve(c, rows * hd, sizeof *w->o);
    w->acc = carve(c, rows * hd, sizeof *w->acc);
    w->m = carve(c, rows, sizeof *w->m);
    w->l = carve(c, rows, sizeof *w->l);
    w->top = carve(c, rows, sizeof *w->top);
    w->sum = carve(c, rows, sizeof *w->sum);
}

static void carve_job(struct job *j, struct carver *c, struct work work[PAR_THREADS_MAX]) {
    for (int i = 0; i < par_threads(j->t->pool); i++) carve_work(j, c, &work[i]);
    size_t per_chunk = (size_t)j->group * (size_t)(j->head_dim + 2);
    size_t slots = (size_t)j->n_tiles * (size_t)j->n_kv_head * (size_t)j->max_chunks;
    j->partial = j->parts == 1 ? NULL : carve(c, slots * per_chunk, sizeof *j->partial);
}

/* Of prefill the tiles, of decode rows the splits: each call has one of them. */
static void note_use(const struct job *j, struct attention_use *use) {
    if (use == NULL) return;
    if (j->s->n_seq == 1 && j->tokens > use->tile_rows) use->tile_rows = j->tokens;
    if (j->s->n_seq == 1 && j->s->n_rows > use->rows) use->rows = j->s->n_rows;
    if (j->tokens > 1) return;
    if (j->parts > use->splits) use->splits = j->parts;
    if (j->max_chunks > use->chunks) use->chunks = j->max_chunks;
}

enum status attention_twin(const struct twin_ctx *t, const struct step *s, int layer, int n_head,
                           const float *q, float *o, struct err *err) {
    if (t->route == ROUTE_F32) return attention_f32(t, s, layer, n_head, q, o, err);
    const struct kv_cache *kv = s->kv[0];
    if (kv->dtype == KV_F32)
        return err_set(err, STATUS_UNSUPPORTED, "attention: an f32 cache needs route f32");
    struct work work[PAR_THREADS_MAX];
    struct job j = {.t = t, .s = s, .q = q, .o = o, .layer = layer, .n_head = n_head, .work = work};
    j.rows = t->use_avx2 ? &attention_rows_avx2 : &attention_rows_scalar;
    j.n_kv_head = kv->n_kv_head;
    j.group = n_head / kv->n_kv_head;
    j.head_dim = kv->head_dim;
    j.factor = (float)(0x1.71547652b82fep+0 / sqrt((double)j.head_dim));
    j.tokens = s->n_seq == 1 ? min_int(t->geometry.fa_tq, s->n_rows) : 1;
    j.n_tiles = (s->n_rows + j.tokens - 1) / j.tokens;
    for (int i = 0; i < s->n_rows; i++) {
        int n = s->pos[i] / t->geometry.fa_chunk + 1;
        j.max_chunks = n > j.max_chunks ? n : j.max_chunks;
    }
    j.parts = j.tokens == 1 ? min_int(t->geometry.fa_splits, j.max_chunks) : 1;
    note_use(&j, t->use);
    struct carver c = {NULL, 0};
    carve_job(&j, &c, work);
    void *memory = malloc(c.used);
    if (memory == NULL)
        return err_set(err, STATUS_NOMEM, "attention: %zu bytes of scratch for %d rows", c.used, s->n_rows);
    c = (struct carver){memory, 0};
    carve_job(&j, &c, work);
    par_for(t->pool, (int64_t)j.n_tiles * j.n_kv_head * j.parts, 1, run_items, &j);
    if (j.partial != NULL) par_for(t->pool, (int64_t)j.n_tiles * j.n_kv_head, 1, fold_items, &j);
    free(memory);
    return STATUS_OK;
}
