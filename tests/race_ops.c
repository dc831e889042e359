/* race_ops.c - the pool and every threaded twin under load, as a plain program: Criterion cannot run under the thread
 * sanitizer.
 * Not a value test beyond one equality: four threads give the bits of one.
 * Source: ours. Exercise: ctest -R race.ops in a SANITIZE=thread build */
#include <stdio.h>
#include <stdlib.h>

#include "matmul_problem.h"

#define ROWS 40

/* 1 when any cell differs between one thread and four. */
static int product_differs(enum route route, enum dtype dtype, par *pool, uint64_t *overflow) {
    struct problem p = problem_make(route, dtype, 100, 256, ROWS, 0);
    struct twin_ctx one = {route,    ARCH_SM90, geometry_default(ARCH_SM90), tc_have_avx2(), NULL,
                           overflow, NULL};
    struct twin_ctx four = one;
    four.pool = pool;
    float *a = poisoned(ROWS * 100), *b = poisoned(ROWS * 100);
    multiply(&p, &one, &p.a, ROWS, a);
    prepare(&p, &four);
    multiply(&p, &four, &p.a, ROWS, b);
    size_t at = 0, differ = bits_differ(a, b, ROWS * 100, &at);
    free(a);
    free(b);
    problem_free(&p);
    return differ != 0;
}

/* 1 when a threaded row op differs, or an overflow count is lost. */
static int row_ops_differ(par *pool) {
    uint64_t overflow = 0;
    struct twin_ctx one = {ROUTE_F16, ARCH_SM90, geometry_default(ARCH_SM90), tc_have_avx2(), NULL,
                           &overflow, NULL};
    struct twin_ctx four = one;
    four.pool = pool;
    size_t n = ROWS * 256, at = 0;
    float *x = random_floats(1, n, 1.0f), *a = poisoned(n), *b = poisoned(n);
    rmsnorm_twin(&one, x, x, 1e-5f, ROWS, 256, a);
    rmsnorm_twin(&four, x, x, 1e-5f, ROWS, 256, b);
    int bad = bits_differ(a, b, n, &at) != 0;
    swiglu_twin(&one, x, a, (int64_t)n, a);
    swiglu_twin(&four, x, b, (int64_t)n, b);
    bad |= bits_differ(a, b, n, &at) != 0;
    struct top2 top[ROWS];
    top2_twin(&four, b, ROWS, 256, 256, top);
    for (size_t i = 0; i < n; i++) x[i] = 1e6f; /* every element overflows, on every thread */
    void *memory = malloc(act_carve(ACT_F16, ROWS, 256, NULL, NULL));
    struct act act;
    act_carve(ACT_F16, ROWS, 256, memory, &act);
    act_prepare_twin(&four, ACT_F16, x, ROWS, 256, &act);
    bad |= overflow != n;
    free(memory);
    free(x);
    free(a);
    free(b);
    return bad;
}

int main(void) {
    par *pool = NULL;
    uint64_t overflow = 0;
    int bad = 0, rounds = 20;
    for (int round = 0; round < rounds; round++) {
        if (par_open(4, &pool, NULL) != STATUS_OK) return 2;
        bad += product_differs(ROUTE_Q8, DTYPE_Q8_0, pool, &overflow);
        bad += product_differs(ROUTE_Q8, DTYPE_Q4_K, pool, &overflow);
        bad += product_differs(ROUTE_F16, DTYPE_F16, pool, &overflow);
        bad += product_differs(ROUTE_F32, DTYPE_F32, pool, &overflow);
        bad += row_ops_differ(pool);
        par_close(pool);
    }
    printf("race_ops: %d rounds, %d differences\n", rounds, bad);
    return bad != 0;
}
