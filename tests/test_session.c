/* test_session.c - one timeline, many ways to compute it: every way gives the same bits. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define MODEL FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"
static const char text[] =
    "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals";

static engine *open_engine(enum route route, int chunk) {
    struct engine_config c = engine_config_default();
    struct err err = {""};
    engine *e = NULL;
    c.compute.route = route;
    c.compute.n_threads = 1;
    c.chunk = chunk;
    c.n_ctx = 128;
    cr_assert_eq(engine_open(MODEL, &c, &e, &err), STATUS_OK, "open: %s", err.message);
    return e;
}

static session *open_session(engine *e) {
    session *s = NULL;
    struct err err = {""};
    cr_assert_eq(session_create(e, &s, &err), STATUS_OK, "session: %s", err.message);
    return s;
}

static size_t encode(engine *e, int32_t **ids) {
    size_t n = 0;
    struct err err = {""};
    cr_assert_eq(engine_encode(e, text, sizeof text - 1, 0, ids, &n, &err), STATUS_OK, "encode: %s",
                 err.message);
    cr_assert(n > 16 && n < 64, "unexpected token count %zu", n);
    return n;
}

static void must(enum status s, const struct err *err) {
    cr_assert_eq(s, STATUS_OK, "%s", err->message);
}

static size_t row_bytes(const engine *e) {
    struct engine_info info;
    engine_describe(e, &info);
    return (size_t)info.n_vocab * sizeof(float);
}

/* The reference of this file: the prompt as one step. */
static float *whole_prompt_logits(enum route route) {
    engine *e = open_engine(route, 512);
    session *s = open_session(e);
    int32_t *ids = NULL;
    struct err err = {""};
    size_t n = encode(e, &ids);
    must(session_prefill(s, ids, n, &err), &err);
    float *row = malloc(row_bytes(e));
    memcpy(row, session_logits(s), row_bytes(e));
    cr_assert_eq(session_overflows(s), 0);
    free(ids);
    session_close(s);
    engine_close(e);
    return row;
}

Test(session, every_chunking_gives_the_same_bits) {
    for (int route = 0; route < 3; route++) {
        float *want = whole_prompt_logits((enum route)route);
        static const int chunks[] = {1, 3, 7, 16};
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            engine *e = open_engine((enum route)route, chunks[i]);
            session *s = open_session(e);
            int32_t *ids = NULL;
            struct err err = {""};
            size_t n = encode(e, &ids);
            must(session_prefill(s, ids, n, &err), &err);
            cr_assert(memcmp(want, session_logits(s), row_bytes(e)) == 0, "route %d chunk %d differs", route,
                      chunks[i]);
            free(ids);
            session_close(s);
            engine_close(e);
        }
        free(want);
    }
}

Test(session, decode_equals_prefill_and_a_noisy_tail_is_never_read) {
    for (int route = 0; route < 2; route++) {
        float *want = whole_prompt_logits((enum route)route);
        engine *e = open_engine((enum route)route, 512);
        session *s = open_session(e);
        struct kv_cache *kv = session_kv(s);
        size_t bytes =
            (size_t)kv->n_layer * (size_t)kv->n_ctx * (size_t)kv->n_kv_head * (size_t)kv->head_dim * 2;
        memset(kv->k, 0xff, bytes); /* every element a NaN */
        memset(kv->v, 0xff, bytes);
        int32_t *ids = NULL;
        struct err err = {""};
        size_t n = encode(e, &ids);
        must(session_prefill(s, ids, 5, &err), &err);
        for (size_t i = 5; i < n; i++) must(session_decode(s, ids[i], &err), &err);
        cr_assert(memcmp(want, session_logits(s), row_bytes(e)) == 0, "route %d: decode differs from prefill",
                  route);
        cr_assert_eq(session_pos(s), (int)n);
        free(ids);
        free(want);
        session_close(s);
        engine_close(e);
    }
}

