/* test_field_cases.c - field reports whose right behaviour no module's own test shows: A04, A07, A08, A09.
 * The others have theirs where the code is, named by the report: A01 A02 A03 A11 A12 A13 A18 unit.diff; A05 A06 unit.tolerance_package;
 * A10 unit.attention_memory; A14 unit.table, unit.import; A15 unit.coverage; A16 unit.golden_refresh; A17 unit.dump;
 * A19 unit.compare; A20 unit.gguf, unit.gguf_damage.
 * Source: public reports of people who ship inference engines. Exercise: ctest -R unit.field_cases */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff_report.h"
#include "gates/metrics.h"
#include "gates/model/streams.h"
#include "gates/ops/op_bench.h"
#include "tests/dump_maker.h"

TestSuite(field_cases, .timeout = 60);

static struct evidence rows[4000];
static size_t n_rows;
static void keep(void *sink, const struct evidence *row) {
    (void)sink;
    if (n_rows < sizeof rows / sizeof rows[0]) rows[n_rows++] = *row;
}

/* ---- A04: a host-side bound picks another KV split ---------------------------------------------------------------- */
static dump *stream_under(const char *mode, const char *bound, float logit) {
    const char *keys[] = {"n_vocab", "1000", "logits", "f32", "mode", mode, "bound", bound, NULL};
    struct made m = make_begin(NULL, 0, keys);
    make_record(&m, greedy(7, logit, 8, 1.0f), " a", 2, NULL);
    return make_end(&m);
}

Test(field_cases, a04_bits_differ_and_the_launch_parameter_is_named) {
    dump *eager = stream_under("eager", "253", 3.0f), *graph = stream_under("graph", "32768", 3.0000002f);
    const struct diff_view view = {0, 1, 100, NULL};
    struct diff_result r;
    struct err err = {""};
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(diff_streams(eager, graph, NULL, &r, &err), STATUS_OK, "%s", err.message);
    FILE *out = open_memstream(&text, &n);
    diff_report_text(out, eager, graph, &r, &view);
    fclose(out);
    cr_assert(strstr(text, "bound") != NULL && strstr(text, "32768") != NULL, "%s", text);
    free(text);
    dump_close(eager);
    dump_close(graph);
}

/* Both results are within the bound of the reference: tolerance passes, strictness does not. */
Test(field_cases, a04_both_splits_are_within_the_bound_and_not_the_same) {
    double truth[64], scale[64];
    float a[64], b[64];
    size_t first;
    struct compare_shape flat = {1, {64, 0, 0, 0}};
    struct compare_bounds bounds = {0x1p-8, 0x1p-8, 0, 0};
    for (int i = 0; i < 64; i++) {
        truth[i] = 1.0 + 0x1p-9; /* half a bf16 step above 1: both neighbours are equally near */
        scale[i] = 1.0;
        a[i] = 1.0f;
        b[i] = i < 9 ? 1.0f + 0x1p-8f : 1.0f;
    }
    struct compare_result x = compare_values(truth, scale, &flat, a, &flat, &bounds);
    struct compare_result y = compare_values(truth, scale, &flat, b, &flat, &bounds);
    cr_assert(x.verdict == VERDICT_PASS && y.verdict == VERDICT_PASS, "%s", x.reason);
    cr_assert(fabs(x.errors.max_scaled - y.errors.max_scaled) < 1e-12);
    cr_assert_eq(metrics_bits_differ(a, b, 64, &first), 9);
}

/* The control: one mode, one bound, and other bits all the same. No tolerance is asked. */
Test(field_cases, a04_the_same_launch_twice_with_other_bits_fails) {
    struct gate_context c;
    memset(&c, 0, sizeof c);
    c.config = engine_config_default();
    c.emit = keep;
    struct stream_arm a = {&c, "stream.test", ROUTE_F16, NULL, NULL};
    dump *x = stream_under("graph", "253", 3.0f), *y = stream_under("graph", "253", 3.0000002f);
    cr_assert_eq(streams_row(&a, "run-to-run", "p", x, y, UINT64_MAX, "measured"), 0);
    cr_assert_eq(rows[0].verdict, VERDICT_FAIL);
    dump_close(x);
    dump_close(y);
}

/* ---- A07: the route for 192 columns launches the one for 160 -------------------------------------------------------- */
#define WRITTEN 160

