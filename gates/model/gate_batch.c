/* gate_batch.c - CLAIM: a stream's logits do not depend on who shares its batch, on its slot, or on the batch's size.
 * Needs: model. Arms: batch-slots: eight sessions decode together; at every step the streams rotate through the slots and
 * the batch is cut into groups of another size (1 to 8); every row must equal the stream run alone.
 * Exercise: forkgate run --only stream.batch.f16 */
#include <stdio.h>

#include "gates/model/forced.h"
#include "gates/model/model_gates.h"

#define SHORT_BYTES  1000 /* of a quick prompt: not the 498-token one */
#define QUICK_TOKENS 17   /* two turns through the eight slots */

/* Decodes members[order[begin .. begin+size)] as one batch. */
static enum status step_group(engine *e, struct forced *const *order, int size, struct err *err) {
    session *sessions[BATCH_MAX];
    int32_t ids[BATCH_MAX];
    char how[64];
    for (int i = 0; i < size; i++) {
        sessions[i] = order[i]->session;
        ids[i] = forced_token(order[i]);
    }
    RETURN_IF_ERROR(engine_decode_batch(e, sessions, ids, size, err));
    for (int i = 0; i < size; i++) {
        (void)snprintf(how, sizeof how, "slot %d of a batch of %d", i, size);
        forced_fed(order[i], how);
    }
    return STATUS_OK;
}

/* Every stream that goes on makes one step; the order rotates with t, and so does the size of the groups. */
static enum status step_all(engine *e, struct forced *members, int n, int t, int *went, struct err *err) {
    struct forced *order[BATCH_MAX];
    int active = 0, size = BATCH_MAX - t % BATCH_MAX;
    for (int i = 0; i < n; i++) {
        struct forced *m = &members[(i + t) % n];
        if (forced_more(m)) order[active++] = m;
    }
    *went = active;
    for (int begin = 0; begin < active; begin += size) {
        int part = active - begin < size ? active - begin : size;
        RETURN_IF_ERROR(step_group(e, order + begin, part, err));
    }
    return STATUS_OK;
}

static enum status run_members(const struct stream_arm *a, struct forced *members, int n, struct err *err) {
    for (int i = 0; i < n; i++)
        RETURN_IF_ERROR(forced_prefill(&members[i], "prefill beside open sessions", err));
    int went = 1;
    for (int t = 0; went > 0; t++) RETURN_IF_ERROR(step_all(a->engine, members, n, t, &went, err));
    for (int i = 0; i < n; i++) forced_row(a, "batch-slots", &members[i]);
    return STATUS_OK;
}

static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, struct err *err) {
    (void)config;
    dump *alone[STREAMS_MAX];
    struct forced members[BATCH_MAX];
    int opened = 0;
    RETURN_IF_ERROR(streams_run(a->engine, s, 1, 0, alone, err));
    enum status status = STATUS_OK;
    for (int i = 0; i < BATCH_MAX && status == STATUS_OK;
         i++) { /* fewer prompts than slots: one appears twice */
        status = forced_open(a->engine, &s->prompts[i % s->n], alone[i % s->n], &members[i], err);
        opened += status == STATUS_OK;
    }
    if (status == STATUS_OK) status = run_members(a, members, opened, err);
    for (int i = 0; i < opened; i++) forced_close(&members[i]);
    if (status == STATUS_OK) status = streams_negative_row(a, alone[0], err);
    streams_close(alone, s->n);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.batch.f16", ROUTE_F16, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.batch.q8", ROUTE_Q8, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_batch_f16 = {
    "stream.batch.f16",
    TIER_IDENTITY,
    "a stream is the same alone and in every slot of every batch (route f16)",
    1,
    0,
    300,
    run_f16};

const struct gate gate_stream_batch_q8 = {
    "stream.batch.q8",
    TIER_IDENTITY,
    "a stream is the same alone and in every slot of every batch (route q8)",
    1,
    0,
    300,
    run_q8};
