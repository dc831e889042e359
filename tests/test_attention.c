/* test_attention.c - the attention twin against the contract written out, against float64, on exact answers, and
 * against itself: nothing but fa_tkv, fa_chunk and the architecture may change a bit. */
#include <criterion/criterion.h>

#include "attention_reference.h"

/* ---- against the contract ---------------------------------------------------------------------------------------- */
Test(attention, every_head_dim_and_group_follows_the_contract) {
    static const int dims[] = {16, 64, 80, 128, 256}, groups[] = {1, 2, 5, 7};
    for (int i = 0; i < 5; i++)
        for (int g = 0; g < 4; g++) {
            struct rig r = rig_open(dims[i], 1 + g % 2, groups[g], 70, 3.0f, 1.5f, NAN_F16);
            struct call c = call_default();
            if (g % 2 == 1) c.arch = ARCH_SM80;
            cr_assert_eq(rig_run(&r, &c, 0, 70), STATUS_OK);
            cr_assert_eq(c.overflow, 0);
            for (int pos = 0; pos < 70; pos += 23) expect_contract(&r, &c, pos, "prefill");
            expect_contract(&r, &c, 69, "last row");
            rig_close(&r);
        }
}

Test(attention, tiles_and_chunks_of_every_size_follow_the_contract) {
    static const int tkv[] = {16, 32, 64, 32}, chunk[] = {64, 64, 128, 256};
    struct rig r = rig_open(32, 2, 2, 330, 4.0f, 1.0f, NAN_F16);
    for (int i = 0; i < 4; i++) {
        struct call c = call_default();
        c.g.fa_tkv = tkv[i];
        c.g.fa_chunk = chunk[i];
        cr_assert_eq(rig_run(&r, &c, 0, 330), STATUS_OK);
        static const int at[] = {0, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 257, 329};
        for (size_t j = 0; j < sizeof at / sizeof at[0]; j++) expect_contract(&r, &c, at[j], "chunked");
    }
    rig_close(&r);
}

/* ---- against float64 ----------------------------------------------------------------------------------------------- */
static double worst_error(const struct rig *r, const struct call *c, int step, double *plain) {
    double want[FA_HEAD_DIM_MAX], worst = 0;
    float control[FA_HEAD_DIM_MAX];
    *plain = 0;
    for (int pos = r->n_pos - 1; pos >= 0; pos -= step)
        for (int h = 0; h < (int)rig_heads(r); h++) {
            const float *got = r->o + ((size_t)pos * rig_heads(r) + (size_t)h) * (size_t)r->hd;
            oracle_row(r, pos, h, c->route != ROUTE_F32, want);
            plain_row(r, c, pos, h, control);
            for (int d = 0; d < r->hd; d++) {
                double e = fabs((double)got[d] - want[d]), f = fabs((double)control[d] - want[d]);
                if (!(e <= worst)) worst = e; /* a NaN sticks */
                if (f > *plain) *plain = f;
            }
        }
    return worst;
}

static void expect_within_budget(float q_scale, float v_scale, const char *what) {
    struct rig r = rig_open(64, 2, 2, 400, q_scale, v_scale, NAN_F16);
    static const int tkv[] = {16, 32, 64};
    for (int i = 0; i < 3; i++) {
        struct call c = call_default();
        c.g.fa_tkv = tkv[i];
        cr_assert_eq(rig_run(&r, &c, 0, 400), STATUS_OK);
        double plain, worst = worst_error(&r, &c, 37, &plain);
        cr_log_info("%s tkv %d: error %.3g, plain %.3g, of max|v| %g", what, tkv[i], worst, plain,
                    (double)v_scale);
        cr_assert(worst <= 0x1p-12 * (double)v_scale, "%s tkv %d: %.3g", what, tkv[i], worst);
        cr_assert(worst <= 2 * plain + 0x1p-22 * (double)v_scale, "%s tkv %d: %.3g, plain %.3g", what, tkv[i],
                  worst, plain);
    }
    rig_close(&r);
}

Test(attention, ordinary_data_stays_within_the_float64_budget) {
    expect_within_budget(1.0f, 1.0f, "ordinary");
}

Test(attention, outlier_data_stays_within_the_float64_budget) {
    expect_within_budget(57.0f, 144.0f, "outlier");
}

