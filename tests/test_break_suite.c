/* test_break_suite.c - the gate suite broken on purpose, one way a test: any one gate a no-op, a base that is really the
 * candidate, a driver that returns NaN for both sides, zero kernels launched, an option parsed and ignored. Never green.
 * Not the planted faults (forkgate mutants): those break the engine, these break the judge.
 * Source: ours. Exercise: ctest -R unit.break_suite */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gates/model/model_gates.h"
#include "gates/model/streams.h"
#include "gates/ops/op_bench.h"
#include "gates/runner.h"
#include "tests/dump_maker.h"

TestSuite(break_suite, .timeout = 120);

static struct run_result result;

static int run_gates(const struct gate *const *registry, const struct gate_context *context) {
    struct runner_options o;
    struct err err = {""};
    memset(&o, 0, sizeof o);
    if (context != NULL) o.context = *context;
    o.context.config.compute.n_threads = 1;
    o.registry = registry;
    for (int t = 0; t < RUNNER_TIERS; t++) o.tiers[t] = 1;
    o.keep_going = 1;
    o.jobs = 1;
    cr_assert_eq(runner_run(&o, &result, &err), STATUS_OK, "%s", err.message);
    return runner_exit_code(&result);
}

/* The first row of the last run that is not PASS. */
static const struct evidence *first_red(void) {
    static const struct evidence none = {.note = "nothing is red"};
    for (size_t i = 0; i < result.n; i++)
        for (size_t k = 0; k < result.gates[i].n_rows; k++)
            if (result.gates[i].rows[k].verdict != VERDICT_PASS) return &result.gates[i].rows[k];
    return &none;
}

/* ---- any one gate a no-op --------------------------------------------------------------------------------------- */
#define GATES 64

static void say(const struct gate_context *ctx, const char *arm, size_t n, const char *metric, double value) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.arm, sizeof row.arm, "%.*s", (int)n, arm);
    strcpy(row.metric, metric);
    row.value = row.bound = value;
    row.verdict = VERDICT_PASS;
    ctx->emit(ctx->sink, &row);
}

static const char *left_out; /* arms, of which the first is; NULL: none */

/* A row of every arm that any gate owes, but for the one left out and those that begin like it. */
static enum status judges(const struct gate_context *ctx, struct err *err) {
    (void)err;
    for (size_t i = 0; gate_registry[i] != NULL; i++) {
        const char *arm = gate_arms_owed(gate_registry[i]->id);
        for (size_t n; *(arm += strspn(arm, " ")) != '\0'; arm += n) {
            n = strcspn(arm, " ");
            if (left_out == NULL || strncmp(arm, left_out, n) != 0) say(ctx, arm, n, "differ", 0);
        }
    }
    return STATUS_OK;
}

/* A gate that was emptied: it returns at once, .. */
static enum status does_nothing(const struct gate_context *ctx, struct err *err) {
    (void)ctx;
    (void)err;
    return STATUS_OK;
}

/* .. or says that all is well, without a look at anything, .. */
static enum status says_pass(const struct gate_context *ctx, struct err *err) {
    (void)err;
    say(ctx, "", 0, "none", (double)NAN);
    return STATUS_OK;
}

/* .. or keeps its controls alone, .. */
static enum status says_negative(const struct gate_context *ctx, struct err *err) {
    (void)err;
    say(ctx, "negative", 8, "missed", 0);
    say(ctx, "launched", 8, "missing", 0);
    return STATUS_OK;
}

/* .. or has lost one of its arms. */
static enum status lost_an_arm(const struct gate_context *ctx, struct err *err) {
    left_out = ctx->cause;
    return judges(ctx, err);
}

static const struct {
    enum status (*run)(const struct gate_context *ctx, struct err *err);
    const char *note;
} no_ops[] = {{does_nothing, "nothing was judged"},
              {says_pass, "compared nothing"},
              {says_negative, "judged without its arm"},
              {lost_an_arm, "judged without its arm"}};

