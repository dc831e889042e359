/* test_verdicts.c - gates that crash, hang, exit, say nothing or only skip: the run survives and is never green. */
#include <criterion/criterion.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/runner.h"
#include "gates/runner_child.h"
#include "gates/under.h"

static void emit(const struct gate_context *ctx, enum verdict v, const char *note) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    row.verdict = v;
    strcpy(row.metric, "differ");
    row.value = v == VERDICT_FAIL ? 1 : 0; /* of a bound of 0 */
    strncpy(row.note, note, sizeof row.note - 1);
    ctx->emit(ctx->sink, &row);
}

static enum status run_pass(const struct gate_context *ctx, struct err *err) {
    (void)err;
    for (int i = 0; i < 500; i++) emit(ctx, VERDICT_PASS, "fine");
    return STATUS_OK;
}
static enum status run_fail(const struct gate_context *ctx, struct err *err) {
    (void)err;
    emit(ctx, VERDICT_PASS, "fine");
    emit(ctx, VERDICT_FAIL, "broken");
    return STATUS_OK;
}
static enum status run_skip(const struct gate_context *ctx, struct err *err) {
    (void)err;
    emit(ctx, VERDICT_SKIP, "no device");
    return STATUS_OK;
}
static enum status run_blind(const struct gate_context *ctx, struct err *err) {
    (void)err;
    emit(ctx, VERDICT_PASS, "fine");
    emit(ctx, VERDICT_BLIND, "the negative arm passed");
    return STATUS_OK;
}
/* A check for each of three prompts, the last of them red, and one that is of none. */
static enum status run_prompts(const struct gate_context *ctx, struct err *err) {
    static const char *const cases[] = {"holmes.txt", "watson.txt", "fa_tkv watson.txt", "events",
                                        "night.txt"};
    (void)err;
    for (int i = 0; i < 5; i++) {
        struct evidence row;
        memset(&row, 0, sizeof row);
        row.verdict = i == 4 ? VERDICT_FAIL : VERDICT_PASS;
        strcpy(row.metric, "differ");
        row.value = i == 4;
        strcpy(row.test_case, cases[i]);
        ctx->emit(ctx->sink, &row);
    }
    return STATUS_OK;
}
static enum status run_silent(const struct gate_context *ctx, struct err *err) {
    (void)ctx;
    (void)err;
    return STATUS_OK;
}
/* Says PASS four ways without having compared anything. */
static enum status run_blank(const struct gate_context *ctx, struct err *err) {
    struct evidence row;
    (void)err;
    memset(&row, 0, sizeof row);
    row.verdict = VERDICT_PASS;
    ctx->emit(ctx->sink, &row);
    strcpy(row.metric, "none");
    ctx->emit(ctx->sink, &row);
    strcpy(row.metric, "max_abs"); /* a value without a bound */
    row.bound = (double)NAN;
    ctx->emit(ctx->sink, &row);
    strcpy(row.ref, "0123"); /* a hash that nothing was held against */
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}
static enum status run_hashes(const struct gate_context *ctx, struct err *err) {
    struct evidence row;
    (void)err;
    memset(&row, 0, sizeof row);
    row.value = row.bound = (double)NAN;
    row.verdict = VERDICT_PASS;
    strcpy(row.ref, "0123");
    strcpy(row.got, "0123");
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}
static enum status run_lie(const struct gate_context *ctx, struct err *err) {
    struct evidence row;
    (void)err;
    memset(&row, 0, sizeof row);
    row.value = 2;
    row.bound = 1;
    row.verdict = VERDICT_PASS;
    strcpy(row.metric, "max_abs");
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}
static enum status run_trouble(const struct gate_context *ctx, struct err *err) {
    emit(ctx, VERDICT_PASS, "fine");
    return err_set(err, STATUS_IO, "model.gguf: no such file");
}
static enum status run_crash(const struct gate_context *ctx, struct err *err) {
    (void)err;
    emit(ctx, VERDICT_PASS, "before the crash");
    raise(SIGABRT); /* a signal that no sanitizer turns into an exit */
    return STATUS_OK;
}
static enum status run_exit0(const struct gate_context *ctx, struct err *err) {
    (void)err;
    emit(ctx, VERDICT_PASS, "then exit");
    _exit(0);
}
static enum status run_hang(const struct gate_context *ctx, struct err *err) {
    (void)err;
    emit(ctx, VERDICT_PASS, "before the hang");
    for (int i = 0; i < 1000; i++) pause();
    return STATUS_OK;
}

