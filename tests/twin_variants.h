/* twin_variants.h - every way to run a twin that may not change a bit: scalar and AVX2, one to four threads.
 * Not a test: included by the tests of the twins.
 * Source: ours. Exercise: ctest -R unit.ops */
#ifndef FORKGATE_TWIN_VARIANTS_H
#define FORKGATE_TWIN_VARIANTS_H

#include <stdlib.h>
#include <string.h>

#include "engine/fmath.h"
#include "engine/ops/twins.h"
#include "engine/rng.h"
#include "engine/tcmodel.h"

#define VARIANTS_MAX 6

struct variants {
    int n;
    struct twin_ctx ctx[VARIANTS_MAX]; /* ctx[0]: scalar, one thread */
    par *pool[3];
    uint64_t overflow;
};

static inline void variants_open(struct variants *v, enum route route) {
    static const int threads[] = {1, 2, 4};
    memset(v, 0, sizeof *v);
    for (int i = 0; i < 3; i++)
        if (par_open(threads[i], &v->pool[i], NULL) != STATUS_OK) abort();
    for (int avx2 = 0; avx2 <= tc_have_avx2(); avx2++) {
        for (int i = 0; i < 3; i++) {
            struct twin_ctx ctx = {route,        ARCH_SM90, geometry_default(ARCH_SM90), avx2, v->pool[i],
                                   &v->overflow, NULL};
            v->ctx[v->n++] = ctx;
        }
    }
}

static inline void variants_close(struct variants *v) {
    for (int i = 0; i < 3; i++) par_close(v->pool[i]);
}

/* n floats whose bits are a NaN no op produces: an element left unwritten shows. */
static inline float *poisoned(size_t n) {
    float *p = malloc(n * sizeof *p);
    if (p == NULL) abort();
    memset(p, 0xff, n * sizeof *p);
    return p;
}

/* n near-normal values times scale. */
static inline float *random_floats(uint64_t seed, size_t n, float scale) {
    float *p = malloc(n * sizeof *p);
    if (p == NULL) abort();
    for (size_t i = 0; i < n; i++) p[i] = rng_normal(seed, i) * scale;
    return p;
}

/* Number of elements whose bits differ; *first is the index of the first one. */
static inline size_t bits_differ(const float *a, const float *b, size_t n, size_t *first) {
    size_t differ = 0;
    for (size_t i = n; i > 0; i--) {
        if (fm_f32_bits(a[i - 1]) == fm_f32_bits(b[i - 1])) continue;
        differ++;
        *first = i - 1;
    }
    return differ;
}

#endif
