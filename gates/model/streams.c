/* streams.c - see streams.h: prompts, engines and runs. Evidence rows are made in stream_rows.c. */
#include "gates/model/streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gates/slurp.h"
#include "gates/table.h"

#define SMALL_PROMPTS    4
#define SMALL_TOKENS     32 /* of a golden stream */
#define SMALL_ARM_TOKENS 8  /* of the other gates' */
#define WHOLE_ROWS       8  /* kept for the negative arm */

/* ---- prompts ------------------------------------------------------------------------------------------------- */
static enum status read_prompt(const char *dir, const char *file, struct stream_prompt *p, struct err *err) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/fixtures/prompts/%s", dir, file);
    (void)snprintf(p->name, sizeof p->name, "%s", file);
    RETURN_IF_ERROR(slurp_file(path, &p->bytes, &p->n, err));
    return p->n > 0 && p->n < 1 << 16 ? STATUS_OK
                                      : err_set(err, STATUS_FORMAT, "%s: %zu bytes (1 to 65535)", path, p->n);
}

static enum status read_rows(const table *t, const char *source_dir, int full, struct streams *out,
                             struct err *err) {
    int file, budget;
    RETURN_IF_ERROR(table_need(t, "file", &file, err));
    RETURN_IF_ERROR(table_need(t, full ? "full" : "quick", &budget, err));
    for (size_t r = 0; r < table_rows(t); r++) {
        int64_t tokens;
        const char *name = table_cell(t, r, file, NULL);
        RETURN_IF_ERROR(table_integer(t, r, budget, 0, 1 << 20, &tokens, err));
        if (tokens == 0) continue;
        if (out->n == STREAMS_MAX) return table_refuse(t, r, err, "more than %d prompts", STREAMS_MAX);
        if (strlen(name) >= sizeof out->prompts[0].name || strchr(name, '/') != NULL)
            return table_refuse(t, r, err, "file: '%s' is not a plain name", name);
        struct stream_prompt *p = &out->prompts[out->n++];
        RETURN_IF_ERROR(read_prompt(source_dir, name, p, err));
        p->tokens = (int)tokens;
    }
    return out->n > 0 ? STATUS_OK : err_set(err, STATUS_FORMAT, "%s: no prompt", table_name(t));
}

enum status streams_load(const char *source_dir, int full, struct streams *out, struct err *err) {
    char path[4096];
    table *t = NULL;
    memset(out, 0, sizeof *out);
    (void)snprintf(path, sizeof path, "%s/fixtures/golden_prompts.csv", source_dir);
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = read_rows(t, source_dir, full, out, err);
    table_close(t);
    if (s != STATUS_OK) streams_free(out);
    return s;
}

void streams_free(struct streams *s) {
    for (int i = 0; i < s->n; i++) free(s->prompts[i].bytes);
    s->n = 0;
}

void streams_limit(struct streams *s, size_t max_bytes, int max_tokens) {
    int kept = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->prompts[i].n > max_bytes) {
            free(s->prompts[i].bytes);
            continue;
        }
        if (max_tokens > 0 && s->prompts[i].tokens > max_tokens) s->prompts[i].tokens = max_tokens;
        s->prompts[kept++] = s->prompts[i];
    }
    s->n = kept;
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */
struct engine_config streams_config(const struct gate_context *ctx, enum route route) {
    struct engine_config c = ctx->config;
    c.compute.route = route;
    return c;
}

static struct generate_request request_of(const struct stream_prompt *p) {
    struct generate_request r;
    memset(&r, 0, sizeof r);
    r.prompt_name = p->name;
    r.prompt = p->bytes;
    r.prompt_bytes = p->n;
    r.n = p->tokens;
    r.sampler = sampler_greedy();
    return r;
}

enum status streams_run(engine *e, const struct streams *s, int batch, int rotate, dump **out,
                        struct err *err) {
    struct generate_request requests[STREAMS_MAX];
    dump *rotated[STREAMS_MAX];
    for (int i = 0; i < s->n; i++) requests[i] = request_of(&s->prompts[(i + rotate) % s->n]);
    RETURN_IF_ERROR(generate_run(e, requests, s->n, batch, NULL, NULL, rotated, err));
    for (int i = 0; i < s->n; i++) out[(i + rotate) % s->n] = rotated[i];
    return STATUS_OK;
}

enum status streams_run_config(const char *model, const struct engine_config *config, const struct streams *s,
                               dump **out, struct err *err) {
    engine *e = NULL;
    RETURN_IF_ERROR(engine_open(model, config, &e, err));
    enum status status = streams_run(e, s, BATCH_MAX, 0, out, err);
    engine_close(e);
    return status;
}

enum status streams_other_open(const struct stream_arm *a, const struct engine_config *config,
                               struct stream_arm *own, struct err *err) {
    *own = *a;
    own->engine = NULL;
    return engine_open(a->ctx->model_path, config, &own->engine, err);
}

void streams_other_close(struct stream_arm *own, const char *arm, enum status status) {
    if (status == STATUS_OK) streams_launched_row(own, arm);
    engine_close(own->engine);
    own->engine = NULL;
}

enum status streams_score(engine *e, const struct streams *s, dump *const *follow, dump **out,
                          struct err *err) {
    for (int i = 0; i < s->n; i++) out[i] = NULL;
    for (int i = 0; i < s->n; i++) {
        struct generate_request r = request_of(&s->prompts[i]);
        r.follow = follow[i];
        enum status status = generate_score(e, &r, &out[i], err);
        if (status == STATUS_OK) continue;
        streams_close(out, s->n);
        return status;
    }
    return STATUS_OK;
}

