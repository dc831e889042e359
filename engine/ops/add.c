/* add.c - twin of add: the residual connection.
 * Source: ours. Exercise: ctest -R unit.ops */
#include "twins.h"

void add_twin(const struct twin_ctx *t, float *x, const float *d, int64_t n) {
    (void)t;
    for (int64_t i = 0; i < n; i++) x[i] = x[i] + d[i];
}
