/* generate.c - see generate.h: streams advance together, one batched decode step at a time. */
#include "gates/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/stream.h"

/* A running stream and its place in the caller's order. */
struct slot {
    struct stream *stream;
    int request;
};

static enum status slot_finish(struct slot *slot, dump **out, struct err *err) {
    enum status s = stream_finish(slot->stream, &out[slot->request], err);
    slot->stream = NULL;
    return s;
}

/* Starts requests until one needs another step (a budget of one token ends at its prefill) or none is left. */
static enum status slot_start(engine *e, const struct generate_request *requests, int n, int *next,
                              struct slot *slot, dump **out, struct err *err) {
    while (slot->stream == NULL && *next < n) {
        slot->request = (*next)++;
        RETURN_IF_ERROR(stream_open(e, &requests[slot->request], &slot->stream, err));
        RETURN_IF_ERROR(stream_take_logits(slot->stream, err));
        if (stream_ended(slot->stream)) RETURN_IF_ERROR(slot_finish(slot, out, err));
    }
    return STATUS_OK;
}

static enum status step_all(engine *e, struct slot *slots, int n_slots, uint64_t *done, struct err *err) {
    session *sessions[BATCH_MAX];
    int32_t ids[BATCH_MAX];
    struct stream *streams[BATCH_MAX];
    int n = 0;
    for (int i = 0; i < n_slots; i++) {
        if (slots[i].stream == NULL) continue;
        streams[n] = slots[i].stream;
        sessions[n] = stream_session(streams[n]);
        ids[n] = stream_last_token(streams[n]);
        n++;
    }
    RETURN_IF_ERROR(engine_decode_batch(e, sessions, ids, n, err));
    for (int i = 0; i < n; i++) RETURN_IF_ERROR(stream_take_logits(streams[i], err));
    *done += (uint64_t)n;
    return STATUS_OK;
}

static int slots_busy(const struct slot *slots, int n_slots) {
    int busy = 0;
    for (int i = 0; i < n_slots; i++) busy += slots[i].stream != NULL;
    return busy;
}

static enum status run_slots(engine *e, const struct generate_request *requests, int n, struct slot *slots,
                             int n_slots, generate_progress *progress, void *ctx, dump **out,
                             struct err *err) {
    uint64_t done = 0, total = 0;
    int next = 0;
    for (int i = 0; i < n; i++) total += (uint64_t)requests[i].n;
    for (;;) {
        for (int i = 0; i < n_slots; i++)
            RETURN_IF_ERROR(slot_start(e, requests, n, &next, &slots[i], out, err));
        if (slots_busy(slots, n_slots) == 0) return STATUS_OK;
        RETURN_IF_ERROR(step_all(e, slots, n_slots, &done, err));
        for (int i = 0; i < n_slots; i++)
            if (slots[i].stream != NULL && stream_ended(slots[i].stream))
                RETURN_IF_ERROR(slot_finish(&slots[i], out, err));
        if (progress != NULL) progress(ctx, done, total);
    }
}

enum status generate_run(engine *e, const struct generate_request *requests, int n_requests, int batch,
                         generate_progress *progress, void *ctx, dump **out, struct err *err) {
    if (batch < 1 || batch > BATCH_MAX)
        return err_set(err, STATUS_USAGE, "generate: batch of %d streams (1 to %d)", batch, BATCH_MAX);
    struct slot slots[BATCH_MAX];
    memset(slots, 0, sizeof slots);
    for (int i = 0; i < n_requests; i++) out[i] = NULL;
    enum status s = run_slots(e, requests, n_requests, slots, batch, progress, ctx, out, err);
    for (int i = 0; i < batch; i++) stream_abandon(slots[i].stream);
    if (s == STATUS_OK) return s;
    for (int i = 0; i < n_requests; i++) {
        dump_close(out[i]);
        out[i] = NULL;
    }
    return s;
}

static enum status score_row(void *ctx, int pos, const float *logits, const struct top2 *top,
                             struct err *err) {
    (void)pos;
    return stream_take_row(ctx, logits, top, err);
}

enum status generate_score(engine *e, const struct generate_request *request, dump **out, struct err *err) {
    *out = NULL;
    if (request->follow == NULL) return err_set(err, STATUS_USAGE, "score: no stream to follow");
    struct stream *st = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(stream_open_forced(e, request, &st, &ids, &n, err));
    enum status s = session_score(stream_session(st), ids, n, score_row, st, err);
    free(ids);
    if (s != STATUS_OK) {
        stream_abandon(st);
        return s;
    }
    return stream_finish(st, out, err);
}
