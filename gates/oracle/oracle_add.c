/* oracle_add.c - x + t in float64. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

void oracle_add(const float *x, const float *t, size_t n, double *y, double *scale) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (double)x[i] + (double)t[i];
        scale[i] = fabs(y[i]);
    }
}
