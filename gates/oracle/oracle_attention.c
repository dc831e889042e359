/* oracle_attention.c - softmax attention of one row at a time in float64 over the cache's stored values.
 * Not tiled, not online: the maximum is known before the first exponential.
 * Source: Vaswani et al. 2017, eq. 1. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

struct head {
    const double *q, *k, *v; /* first element of this head; key j is at + j*stride */
    int64_t stride, n_keys;
    int head_dim;
};

static double score(const struct head *h, int64_t j) {
    double s = 0;
    for (int d = 0; d < h->head_dim; d++) s += h->q[d] * h->k[j * h->stride + d];
    return s / sqrt((double)h->head_dim);
}

static void attend(const struct head *h, double *o, double *scale) {
    double top = -(double)INFINITY, sum = 0, largest = 0;
    for (int64_t j = 0; j < h->n_keys; j++) top = fmax(top, score(h, j));
    for (int d = 0; d < h->head_dim; d++) o[d] = 0;
    for (int64_t j = 0; j < h->n_keys; j++) {
        double p = exp(score(h, j) - top);
        sum += p;
        for (int d = 0; d < h->head_dim; d++) {
            double v = h->v[j * h->stride + d];
            o[d] += p * v;
            largest = fmax(largest, fabs(v));
        }
    }
    for (int d = 0; d < h->head_dim; d++) {
        o[d] /= sum;
        scale[d] = largest;
    }
}

void oracle_attention(const struct oracle_attention *p, double *o, double *scale) {
    int group = p->n_head / p->n_kv_head;
    for (int64_t r = 0; r < p->rows; r++) {
        for (int i = 0; i < p->n_head; i++) {
            int64_t at = (r * p->n_head + i) * p->head_dim;
            int64_t kv = (int64_t)(i / group) * p->head_dim;
            struct head h = {p->q + at,     p->k + kv,  p->v + kv, (int64_t)p->n_kv_head * p->head_dim,
                             p->pos[r] + 1, p->head_dim};
            attend(&h, o + at, scale + at);
        }
    }
}