/* Each gate of the registry in turn, in every way, beside one that judges. Neither the list nor the number is written here. */
Test(break_suite, any_one_gate_a_no_op) {
    static struct gate gates[GATES];
    const struct gate *registry[GATES + 1] = {NULL};
    size_t n = 0;
    for (; gate_registry[n] != NULL && n < GATES; n++) {
        gates[n] = *gate_registry[n];
        gates[n].run = judges;
        gates[n].needs_cuda = 0;
        registry[n] = &gates[n];
        cr_assert(gate_arms_owed(gates[n].id)[0] != '\0', "%s owes nothing", gates[n].id);
    }
    cr_assert(n > 30 && gate_registry[n] == NULL, "%zu gates, more than this test takes or too few", n);
    cr_assert_eq(run_gates(registry, NULL), 0, "all of them judge: %s", first_red()->note);
    runner_free(&result);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof no_ops / sizeof no_ops[0]; k++) {
            const struct gate *some[] = {&gates[(i + 1) % n], &gates[i], NULL};
            struct gate_context c = {.config = engine_config_default(), .cause = gate_arms_owed(gates[i].id)};
            gates[i].run = no_ops[k].run;
            cr_assert_eq(run_gates(some, &c), 2, "%s is a no-op", gates[i].id);
            cr_assert_str_eq(first_red()->gate, gates[i].id);
            cr_assert(strstr(first_red()->note, no_ops[k].note) != NULL, "%s %zu: %s", gates[i].id, k,
                      first_red()->note);
            runner_free(&result);
        }
        gates[i].run = judges;
    }
}

/* ---- a base that is really the candidate ------------------------------------------------------------------------ */
Test(break_suite, a_base_that_is_really_the_candidate) {
    const struct gate *registry[] = {&gate_tolerance_stream_f16, NULL};
    struct gate_context c = {.model_path = FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf",
                             .source_dir = FORKGATE_SOURCE_DIR,
                             .self = "/proc/self/exe",
                             .config = engine_config_default(),
                             .small_battery = 1,
                             .cause = "a change that changes nothing"};
    cr_assert_eq(run_gates(registry, &c), 2,
                 "the base is this build at its default geometry, and so is the candidate");
    cr_assert(strstr(first_red()->note, "self-comparison proves nothing") != NULL, "%s", first_red()->note);
    runner_free(&result);
    c.base = "/proc/self/exe"; /* the same bytes under another name */
    cr_assert_eq(run_gates(registry, &c), 2);
    cr_assert(strstr(first_red()->note, "self-comparison proves nothing") != NULL, "%s", first_red()->note);
    runner_free(&result);
}

/* ---- an op gate over a broken driver ---------------------------------------------------------------------------- */
enum habit { HONEST, NAN_ON_BOTH_SIDES, NO_KERNEL, HALVES_LEFT };
static enum habit driver;

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    io->n = (size_t)case_dim(io->c, "n", 1);
    struct compare_shape shape = {1, {(int64_t)io->n, 0, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    io->exact = 1;
    RETURN_IF_ERROR(bench_truth(b, io, err));
    for (size_t i = 0; i < io->n; i++) {
        io->truth[i] = driver == NAN_ON_BOTH_SIDES ? (double)NAN : 2.0 * (double)i;
        io->scale[i] = 1.0;
    }
    return STATUS_OK;
}

/* x + x for x = 0, 1, 2, ..: the right values in the right place, whichever way they came there. */
static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    float *host;
    void *x, *t;
    RETURN_IF_ERROR(bench_floats(b, io->n, &host, err));
    for (size_t i = 0; i < io->n; i++) host[i] = (driver == NO_KERNEL ? 2.0f : 1.0f) * (float)i;
    if (driver == NAN_ON_BOTH_SIDES)
        for (size_t i = 0; i < io->n; i++) host[i] = NAN;
    RETURN_IF_ERROR(bench_input(b, host, io->n * sizeof(float), &x, err));
    RETURN_IF_ERROR(bench_input(b, host, io->n * sizeof(float), &t, err));
    if (driver != NO_KERNEL) RETURN_IF_ERROR(b->subject->add(b->subject, x, t, (int64_t)io->n, err));
    if (driver == HALVES_LEFT) { /* f16 outputs, of which the last three are never written */
        void *y, *zeros;
        size_t left = io->n < 3 ? io->n : 3;
        RETURN_IF_ERROR(bench_output(b, io->n * sizeof(uint16_t), &y, err));
        RETURN_IF_ERROR(bench_host(b, io->n, sizeof(uint16_t), &zeros, err));
        RETURN_IF_ERROR(b->subject->copy_in(b->subject, y, zeros, (io->n - left) * sizeof(uint16_t), err));
    }
    return bench_read(b, got, x, io->n * sizeof(float), err);
}

