/* act_prepare.c - twin of act_prepare: the input of a matrix product as f16 or as int8 blocks with exact sums.
 * Not fused into producers: one prepared input is shared by all its consumers.
 * Idea: amax is taken over magnitude bits, so a NaN or Inf is the largest and cannot hide.
 * Source: the q8 activation blocks of ggml, block length tied to the weight's. Exercise: ctest -R unit.ops */
#include <string.h>

#include "../fault.h"
#include "../fmath.h"
#include "overflow.h"

#define ACT_AMAX_MIN 0x1p-100f /* below it 127 / amax and the codes would come near the ends of f32 */

struct act_job {
    const struct twin_ctx *t;
    const float *x; /* [rows, k] */
    struct act *out;
    int64_t k;
    int block;
};

static void prepare_f16(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct act_job *job = ctx;
    int64_t k = job->k, k_pad = (k + TC_K - 1) / TC_K * TC_K;
    uint64_t overflow = 0;
    for (int64_t r = begin; r < end; r++) {
        const float *x = job->x + r * k;
        uint16_t *h = job->out->f16 + r * k_pad;
        for (int64_t i = 0; i < k; i++) {
            h[i] = fm_f32_to_f16(x[i]);
            overflow += (h[i] & 0x7c00u) == 0x7c00u;
        }
        if (k < k_pad && FAULT(Q_PAD)) continue;
        for (int64_t i = k; i < k_pad; i++) h[i] = 0;
    }
    overflow_add(job->t, overflow);
}

/* One block of n elements; returns 1 when it holds a NaN or Inf. */
static uint64_t quantise_block(const float *x, int n, int8_t *q, float *d, int16_t *sum) {
    uint32_t top = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = fm_f32_bits(x[i]) & 0x7fffffffu;
        top = magnitude > top ? magnitude : top;
    }
    float amax = fm_f32_from_bits(top);
    int finite = fm_f32_is_finite(amax);
    if (!finite || amax < ACT_AMAX_MIN) {
        *d = finite ? 0.0f : fm_f32_from_bits(0x7fc00000u);
        memset(q, 0, (size_t)n);
        memset(sum, 0, (size_t)(n / ACT_SUM_GROUP) * sizeof *sum);
        return !finite;
    }
    float top_code = FAULT(Q_AMAX126) ? 126.0f : 127.0f, inverse = top_code / amax;
    *d = amax / top_code;
    for (int g = 0; g < n / ACT_SUM_GROUP; g++) {
        int total = 0;
        for (int i = g * ACT_SUM_GROUP; i < (g + 1) * ACT_SUM_GROUP; i++) {
            int code = (int)fm_rintf(x[i] * inverse);
            q[i] = (int8_t)code;
            total += code;
        }
        sum[g] = (int16_t)total;
    }
    return 0;
}

static void prepare_q8(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct act_job *job = ctx;
    int64_t n_blocks = job->k / job->block;
    uint64_t overflow = 0;
    for (int64_t i = begin * n_blocks; i < end * n_blocks; i++) {
        int64_t at = i * job->block;
        overflow += quantise_block(job->x + at, job->block, job->out->q + at, job->out->d + i,
                                   job->out->sum + at / ACT_SUM_GROUP);
    }
    overflow_add(job->t, overflow);
}

void act_prepare_twin(const struct twin_ctx *t, enum act_kind kind, const float *x, int64_t rows, int64_t k,
                      struct act *out) {
    struct act_job job = {t, x, out, k, act_block(kind)};
    out->kind = kind;
    out->k = k;
    if (kind == ACT_F32)
        out->f32 = x;
    else
        par_for(t->pool, rows, 8, kind == ACT_F16 ? prepare_f16 : prepare_q8, &job);
}
