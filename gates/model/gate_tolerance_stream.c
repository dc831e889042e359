/* gate_tolerance_stream.c - CLAIM: for a change with a named cause, only the grouping of sums changed: no clear choice moved,
 * every fork is a near-tie, and forks are no more frequent than a legal regrouping's.
 * Needs: model, --cause, a base. Arms: a/a, benign, forced, greedy, sampling, text, negative.
 * Exercise: forkgate run --tier tolerance --class fa --cause 'FA_TKV 32->16' --geometry fa_tkv=16 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gates/model/model_gates.h"
#include "gates/model/tolerance_package.h"

#define TOKENS 256
#define FRESH  8 /* streams decoded again in a fresh process; all are forced again there */

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct tolerance_plan plan = {
        "tolerance.stream.f16", ROUTE_F16, NULL, {"whale-512.txt", "pepys-1k.txt", NULL}, TOKENS, FRESH};
    return tolerance_package_run(ctx, &plan, err);
}

/* On q8 a moved ULP becomes quantisation noise: the tier runs only when that route is asked for, and then mostly says how
 * little it can see. */
static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct tolerance_plan plan = {"tolerance.stream.q8", ROUTE_Q8, NULL, {NULL}, TOKENS, FRESH};
    if (ctx->config.compute.route == ROUTE_Q8) return tolerance_package_run(ctx, &plan, err);
    struct evidence row;
    memset(&row, 0, sizeof row);
    row.tier = TIER_TOLERANCE;
    (void)snprintf(row.gate, sizeof row.gate, "tolerance.stream.q8");
    (void)snprintf(row.arm, sizeof row.arm, "run");
    (void)snprintf(row.metric, sizeof row.metric, "none");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.note, sizeof row.note,
                   "q8 is judged by its bits (tiers 1 to 3); --route q8 prints its delta and near-tie share");
    (void)snprintf(row.repro, sizeof row.repro,
                   "forkgate run --tier tolerance --only tolerance.stream.q8 --route q8");
    row.value = row.bound = (double)NAN;
    row.verdict = VERDICT_SKIP;
    ctx->emit(ctx->sink, &row);
    return STATUS_OK;
}

const struct gate gate_tolerance_stream_f16 = {
    "tolerance.stream.f16",
    TIER_TOLERANCE,
    "only the grouping of sums changed: no clear choice moved, every fork is a near-tie (route f16)",
    1,
    0,
    1800,
    run_f16};

const struct gate gate_tolerance_stream_q8 = {
    "tolerance.stream.q8",
    TIER_TOLERANCE,
    "the same on route q8, where near-ties are so many that the tier can see little",
    1,
    0,
    1800,
    run_q8};
