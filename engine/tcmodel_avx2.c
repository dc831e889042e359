/* tcmodel_avx2.c - tc_gemm for machines with AVX2, FMA and F16C: eight columns at a time, the same bits as tcmodel.c.
 * Not a second definition: wherever the fast arithmetic could leave the exact range the tile is redone in scalar code.
 * Idea: a product of two 11-bit significands is exact in f32, multiplying it by 2^(bits - emax) is exact too, and
 * CVTTPS2DQ cuts towards zero: so one pass finds the largest exponent, a second adds integers. int32 holds 16 terms
 * below 2^27; `peak` tells when the sum came near 2^31, `odd` when an exponent is outside the safe range.
 * Source: ours. Exercise: ctest -R unit.tcmodel; build/bench_tcmodel */
#include "tcmodel_impl.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET     __attribute__((target("avx2,fma,f16c")))
#define TILE_ROWS  32      /* rows of A decoded at a time */
#define EXP_DEAD   (-45)   /* f16: int8 exponent of a zero operand; its sums are at most -30, at least -90 */
#define EXP_LIVE   (-29)   /* sums of two real f16 exponents are above it: at least -28 */
#define WIDE_DEAD  (-2000) /* the same for bf16, in int32 */
#define WIDE_LIVE  (-1000) /* real sums are at least -252 */
#define EXP_SAFE   100     /* largest |exponent| of a block whose result surely is a normal f32 */
#define PEAK_LIMIT 0x7c000000 /* 2^31 - 2^26: a sum with C that wrapped is above it in magnitude */

/* Decoded operands. f16: v is the value, e8 its exponent, eight times over for A. bf16: v is the signed significand
 * in [0, 2), e its exponent. */
struct row_tile {
    float v[TC_TILE_K];
    union {
        int8_t e8[TC_TILE_K * TC_PANEL];
        int32_t e[TC_TILE_K];
    };
    int special;
};
struct panel_tile {
    float v[TC_TILE_K * TC_PANEL];
    union {
        int8_t e8[TC_TILE_K * TC_PANEL];
        int32_t e[TC_TILE_K * TC_PANEL];
    };
    int special;
};
struct watch {
    __m256i peak; /* largest |sum| of any block, unsigned */
    __m256i odd;  /* lanes whose exponent left the safe range */
};

/* ---- decoding -------------------------------------------------------------------------------------------------- */
/* Exponents of 16 f16 values, subnormals at -14, zeros EXP_DEAD; *special collects Inf and NaN. */
TARGET static inline __m128i f16_exponents(__m256i h, __m256i *special) {
    __m256i mag = _mm256_and_si256(h, _mm256_set1_epi16(0x7fff)), one = _mm256_set1_epi16(1);
    *special = _mm256_or_si256(*special, _mm256_cmpgt_epi16(mag, _mm256_set1_epi16(0x7bff)));
    __m256i e = _mm256_max_epi16(_mm256_srli_epi16(mag, 10), one);
    e = _mm256_sub_epi16(e, _mm256_set1_epi16(15));
    __m256i zero = _mm256_cmpeq_epi16(mag, _mm256_setzero_si256());
    e = _mm256_blendv_epi8(e, _mm256_set1_epi16(EXP_DEAD), zero);
    return _mm_packs_epi16(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
}

TARGET static void decode_panel_f16(const uint16_t *b, int k, struct panel_tile *t) {
    __m256i special = _mm256_setzero_si256();
    for (int i = 0; i < k * TC_PANEL; i += 16) {
        __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(b + i));
        _mm256_storeu_ps(t->v + i, _mm256_cvtph_ps(_mm256_castsi256_si128(h)));
        _mm256_storeu_ps(t->v + i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)));
        _mm_storeu_si128((__m128i *)(void *)(t->e8 + i), f16_exponents(h, &special));
    }
    t->special = !_mm256_testz_si256(special, special);
}

TARGET static void decode_row_f16(const uint16_t *a, int k, struct row_tile *t) {
    __m256i special = _mm256_setzero_si256(), four = _mm256_set1_epi8(4);
    for (int i = 0; i < k; i += 16) {
        __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(a + i));
        _mm256_storeu_ps(t->v + i, _mm256_cvtph_ps(_mm256_castsi256_si128(h)));
        _mm256_storeu_ps(t->v + i + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)));
        __m256i e = _mm256_broadcastsi128_si256(f16_exponents(h, &special));
        /* every exponent eight times over: bytes 0, 1 | 2, 3, then on by four */
        __m256i pick = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
        for (int j = 0; j < 16; j += 4) {
            __m256i spread = _mm256_shuffle_epi8(e, pick);
            _mm256_storeu_si256((__m256i *)(void *)(t->e8 + (i + j) * TC_PANEL), spread);
            pick = _mm256_add_epi8(pick, four);
        }
    }
    t->special = !_mm256_testz_si256(special, special);
}

