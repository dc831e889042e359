/* test_attention_memory.c - the attention twin and its memory: poisoned tails, non-finite values, overflow counts, and the
 * same answers from every cache type. */
#include <criterion/criterion.h>

#include "attention_reference.h"

/* ---- hostile memory and values ---------------------------------------------------------------------------------------------- */
Test(attention_memory, a10_nothing_behind_the_visible_range_is_used) {
    static const uint16_t poisons[] = {0x0000, NAN_F16, 0x7c00, 0xfc00, 0x7bff};
    float *want = NULL;
    for (size_t i = 0; i < sizeof poisons / sizeof poisons[0]; i++) {
        rig_state = 99;
        struct rig r = rig_open(80, 2, 2, 75, 3.0f, 1.0f, poisons[i]);
        struct call c = call_default();
        cr_assert_eq(rig_run(&r, &c, 0, 74), STATUS_OK);
        cr_assert_eq(rig_run(&r, &c, 74, 1), STATUS_OK);
        if (want == NULL) want = copy_outputs(&r);
        expect_equal(r.o, want, rig_outputs(&r), "poisoned tail");
        c.route = ROUTE_F32;
        cr_assert_eq(rig_run(&r, &c, 0, 75), STATUS_OK);
        for (size_t j = 0; j < rig_outputs(&r); j++)
            cr_assert(fm_f32_is_finite(r.o[j]), "f32 route read the tail");
        rig_close(&r);
    }
    free(want);
}

/* Keys 0 .. 63 score -Inf: wholly masked tiles and a wholly masked chunk must not give exp(-Inf - -Inf). */
Test(attention_memory, tiles_and_chunks_without_a_finite_score_are_the_identity) {
    struct rig r = rig_open(32, 1, 2, 150, 3.0f, 1.0f, NAN_F16);
    for (int j = 0; j < 64; j++) ((uint16_t *)r.kv.k)[rig_at(&r, j, 0)] = 0x7c00;
    for (int i = 0; i < 150 * 2; i++) r.q[i * 32] = -1.0f;
    for (int i = 0; i < 4; i++) {
        struct call c = call_default();
        c.avx2 = i & 1 ? 0 : c.avx2;
        c.g.fa_chunk = i & 2 ? 64 : 256;
        cr_assert_eq(rig_run(&r, &c, 0, 150), STATUS_OK);
        for (int pos = 64; pos < 150; pos += 17) {
            expect_contract(&r, &c, pos, "masked start");
            cr_assert(fm_f32_is_finite(r.o[pos * 64]), "row %d is not finite", pos);
        }
        cr_assert_eq(rig_run(&r, &c, 149, 1), STATUS_OK);
        expect_contract(&r, &c, 149, "masked start, decode");
    }
    rig_close(&r);
}

Test(attention_memory, a_nan_query_spoils_its_own_head_only) {
    struct rig r = rig_open(32, 1, 3, 40, 3.0f, 1.0f, NAN_F16);
    struct call c = call_default();
    cr_assert_eq(rig_run(&r, &c, 0, 40), STATUS_OK);
    float *want = copy_outputs(&r);
    r.q[(20 * 3 + 1) * 32 + 5] = NAN;
    for (c.avx2 = 0; c.avx2 <= tc_have_avx2(); c.avx2++) {
        c.overflow = 0;
        cr_assert_eq(rig_run(&r, &c, 0, 40), STATUS_OK);
        cr_assert_eq(c.overflow, 1);
        for (int i = 0; i < 40 * 3; i++)
            for (int d = 0; d < 32; d++) {
                float got = r.o[i * 32 + d];
                if (i == 61)
                    cr_assert(fm_f32_is_nan(got), "dim %d survived", d);
                else
                    cr_assert_eq(fm_f32_bits(got), fm_f32_bits(want[i * 32 + d]), "row %d changed", i);
            }
    }
    free(want);
    rig_close(&r);
}