Test(session, a_stream_is_the_same_alone_and_in_every_slot_of_a_batch) {
    for (int route = 0; route < 2; route++) {
        engine *e = open_engine((enum route)route, 512);
        session *alone = open_session(e), *batch[BATCH_MAX];
        int32_t *ids = NULL;
        struct err err = {""};
        size_t n = encode(e, &ids), bytes = row_bytes(e);
        must(session_prefill(alone, ids, 9, &err), &err);
        for (size_t i = 9; i < 14; i++) must(session_decode(alone, ids[i], &err), &err);
        for (int slot = 0; slot < BATCH_MAX; slot++) {
            for (int b = 0; b < BATCH_MAX; b++) { /* neighbours of other lengths, other texts */
                batch[b] = open_session(e);
                size_t from = b == slot ? 0 : (size_t)b + 1;
                must(session_prefill(batch[b], ids + from, b == slot ? 9 : 3 + (size_t)b, &err), &err);
            }
            for (size_t i = 9; i < 14; i++) {
                int32_t next[BATCH_MAX];
                for (int b = 0; b < BATCH_MAX; b++) next[b] = b == slot ? ids[i] : ids[(i + (size_t)b) % n];
                must(engine_decode_batch(e, batch, next, BATCH_MAX, &err), &err);
            }
            cr_assert(memcmp(session_logits(alone), session_logits(batch[slot]), bytes) == 0,
                      "route %d slot %d", route, slot);
            for (int b = 0; b < BATCH_MAX; b++) session_close(batch[b]);
        }
        free(ids);
        session_close(alone);
        engine_close(e);
    }
}

Test(session, rewind_forgets) {
    engine *e = open_engine(ROUTE_F16, 512);
    session *s = open_session(e);
    int32_t *ids = NULL;
    struct err err = {""};
    size_t n = encode(e, &ids), bytes = row_bytes(e);
    must(session_prefill(s, ids, n, &err), &err);
    float *want = malloc(bytes);
    memcpy(want, session_logits(s), bytes);
    must(session_rewind(s, 6, &err), &err);
    cr_assert(session_logits(s) == NULL, "logits of a dropped position are still there");
    must(session_prefill(s, ids + 1, n - 1, &err), &err); /* another text over the same slots */
    must(session_rewind(s, 0, &err), &err);
    must(session_prefill(s, ids, n, &err), &err);
    cr_assert(memcmp(want, session_logits(s), bytes) == 0, "rewind left something behind");
    cr_assert_eq(session_rewind(s, (int)n + 1, &err), STATUS_USAGE);
    free(want);
    free(ids);
    session_close(s);
    engine_close(e);
}

static void count_events(void *ctx, const struct trace_event *event) {
    int *count = ctx;
    count[0]++;
    if (strcmp(event->op, "attention") == 0) count[1]++;
}

Test(session, an_observer_sees_every_op_and_changes_nothing) {
    float *want = whole_prompt_logits(ROUTE_F16);
    engine *e = open_engine(ROUTE_F16, 512);
    session *s = open_session(e);
    int32_t *ids = NULL;
    int count[2] = {0, 0};
    struct err err = {""};
    size_t n = encode(e, &ids);
    must(engine_set_trace(e, count_events, count, &err), &err);
    must(session_prefill(s, ids, n, &err), &err);
    cr_assert(memcmp(want, session_logits(s), row_bytes(e)) == 0, "watching changed the bits");
    struct engine_info info;
    engine_describe(e, &info);
    cr_assert_eq(count[1], info.n_layer, "saw %d attention events", count[1]);
    cr_assert_eq(count[0], 1 + info.n_layer * 15 + 2, "saw %d events", count[0]);
    free(want);
    free(ids);
    session_close(s);
    engine_close(e);
}

struct tap_seen {
    int events, act, kv, data, last_pos;
    float first_norm; /* the first value of the first norm, read where it lies */
};