void streams_close(dump **dumps, int n) {
    for (int i = 0; i < n; i++) {
        dump_close(dumps[i]);
        dumps[i] = NULL;
    }
}

static enum status copy_with_row(const dump *d, uint64_t i, struct hash128 row, dump **out, struct err *err) {
    dump_writer *w = NULL;
    RETURN_IF_ERROR(dump_writer_open(NULL, dump_provenance(d), 0, 0, &w, err));
    enum status s = STATUS_OK;
    for (uint64_t k = 0; k < dump_count(d) && s == STATUS_OK; k++) {
        struct dump_record r = *dump_record_at(d, k);
        uint32_t n = 0;
        const uint8_t *text = dump_text(d, k, &n);
        if (k == i) r.row = row;
        s = dump_writer_add(w, &r, text, n, NULL, NULL, err);
    }
    if (s == STATUS_OK) return dump_writer_finish(w, dump_provenance(d), out, err);
    dump_writer_abandon(w);
    return s;
}

enum status streams_damage(const dump *d, dump **out, struct err *err) {
    int n = 0;
    uint64_t last = dump_count(d) - 1; /* of no records: there is no row either */
    const float *row = dump_count(d) == 0 ? NULL : dump_logits(d, last, &n);
    if (row == NULL || n == 0) return err_set(err, STATUS_USAGE, "%s: no row to damage", dump_name(d));
    float *damaged = malloc((size_t)n * sizeof *damaged);
    if (damaged == NULL) return err_set(err, STATUS_NOMEM, "a row of %d logits", n);
    memcpy(damaged, row, (size_t)n * sizeof *damaged);
    uint32_t bits;
    memcpy(&bits, &damaged[n - 1], sizeof bits);
    bits ^= 1;
    memcpy(&damaged[n - 1], &bits, sizeof bits);
    enum status s = copy_with_row(d, last, hash_logits(damaged, (size_t)n), out, err);
    free(damaged);
    return s;
}

enum status streams_whole_rows(const struct stream_arm *a, const dump *d, dump **out, struct err *err) {
    struct generate_request r = request_of(&a->streams->prompts[0]);
    r.follow = d;
    r.full_logits = 1;
    r.n = r.n < WHOLE_ROWS ? r.n : WHOLE_ROWS;
    return generate_score(a->engine, &r, out, err);
}

/* The first three prompts and the last one, which is the long one where the gate takes it. */
static void keep_few(struct streams *s, int max_tokens) {
    for (int i = SMALL_PROMPTS - 1; i < s->n - 1; i++) free(s->prompts[i].bytes);
    if (s->n > SMALL_PROMPTS) {
        s->prompts[SMALL_PROMPTS - 1] = s->prompts[s->n - 1];
        s->n = SMALL_PROMPTS;
    }
    streams_limit(s, SIZE_MAX, max_tokens);
}

/* A prompt that the model's context cannot hold is a SKIP with its numbers; the others are judged. */
static enum status drop_too_long(const struct stream_arm *a, struct streams *s, struct err *err) {
    struct engine_info info;
    int kept = 0;
    engine_describe(a->engine, &info);
    for (int i = 0; i < s->n; i++) {
        struct stream_prompt *p = &s->prompts[i];
        int32_t *ids = NULL;
        size_t n = 0;
        char note[120];
        RETURN_IF_ERROR(engine_encode(a->engine, p->bytes, p->n, 0, &ids, &n, err));
        free(ids);
        if (n < (size_t)info.n_ctx) { /* a stream may end with the context */
            s->prompts[kept++] = *p;
            continue;
        }
        (void)snprintf(note, sizeof note, "%zu tokens of prompt do not fit a context of %d", n, info.n_ctx);
        streams_note_row(a, "run", p->name, VERDICT_SKIP, note);
        free(p->bytes);
    }
    s->n = kept;
    return kept > 0 ? STATUS_OK : err_set(err, STATUS_USAGE, "no prompt fits a context of %d", info.n_ctx);
}

static int is_large(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && (long long)st.st_size > BATTERY_BRIEF_BYTES;
}

/* ---- a gate -------------------------------------------------------------------------------------------------- */
enum status streams_gate(const struct gate_context *ctx, const struct streams_plan *plan, struct err *err) {
    struct streams s;
    struct stream_arm a = {ctx, plan->gate, plan->route, NULL, &s};
    struct engine_config config = streams_config(ctx, plan->route);
    RETURN_IF_ERROR(streams_load(ctx->source_dir, ctx->full_battery, &s, err));
    if (!ctx->full_battery) streams_limit(&s, plan->max_bytes, plan->max_tokens);
    s.brief = ctx->full_battery && is_large(ctx->model_path);
    if (s.brief) streams_limit(&s, SIZE_MAX, BATTERY_BRIEF_TOKENS);
    if (ctx->small_battery) keep_few(&s, plan->max_tokens == 0 ? SMALL_TOKENS : SMALL_ARM_TOKENS);
    enum status status = engine_open(ctx->model_path, &config, &a.engine, err);
    if (status == STATUS_OK) status = drop_too_long(&a, &s, err);
    if (status == STATUS_OK) status = plan->judge(&a, &config, &s, err);
    if (status == STATUS_OK) streams_launched_row(&a, "");
    engine_close(a.engine);
    streams_free(&s);
    return status;
}
