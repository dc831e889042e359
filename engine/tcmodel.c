/* tcmodel.c - the accumulate model in plain integers, the packing of B, and the choice between scalar and SIMD.
 * Not fast on purpose where it is the reference: tc_block is the definition, everything else must agree with it.
 * Idea (one block): a product is exact and keeps the exponent ea + eb, unnormalised, significand in [0, 4); input
 * subnormals keep the smallest exponent; zeros set no exponent. All terms and C are aligned to the largest exponent
 * (at least TC_EXP_FLOOR), cut towards zero to `bits` fractional bits, added exactly, and the sum is cut towards zero
 * to f32, subnormals produced. Zero is always +0, also where a negative sum is cut to nothing. A finite sum beyond f32
 * is Inf.
 * Source: MMA-Sim (arXiv 2511.10909), Khattak & Mikaitis (arXiv 2512.07004). Exercise: ctest -R unit.tcmodel */
#include "tcmodel_impl.h"

#include <string.h>

#include "fmath.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define TC_EXP_FLOOR (-133)
#define TC_EXP_ZERO  (-100000) /* exponent of a zero operand: no sum with it reaches the floor */
#define TC_FRAC      10        /* fractional bits of a decoded significand (bf16's 7 are widened) */
#define TC_NAN_BITS  0x7fffffffu

/* A finite operand: value = sig * 2^(exp - TC_FRAC). */
struct operands {
    int32_t sig[TC_TILE_K], exp[TC_TILE_K];
    int special; /* some operand is Inf or NaN: sig and exp mean nothing */
};
struct panel_operands {
    int32_t sig[TC_TILE_K * TC_PANEL], exp[TC_TILE_K * TC_PANEL];
    int special;
};

/* Returns 1 for Inf and NaN. */
static int decode(enum tc_type type, uint16_t h, int32_t *sig, int32_t *exp) {
    int mant_bits = type == TC_F16 ? 10 : 7, exp_all_ones = type == TC_F16 ? 31 : 255;
    int bias = type == TC_F16 ? 15 : 127;
    int mant = h & ((1 << mant_bits) - 1), field = h >> mant_bits & exp_all_ones;
    int s = field != 0 ? mant | 1 << mant_bits : mant;
    s *= 1 << (TC_FRAC - mant_bits);
    *sig = h & 0x8000 ? -s : s;
    *exp = s == 0 ? TC_EXP_ZERO : (field != 0 ? field : 1) - bias;
    return field == exp_all_ones;
}

static int top_bit(uint64_t x) {
    int n = 0;
    for (int step = 32; step > 0; step /= 2) {
        if (x >> step == 0) continue;
        x >>= step;
        n += step;
    }
    return n;
}

/* sum * 2^lsb, cut towards zero to f32; what is cut to nothing is +0 (measured on an H200). */
static float truncate_to_f32(int64_t sum, int lsb) {
    if (sum == 0) return 0.0f;
    uint32_t sign = sum < 0 ? 0x80000000u : 0u;
    uint64_t mag = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    int top = top_bit(mag), e = top + lsb;
    if (e > 127) return fm_f32_from_bits(sign | 0x7f800000u);
    int cut = e < -126 ? -149 - lsb : top - 23; /* bits below the last one kept */
    uint32_t mant = (uint32_t)(cut > 0 ? mag >> cut : mag << -cut);
    if (e < -126) return mant == 0 ? 0.0f : fm_f32_from_bits(sign | mant);
    return fm_f32_from_bits(sign | (uint32_t)(e + 127) << 23 | (mant & 0x7fffffu));
}

/* sig * 2^up / 2^down, cut towards zero. */
static int64_t align(int32_t sig, int up, int down) {
    int64_t mag = (int64_t)(sig < 0 ? -sig : sig) << up >> (down < 63 ? down : 63);
    return sig < 0 ? -mag : mag;
}

/* The definition: tc(c, a . b) for `terms` finite products; b's terms are `stride` apart; c finite. */
static float tc_block(int bits, int terms, const int32_t *sa, const int32_t *ea, const int32_t *sb,
                      const int32_t *eb, int stride, float c) {
    uint32_t u = fm_f32_bits(c);
    int field = (int)(u >> 23 & 255u), mant = (int)(u & 0x7fffffu);
    int32_t sc = field != 0 ? mant | 0x800000 : mant;
    int ec = sc == 0 ? TC_EXP_ZERO : (field != 0 ? field : 1) - 127;
    int top = ec > TC_EXP_FLOOR ? ec : TC_EXP_FLOOR;
    for (int k = 0; k < terms; k++) {
        int e = ea[k] + eb[k * stride];
        top = e > top ? e : top;
    }
    int64_t sum = align(u >> 31 ? -sc : sc, bits - 23, top - ec);
    for (int k = 0; k < terms; k++)
        sum += align(sa[k] * sb[k * stride], bits - 2 * TC_FRAC, top - (ea[k] + eb[k * stride]));
    return truncate_to_f32(sum, top - bits);
}