static const struct gate pass = {"g.pass", TIER_PARITY, "passes", 0, 0, 20, run_pass};
static const struct gate fail = {"g.fail", TIER_PARITY, "fails", 0, 0, 20, run_fail};
static const struct gate skip = {"g.skip", TIER_PARITY, "skips", 0, 0, 20, run_skip};
static const struct gate blind = {"g.blind", TIER_PARITY, "is blind", 0, 0, 20, run_blind};
static const struct gate silent = {"g.silent", TIER_PARITY, "says nothing", 0, 0, 20, run_silent};
static const struct gate blank = {"g.blank", TIER_PARITY, "compares nothing", 0, 0, 20, run_blank};
static const struct gate hashes = {"g.hashes", TIER_PARITY, "compares hashes", 0, 0, 20, run_hashes};
static const struct gate lie = {"g.lie", TIER_PARITY, "is over its bound", 0, 0, 20, run_lie};
static const struct gate trouble = {"g.trouble", TIER_PARITY, "cannot judge", 0, 0, 20, run_trouble};
static const struct gate crash = {"g.crash", TIER_PARITY, "crashes", 0, 0, 20, run_crash};
static const struct gate exit0 = {"g.exit0", TIER_PARITY, "exits with 0", 0, 0, 20, run_exit0};
static const struct gate hang = {"g.hang", TIER_PARITY, "hangs", 0, 0, 0.4, run_hang};
static const struct gate device = {"g.device", TIER_PARITY, "needs a device", 0, 1, 20, run_pass};
static const struct gate prompts = {"g.prompts", TIER_PARITY, "five checks", 0, 0, 20, run_prompts};
static const struct gate absent = {"g.absent", TIER_IDENTITY, "skips a tier", 0, 0, 20, run_skip};
static const struct gate later = {"g.later", TIER_IDENTITY, "runs later", 0, 0, 20, run_pass};

static struct run_result result;

static int run_with(const struct gate *const *registry, const char *only, int keep_going, int jobs) {
    struct runner_options o;
    memset(&o, 0, sizeof o);
    o.registry = registry;
    o.tiers[TIER_PARITY] = o.tiers[TIER_IDENTITY] = 1;
    o.context.only = only;
    o.context.config.compute.n_threads = 1;
    o.keep_going = keep_going;
    o.jobs = jobs;
    struct err err;
    cr_assert_eq(runner_run(&o, &result, &err), STATUS_OK, "%s", err.message);
    return runner_exit_code(&result);
}

static int run_one(const struct gate *g) {
    const struct gate *registry[] = {g, NULL};
    return run_with(registry, NULL, 0, 1);
}

static void expect(const struct gate *g, enum verdict v, int code, const char *note) {
    cr_assert_eq(run_one(g), code, "%s: exit code", g->id);
    cr_assert_eq(result.gates[0].verdict, v, "%s is %s", g->id, verdict_name(result.gates[0].verdict));
    const struct evidence *last = &result.gates[0].rows[result.gates[0].n_rows - 1];
    cr_assert(strstr(last->note, note) != NULL, "%s: %s", g->id, last->note);
    runner_free(&result);
}

