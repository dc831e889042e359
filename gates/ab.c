/* ab.c - see ab.h: the rounds and the decision. Measuring another binary is in ab_binary.c. */
#include "gates/ab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/stats.h"
#include "gates/table.h"

/* The order of a round: A and A again change places and B wanders, so that over three rounds each arm was first once. */
static const enum ab_arm orders[3][AB_ARMS] = {{AB_A, AB_AA, AB_B}, {AB_B, AB_A, AB_AA}, {AB_AA, AB_B, AB_A}};

const char *ab_arm_name(enum ab_arm arm) {
    static const char *const names[AB_ARMS] = {"A", "A'", "B"};
    return names[arm];
}

const char *ab_verdict_name(enum ab_verdict v) {
    static const char *const names[AB_VERDICTS] = {"HEADLINE", "FASTER", "MISSED", "SLOWER", "NO-DECISION"};
    return names[v];
}

/* ---- rounds ---------------------------------------------------------------------------------------------------- */
static enum status measure(const struct ab_plan *plan, struct ab_result *r, int round, enum ab_arm arm,
                           struct err *err) {
    int side = arm == AB_B;
    struct ab_sample *s = &r->samples[arm][round];
    bench_clock(s->clock, sizeof s->clock);
    enum status status = plan->measure[side](plan->ctx[side], s, err);
    if (status != STATUS_OK) return err_prefix(err, status, "round %d, side %s", round + 1, ab_arm_name(arm));
    const struct ab_sample *first = &r->samples[side ? AB_B : orders[0][0]][0];
    if (!hash_equal(&first->round.logits, &s->round.logits))
        return err_set(err, STATUS_INVALID, "round %d, side %s: its logits are not those of its first round",
                       round + 1, ab_arm_name(arm));
    if (plan->on_round != NULL) plan->on_round(plan->sink, round, arm, s);
    return STATUS_OK;
}

enum status ab_run(const struct ab_plan *plan, struct ab_result *out, struct err *err) {
    memset(out, 0, sizeof *out);
    if (plan->rounds < AB_ROUNDS_MIN || plan->rounds > AB_ROUNDS_MAX)
        return err_set(err, STATUS_USAGE, "ab: %d rounds (%d to %d)", plan->rounds, AB_ROUNDS_MIN,
                       AB_ROUNDS_MAX);
    for (int round = 0; round < plan->rounds; round++) {
        const enum ab_arm *order = orders[round % 3];
        for (int i = 0; i < AB_ARMS; i++) RETURN_IF_ERROR(measure(plan, out, round, order[i], err));
        out->rounds = round + 1;
    }
    out->same_logits = hash_equal(&out->samples[AB_A][0].round.logits, &out->samples[AB_B][0].round.logits);
    return STATUS_OK;
}

/* ---- decision -------------------------------------------------------------------------------------------------- */
static double value_of(const struct ab_sample *s, int decode) {
    return decode ? s->round.decode : s->round.prefill;
}

static void collect(const struct ab_result *r, enum ab_arm arm, int decode, double *out) {
    for (int i = 0; i < r->rounds; i++) out[i] = value_of(&r->samples[arm][i], decode);
}

/* Is the slowest round of `fast` faster than the fastest of `slow`? */
static int beats(const double *fast, int n_fast, const double *slow, int n_slow) {
    double least = (double)INFINITY, most = 0.0;
    for (int i = 0; i < n_fast; i++) least = fmin(least, fast[i]);
    for (int i = 0; i < n_slow; i++) most = fmax(most, slow[i]);
    return least > most;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The distance of the quartiles over the median; sorts x. */
static double spread_of(double *x, int n) {
    int half = n / 2;
    qsort(x, (size_t)n, sizeof *x, by_value);
    return (stats_median(x + (n - half), (size_t)half) - stats_median(x, (size_t)half)) /
           stats_median(x, (size_t)n);
}

/* Medians of rounds that scatter by more than the bar say nothing, unless no round of one side reaches the other's. */
static enum ab_verdict verdict_of(const struct ab_decision *d, int apart, double bar) {
    if (!(d->flatness <= d->flat_bound) || isnan(d->gain)) return AB_NO_DECISION;
    if (!apart && !(d->spread <= bar)) return AB_NO_DECISION;
    if (d->gain >= bar) return d->separated ? AB_HEADLINE : AB_FASTER;
    return d->gain <= -bar ? AB_SLOWER : AB_MISSED;
}

struct ab_decision ab_decide(const struct ab_result *r, int decode, double bar) {
    struct ab_decision d;
    double values[2 * AB_ROUNDS_MAX], rounds[AB_ROUNDS_MAX]; /* of both A arms; of B */
    memset(&d, 0, sizeof d);
    for (int arm = 0; arm < AB_ARMS; arm++) {
        collect(r, (enum ab_arm)arm, decode, values);
        d.median[arm] = stats_median(values, (size_t)r->rounds);
    }
    collect(r, AB_A, decode, values);
    collect(r, AB_AA, decode, values + r->rounds);
    d.gain = d.median[AB_B] / stats_median(values, 2 * (size_t)r->rounds) - 1.0;
    d.flatness = fabs(d.median[AB_AA] / d.median[AB_A] - 1.0);
    d.flat_bound = bar > 0.0 && bar < 10.0 ? 0.5 * bar : (double)NAN;
    collect(r, AB_B, decode, rounds);
    d.separated = beats(rounds, r->rounds, values, 2 * r->rounds);
    int apart = d.separated || beats(values, 2 * r->rounds, rounds, r->rounds);
    d.spread = spread_of(values, 2 * r->rounds);
    d.verdict = verdict_of(&d, apart, bar);
    (void)snprintf(
        d.reason, sizeof d.reason,
        "%s: median B %.2f, A %.2f, A again %.2f tok/s: %+.2f %% (bar %+.2f %%); A against A %.2f %% (flat "
        "within %.2f %%), its rounds spread over %.2f %%; %s",
        ab_verdict_name(d.verdict), d.median[AB_B], d.median[AB_A], d.median[AB_AA], 100.0 * d.gain,
        100.0 * bar, 100.0 * d.flatness, 100.0 * d.flat_bound, 100.0 * d.spread,
        d.separated ? "slowest B beats fastest A" : "single rounds overlap");
    return d;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */
static int place_of(int round, enum ab_arm arm) {
    int at = 0;
    while (orders[round % 3][at] != arm) at++;
    return at;
}

enum status ab_write_csv(const char *path, const struct ab_result *r, struct err *err) {
    static const char *const columns[] = {"round",        "place", "side",  "prefill_tok_s",
                                          "decode_tok_s", "clock", "logits"};
    table_writer *w = NULL;
    char hash[HASH_TEXT_BYTES];
    RETURN_IF_ERROR(table_writer_open(path, NULL, TABLE_CRLF, columns, 7, &w, err));
    for (int i = 0; i < r->rounds; i++) {
        for (int arm = 0; arm < AB_ARMS; arm++) {
            const struct ab_sample *s = &r->samples[arm][i];
            hash_format(&s->round.logits, hash);
            table_put_i64(w, i + 1);
            table_put_i64(w, place_of(i, (enum ab_arm)arm) + 1);
            table_put_text(w, ab_arm_name((enum ab_arm)arm));
            table_put_f64(w, s->round.prefill);
            table_put_f64(w, s->round.decode);
            table_put_text(w, s->clock);
            table_put_text(w, hash);
            table_end_row(w);
        }
    }
    return table_writer_finish(w, err);
}

enum status ab_measure_bench(void *ctx, struct ab_sample *out, struct err *err) {
    return bench_run(ctx, &out->round, err);
}
