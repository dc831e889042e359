/* bench_tcmodel.c - how fast the tensor-core model runs: GMAC/s of tc_gemm per type, arch, path and number of rows.
 * Not a test: it asserts nothing and ctest does not run it. Source: ours.
 * Exercise: build/bench_tcmodel [k n] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/fmath.h"
#include "engine/tcmodel.h"

#define M_MAX 64

static double cpu_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(uint16_t *x, size_t n, enum tc_type type, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = ((float)(seed >> 8) * 0x1p-23f - 1.0f) * 3.0f;
        x[i] = type == TC_F16 ? fm_f32_to_f16(v) : fm_f32_to_bf16(v);
    }
}

/* Best of up to thirty timings in processor time, so that other load on the machine counts little. */
static double gmac(enum arch arch, enum tc_type type, int avx2, const uint16_t *a, int64_t m,
                   const uint16_t *b, int64_t k, int64_t n, float *c) {
    double best = 0, start = cpu_seconds();
    for (int round = 0; round < 30 && (round < 2 || cpu_seconds() - start < 0.5); round++) {
        int calls = 0;
        double t0 = cpu_seconds(), t = 0;
        do {
            tc_gemm(arch, type, avx2, a, k, m, b, k, 0, n, c, n, 0);
            calls++;
            t = cpu_seconds() - t0;
        } while (t < 0.004);
        double rate = (double)calls * (double)m * (double)n * (double)k / t * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

int main(int argc, char **argv) {
    static const int rows[] = {1, 2, 8, 64};
    int64_t k = argc > 2 ? atol(argv[1]) : 896, n = argc > 2 ? atol(argv[2]) : 1024;
    k = k / TC_K * TC_K;
    if (k < TC_K || n < TC_PANEL || k > 1 << 20 || n > 1 << 20) return 2;
    uint16_t *a = malloc((size_t)(M_MAX * k) * sizeof *a);
    uint16_t *b = malloc(tc_packed_elements(n, k) * sizeof *b);
    float *c = malloc((size_t)(M_MAX * n) * sizeof *c);
    if (a == NULL || b == NULL || c == NULL) return 2;
    printf("type,arch,path,k,n,m=1,m=2,m=8,m=64 (GMAC/s)\n");
    for (int run = 0; run < 8; run++) {
        enum tc_type type = run & 1 ? TC_BF16 : TC_F16;
        enum arch arch = run & 2 ? ARCH_SM80 : ARCH_SM90;
        int avx2 = run < 4;
        if (avx2 && !tc_have_avx2()) continue;
        fill(a, (size_t)(M_MAX * k), type, 1);
        fill(b, tc_packed_elements(n, k), type, 2);
        printf("%s,sm_%d,%s,%ld,%ld", type == TC_F16 ? "f16" : "bf16", (int)arch, avx2 ? "avx2" : "scalar",
               (long)k, (long)n);
        for (int i = 0; i < 4; i++) printf(",%.3f", gmac(arch, type, avx2, a, rows[i], b, k, n, c));
        printf("\n");
    }
    free(a);
    free(b);
    free(c);
    return 0;
}
