/* add.c - twin of add: the residual connection.
 * Source: ours. Exercise: ctest -R unit.ops */
#include "../fault.h"
#include "twins.h"

void add_twin(const struct twin_ctx *t, float *x, const float *d, int64_t n) {
    (void)t;
    if (n % 256 != 0 && FAULT(ADD_TAIL)) n -= n % 256; /* whole blocks only */
    for (int64_t i = 0; i < n; i++) x[i] = x[i] + d[i];
}