enum { SEEN_NAN = 1, SEEN_PLUS = 2, SEEN_MINUS = 4 };

static int classify_product(enum tc_type type, uint16_t a, uint16_t b) {
    int32_t sa, sb, unused;
    int a_special = decode(type, a, &sa, &unused), b_special = decode(type, b, &sb, &unused);
    if (!a_special && !b_special) return 0;
    int32_t inf = 1 << TC_FRAC;
    if ((a_special && sa != inf && sa != -inf) || (b_special && sb != inf && sb != -inf)) return SEEN_NAN;
    if (sa == 0 || sb == 0) return SEEN_NAN;
    return (sa < 0) != (sb < 0) ? SEEN_MINUS : SEEN_PLUS;
}

/* 1 when a term or c is Inf or NaN (Inf * 0 and Inf - Inf are NaN); *out is then the block's result. */
static int block_special(enum tc_type type, int terms, const uint16_t *a, const uint16_t *b, int stride,
                         float c, float *out) {
    int seen = 0;
    for (int k = 0; k < terms; k++) seen |= classify_product(type, a[k], b[k * stride]);
    if (fm_f32_is_nan(c))
        seen |= SEEN_NAN;
    else if (!fm_f32_is_finite(c))
        seen |= fm_f32_bits(c) >> 31 ? SEEN_MINUS : SEEN_PLUS;
    if (seen == 0) return 0;
    if (seen & SEEN_NAN || seen == (SEEN_PLUS | SEEN_MINUS))
        *out = fm_f32_from_bits(TC_NAN_BITS);
    else
        *out = fm_f32_from_bits(seen == SEEN_PLUS ? 0x7f800000u : 0xff800000u);
    return 1;
}

/* The chain of one column over k terms: raw operands are looked at only where something is not finite. */
static float chain(enum arch arch, enum tc_type type, int k, const struct operands *a, const uint16_t *raw_a,
                   const struct panel_operands *b, const uint16_t *raw_b, int col, float c) {
    int bits = tc_bits(arch), terms = tc_terms(arch), special = a->special || b->special;
    for (int i = 0; i < k; i += terms) {
        if ((special || !fm_f32_is_finite(c)) &&
            block_special(type, terms, raw_a + i, raw_b + i * TC_PANEL + col, TC_PANEL, c, &c))
            continue;
        c = tc_block(bits, terms, a->sig + i, a->exp + i, b->sig + i * TC_PANEL + col,
                     b->exp + i * TC_PANEL + col, TC_PANEL, c);
    }
    return c;
}

static void decode_row(enum tc_type type, const uint16_t *a, int k, struct operands *out) {
    out->special = 0;
    for (int i = 0; i < k; i++) out->special |= decode(type, a[i], &out->sig[i], &out->exp[i]);
}

static void decode_panel(enum tc_type type, const uint16_t *b, int k, struct panel_operands *out) {
    out->special = 0;
    for (int i = 0; i < k * TC_PANEL; i++) out->special |= decode(type, b[i], &out->sig[i], &out->exp[i]);
}

float tc_step_scalar(enum arch arch, enum tc_type type, const uint16_t a[TC_K], const uint16_t b[TC_K],
                     float c) {
    uint16_t panel[TC_K * TC_PANEL] = {0};
    for (int k = 0; k < TC_K; k++) panel[k * TC_PANEL] = b[k];
    tc_chain_scalar(arch, type, a, panel, TC_K, 1, &c);
    return c;
}

void tc_chain_scalar(enum arch arch, enum tc_type type, const uint16_t *a, const uint16_t *panel, int k,
                     int n_cols, float *c) {
    struct operands da;
    struct panel_operands db;
    decode_row(type, a, k, &da);
    decode_panel(type, panel, k, &db);
    for (int j = 0; j < n_cols; j++) c[j] = chain(arch, type, k, &da, a, &db, panel, j, c[j]);
}

