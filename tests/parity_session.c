/* parity_session.c - device_parity for whole sessions: a step takes and gives back no memory, whatever kind of step it is.
 * Not a comparison with the twin (the goldens are): here `mismatches` are allocations and frees, counted where the backend
 * makes them, of device and of page-locked memory.
 * Idea: open everything first, then prefill, decode eagerly and by graphs, batch, rewind, score, watch and trace.
 * Source: ours. Exercise: device_parity --op session */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/checksum.h"
#include "../engine/engine.h"
#include "parity_rig.h"

enum { SESSIONS = 3, PROMPT = 11, CHUNK = 4, DECODES = 4, N_CTX = 64 };

struct stand {
    engine *e;
    session *s[SESSIONS];
    uint64_t before; /* memory_calls when the stage began */
    long seen;       /* events of a watcher */
};

static const int32_t ids[PROMPT] = {5, 300, 7, 41, 1000, 2, 999, 64, 63, 12, 31};

static enum status prefill(struct stand *t, struct err *err) {
    for (int i = 0; i < SESSIONS; i++)
        RETURN_IF_ERROR(session_prefill(t->s[i], ids, PROMPT - (size_t)i, err));
    return STATUS_OK;
}

static enum status decode(struct stand *t, struct err *err) {
    for (int n = 0; n < DECODES; n++) RETURN_IF_ERROR(session_decode(t->s[0], ids[n], err));
    return STATUS_OK;
}

static enum status batch(struct stand *t, struct err *err) {
    for (int n = 0; n < DECODES; n++)
        RETURN_IF_ERROR(engine_decode_batch(t->e, t->s, ids + n, SESSIONS, err));
    return STATUS_OK;
}

static enum status rewound(struct stand *t, struct err *err) {
    RETURN_IF_ERROR(session_rewind(t->s[0], PROMPT / 2, err));
    return decode(t, err);
}

static enum status ignore_row(void *ctx, int pos, const float *logits, const struct top2 *top,
                              struct err *err) {
    (void)pos, (void)logits, (void)top, (void)err;
    (*(long *)ctx)++;
    return STATUS_OK;
}

static enum status scored(struct stand *t, struct err *err) {
    return session_score(t->s[1], ids, PROMPT, ignore_row, &t->seen, err);
}

static enum status look(void *ctx, struct backend *b, const struct tap_event *e, struct err *err) {
    struct kernel_count census[BACKEND_KERNELS_MAX];
    struct row_sum sums[CHUNK_MAX];
    float first;
    int n = 0;
    if (e->data == NULL || b->waiting(b, census, &n) > 0) return STATUS_OK;
    (*(long *)ctx)++;
    struct row_span rows = {ROWS_F32, e->data, e->rows, e->cols, e->cols};
    RETURN_IF_ERROR(b->row_sums(b, &rows, sums, err));
    return b->peek(b, &first, e->data, sizeof first, err);
}

static void note(void *ctx, const struct trace_event *event) {
    (void)event;
    (*(long *)ctx)++;
}

static enum status watched(struct stand *t, struct err *err) {
    engine_set_tap(t->e, look, &t->seen);
    enum status s = prefill(t, err);
    if (s == STATUS_OK) s = decode(t, err);
    engine_set_tap(t->e, NULL, NULL);
    return s;
}

/* engine_set_trace takes the host memory of the copies; the steps take none. */
static enum status traced(struct stand *t, struct err *err) {
    RETURN_IF_ERROR(engine_set_trace(t->e, note, &t->seen, err));
    enum status s = decode(t, err);
    struct err ignored;
    (void)engine_set_trace(t->e, NULL, NULL, &ignored);
    return s;
}

static const struct stage {
    const char *name;
    enum status (*run)(struct stand *t, struct err *err);
    int watches;
} stages[] = {{"prefill", prefill, 0}, {"decode", decode, 0}, {"batch", batch, 0}, {"rewind", rewound, 0},
              {"score", scored, 1},    {"watch", watched, 1}, {"trace", traced, 1}};

static void open_stand(struct rig *r, struct stand *t, enum route route, enum kv_dtype kv, int graphs) {
    const char *root = getenv("FORKGATE_ROOT");
    char path[4096];
    struct engine_config c = engine_config_default();
    (void)snprintf(path, sizeof path, "%.4000s/fixtures/models/seedling-q8_0.gguf",
                   root != NULL ? root : FORKGATE_SOURCE_DIR);
    c.backend = BACKEND_CUDA;
    c.compute.route = route;
    c.compute.graphs = graphs;
    c.kv = kv;
    c.chunk = CHUNK;
    c.n_ctx = N_CTX;
    memset(t, 0, sizeof *t);
    enum status s = engine_open(path, &c, &t->e, &r->err);
    for (int i = 0; i < SESSIONS && s == STATUS_OK; i++) s = session_create(t->e, &t->s[i], &r->err);
    if (s == STATUS_OK) return;
    fprintf(stderr, "device_parity: %s\n", r->err.message);
    exit(2);
}

static void session_suite(struct rig *r, enum route route, enum kv_dtype kv, int graphs) {
    struct stand t;
    open_stand(r, &t, route, kv, graphs);
    const struct backend *b = engine_backend(t.e);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        struct verdict v;
        verdict_begin(&v, "session", route_name(route), graphs ? "graph" : "eager", "%s kv=%s sessions=%d",
                      stages[i].name, kv_dtype_name(kv), SESSIONS);
        t.before = b->memory_calls;
        t.seen = 0;
        if (stages[i].run(&t, &r->err) != STATUS_OK) {
            fprintf(stderr, "device_parity: %s: %s\n", stages[i].name, r->err.message);
            v.mismatches = 1, v.where = "error";
        } else if (b->memory_calls != t.before) {
            v.mismatches = (long)(b->memory_calls - t.before), v.where = "memory calls";
        } else if (stages[i].watches && t.seen == 0) {
            v.mismatches = 1, v.where = "nothing was watched";
        }
        verdict_end(r, &v);
    }
    for (int i = 0; i < SESSIONS; i++) session_close(t.s[i]);
    engine_close(t.e);
}

void parity_session(struct rig *r) {
    if (!rig_wants(r, "session") || (r->quick && r->only == NULL))
        return; /* a sanitizer has no time for it */
    for (int route = ROUTE_F16; route <= ROUTE_Q8; route++)
        for (int graphs = 0; graphs < 2; graphs++)
            if (!r->quick || graphs == (route == ROUTE_F16))
                session_suite(r, (enum route)route, graphs ? KV_F16 : KV_Q8_0, graphs);
}
