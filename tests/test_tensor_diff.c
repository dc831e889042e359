/* test_tensor_diff.c - two tensors: what may not differ, the census, the bits, the distance, and what a control excuses. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/fmath.h"
#include "gates/tensor_report.h"

static char folder[] = "/tmp/forkgate-test-tensors-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static void make_folder(void) {
    cr_assert(mkdtemp(folder) != NULL);
}
static void remove_folder(void) {
    static const char *const names[] = {"a.fgt", "b.fgt", "c.fgt", "d.fgt", "junk.fgt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) (void)unlink(in_folder(names[i]));
    if (rmdir(folder) != 0) abort();
}
TestSuite(tensor_diff, .init = make_folder, .fini = remove_folder, .timeout = 30);

/* keys: "op=add bound=253" */
static tensor_dump *tensor(const char *name, struct tensor_shape shape, const void *data, const char *keys) {
    struct provenance p;
    struct err err = {""};
    tensor_dump *t = NULL;
    char text[256], *rest = text, *word;
    (void)snprintf(text, sizeof text, "%s", keys);
    provenance_init(&p);
    while ((word = strtok_r(rest, " ", &rest)) != NULL) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        cr_assert_eq(provenance_set(&p, word, value, &err), STATUS_OK, "%s", err.message);
    }
    cr_assert_eq(tensor_dump_write(in_folder(name), &shape, data, &p, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    cr_assert_eq(tensor_dump_open(in_folder(name), &t, &err), STATUS_OK, "%s", err.message);
    return t;
}

static const struct tensor_shape grid = {DTYPE_F32, 2, {4, 3, 1, 1}}; /* [3, 4] */
static const float ramp[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* ramp with [1, 2] (element 6) moved by `by`; times `scale` in all. */
static void moved(float out[12], float by, float scale) {
    for (int i = 0; i < 12; i++) out[i] = ramp[i] * scale + (i == 6 ? by : 0.0f);
}

static struct tensor_diff judge(tensor_dump *a, tensor_dump *b, const char *control) {
    struct tensor_diff r;
    struct err err = {""};
    cr_assert_eq(tensor_diff(a, b, control, &r, &err), STATUS_OK, "%s", err.message);
    tensor_dump_close(a);
    tensor_dump_close(b);
    cr_assert(r.reason[0] != '\0', "every verdict says why");
    return r;
}

static struct tensor_diff judge_keys(const char *keys_a, const char *keys_b) {
    return judge(tensor("a.fgt", grid, ramp, keys_a), tensor("b.fgt", grid, ramp, keys_b), NULL);
}

Test(tensor_diff, the_same_bits_are_identical_whoever_made_them) {
    struct tensor_diff r = judge_keys("op=add tool=x bound=1", "op=add tool=y bound=2");
    cr_assert_eq(r.verdict, TENSOR_IDENTICAL, "%s", r.reason);
    cr_assert_eq(r.distance.n, 12);
    cr_assert_eq(r.distance.differing, 0);
}

Test(tensor_diff, what_is_not_the_same_tensor_is_not_compared) {
    static const char *const pairs[][2] = {{"op=add", "op=mul"},
                                           {"layer=0", "layer=1"},
                                           {"tensor=q", "tensor=k"},
                                           {"pos=3", "pos=4"},
                                           {"step=0", "step=1"},
                                           {"model.xxh3=a", "model.xxh3=b"},
                                           {"prompt=a", "prompt=b"},
                                           {"input.q.xxh3=a", "input.q.xxh3=b"},
                                           {"model=a model.xxh3=x", "model=b"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct tensor_diff r = judge_keys(pairs[i][0], pairs[i][1]);
        cr_assert_eq(r.verdict, TENSOR_NOT_COMPARABLE, "pair %zu: %s", i, r.reason);
        cr_assert_eq(tensor_exit_code(r.verdict), 2);
        cr_assert_eq(r.measured, 0);
    }
    cr_assert_eq(judge_keys("op=add layer=1", "tool=x").verdict, TENSOR_IDENTICAL,
                 "not known is not different");
    cr_assert_eq(judge_keys("model=a model.xxh3=x", "model=b model.xxh3=x").verdict, TENSOR_IDENTICAL,
                 "one file under two names");
    const struct tensor_shape turned = {DTYPE_F32, 2, {3, 4, 1, 1}}, flat = {DTYPE_F32, 1, {12, 1, 1, 1}};
    struct tensor_diff r = judge(tensor("a.fgt", grid, ramp, ""), tensor("b.fgt", turned, ramp, ""), NULL);
    cr_assert_eq(r.verdict, TENSOR_NOT_COMPARABLE);
    cr_assert_str_eq(r.reason, "A is f32 [3, 4], B is f32 [4, 3]");
    r = judge(tensor("a.fgt", grid, ramp, ""), tensor("b.fgt", flat, ramp, ""), NULL);
    cr_assert_eq(r.verdict, TENSOR_NOT_COMPARABLE);
}

Test(tensor_diff, the_first_and_the_worst_element_are_named_with_their_size) {
    float other[12];
    char at[64];
    moved(other, 0.75f, 1.0f);
    other[2] = nextafterf(3.0f, 4.0f);
    tensor_dump *a = tensor("a.fgt", grid, ramp, ""), *b = tensor("b.fgt", grid, other, "bound=2");
    tensor_index_text(a, 6, at, sizeof at);
    cr_assert_str_eq(at, "[1, 2]");
    struct tensor_diff r = judge(a, b, NULL);
    const struct tensor_distance *d = &r.distance;
    cr_assert_eq(r.verdict, TENSOR_DIFFERENT);
    cr_assert_eq(tensor_exit_code(r.verdict), 1);
    cr_assert_eq(d->differing, 2);
    cr_assert(d->first.at == 2 && d->first.ulps == 1, "first %d", (int)d->first.at);
    cr_assert(d->worst.at == 6 && d->worst.a == 7.0f && d->worst.b == 7.75f, "worst %d", (int)d->worst.at);
    cr_assert_float_eq(d->max_abs, 0.75, 1e-12);
    cr_assert_float_eq(d->max_scaled, 0.75 / 12.0, 1e-12);
    cr_assert_float_eq(d->rms, 0.75 / sqrt(12.0), 1e-6);
    cr_assert_float_eq(d->nmse, 0.5625 / 650.0, 1e-9);
    cr_assert(d->ulps.n[ULP_0] == 10 && d->ulps.n[ULP_1] == 1 && d->ulps.n[ULP_MORE] == 1);
    cr_assert_eq(d->max_ulps, 1572864);
}

Test(tensor_diff, two_tensors_that_agree_on_nan_or_infinity_are_invalid) {
    float bad[12];
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        moved(bad, values[i], 1.0f);
        struct tensor_diff r = judge(tensor("a.fgt", grid, bad, ""), tensor("b.fgt", grid, bad, ""), NULL);
        cr_assert_eq(r.verdict, TENSOR_INVALID, "%s", r.reason);
        cr_assert(strstr(r.reason, "at [1, 2]") != NULL, "%s", r.reason);
        cr_assert_eq(r.distance.differing, 0, "NaN is one class");
        r = judge(tensor("a.fgt", grid, ramp, ""), tensor("b.fgt", grid, bad, ""), NULL);
        cr_assert(r.verdict == TENSOR_INVALID && r.distance.differing == 1, "%s", r.reason);
        cr_assert(isfinite(r.distance.rms) && isfinite(r.distance.max_abs), "what is finite is measured");
        r = judge(tensor("a.fgt", grid, bad, ""), tensor("b.fgt", grid, ramp, ""), NULL);
        cr_assert(r.verdict == TENSOR_INVALID && r.distance.census[1].first_bad == METRICS_NONE, "%s",
                  r.reason);
    }
}

Test(tensor_diff, zeros_of_two_signs_differ_by_nothing_and_are_not_identical) {
    float x[12], y[12];
    moved(x, -7.0f, 1.0f);
    moved(y, -7.0f, 1.0f);
    y[6] = -0.0f;
    struct tensor_diff r = judge(tensor("a.fgt", grid, x, ""), tensor("b.fgt", grid, y, "bound=1"), NULL);
    cr_assert(r.verdict == TENSOR_DIFFERENT && r.distance.differing == 1, "%s", r.reason);
    cr_assert(r.distance.worst.at == 6 && r.distance.max_ulps == 0);
    cr_assert_float_eq(r.distance.max_abs, 0.0, 0.0);
}

Test(tensor_diff, ulps_and_subnormals_are_those_of_the_dtype) {
    const struct tensor_shape f16 = {DTYPE_F16, 1, {4, 1, 1, 1}}, bf16 = {DTYPE_BF16, 1, {4, 1, 1, 1}};
    const uint16_t x[4] = {0x3c00, 0x0001, 0x8001, 0x4000}, y[4] = {0x3c03, 0x0001, 0x0001, 0x4000};
    struct tensor_diff r = judge(tensor("a.fgt", f16, x, ""), tensor("b.fgt", f16, y, ""), NULL);
    const struct tensor_distance *d = &r.distance;
    cr_assert(d->first.ulps == 3 && d->max_ulps == 3, "%d", (int)d->max_ulps);
    cr_assert(d->ulps.n[ULP_2] == 1 && d->ulps.n[ULP_SIGN_NAN] == 1 && d->ulps.n[ULP_0] == 2);
    cr_assert_eq(d->census[0].n_subnormal, 2);
    const uint16_t u[4] = {0x3f80, 0x0001, 0x4000, 0x4040}, v[4] = {0x3f82, 0x0001, 0x4000, 0x4040};
    r = judge(tensor("a.fgt", bf16, u, ""), tensor("b.fgt", bf16, v, ""), NULL);
    cr_assert(r.distance.max_ulps == 2 && r.distance.census[0].n_subnormal == 1);
}

Test(tensor_diff, stored_blocks_of_equal_values_are_not_identical) {
    const struct tensor_shape q8 = {DTYPE_Q8_0, 1, {32, 1, 1, 1}};
    struct block_q8_0 x, y;
    memset(&x, 0, sizeof x);
    y = x;
    y.qs[3] = 5; /* times a scale of zero */
    struct tensor_diff r = judge(tensor("a.fgt", q8, &x, ""), tensor("b.fgt", q8, &y, "bound=1"), NULL);
    cr_assert(r.verdict == TENSOR_DIFFERENT && r.distance.differing == 0, "%s", r.reason);
    cr_assert(strstr(r.reason, "the stored blocks do") != NULL, "%s", r.reason);
}

/* ---- field case A04: 64 values, 9 of them one bf16 step apart; the strict half, through the files ------------------------- */
static const struct tensor_shape a04 = {DTYPE_BF16, 1, {64, 1, 1, 1}};

static void a04_values(uint16_t out[64], int moved_values) {
    for (int i = 0; i < 64; i++) out[i] = (uint16_t)(0x3f80 + (i < moved_values ? 1 : 0));
}

Test(tensor_diff, a04_a_host_bound_that_changes_the_split_is_named) {
    uint16_t eager[64], graph[64];
    a04_values(eager, 0);
    a04_values(graph, 9);
    tensor_dump *a = tensor("a.fgt", a04, eager, "op=attention input.xxh3=8a1f mode=eager bound=253"),
                *b = tensor("b.fgt", a04, graph, "op=attention input.xxh3=8a1f mode=graph bound=32768");
    const struct diff_view view = {0, 0, 200, NULL};
    struct tensor_diff r;
    struct err err = {""};
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(tensor_diff(a, b, NULL, &r, &err), STATUS_OK, "%s", err.message);
    FILE *out = open_memstream(&text, &n);
    tensor_report_text(out, a, b, &r, &view);
    (void)fclose(out);
    cr_assert(strstr(text, "  bound          253 | 32768\n") != NULL, "%s", text);
    cr_assert(strstr(text, "differing  9 of 64") != NULL &&
                  strstr(text, "ULP of bf16  0: 55  1: 9\n") != NULL,
              "%s", text);
    cr_assert(strstr(r.reason, "bound (A 253, B 32768)") != NULL, "%s", r.reason);
    free(text);
    r = judge(a, b, NULL);
    cr_assert_eq(r.verdict, TENSOR_DIFFERENT);
    cr_assert(r.distance.max_ulps == 1 && r.distance.first.at == 0 && r.distance.worst.at == 0);
}

/* The control of A04: nothing that was launched differs, so nothing excuses other bits. */
Test(tensor_diff, a04_the_same_launch_with_other_bits_is_excused_by_no_control) {
    uint16_t x[64], y[64], c[64];
    a04_values(x, 0);
    a04_values(y, 9);
    a04_values(c, 64);
    tensor_dump_close(tensor("c.fgt", a04, c, "op=attention mode=graph bound=64"));
    struct tensor_diff r = judge(tensor("a.fgt", a04, x, "op=attention mode=graph bound=253"),
                                 tensor("b.fgt", a04, y, "op=attention mode=graph bound=253"), folder);
    cr_assert_eq(r.verdict, TENSOR_DIFFERENT, "%s", r.reason);
    cr_assert(strstr(r.reason, "not repeatable") != NULL, "%s", r.reason);
    r = judge(tensor("a.fgt", a04, x, "op=attention mode=graph bound=253"),
              tensor("b.fgt", a04, y, "op=attention mode=graph bound=300"), folder);
    cr_assert_eq(r.verdict, TENSOR_WITHIN_CONTROL, "the same with another bound: %s", r.reason);
    cr_assert_eq(tensor_exit_code(r.verdict), 1);
}

/* ---- controls ---------------------------------------------------------------------------------------------------------- */

/* ramp against one value moved by `by` under keys_b, with one control moved by 0.5 under keys_c. */
static struct tensor_diff controlled(float by, const char *keys_b, const char *keys_c) {
    float b[12], c[12];
    moved(b, by, 1.0f);
    moved(c, 0.5f, 1.0f);
    tensor_dump_close(tensor("c.fgt", grid, c, keys_c));
    return judge(tensor("a.fgt", grid, ramp, "op=add commit=1 tile=32"), tensor("b.fgt", grid, b, keys_b),
                 folder);
}

Test(tensor_diff, a_control_bounds_what_is_legal) {
    struct tensor_diff r = controlled(-0.5f, "op=add commit=1 tile=16", "op=add commit=1 tile=64");
    cr_assert_eq(r.verdict, TENSOR_WITHIN_CONTROL, "%s", r.reason);
    cr_assert_float_eq(r.control.max_abs, 0.5, 0.0);
    r = controlled(0.25f, "op=add commit=2 tile=32", "op=add commit=1 tile=64");
    cr_assert_eq(r.verdict, TENSOR_WITHIN_CONTROL, "a change of code: %s", r.reason);
    r = controlled(0.5000005f, "op=add commit=1 tile=16", "op=add commit=1 tile=64");
    cr_assert_eq(r.verdict, TENSOR_DIFFERENT, "%s", r.reason);
}

/* Every element off by as much as the worst one of the control. */
Test(tensor_diff, the_global_metric_is_judged_too) {
    float b[12], c[12];
    moved(c, 0.5f, 1.0f);
    for (int i = 0; i < 12; i++) b[i] = ramp[i] + 0.5f;
    tensor_dump_close(tensor("c.fgt", grid, c, "tile=64"));
    struct tensor_diff r =
        judge(tensor("a.fgt", grid, ramp, "tile=32"), tensor("b.fgt", grid, b, "tile=16"), folder);
    cr_assert_eq(r.verdict, TENSOR_DIFFERENT, "%s", r.reason);
    cr_assert(strstr(r.reason, "max-abs 0.5 <= 0.5, rms 0.5 > 2 x 0.144338") != NULL, "%s", r.reason);
}

Test(tensor_diff, what_is_no_control_for_this_pair_is_left_out_and_said) {
    static const struct {
        const char *keys, *why;
    } unfit[] = {{"op=add commit=1 tile=32", "launched as A was"},
                 {"op=add commit=1 tile=16 other=1", "launched as B was"},
                 {"op=add commit=2 tile=64", "commit is not A's"},
                 {"op=add commit=1 build=2 tile=64", "build is not A's"},
                 {"op=mul commit=1 tile=64", "op is not A's"},
                 {"commit=1 tile=64", "op is not A's"}};
    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0]; i++) {
        struct tensor_diff r = controlled(0.25f, "op=add commit=1 tile=16", unfit[i].keys);
        cr_assert_eq(r.verdict, TENSOR_DIFFERENT, "%s: %s", unfit[i].keys, r.reason);
        cr_assert(r.control.used == 0 && strstr(r.control.source, unfit[i].why) != NULL, "%s: %s",
                  unfit[i].keys, r.control.source);
    }
    struct tensor_diff r = controlled(0.5f, "op=add commit=1 tile=16", "op=add commit=1 tile=64");
    cr_assert(r.verdict == TENSOR_DIFFERENT && strstr(r.control.source, "B's own bits") != NULL,
              "the noise is never that of B itself: %s", r.control.source);
}