static enum status make_sum(struct op_bench *b, struct op_io *io, struct err *err) {
    io->n = (size_t)case_dim(io->c, "n", 1);
    struct compare_shape shape = {1, {(int64_t)io->n, 0, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    io->exact = 1;
    RETURN_IF_ERROR(bench_truth(b, io, err));
    for (size_t i = 0; i < io->n; i++) io->truth[i] = io->scale[i] = 2.0;
    return STATUS_OK;
}

/* y = 1 + 1 in every column that the route reaches; the output is the bench's own buffer, with its poison of this run. */
static enum status run_narrow(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    float *ones;
    void *x, *y;
    size_t reached = io->n < WRITTEN ? io->n : WRITTEN;
    RETURN_IF_ERROR(bench_floats(b, io->n, &ones, err));
    for (size_t i = 0; i < io->n; i++) ones[i] = 1.0f;
    RETURN_IF_ERROR(bench_input(b, ones, io->n * sizeof(float), &x, err));
    RETURN_IF_ERROR(b->subject->add(b->subject, x, x, (int64_t)io->n, err));
    RETURN_IF_ERROR(bench_output(b, io->n * sizeof(float), &y, err));
    RETURN_IF_ERROR(
        bench_read(b, got, x, reached * sizeof(float), err)); /* the right answer of "the call before" */
    RETURN_IF_ERROR(b->subject->copy_in(b->subject, y, got, reached * sizeof(float), err));
    return bench_read(b, got, y, io->n * sizeof(float), err);
}

Test(field_cases, a07_columns_that_are_never_written_are_counted) {
    static const struct op_subject subject = {"op.add", "add", make_sum, run_narrow, NULL};
    struct gate_context c;
    struct err err = {""};
    size_t wide = 0;
    memset(&c, 0, sizeof c);
    c.source_dir = FORKGATE_SOURCE_DIR;
    c.config = engine_config_default();
    c.emit = keep;
    cr_assert_eq(op_bench_run(&subject, &c, &err), STATUS_OK, "%s", err.message);
    for (size_t i = 0; i < n_rows; i++) {
        size_t n = strstr(rows[i].test_case, "n=") != NULL
                       ? strtoul(strstr(rows[i].test_case, "n=") + 2, NULL, 10)
                       : 0;
        char want[64];
        if (strcmp(rows[i].arm, "poison") != 0) continue;
        if (n <= WRITTEN) {
            cr_assert_eq(rows[i].verdict, VERDICT_PASS, "%s", rows[i].test_case);
            continue;
        }
        wide++;
        snprintf(want, sizeof want, "%zu values never written, first at [%d]", n - WRITTEN, WRITTEN);
        cr_assert_eq(rows[i].verdict, VERDICT_FAIL, "%s", rows[i].test_case);
        cr_assert_str_eq(rows[i].note, want);
    }
    cr_assert(wide > 2, "%zu cases wider than the route", wide);
}

/* ---- A08: query heads not divisible by KV heads --------------------------------------------------------------------- */
/* Refusals are unit.model's. What is accepted is judged head by head, and groups that are no power of two are in the matrix. */
Test(field_cases, a08_odd_groups_are_cases_of_the_attention_gate) {
    static const int64_t groups[][2] = {{14, 2}, {10, 2}, {7, 1}, {5, 1}, {3, 3}};
    struct op_case *cases = NULL;
    size_t n = 0;
    struct err err = {""};
    cr_assert_eq(cases_load(FORKGATE_SOURCE_DIR "/fixtures/op_cases.csv", &cases, &n, &err), STATUS_OK, "%s",
                 err.message);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        size_t found = 0;
        for (size_t i = 0; i < n; i++)
            found += strcmp(cases[i].op, "attention") == 0 && cases[i].quick &&
                     case_dim(&cases[i], "n_head", 0) == groups[g][0] &&
                     case_dim(&cases[i], "n_kv_head", 0) == groups[g][1];
        cr_assert(found > 0, "no case of %d query and %d kv heads", (int)groups[g][0], (int)groups[g][1]);
    }
    free(cases);
}

/* ---- A09: a RoPE error that grows with the position ------------------------------------------------------------------ */
static const double positions[] = {0, 1, 40, 500, 2000, 8000, 16000, 32768, 131071};
#define POSITIONS 9

Test(field_cases, a09_an_error_that_grows_with_the_position_is_seen_where_it_is_large) {
    static const double drift[POSITIONS] = {0, 1e-8, 3.0e-6, 6e-5, 2.3e-4, 8e-4, 1.6e-3, 4e-3, 1.0e-2};
    double truth[POSITIONS][4], scale[POSITIONS][4];
    float got[POSITIONS][4];
    struct compare_bounds bounds = {1e-4, 1e-4, 0, 0};
    for (int p = 0; p < POSITIONS; p++) {
        for (int i = 0; i < 4; i++) { /* head dim 8: four pairs, base 10000; the first turns fastest */
            truth[p][i] = cos(positions[p] * pow(10000.0, -i / 4.0));
            scale[p][i] = 1.0;
            got[p][i] = (float)(truth[p][i] + (i == 0 ? drift[p] : 0.0));
        }
    }
    struct compare_shape up_to_40 = {2, {3, 4, 0, 0}}, all = {2, {POSITIONS, 4, 0, 0}};
    struct compare_result near = compare_values(truth[0], scale[0], &up_to_40, got[0], &up_to_40, &bounds);
    cr_assert_eq(near.verdict, VERDICT_PASS, "%s", near.reason);
    struct compare_result far = compare_values(truth[0], scale[0], &all, got[0], &all, &bounds);
    cr_assert_eq(far.verdict, VERDICT_FAIL);
    cr_assert(strstr(far.reason, "[8, 0]") != NULL, "the worst position and pair: %s", far.reason);
    cr_assert_eq(compare_values(truth[4], scale[4], &up_to_40, got[4], &up_to_40, &bounds).verdict,
                 VERDICT_FAIL, "2000 is far enough");
}

Test(field_cases, a09_the_rope_gate_goes_to_the_end_of_the_context) {
    struct op_case *cases = NULL;
    size_t n = 0;
    int64_t most = 0;
    struct err err = {""};
    cr_assert_eq(cases_load(FORKGATE_SOURCE_DIR "/fixtures/op_cases.csv", &cases, &n, &err), STATUS_OK, "%s",
                 err.message);
    for (size_t i = 0; i < n; i++)
        if (strcmp(cases[i].op, "rope") == 0 && cases[i].quick && case_dim(&cases[i], "pos", 0) > most)
            most = case_dim(&cases[i], "pos", 0);
    cr_assert_eq(most, 131071);
    free(cases);
}