static int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

size_t tc_packed_elements(int64_t n, int64_t k) {
    return (size_t)round_up(n, TC_PANEL) * (size_t)round_up(k, TC_K);
}

/* One panel of rows; a full panel has a loop of constant length, which is twice as fast. */
static void pack_panel_rows(const uint16_t *b, int64_t ldb, int cols, int64_t k, uint16_t *out) {
    if (cols == TC_PANEL) {
        for (int64_t i = 0; i < k; i++, out += TC_PANEL)
            for (int j = 0; j < TC_PANEL; j++) out[j] = b[j * ldb + i];
        return;
    }
    for (int j = 0; j < cols; j++)
        for (int64_t i = 0; i < k; i++) out[i * TC_PANEL + j] = b[j * ldb + i];
}

void tc_pack_rows(const uint16_t *b, int64_t ldb, int64_t n, int64_t k, uint16_t *out) {
    int64_t k_pad = round_up(k, TC_K);
    for (int64_t j = 0; j < n; j += TC_PANEL, out += k_pad * TC_PANEL) {
        int cols = (int)(n - j < TC_PANEL ? n - j : TC_PANEL);
        if (cols < TC_PANEL || k < k_pad) memset(out, 0, (size_t)(k_pad * TC_PANEL) * sizeof *out);
        pack_panel_rows(b + j * ldb, ldb, cols, k, out);
    }
}

void tc_pack_cols(const uint16_t *b, int64_t ldb, int64_t n, int64_t k, uint16_t *out) {
    int64_t k_pad = round_up(k, TC_K);
    for (int64_t j = 0; j < n; j += TC_PANEL, out += k_pad * TC_PANEL) {
        int cols = (int)(n - j < TC_PANEL ? n - j : TC_PANEL);
        if (cols < TC_PANEL || k < k_pad) memset(out, 0, (size_t)(k_pad * TC_PANEL) * sizeof *out);
        for (int64_t i = 0; i < k; i++) {
            uint16_t *to = out + i * TC_PANEL;
            if (cols == TC_PANEL)
                memcpy(to, b + i * ldb + j, TC_PANEL * sizeof *to); /* one move */
            else
                memcpy(to, b + i * ldb + j, (size_t)cols * sizeof *to);
        }
    }
}

static void gemm_scalar(enum arch arch, enum tc_type type, const uint16_t *a, int64_t lda, int64_t m,
                        const uint16_t *packed_b, int64_t k_pad, int64_t j0, int64_t j1, float *c,
                        int64_t ldc) {
    struct operands da;
    struct panel_operands db;
    for (int64_t j = j0; j < j1; j += TC_PANEL) {
        const uint16_t *panel = packed_b + j * k_pad;
        int cols = (int)(j1 - j < TC_PANEL ? j1 - j : TC_PANEL);
        for (int64_t k0 = 0; k0 < k_pad; k0 += TC_TILE_K) {
            int k = (int)(k_pad - k0 < TC_TILE_K ? k_pad - k0 : TC_TILE_K);
            const uint16_t *tile = panel + k0 * TC_PANEL;
            decode_panel(type, tile, k, &db);
            for (int64_t i = 0; i < m; i++) {
                const uint16_t *row = a + i * lda + k0;
                float *out = c + i * ldc + j;
                decode_row(type, row, k, &da);
                for (int col = 0; col < cols; col++)
                    out[col] = chain(arch, type, k, &da, row, &db, tile, col, out[col]);
            }
        }
    }
}

void tc_gemm(enum arch arch, enum tc_type type, int use_avx2, const uint16_t *a, int64_t lda, int64_t m,
             const uint16_t *packed_b, int64_t k, int64_t j0, int64_t j1, float *c, int64_t ldc,
             int accumulate) {
    int64_t k_pad = round_up(k, TC_K);
    if (!accumulate)
        for (int64_t i = 0; i < m; i++) memset(c + i * ldc + j0, 0, (size_t)(j1 - j0) * sizeof *c);
    if (use_avx2)
        tc_gemm_avx2(arch, type, a, lda, m, packed_b, k_pad, j0, j1, c, ldc);
    else
        gemm_scalar(arch, type, a, lda, m, packed_b, k_pad, j0, j1, c, ldc);
}

int tc_have_avx2(void) {
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;
    /* cpu_supports also asks whether the system saves the wide registers; F16C has a bit of its own */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
#else
    return 0;
#endif
}
