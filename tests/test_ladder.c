/* test_ladder.c - the context ladder: rungs at every threshold, kernels of another size, rows of another token, a step too
 * many: each is red.
 * Source: ours. Exercise: ctest -R unit.ladder */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "engine/cuda/launch.h"
#include "gates/model/ladder.h"
#include "gates/model/model_gates.h"
#include "gates/ops/launch_table.h"

TestSuite(ladder, .timeout = 60);

#define ROWS_MAX 256
static struct evidence rows[ROWS_MAX];
static int n_rows;
static void keep(void *sink, const struct evidence *row) {
    (void)sink;
    if (n_rows < ROWS_MAX) rows[n_rows++] = *row;
}

static struct stream_arm arm_of(struct gate_context *c) {
    memset(c, 0, sizeof *c);
    c->source_dir = FORKGATE_SOURCE_DIR;
    c->model_path = FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf";
    c->config = engine_config_default();
    c->config.compute.n_threads = 1;
    c->emit = keep;
    n_rows = 0;
    struct stream_arm a = {c, "stream.test", ROUTE_F16, NULL, NULL};
    return a;
}

/* The table is written down a second time; a launcher whose threshold moves must take it along. */
Test(ladder, thresholds_are_those_of_the_launchers) {
    cr_assert_eq((int)DECODE_ROWS, GEMV_ROWS);
    cr_assert_eq((int)SMALL_TILE_ROWS, GEMM_BM_MIN);
    cr_assert_eq((int)WGMMA_HEAD_DIM, FA_HOPPER_HD_MAX);
}

static int has_rung(const struct rung *r, int n, int at_rows, int keys) {
    for (int i = 0; i < n; i++)
        if ((at_rows == 0 || r[i].rows == at_rows) && r[i].keys == keys) return 1;
    return 0;
}

static void check_rungs(const struct geometry *g, int whole) {
    struct rung r[LADDER_RUNGS];
    int n = ladder_rungs(g, whole, r);
    const int by_rows[] = {GEMV_ROWS, GEMM_BM_MIN, g->fa_tq};
    const int by_keys[] = {g->fa_tkv, g->fa_chunk, 2 * g->fa_chunk};
    cr_assert(has_rung(r, n, 1, 1) && has_rung(r, n, 2, 2), "one row is decode, two are not");
    for (int i = 0; i < 3; i++)
        for (int d = -1; d <= 1; d++) {
            cr_assert(has_rung(r, n, by_rows[i] + d, by_rows[i] + d), "%d rows", by_rows[i] + d);
            cr_assert(has_rung(r, n, 0, by_keys[i] + d), "%d keys", by_keys[i] + d);
        }
    for (int i = 0; i < n; i++) {
        cr_assert(r[i].rows >= 1 && r[i].rows <= r[i].keys, "rung %d", i);
        cr_assert(i == 0 || r[i].keys - r[i].rows >= r[i - 1].keys - r[i - 1].rows, "rung %d", i);
        for (int k = 0; k < i; k++)
            cr_assert(r[k].rows != r[i].rows || r[k].keys != r[i].keys, "rungs %d and %d", k, i);
    }
}

Test(ladder, rungs_follow_the_geometry) {
    static const struct geometry some[] = {{FA_TQ_DEFAULT, FA_TKV_DEFAULT, FA_CHUNK_DEFAULT, 8},
                                           {FA_TQ_MAX, 16, 64, 1},
                                           {64, FA_TKV_MAX, 64, 8},
                                           {64, 32, FA_CHUNK_MAX, FA_SPLITS_MAX}};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        for (int whole = 0; whole < 2; whole++) check_rungs(&some[i], whole);
}

/* ---- kernels --------------------------------------------------------------------------------------------------- */
#define LAYERS 8
static const struct ladder_shape hopper = {BACKEND_CUDA, ROUTE_F16, KV_F16, LAYERS, 128, 1},
                                 older = {BACKEND_CUDA, ROUTE_F16, KV_F16, LAYERS, 128, 0},
                                 int8 = {BACKEND_CUDA, ROUTE_Q8, KV_Q8_0, LAYERS, 128, 1},
                                 wide = {BACKEND_CUDA, ROUTE_F16, KV_F16, LAYERS, 256, 1},
                                 host = {BACKEND_CPU, ROUTE_Q8, KV_F16, LAYERS, 128, 0};

