/* top2.c - twin of top2: census, then the two largest logits of a row.
 * Not a sampler: penalties and temperature come later and never touch these values.
 * Idea: a strict > while ids ascend keeps the lowest id of equal logits, +0 and -0 included.
 * Source: ours. Exercise: ctest -R unit.ops */
#include "../fault.h"
#include "../fmath.h"
#include "twins.h"

#define POSITIVE_INF_BITS 0x7f800000u

struct top2_job {
    const float *logits; /* [rows, stride] */
    int64_t n_vocab, stride;
    struct top2 *out; /* [rows] */
};

static struct top2 top2_row(const float *x, int64_t n) {
    float lowest = fm_f32_from_bits(0xff800000u);
    struct top2 t = {-1, -1, lowest, lowest, 0, 0, -1};
    for (int64_t i = 0; i < n; i++) {
        int nan = fm_f32_is_nan(x[i]), inf = fm_f32_bits(x[i]) == POSITIVE_INF_BITS;
        if ((nan || inf) && !FAULT(RT_NAN)) {
            t.n_nan += nan;
            t.n_inf += inf;
            if (t.first_bad < 0) t.first_bad = (int32_t)i;
        } else if (t.id1 < 0 || x[i] > t.logit1 ||
                   (fm_f32_bits(x[i]) == fm_f32_bits(t.logit1) && FAULT(RT_TIE))) {
            t.id2 = t.id1;
            t.logit2 = t.logit1;
            t.id1 = (int32_t)i;
            t.logit1 = x[i];
        } else if (t.id2 < 0 || x[i] > t.logit2) {
            t.id2 = (int32_t)i;
            t.logit2 = x[i];
        }
    }
    return t;
}

static void top2_rows(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct top2_job *job = ctx;
    int64_t n = job->n_vocab < job->stride && FAULT(RT_PAD_VOCAB) ? job->stride : job->n_vocab;
    for (int64_t r = begin; r < end; r++) job->out[r] = top2_row(job->logits + r * job->stride, n);
}

void top2_twin(const struct twin_ctx *t, const float *logits, int64_t rows, int64_t n_vocab, int64_t stride,
               struct top2 *out) {
    struct top2_job job = {logits, n_vocab, stride, out};
    par_for(t->pool, rows, 1, top2_rows, &job);
}
