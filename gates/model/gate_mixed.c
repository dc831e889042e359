/* gate_mixed.c - CLAIM: on a model of mixed storage types (q4_k_m) a stream is the same row by row, in one prefill and in
 * a batch, on route q8. Needs: nothing, it makes a tiny synthetic q4_K/q6_K model. There the consumers of one prepared
 * input differ (q4_K reads the sums of the codes, q6_K does not): a producer that writes what one of them needs leaves
 * the other with an older row's. Arms: prefill-decode, chunk-1, batch, negative.
 * Exercise: forkgate run --only stream.mixed.q8 */
#include <stdio.h>

#include "engine/make_model.h"
#include "gates/child_process.h"
#include "gates/model/model_gates.h"
#include "gates/model/streams.h"

#define SHORT_BYTES 400 /* the tiny context holds 512 positions, and a byte may be one */
#define TOKENS      12

static void compare_all(const struct stream_arm *a, const char *arm, const struct streams *s,
                        dump *const *want, dump *const *got) {
    for (int i = 0; i < s->n; i++)
        (void)streams_row(a, arm, s->prompts[i].name, want[i], got[i], UINT64_MAX, "measured");
}

/* Forced through one prefill in chunks of `chunk`. */
static enum status score(const struct stream_arm *a, struct engine_config config, const char *arm, int chunk,
                         const struct streams *s, dump *const *base, struct err *err) {
    struct stream_arm own;
    dump *got[STREAMS_MAX];
    config.chunk = chunk;
    RETURN_IF_ERROR(streams_other_open(a, &config, &own, err));
    enum status status = streams_score(own.engine, s, base, got, err);
    if (status == STATUS_OK) {
        compare_all(&own, arm, s, base, got);
        streams_close(got, s->n);
    }
    streams_other_close(&own, arm, status);
    return status;
}

static enum status batch(const struct stream_arm *a, const struct streams *s, dump *const *base,
                         struct err *err) {
    dump *got[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, BATCH_MAX, 0, got, err));
    compare_all(a, "batch", s, base, got);
    streams_close(got, s->n);
    return STATUS_OK;
}

static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, struct err *err) {
    dump *base[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, 1, 0, base, err));
    enum status status = score(a, *config, "prefill-decode", CHUNK_DEFAULT, s, base, err);
    if (status == STATUS_OK) status = score(a, *config, "chunk-1", 1, s, base, err);
    if (status == STATUS_OK) status = batch(a, s, base, err);
    if (status == STATUS_OK) status = streams_negative_row(a, base[0], err);
    streams_close(base, s->n);
    return status;
}

/* The battery is the short prompts, full or not: the tiny model's context ends there. */
static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.mixed.q8", ROUTE_Q8, SHORT_BYTES, TOKENS, judge};
    struct gate_context own = *ctx;
    char folder[256], model[300];
    RETURN_IF_ERROR(child_folder_make("forkgate-mixed", folder, err));
    (void)snprintf(model, sizeof model, "%s/mixed.gguf", folder);
    struct make_model_request r = {.out = model, .shape = "tiny", .quant = "q4_k_m"};
    enum status s = make_model(&r, err);
    own.model_path = model;
    own.full_battery = 0;
    if (s == STATUS_OK) s = streams_gate(&own, &plan, err);
    child_folder_remove(folder);
    return s;
}

const struct gate gate_stream_mixed_q8 = {
    "stream.mixed.q8",
    TIER_IDENTITY,
    "on a mixed-type model, prefill, decode and batch agree bit for bit (route q8)",
    0,
    0,
    120,
    run_q8};
