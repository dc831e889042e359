/* rmsnorm.c - twin of rmsnorm: strided fma lanes, a halving tree, one scale per row.
 * Not a pairwise or Kahan sum: the order is the kernel's, so the bits are.
 * Idea: lane l only ever sees columns l, l + NORM_LANES, ..; the order depends on cols alone.
 * Source: Zhang & Sennrich 2019, eq. 4. Exercise: ctest -R unit.ops */
#include <math.h>

#include "twins.h"

struct rmsnorm_job {
    const float *x, *w; /* [rows, cols], [cols] */
    float *y;           /* [rows, cols] */
    int64_t cols;
    float eps;
};

static inline void rmsnorm_rows(const struct rmsnorm_job *job, int64_t begin, int64_t end) {
    int64_t cols = job->cols;
    for (int64_t r = begin; r < end; r++) {
        const float *x = job->x + r * cols;
        float *y = job->y + r * cols, lane[NORM_LANES] = {0};
        for (int64_t c0 = 0; c0 < cols; c0 += NORM_LANES) {
            int64_t n = cols - c0 < NORM_LANES ? cols - c0 : NORM_LANES;
            for (int64_t l = 0; l < n; l++) lane[l] = fmaf(x[c0 + l], x[c0 + l], lane[l]);
        }
        for (int s = NORM_LANES / 2; s > 0; s /= 2)
            for (int l = 0; l < s; l++) lane[l] += lane[l + s];
        float mean = lane[0] / (float)cols;
        float scale = 1.0f / sqrtf(mean + job->eps);
        for (int64_t c = 0; c < cols; c++) y[c] = (x[c] * scale) * job->w[c];
    }
}

static void rmsnorm_scalar(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    rmsnorm_rows(ctx, begin, end);
}

/* The same source; here fmaf is an instruction instead of a call. */
__attribute__((target("avx2,fma"))) static void rmsnorm_avx2(void *ctx, int64_t begin, int64_t end,
                                                             int thread) {
    (void)thread;
    rmsnorm_rows(ctx, begin, end);
}

void rmsnorm_twin(const struct twin_ctx *t, const float *x, const float *w, float eps, int64_t rows,
                  int64_t cols, float *y) {
    struct rmsnorm_job job = {x, w, y, cols, eps};
    par_for(t->pool, rows, 8, t->use_avx2 ? rmsnorm_avx2 : rmsnorm_scalar, &job);
}
