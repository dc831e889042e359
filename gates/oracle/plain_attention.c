/* plain_attention.c - the low-precision control of the attention budget: untiled, unchunked, same stored inputs, same
 * accumulate primitive. Not the truth and not the subject's algorithm: no online rescale, no chunk fold.
 * Idea: whatever error this plain form makes is the price of the number formats; the subject may make twice that.
 * Source: FlashAttention's tests (kernel error <= 2x a plain same-dtype one). Exercise: ctest -R unit.oracle */
#include <math.h>
#include <stdlib.h>

#include "engine/status.h"
#include "gates/oracle/oracle.h"

/* Scores in base 2, their maximum, then P in f16 and its f32 sum. */
static float plain_softmax(float *t, uint16_t *p, int64_t n, float factor) {
    float top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        t[j] *= factor;
        if (t[j] > top) top = t[j];
    }
    for (int64_t j = 0; j < n; j++) {
        float e = (float)exp2((double)(t[j] - top));
        sum += e;
        p[j] = oracle_f16_round((double)e);
    }
    return sum;
}

enum status plain_attention(enum arch arch, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                            int64_t key_stride, int64_t pos, int head_dim, float *o, struct err *err) {
    int64_t n = pos + 1;
    float *t = malloc((size_t)n * sizeof *t);
    uint16_t *p = malloc((size_t)n * sizeof *p);
    if (t == NULL || p == NULL) {
        free(t);
        free(p);
        return err_set(err, STATUS_NOMEM, "plain attention: %lld keys", (long long)n);
    }
    for (int64_t j = 0; j < n; j++) t[j] = plain_tc_dot(arch, q, k + j * key_stride, 1, head_dim, 0.0f);
    float sum = plain_softmax(t, p, n, (float)(1.4426950408889634 / sqrt((double)head_dim)));
    for (int d = 0; d < head_dim; d++) o[d] = plain_tc_dot(arch, p, v + d, key_stride, n, 0.0f) / sum;
    free(t);
    free(p);
    return STATUS_OK;
}