/* Eight bf16 values as signed significands and exponents. */
TARGET static inline void bf16_split(const uint16_t *b, float *v, int32_t *e, __m256i *special) {
    __m256i u =
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)b)), 16);
    __m256i mag = _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff));
    *special = _mm256_or_si256(*special, _mm256_cmpgt_epi32(mag, _mm256_set1_epi32(0x7f7fffff)));
    __m256i field = _mm256_max_epi32(_mm256_srli_epi32(mag, 23), _mm256_set1_epi32(1));
    __m256i exp = _mm256_sub_epi32(field, _mm256_set1_epi32(127));
    __m256i zero = _mm256_cmpeq_epi32(mag, _mm256_setzero_si256());
    _mm256_storeu_si256((__m256i *)(void *)e, _mm256_blendv_epi8(exp, _mm256_set1_epi32(WIDE_DEAD), zero));
    /* x * 2^-exp in two exact steps, since 2^-exp alone need not be a normal number */
    __m256i half = _mm256_srai_epi32(exp, 1), bias = _mm256_set1_epi32(127);
    __m256i f1 = _mm256_slli_epi32(_mm256_sub_epi32(bias, half), 23);
    __m256i f2 = _mm256_slli_epi32(_mm256_sub_epi32(bias, _mm256_sub_epi32(exp, half)), 23);
    __m256 x = _mm256_mul_ps(_mm256_castsi256_ps(u), _mm256_castsi256_ps(f1));
    _mm256_storeu_ps(v, _mm256_mul_ps(x, _mm256_castsi256_ps(f2)));
}

TARGET static int decode_bf16(const uint16_t *x, int n, float *v, int32_t *e) {
    __m256i special = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 8) bf16_split(x + i, v + i, e + i, &special);
    return !_mm256_testz_si256(special, special);
}

/* ---- one accumulate block over eight columns ------------------------------------------------------------------- */
TARGET static inline __m256i exponent_of_c(__m256 c) {
    __m256i field = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(c), 23), _mm256_set1_epi32(255));
    return _mm256_sub_epi32(field, _mm256_set1_epi32(127));
}

TARGET static inline __m256 power_of_two(__m256i e) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
}

/* sum * 2^(e - bits) cut towards zero to f32; c + 0 in lanes without a product. */
TARGET static inline __m256 finish(__m256i sum, __m256i e, int bits, __m256i live, __m256 c,
                                   struct watch *w) {
    __m256i mag = _mm256_abs_epi32(sum);
    w->peak = _mm256_max_epu32(w->peak, mag);
    __m256 f = _mm256_cvtepi32_ps(mag);
    /* where the conversion rounded up, step back by one unit in the last place */
    __m256i up = _mm256_cmpgt_epi32(_mm256_cvttps_epi32(f), mag);
    f = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(f), up));
    f = _mm256_mul_ps(f, power_of_two(_mm256_sub_epi32(e, _mm256_set1_epi32(bits))));
    __m256i sign = _mm256_and_si256(sum, _mm256_set1_epi32(INT32_MIN));
    f = _mm256_or_ps(f, _mm256_castsi256_ps(sign));
    return _mm256_blendv_ps(_mm256_add_ps(c, _mm256_setzero_ps()), f, _mm256_castsi256_ps(live));
}

TARGET static inline __m256i load_e8(const int8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* a * b of eight columns, aligned and cut. */
TARGET static inline __m256i term_f16(const float *a, const float *b, __m256 scale) {
    __m256 p = _mm256_mul_ps(_mm256_broadcast_ss(a), _mm256_loadu_ps(b));
    return _mm256_cvttps_epi32(_mm256_mul_ps(p, scale));
}

TARGET static inline __m256 block_f16(const float *a, const int8_t *ea, const float *b, const int8_t *eb,
                                      int terms, int bits, __m256 c, struct watch *w) {
    /* four terms of eight columns per vector of int8 */
    __m256i m = _mm256_add_epi8(load_e8(ea), load_e8(eb));
    for (int k = 4; k < terms; k += 4)
        m = _mm256_max_epi8(m, _mm256_add_epi8(load_e8(ea + k * TC_PANEL), load_e8(eb + k * TC_PANEL)));
    __m128i m4 = _mm_max_epi8(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    m4 = _mm_max_epi8(m4, _mm_srli_si128(m4, 8));
    __m256i e = _mm256_cvtepi8_epi32(m4), live = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(EXP_LIVE));
    e = _mm256_max_epi32(e, exponent_of_c(c));
    w->odd = _mm256_or_si256(w->odd, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(EXP_SAFE)));
    __m256 scale = power_of_two(_mm256_sub_epi32(_mm256_set1_epi32(bits), e));
    __m256i sum = _mm256_cvttps_epi32(_mm256_mul_ps(c, scale));
    for (int k = 0; k < terms; k += 4) { /* unrolled by hand: 8 % */
        sum = _mm256_add_epi32(sum, term_f16(a + k, b + k * TC_PANEL, scale));
        sum = _mm256_add_epi32(sum, term_f16(a + k + 1, b + (k + 1) * TC_PANEL, scale));
        sum = _mm256_add_epi32(sum, term_f16(a + k + 2, b + (k + 2) * TC_PANEL, scale));
        sum = _mm256_add_epi32(sum, term_f16(a + k + 3, b + (k + 3) * TC_PANEL, scale));
    }
    return finish(sum, e, bits, live, c, w);
}

