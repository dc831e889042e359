/* rmsnorm.c - twin of rmsnorm: strided fma lanes, a halving tree, one scale per row.
 * Not a pairwise or Kahan sum: the order is the kernel's, so the bits are.
 * Idea: lane l only ever sees columns l, l + NORM_LANES, ..; the order depends on cols alone.
 * Source: Zhang & Sennrich 2019, eq. 4. Exercise: ctest -R unit.ops */
#include <immintrin.h>
#include <math.h>

#include "../fault.h"
#include "twins.h"

typedef float sum_squares_fn(const float *x, int64_t cols);

static float sum_squares_scalar(const float *x, int64_t cols) {
    float lane[NORM_LANES] = {0};
    for (int64_t c = 0; c < cols; c++) lane[c % NORM_LANES] = fmaf(x[c], x[c], lane[c % NORM_LANES]);
    for (int s = NORM_LANES / 2; s > 0; s /= 2)
        for (int l = 0; l < s; l++) lane[l] += lane[l + s];
    return lane[0];
}

/* Lane for lane the same; only whole vectors of eight columns go eight at a time. */
__attribute__((target("avx2,fma"))) static float sum_squares_avx2(const float *x, int64_t cols) {
    float lane[NORM_LANES] = {0};
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
        float *at = lane + c % NORM_LANES;
        __m256 v = _mm256_loadu_ps(x + c);
        _mm256_storeu_ps(at, _mm256_fmadd_ps(v, v, _mm256_loadu_ps(at)));
    }
    for (; c < cols; c++) lane[c % NORM_LANES] = fmaf(x[c], x[c], lane[c % NORM_LANES]);
    for (int s = NORM_LANES / 2; s >= 8; s /= 2)
        for (int l = 0; l < s; l += 8)
            _mm256_storeu_ps(lane + l,
                             _mm256_add_ps(_mm256_loadu_ps(lane + l), _mm256_loadu_ps(lane + l + s)));
    for (int s = 4; s > 0; s /= 2)
        for (int l = 0; l < s; l++) lane[l] += lane[l + s];
    return lane[0];
}

struct rmsnorm_job {
    const float *x, *w; /* [rows, cols], [cols] */
    float *y;           /* [rows, cols] */
    int64_t cols;
    float eps;
    sum_squares_fn *sum_squares;
};

static float row_sum(const struct rmsnorm_job *job, const float *x) {
    int64_t cols = job->cols;
    if (cols % NORM_LANES != 0 && FAULT(SUM_SKIP_LAST)) cols -= 1;
    if (cols % 1024 != 0 && cols > 4 && FAULT(NORM_TAIL)) cols -= 4;
    if (cols > 1 && FAULT(RT_ATOMICS)) { /* two partial sums, cut wherever the first to arrive ended */
        int64_t cut = 1 + FAULT_ARRIVAL() % (cols - 1);
        return job->sum_squares(x, cut) + job->sum_squares(x + cut, cols - cut);
    }
    return job->sum_squares(x, cols);
}

static void rmsnorm_rows(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct rmsnorm_job *job = ctx;
    int64_t cols = job->cols;
    for (int64_t r = begin; r < end; r++) {
        const float *x = job->x + r * cols;
        float *y = job->y + r * cols;
        float mean = row_sum(job, x) / (float)cols;
        float scale = 1.0f / sqrtf(mean + job->eps);
        for (int64_t c = 0; c < cols; c++) y[c] = (x[c] * scale) * job->w[c];
    }
}

void rmsnorm_twin(const struct twin_ctx *t, const float *x, const float *w, float eps, int64_t rows,
                  int64_t cols, float *y) {
    struct rmsnorm_job job = {x, w, y, cols, eps, t->use_avx2 ? sum_squares_avx2 : sum_squares_scalar};
    par_for(t->pool, rows, 8, rmsnorm_rows, &job);
}
