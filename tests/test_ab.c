/* test_ab.c - the perf decision on made-up rounds, and one small engine timed for real.
 * Source: ours. Exercise: ctest -R unit.ab */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/ab.h"
#include "gates/table.h"

#define MODEL FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"

TestSuite(ab, .timeout = 60);

/* Rounds with these prefill speeds for A, A again and B; decode is ten times as slow. */
static struct ab_result *rounds_of(int n, const double a[], const double again[], const double b[]) {
    static struct ab_result r;
    const double *const speeds[AB_ARMS] = {a, again, b};
    memset(&r, 0, sizeof r);
    r.rounds = n;
    for (int arm = 0; arm < AB_ARMS; arm++) {
        for (int i = 0; i < n; i++) {
            r.samples[arm][i].round.prefill = speeds[arm][i];
            r.samples[arm][i].round.decode = speeds[arm][i] / 10;
        }
    }
    return &r;
}

static enum ab_verdict decide(const double a[5], const double again[5], const double b[5]) {
    struct ab_decision d = ab_decide(rounds_of(5, a, again, b), 0, 0.015);
    cr_assert(strstr(d.reason, ab_verdict_name(d.verdict)) != NULL, "%s", d.reason);
    struct ab_decision e = ab_decide(rounds_of(5, a, again, b), 1, 0.015);
    cr_assert_eq(d.verdict, e.verdict, "decode is judged by the same rule");
    return d.verdict;
}

static const double quiet[5] = {100, 101, 99, 100, 100}, quiet_again[5] = {100, 99, 101, 100.5, 100};

Test(ab, a_headline_needs_the_bar_and_separation) {
    const double clear[5] = {104, 105, 103, 104, 106}, overlapping[5] = {104, 105, 100.9, 104, 106};
    cr_assert_eq(decide(quiet, quiet_again, clear), AB_HEADLINE);
    cr_assert_eq(decide(quiet, quiet_again, overlapping), AB_FASTER, "one round of B is below one of A");
}

Test(ab, less_than_the_bar_is_missed_and_worse_is_slower) {
    const double little[5] = {101.1, 101.2, 101.3, 101.2, 101.4}, slow[5] = {98, 98, 97, 98, 98};
    cr_assert_eq(decide(quiet, quiet_again, little), AB_MISSED, "separated, but not by the bar");
    cr_assert_eq(decide(quiet, quiet_again, slow), AB_SLOWER);
    cr_assert_eq(decide(quiet, quiet_again, quiet_again), AB_MISSED);
}

/* A machine whose clock moves gives a gain to whatever ran later; the A/A arm shows it. */
Test(ab, no_decision_when_a_against_a_is_not_flat) {
    const double drifted[5] = {102, 103, 101, 102, 102}, fast[5] = {110, 111, 109, 110, 112};
    cr_assert_eq(decide(quiet, drifted, fast), AB_NO_DECISION, "even a large gain decides nothing");
}

/* Medians that agree by luck: single rounds of A differ by far more than the bar, and B's lie among them. */
Test(ab, no_decision_when_the_rounds_of_a_scatter_over_those_of_b) {
    const double wild[5] = {63, 100, 31, 100, 102}, wild_again[5] = {62, 100, 33, 140, 101};
    const double among[5] = {104, 105, 103, 104, 106}, far[5] = {204, 205, 203, 204, 206};
    const double behind[5] = {20, 21, 22, 20, 21};
    cr_assert_eq(decide(wild, wild_again, among), AB_NO_DECISION);
    cr_assert_eq(decide(wild, wild_again, far), AB_HEADLINE, "no round of A comes near");
    cr_assert_eq(decide(wild, wild_again, behind), AB_SLOWER);
}

Test(ab, nan_never_decides) {
    const double broken[5] = {100, 100, NAN, 100, 100}, fast[5] = {110, 111, 109, 110, 112};
    cr_assert_eq(decide(quiet, quiet_again, broken), AB_NO_DECISION);
    cr_assert_eq(decide(broken, quiet_again, fast), AB_NO_DECISION);
    cr_assert_eq(decide(quiet, broken, fast), AB_NO_DECISION);
    struct ab_decision d = ab_decide(rounds_of(5, quiet, quiet_again, fast), 0, (double)NAN);
    cr_assert_eq(d.verdict, AB_NO_DECISION, "a bar that is no number");
    d = ab_decide(rounds_of(5, quiet, quiet_again, fast), 0, 0.0);
    cr_assert_eq(d.verdict, AB_NO_DECISION, "no bar at all");
}

/* ---- rounds ---- */
struct fake {
    char *log; /* shared: who was measured, in order */
    char name;
    int calls, change_at; /* from this call on its logits are others; 0: never */
};

static enum status fake_measure(void *ctx, struct ab_sample *out, struct err *err) {
    struct fake *f = ctx;
    (void)err;
    f->calls++;
    f->log[strlen(f->log)] = f->name;
    out->round.prefill = out->round.decode = 100.0;
    memset(&out->round.logits, f->name, sizeof out->round.logits);
    if (f->change_at > 0 && f->calls >= f->change_at) out->round.logits.bytes[3] ^= 1;
    return STATUS_OK;
}

static enum status run_fakes(int rounds, int change_a, int change_b, char log[256], struct err *err) {
    static struct ab_result r;
    struct fake a = {log, 'A', 0, change_a}, b = {log, 'B', 0, change_b};
    struct ab_plan plan;
    memset(log, 0, 256);
    memset(&plan, 0, sizeof plan);
    plan.measure[0] = plan.measure[1] = fake_measure;
    plan.ctx[0] = &a;
    plan.ctx[1] = &b;
    plan.rounds = rounds;
    enum status s = ab_run(&plan, &r, err);
    if (s == STATUS_OK) cr_assert(r.rounds == rounds && !r.same_logits, "rounds %d", r.rounds);
    return s;
}