Test(verdicts, each_ending_of_a_gate_has_its_verdict_and_exit_code) {
    expect(&pass, VERDICT_PASS, 0, "fine");
    expect(&fail, VERDICT_FAIL, 1, "broken");
    expect(&skip, VERDICT_SKIP, 2, "no device");
    expect(&blind, VERDICT_BLIND, 1, "negative arm passed");
    expect(&silent, VERDICT_ERROR, 2, "no evidence");
    expect(&blank, VERDICT_ERROR, 2, "compared nothing");
    expect(&hashes, VERDICT_PASS, 0, "");
    expect(&lie, VERDICT_ERROR, 2, "contradict");
    expect(&trouble, VERDICT_ERROR, 2, "no such file");
    expect(&crash, VERDICT_ERROR, 2, "signal 6");
    expect(&exit0, VERDICT_ERROR, 2, "ended early");
    expect(&hang, VERDICT_ERROR, 2, "time-out");
    expect(&device, VERDICT_SKIP, 2, "not selected");
}

Test(verdicts, rows_arrive_complete_and_in_order) {
    run_one(&pass);
    cr_assert_eq(result.gates[0].n_rows, 500);
    cr_assert_str_eq(result.gates[0].rows[499].gate, "g.pass");
    runner_free(&result);
}

Test(verdicts, an_empty_selection_is_not_green) {
    const struct gate *none[] = {NULL}, *one[] = {&pass, NULL};
    cr_assert_eq(run_with(none, NULL, 0, 1), 2);
    runner_free(&result);
    cr_assert_eq(run_with(one, "g.other", 0, 1), 2);
    cr_assert_eq(result.n, 0);
    runner_free(&result);
}

Test(verdicts, fail_outranks_error_and_the_run_goes_on_after_a_crash) {
    const struct gate *all[] = {&crash, &hang, &fail, &pass, NULL};
    for (int jobs = 1; jobs <= 3; jobs++) {
        cr_assert_eq(run_with(all, NULL, 0, jobs), 1, "jobs %d", jobs);
        cr_assert_eq(result.counts[VERDICT_ERROR], 2, "jobs %d", jobs);
        cr_assert_eq(result.counts[VERDICT_PASS], 1, "jobs %d", jobs);
        runner_free(&result);
    }
}

Test(verdicts, a_red_tier_stops_the_next_unless_told_otherwise) {
    const struct gate *all[] = {&fail, &later, NULL};
    run_with(all, NULL, 0, 1);
    cr_assert_eq(result.gates[1].verdict, VERDICT_SKIP);
    cr_assert(strstr(result.gates[1].rows[0].note, "parity is red") != NULL, "%s",
              result.gates[1].rows[0].note);
    runner_free(&result);
    cr_assert_eq(run_with(all, NULL, 1, 1), 1);
    cr_assert_eq(result.gates[1].verdict, VERDICT_PASS);
    runner_free(&result);
}

static size_t order[8], n_order;
static void note_order(void *sink, const struct gate_result *r) {
    const struct run_result *res = sink;
    order[n_order++] = (size_t)(r - res->gates);
}

Test(verdicts, results_are_reported_in_registry_order_whatever_finishes_first) {
    const struct gate *all[] = {&hang, &pass, &skip, NULL};
    struct runner_options o;
    memset(&o, 0, sizeof o);
    o.registry = all;
    o.tiers[TIER_PARITY] = 1;
    o.jobs = 3;
    o.on_result = note_order;
    o.sink = &result;
    struct err err;
    cr_assert_eq(runner_run(&o, &result, &err), STATUS_OK);
    cr_assert_eq(n_order, 3);
    for (size_t i = 0; i < 3; i++) cr_assert_eq(order[i], i);
    runner_free(&result);
}

Test(verdicts, only_selects_a_gate_by_its_whole_name_and_a_case_by_a_part) {
    cr_assert(runner_selects_gate("op.add", "op.add"), "itself");
    cr_assert(!runner_selects_gate("op.ad", "op.add"), "no prefix");
    cr_assert(!runner_selects_gate("op.add", "op.ad"), "no prefix the other way");
    cr_assert(runner_selects_gate("op.add/n=3", "op.add"), "with a case");
    cr_assert(runner_selects_case("op.add/n=3", "op.add", "rows=1 n=3 f32"), "part of the text");
    cr_assert(!runner_selects_case("op.add/n=4", "op.add", "rows=1 n=3 f32"), "another case");
    cr_assert(runner_selects_case(NULL, "op.add", "anything"), "no filter");
}

