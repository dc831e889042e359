/* test_act.c - values narrowed on their way: act_prepare and kv_append, their codes, sums, edges and counters. */
#include <criterion/criterion.h>

#include <float.h>
#include <math.h>

#include "engine/backend.h"
#include "twin_variants.h"

/* An act for rows x k with every byte poisoned; free(*memory). */
static struct act poisoned_act(enum act_kind kind, int64_t rows, int64_t k, void **memory) {
    struct act a;
    size_t bytes = act_carve(kind, rows, k, NULL, NULL);
    *memory = aligned_alloc(256, bytes);
    memset(*memory, 0xff, bytes);
    act_carve(kind, rows, k, *memory, &a);
    return a;
}

static const enum act_kind q8_kinds[] = {ACT_Q8_32, ACT_Q8_256};

static void check_q8_block(const float *x, int block, const int8_t *q, float d, const int16_t *sum) {
    float amax = 0.0f;
    for (int i = 0; i < block; i++) amax = fmaxf(amax, fabsf(x[i]));
    cr_assert_eq(fm_f32_bits(d), fm_f32_bits(amax / 127.0f), "scale %a of amax %a", (double)d, (double)amax);
    for (int i = 0; i < block; i++) {
        cr_assert(q[i] >= -127 && q[i] <= 127, "code %d", q[i]);
        double error = fabs((double)x[i] - (double)q[i] * (double)d);
        cr_assert(error <= 0.50001 * (double)d, "x %a code %d scale %a", (double)x[i], q[i], (double)d);
    }
    for (int g = 0; g < block / ACT_SUM_GROUP; g++) {
        int total = 0;
        for (int i = 0; i < ACT_SUM_GROUP; i++) total += q[g * ACT_SUM_GROUP + i];
        cr_assert_eq(sum[g], total, "sum of group %d", g);
    }
}

Test(act, q8_blocks_hold_the_nearest_codes_and_their_exact_sums) {
    struct variants v;
    variants_open(&v, ROUTE_Q8);
    int64_t rows = 19, k = 1024;
    float *x = random_floats(5, (size_t)(rows * k), 1.0f);
    for (int64_t r = 0; r < rows; r++) /* every row at a magnitude of its own, from 1e-27 to 1e27 */
        for (int64_t i = 0; i < k; i++) x[r * k + i] *= powf(1000.0f, (float)(r - 9));
    for (size_t t = 0; t < 2; t++) {
        int block = act_block(q8_kinds[t]);
        for (int variant = 0; variant < v.n; variant++) {
            void *memory;
            struct act a = poisoned_act(q8_kinds[t], rows, k, &memory);
            act_prepare_twin(&v.ctx[variant], q8_kinds[t], x, rows, k, &a);
            cr_assert(a.kind == q8_kinds[t] && a.k == k);
            for (int64_t b = 0; b < rows * k / block; b++)
                check_q8_block(x + b * block, block, a.q + b * block, a.d[b],
                               a.sum + b * block / ACT_SUM_GROUP);
            free(memory);
        }
    }
    cr_assert_eq(v.overflow, 0);
    free(x);
    variants_close(&v);
}

Test(act, exact_halves_round_to_even) {
    static const float x[16] = {127,    0.5f,   1.5f,        2.5f,    -0.5f, -1.5f, -2.5f,
                                126.5f, 125.5f, 0.49999997f, -126.5f, 3,     -0.0f};
    static const int want[16] = {127, 0, 2, 2, 0, -2, -2, 126, 126, 0, -126, 3, 0};
    struct variants v;
    variants_open(&v, ROUTE_Q8);
    for (size_t t = 0; t < 2; t++) {
        float row[256] = {0};
        void *memory;
        memcpy(row, x, sizeof x);
        struct act a = poisoned_act(q8_kinds[t], 1, 256, &memory);
        act_prepare_twin(&v.ctx[0], q8_kinds[t], row, 1, 256, &a);
        for (int i = 0; i < 256; i++) cr_assert_eq(a.q[i], i < 16 ? want[i] : 0, "element %d: %d", i, a.q[i]);
        free(memory);
    }
    variants_close(&v);
}