/* More backends than the bench keeps open, while the arms go on with their own. */
static enum status open_many(struct op_bench *b, struct op_io *io, const float *got, struct err *err) {
    struct backend *other, *own = b->subject;
    struct geometry g = io->geometry;
    int kept = 0;
    for (g.fa_splits = 1; g.fa_splits <= BENCH_BACKENDS + 1; g.fa_splits++)
        RETURN_IF_ERROR(bench_backend(b, io->route, &g, 1, &other, err));
    for (int i = 0; i < b->n_open; i++)
        kept += !b->open[i].is_twin; /* by address: a freed one is used again */
    bench_row(b, io, "kept", "missing", kept == 1 && b->subject == own ? 0 : 1, 0, "");
    (void)got;
    return STATUS_OK;
}

static enum status run_driver(const struct gate_context *ctx, struct err *err) {
    static const struct op_subject subject = {"op.add", "add", make, run_op, open_many};
    struct gate_context own = *ctx;
    own.source_dir = FORKGATE_SOURCE_DIR;
    return op_bench_run(&subject, &own, err);
}

static int run_broken(enum habit how) {
    static const struct gate gate = {"op.add", TIER_PARITY, "a driver under test", 0, 0, 100, run_driver};
    static const struct gate *const registry[] = {&gate, NULL};
    struct gate_context c;
    memset(&c, 0, sizeof c);
    c.config = engine_config_default();
    driver = how;
    return run_gates(registry, &c);
}

Test(break_suite, a_driver_that_returns_nan_for_both_sides) {
    cr_assert_eq(run_broken(HONEST), 0, "%s: %s", first_red()->arm, first_red()->note);
    runner_free(&result);
    int code = run_broken(NAN_ON_BOTH_SIDES);
    cr_assert_eq(code, 1, "exit %d: %s %s", code, first_red()->arm, first_red()->note);
    size_t cases = 0, seen = 0;
    for (size_t k = 0; k < result.gates[0].n_rows; k++) {
        const struct evidence *e = &result.gates[0].rows[k];
        cases += strcmp(e->arm, "launched") == 0;
        seen += strcmp(e->arm, "census") == 0 && e->verdict == VERDICT_FAIL;
    }
    cr_assert(cases > 10 && seen == cases, "%zu of %zu cases are red", seen, cases);
    runner_free(&result);
}

Test(break_suite, zero_kernels_launched) {
    cr_assert_eq(run_broken(NO_KERNEL), 1, "every value is right, and nothing ran");
    cr_assert_str_eq(first_red()->arm, "launched");
    cr_assert(strstr(first_red()->note, "no kernel counted itself") != NULL, "%s", first_red()->note);
    for (size_t k = 0; k < result.gates[0].n_rows; k++) {
        const struct evidence *e = &result.gates[0].rows[k];
        cr_assert(e->verdict == VERDICT_PASS || strcmp(e->arm, "launched") == 0, "%s: %s", e->arm, e->note);
    }
    runner_free(&result);
}