Test(attention_memory, queries_that_overflow_f16_are_counted_once_each) {
    struct rig r = rig_open(16, 2, 2, 300, 1.0f, 1.0f, NAN_F16);
    for (int i = 0; i < 5; i++) r.q[(299 * 4 + 1) * 16 + i] = 1e6f;
    r.q[299 * 4 * 16] = 65519.0f; /* rounds to 65504 */
    struct call c = call_default();
    c.g.fa_chunk = 64;
    cr_assert_eq(rig_run(&r, &c, 0, 300), STATUS_OK);
    cr_assert_eq(c.overflow, 5);
    cr_assert_eq(rig_run(&r, &c, 299, 1), STATUS_OK);
    cr_assert_eq(c.overflow, 10);
    rig_close(&r);
}

/* ---- cache types ---------------------------------------------------------------------------------------------------------------- */
Test(attention_memory, a_q8_0_cache_is_an_f16_cache_of_its_rounded_products) {
    struct rig r = rig_open(64, 2, 2, 100, 2.0f, 1.0f, 0);
    size_t n = rig_cache_elements(&r);
    struct block_q8_0 *k8 = calloc(n / QK_32, sizeof *k8), *v8 = calloc(n / QK_32, sizeof *v8);
    uint16_t *k = r.kv.k, *v = r.kv.v;
    cr_assert(k8 != NULL && v8 != NULL);
    for (size_t b = 0; b < n / QK_32; b++) {
        k8[b].d = fm_f32_to_f16(0.01f + 0.001f * fabsf(rig_random()));
        v8[b].d = fm_f32_to_f16(0.01f + 0.001f * fabsf(rig_random()));
        for (size_t i = 0; i < QK_32; i++) {
            k8[b].qs[i] = (int8_t)(rig_random() * 127.0f);
            v8[b].qs[i] = (int8_t)(rig_random() * 127.0f);
            k[b * QK_32 + i] = fm_f32_to_f16((float)k8[b].qs[i] * fm_f16_to_f32(k8[b].d));
            v[b * QK_32 + i] = fm_f32_to_f16((float)v8[b].qs[i] * fm_f16_to_f32(v8[b].d));
        }
    }
    struct rig packed = r;
    packed.kv.dtype = KV_Q8_0;
    packed.kv.k = k8;
    packed.kv.v = v8;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route++) {
        struct call c = call_default();
        c.route = (enum route)route;
        cr_assert_eq(rig_run(&r, &c, 0, 100), STATUS_OK);
        float *want = copy_outputs(&r);
        cr_assert_eq(rig_run(&packed, &c, 0, 100), STATUS_OK);
        expect_equal(packed.o, want, rig_outputs(&r), route_name(c.route));
        free(want);
    }
    free(k8);
    free(v8);
    rig_close(&r);
}

Test(attention_memory, route_f32_gives_the_same_bits_from_an_f32_cache_any_simd_and_threads) {
    struct rig r = rig_open(48, 2, 2, 60, 2.0f, 1.0f, NAN_F16);
    size_t n = rig_cache_elements(&r);
    float *k = malloc(n * sizeof *k), *v = malloc(n * sizeof *v);
    cr_assert(k != NULL && v != NULL);
    for (size_t i = 0; i < n; i++) {
        k[i] = fm_f16_to_f32(((uint16_t *)r.kv.k)[i]);
        v[i] = fm_f16_to_f32(((uint16_t *)r.kv.v)[i]);
    }
    struct call c = call_default();
    c.route = ROUTE_F32;
    cr_assert_eq(rig_run(&r, &c, 0, 60), STATUS_OK);
    float *want = copy_outputs(&r);
    struct rig wide = r;
    wide.kv.dtype = KV_F32;
    wide.kv.k = k;
    wide.kv.v = v;
    struct err err;
    c.avx2 = 0;
    cr_assert_eq(par_open(3, &c.pool, &err), STATUS_OK);
    cr_assert_eq(rig_run(&wide, &c, 0, 60), STATUS_OK);
    par_close(c.pool);
    expect_equal(wide.o, want, rig_outputs(&r), "f32 cache");
    struct call f16 = call_default();
    cr_assert_eq(rig_run(&wide, &f16, 0, 60), STATUS_UNSUPPORTED);
    free(want);
    free(k);
    free(v);
    rig_close(&r);
}