/* How many launches are wrong of product, head and attention with these counts, of a step of at_rows rows. */
static uint64_t wrong(const struct ladder_shape *s, int at_rows, const char *product, uint64_t products,
                      const char *head, uint64_t heads, const char *attention, uint64_t attentions) {
    struct launches l = {4,
                         {{"rmsnorm_act", 16}, {product, products}, {head, heads}, {attention, attentions}}};
    char note[160];
    return ladder_wrong(s, at_rows, &l, note, sizeof note);
}

Test(ladder, the_kernels_for_each_size) {
    cr_assert_eq(wrong(&hopper, 1, "gemv_f16", 57, "", 0, "fa_decode_f16kv", 8), 0);
    cr_assert_eq(wrong(&hopper, GEMV_ROWS, "gemv_f16", 57, "", 0, "fa_prefill_wgmma", 8), 0);
    cr_assert_eq(wrong(&hopper, GEMV_ROWS + 1, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_wgmma", 8), 0);
    cr_assert_eq(wrong(&hopper, GEMM_BM_MIN, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_wgmma", 8), 0);
    cr_assert_eq(wrong(&hopper, GEMM_BM_MIN + 1, "gemm_f16_wgmma", 56, "gemv_f16", 1, "fa_prefill_wgmma", 8),
                 0);
    cr_assert_eq(wrong(&older, GEMM_BM_MIN + 1, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_f16kv", 8), 0);
    cr_assert_eq(wrong(&wide, GEMV_ROWS + 1, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_f16kv", 8), 0);
    cr_assert_eq(wrong(&int8, GEMV_ROWS, "mmvq_q4_k", 50, "mmvq_q6_k", 7, "fa_prefill_q8kv", 8), 0);
    cr_assert_eq(wrong(&int8, GEMV_ROWS + 1, "mmq_q4_k", 56, "mmvq_q6_k", 1, "fa_prefill_q8kv", 8), 0);
    cr_assert_eq(wrong(&host, 9, "matmul_q8_32", 57, "", 0, "attention_f16", 8), 0);
}

Test(ladder, a_kernel_of_another_size_is_red) {
    cr_assert(wrong(&hopper, GEMV_ROWS, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_wgmma", 8) > 0);
    cr_assert(wrong(&hopper, GEMV_ROWS + 1, "gemv_f16", 57, "", 0, "fa_prefill_wgmma", 8) > 0);
    cr_assert(wrong(&hopper, GEMV_ROWS + 1, "gemm_f16", 55, "gemv_f16", 2, "fa_prefill_wgmma", 8) > 0);
    cr_assert(wrong(&hopper, GEMM_BM_MIN, "gemm_f16_wgmma", 56, "gemv_f16", 1, "fa_prefill_wgmma", 8) > 0);
    cr_assert(wrong(&hopper, GEMM_BM_MIN + 1, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_wgmma", 8) > 0);
    cr_assert(wrong(&hopper, GEMM_BM_MIN, "gemm_f16", 56, "gemv_f16", 1, "fa_prefill_f16kv", 8) > 0);
    cr_assert(wrong(&hopper, 2, "gemv_f16", 57, "", 0, "fa_decode_f16kv", 8) > 0);
    cr_assert(wrong(&hopper, 1, "gemv_f16", 57, "", 0, "fa_prefill_wgmma", 8) > 0);
    cr_assert(wrong(&int8, GEMV_ROWS + 1, "mmvq_q8_0", 57, "", 0, "fa_prefill_q8kv", 8) > 0);
    cr_assert(wrong(&int8, 1, "mmvq_q8_0", 57, "", 0, "fa_decode_f16kv", 8) > 0);
    cr_assert(wrong(&host, 9, "matmul_f16", 57, "", 0, "attention_f16", 8) > 0);
}

Test(ladder, steps_too_many_and_layers_too_few_are_red) {
    cr_assert(wrong(&host, 9, "matmul_q8_32", 114, "", 0, "attention_f16", 16) > 0);
    cr_assert(wrong(&host, 9, "matmul_q8_32", 57, "", 0, "attention_f16", 7) > 0);
    cr_assert(wrong(&host, 9, "matmul_q8_32", 7, "", 0, "attention_f16", 8) > 0);
    cr_assert(wrong(&host, 9, "", 0, "", 0, "", 0) > 0, "nothing was launched");
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */
static struct rung_made made_on_host(void) {
    struct launches l = {2, {{"matmul_q8_32", 57}, {"attention_f16", 8}}};
    struct rung_made m = {{hash_bytes("a", 1), hash_bytes("b", 1)}, 0, l, l};
    return m;
}

Test(ladder, another_row_is_red) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    const struct rung r = {9, 256};
    const struct rung_made base = made_on_host();
    struct rung_made same = base, shifted = base, nan = base;
    shifted.row[0] = base.row[1];
    nan.not_finite = 1;
    ladder_rows(&a, &host, &r, &base, &same);
    cr_assert(n_rows == 2 && rows[0].verdict == VERDICT_PASS && rows[1].verdict == VERDICT_PASS);
    cr_assert_str_eq(rows[0].ref, rows[0].got);
    cr_assert_str_eq(rows[0].kernels, "matmul_q8_32 attention_f16");
    ladder_rows(&a, &host, &r, &base, &shifted);
    cr_assert(rows[2].verdict == VERDICT_FAIL && strcmp(rows[2].ref, rows[2].got) != 0, "%s", rows[2].note);
    ladder_rows(&a, &host, &r, &nan, &nan);
    cr_assert(rows[4].verdict == VERDICT_FAIL && strstr(rows[4].note, "NaN") != NULL, "%s", rows[4].note);
    same.step.kernel[1].calls = 16;
    ladder_rows(&a, &host, &r, &base, &same);
    cr_assert(rows[6].verdict == VERDICT_PASS && rows[7].verdict == VERDICT_FAIL, "%s", rows[7].note);
    cr_assert_str_eq(rows[7].arm, "dispatched");
}

Test(ladder, a_negative_arm_that_sees_nothing_is_blind) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    const struct rung r = {1, 1};
    struct rung_made m = made_on_host();
    const struct hash128 other = hash_bytes("c", 1);
    ladder_negative_rows(&a, &host, &r, &m, &other);
    cr_assert(rows[0].verdict == VERDICT_PASS && rows[1].verdict == VERDICT_PASS);
    m.decode.n = 0; /* no step more */
    ladder_negative_rows(&a, &host, &r, &m, &m.row[1]);
    cr_assert(rows[2].verdict == VERDICT_BLIND && rows[3].verdict == VERDICT_BLIND);
}

/* The gate itself, in a context that holds the rungs by rows only, cut in chunks that are too short for them. */
Test(ladder, the_gate_on_the_embedded_model) {
    struct gate_context c;
    struct err err = {""};
    int climbed = 0, proven = 0, skipped = 0;
    (void)arm_of(&c);
    c.config.n_ctx = 100;
    c.config.chunk = 7;
    c.small_battery = 1;
    cr_assert_eq(gate_stream_ladder_q8.run(&c, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < n_rows; i++) {
        int passed = rows[i].verdict == VERDICT_PASS;
        cr_assert(passed || rows[i].verdict == VERDICT_SKIP, "%s %s: %s", rows[i].arm, rows[i].test_case,
                  rows[i].note);
        cr_assert(!passed || strstr(rows[i].kernels, "attention_f16") != NULL, "%s", rows[i].kernels);
        climbed += passed && strcmp(rows[i].arm, "ladder") == 0;
        proven += passed && strcmp(rows[i].arm, "dispatched") == 0;
        skipped += strcmp(rows[i].arm, "ladder") == 0 && !passed;
    }
    struct rung all[LADDER_RUNGS];
    int n = ladder_rungs(&c.config.compute.geometry, 0, all);
    cr_assert(climbed == proven && climbed + skipped == n && skipped == 6, "%d and %d of %d, %d skipped",
              climbed, proven, n, skipped);
}
