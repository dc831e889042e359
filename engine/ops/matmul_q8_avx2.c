/* matmul_q8_avx2.c - the AVX2 kernel of the q8 product: eight output rows in the lanes, one or four activation rows.
 * Not a different arithmetic: integer parts are exact, the f32 chain is the scalar one lane by lane.
 * Idea: |w| as unsigned times q with w's sign is what maddubs wants. A pair sum is at most 128*127*2 = 32512, so its
 * 16-bit saturation is never reached (the contract keeps |q| <= 127).
 * Source: ours. Exercise: ctest -R unit.matmul */
#include <immintrin.h>
#include <string.h>

#include "q8_panel.h"

#define AVX2 __attribute__((target("avx2,fma")))

/* Four consecutive activation codes in every lane. */
AVX2 static inline __m256i broadcast4(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

AVX2 static inline __m256i load_codes(const uint8_t *w) {
    return _mm256_load_si256((const __m256i *)(const void *)w);
}

AVX2 static inline __m256 load_plane(const uint8_t *record, size_t offset) {
    return _mm256_load_ps((const float *)(const void *)(record + offset));
}

/* Eight int8 sub-scales as int32 lanes. */
AVX2 static inline __m256i load_scales(const uint8_t *record, size_t offset) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(record + offset)));
}

