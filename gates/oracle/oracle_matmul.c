/* oracle_matmul.c - y = a . w^T + bias in float64 over stored operands. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

void oracle_matmul(const struct oracle_product *p, double *y, double *scale) {
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t j = 0; j < p->n; j++) {
            const double *a = p->a + r * p->k, *w = p->w + j * p->k;
            double sum = 0, size = 0;
            for (int64_t i = 0; i < p->k; i++) {
                sum += a[i] * w[i];
                size += fabs(a[i]) * (p->w_size == NULL ? fabs(w[i]) : p->w_size[j * p->k + i]);
            }
            double bias = p->bias == NULL ? 0.0 : (double)p->bias[j];
            y[r * p->n + j] = sum + bias;
            scale[r * p->n + j] = size + fabs(bias);
        }
    }
}
