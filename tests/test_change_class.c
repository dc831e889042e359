/* test_change_class.c - class fa excuses forks from the goldens where tier 4 judges them, and nothing else.
 * Source: ours. Exercise: ctest -R unit.change_class */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/runner.h"

TestSuite(change_class, .timeout = 60);

static const char *arm_of_row, *note_of_row;

static enum status one_fail(const struct gate_context *ctx, struct err *err) {
    struct evidence row;
    (void)err;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.arm, sizeof row.arm, "%s", arm_of_row);
    (void)snprintf(row.note, sizeof row.note, "%s", note_of_row);
    (void)snprintf(row.metric, sizeof row.metric, "rows");
    row.value = 3;
    row.verdict = VERDICT_FAIL;
    ctx->emit(ctx->sink, &row);
    (void)snprintf(row.arm, sizeof row.arm, "negative");
    row.value = 0;
    row.verdict = VERDICT_PASS;
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}

static enum status one_pass(const struct gate_context *ctx, struct err *err) {
    struct evidence row;
    (void)err;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.metric, sizeof row.metric, "rows");
    row.verdict = VERDICT_PASS;
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}

static const struct gate golden = {"stream.golden.f16", TIER_IDENTITY, "c", 0, 0, 20, one_fail};
static const struct gate repeat = {"stream.repeat.f16", TIER_IDENTITY, "c", 0, 0, 20, one_fail};
static const struct gate tolerance = {"tolerance.x", TIER_TOLERANCE, "c", 0, 0, 20, one_pass};

/* Runs the gate and the tolerance gate; returns the exit code and the verdict of the first row. */
static int run_class(const struct gate *g, int class_fa, int with_tolerance, const char *arm,
                     const char *note, enum verdict *row) {
    const struct gate *const registry[] = {g, &tolerance, NULL};
    struct runner_options o;
    struct run_result r;
    struct err err = {""};
    memset(&o, 0, sizeof o);
    o.context.config = engine_config_default();
    o.registry = registry;
    o.tiers[TIER_IDENTITY] = 1;
    o.tiers[TIER_TOLERANCE] = with_tolerance;
    o.class_fa = class_fa;
    o.jobs = 1;
    arm_of_row = arm;
    note_of_row = note;
    cr_assert_eq(runner_run(&o, &r, &err), STATUS_OK, "%s", err.message);
    int code = verdict_exit_code(r.counts);
    *row = r.gates[0].rows[0].verdict;
    if (*row == VERDICT_SKIP) {
        cr_assert(strstr(r.gates[0].rows[0].note, "judged by tier 4: ") != NULL, "%s",
                  r.gates[0].rows[0].note);
        cr_assert(r.gates[0].rows[0].value > 2, "the numbers stay");
        cr_assert_eq(r.gates[0].verdict, VERDICT_SKIP, "streams off the rails are no pass");
        cr_assert_eq(r.gates[1].verdict, VERDICT_PASS, "tier 4 was run");
    }
    runner_free(&r);
    return code;
}

Test(change_class, fa_hands_forks_to_tier_4) {
    enum verdict row;
    cr_assert_eq(run_class(&golden, 1, 1, "golden", "fork at token 36", &row), 0);
    cr_assert_eq(row, VERDICT_SKIP);
    cr_assert_eq(run_class(&golden, 1, 1, "base", "fork at token 36", &row), 0, "--base instead of goldens");
    cr_assert_eq(run_class(&golden, 1, 1, "first-step", "the first step differs", &row), 0, "--base, n=1");
    cr_assert_eq(row, VERDICT_SKIP);
}

Test(change_class, nothing_else_is_excused) {
    enum verdict row;
    cr_assert_eq(run_class(&golden, 0, 1, "golden", "fork at token 36", &row), 1, "class bitwise");
    cr_assert_eq(row, VERDICT_FAIL);
    cr_assert_eq(run_class(&golden, 1, 0, "golden", "fork at token 36", &row), 1, "tier 4 is not run");
    cr_assert_eq(row, VERDICT_FAIL);
    cr_assert_eq(run_class(&golden, 1, 1, "golden", "INVALID: NaN", &row), 1, "a broken stream");
    cr_assert_eq(run_class(&golden, 1, 1, "greedy", "token is not the argmax", &row), 1, "another arm");
    cr_assert_eq(run_class(&repeat, 1, 1, "golden", "fork", &row), 1, "a gate without goldens");
}

/* The time-outs are those of a small model; a large one that is sound must not run into them. */
Test(change_class, a_large_model_is_given_time) {
    char path[] = "/tmp/forkgate-patience-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && ftruncate(fd, 98 << 20) == 0);
    double some = runner_patience(path);
    cr_assert(some > 4 && some < 5, "%g", some);
    cr_assert_eq(ftruncate(fd, 1 << 30), 0);
    double most = runner_patience(path);
    cr_assert(most > 19.9 && most < 20.1, "%g", most);
    (void)close(fd);
    (void)unlink(path);
    double embedded = runner_patience(FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf");
    cr_assert(embedded >= 1 && embedded < 1.5, "%g", embedded);
    double none = runner_patience(path);
    cr_assert(none > 0.9 && none < 1.1, "%g", none);
}

static enum status no_decision(const struct gate_context *ctx, struct err *err) {
    struct evidence row;
    (void)err;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.metric, sizeof row.metric, "none");
    row.value = row.bound = (double)NAN;
    row.verdict = VERDICT_PASS; /* the clocks: nothing is compared */
    ctx->emit(ctx->sink, &row);
    row.verdict = VERDICT_INCONCLUSIVE;
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}

/* A gate that is open already has not claimed to agree: its own word stands, and no ERROR is put over it. */
Test(change_class, a_gate_without_a_decision_says_so_itself) {
    static const struct gate perf = {"perf.x", TIER_PERF, "c", 0, 0, 20, no_decision};
    const struct gate *const registry[] = {&perf, NULL};
    struct runner_options o;
    struct run_result r;
    struct err err = {""};
    memset(&o, 0, sizeof o);
    o.context.config = engine_config_default();
    o.registry = registry;
    o.tiers[TIER_PERF] = o.jobs = 1;
    cr_assert_eq(runner_run(&o, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert(r.gates[0].verdict == VERDICT_INCONCLUSIVE && r.gates[0].n_rows == 2);
    cr_assert_eq(runner_exit_code(&r), 2);
    runner_free(&r);
}
