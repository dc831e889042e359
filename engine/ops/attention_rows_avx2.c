/* attention_rows_avx2.c - the AVX2 table of attention_rows.h: eight keys or dims at a time, the same bits.
 * Not used where the machine has no AVX2+FMA+F16C. Source: ours. Exercise: ctest -R unit.attention */
#include "attention_rows.h"

#include <immintrin.h>
#include <math.h>

#include "../fmath.h"

#define TARGET __attribute__((target("avx2,fma,f16c")))

_Static_assert(F32_LANES == 16, "dot holds the lanes in two vectors");

/* fm_exp2f of eight values. */
TARGET static inline __m256 exp2_8(__m256 x) {
    __m256 magic = _mm256_set1_ps(0x1.8p23f), low = _mm256_set1_ps(-126.0f), high = _mm256_set1_ps(128.0f);
    __m256 n = _mm256_sub_ps(_mm256_add_ps(x, magic), magic), f = _mm256_sub_ps(x, n);
    __m256 q = _mm256_fmadd_ps(f, _mm256_set1_ps(FM_EXP2_C6), _mm256_set1_ps(FM_EXP2_C5));
    q = _mm256_fmadd_ps(f, q, _mm256_set1_ps(FM_EXP2_C4));
    q = _mm256_fmadd_ps(f, q, _mm256_set1_ps(FM_EXP2_C3));
    q = _mm256_fmadd_ps(f, q, _mm256_set1_ps(FM_EXP2_C2));
    q = _mm256_fmadd_ps(f, q, _mm256_set1_ps(FM_EXP2_C1));
    __m256i p = _mm256_castps_si256(_mm256_fmadd_ps(f, q, _mm256_set1_ps(1.0f)));
    p = _mm256_add_epi32(p, _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23));
    __m256 y = _mm256_andnot_ps(_mm256_cmp_ps(x, low, _CMP_LT_OQ), _mm256_castsi256_ps(p));
    y = _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, high, _CMP_GE_OQ));
    return _mm256_blendv_ps(y, _mm256_set1_ps(NAN), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

TARGET static inline float largest(__m256 x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
}

TARGET static float softmax(float *s, int visible, int width, float c, float *m, float *l, uint16_t *p) {
    for (int j = visible; j < width; j++) s[j] = -INFINITY;
    __m256 best = _mm256_set1_ps(*m), factor = _mm256_set1_ps(c);
    for (int j = 0; j < width; j += 8) {
        __m256 t = _mm256_mul_ps(_mm256_loadu_ps(s + j), factor);
        _mm256_storeu_ps(s + j, t);
        best = _mm256_max_ps(t, best); /* t > best ? t : best: a NaN never wins */
    }
    float top = largest(best);
    int live = top > -INFINITY;
    __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(live ? -1 : 0)), tops = _mm256_set1_ps(top);
    __m128 sums = _mm_setzero_ps(); /* lane q takes elements 2q and 2q+1 of every eight */
    for (int j = 0; j < width; j += 8) {
        __m256 e = _mm256_and_ps(exp2_8(_mm256_sub_ps(_mm256_loadu_ps(s + j), tops)), mask);
        __m128i h = _mm256_cvtps_ph(e, _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(p + j), h);
        __m128 front = _mm256_castps256_ps128(e), back = _mm256_extractf128_ps(e, 1);
        sums = _mm_add_ps(sums, _mm_shuffle_ps(front, back, _MM_SHUFFLE(2, 0, 2, 0)));
        sums = _mm_add_ps(sums, _mm_shuffle_ps(front, back, _MM_SHUFFLE(3, 1, 3, 1)));
    }
    if (!live) return 1.0f;
    float lane[4], alpha = fm_exp2f(*m - top);
    _mm_storeu_ps(lane, sums);
    *l = fmaf(*l, alpha, (lane[0] + lane[1]) + (lane[2] + lane[3]));
    *m = top;
    return alpha;
}

TARGET static void scale(float *o, float alpha, int n) {
    __m256 a = _mm256_set1_ps(alpha);
    for (int i = 0; i < n; i += 8) _mm256_storeu_ps(o + i, _mm256_mul_ps(_mm256_loadu_ps(o + i), a));
}

TARGET static void merge(float *acc, float a, const float *o, float b, int n) {
    __m256 va = _mm256_set1_ps(a), vb = _mm256_set1_ps(b);
    for (int i = 0; i < n; i += 8) {
        __m256 old = _mm256_mul_ps(_mm256_loadu_ps(acc + i), va);
        _mm256_storeu_ps(acc + i, _mm256_fmadd_ps(_mm256_loadu_ps(o + i), vb, old));
    }
}

TARGET static float dot(const float *x, const float *y, int n) {
    __m256 a = _mm256_setzero_ps(), b = a;
    for (int k = 0; k < n; k += F32_LANES) { /* n is a multiple of 16, as every head_dim */
        a = _mm256_fmadd_ps(_mm256_loadu_ps(x + k), _mm256_loadu_ps(y + k), a);
        b = _mm256_fmadd_ps(_mm256_loadu_ps(x + k + 8), _mm256_loadu_ps(y + k + 8), b);
    }
    a = _mm256_add_ps(a, b);
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}

const struct attention_rows attention_rows_avx2 = {softmax, scale, merge, dot};