Test(tensor_diff, a_control_that_cannot_be_judged_is_an_error) {
    float b[12], c[12];
    struct tensor_diff r;
    struct err err = {""};
    moved(b, 0.5f, 1.0f);
    moved(c, NAN, 1.0f);
    tensor_dump *x = tensor("a.fgt", grid, ramp, "tile=32"), *y = tensor("b.fgt", grid, b, "tile=16");
    tensor_dump_close(tensor("c.fgt", grid, c, "tile=64"));
    cr_assert_eq(tensor_diff(x, y, folder, &r, &err), STATUS_INVALID);
    FILE *f = fopen(in_folder("c.fgt"), "wb");
    cr_assert(f != NULL);
    (void)fclose(f);
    cr_assert_eq(tensor_diff(x, y, folder, &r, &err), STATUS_FORMAT, "%s", err.message);
    cr_assert_eq(tensor_diff(x, x, "/nowhere/at/all", &r, &err), STATUS_IO, "also when nothing differs");
    tensor_dump_close(x);
    tensor_dump_close(y);
}

/* forkgate's own geometry: threads and fa_tq may not carry bits, fa_tkv does. */
Test(tensor_diff, of_our_geometry_only_what_carries_bits_names_a_launch) {
    float b[12];
    moved(b, 0.25f, 1.0f);
    struct tensor_diff r =
        judge(tensor("a.fgt", grid, ramp, "threads=1 geometry=fa_tq=64,fa_tkv=32,fa_chunk=256"),
              tensor("b.fgt", grid, b, "threads=2 geometry=fa_tq=128,fa_tkv=32,fa_chunk=256"), folder);
    cr_assert(strstr(r.reason, "not repeatable") != NULL, "%s", r.reason);
    r = judge(tensor("a.fgt", grid, ramp, "geometry=fa_tq=64,fa_tkv=32,fa_chunk=256"),
              tensor("b.fgt", grid, b, "geometry=fa_tq=64,fa_tkv=16,fa_chunk=256"), NULL);
    cr_assert(r.verdict == TENSOR_DIFFERENT && strstr(r.reason, "geometry") != NULL, "%s", r.reason);
}

