/* device_tc.cu - the permanent arithmetic test: our accumulate model against the device's tensor-core instructions.
 * Not a kernel test: one tile, fragments loaded by hand, nothing between operands and instruction.
 * Idea: the same operands go through mma.sync, the WMMA API, wgmma (sm_90a), tc_step_scalar and tc_gemm; every finite
 * result must agree to the bit, Inf by sign and NaN as a class. The other architecture's model must NOT agree, or this
 * program would be blind.
 * Source: performance notes of MMA-Sim (arXiv 2511.10909). Exercise: device_tc [--capture N FILE] > tc.csv;
 * exit 0 all agree, 1 not, 2 no device */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vector>

#include "../engine/fmath.h"
#include "../engine/par.h"
#include "device_tc_inputs.h"
#include "device_tc_instructions.cuh"

#define SHOWN 8 /* vectors of a disagreeing set that are printed */
#define TRY(expr)                                                                                            \
    do {                                                                                                     \
        cudaError_t e_ = (expr);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            fprintf(stderr, "device_tc: %s: %s\n", #expr, cudaGetErrorString(e_));                           \
            exit(2);                                                                                         \
        }                                                                                                    \
    } while (0)

/* ---- host -------------------------------------------------------------------------------------------------------- */

struct set {
    enum tc_family family;
    enum tc_type type;
    int k;
    enum arch arch;                     /* model to run */
    std::vector<uint16_t> a, b;         /* all tiles */
    std::vector<float> c, scalar, gemm; /* addends; results of the two forms of the model */
};

static void make_tiles(void *ctx, int64_t begin, int64_t end, int) {
    set *s = (set *)ctx;
    for (int64_t t = begin; t < end; t++)
        tc_family_tile(s->family, s->type, (int)t, s->k, &s->a[t * TC_TEST_M * s->k],
                       &s->b[t * TC_TEST_N * s->k], &s->c[t * TILE_OUT]);
}

static void run_model(void *ctx, int64_t begin, int64_t end, int) {
    set *s = (set *)ctx;
    std::vector<uint16_t> packed(tc_packed_elements(TC_TEST_N, s->k));
    for (int64_t t = begin; t < end; t++) {
        const uint16_t *a = &s->a[t * TC_TEST_M * s->k], *b = &s->b[t * TC_TEST_N * s->k];
        float *scalar = &s->scalar[t * TILE_OUT], *gemm = &s->gemm[t * TILE_OUT];
        for (int i = 0; i < TILE_OUT; i++)
            for (int k0 = 0; k0 < s->k; k0 += TC_K)
                scalar[i] = tc_step_scalar(s->arch, s->type, a + i / TC_TEST_N * s->k + k0,
                                           b + i % TC_TEST_N * s->k + k0, scalar[i]);
        tc_pack_rows(b, s->k, TC_TEST_N, s->k, packed.data());
        tc_gemm(s->arch, s->type, tc_have_avx2(), a, s->k, TC_TEST_M, packed.data(), s->k, 0, TC_TEST_N, gemm,
                TC_TEST_N, 1);
    }
}

static const char *type_name(const set &s) {
    return s.type == TC_F16 ? "f16" : "bf16";
}

/* a, b and c of output i as hex: K operands each without separators, c as f32 bits. */
static void print_vector(FILE *out, const set &s, size_t i) {
    size_t tile = i / TILE_OUT, row = i % TILE_OUT / TC_TEST_N, col = i % TC_TEST_N;
    const uint16_t *a = &s.a[(tile * TC_TEST_M + row) * s.k], *b = &s.b[(tile * TC_TEST_N + col) * s.k];
    for (int k = 0; k < s.k; k++) fprintf(out, "%04x", a[k]);
    fputc(',', out);
    for (int k = 0; k < s.k; k++) fprintf(out, "%04x", b[k]);
    fprintf(out, ",%08x", fm_f32_bits(s.c[i]));
}