/* What is compared may be converted and right all the same: the outputs' own bytes are looked at. */
Test(break_suite, outputs_that_are_no_floats_and_are_not_written) {
    cr_assert_eq(run_broken(HALVES_LEFT), 1, "every value is right, and three were never written");
    size_t seen = 0;
    for (size_t k = 0; k < result.gates[0].n_rows; k++) {
        const struct evidence *e = &result.gates[0].rows[k];
        cr_assert(e->verdict == VERDICT_PASS || strcmp(e->arm, "poison") == 0, "%s: %s", e->arm, e->note);
        seen +=
            strstr(e->note, "6 bytes never written, first is byte ") != NULL && e->verdict == VERDICT_FAIL;
    }
    cr_assert(seen > 5, "%zu cases", seen);
    runner_free(&result);
}

/* The last value of this case is past n_rot, only passed through: damage there is not what the oracle judges. */
Test(break_suite, the_negative_arm_damages_what_the_op_computes) {
    const struct gate *registry[] = {NULL, NULL};
    struct gate_context c;
    memset(&c, 0, sizeof c);
    c.source_dir = FORKGATE_SOURCE_DIR;
    c.config = engine_config_default();
    c.only = "op.rope/rows=2 n_head=2 head_dim=96 n_rot=64 f32 family=normal seed=137";
    for (size_t i = 0; gate_registry[i] != NULL; i++)
        if (strcmp(gate_registry[i]->id, "op.rope") == 0) registry[0] = gate_registry[i];
    cr_assert_eq(run_gates(registry, &c), 0, "%s: %s", first_red()->arm, first_red()->note);
    cr_assert_str_eq(result.gates[0].rows[result.gates[0].n_rows - 1].arm, "negative");
    runner_free(&result);
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */
static struct evidence last;
static void keep_last(void *sink, const struct evidence *row) {
    (void)sink;
    last = *row;
}

static dump *stream_of(float logit) {
    static const char *const keys[] = {"n_vocab", "1000", "logits", "f32", NULL};
    struct made m = make_begin(NULL, 0, keys);
    make_record(&m, greedy(7, logit, 8, 1.0f), " a", 2, NULL);
    return make_end(&m);
}

static struct stream_arm arm_of(struct gate_context *c) {
    memset(c, 0, sizeof *c);
    c->config = engine_config_default();
    c->emit = keep_last;
    struct stream_arm a = {c, "stream.test", ROUTE_F16, NULL, NULL};
    return a;
}

Test(break_suite, streams_of_nan_that_agree) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    dump *x = stream_of(NAN), *y = stream_of(NAN), *good = stream_of(3.0f);
    cr_assert_eq(streams_row(&a, "golden", "p", x, y, UINT64_MAX, "measured"), 0, "agreement on NaN");
    cr_assert(last.verdict == VERDICT_FAIL && strncmp(last.note, "INVALID", 7) == 0, "%s", last.note);
    cr_assert_eq(streams_row(&a, "golden", "p", good, good, UINT64_MAX, "measured"), 1);
    dump_close(x);
    dump_close(y);
    dump_close(good);
}

/* The arms of stream.launch agree trivially where an option goes nowhere; `heeded` must not. */
Test(break_suite, an_option_parsed_and_ignored) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    dump *base = stream_of(3.0f), *same = stream_of(3.0f), *other = stream_of(3.25f);
    streams_heeded_row(&a, "fa_tkv", "p", base, same, 1);
    cr_assert(last.verdict == VERDICT_FAIL && strstr(last.note, "it is ignored") != NULL, "%s", last.note);
    cr_assert_str_eq(last.test_case, "fa_tkv p");
    streams_heeded_row(&a, "fa_tkv", "p", base, other, 1);
    cr_assert_eq(last.verdict, VERDICT_PASS);
    streams_heeded_row(&a, "fa_tkv", "p", base, other, 0);
    cr_assert(last.verdict == VERDICT_FAIL && strstr(last.note, "nothing was compared") != NULL, "%s",
              last.note);
    dump *bad = stream_of(NAN);
    streams_heeded_row(&a, "fa_tkv", "p", base, bad, 1);
    cr_assert(last.verdict == VERDICT_FAIL && strlen(last.note) > 5,
              "NaN is another answer, and no proof: %s", last.note);
    dump_close(bad);
    dump_close(base);
    dump_close(same);
    dump_close(other);
}

