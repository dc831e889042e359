/* gate_repeat.c - CLAIM: the same build, options and prompt give the same bits again: in the same engine, in another one
 * opened beside it, and in a fresh process. Needs: model. Arms: run-to-run, reopened, fresh-process, negative.
 * Exercise: forkgate run --only stream.repeat.f16 */
#include "gates/model/fresh.h"
#include "gates/model/model_gates.h"

#define SHORT_BYTES  1000 /* of a quick prompt: not the 498-token one */
#define QUICK_TOKENS 24   /* of each stream; the golden gate runs the whole battery */
#define QUICK_FRESH  2    /* prompts given to a fresh process */

static void compare_all(const struct stream_arm *a, const char *arm, const struct streams *s,
                        dump *const *want, dump *const *got) {
    for (int i = 0; i < s->n; i++)
        (void)streams_row(a, arm, s->prompts[i].name, want[i], got[i], UINT64_MAX, "measured");
}

static enum status again(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, dump *const *base, struct err *err) {
    struct stream_arm own;
    dump *got[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, BATCH_MAX, 0, got, err));
    compare_all(a, "run-to-run", s, base, got);
    streams_close(got, s->n);
    RETURN_IF_ERROR(streams_other_open(a, config, &own, err));
    enum status status = streams_run(own.engine, s, BATCH_MAX, 0, got, err);
    if (status == STATUS_OK) {
        compare_all(&own, "reopened", s, base, got);
        streams_close(got, s->n);
    }
    streams_other_close(&own, "reopened", status);
    return status;
}

static enum status fresh(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, dump *const *base, struct err *err) {
    int n = (a->ctx->full_battery && !s->brief) || s->n < QUICK_FRESH ? s->n : QUICK_FRESH;
    struct stream_arm child = *a;
    child.engine = NULL; /* its kernels ran in another process, which did not count them for us */
    for (int i = 0; i < n; i++) {
        int at = s->n - 1 - i; /* the longest prompts */
        dump *got = NULL;
        RETURN_IF_ERROR(fresh_stream(a->ctx, config, &s->prompts[at], &got, err));
        (void)streams_row(&child, "fresh-process", s->prompts[at].name, base[at], got, UINT64_MAX,
                          "measured");
        dump_close(got);
    }
    return STATUS_OK;
}

static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, struct err *err) {
    dump *base[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, BATCH_MAX, 0, base, err));
    enum status status = again(a, config, s, base, err);
    if (status == STATUS_OK) status = fresh(a, config, s, base, err);
    if (status == STATUS_OK) status = streams_negative_row(a, base[0], err);
    streams_close(base, s->n);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.repeat.f16", ROUTE_F16, SHORT_BYTES, QUICK_TOKENS,
                                             judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.repeat.q8", ROUTE_Q8, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_repeat_f16 = {
    "stream.repeat.f16",
    TIER_IDENTITY,
    "a run repeats itself bit for bit, in a fresh process too (route f16)",
    1,
    0,
    300,
    run_f16};

const struct gate gate_stream_repeat_q8 = {
    "stream.repeat.q8",
    TIER_IDENTITY,
    "a run repeats itself bit for bit, in a fresh process too (route q8)",
    1,
    0,
    300,
    run_q8};
