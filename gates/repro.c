/* repro.c - see repro.h. */
#include "gates/repro.h"

#include <stdio.h>
#include <string.h>

#include "gates/shell_word.h"

#define EMBEDDED_MODEL "/fixtures/models/seedling-q8_0.gguf"

struct text {
    char *out;
    size_t used, room;
    int whole; /* 0: something did not fit */
};

static void put(struct text *t, const char *bytes, size_t n) {
    if (t->used + n + 1 > t->room) t->whole = 0;
    if (!t->whole) return;
    memcpy(t->out + t->used, bytes, n);
    t->used += n;
    t->out[t->used] = '\0';
}

static void put_word(struct text *t, const char *word) {
    if (t->whole) t->whole = shell_word_add(t->out, t->room, word);
    t->used = strlen(t->out);
}

/* ---- words of a command ---------------------------------------------------------------------------------------- */
/* The next word with its quotes; NULL at the end. */
static const char *next_word(const char **at, size_t *n) {
    const char *p = *at + strspn(*at, " ");
    char quote = '\0';
    *n = 0;
    for (; p[*n] != '\0' && (quote != '\0' || p[*n] != ' '); ++*n) {
        if (p[*n] != '\'' && p[*n] != '"') continue;
        if (quote == '\0')
            quote = p[*n];
        else if (quote == p[*n])
            quote = '\0';
    }
    *at = p + *n;
    return *n > 0 ? p : NULL;
}

static int is_word(const char *word, size_t n, const char *text) {
    return strlen(text) == n && memcmp(word, text, n) == 0;
}

int repro_has(const char *repro, const char *option) {
    size_t n;
    for (const char *w; (w = next_word(&repro, &n)) != NULL;)
        if (is_word(w, n, option)) return 1;
    return 0;
}

/* ---- of one row ------------------------------------------------------------------------------------------------- */
static void add(struct text *t, const char *option, const char *value) {
    if (repro_has(t->out, option)) return;
    put(t, " ", 1);
    put(t, option, strlen(option));
    if (value != NULL) put_word(t, value);
}

static void add_candidate(const struct gate_context *ctx, struct text *t) {
    const struct engine_config *c = &ctx->config, def = engine_config_default();
    const char *model = ctx->model_path, *dir = ctx->source_dir == NULL ? "" : ctx->source_dir;
    size_t n = strlen(dir);
    int embedded = model == NULL || (strncmp(model, dir, n) == 0 && strcmp(model + n, EMBEDDED_MODEL) == 0);
    char geometry[96], default_geometry[96], chunk[16];
    geometry_format(&c->compute.geometry, geometry, sizeof geometry);
    geometry_format(&def.compute.geometry, default_geometry, sizeof default_geometry);
    (void)snprintf(chunk, sizeof chunk, "%d", c->chunk);
    add(t, "--backend", c->backend == BACKEND_CUDA ? "cuda" : "cpu");
    if (!embedded) add(t, "-m", model);
    if (c->compute.arch != def.compute.arch) add(t, "--arch", arch_name(c->compute.arch));
    if (strcmp(geometry, default_geometry) != 0) add(t, "--geometry", geometry);
    if (c->kv != def.kv) add(t, "--kv", kv_dtype_name(c->kv));
    if (c->chunk != def.chunk) add(t, "--chunk", chunk);
    if (!c->compute.graphs) add(t, "--no-graph", NULL);
    if (c->compute.simd != def.compute.simd)
        add(t, "--simd", c->compute.simd == SIMD_SCALAR ? "scalar" : "avx2");
}

void repro_complete(const struct gate_context *ctx, char *repro, size_t room) {
    struct text t = {repro, strlen(repro), room, 1};
    if (strncmp(repro, "forkgate run", 12) != 0) return;
    int compares_builds =
        strstr(repro, "--only tolerance.stream") != NULL || strstr(repro, "--only perf.") != NULL;
    add_candidate(ctx, &t);
    if (ctx->under != NULL) add(&t, "--under", ctx->under);
    if (ctx->full_battery) add(&t, "--battery", "full");
    if (ctx->small_battery) add(&t, "--battery", "small");
    if (ctx->cause != NULL) {
        add(&t, "--class", "fa");
        add(&t, "--cause", ctx->cause);
    }
    if (compares_builds && ctx->config.compute.route != engine_config_default().compute.route)
        add(&t, "--route", route_name(ctx->config.compute.route));
    compares_builds |= strstr(repro, "--only stream.golden.") != NULL;
    if (compares_builds && ctx->base != NULL) add(&t, "--base", ctx->base);
    if (compares_builds && ctx->engine_cmd != NULL) add(&t, "--engine-cmd", ctx->engine_cmd);
    if (!t.whole) (void)snprintf(repro, room, "# too long for a row: the command of the run, with --only");
}

/* ---- of the whole run ------------------------------------------------------------------------------------------- */
/* Options of the candidate and of the change; their values, where they have one. Threads are shared out by the runner among the
 * gates that run at once, and are no part of the candidate. */
static int is_kept(const char *word, size_t n, int *has_value) {
    static const char *const kept[] = {"-m",      "--arch",       "--geometry", "--kv",
                                       "--chunk", "--simd",       "--class",    "--cause",
                                       "--base",  "--engine-cmd", "--no-graph"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        *has_value = strcmp(kept[i], "--no-graph") != 0;
        if (is_word(word, n, kept[i])) return 1;
    }
    return 0;
}

void repro_landing(const struct evidence *rows, size_t n, char *out, size_t room) {
    struct text t = {out, 0, room, 1};
    size_t at = 0, length;
    int cuda_only = n > 0, has_value;
    for (size_t i = 0; i < n; i++) cuda_only = cuda_only && strcmp(rows[i].backend, "cuda") == 0;
    /* the row that says most: one of a gate that compares builds, where there is one */
    for (size_t i = 0; i < n; i++)
        if (strncmp(rows[at].repro, "forkgate run", 12) != 0 ||
            (rows[i].tier == TIER_TOLERANCE && rows[at].tier != TIER_TOLERANCE))
            at = i;
    put(&t, "forkgate run", 12);
    if (cuda_only) add(&t, "--backend", "cuda");
    const char *p = n > 0 ? rows[at].repro : "";
    for (const char *w; (w = next_word(&p, &length)) != NULL;) {
        if (!is_kept(w, length, &has_value)) continue;
        put(&t, " ", 1);
        put(&t, w, length);
        if (!has_value || (w = next_word(&p, &length)) == NULL) continue;
        put(&t, " ", 1);
        put(&t, w, length);
    }
    if (!t.whole) (void)snprintf(out, room, "forkgate run, with the options of this run");
}
