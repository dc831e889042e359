/* side.c - see side.h: what a side is. How it is run is in side_run.c. */
#include "gates/side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/file_hash.h"
#include "gates/golden.h"

#define SIDE_TIMEOUT_S 1800.0 /* of one child: the whole tier's budget */

/* ---- opening --------------------------------------------------------------------------------------------------- */
static enum status kind_of(const char *spec, enum side_kind *kind, struct err *err) {
    struct stat st;
    *kind = SIDE_ENGINE;
    if (spec == NULL) return STATUS_OK;
    if (strchr(spec, '{') != NULL) {
        *kind = SIDE_COMMAND;
        if (strstr(spec, "{prompt}") != NULL && strstr(spec, "{n}") != NULL && strstr(spec, "{out}") != NULL)
            return STATUS_OK;
        return err_set(err, STATUS_USAGE, "command '%.200s': {prompt}, {n} and {out} must all be in it",
                       spec);
    }
    if (stat(spec, &st) != 0) return err_set(err, STATUS_USAGE, "%s: %s", spec, strerror(errno));
    *kind = S_ISDIR(st.st_mode) ? SIDE_DUMPS : SIDE_BINARY;
    if (S_ISDIR(st.st_mode) && strlen(spec) >= WORK_PATH)
        return err_set(err, STATUS_USAGE, "a folder name of more than %d bytes", WORK_PATH - 1);
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && access(spec, X_OK) == 0)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s: neither a folder of dumps nor a program", spec);
}

enum status side_open(const char *spec, const char *model, const struct engine_config *config,
                      struct side *out, struct err *err) {
    memset(out, 0, sizeof *out);
    if (spec != NULL && strlen(spec) >= sizeof out->spec)
        return err_set(err, STATUS_USAGE, "a base or command of more than %zu bytes", sizeof out->spec - 1);
    RETURN_IF_ERROR(kind_of(spec, &out->kind, err));
    (void)snprintf(out->spec, sizeof out->spec, "%s", spec != NULL ? spec : "");
    out->model = model;
    out->config = *config;
    out->timeout_s = SIDE_TIMEOUT_S;
    return STATUS_OK;
}

void side_close(struct side *s) {
    engine_close(s->engine);
    s->engine = NULL;
}

enum status side_engine(struct side *s, engine **out, struct err *err) {
    *out = NULL;
    if (s->kind != SIDE_ENGINE) return err_set(err, STATUS_USAGE, "%s is no engine of this process", s->spec);
    if (s->engine == NULL) RETURN_IF_ERROR(engine_open(s->model, &s->config, &s->engine, err));
    *out = s->engine;
    return STATUS_OK;
}

/* ---- what it can do -------------------------------------------------------------------------------------------- */
int side_takes_options(const struct side *s) {
    return s->kind == SIDE_ENGINE || s->kind == SIDE_BINARY;
}

int side_can_follow(const struct side *s) {
    return side_takes_options(s) || (s->kind == SIDE_COMMAND && strstr(s->spec, "{follow}") != NULL);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL || slash[1] == '\0' ? path : slash + 1;
}

void side_describe(const struct side *s, char *out, size_t room) {
    char geometry[96];
    geometry_format(&s->config.compute.geometry, geometry, sizeof geometry);
    if (s->kind == SIDE_DUMPS)
        (void)snprintf(out, room, "dumps in %.80s", base_name(s->spec));
    else if (s->kind == SIDE_COMMAND)
        (void)snprintf(out, room, "command %.60s", s->spec);
    else
        (void)snprintf(out, room, "%s%.40s, %s %s", s->kind == SIDE_ENGINE ? "this build" : "binary ",
                       s->kind == SIDE_ENGINE ? "" : base_name(s->spec), route_name(s->config.compute.route),
                       geometry);
}

/* Everything but the number of threads and the instruction set, which are the machine's. */
static int same_options(const struct engine_config *a, const struct engine_config *b) {
    const struct geometry *g = &a->compute.geometry, *h = &b->compute.geometry;
    return a->backend == b->backend && a->compute.route == b->compute.route &&
           a->compute.arch == b->compute.arch && a->kv == b->kv && a->chunk == b->chunk &&
           a->compute.graphs == b->compute.graphs && g->fa_tq == h->fa_tq && g->fa_tkv == h->fa_tkv &&
           g->fa_chunk == h->fa_chunk && g->fa_splits == h->fa_splits;
}

enum status side_same(const struct side *a, const struct side *b, const char *self, int *same,
                      struct err *err) {
    struct hash128 x, y;
    *same = 0;
    if (side_takes_options(a) != side_takes_options(b)) return STATUS_OK;
    if (!side_takes_options(a)) {
        *same = a->kind == b->kind && strcmp(a->spec, b->spec) == 0;
        return STATUS_OK;
    }
    if (!same_options(&a->config, &b->config) || strcmp(a->model, b->model) != 0) return STATUS_OK;
    if (a->fault != NULL || b->fault != NULL) return STATUS_OK;
    RETURN_IF_ERROR(file_hash(a->kind == SIDE_ENGINE ? self : a->spec, &x, err));
    RETURN_IF_ERROR(file_hash(b->kind == SIDE_ENGINE ? self : b->spec, &y, err));
    *same = hash_equal(&x, &y);
    return STATUS_OK;
}

/* ---- dumps ----------------------------------------------------------------------------------------------------- */
static enum status open_golden(const struct side *s, const char *dir, const struct battery_prompt *p,
                               dump **out, struct err *err) {
    struct golden_set set;
    struct golden_key key;
    struct hash128 model;
    RETURN_IF_ERROR(file_hash(s->model, &model, err));
    RETURN_IF_ERROR(golden_key_of(&s->config, &model, p->bytes, p->n, &key));
    RETURN_IF_ERROR(golden_load(dir, &set, err));
    const struct golden_entry *e = golden_find(&set, &key);
    enum status status = e != NULL ? golden_open(&set, e, out, err)
                                   : err_set(err, STATUS_USAGE, "%s: no golden for prompt %s", dir, p->name);
    golden_free(&set);
    return status;
}

/* The dump must be of this prompt: a folder of another battery has the same file names. */
static enum status check_prompt(const dump *d, const struct battery_prompt *p, struct err *err) {
    char text[HASH_TEXT_BYTES];
    struct hash128 h = hash_bytes(p->bytes, p->n);
    const char *declared = provenance_get(dump_provenance(d), "prompt.xxh3");
    hash_format(&h, text);
    if (dump_count(d) == 0) return err_set(err, STATUS_FORMAT, "%s: no tokens", dump_name(d));
    if (declared == NULL || strcmp(declared, text) == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s was made from another prompt than %s", dump_name(d), p->name);
}

enum status side_open_dump(const struct side *s, const char *dir, const struct battery_prompt *p, dump **out,
                           struct err *err) {
    char path[2 * WORK_PATH];
    *out = NULL;
    (void)snprintf(path, sizeof path, "%.480s/manifest.csv", dir);
    if (s->kind == SIDE_DUMPS && access(path, R_OK) == 0) {
        RETURN_IF_ERROR(open_golden(s, dir, p, out, err));
    } else {
        (void)snprintf(path, sizeof path, "%.480s/%s.fgd", dir, p->name);
        RETURN_IF_ERROR(dump_open(path, out, err));
    }
    enum status status = check_prompt(*out, p, err);
    if (status == STATUS_OK) return status;
    dump_close(*out);
    *out = NULL;
    return status;
}