Test(ab, rounds_are_interleaved_in_alternating_order) {
    char log[256];
    struct err err = {""};
    cr_assert_eq(run_fakes(4, 0, 0, log, &err), STATUS_OK, "%s", err.message);
    cr_assert_str_eq(log, "AABBAAABAAAB", "got %s", log);
}

Test(ab, a_side_that_changes_its_logits_is_an_error_not_a_time) {
    char log[256];
    struct err err = {""};
    cr_assert_eq(run_fakes(4, 0, 3, log, &err), STATUS_INVALID);
    cr_assert(strstr(err.message, "round 3, side B") != NULL, "%s", err.message);
    cr_assert_eq(run_fakes(4, 2, 0, log, &err), STATUS_INVALID, "A against A");
    cr_assert(strstr(err.message, "round 1, side A'") != NULL, "%s", err.message);
    cr_assert_eq(run_fakes(2, 0, 0, log, &err), STATUS_USAGE, "two rounds decide nothing");
    cr_assert_eq(run_fakes(AB_ROUNDS_MAX + 1, 0, 0, log, &err), STATUS_USAGE);
}

Test(ab, every_round_is_written) {
    char path[] = "/tmp/forkgate-ab-test-XXXXXX";
    int fd = mkstemp(path);
    struct err err = {""};
    table *t = NULL;
    cr_assert(fd >= 0);
    (void)close(fd);
    cr_assert_eq(ab_write_csv(path, rounds_of(5, quiet, quiet_again, quiet), &err), STATUS_OK, "%s",
                 err.message);
    cr_assert_eq(table_read(path, &t, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(table_rows(t), 15);
    int place = table_find(t, "place"), side = table_find(t, "side");
    cr_assert_str_eq(table_cell(t, 0, side, NULL), "A");
    cr_assert_str_eq(table_cell(t, 5, side, NULL), "B");
    cr_assert_str_eq(table_cell(t, 5, place, NULL), "1", "B comes first in the second round");
    table_close(t);
    (void)unlink(path);
}

/* ---- one engine ---- */
static bench *open_bench(void) {
    static const struct bench_work work = {"test", "It was a dark night", 19, 2, 0};
    struct engine_config c = engine_config_default();
    struct err err = {""};
    bench *b = NULL;
    c.compute.graphs = 0;
    cr_assert_eq(bench_start(MODEL, &c, &work, &b, &err), STATUS_OK, "%s", err.message);
    return b;
}

Test(ab, a_round_has_speeds_and_the_same_logits_again) {
    bench *b = open_bench();
    struct bench_round x, y;
    struct err err = {""};
    char clock[24];
    cr_assert_eq(bench_warm(b, 0.0, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(bench_run(b, &x, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(bench_run(b, &y, &err), STATUS_OK, "%s", err.message);
    cr_assert(isfinite(x.prefill) && x.prefill > 0 && isfinite(x.decode) && x.decode > 0, "%g %g", x.prefill,
              x.decode);
    cr_assert(!!hash_equal(&x.logits, &y.logits), "two rounds, two answers");
    bench_clock(clock, sizeof clock);
    cr_assert(strstr(clock, "MHz") != NULL || strcmp(clock, "unknown") == 0, "%s", clock);
    bench_close(b);
}

/* An engine that answers otherwise from some call on: one residual value moved by one step. */
static enum status (*honest_add)(struct backend *, float *, const float *, int64_t, struct err *);
static int honest_calls;

static enum status lying_add(struct backend *self, float *x, const float *t, int64_t n, struct err *err) {
    enum status s = honest_add(self, x, t, n, err);
    if (honest_calls-- <= 0) x[n - 1] += 0.01f;
    return s;
}

Test(ab, a_fast_wrong_answer_is_refused) {
    bench *b = open_bench();
    struct backend *backend = engine_backend(bench_engine(b));
    struct bench_round r;
    struct err err = {""};
    cr_assert_eq(bench_run(b, &r, &err), STATUS_OK, "%s", err.message);
    honest_add = backend->add;
    honest_calls = 5;
    backend->add = lying_add;
    cr_assert_eq(bench_run(b, &r, &err), STATUS_INVALID);
    cr_assert(strstr(err.message, "first round") != NULL, "%s", err.message);
    backend->add = honest_add;
    bench_close(b);
}

Test(ab, ops_are_timed_and_the_table_is_put_back) {
    bench *b = open_bench();
    struct backend *backend = engine_backend(bench_engine(b)), before = *backend;
    struct op_times prefill, decode;
    struct bench_round r;
    struct err err = {""};
    cr_assert_eq(bench_run(b, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(bench_ops(b, &prefill, &decode, &err), STATUS_OK, "the shims change no bit: %s",
                 err.message);
    for (int op = 0; op < TIMED_OPS; op++) {
        cr_assert(prefill.calls[op] > 0, "%s was not called in the prefill",
                  op_timer_name((enum timed_op)op));
        cr_assert(decode.calls[op] > 0, "%s was not called in a decode step",
                  op_timer_name((enum timed_op)op));
        cr_assert(isfinite(decode.seconds[op]) && decode.seconds[op] >= 0, "seconds");
    }
    cr_assert(backend->matmul == before.matmul && backend->top2 == before.top2 &&
                  backend->embed == before.embed,
              "the table is as it was");
    cr_assert_eq(op_timer_attach(bench_engine(b), &err), STATUS_OK);
    cr_assert_eq(op_timer_attach(bench_engine(b), &err), STATUS_USAGE, "one at a time");
    op_timer_detach();
    op_timer_detach();
    bench_close(b);
}