struct tally {
    long finite, special, first; /* mismatches among finite results, among Inf/NaN; index of the first */
};

static tally compare(const std::vector<float> &model, const std::vector<float> &device) {
    tally t = {0, 0, -1};
    for (size_t i = 0; i < model.size(); i++) {
        int finite = fm_f32_is_finite(model[i]) && fm_f32_is_finite(device[i]);
        int both_nan = fm_f32_is_nan(model[i]) && fm_f32_is_nan(device[i]);
        if (both_nan || memcmp(&model[i], &device[i], 4) == 0) continue;
        (finite ? t.finite : t.special)++;
        if (t.first < 0) t.first = (long)i;
    }
    return t;
}

/* The first few vectors that differ, in full, on stderr: what a new rule of the model starts from. */
static void show(const set &s, const std::vector<float> &model, const std::vector<float> &device) {
    int shown = 0;
    for (size_t i = 0; i < model.size() && shown < SHOWN; i++) {
        if (memcmp(&model[i], &device[i], 4) == 0 || (fm_f32_is_nan(model[i]) && fm_f32_is_nan(device[i])))
            continue;
        fprintf(stderr, "device_tc: %s,%s,%d,%zu,", tc_family_name(s.family), type_name(s), s.k, i);
        print_vector(stderr, s, i);
        fprintf(stderr, ",%08x,model %08x\n", fm_f32_bits(device[i]), fm_f32_bits(model[i]));
        shown++;
    }
}

/* Evenly spaced vectors of a set with the device's results: fixtures/tc_captured.csv. */
static void capture(FILE *out, long vectors, const set &s, const std::vector<float> &device) {
    if (out == NULL || s.k != TC_K) return;
    for (long v = 0; v < vectors; v++) {
        size_t i = s.c.size() / (size_t)vectors * (size_t)v + (size_t)v % TILE_OUT;
        fprintf(out, "%s,%s,", tc_family_name(s.family), type_name(s));
        print_vector(out, s, i);
        fprintf(out, ",%08x\n", fm_f32_bits(device[i]));
    }
}

static int report(const set &s, const char *what, const tally &t, int must_differ) {
    int differs = t.finite != 0 || t.special != 0, ok = must_differ ? t.finite != 0 : !differs;
    printf("%s,%s,%d,%s,%zu,%ld,%ld,%ld,%s\n", tc_family_name(s.family), type_name(s), s.k, what, s.c.size(),
           t.finite, t.special, t.first,
           ok            ? "PASS"
           : must_differ ? "BLIND"
                         : "FAIL");
    fflush(stdout);
    return !ok;
}

typedef void kernel_fn(const uint16_t *, const uint16_t *, float *, int);

