/* bench_matmul.c - speed of the matrix-product twins, one thread: CSV on stdout.
 * Not a test and not a gate: numbers of one machine and moment; correctness is test_matmul.c's.
 * Idea: 7.3 million weights (the small embedded model's count) so that packed weights come from the last-level cache;
 * best of several runs.
 * Source: ours. Exercise: cmake --build build --target bench_matmul && build/bench_matmul */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "matmul_problem.h"

#define BENCH_K 256
#define BENCH_N 28416
#define RUNS    7

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* one thread: time on a busy machine is not its own */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_seconds(const struct problem *p, const struct twin_ctx *t, int64_t rows, float *y) {
    double best = 1e30;
    for (int run = 0; run < RUNS; run++) {
        double start = seconds_now();
        multiply(p, t, &p->a, rows, y);
        double took = seconds_now() - start;
        if (took < best) best = took;
    }
    return best;
}

static void bench(enum route route, enum dtype dtype, int64_t max_rows) {
    static const int64_t counts[] = {1, 4, 8, 64};
    struct problem p = problem_make(route, dtype, BENCH_N, BENCH_K, max_rows, 0);
    uint64_t overflow = 0;
    struct twin_ctx t = {route,     ARCH_SM90, geometry_default(ARCH_SM90), tc_have_avx2(), NULL,
                         &overflow, NULL};
    float *y = poisoned((size_t)(max_rows * BENCH_N));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && counts[i] <= max_rows; i++) {
        double s = best_seconds(&p, &t, counts[i], y), macs = (double)counts[i] * BENCH_N * BENCH_K;
        printf("%s,%s,%d,%d,%d,%.6f,%.2f\n", route_name(route), type_name(dtype), BENCH_N, BENCH_K,
               (int)counts[i], s * 1e3, macs / s * 1e-9);
    }
    free(y);
    problem_free(&p);
}

int main(void) {
    printf("route,dtype,n,k,rows,ms,gmac_per_s\n");
    for (size_t i = 0; i < N_TYPES; i++)
        if (is_runnable(ROUTE_Q8, all_types[i], BENCH_K)) bench(ROUTE_Q8, all_types[i], 64);
    bench(ROUTE_F16, DTYPE_Q8_0, 8);
    bench(ROUTE_F32, DTYPE_F32, 8);
    bench(ROUTE_F32, DTYPE_Q8_0, 8);
    return 0;
}