/* The negative arm of the stream gates: one bit of a logit, of which the row's own hash knows nothing until it is made anew. */
Test(break_suite, one_bit_in_one_logit_is_another_row) {
    static const char *const keys[] = {"n_vocab", "4", "logits", "f32", NULL};
    float row[4] = {1.0f, 3.0f, -2.0f, 0.5f};
    struct made m = make_begin(NULL, 4, keys);
    dump *damaged = NULL, *none = stream_of(3.0f);
    struct err err = {""};
    for (int i = 0; i < 3; i++) {
        struct dump_record r = greedy(1, 3.0f, 0, 1.0f);
        r.row = hash_logits(row, 4);
        make_record(&m, r, " a", 2, row);
    }
    dump *whole = make_end(&m);
    cr_assert_eq(streams_damage(whole, &damaged, &err), STATUS_OK, "%s", err.message);
    struct golden_match g = golden_compare(whole, damaged, UINT64_MAX);
    cr_assert(!golden_matches(&g) && g.n_rows == 1 && g.first_row == 2 && g.first_token == UINT64_MAX);
    row[3] = nextafterf(row[3], 1.0f);
    struct hash128 want = hash_logits(row, 4);
    cr_assert(hash_equal(&dump_record_at(damaged, 2)->row, &want), "the last logit, one step away");
    cr_assert_eq(streams_damage(none, &damaged, &err), STATUS_USAGE, "no row is kept there");
    dump_close(none);
    dump_close(whole);
    dump_close(damaged);
}

/* 130 rows at once and one more alone, in chunks of 64 keys. */
static engine *worked(const struct engine_config *config) {
    engine *e = NULL;
    session *s = NULL;
    struct err err = {""};
    int32_t ids[130];
    for (int i = 0; i < 130; i++) ids[i] = 300 + i;
    cr_assert_eq(engine_open(FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf", config, &e, &err),
                 STATUS_OK, "%s", err.message);
    cr_assert_eq(session_create(e, &s, &err), STATUS_OK);
    cr_assert_eq(session_prefill(s, ids, 130, &err), STATUS_OK);
    cr_assert_eq(session_decode(s, 1, &err), STATUS_OK);
    session_close(s);
    return e;
}

/* fa_tq and fa_splits may not change a bit, so bits cannot tell that they were read: what attention did must. */
Test(break_suite, an_option_without_bits_ignored) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    struct engine_config one = c.config, two;
    one.compute.geometry.fa_chunk = 64;
    two = one;
    two.compute.geometry.fa_splits = 1;
    two.compute.geometry.fa_tq = 128;
    engine *of_one = worked(&one), *of_two = worked(&two);
    for (int tiles = 0; tiles < 2; tiles++) {
        streams_used_row(&a, tiles, &one, of_one, &two, of_two);
        cr_assert_eq(last.verdict, VERDICT_PASS, "%s: %s", last.test_case, last.note);
        streams_used_row(&a, tiles, &one, of_one, &two, of_one); /* asked for the other, and did as before */
        cr_assert(last.verdict == VERDICT_FAIL && last.value == 1, "%s: %s", last.test_case, last.note);
        streams_used_row(&a, tiles, &one, of_one, &one, of_one);
        cr_assert_eq(last.verdict, VERDICT_SKIP, "nothing was asked");
    }
    engine_close(of_one);
    engine_close(of_two);
}