/* sum + the four products of each lane */
AVX2 static inline __m256i dot_add(__m256i sum, __m256i magnitude, __m256i w, __m256i q) {
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* n_vec vectors of codes against one row. */
AVX2 static inline __m256i dot_1(const uint8_t *w, const int8_t *q, int n_vec) {
    __m256i even = _mm256_setzero_si256(), odd = even; /* two chains hide the latency of the adds */
    for (int v = 0; v < n_vec; v += 2) {
        __m256i w0 = load_codes(w + 32 * v), w1 = load_codes(w + 32 * v + 32);
        even = dot_add(even, _mm256_abs_epi8(w0), w0, broadcast4(q + 4 * v));
        odd = dot_add(odd, _mm256_abs_epi8(w1), w1, broadcast4(q + 4 * v + 4));
    }
    return _mm256_add_epi32(even, odd);
}

/* The same against four rows that lie k codes apart. */
AVX2 static inline void dot_4(const uint8_t *w, const int8_t *q, int64_t k, int n_vec, __m256i sum[Q8_TILE]) {
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (int v = 0; v < n_vec; v++, q += 4) {
        __m256i codes = load_codes(w + 32 * v), magnitude = _mm256_abs_epi8(codes);
        s0 = dot_add(s0, magnitude, codes, broadcast4(q));
        s1 = dot_add(s1, magnitude, codes, broadcast4(q + k));
        s2 = dot_add(s2, magnitude, codes, broadcast4(q + 2 * k));
        s3 = dot_add(s3, magnitude, codes, broadcast4(q + 3 * k));
    }
    sum[0] = s0;
    sum[1] = s1;
    sum[2] = s2;
    sum[3] = s3;
}

/* acc + (plane * da) * total, one rounding for the product of scales and one for the fma */
AVX2 static inline __m256 chain(__m256 acc, __m256 plane, float da, __m256i total) {
    return _mm256_fmadd_ps(_mm256_mul_ps(plane, _mm256_set1_ps(da)), _mm256_cvtepi32_ps(total), acc);
}

/* acc - (plane * da) * total */
AVX2 static inline __m256 chain_minus(__m256 acc, __m256 plane, float da, __m256i total) {
    return _mm256_fnmadd_ps(_mm256_mul_ps(plane, _mm256_set1_ps(da)), _mm256_cvtepi32_ps(total), acc);
}

/* Types with 32-element blocks. n_rows is a constant at each call, so the row loops unroll. */
AVX2 static inline void panel_32(const struct q8_layout *l, const uint8_t *record, const struct q8_tile *t,
                                 int n_rows, float out[Q8_TILE][Q8_ROWS]) {
    int64_t k = t->k, n_blocks = k / QK_32, n_sums = k / ACT_SUM_GROUP;
    __m256 acc[Q8_TILE];
    for (int r = 0; r < n_rows; r++) acc[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b++, record += l->record) {
        const int8_t *q = t->q + b * QK_32;
        __m256i total[Q8_TILE];
        if (n_rows == 1)
            total[0] = dot_1(record, q, QK_32 / 4);
        else
            dot_4(record, q, k, QK_32 / 4, total);
        __m256 d = load_plane(record, l->d);
        for (int r = 0; r < n_rows; r++) acc[r] = chain(acc[r], d, t->d[r * n_blocks + b], total[r]);
        if (!l->has_min) continue;
        __m256 m = load_plane(record, l->m);
        for (int r = 0; r < n_rows; r++) {
            const int16_t *sum = t->sum + r * n_sums + 2 * b;
            acc[r] = chain(acc[r], m, t->d[r * n_blocks + b], _mm256_set1_epi32(sum[0] + sum[1]));
        }
    }
    for (int r = 0; r < n_rows; r++) _mm256_storeu_ps(out[r], acc[r]);
}

/* K types: each sub-block's sum times its integer scale, then one link of the chain per super-block. */
AVX2 static inline void panel_256(const struct q8_layout *l, const uint8_t *record, const struct q8_tile *t,
                                  int n_rows, float out[Q8_TILE][Q8_ROWS]) {
    int64_t k = t->k, n_blocks = k / QK_256, n_sums = k / ACT_SUM_GROUP;
    int sub = QK_256 / l->n_sub;
    __m256 acc[Q8_TILE];
    for (int r = 0; r < n_rows; r++) acc[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b++, record += l->record) {
        __m256i total[Q8_TILE], part[Q8_TILE], mins[Q8_TILE];
        for (int r = 0; r < n_rows; r++) total[r] = mins[r] = _mm256_setzero_si256();
        for (int s = 0; s < l->n_sub; s++) {
            const uint8_t *codes = record + (size_t)(s * sub) * Q8_ROWS;
            const int8_t *q = t->q + b * QK_256 + s * sub;
            if (n_rows == 1)
                part[0] = dot_1(codes, q, sub / 4);
            else
                dot_4(codes, q, k, sub / 4, part);
            __m256i scale = load_scales(record, l->scale + (size_t)(s * Q8_ROWS));
            for (int r = 0; r < n_rows; r++)
                total[r] = _mm256_add_epi32(total[r], _mm256_mullo_epi32(part[r], scale));
            if (!l->has_min) continue;
            __m256i min = load_scales(record, l->min + (size_t)(s * Q8_ROWS));
            for (int r = 0; r < n_rows; r++) { /* a min term's sub-block is two sum groups */
                const int16_t *sum = t->sum + r * n_sums + b * (QK_256 / ACT_SUM_GROUP) + 2 * s;
                mins[r] =
                    _mm256_add_epi32(mins[r], _mm256_mullo_epi32(min, _mm256_set1_epi32(sum[0] + sum[1])));
            }
        }
        __m256 d = load_plane(record, l->d);
        for (int r = 0; r < n_rows; r++) acc[r] = chain(acc[r], d, t->d[r * n_blocks + b], total[r]);
        if (!l->has_min) continue;
        __m256 m = load_plane(record, l->m);
        for (int r = 0; r < n_rows; r++) acc[r] = chain_minus(acc[r], m, t->d[r * n_blocks + b], mins[r]);
    }
    for (int r = 0; r < n_rows; r++) _mm256_storeu_ps(out[r], acc[r]);
}

AVX2 void q8_panel_avx2(const struct q8_layout *l, const uint8_t *panel, const struct q8_tile *t,
                        float out[Q8_TILE][Q8_ROWS]) {
    if (l->block == QK_32 && t->n_rows == 1)
        panel_32(l, panel, t, 1, out);
    else if (l->block == QK_32)
        panel_32(l, panel, t, Q8_TILE, out);
    else if (t->n_rows == 1)
        panel_256(l, panel, t, 1, out);
    else
        panel_256(l, panel, t, Q8_TILE, out);
}
