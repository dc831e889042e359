/* logsumexp.c - logsumexp of a row of logits, once per token of every recorded stream.
 * Not a softmax. Idea: exp dominates, so the AVX2 path evaluates fmath.h's fm_expf eight terms at a time with the same
 * operations in the same order; a row costs about a microsecond per thousand logits.
 * Source: ours. Exercise: ctest -R unit.sampler */
#include <immintrin.h>

#include "fmath.h"
#include "sampler.h"
#include "tcmodel.h"

static void sum_scalar(const float *logits, int from, int n_vocab, float max, double lane[LOGSUMEXP_LANES]) {
    for (int i = from; i < n_vocab; i++) lane[i % LOGSUMEXP_LANES] += (double)fm_expf(logits[i] - max);
}

/* fm_expf for x <= 0: the overflow branch cannot be taken, the underflow branch is a mask. */
__attribute__((target("avx2,fma"))) static __m256 exp_nonpositive(__m256 x) {
    __m256 tiny = _mm256_cmp_ps(x, _mm256_set1_ps(-104.0f), _CMP_LT_OQ);
    x = _mm256_blendv_ps(x, _mm256_setzero_ps(), tiny); /* keeps n in range; masked away below */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e430p-1f), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(0x1.05c610p-29f), r);
    __m256 q = _mm256_fmadd_ps(r, _mm256_set1_ps(0x1.685168p-10f), _mm256_set1_ps(0x1.123bdap-7f));
    q = _mm256_fmadd_ps(r, q, _mm256_set1_ps(0x1.555b98p-5f));
    q = _mm256_fmadd_ps(r, q, _mm256_set1_ps(0x1.55548ep-3f));
    q = _mm256_fmadd_ps(r, q, _mm256_set1_ps(0x1.fffff8p-2f));
    __m256 p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r), _mm256_set1_ps(1.0f));
    __m256i k = _mm256_cvtps_epi32(n);
    /* k / 2 rounds towards zero: add the sign bit before the arithmetic shift */
    __m256i half = _mm256_srai_epi32(_mm256_add_epi32(k, _mm256_srli_epi32(k, 31)), 1);
    __m256i rest = _mm256_sub_epi32(k, half), bias = _mm256_set1_epi32(127);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)));
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
    return _mm256_andnot_ps(tiny, p);
}

__attribute__((target("avx2,fma"))) static int sum_avx2(const float *logits, int n_vocab, float max,
                                                        double lane[LOGSUMEXP_LANES]) {
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    int i = 0;
    for (; i + LOGSUMEXP_LANES <= n_vocab; i += LOGSUMEXP_LANES) {
        __m256 e = exp_nonpositive(_mm256_sub_ps(_mm256_loadu_ps(logits + i), _mm256_set1_ps(max)));
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(e)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(e, 1)));
    }
    _mm256_storeu_pd(lane, low);
    _mm256_storeu_pd(lane + 4, high);
    return i;
}

double sampler_logsumexp_with(const float *logits, int n_vocab, float max, int use_avx2) {
    double lane[LOGSUMEXP_LANES] = {0.0};
    int done = use_avx2 ? sum_avx2(logits, n_vocab, max, lane) : 0;
    sum_scalar(logits, done, n_vocab, max, lane);
    for (int s = LOGSUMEXP_LANES / 2; s > 0; s /= 2)
        for (int i = 0; i < s; i++) lane[i] += lane[i + s];
    return (double)max + fm_log(lane[0]);
}

double sampler_logsumexp(const float *logits, int n_vocab, float max) {
    return sampler_logsumexp_with(logits, n_vocab, max, tc_have_avx2());
}