struct edge_case {
    const char *what;
    float x; /* one element of an otherwise small block */
    float d; /* NaN: any NaN */
    int code;
    int overflow;
};

static const struct edge_case edges[] = {
    {"zero", 0.0f, 0.0f, 0, 0},
    {"smallest subnormal", 0x1p-149f, 0.0f, 0, 0},
    {"just below 2^-100", 0x1.fffffep-101f, 0.0f, 0, 0},
    {"2^-100", 0x1p-100f, 0x1p-100f / 127.0f, 127, 0},
    {"minus 2^-100", -0x1p-100f, 0x1p-100f / 127.0f, -127, 0},
    {"largest f32", FLT_MAX, FLT_MAX / 127.0f, 127, 0},
    {"most negative f32", -FLT_MAX, FLT_MAX / 127.0f, -127, 0},
    {"Inf", INFINITY, NAN, 0, 1},
    {"minus Inf", -INFINITY, NAN, 0, 1},
    {"NaN", NAN, NAN, 0, 1},
    {"minus NaN", -NAN, NAN, 0, 1},
};

Test(act, block_edges_tiny_huge_and_not_finite) {
    struct variants v;
    variants_open(&v, ROUTE_Q8);
    for (size_t e = 0; e < sizeof edges / sizeof edges[0]; e++) {
        for (size_t t = 0; t < 2; t++) {
            int block = act_block(q8_kinds[t]), at = block - 1;
            float x[768] = {0};
            void *memory;
            x[block + at] = edges[e].x; /* the middle one of three blocks */
            struct act a = poisoned_act(q8_kinds[t], 1, 3 * block, &memory);
            v.overflow = 0;
            act_prepare_twin(&v.ctx[0], q8_kinds[t], x, 1, 3 * block, &a);
            cr_assert_eq(v.overflow, (uint64_t)edges[e].overflow, "%s: counted %d", edges[e].what,
                         (int)v.overflow);
            cr_assert_eq(fm_f32_bits(a.d[0]) | fm_f32_bits(a.d[2]), 0, "%s: a neighbour's scale",
                         edges[e].what);
            cr_assert(isnan(edges[e].d) ? isnan(a.d[1]) : fm_f32_bits(a.d[1]) == fm_f32_bits(edges[e].d),
                      "%s: scale %a", edges[e].what, (double)a.d[1]);
            for (int i = 0; i < 3 * block; i++)
                cr_assert_eq(a.q[i], i == block + at ? edges[e].code : 0, "%s: code %d", edges[e].what, i);
            for (int g = 0; g < 3 * block / ACT_SUM_GROUP; g++)
                cr_assert_eq(a.sum[g], g == 2 * block / ACT_SUM_GROUP - 1 ? edges[e].code : 0, "%s: sum %d",
                             edges[e].what, g);
            free(memory);
        }
    }
    variants_close(&v);
}

Test(act, f16_rows_are_padded_with_zeros_and_overflow_is_counted) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    static const int64_t ks[] = {1, 15, 16, 33, 256};
    for (size_t i = 0; i < 5; i++) {
        int64_t k = ks[i], k_pad = (k + TC_K - 1) / TC_K * TC_K, rows = 17;
        float *x = random_floats(i, (size_t)(rows * k), 100.0f);
        x[0] = 65519.996f; /* the largest f32 that still rounds to 65504 */
        x[rows * k - 1] = -65520.0f;
        x[3 * k] = NAN;
        for (int variant = 0; variant < v.n; variant++) {
            void *memory;
            struct act a = poisoned_act(ACT_F16, rows, k, &memory);
            v.overflow = 0;
            act_prepare_twin(&v.ctx[variant], ACT_F16, x, rows, k, &a);
            cr_assert_eq(v.overflow, 2, "k %d variant %d: counted %d", (int)k, variant, (int)v.overflow);
            cr_assert(a.f16[0] == 0x7bff && a.f16[(rows - 1) * k_pad + k - 1] == 0xfc00);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < k_pad; c++)
                    cr_assert_eq(a.f16[r * k_pad + c], c < k ? fm_f32_to_f16(x[r * k + c]) : 0,
                                 "row %d column %d", (int)r, (int)c);
            free(memory);
        }
        free(x);
    }
    variants_close(&v);
}

