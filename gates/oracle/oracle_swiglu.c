/* oracle_swiglu.c - SiLU(g) u in float64, with libm's exp. Source: Shazeer 2020. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

void oracle_swiglu(const float *g, const float *u, size_t n, double *y, double *scale) {
    for (size_t i = 0; i < n; i++) {
        y[i] = (double)g[i] / (1.0 + exp(-(double)g[i])) * (double)u[i];
        scale[i] = fabs(y[i]);
    }
}
