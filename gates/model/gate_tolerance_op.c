/* gate_tolerance_op.c - CLAIM: at the candidate's geometry attention and the f16 products stay within their oracle bounds on
 * ordinary and outlier-magnitude data, and attention is as good as a plain untiled form.
 * Needs: no model, and a candidate that is this build: SKIP where it is another engine. Arms: oracle, plain-2x, census,
 * negative, of the op gates of tier 1, at the candidate's geometry.
 * Exercise: forkgate run --tier tolerance --class fa --cause TEXT --only tolerance.op */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gates/model/model_gates.h"
#include "gates/ops/op_gates.h"
#include "gates/shell_word.h"

struct filter {
    const struct gate_context *ctx;
    size_t kept, negatives;
};

/* Of the op gates' rows, those that DESIGN 5 point 1 asks for; outliers are |q| ~ 57 and |v| ~ 144. */
static int wanted(const struct evidence *row) {
    static const char *const arms[] = {"oracle", "plain-2x", "census", "launched"};
    if (strcmp(row->arm, "negative") == 0) return 1;
    if (strstr(row->test_case, "family=normal") == NULL && strstr(row->test_case, "family=outlier") == NULL)
        return 0;
    if (strstr(row->kernels, "_q8") != NULL || strstr(row->kernels, "_f32") != NULL) return 0;
    for (size_t i = 0; i < sizeof arms / sizeof arms[0]; i++)
        if (strcmp(row->arm, arms[i]) == 0) return 1;
    return 0;
}

static void forward(void *sink, const struct evidence *row) {
    struct filter *f = sink;
    struct evidence own = *row;
    char text[sizeof own.test_case];
    if (!wanted(row)) return;
    own.tier = TIER_TOLERANCE;
    (void)snprintf(text, sizeof text, "%s %.100s",
                   strstr(row->kernels, "matmul") != NULL ? "matmul" : "attention", row->test_case);
    memcpy(own.test_case, text, sizeof text);
    f->kept++;
    f->negatives += strcmp(row->arm, "negative") == 0;
    f->ctx->emit(f->ctx->sink, &own);
}

static enum status run_one(const struct gate *g, struct filter *f, struct err *err) {
    struct gate_context own = *f->ctx;
    size_t kept = f->kept, negatives = f->negatives;
    own.emit = forward;
    own.sink = f;
    own.only = NULL;
    RETURN_IF_ERROR(g->run(&own, err));
    if (f->kept - kept > 1 && f->negatives > negatives) return STATUS_OK;
    return err_set(err, STATUS_INVALID, "%s left no oracle row or no negative row", g->id);
}

/* These are the kernels of this build; another engine's were not launched here, so nothing is known of them. */
static void other_engine(const struct gate_context *ctx) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.arm, sizeof row.arm, "oracle");
    (void)snprintf(row.metric, sizeof row.metric, "none");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --only tolerance.op --engine-cmd");
    if (!shell_word_add(row.repro, sizeof row.repro, ctx->engine_cmd))
        (void)snprintf(row.repro, sizeof row.repro, "# too long for a row: the command of the run");
    (void)snprintf(
        row.note, sizeof row.note,
        "the kernels of another engine do not run here: write their outputs as .fgt and compare them "
        "with forkgate diff A.fgt B.fgt");
    row.value = row.bound = (double)NAN;
    row.verdict = VERDICT_SKIP;
    ctx->emit(ctx->sink, &row);
}

static enum status run(const struct gate_context *ctx, struct err *err) {
    struct filter f = {ctx, 0, 0};
    if (ctx->engine_cmd != NULL) {
        other_engine(ctx);
        return STATUS_OK;
    }
    RETURN_IF_ERROR(run_one(&gate_op_attention, &f, err));
    return run_one(&gate_op_matmul, &f, err);
}

const struct gate gate_tolerance_op = {
    "tolerance.op",
    TIER_TOLERANCE,
    "at the candidate's geometry attention and f16 products stay within their oracle bounds",
    0,
    0,
    300,
    run};
