/* explain_side.c - see explain_side.h. */
#include "gates/explain_side.h"

#include <stdlib.h>
#include <string.h>

#include "gates/child_engine.h"
#include "gates/slurp.h"
#include "gates/table.h"

/* ---- provenance -> options ------------------------------------------------------------------------------------- */

static int index_of(const char *text, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(text, names[i]) == 0) return i;
    return -1;
}

static enum status take_word(const struct provenance *p, const char *key, int (*from_name)(const char *),
                             int *out, struct err *err) {
    const char *text = provenance_get(p, key);
    if (text == NULL) return STATUS_OK;
    int v = from_name(text);
    if (v < 0) return err_set(err, STATUS_FORMAT, "provenance: %s=%s is unknown to this build", key, text);
    *out = v;
    return STATUS_OK;
}

static enum status take_number(const struct provenance *p, const char *key, int low, int high, int *out,
                               struct err *err) {
    const char *text = provenance_get(p, key);
    if (text == NULL) return STATUS_OK;
    char *end = NULL;
    long v = strtol(text, &end, 10);
    if (end == text || *end != '\0' || v < low || v > high)
        return err_set(err, STATUS_FORMAT, "provenance: %s=%s is not a number from %d to %d", key, text, low,
                       high);
    *out = (int)v;
    return STATUS_OK;
}

static int backend_from_name(const char *s) {
    static const char *const names[] = {"cpu", "cuda"};
    return index_of(s, names, 2);
}
static int simd_from_name(const char *s) {
    static const char *const names[] = {"auto", "scalar", "avx2"};
    return index_of(s, names, 3);
}

enum status explain_config_from(const struct provenance *p, struct engine_config *config, struct err *err) {
    struct backend_config *c = &config->compute;
    int backend = (int)config->backend, route = (int)c->route, arch = (int)c->arch, kv = (int)config->kv;
    int simd = (int)c->simd, graphs = c->graphs;
    const char *geometry = provenance_get(p, "geometry");
    RETURN_IF_ERROR(take_word(p, "backend", backend_from_name, &backend, err));
    RETURN_IF_ERROR(take_word(p, "route", route_from_name, &route, err));
    RETURN_IF_ERROR(take_word(p, "arch", arch_from_name, &arch, err));
    RETURN_IF_ERROR(take_word(p, "kv", kv_dtype_from_name, &kv, err));
    RETURN_IF_ERROR(take_word(p, "simd", simd_from_name, &simd, err));
    RETURN_IF_ERROR(take_number(p, "chunk", 1, CHUNK_MAX, &config->chunk, err));
    RETURN_IF_ERROR(take_number(p, "threads", 1, 64, &c->n_threads, err));
    RETURN_IF_ERROR(take_number(p, "graphs", 0, 1, &graphs, err));
    if (geometry != NULL && geometry_parse(geometry, &c->geometry, err) != STATUS_OK)
        return err_prefix(err, STATUS_FORMAT, "provenance: geometry=%s", geometry);
    config->backend = (enum backend_kind)backend;
    config->kv = (enum kv_dtype)kv;
    c->route = (enum route)route;
    c->arch = (enum arch)arch;
    c->simd = (enum simd)simd;
    c->graphs = graphs;
    return STATUS_OK;
}

/* ---- another binary -------------------------------------------------------------------------------------------- */

struct child_files {
    char folder[256], tokens[300], output[300], errors[300], values[300];
};

static enum status make_files(struct child_files *f, struct err *err) {
    RETURN_IF_ERROR(child_folder_make("forkgate-explain", f->folder, err));
    (void)snprintf(f->tokens, sizeof f->tokens, "%s/tokens.csv", f->folder);
    (void)snprintf(f->output, sizeof f->output, "%s/trace.csv", f->folder);
    (void)snprintf(f->errors, sizeof f->errors, "%s/errors.txt", f->folder);
    (void)snprintf(f->values, sizeof f->values, "%s/values.fgt", f->folder);
    return STATUS_OK;
}

