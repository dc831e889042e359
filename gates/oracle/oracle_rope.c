/* oracle_rope.c - rotation of head pairs by the op's own cosine and sine table, in float64.
 * Source: Su et al. 2021. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

static void rotate(double a, double b, double c, double s, double *y, double *scale, int64_t ia, int64_t ib) {
    y[ia] = a * c - b * s;
    y[ib] = a * s + b * c;
    scale[ia] = fabs(a * c) + fabs(b * s);
    scale[ib] = fabs(a * s) + fabs(b * c);
}

void oracle_rope(const float *x, const int32_t *pos, int64_t rows, int n_head, int head_dim, int n_rot,
                 int interleaved, const float *cosines, const float *sines, double *y, double *scale) {
    int half = n_rot / 2;
    for (int64_t r = 0; r < rows; r++) {
        for (int h = 0; h < n_head; h++) {
            int64_t at = (r * n_head + h) * head_dim;
            for (int d = n_rot; d < head_dim; d++) {
                y[at + d] = (double)x[at + d];
                scale[at + d] = 0;
            }
            for (int i = 0; i < half; i++) {
                int64_t ia = at + (interleaved ? 2 * i : i), ib = at + (interleaved ? 2 * i + 1 : i + half);
                double c = (double)cosines[(int64_t)pos[r] * half + i];
                double s = (double)sines[(int64_t)pos[r] * half + i];
                rotate((double)x[ia], (double)x[ib], c, s, y, scale, ia, ib);
            }
        }
    }
}
