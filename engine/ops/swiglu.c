/* swiglu.c - twin of swiglu: SiLU(g) * u, in the order of ops.h.
 * Not fused with the products around it.
 * Idea: elements are independent, so any split over threads gives the same bits.
 * Source: Shazeer 2020. Exercise: ctest -R unit.ops */
#include "../fault.h"
#include "../fmath.h"
#include "twins.h"

struct swiglu_job {
    const float *g, *u; /* [n] */
    float *y;           /* [n] */
};

/* The arithmetic once; the AVX2 build of it only turns fmaf into an instruction. */
static inline void swiglu_range(const struct swiglu_job *job, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        float g = job->g[i];
        job->y[i] = (g * (1.0f / (1.0f + fm_expf(-g)))) * job->u[i];
    }
}

static void swiglu_scalar(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    swiglu_range(ctx, begin, end);
}

__attribute__((target("avx2,fma"))) static void swiglu_avx2(void *ctx, int64_t begin, int64_t end,
                                                            int thread) {
    (void)thread;
    swiglu_range(ctx, begin, end);
}

void swiglu_twin(const struct twin_ctx *t, const float *g, const float *u, int64_t n, float *y) {
    struct swiglu_job job = {g, u, y};
    if (n % 256 != 0 && FAULT(SW_TAIL)) n -= n % 256; /* whole blocks only */
    par_for(t->pool, n, 4096, t->use_avx2 ? swiglu_avx2 : swiglu_scalar, &job);
}