/* Whatever a gate does to make them: a stream gate runs all of its prompts. */
Test(verdicts, only_a_case_judges_its_own_checks_and_a_case_that_none_has_is_an_error) {
    static const struct {
        const char *only;
        int code;
        size_t n;
        enum verdict verdict;
    } want[] = {{"g.prompts", 1, 5, VERDICT_FAIL},
                {"g.prompts/watson", 0, 2, VERDICT_PASS},
                {"g.prompts/night", 1, 1, VERDICT_FAIL},
                {"g.prompts/zzz", 2, 1, VERDICT_ERROR}};
    const struct gate *registry[] = {&prompts, NULL};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        cr_assert_eq(run_with(registry, want[i].only, 0, 1), want[i].code, "%s", want[i].only);
        const struct gate_result *g = &result.gates[0];
        cr_assert(g->n_rows == want[i].n && g->verdict == want[i].verdict, "%s: %zu rows, %s", want[i].only,
                  g->n_rows, verdict_name(g->verdict));
        if (want[i].verdict == VERDICT_ERROR)
            cr_assert(strstr(g->rows[0].note, "none of its 5 checks is of a case with 'zzz' in it") != NULL,
                      "%s", g->rows[0].note);
        runner_free(&result);
    }
}

Test(verdicts, exit_codes_fold_as_declared) {
    uint64_t none[VERDICTS] = {0}, skips[VERDICTS] = {0}, mixed[VERDICTS] = {0};
    cr_assert_eq(verdict_exit_code(none), 2, "nothing ran");
    skips[VERDICT_SKIP] = 3;
    cr_assert_eq(verdict_exit_code(skips), 2, "only skips");
    mixed[VERDICT_PASS] = 9;
    cr_assert_eq(verdict_exit_code(mixed), 0);
    mixed[VERDICT_SKIP] = 1;
    cr_assert_eq(verdict_exit_code(mixed), 0, "a skip beside passes");
    mixed[VERDICT_INCONCLUSIVE] = 1;
    cr_assert_eq(verdict_exit_code(mixed), 2);
    mixed[VERDICT_BLIND] = 1;
    cr_assert_eq(verdict_exit_code(mixed), 1, "1 outranks 2");
    cr_assert_eq(verdict_worst(none), VERDICT_ERROR, "no row at all");
    cr_assert_eq(tier_from_name("identity"), TIER_IDENTITY);
    cr_assert_eq(tier_from_name("identit"), -1);
}

Test(verdicts, a_selected_tier_in_which_nothing_was_judged_is_not_green) {
    const struct gate *one_skips[] = {&pass, &skip, &later, NULL}, *tier_skips[] = {&pass, &absent, NULL};
    struct runner_unjudged list[2 * RUNNER_TIERS];
    cr_assert_eq(run_with(one_skips, NULL, 0, 1), 0, "an optional fixture beside judged gates");
    cr_assert_eq(runner_unjudged(&result, list), 0);
    runner_free(&result);
    cr_assert_eq(run_with(tier_skips, NULL, 0, 1), 2, "identity was selected and not judged");
    cr_assert_eq(verdict_exit_code(result.counts), 0, "by the gates alone it would be green");
    cr_assert_eq(runner_unjudged(&result, list), 1);
    cr_assert_eq(list[0].tier, TIER_IDENTITY);
    cr_assert_str_eq(list[0].why, "no device");
    cr_assert_str_eq(list[0].backend, "cpu");
    runner_free(&result);
    cr_assert_eq(run_with(tier_skips, "g.pass", 0, 1), 0, "nobody asked for the other tier");
    runner_free(&result);
}