static enum status look(void *ctx, struct backend *b, const struct tap_event *event, struct err *err) {
    struct tap_seen *seen = ctx;
    seen->events++;
    seen->act += event->act != NULL;
    seen->kv += event->kv != NULL && event->n_seq == 1;
    seen->data += event->data != NULL;
    seen->last_pos = event->pos[event->rows - 1];
    if (seen->events == 2) return b->copy_out(b, &seen->first_norm, event->data, sizeof(float), err);
    return STATUS_OK;
}

static enum status refuse(void *ctx, struct backend *b, const struct tap_event *event, struct err *err) {
    (void)ctx;
    (void)b;
    return err_set(err, STATUS_LIMIT, "enough at %s", event->op);
}

Test(session, a_tap_sees_prepared_activations_and_the_cache_too_and_may_stop_a_step) {
    float *want = whole_prompt_logits(ROUTE_Q8);
    engine *e = open_engine(ROUTE_Q8, 512);
    session *s = open_session(e);
    int32_t *ids = NULL;
    struct tap_seen seen = {0, 0, 0, 0, 0, 0.0f};
    struct err err = {""};
    struct engine_info info;
    size_t n = encode(e, &ids);
    engine_describe(e, &info);
    engine_set_tap(e, look, &seen);
    must(session_prefill(s, ids, n, &err), &err);
    cr_assert(memcmp(want, session_logits(s), row_bytes(e)) == 0, "watching changed the bits");
    cr_assert_eq(seen.data, 1 + info.n_layer * 15 + 2, "saw %d tensors", seen.data);
    cr_assert_eq(seen.act, info.n_layer * 4 + 1, "saw %d prepared inputs", seen.act);
    cr_assert_eq(seen.kv, info.n_layer, "saw %d appends", seen.kv);
    cr_assert_eq(seen.last_pos, (int)n - 1, "the head's row is of position %d", seen.last_pos);
    cr_assert(seen.first_norm != 0.0f, "nothing was read");
    must(session_rewind(s, 0, &err), &err);
    engine_set_tap(e, refuse, NULL);
    cr_assert_eq(session_prefill(s, ids, n, &err), STATUS_LIMIT);
    cr_assert_str_eq(err.message, "enough at embed");
    free(want);
    free(ids);
    session_close(s);
    engine_close(e);
}

static enum status count_rows(void *ctx, int pos, const float *logits, const struct top2 *top,
                              struct err *err) {
    (void)logits;
    (void)top;
    (void)err;
    int *next = ctx;
    cr_assert_eq(pos, *next, "row of position %d where %d was due", pos, *next);
    (*next)++;
    return STATUS_OK;
}

Test(session, misuse_is_refused_by_name_and_costs_nothing) {
    engine *e = open_engine(ROUTE_Q8, 512);
    session *s = open_session(e), *twice[2] = {s, s};
    struct err err = {""};
    int32_t bad[2] = {1, 4096}, ok[2] = {1, 2}, many[200] = {0};
    int next = 0;
    cr_assert_eq(session_prefill(s, bad, 2, &err), STATUS_INVALID);
    cr_assert(strstr(err.message, "4096") != NULL, "message does not name the id: %s", err.message);
    cr_assert_eq(session_prefill(s, ok, 0, &err), STATUS_USAGE);
    cr_assert_eq(session_prefill(s, many, 200, &err), STATUS_LIMIT);
    cr_assert_eq(engine_decode_batch(e, twice, ok, 2, &err), STATUS_USAGE);
    cr_assert_eq(session_pos(s), 0, "a refused call moved the session");
    must(session_score(s, ok, 2, count_rows, &next, &err), &err);
    cr_assert_eq(next, 2);
    session_close(s);
    engine_close(e);
    struct engine_config c = engine_config_default();
    c.kv = KV_F32;
    cr_assert_eq(engine_open(MODEL, &c, &e, &err), STATUS_USAGE, "f32 cache on route f16 was accepted");
    c.kv = KV_F16;
    cr_assert_eq(engine_open(FORKGATE_SOURCE_DIR "/fixtures/none.gguf", &c, &e, &err), STATUS_IO);
    cr_assert(strstr(err.message, "none.gguf") != NULL, "message does not name the file: %s", err.message);
}
