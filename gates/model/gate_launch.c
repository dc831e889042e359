/* gate_launch.c - CLAIM: nothing that may not carry bits carries any: threads, SIMD, query tile, splits, graphs, and
 * being watched. Needs: model. Arms: threads, simd-scalar (cpu), no-graph (cuda), fa_tq, fa_splits, observer (every op
 * copied out), observer-tap (every op screened where it lies, as explain does), full-dump (top-k and whole rows stored),
 * no-dump (driven without a dump), heeded (fa_tkv, fa_chunk and kv do carry bits: a run that another value of them does not
 * change has ignored them; of fa_tq and fa_splits attention says what it did, of threads and graphs the witness).
 * Exercise: forkgate run --only stream.launch.f16 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/checksum.h"
#include "gates/model/forced.h"
#include "gates/model/model_gates.h"

#define QUICK_TOKENS  6
#define SCALAR_BYTES  70 /* the scalar tensor-core model is slow: short prompts, few tokens */
#define SCALAR_TOKENS 2

static void compare_all(const struct stream_arm *a, const char *arm, const struct streams *s,
                        dump *const *want, dump *const *got, uint64_t n) {
    for (int i = 0; i < s->n; i++)
        (void)streams_row(a, arm, s->prompts[i].name, want[i], got[i], n, "measured");
}

static enum status variant(const struct stream_arm *a, const char *arm, const struct engine_config *config,
                           const struct streams *s, dump *const *base, struct err *err) {
    struct stream_arm own;
    dump *got[STREAMS_MAX];
    RETURN_IF_ERROR(streams_other_open(a, config, &own, err));
    enum status status = streams_run(own.engine, s, BATCH_MAX, 0, got, err);
    if (status == STATUS_OK) {
        compare_all(&own, arm, s, base, got, UINT64_MAX);
        streams_close(got, s->n);
    }
    streams_other_close(&own, arm, status);
    return status;
}

/* No bit may say that these two options were read, so attention's own account must. */
static enum status geometry_variant(const struct stream_arm *a, const char *arm,
                                    const struct engine_config *config, const struct engine_config *other,
                                    const struct streams *s, dump *const *base, struct err *err) {
    struct stream_arm own;
    dump *got[STREAMS_MAX];
    RETURN_IF_ERROR(streams_other_open(a, other, &own, err));
    enum status status = streams_run(own.engine, s, BATCH_MAX, 0, got, err);
    if (status == STATUS_OK) {
        compare_all(&own, arm, s, base, got, UINT64_MAX);
        streams_used_row(&own, strcmp(arm, "fa_tq") == 0, config, a->engine, other, own.engine);
        streams_close(got, s->n);
    }
    streams_other_close(&own, arm, status);
    return status;
}

static enum status geometry_variants(const struct stream_arm *a, const struct engine_config *config,
                                     const struct streams *s, dump *const *base, struct err *err) {
    struct engine_config c = *config;
    struct geometry *g = &c.compute.geometry;
    g->fa_tq = g->fa_tq == FA_TQ_MAX ? FA_TQ_DEFAULT : FA_TQ_MAX;
    RETURN_IF_ERROR(geometry_variant(a, "fa_tq", config, &c, s, base, err));
    *g = config->compute.geometry;
    g->fa_splits = g->fa_splits == 1 ? FA_SPLITS_DEFAULT : 1;
    return geometry_variant(a, "fa_splits", config, &c, s, base, err);
}

/* The first two records of the short prompts, made by the scalar code. */
static enum status scalar_variant(const struct stream_arm *a, const struct engine_config *config,
                                  const struct streams *s, dump *const *base, struct err *err) {
    struct engine_config c = *config;
    struct stream_arm own;
    int taken = 0;
    c.compute.simd = SIMD_SCALAR;
    RETURN_IF_ERROR(streams_other_open(a, &c, &own, err));
    enum status status = STATUS_OK;
    for (int i = 0; i < s->n; i++) {
        struct streams one = {{s->prompts[i]}, 1, 0};
        dump *got[1];
        if (one.prompts[0].n > SCALAR_BYTES) continue;
        if (taken++ > 0 && !a->ctx->full_battery) break;
        one.prompts[0].tokens = SCALAR_TOKENS;
        status = streams_run(own.engine, &one, 1, 0, got, err);
        if (status != STATUS_OK) break;
        (void)streams_row(&own, "simd-scalar", s->prompts[i].name, base[i], got[0], SCALAR_TOKENS,
                          "measured");
        streams_close(got, 1);
    }
    streams_other_close(&own, "simd-scalar", status);
    return status;
}