Test(attention, route_f32_is_accurate_to_single_precision) {
    struct rig r = rig_open(80, 2, 5, 150, 2.0f, 1.0f, NAN_F16);
    struct call c = call_default();
    c.route = ROUTE_F32;
    cr_assert_eq(rig_run(&r, &c, 0, 150), STATUS_OK);
    double plain, worst = worst_error(&r, &c, 29, &plain);
    cr_assert(worst <= 2e-6, "error %.3g", worst);
    rig_close(&r);
}

/* ---- exact answers --------------------------------------------------------------------------------------------------- */
/* Key j is the unit vector j mod 16; row r asks for 16384 times unit vector r: every other weight is exactly 0. */
Test(attention, a_one_hot_match_returns_its_value_exactly) {
    struct rig r = rig_open(64, 1, 1, 16, 1.0f, 3.0f, NAN_F16);
    uint16_t *k = r.kv.k, *v = r.kv.v;
    memset(r.q, 0, rig_outputs(&r) * sizeof *r.q);
    for (int j = 0; j < 16; j++) {
        for (int d = 0; d < 64; d++) k[rig_at(&r, j, 0) + (size_t)d] = d == j ? 0x3c00 : 0;
        r.q[j * 64 + (j * 7) % (j + 1)] = 16384.0f;
    }
    for (int route = ROUTE_F16; route <= ROUTE_F32; route += ROUTE_F32) {
        struct call c = call_default();
        c.route = (enum route)route;
        cr_assert_eq(rig_run(&r, &c, 0, 16), STATUS_OK);
        for (int j = 0; j < 16; j++)
            for (int d = 0; d < 64; d++) {
                float want = fm_f16_to_f32(v[rig_at(&r, (j * 7) % (j + 1), 0) + (size_t)d]);
                cr_assert_eq(fm_f32_bits(r.o[j * 64 + d]), fm_f32_bits(want), "row %d dim %d", j, d);
            }
    }
    rig_close(&r);
}

/* q = 0: the mean of all visible values, exact where the count is a power of two and the values are small integers. */
Test(attention, uniform_scores_return_the_mean_exactly) {
    struct rig r = rig_open(16, 1, 2, 512, 0.0f, 1.0f, NAN_F16);
    uint16_t *v = r.kv.v;
    for (int j = 0; j < 512; j++)
        for (int d = 0; d < 16; d++)
            v[rig_at(&r, j, 0) + (size_t)d] = fm_f32_to_f16((float)((j * (d + 3)) % 17 - 8));
    struct call c = call_default();
    cr_assert_eq(rig_run(&r, &c, 0, 512), STATUS_OK);
    for (int n = 1; n <= 512; n *= 2)
        for (int d = 0; d < 16; d++) {
            int sum = 0;
            for (int j = 0; j < n; j++) sum += (j * (d + 3)) % 17 - 8;
            float want = (float)sum / (float)n;
            cr_assert_eq(fm_f32_bits(r.o[(n - 1) * 32 + d]), fm_f32_bits(want), "%d keys, dim %d: %a", n, d,
                         (double)r.o[(n - 1) * 32 + d]);
        }
    rig_close(&r);
}

/* ---- what must not change a bit ---------------------------------------------------------------------------------------- */
Test(attention, tq_splits_simd_and_threads_never_carry_bits) {
    struct rig r = rig_open(32, 2, 3, 290, 3.0f, 1.0f, NAN_F16);
    struct call c = call_default();
    cr_assert_eq(rig_run(&r, &c, 0, 290), STATUS_OK);
    float *want = copy_outputs(&r);
    struct err err;
    for (int i = 0; i < 6; i++) {
        struct call d = call_default();
        d.g.fa_tq = i & 1 ? 128 : 64;
        d.g.fa_splits = i & 2 ? 1 : FA_SPLITS_MAX;
        d.avx2 = i == 4 ? 0 : d.avx2;
        if (i == 3 || i == 5) cr_assert_eq(par_open(i, &d.pool, &err), STATUS_OK);
        cr_assert_eq(rig_run(&r, &d, 0, 290), STATUS_OK);
        par_close(d.pool);
        expect_equal(r.o, want, rig_outputs(&r), "variant");
    }
    free(want);
    rig_close(&r);
}