/* Two programs that go by one commit, both of a modified tree, are no repeat of one. */
Test(tensor_diff, a_modified_tree_may_be_two_programs) {
    static const struct {
        const char *a, *b;
        int repeat;
    } sides[] = {{"commit=1 dirty=0 tile=1", "commit=1 dirty=0 tile=1", 1},
                 {"commit=1 dirty=1 tile=1", "commit=1 dirty=1 tile=1", 0},
                 {"commit=unknown tile=1", "commit=unknown tile=1", 0},
                 {"commit=1 dirty=1 build=x tile=1", "commit=1 dirty=1 build=x tile=1", 1},
                 {"commit=1 dirty=1 build=x tile=1", "commit=1 dirty=1 build=y tile=1", 0}};
    float b[12];
    moved(b, 0.25f, 1.0f);
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        struct tensor_diff r =
            judge(tensor("a.fgt", grid, ramp, sides[i].a), tensor("b.fgt", grid, b, sides[i].b), folder);
        cr_assert_eq(r.verdict, TENSOR_DIFFERENT);
        cr_assert_eq(strstr(r.reason, "no control excuses") != NULL, sides[i].repeat, "case %zu: %s", i,
                     r.reason);
        cr_assert_eq(strstr(r.reason, "two builds of one commit") == NULL, sides[i].repeat, "case %zu", i);
    }
}