Test(verdicts, a_backend_that_was_not_judged_is_not_covered_by_the_other) {
    struct run_result cpu, cuda;
    const struct gate *all[] = {&pass, NULL}, *skips[] = {&skip, NULL};
    struct err err;
    run_with(all, NULL, 0, 1);
    cpu = result;
    run_with(skips, NULL, 0, 1);
    cuda = result;
    cuda.gates[0].backend = "cuda";
    cr_assert_eq(runner_merge(&cpu, &cuda, &err), STATUS_OK);
    cr_assert(cpu.n == 2 && cuda.n == 0 && cpu.counts[VERDICT_SKIP] == 1, "%zu", cpu.n);
    cr_assert_eq(runner_exit_code(&cpu), 2);
    cr_assert_str_eq(cpu.gates[0].rows[0].backend, "cpu", "rows carry their backend");
    runner_free(&cpu);
}

Test(verdicts, a_row_that_finds_no_memory_is_an_error_and_no_smaller_pass) {
    struct evidence row;
    struct gate_result r;
    memset(&row, 0, sizeof row);
    memset(&r, 0, sizeof r);
    row.verdict = VERDICT_PASS;
    r.gate = &pass;
    runner_add_row(&r, &row);
    runner_fold(&r);
    cr_assert(r.verdict == VERDICT_PASS && r.n_rows == 1);
    r.n_rows = SIZE_MAX / sizeof row; /* as many rows as no memory holds */
    runner_add_row(&r, &row);
    cr_assert(r.lost);
    r.n_rows = 1;
    runner_fold(&r);
    cr_assert_eq(r.verdict, VERDICT_ERROR, "%s", verdict_name(r.verdict));
    free(r.rows);
}

Test(verdicts, control_runs_are_streams_of_one_build_against_itself) {
    static const char *const arms[] = {"run-to-run", "golden", "negative", "chunk-7", "heeded", "launched"};
    struct evidence rows[6];
    struct gate_result r = {.gate = &later, .rows = rows, .n_rows = 6};
    struct run_result run = {.gates = &r, .n = 1};
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 6; i++) {
        strcpy(rows[i].arm, arms[i]);
        strcpy(rows[i].test_case, "holmes.txt");
    }
    cr_assert(runner_controls(&run).streams == 2 && runner_controls(&run).alarms == 0);
    rows[3].verdict = VERDICT_FAIL;
    rows[1].verdict = VERDICT_FAIL; /* a fork from the golden is no control */
    cr_assert(runner_controls(&run).streams == 2 && runner_controls(&run).alarms == 1);
    rows[0].verdict = VERDICT_SKIP;
    cr_assert_eq(runner_controls(&run).streams, 1);
    static const struct gate tier4 = {.id = "t", .tier = TIER_TOLERANCE};
    r.gate = &tier4;
    strcpy(rows[2].arm, "a/a");
    strcpy(rows[2].test_case, "base again, fresh process, 64 streams forced");
    cr_assert_eq(runner_controls(&run).streams, 64);
}

Test(verdicts, a_tool_that_closes_without_a_summary_has_judged_nothing) {
    unsigned long errors = 9;
    char first[256];
    cr_assert_eq(under_count("ok gate\n", &errors, first, sizeof first), 0);
    cr_assert_eq(under_count("========= COMPUTE-SANITIZER\n========= Error: Device not supported.\n", &errors,
                             first, sizeof first),
                 0);
    cr_assert_str_eq(first, "Error: Device not supported.");
    cr_assert_eq(under_count("========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 3 errors\n",
                             &errors, first, sizeof first),
                 2);
    cr_assert_eq(errors, 3);
    cr_assert_eq(under_count("========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)",
                             &errors, first, sizeof first),
                 1);
    cr_assert_eq(errors, 2, "a warning of racecheck is a race");
    cr_assert_eq(under_count("the kernel printed ERROR SUMMARY: 0 errors\n", &errors, first, sizeof first), 0,
                 "not the tool's own line");
    cr_assert(under_is_tool("initcheck") && !under_is_tool("memchek"));
}