TARGET static inline __m256i load_e32(const int32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Products of bf16 leave the range of f32, so significands and exponents travel apart. */
TARGET static inline __m256 block_bf16(const float *a, const int32_t *ea, const float *b, const int32_t *eb,
                                       int terms, int bits, __m256 c, struct watch *w) {
    __m256i m = _mm256_set1_epi32(2 * WIDE_DEAD);
    for (int k = 0; k < terms; k++)
        m = _mm256_max_epi32(m, _mm256_add_epi32(_mm256_set1_epi32(ea[k]), load_e32(eb + k * TC_PANEL)));
    __m256i live = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(WIDE_LIVE));
    __m256i e = _mm256_max_epi32(m, exponent_of_c(c));
    __m256i low = _mm256_and_si256(live, _mm256_cmpgt_epi32(_mm256_set1_epi32(-EXP_SAFE), e));
    __m256i high = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(EXP_SAFE));
    w->odd = _mm256_or_si256(w->odd, _mm256_or_si256(low, high));
    /* keeps the scale finite in lanes that are not live */
    e = _mm256_max_epi32(e, _mm256_set1_epi32(-EXP_SAFE));
    __m256i shift = _mm256_sub_epi32(_mm256_set1_epi32(bits + 127), e);
    __m256 scale_c = _mm256_castsi256_ps(_mm256_slli_epi32(shift, 23));
    __m256i sum = _mm256_cvttps_epi32(_mm256_mul_ps(c, scale_c));
    for (int k = 0; k < terms; k++) {
        __m256 p = _mm256_mul_ps(_mm256_broadcast_ss(a + k), _mm256_loadu_ps(b + k * TC_PANEL));
        __m256i field = _mm256_add_epi32(_mm256_set1_epi32(ea[k]), load_e32(eb + k * TC_PANEL));
        /* an exponent field of 0 is the factor +0: terms that far down are cut to zero anyway */
        field = _mm256_max_epi32(_mm256_add_epi32(field, shift), _mm256_setzero_si256());
        __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(field, 23));
        sum = _mm256_add_epi32(sum, _mm256_cvttps_epi32(_mm256_mul_ps(p, scale)));
    }
    return finish(sum, e, bits, live, c, w);
}

/* ---- chains and tiles ------------------------------------------------------------------------------------------ */
TARGET static inline __m256i lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

struct row_chain {
    __m256 acc;
    struct watch watch;
};

TARGET static inline int store_chain(const struct row_chain *r, __m256i mask, float *c) {
    __m256i limit = _mm256_set1_epi32(PEAK_LIMIT);
    __m256i over = _mm256_cmpeq_epi32(_mm256_max_epu32(r->watch.peak, limit), r->watch.peak);
    __m256i bad = _mm256_or_si256(over, r->watch.odd);
    if (!_mm256_testz_si256(bad, bad)) return 0;
    _mm256_maskstore_ps(c, mask, r->acc);
    return 1;
}

/* Two rows advance together: each chain is bound by latency, two of them keep the ports busy (measured 1.2x).
 * Bit r of the result is set when row r has to be redone in scalar code; its c is left alone. `type`, `terms`, `bits`
 * and `n` are constants after inlining. */
TARGET static inline int chain_tile(enum tc_type type, int terms, int bits, int n, const struct row_tile *a,
                                    const struct panel_tile *b, int k, int cols, float *c, int64_t ldc) {
    __m256i mask = lanes_below(cols), zero = _mm256_setzero_si256();
    struct row_chain r0 = {_mm256_maskload_ps(c, mask), {zero, zero}}, r1 = r0;
    if (n == 2) r1.acc = _mm256_maskload_ps(c + ldc, mask);
    for (int i = 0; i < k; i += terms) {
        const float *bv = b->v + i * TC_PANEL;
        if (type == TC_F16) {
            const int8_t *be = b->e8 + i * TC_PANEL;
            r0.acc = block_f16(a[0].v + i, a[0].e8 + i * TC_PANEL, bv, be, terms, bits, r0.acc, &r0.watch);
            if (n == 2)
                r1.acc =
                    block_f16(a[1].v + i, a[1].e8 + i * TC_PANEL, bv, be, terms, bits, r1.acc, &r1.watch);
        } else {
            const int32_t *be = b->e + i * TC_PANEL;
            r0.acc = block_bf16(a[0].v + i, a[0].e + i, bv, be, terms, bits, r0.acc, &r0.watch);
            if (n == 2) r1.acc = block_bf16(a[1].v + i, a[1].e + i, bv, be, terms, bits, r1.acc, &r1.watch);
        }
    }
    int redo = !store_chain(&r0, mask, c);
    if (n == 2) redo |= !store_chain(&r1, mask, c + ldc) << 1;
    return redo;
}

