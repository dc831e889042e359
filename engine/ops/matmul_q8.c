/* matmul_q8.c - twin of matmul on int8 activations: packing, the scalar kernel, the walk over panels and rows.
 * Not the SIMD kernel (matmul_q8_avx2.c) and not a dequantising product.
 * Idea: integer sums are exact in any order; only the f32 chain over blocks has an order, and every lane of a panel
 * walks it alone.
 * Source: the MMVQ and MMQ idea of ggml; the panel layout is ours. Exercise: ctest -R unit.matmul */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../dtype_codes.h"
#include "q8_panel.h"

#define GEMV_UNITS    512       /* blocks of 32 that planted fault mv-bound covers */
#define PART_PRODUCTS (1 << 19) /* least work of a thread, about 20 us: waking one costs several */

struct q8_layout q8_layout_of(enum dtype t) {
    struct q8_layout l = {0};
    int is_k = t == DTYPE_Q4_K || t == DTYPE_Q5_K || t == DTYPE_Q6_K;
    l.block = is_k ? QK_256 : QK_32;
    l.n_sub = t == DTYPE_Q6_K ? 16 : is_k ? 8 : 1;
    l.has_min = t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K;
    size_t at = (size_t)l.block * Q8_ROWS, plane = Q8_ROWS * sizeof(float);
    l.d = at;
    at += plane;
    l.m = at;
    if (l.has_min) at += plane;
    l.scale = at;
    if (is_k) at += 2 * (size_t)l.n_sub * Q8_ROWS;
    l.min = at;
    if (is_k && l.has_min) at += 2 * (size_t)l.n_sub * Q8_ROWS;
    l.record = at;
    return l;
}

/* Puts row j's block into its lanes of the record. */
static void pack_block(const struct q8_layout *l, const struct block_codes *c, int j, uint8_t *record) {
    for (int i = 0; i < l->block; i++) {
        int from = i % 16 >= 8 && FAULT(MM_KHALF) ? i - 8 : i;
        memcpy(record + (i / 4 * Q8_ROWS + j) * 4 + i % 4, &c->q[from], 1);
    }
    memcpy(record + l->d + (size_t)j * sizeof(float), &c->d, sizeof(float));
    if (l->has_min) memcpy(record + l->m + (size_t)j * sizeof(float), &c->m, sizeof(float));
    if (l->n_sub == 1) return;
    for (int s = 0; s < l->n_sub; s++) {
        uint8_t *scale = record + l->scale + 2 * (s * Q8_ROWS + j),
                *min = record + l->min + 2 * (s * Q8_ROWS + j);
        scale[0] = scale[1] = (uint8_t)c->scale[l->n_sub == 16 && FAULT(MM_SCALE16) ? s / 2 * 2 : s];
        if (l->has_min) min[0] = min[1] = FAULT(MM_MINTERM) ? 0 : (uint8_t)c->min[s];
    }
}

enum status matmul_q8_pack(enum dtype dtype, const void *src, int64_t n, int64_t k, void **out,
                           struct err *err) {
    *out = NULL;
    const struct dtype_info *info = dtype_info((int)dtype);
    if (!info->is_quantised)
        return err_set(err, STATUS_UNSUPPORTED, "route q8 has no product for %s weights (use route f16)",
                       info->name);
    if (k % info->block != 0)
        return err_set(err, STATUS_SHAPE, "row length %lld is not a multiple of the %s block %d",
                       (long long)k, info->name, info->block);
    struct q8_layout l = q8_layout_of(dtype);
    int64_t n_blocks = k / l.block, n_panels = (n + Q8_ROWS - 1) / Q8_ROWS;
    size_t bytes = (size_t)n_panels * (size_t)n_blocks * l.record;
    uint8_t *data = aligned_alloc(32, (bytes + 31) / 32 * 32); /* every record is a multiple of 32 bytes */
    if (data == NULL)
        return err_set(err, STATUS_NOMEM, "packing a %lld x %lld matrix takes %zu bytes", (long long)n,
                       (long long)k, bytes);
    memset(data, 0, bytes); /* the rows beyond n of the last panel */
    const uint8_t *block = src;
    for (int64_t row = 0; row < n; row++) {
        uint8_t *record = data + (size_t)(row / Q8_ROWS) * (size_t)n_blocks * l.record;
        for (int64_t b = 0; b < n_blocks; b++, block += info->bytes, record += l.record) {
            struct block_codes c;
            dtype_block_codes(dtype, block, &c);
            pack_block(&l, &c, (int)(row % Q8_ROWS), record);
        }
    }
    *out = data;
    return STATUS_OK;
}

static float plane_at(const uint8_t *record, size_t offset, int j) {
    float x;
    memcpy(&x, record + offset + (size_t)j * sizeof x, sizeof x);
    return x;
}

/* Exact sum of the activation codes of sub-block s of n elements (a multiple of ACT_SUM_GROUP). */
static int code_sum(const int16_t *sum, int s, int n) {
    int total = 0;
    for (int g = s * n / ACT_SUM_GROUP; g < (s + 1) * n / ACT_SUM_GROUP; g++) total += sum[g];
    return total;
}

