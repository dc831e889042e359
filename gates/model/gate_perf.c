/* gate_perf.c - CLAIM: the candidate prefills faster than the base by the bar that was named, on a machine quiet enough to
 * tell (A against A beside it).
 * Needs: model, a base that is not the candidate. Arms: perf, a/a, clock. Exercise: forkgate run --tier perf --geometry fa_tkv=64 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/ab.h"
#include "gates/model/model_gates.h"
#include "gates/side.h"
#include "gates/slurp.h"

#define PROMPT   "whale-512.txt"
#define BAR      0.015 /* of a whole prefill: below it, added code is not worth its lines */
#define ROUNDS   9
#define N_DECODE 16
#define WARM_S   0.5

struct perf {
    const struct gate_context *ctx;
    struct side base, candidate;
    char prompt_file[4096];
    char *prompt;
    size_t prompt_bytes;
    bench *bench[2];
    struct ab_binary binary[2];
    struct ab_result result;
};

static void row(const struct perf *p, const char *arm, const char *metric, double value, double bound,
                enum verdict v, const char *note) {
    struct evidence r;
    memset(&r, 0, sizeof r);
    r.tier = TIER_PERF;
    (void)snprintf(r.gate, sizeof r.gate, "perf.prefill");
    (void)snprintf(r.test_case, sizeof r.test_case, "%s, %d rounds", PROMPT, ROUNDS);
    (void)snprintf(r.arm, sizeof r.arm, "%s", arm);
    (void)snprintf(r.metric, sizeof r.metric, "%s", metric);
    (void)snprintf(r.grade, sizeof r.grade, "measured");
    (void)snprintf(r.note, sizeof r.note, "%s", note);
    (void)snprintf(r.repro, sizeof r.repro, "forkgate run --tier perf --only perf.prefill");
    r.value = value;
    r.bound = bound;
    r.verdict = v;
    p->ctx->emit(p->ctx->sink, &r);
}

static enum status read_prompt(struct perf *p, struct err *err) {
    (void)snprintf(p->prompt_file, sizeof p->prompt_file, "%.4000s/fixtures/prompts/%s", p->ctx->source_dir,
                   PROMPT);
    return slurp_file(p->prompt_file, &p->prompt, &p->prompt_bytes, err);
}

static enum status start(struct perf *p, int k, const struct side *s, struct ab_plan *plan, struct err *err) {
    struct bench_work w = {PROMPT, p->prompt, p->prompt_bytes, N_DECODE, 0};
    if (s->kind == SIDE_BINARY) {
        struct ab_binary b = {s->spec, s->model, p->prompt_file, s->config, N_DECODE, WARM_S};
        p->binary[k] = b;
        plan->measure[k] = ab_measure_binary;
        plan->ctx[k] = &p->binary[k];
        return STATUS_OK;
    }
    RETURN_IF_ERROR(bench_start(s->model, &s->config, &w, &p->bench[k], err));
    plan->measure[k] = ab_measure_bench;
    plan->ctx[k] = p->bench[k];
    return bench_warm(p->bench[k], WARM_S, err);
}

static void judge(const struct perf *p) {
    struct ab_decision d = ab_decide(&p->result, 0, BAR);
    int flat = d.flatness <= d.flat_bound, reached = d.verdict == AB_HEADLINE || d.verdict == AB_FASTER;
    char note[320];
    (void)snprintf(note, sizeof note, "clock before the rounds %s, after them %s",
                   p->result.samples[AB_A][0].clock, p->result.samples[AB_B][p->result.rounds - 1].clock);
    row(p, "clock", "none", (double)NAN, (double)NAN, VERDICT_PASS, note);
    row(p, "a/a", "change", d.flatness, d.flat_bound, flat ? VERDICT_PASS : VERDICT_INCONCLUSIVE,
        flat ? "the base against itself, interleaved" : "the base against itself is not flat: no decision");
    row(p, "perf", "missing_gain", BAR - d.gain, 0,
        d.verdict == AB_NO_DECISION ? VERDICT_INCONCLUSIVE
        : reached                   ? VERDICT_PASS
                                    : VERDICT_FAIL,
        d.reason);
}

static enum status run_perf(struct perf *p, struct err *err) {
    struct engine_config config = p->ctx->config;
    struct ab_plan plan;
    int same = 0;
    memset(&plan, 0, sizeof plan);
    plan.rounds = ROUNDS;
    RETURN_IF_ERROR(side_open(NULL, p->ctx->model_path, &config, &p->candidate, err));
    config.compute.geometry = geometry_default(config.compute.arch);
    RETURN_IF_ERROR(side_open(p->ctx->base, p->ctx->model_path, &config, &p->base, err));
    RETURN_IF_ERROR(side_same(&p->base, &p->candidate, p->ctx->self, &same, err));
    if (same || !side_takes_options(&p->base)) {
        row(p, "base", "none", (double)NAN, (double)NAN, VERDICT_INCONCLUSIVE,
            same ? "base and candidate are one program with one set of options: give --base BINARY or "
                   "--geometry"
                 : "the base is neither a build nor a binary: it cannot be timed");
        return STATUS_OK;
    }
    RETURN_IF_ERROR(read_prompt(p, err));
    RETURN_IF_ERROR(start(p, 0, &p->base, &plan, err));
    RETURN_IF_ERROR(start(p, 1, &p->candidate, &plan, err));
    RETURN_IF_ERROR(ab_run(&plan, &p->result, err));
    judge(p);
    return STATUS_OK;
}

static enum status run(const struct gate_context *ctx, struct err *err) {
    struct perf *p = calloc(1, sizeof *p);
    if (p == NULL) return err_set(err, STATUS_NOMEM, "perf: out of memory");
    p->ctx = ctx;
    enum status s = run_perf(p, err);
    for (int k = 0; k < 2; k++) bench_close(p->bench[k]);
    free(p->prompt);
    free(p);
    return s;
}

const struct gate gate_perf_prefill = {
    "perf.prefill",
    TIER_PERF,
    "a whole prefill is faster than the base's by the bar named before measuring (+1.5 %)",
    1,
    0,
    900,
    run};