/* seen: of the run that made the base. */
static enum status graphs_variant(const struct stream_arm *a, const struct engine_config *config,
                                  const struct witness *seen, const struct streams *s, dump *const *base,
                                  struct err *err) {
    struct engine_config c = *config;
    dump *got[STREAMS_MAX];
    struct stream_arm own;
    c.compute.graphs = !config->compute.graphs;
    RETURN_IF_ERROR(streams_other_open(a, &c, &own, err));
    enum status status = witness_open(own.engine, err);
    if (status == STATUS_OK) status = streams_run(own.engine, s, BATCH_MAX, 0, got, err);
    const struct witness other = witness_close();
    if (status == STATUS_OK) {
        compare_all(&own, "no-graph", s, base, got, UINT64_MAX);
        streams_graphs_row(&own, c.compute.graphs ? &other : seen, c.compute.graphs ? seen : &other);
        streams_close(got, s->n);
    }
    streams_other_close(&own, "no-graph", status);
    return status;
}

static enum status threads_heeded(const struct stream_arm *a, const struct engine_config *config,
                                  struct err *err) {
    struct stream_arm own = *a; /* this engine only starts: it runs nothing */
    const struct witness_threads before = witness_threads();
    RETURN_IF_ERROR(engine_open(a->ctx->model_path, config, &own.engine, err));
    streams_threads_row(&own, config->compute.n_threads, witness_started(&before));
    engine_close(own.engine);
    return STATUS_OK;
}

static enum status machine_variants(const struct stream_arm *a, const struct engine_config *config,
                                    const struct witness *seen, const struct streams *s, dump *const *base,
                                    struct err *err) {
    struct engine_config c = *config;
    if (config->backend == BACKEND_CUDA) return graphs_variant(a, config, seen, s, base, err);
    c.compute.n_threads = config->compute.n_threads == 1 ? 2 : 1;
    RETURN_IF_ERROR(variant(a, "threads", &c, s, base, err));
    RETURN_IF_ERROR(threads_heeded(a, config, err));
    RETURN_IF_ERROR(threads_heeded(a, &c, err));
    return config->compute.simd == SIMD_SCALAR ? STATUS_OK : scalar_variant(a, config, s, base, err);
}

/* ---- options that do carry bits ------------------------------------------------------------------------------ */
static enum status heeded(const struct stream_arm *a, const char *option, const struct engine_config *config,
                          const struct streams *one, const dump *base, struct err *err) {
    struct stream_arm own;
    dump *got[1];
    RETURN_IF_ERROR(streams_other_open(a, config, &own, err));
    enum status status = streams_run(own.engine, one, 1, 0, got, err);
    if (status == STATUS_OK) {
        streams_heeded_row(&own, option, one->prompts[0].name, base, got[0], 1);
        streams_close(got, 1);
    }
    streams_other_close(&own, option, status);
    return status;
}

static long positions_of(const dump *d) {
    const char *tokens = provenance_get(dump_provenance(d), "prompt.tokens");
    return tokens == NULL ? 0 : strtol(tokens, NULL, 10);
}

/* The arms above agree trivially where an option goes nowhere. These must not agree. */
static enum status heeded_variants(const struct stream_arm *a, const struct engine_config *config,
                                   const struct streams *s, dump *const *base, struct err *err) {
    struct streams one = {
        {s->prompts[s->n - 1]}, 1, 0}; /* the long prompt: many tiles, more than one chunk */
    struct engine_config c = *config;
    one.prompts[0].tokens = 1;
    c.compute.geometry.fa_tkv = c.compute.geometry.fa_tkv == 16 ? 32 : 16;
    RETURN_IF_ERROR(heeded(a, "fa_tkv", &c, &one, base[s->n - 1], err));
    c = *config;
    c.compute.geometry.fa_chunk =
        c.compute.geometry.fa_chunk == FA_CHUNK_DEFAULT ? 2 * FA_CHUNK_DEFAULT : FA_CHUNK_DEFAULT;
    if (positions_of(base[s->n - 1]) > FA_CHUNK_DEFAULT)
        RETURN_IF_ERROR(heeded(a, "fa_chunk", &c, &one, base[s->n - 1], err));
    else
        streams_note_row(a, "heeded", "fa_chunk", VERDICT_SKIP, "no prompt is longer than one chunk");
    c = *config;
    c.kv = c.kv == KV_F16 ? KV_Q8_0 : KV_F16;
    return heeded(a, "kv", &c, &one, base[s->n - 1], err);
}

/* ---- being watched ------------------------------------------------------------------------------------------- */
static void count_event(void *ctx, const struct trace_event *event) {
    uint64_t *events = ctx;
    if (event->data != NULL) (*events)++;
}

static enum status observed(const struct stream_arm *a, const struct streams *s, dump *const *base,
                            struct err *err) {
    dump *got[STREAMS_MAX];
    uint64_t events = 0;
    RETURN_IF_ERROR(engine_set_trace(a->engine, count_event, &events, err));
    enum status status = streams_run(a->engine, s, BATCH_MAX, 0, got, err);
    RETURN_IF_ERROR(engine_set_trace(a->engine, NULL, NULL, err));
    if (status != STATUS_OK) return status;
    compare_all(a, "observer", s, base, got, UINT64_MAX);
    streams_count_row(a, "observer", "events", events > 0 ? 0 : 1, events > 0 ? "" : "the trace saw no op");
    streams_close(got, s->n);
    return STATUS_OK;
}