/* One block of row j of the panel added to acc. */
static float chain_block(const struct q8_layout *l, const uint8_t *record, int j, const int8_t *q, float da,
                         const int16_t *sum, float acc) {
    const int8_t *codes = (const int8_t *)record;
    int dot = 0, mins = 0, sub = l->block / l->n_sub, used = l->n_sub == 1 ? q8_dot_length() : sub;
    for (int s = 0; s < l->n_sub; s++) {
        int part = 0;
        for (int i = s * sub; i < s * sub + used; i++)
            part += codes[(i / 4 * Q8_ROWS + j) * 4 + i % 4] * q[i];
        dot += l->n_sub == 1 ? part : part * codes[l->scale + 2 * (size_t)(s * Q8_ROWS + j)];
        if (l->has_min)
            mins +=
                code_sum(sum, s, sub) * (l->n_sub == 1 ? 1 : codes[l->min + 2 * (size_t)(s * Q8_ROWS + j)]);
    }
    acc = fmaf(plane_at(record, l->d, j) * da, (float)dot, acc);
    if (!l->has_min) return acc;
    float dm = plane_at(record, l->m, j) * da; /* K types subtract their min, the others add it */
    return fmaf(l->n_sub == 1 ? dm : -dm, (float)mins, acc);
}

void q8_panel_scalar(const struct q8_layout *l, const uint8_t *panel, const struct q8_tile *tile,
                     float out[Q8_TILE][Q8_ROWS]) {
    int64_t n_blocks = tile->k / l->block;
    for (int r = 0; r < tile->n_rows; r++) {
        const int8_t *q = tile->q + r * tile->k;
        const float *d = tile->d + r * n_blocks;
        const int16_t *sum = tile->sum + r * (tile->k / ACT_SUM_GROUP);
        for (int j = 0; j < Q8_ROWS; j++) {
            float acc = 0.0f;
            for (int64_t b = 0; b < n_blocks; b++)
                acc = chain_block(l, q8_record(l, panel, b), j, q + b * l->block, d[b],
                                  sum + b * l->block / ACT_SUM_GROUP, acc);
            out[r][j] = acc;
        }
    }
}

struct q8_job {
    const struct weight *w;
    const struct act *a;
    struct q8_layout layout;
    q8_panel_fn *panel;
    int64_t rows;
    float *y; /* [rows, w->n] */
};

/* Where row `row` of the codes starts: rows lie k apart, whatever their length. */
static inline int64_t q8_row_at(const struct q8_job *job, int64_t row, int n_rows) {
    int64_t k = job->w->k, padded = row * ((k + QK_256 - 1) / QK_256 * QK_256),
            last = (job->rows - n_rows) * k;
    if (row > 0 && k % QK_256 != 0 && FAULT(MM_STRIDE)) return padded < last ? padded : last;
    return row * k;
}

static void store_tile(const struct q8_job *job, int64_t row, int n_rows, int64_t column,
                       float out[Q8_TILE][Q8_ROWS]) {
    int64_t n = job->w->n, width = n - column < Q8_ROWS ? n - column : Q8_ROWS;
    const float *bias = job->w->bias;
    for (int r = 0; r < n_rows; r++) {
        for (int64_t j = 0; j < width; j++) {
            int64_t at = (row + r) * n + column + j;
            if (n_rows > 1 && j % 4 == 2 && FAULT(MM_CELLS)) continue;
            if (job->rows > 1 && FAULT(MM_TNT)) at = (column + j) * job->rows + row + r;
            job->y[at] = bias == NULL ? out[r][j] : out[r][j] + bias[column + j];
        }
    }
}

static void multiply_panels(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct q8_job *job = ctx;
    const struct act *a = job->a;
    int64_t k = job->w->k, n_blocks = k / job->layout.block;
    for (int64_t p = begin; p < end; p++) {
        const uint8_t *panel = (const uint8_t *)job->w->data + (size_t)(p * n_blocks) * job->layout.record;
        for (int64_t row = 0; row < job->rows;) {
            int n_rows = job->rows - row < Q8_TILE ? 1 : Q8_TILE;
            int64_t covered =
                n_rows == 1 && k > GEMV_UNITS * QK_32 && FAULT(MV_BOUND) ? GEMV_UNITS * QK_32 : k;
            struct q8_tile tile = {a->q + q8_row_at(job, row, n_rows), a->d + row * n_blocks,
                                   a->sum + row * (k / ACT_SUM_GROUP), covered, n_rows};
            float out[Q8_TILE][Q8_ROWS];
            job->panel(&job->layout, panel, &tile, out);
            store_tile(job, row, n_rows, p * Q8_ROWS, out);
            row += n_rows;
        }
    }
}

void matmul_q8_twin(const struct twin_ctx *t, const struct weight *w, const struct act *a, int64_t rows,
                    float *y) {
    struct q8_job job = {w,    a, q8_layout_of(w->dtype), t->use_avx2 ? q8_panel_avx2 : q8_panel_scalar,
                         rows, y};
    int64_t grain = 1 + PART_PRODUCTS / (Q8_ROWS * w->k * rows);
    par_for(t->pool, (w->n + Q8_ROWS - 1) / Q8_ROWS, grain, multiply_panels, &job);
}
