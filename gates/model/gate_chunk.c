/* gate_chunk.c - CLAIM: tokens arriving one by one, in chunks of any size, or all at once leave the same logits: prefill
 * equals decode. Needs: model. Arms: prefill-decode, chunk-1, chunk-7, chunk-64: the stream forced through
 * one prefill in chunks of that size, row by row; heeded (the largest step was that size).
 * Exercise: forkgate run --only stream.chunk.f16 */
#include <stdio.h>
#include <stdlib.h>

#include "gates/model/model_gates.h"
#include "gates/model/streams.h"

#define SHORT_BYTES  1000 /* of a quick prompt: not the 498-token one */
#define QUICK_TOKENS 12
#define BRIEF_BYTES                                                                                          \
    400 /* of a prompt, for each row of a chunk, where the battery is brief: so many steps of a large model */

static int longest_of(const struct streams *s, dump *const *base) {
    int longest = 0;
    for (int i = 0; i < s->n; i++) {
        const char *tokens = provenance_get(dump_provenance(base[i]), "prompt.tokens");
        int n = tokens == NULL ? 0 : (int)strtol(tokens, NULL, 10);
        longest = n > longest ? n : longest;
    }
    return longest;
}

static enum status score_with_chunk(const struct stream_arm *a, struct engine_config config, int chunk,
                                    const struct streams *all, dump *const *all_bases, struct err *err) {
    char arm[32];
    dump *got[STREAMS_MAX], *base[STREAMS_MAX];
    struct streams taken = {.n = 0}, *s = &taken;
    for (int i = 0; i < all->n; i++) {
        if (all->brief && all->prompts[i].n > (size_t)(BRIEF_BYTES * chunk)) continue;
        base[s->n] = all_bases[i];
        s->prompts[s->n++] = all->prompts[i];
    }
    struct stream_arm own;
    config.chunk = chunk;
    (void)snprintf(arm, sizeof arm, chunk == CHUNK_DEFAULT ? "prefill-decode" : "chunk-%d", chunk);
    RETURN_IF_ERROR(streams_other_open(a, &config, &own, err));
    enum status status = witness_open(own.engine, err);
    if (status == STATUS_OK) status = streams_score(own.engine, s, base, got, err);
    const struct witness seen = witness_close();
    if (status == STATUS_OK) {
        streams_chunk_row(&own, chunk, &seen, longest_of(s, base));
        for (int i = 0; i < s->n; i++)
            (void)streams_row(&own, arm, s->prompts[i].name, base[i], got[i], UINT64_MAX, "measured");
        streams_close(got, s->n);
    }
    streams_other_close(&own, arm, status);
    return status;
}

/* base: made by single decode steps, one stream at a time. */
static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *s, struct err *err) {
    static const int chunks[] = {CHUNK_DEFAULT, 1, 7, 64};
    dump *base[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, 1, 0, base, err));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0] && status == STATUS_OK; i++)
        status = score_with_chunk(a, *config, chunks[i], s, base, err);
    if (status == STATUS_OK) status = streams_negative_row(a, base[0], err);
    streams_close(base, s->n);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.chunk.f16", ROUTE_F16, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.chunk.q8", ROUTE_Q8, SHORT_BYTES, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_chunk_f16 = {"stream.chunk.f16",
                                           TIER_IDENTITY,
                                           "prefill equals decode in chunks of every size (route f16)",
                                           1,
                                           0,
                                           300,
                                           run_f16};

const struct gate gate_stream_chunk_q8 = {"stream.chunk.q8",
                                          TIER_IDENTITY,
                                          "prefill equals decode in chunks of every size (route q8)",
                                          1,
                                          0,
                                          300,
                                          run_q8};
