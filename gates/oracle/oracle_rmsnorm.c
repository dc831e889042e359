/* oracle_rmsnorm.c - y = x w / sqrt(mean x^2 + eps) in float64.
 * Source: Zhang & Sennrich 2019, eq. 4. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

void oracle_rmsnorm(const float *x, const float *w, double eps, int64_t rows, int64_t cols, double *y,
                    double *scale) {
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < cols; c++) sum += (double)x[r * cols + c] * (double)x[r * cols + c];
        double norm = 1.0 / sqrt(sum / (double)cols + eps);
        for (int64_t c = 0; c < cols; c++) {
            y[r * cols + c] = (double)x[r * cols + c] * norm * (double)w[c];
            scale[r * cols + c] = fabs(y[r * cols + c]);
        }
    }
}