/* A screen of what has been launched, and nothing of what waits: the launches are those of an unwatched step. */
static enum status screen_event(void *ctx, struct backend *b, const struct tap_event *e, struct err *err) {
    struct kernel_count census[BACKEND_KERNELS_MAX];
    struct row_sum sums[CHUNK_MAX];
    int n = 0;
    uint64_t *events = ctx;
    (*events)++;
    if (e->data == NULL || b->waiting(b, census, &n) > 0) return STATUS_OK;
    struct row_span rows = {ROWS_F32, e->data, e->rows, e->cols, e->cols};
    return b->row_sums(b, &rows, sums, err);
}

static enum status tapped(const struct stream_arm *a, const struct streams *s, dump *const *base,
                          struct err *err) {
    dump *got[STREAMS_MAX];
    uint64_t events = 0;
    engine_set_tap(a->engine, screen_event, &events);
    enum status status = streams_run(a->engine, s, BATCH_MAX, 0, got, err);
    engine_set_tap(a->engine, NULL, NULL);
    if (status != STATUS_OK) return status;
    compare_all(a, "observer-tap", s, base, got, UINT64_MAX);
    streams_count_row(a, "observer-tap", "events", events > 0 ? 0 : 1, events > 0 ? "" : "the tap saw no op");
    streams_close(got, s->n);
    return STATUS_OK;
}

static enum status dumped(const struct stream_arm *a, const struct streams *s, dump *const *base,
                          struct err *err) {
    for (int i = 0; i < s->n; i++) {
        dump *got = NULL;
        struct generate_request r;
        struct forced f;
        memset(&r, 0, sizeof r);
        r.prompt_name = s->prompts[i].name;
        r.prompt = s->prompts[i].bytes;
        r.prompt_bytes = s->prompts[i].n;
        r.n = s->prompts[i].tokens;
        r.sampler = sampler_greedy();
        r.n_top_k = 8;
        r.full_logits = 1;
        RETURN_IF_ERROR(generate_run(a->engine, &r, 1, 1, NULL, NULL, &got, err));
        (void)streams_row(a, "full-dump", s->prompts[i].name, base[i], got, UINT64_MAX, "measured");
        dump_close(got);
        RETURN_IF_ERROR(forced_open(a->engine, &s->prompts[i], base[i], &f, err));
        enum status status = forced_prefill(&f, "no dump", err);
        while (status == STATUS_OK && forced_more(&f)) status = forced_step(&f, "no dump", err);
        if (status == STATUS_OK) forced_row(a, "no-dump", &f);
        forced_close(&f);
        RETURN_IF_ERROR(status);
    }
    return STATUS_OK;
}

/* Quick: the long prompt (its rows merge two chunks) and the two shortest. */
static void choose(const struct stream_arm *a, const struct streams *all, struct streams *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < all->n; i++)
        if (a->ctx->full_battery || i < 2 || i == all->n - 1) out->prompts[out->n++] = all->prompts[i];
}

static enum status judge(const struct stream_arm *a, const struct engine_config *config,
                         const struct streams *all, struct err *err) {
    struct streams s;
    dump *base[STREAMS_MAX];
    choose(a, all, &s);
    RETURN_IF_ERROR(witness_open(a->engine, err));
    enum status status = streams_run(a->engine, &s, BATCH_MAX, 0, base, err);
    const struct witness seen = witness_close();
    RETURN_IF_ERROR(status);
    status = geometry_variants(a, config, &s, base, err);
    if (status == STATUS_OK) status = machine_variants(a, config, &seen, &s, base, err);
    if (status == STATUS_OK) status = heeded_variants(a, config, &s, base, err);
    if (status == STATUS_OK) status = observed(a, &s, base, err);
    if (status == STATUS_OK) status = tapped(a, &s, base, err);
    if (status == STATUS_OK) status = dumped(a, &s, base, err);
    if (status == STATUS_OK) status = streams_negative_row(a, base[0], err);
    streams_close(base, s.n);
    return status;
}

static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.launch.f16", ROUTE_F16, SIZE_MAX, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    static const struct streams_plan plan = {"stream.launch.q8", ROUTE_Q8, SIZE_MAX, QUICK_TOKENS, judge};
    return streams_gate(ctx, &plan, err);
}

const struct gate gate_stream_launch_f16 = {
    "stream.launch.f16",
    TIER_IDENTITY,
    "threads, SIMD, query tile, splits, graphs and observers never carry bits (route f16)",
    1,
    0,
    300,
    run_f16};

const struct gate gate_stream_launch_q8 = {
    "stream.launch.q8",
    TIER_IDENTITY,
    "threads, SIMD, query tile, splits, graphs and observers never carry bits (route q8)",
    1,
    0,
    300,
    run_q8};
