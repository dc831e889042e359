/* matmul_f32.c - twin of matmul on route f32: dequantised weights, f32 activations, strided fma lanes.
 * Not fast and not on a device: the accurate arm against the oracle.
 * Idea: a stretch of one weight row is dequantised once and used by ROW_TILE rows; the lanes wait in memory between
 * stretches, so the order is that of one long walk over k.
 * Source: ours. Exercise: ctest -R unit.matmul */
#include <immintrin.h>
#include <math.h>

#include "twins.h"

#define ROW_TILE      32
#define PART_PRODUCTS (1 << 15) /* least work of a thread, about 20 us: waking one costs several */
#define STRETCH       1024 /* elements dequantised at a time: a multiple of every block and of F32_LANES */

_Static_assert(STRETCH % QK_256 == 0 && STRETCH % F32_LANES == 0,
               "a stretch holds whole blocks and whole lanes");
_Static_assert(F32_LANES == 16, "the AVX2 variant holds the lanes in two vectors");

typedef void lanes_fn(const float *a, const float *w, int64_t n, float lane[F32_LANES]);

static void lanes_scalar(const float *a, const float *w, int64_t n, float lane[F32_LANES]) {
    for (int64_t k = 0; k < n; k++) lane[k % F32_LANES] = fmaf(a[k], w[k], lane[k % F32_LANES]);
}

__attribute__((target("avx2,fma"))) static void lanes_avx2(const float *a, const float *w, int64_t n,
                                                           float lane[F32_LANES]) {
    __m256 low = _mm256_loadu_ps(lane), high = _mm256_loadu_ps(lane + 8);
    int64_t k = 0;
    for (; k + F32_LANES <= n; k += F32_LANES) {
        low = _mm256_fmadd_ps(_mm256_loadu_ps(a + k), _mm256_loadu_ps(w + k), low);
        high = _mm256_fmadd_ps(_mm256_loadu_ps(a + k + 8), _mm256_loadu_ps(w + k + 8), high);
    }
    _mm256_storeu_ps(lane, low);
    _mm256_storeu_ps(lane + 8, high);
    for (; k < n; k++) lane[k % F32_LANES] = fmaf(a[k], w[k], lane[k % F32_LANES]);
}

static float halving_tree(float lane[F32_LANES]) {
    for (int s = F32_LANES / 2; s > 0; s /= 2)
        for (int i = 0; i < s; i++) lane[i] += lane[i + s];
    return lane[0];
}

struct f32_job {
    const struct weight *w;
    const struct act *a;
    lanes_fn *lanes;
    int64_t rows;
    float *y; /* [rows, w->n] */
};

/* Column n for n_rows activation rows from row r0 on. */
static void multiply_column(const struct f32_job *job, int64_t column, int64_t r0, int n_rows) {
    const struct weight *w = job->w;
    const uint8_t *src = (const uint8_t *)w->data + dtype_bytes(w->dtype, (uint64_t)w->k) * (uint64_t)column;
    float lane[ROW_TILE][F32_LANES] = {{0}}, x[STRETCH];
    for (int64_t k0 = 0; k0 < w->k; k0 += STRETCH) {
        int64_t n = w->k - k0 < STRETCH ? w->k - k0 : STRETCH;
        dtype_dequantise(w->dtype, src + dtype_bytes(w->dtype, (uint64_t)k0), x, (size_t)n);
        for (int r = 0; r < n_rows; r++) job->lanes(job->a->f32 + (r0 + r) * w->k + k0, x, n, lane[r]);
    }
    for (int r = 0; r < n_rows; r++) {
        float sum = halving_tree(lane[r]);
        job->y[(r0 + r) * w->n + column] = w->bias == NULL ? sum : sum + w->bias[column];
    }
}

static void multiply_columns(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct f32_job *job = ctx;
    for (int64_t column = begin; column < end; column++)
        for (int64_t r = 0; r < job->rows; r += ROW_TILE)
            multiply_column(job, column, r, (int)(job->rows - r < ROW_TILE ? job->rows - r : ROW_TILE));
}

void matmul_f32_twin(const struct twin_ctx *t, const struct weight *w, const struct act *a, int64_t rows,
                     float *y) {
    struct f32_job job = {w, a, t->use_avx2 ? lanes_avx2 : lanes_scalar, rows, y};
    par_for(t->pool, w->n, 8 + PART_PRODUCTS / (w->k * rows), multiply_columns, &job);
}