Test(act, f32_aliases_its_input) {
    struct variants v;
    variants_open(&v, ROUTE_F32);
    float x[3] = {1, 2, 3};
    struct act a;
    cr_assert_eq(act_carve(ACT_F32, 1, 3, NULL, &a), 0);
    act_prepare_twin(&v.ctx[0], ACT_F32, x, 1, 3, &a);
    cr_assert(a.f32 == x && a.kind == ACT_F32 && a.k == 3);
    variants_close(&v);
}

/* ---- kv_append ---- */
#define KV_LAYERS 2
#define KV_CTX    9
#define KV_HEADS  3
#define KV_DIM    32
#define KV_ROW    (KV_HEADS * KV_DIM)

static size_t kv_row_bytes(enum kv_dtype dtype) {
    return dtype == KV_F16   ? KV_ROW * 2
           : dtype == KV_F32 ? KV_ROW * 4
                             : KV_ROW / 32 * sizeof(struct block_q8_0);
}

static struct kv_cache kv_make(enum kv_dtype dtype) {
    size_t bytes = kv_row_bytes(dtype) * KV_LAYERS * KV_CTX;
    struct kv_cache c = {dtype, KV_LAYERS, KV_CTX, KV_HEADS, KV_DIM, malloc(bytes), malloc(bytes)};
    memset(c.k, 0xa5, bytes);
    memset(c.v, 0xa5, bytes);
    return c;
}

/* One stored row against x. */
static void check_kv_row(enum kv_dtype dtype, const void *row, const float *x) {
    for (int i = 0; i < KV_ROW; i++) {
        if (dtype == KV_F32) {
            cr_assert_eq(fm_f32_bits(((const float *)row)[i]), fm_f32_bits(x[i]));
        } else if (dtype == KV_F16) {
            cr_assert_eq(((const uint16_t *)row)[i], fm_f32_to_f16(x[i]));
        } else {
            const struct block_q8_0 *b = (const struct block_q8_0 *)row + i / 32;
            double d = (double)fm_f16_to_f32(b->d), error = fabs((double)b->qs[i % 32] * d - (double)x[i]);
            cr_assert(error <= d * (0.5 + 127 * 0x1p-11), "element %d: %a as %d times %a", i, (double)x[i],
                      b->qs[i % 32], d);
        }
    }
}

static int all_a5(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)p)[i] != 0xa5) return 0;
    return 1;
}

Test(act, kv_append_writes_its_rows_and_nothing_else) {
    struct variants v;
    variants_open(&v, ROUTE_F32);
    float *k = random_floats(11, 3 * KV_ROW, 2.0f), *val = random_floats(12, 3 * KV_ROW, 5.0f);
    for (int dtype = KV_F16; dtype <= KV_F32; dtype++) {
        for (int n_seq = 1; n_seq <= 3; n_seq += 2) {
            static const int32_t prompt_pos[] = {4, 5, 6}, batch_pos[] = {8, 0, 3};
            struct kv_cache cache[3];
            const struct kv_cache *kv[3];
            for (int i = 0; i < 3; i++) cache[i] = kv_make((enum kv_dtype)dtype), kv[i] = &cache[i];
            struct step s = {
                .n_rows = 3, .n_seq = n_seq, .pos = n_seq == 1 ? prompt_pos : batch_pos, .kv = kv};
            kv_append_twin(&v.ctx[0], &s, 1, k, val);
            size_t bytes = kv_row_bytes((enum kv_dtype)dtype);
            for (int c = 0; c < 3; c++) {
                for (int at = 0; at < KV_LAYERS * KV_CTX; at++) {
                    const uint8_t *k_row = (const uint8_t *)cache[c].k + bytes * (size_t)at;
                    const uint8_t *v_row = (const uint8_t *)cache[c].v + bytes * (size_t)at;
                    int row = -1; /* which input row belongs here */
                    for (int r = 0; r < 3; r++)
                        if ((n_seq == 1 ? 0 : r) == c && at == KV_CTX + s.pos[r]) row = r;
                    if (row < 0) {
                        cr_assert(all_a5(k_row, bytes) && all_a5(v_row, bytes), "cache %d row %d", c, at);
                    } else {
                        check_kv_row((enum kv_dtype)dtype, k_row, k + row * KV_ROW);
                        check_kv_row((enum kv_dtype)dtype, v_row, val + row * KV_ROW);
                    }
                }
                free(cache[c].k);
                free(cache[c].v);
            }
        }
    }
    cr_assert_eq(v.overflow, 0);
    free(k);
    free(val);
    variants_close(&v);
}