static enum status write_tokens(const struct tape_plan *plan, const char *path, struct err *err) {
    static const char *const columns[] = {"id"};
    table_writer *w = NULL;
    RETURN_IF_ERROR(table_writer_open(path, NULL, TABLE_LF, columns, 1, &w, err));
    for (size_t i = 0; i < plan->n_prompt; i++) {
        table_put_i64(w, plan->prompt[i]);
        table_end_row(w);
    }
    for (int i = 0; i + 1 < plan->n_steps; i++) {
        table_put_i64(w, plan->forced[i]);
        table_end_row(w);
    }
    return table_writer_finish(w, err);
}

static int wants_values(const struct tape_plan *plan) {
    return plan->n_captures > 0 || plan->rows_of != NULL;
}

static void add_plan(struct child_args *a, const struct tape_plan *plan, const struct child_files *f) {
    child_add_pair(a, "--tokens", f->tokens);
    child_add_number(a, "--prompt-tokens", (long)plan->n_prompt);
    if (plan->ops_step >= 0) child_add_number(a, "--ops", plan->ops_step);
    if (plan->rows_of != NULL) child_add_pair(a, "--rows", plan->rows_of);
    for (int i = 0; i < plan->n_captures; i++) child_add_number(a, "--capture", plan->captures[i]);
    if (wants_values(plan)) child_add_pair(a, "--values", f->values);
    if (plan->copies) child_add(a, "--copy-all");
}

static enum status read_child(const struct explain_side *s, const struct tape_plan *plan,
                              const struct child_files *f, struct tape *out, struct err *err) {
    char *text = NULL;
    size_t n = 0;
    enum status st = slurp_any(f->output, &text, &n, err);
    if (st == STATUS_OK) st = tape_read(text, n, s->binary, wants_values(plan) ? f->values : NULL, out, err);
    if (st == STATUS_OK && out->n_steps != plan->n_steps)
        st = err_set(err, STATUS_FORMAT, "%s: %d steps traced where %d were asked for", s->binary,
                     out->n_steps, plan->n_steps);
    free(text);
    return st;
}

static enum status run_binary(const struct explain_side *s, const struct tape_plan *plan, struct tape *out,
                              struct err *err) {
    struct child_files f;
    struct child_end end;
    struct child_args args;
    char how[320];
    memset(&args, 0, sizeof args);
    memset(out, 0, sizeof *out);
    RETURN_IF_ERROR(make_files(&f, err));
    child_add(&args, s->binary);
    child_add(&args, "trace");
    child_add_pair(&args, "-m", s->model);
    child_add_engine(&args, &s->config);
    add_plan(&args, plan, &f);
    struct child_request r = {&args, s->env, f.output, f.errors, s->timeout_s};
    enum status st = write_tokens(plan, f.tokens, err);
    if (st == STATUS_OK) st = child_run(&r, &end, err);
    if (st == STATUS_OK && end.timed_out) {
        st = err_set(
            err, STATUS_UNSUPPORTED,
            "%s trace: no end after %.6g s, killed with what it had started (--timeout S gives it longer)",
            s->binary, s->timeout_s);
    } else if (st == STATUS_OK && end.exit_code != 0) {
        child_end_text(&end, how);
        st = err_set(err, STATUS_UNSUPPORTED, "%s trace: %s", s->binary, how);
    }
    if (st == STATUS_OK) st = read_child(s, plan, &f, out, err);
    child_args_free(&args);
    child_folder_remove(f.folder);
    return st;
}

/* ---- either ---------------------------------------------------------------------------------------------------- */

enum status explain_side_run(struct explain_side *s, const struct tape_plan *plan, struct tape *out,
                             struct err *err) {
    if (s->binary != NULL) return run_binary(s, plan, out, err);
    memset(out, 0, sizeof *out);
    if (s->engine == NULL) RETURN_IF_ERROR(engine_open(s->model, &s->config, &s->engine, err));
    return tape_record(s->engine, plan, out, err);
}

void explain_side_close(struct explain_side *s) {
    engine_close(s->engine);
    s->engine = NULL;
}
