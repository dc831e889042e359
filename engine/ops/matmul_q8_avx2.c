/* matmul_q8_avx2.c - the AVX2 kernel of the q8 product: eight output rows in the lanes, one or four activation rows.
 * Not a different arithmetic: integer parts are exact, the f32 chain is the scalar one lane by lane.
 * Idea: |w| as unsigned times q with w's sign is what maddubs wants. A pair sum is at most 128*127*2 = 32512, so its
 * 16-bit saturation is never reached (the contract keeps |q| <= 127).
 * Source: ours. Exercise: ctest -R unit.matmul */
#include <immintrin.h>
#include <string.h>

#include "q8_panel.h"

_Static_assert(ACT_SUM_GROUP == 16, "a min term's 32 codes are two stored sums");

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

/* Eight sub-scales, each as a pair of int16: the lanes of madd. */
AVX2 static inline __m256i load_pairs(const uint8_t *record, size_t offset) {
    return _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)(record + offset)));
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
AVX2 static inline void panel_32(const struct q8_layout *l, const uint8_t *panel, const struct q8_tile *t,
                                 int n_rows, float out[Q8_TILE][Q8_ROWS]) {
    int64_t k = t->k, n_blocks = k / QK_32, n_sums = k / ACT_SUM_GROUP;
    __m256 acc[Q8_TILE];
    for (int r = 0; r < n_rows; r++) acc[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b++) {
        const uint8_t *record = q8_record(l, panel, b);
        const int8_t *q = t->q + b * QK_32;
        __m256i total[Q8_TILE];
        if (n_rows == 1)
            total[0] = dot_1(record, q, q8_dot_length() / 4);
        else
            dot_4(record, q, k, q8_dot_length() / 4, total);
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

/* Four vectors of codes: 16 k of every row of the panel. Named fields, because an array would live in memory. */
struct group {
    __m256i w0, w1, w2, w3, m0, m1, m2, m3; /* codes and their magnitudes */
};

AVX2 static inline struct group load_group(const uint8_t *codes) {
    struct group g;
    g.w0 = load_codes(codes);
    g.w1 = load_codes(codes + 32);
    g.w2 = load_codes(codes + 64);
    g.w3 = load_codes(codes + 96);
    g.m0 = _mm256_abs_epi8(g.w0);
    g.m1 = _mm256_abs_epi8(g.w1);
    g.m2 = _mm256_abs_epi8(g.w2);
    g.m3 = _mm256_abs_epi8(g.w3);
    return g;
}

/* scale * (the group against 16 codes of one row). K codes are within +-32, so the four pair sums added in 16 bits stay
 * within 4 * 2*32*127 = 32512. */
AVX2 static inline __m256i group_dot(struct group g, const int8_t *q, __m256i scale) {
    __m256i p0 = _mm256_maddubs_epi16(g.m0, _mm256_sign_epi8(broadcast4(q), g.w0));
    __m256i p1 = _mm256_maddubs_epi16(g.m1, _mm256_sign_epi8(broadcast4(q + 4), g.w1));
    __m256i p2 = _mm256_maddubs_epi16(g.m2, _mm256_sign_epi8(broadcast4(q + 8), g.w2));
    __m256i p3 = _mm256_maddubs_epi16(g.m3, _mm256_sign_epi8(broadcast4(q + 12), g.w3));
    return _mm256_madd_epi16(_mm256_add_epi16(_mm256_add_epi16(p0, p1), _mm256_add_epi16(p2, p3)), scale);
}

/* min_j times the sum of sub-block j: two sum groups of 16 codes meet a pair of equal mins. */
AVX2 static inline __m256i min_dot(__m256i min, const int16_t *sum) {
    int32_t two;
    memcpy(&two, sum, sizeof two);
    return _mm256_madd_epi16(min, _mm256_set1_epi32(two));
}

/* K types: every group of 16 times its sub-block's integer scale, then one link of the chain per super-block.
 * n_rows and n_sub are constants at each call. */
AVX2 static inline void panel_256(const struct q8_layout *l, const uint8_t *panel, const struct q8_tile *t,
                                  int n_rows, int n_sub, float out[Q8_TILE][Q8_ROWS]) {
    int64_t k = t->k, n_blocks = k / QK_256, n_sums = k / ACT_SUM_GROUP;
    __m256 acc[Q8_TILE];
    for (int r = 0; r < n_rows; r++) acc[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n_blocks; b++) {
        const uint8_t *record = q8_record(l, panel, b);
        const int8_t *q = t->q + b * QK_256;
        __m256i total[Q8_TILE], mins[Q8_TILE];
        for (int r = 0; r < n_rows; r++) total[r] = mins[r] = _mm256_setzero_si256();
        for (int i = 0; i < QK_256 / 16; i++, q += 16) {
            struct group g = load_group(record + 128 * i);
            __m256i scale = load_pairs(record, l->scale + (size_t)(i * n_sub / 16 * 2 * Q8_ROWS));
            for (int r = 0; r < n_rows; r++)
                total[r] = _mm256_add_epi32(total[r], group_dot(g, q + r * k, scale));
        }
        __m256 d = load_plane(record, l->d);
        for (int r = 0; r < n_rows; r++) acc[r] = chain(acc[r], d, t->d[r * n_blocks + b], total[r]);
        if (!l->has_min) continue;
        for (int j = 0; j < n_sub; j++) {
            __m256i min = load_pairs(record, l->min + (size_t)(j * 2 * Q8_ROWS));
            const int16_t *sum = t->sum + b * (QK_256 / ACT_SUM_GROUP) + 2 * j;
            for (int r = 0; r < n_rows; r++)
                mins[r] = _mm256_add_epi32(mins[r], min_dot(min, sum + r * n_sums));
        }
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
        l->n_sub == 8 ? panel_256(l, panel, t, 1, 8, out) : panel_256(l, panel, t, 1, 16, out);
    else
        l->n_sub == 8 ? panel_256(l, panel, t, Q8_TILE, 8, out) : panel_256(l, panel, t, Q8_TILE, 16, out);
}