/* The instances: a constant type, arch and row count each. */
#define CHAIN(type, terms, bits)                                                                             \
    (n == 2 ? chain_tile(type, terms, bits, 2, a, b, k, cols, c, ldc)                                        \
            : chain_tile(type, terms, bits, 1, a, b, k, cols, c, ldc))
TARGET static int chain_any(enum arch arch, enum tc_type type, int n, const struct row_tile *a,
                            const struct panel_tile *b, int k, int cols, float *c, int64_t ldc) {
    if (arch == ARCH_SM80)
        return type == TC_F16 ? CHAIN(TC_F16, TC_K / 2, TC_BITS_SM80)
                              : CHAIN(TC_BF16, TC_K / 2, TC_BITS_SM80);
    return type == TC_F16 ? CHAIN(TC_F16, TC_K, tc_bits(ARCH_SM90))
                          : CHAIN(TC_BF16, TC_K, tc_bits(ARCH_SM90));
}

static void decode_row(enum tc_type type, const uint16_t *a, int k, struct row_tile *t) {
    if (type == TC_F16)
        decode_row_f16(a, k, t);
    else
        t->special = decode_bf16(a, k, t->v, t->e);
}

static void decode_panel(enum tc_type type, const uint16_t *b, int k, struct panel_tile *t) {
    if (type == TC_F16)
        decode_panel_f16(b, k, t);
    else
        t->special = decode_bf16(b, k * TC_PANEL, t->v, t->e);
}

void tc_gemm_avx2(enum arch arch, enum tc_type type, const uint16_t *a, int64_t lda, int64_t m,
                  const uint16_t *packed_b, int64_t k_pad, int64_t j0, int64_t j1, float *c, int64_t ldc) {
    struct row_tile rows[TILE_ROWS];
    struct panel_tile panel;
    for (int64_t i0 = 0; i0 < m; i0 += TILE_ROWS) {
        int n_rows = (int)(m - i0 < TILE_ROWS ? m - i0 : TILE_ROWS);
        for (int64_t k0 = 0; k0 < k_pad; k0 += TC_TILE_K) {
            int k = (int)(k_pad - k0 < TC_TILE_K ? k_pad - k0 : TC_TILE_K);
            const uint16_t *a_tile = a + i0 * lda + k0;
            for (int r = 0; r < n_rows; r++) decode_row(type, a_tile + r * lda, k, &rows[r]);
            for (int64_t j = j0; j < j1; j += TC_PANEL) {
                const uint16_t *b_tile = packed_b + j * k_pad + k0 * TC_PANEL;
                int cols = (int)(j1 - j < TC_PANEL ? j1 - j : TC_PANEL);
                decode_panel(type, b_tile, k, &panel);
                for (int r = 0; r < n_rows; r += 2) {
                    float *out = c + (i0 + r) * ldc + j;
                    int n = r + 1 < n_rows ? 2 : 1, redo = (1 << n) - 1;
                    if (!panel.special && !rows[r].special && !(n == 2 && rows[r + 1].special))
                        redo = chain_any(arch, type, n, &rows[r], &panel, k, cols, out, ldc);
                    for (int q = 0; q < n; q++)
                        if (redo >> q & 1)
                            tc_chain_scalar(arch, type, a_tile + (r + q) * lda, b_tile, k, cols,
                                            out + q * ldc);
                }
            }
        }
    }
}
#else
void tc_gemm_avx2(enum arch arch, enum tc_type type, const uint16_t *a, int64_t lda, int64_t m,
                  const uint16_t *packed_b, int64_t k_pad, int64_t j0, int64_t j1, float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = j0; j < j1; j += TC_PANEL)
            for (int64_t k0 = 0; k0 < k_pad; k0 += TC_TILE_K)
                tc_chain_scalar(arch, type, a + i * lda + k0, packed_b + j * k_pad + k0 * TC_PANEL,
                                (int)(k_pad - k0 < TC_TILE_K ? k_pad - k0 : TC_TILE_K),
                                (int)(j1 - j < TC_PANEL ? j1 - j : TC_PANEL), c + i * ldc + j);
}
#endif