/* d is an f16: from 65520 * 127 on it would be infinite, and every element of the block with it. */
Test(act, kv_append_counts_a_finite_block_whose_scale_has_no_f16) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    struct kv_cache cache = kv_make(KV_Q8_0);
    const struct kv_cache *kv[1] = {&cache};
    static const int32_t pos[] = {0};
    struct step s = {.n_rows = 1, .n_seq = 1, .pos = pos, .kv = kv};
    float k[KV_ROW] = {0}, val[KV_ROW] = {0};
    k[0] = -8321040.0f, k[32] = 8321039.0f, k[33] = 1.0f, k[64] = FLT_MAX;
    kv_append_twin(&v.ctx[0], &s, 0, k, val);
    const struct block_q8_0 *b = cache.k;
    cr_assert_eq(v.overflow, 2, "%d counted", (int)v.overflow);
    cr_assert(b[0].d == 0x7e00 && b[0].qs[0] == 0, "65520 * 127 has no scale");
    cr_assert(b[1].d == 0x7bff && b[1].qs[0] == 127 && b[1].qs[1] == 0, "one step below has the largest");
    cr_assert(b[2].d == 0x7e00 && b[2].qs[0] == 0, "nor has the largest f32");
    free(cache.k);
    free(cache.v);
    variants_close(&v);
}

Test(act, kv_append_counts_what_its_type_cannot_hold) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    float k[KV_ROW] = {0}, val[KV_ROW] = {0};
    k[0] = 70000.0f, k[1] = NAN, k[40] = -INFINITY, val[95] = INFINITY; /* q8_0: two blocks of k, one of v */
    k[64] = 127.0f, k[65] = 2.5f, val[0] = 0x1.fffffep-15f, val[32] = 0x1p-14f;
    static const uint64_t want[] = {4, 3, 0};
    for (int dtype = KV_F16; dtype <= KV_F32; dtype++) {
        struct kv_cache cache = kv_make((enum kv_dtype)dtype);
        const struct kv_cache *kv[1] = {&cache};
        static const int32_t pos[] = {0};
        struct step s = {.n_rows = 1, .n_seq = 1, .pos = pos, .kv = kv};
        v.overflow = 0;
        kv_append_twin(&v.ctx[0], &s, 0, k, val);
        cr_assert_eq(v.overflow, want[dtype], "%s: %d", kv_dtype_name((enum kv_dtype)dtype), (int)v.overflow);
        if (dtype == KV_Q8_0) {
            const struct block_q8_0 *kb = cache.k, *vb = cache.v;
            cr_assert(kb[0].d == 0x7e00 && kb[0].qs[0] == 0 && kb[1].d == 0x7e00);
            cr_assert(kb[2].d == 0x3c00 && kb[2].qs[0] == 127 && kb[2].qs[1] == 2, "scale 1, half to even");
            cr_assert(vb[0].d == 0 && vb[0].qs[0] == 0, "amax below 2^-14 is zero");
            cr_assert(vb[1].d == fm_f32_to_f16(0x1p-14f / 127.0f) && vb[1].qs[0] == 127, "2^-14 is not");
        }
        free(cache.k);
        free(cache.v);
    }
    variants_close(&v);
}