Test(attention, chunked_prefill_and_decode_equal_one_prefill) {
    struct rig r = rig_open(48, 1, 4, 300, 3.0f, 1.0f, NAN_F16);
    struct call c = call_default();
    cr_assert_eq(rig_run(&r, &c, 0, 300), STATUS_OK);
    float *want = copy_outputs(&r);
    static const int chunks[] = {1, 7, 64, 256};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        for (int first = 0; first < 300; first += chunks[i]) {
            int n = 300 - first < chunks[i] ? 300 - first : chunks[i];
            cr_assert_eq(rig_run(&r, &c, first, n), STATUS_OK);
        }
        expect_equal(r.o, want, rig_outputs(&r), "chunked");
    }
    struct err err;
    for (int splits = 1; splits <= 8; splits += 7) {
        c.g.fa_splits = splits;
        c.g.fa_chunk = 64; /* five chunks at the end */
        c.pool = NULL;
        cr_assert_eq(rig_run(&r, &c, 0, 300), STATUS_OK);
        float *whole = copy_outputs(&r);
        cr_assert_eq(par_open(splits == 1 ? 1 : 3, &c.pool, &err), STATUS_OK);
        for (int pos = 0; pos < 300; pos += 13) cr_assert_eq(rig_run(&r, &c, pos, 1), STATUS_OK);
        par_close(c.pool);
        expect_equal(r.o, whole, rig_outputs(&r), "decode");
        free(whole);
    }
    free(want);
    rig_close(&r);
}

/* Eight sequences of different lengths, each with its own cache, in one step and in rotated order. */
Test(attention, a_batch_gives_each_sequence_what_it_gets_alone) {
    struct rig rigs[BATCH_MAX];
    const struct kv_cache *kv[BATCH_MAX];
    int32_t pos[BATCH_MAX];
    float q[BATCH_MAX * 256], o[BATCH_MAX * 256];
    for (int i = 0; i < BATCH_MAX; i++) {
        rigs[i] = rig_open(64, 2, 2, 1 + 71 * i, 3.0f, 1.0f, NAN_F16);
        struct call c = call_default();
        cr_assert_eq(rig_run(&rigs[i], &c, rigs[i].n_pos - 1, 1), STATUS_OK);
    }
    struct err err;
    for (int rotate = 0; rotate < BATCH_MAX; rotate += 3) {
        struct call c = call_default();
        cr_assert_eq(par_open(1 + rotate, &c.pool, &err), STATUS_OK);
        for (int i = 0; i < BATCH_MAX; i++) {
            const struct rig *r = &rigs[(i + rotate) % BATCH_MAX];
            kv[i] = &r->kv;
            pos[i] = r->n_pos - 1;
            memcpy(q + (size_t)i * 256, r->q + (size_t)pos[i] * 256, 256 * sizeof *q);
        }
        struct step s = {BATCH_MAX, BATCH_MAX, NULL, pos, kv};
        struct twin_ctx t = {c.route, c.arch, c.g, c.avx2, c.pool, &c.overflow, NULL};
        memset(o, 0xff, sizeof o);
        cr_assert_eq(attention_twin(&t, &s, 1, 4, q, o, &err), STATUS_OK);
        par_close(c.pool);
        for (int i = 0; i < BATCH_MAX; i++) {
            const struct rig *r = &rigs[(i + rotate) % BATCH_MAX];
            expect_equal(o + (size_t)i * 256, r->o + (size_t)pos[i] * 256, 256, "batch slot");
        }
    }
    for (int i = 0; i < BATCH_MAX; i++) rig_close(&rigs[i]);
}

/* ---- what must, and by how little ---------------------------------------------------------------------------------------- */
Test(attention, tile_chunk_and_architecture_move_bits_but_only_a_little) {
    struct rig r = rig_open(64, 1, 2, 300, 2.0f, 1.0f, NAN_F16);
    struct call c = call_default();
    cr_assert_eq(rig_run(&r, &c, 0, 300), STATUS_OK);
    float *want = copy_outputs(&r);
    for (int i = 0; i < 4; i++) {
        struct call d = call_default();
        if (i == 0) d.g.fa_tkv = 16;
        if (i == 1) d.g.fa_tkv = 64;
        if (i == 2) d.g.fa_chunk = 128;
        if (i == 3) d.arch = ARCH_SM80;
        cr_assert_eq(rig_run(&r, &d, 0, 300), STATUS_OK);
        double worst = 0;
        for (size_t j = 0; j < rig_outputs(&r); j++)
            worst = fmax(worst, fabs((double)r.o[j] - (double)want[j]));
        cr_assert(worst > 0, "variant %d changed nothing", i);
        cr_assert(worst <= 0x1p-12, "variant %d moved an output by %.3g", i, worst);
    }
    free(want);
    rig_close(&r);
}