static std::vector<float> run_device(const set &s, kernel_fn *kernel) {
    static uint16_t *da, *db;
    static float *dc;
    if (da == NULL) {
        TRY(cudaMalloc(&da, (size_t)TC_TEST_TILES * TC_TEST_M * TC_TEST_CHAIN * 2));
        TRY(cudaMalloc(&db, (size_t)TC_TEST_TILES * TC_TEST_N * TC_TEST_CHAIN * 2));
        TRY(cudaMalloc(&dc, (size_t)TC_TEST_TILES * TILE_OUT * 4));
    }
    TRY(cudaMemcpy(da, s.a.data(), s.a.size() * 2, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(db, s.b.data(), s.b.size() * 2, cudaMemcpyHostToDevice));
    TRY(cudaMemcpy(dc, s.c.data(), s.c.size() * 4, cudaMemcpyHostToDevice));
    kernel<<<TC_TEST_TILES, TC_TEST_M * 2>>>(da, db, dc, s.k);
    TRY(cudaGetLastError());
    std::vector<float> out(s.c.size());
    TRY(cudaMemcpy(out.data(), dc, out.size() * 4, cudaMemcpyDeviceToHost));
    return out;
}

static int run_set(par *pool, enum tc_family f, enum tc_type type, int k, enum arch arch, FILE *captured,
                   long vectors) {
    size_t tiles = TC_TEST_TILES;
    set s = {f,
             type,
             k,
             arch,
             std::vector<uint16_t>(tiles * TC_TEST_M * k),
             std::vector<uint16_t>(tiles * TC_TEST_N * k),
             std::vector<float>(tiles * TILE_OUT),
             {},
             {}};
    par_for(pool, (int64_t)tiles, 1, make_tiles, &s);
    s.scalar = s.c;
    s.gemm = s.c;
    par_for(pool, (int64_t)tiles, 1, run_model, &s);
    bool bf = type == TC_BF16;
    std::vector<float> mma = run_device(s, bf ? mma_sync_kernel<true> : mma_sync_kernel<false>);
    capture(captured, vectors, s, mma);
    int bad = report(s, "mma.sync-scalar_model", compare(s.scalar, mma), 0);
    show(s, s.scalar, mma);
    bad |= report(s, "mma.sync-simd_model", compare(s.gemm, mma), 0);
    bad |= report(s, "wmma-mma.sync",
                  compare(mma, run_device(s, bf ? wmma_kernel<true> : wmma_kernel<false>)), 0);
    if (arch == ARCH_SM90)
        bad |= report(s, "wgmma-mma.sync",
                      compare(mma, run_device(s, bf ? wgmma_kernel<true> : wgmma_kernel<false>)), 0);
    if (f != FAMILY_NORMAL && f != FAMILY_WIDE) return bad;
    s.arch = arch == ARCH_SM90 ? ARCH_SM80 : ARCH_SM90;
    s.scalar = s.c;
    par_for(pool, (int64_t)tiles, 1, run_model, &s);
    return bad | report(s, "mma.sync-other_arch_model", compare(s.scalar, mma), 1);
}

int main(int argc, char **argv) {
    FILE *captured = NULL;
    long vectors = 0;
    if (argc == 4 && strcmp(argv[1], "--capture") == 0) {
        vectors = strtol(argv[2], NULL, 10);
        captured = fopen(argv[3], "w");
    }
    if ((argc != 1 && captured == NULL) || vectors < 0 || vectors > TC_TEST_TILES * TILE_OUT) {
        fprintf(stderr, "usage: device_tc [--capture VECTORS FILE]\n");
        return 2;
    }
    if (captured != NULL) fprintf(captured, "family,type,a,b,c,device\n");
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) {
        fprintf(stderr, "device_tc: no CUDA device\n");
        return 2;
    }
    enum arch arch = p.major == 9 ? ARCH_SM90 : ARCH_SM80;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct err err;
    par *pool = NULL;
    if (par_open(cores < 1                 ? 1
                 : cores > PAR_THREADS_MAX ? PAR_THREADS_MAX
                                           : (int)cores,
                 &pool, &err) != STATUS_OK) {
        fprintf(stderr, "device_tc: %s\n", err.message);
        return 2;
    }
    fprintf(stderr, "device_tc: %s, compute capability %d.%d, model %s\n", p.name, p.major, p.minor,
            arch == ARCH_SM90 ? "sm_90" : "sm_80");
    printf("family,type,k,compared,vectors,mismatches_finite,mismatches_special,first,verdict\n");
    int bad = 0;
    for (int f = 0; f < FAMILY_COUNT; f++)
        for (int type = TC_F16; type <= TC_BF16; type++) {
            bad |= run_set(pool, (enum tc_family)f, (enum tc_type)type, TC_K, arch, captured, vectors);
            bad |= run_set(pool, (enum tc_family)f, (enum tc_type)type, TC_TEST_CHAIN, arch, NULL, 0);
        }
    par_close(pool);
    if (captured != NULL && fclose(captured) != 0) return 2;
    printf("summary,,,,,,,,%s\n", bad ? "FAIL" : "PASS");
    return bad;
}
