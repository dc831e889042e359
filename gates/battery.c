/* battery.c - see battery.h. */
#include "gates/battery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gates/table.h"

#define BATTERY_PATH 4096

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static int name_is_plain(const char *s, size_t n) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return n > 0 && n < sizeof((struct battery_prompt *)0)->name && s[0] != '.' && strspn(s, allowed) == n;
}

static enum status read_slice(const char *path, int64_t offset, int64_t bytes, char **out, struct err *err) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    *out = malloc((size_t)bytes + 1);
    enum status s = STATUS_OK;
    if (*out == NULL)
        s = err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    else if (fseeko(f, (off_t)offset, SEEK_SET) != 0 || fread(*out, 1, (size_t)bytes, f) != (size_t)bytes)
        s = err_set(err, STATUS_FORMAT, "%s: bytes %lld to %lld are not all there", path, (long long)offset,
                    (long long)(offset + bytes));
    else
        (*out)[bytes] = '\0';
    (void)fclose(f);
    return s;
}

struct columns {
    int name, file, offset, bytes;
};

static enum status read_row(const table *t, size_t row, const struct columns *c, const char *prompt_dir,
                            struct battery_prompt *p, struct err *err) {
    char path[BATTERY_PATH];
    size_t n_name = 0, n_file = 0;
    int64_t offset = 0, bytes = 0;
    const char *name = table_cell(t, row, c->name, &n_name), *file = table_cell(t, row, c->file, &n_file);
    if (!name_is_plain(name, n_name))
        return table_refuse(t, row, err, "name '%s' is not a plain file name", name);
    if (!name_is_plain(file, n_file))
        return table_refuse(t, row, err, "file '%s' is not a plain file name", file);
    RETURN_IF_ERROR(table_integer(t, row, c->offset, 0, 1 << 30, &offset, err));
    RETURN_IF_ERROR(table_integer(t, row, c->bytes, 1, 1 << 24, &bytes, err));
    (void)snprintf(path, sizeof path, "%s/%s", prompt_dir, file);
    memcpy(p->name, name, n_name + 1);
    p->n = (size_t)bytes;
    return read_slice(path, offset, bytes, &p->bytes, err);
}

static enum status read_rows(const table *t, const char *prompt_dir, struct battery *out, struct err *err) {
    struct columns c;
    RETURN_IF_ERROR(table_need(t, "name", &c.name, err));
    RETURN_IF_ERROR(table_need(t, "file", &c.file, err));
    RETURN_IF_ERROR(table_need(t, "offset", &c.offset, err));
    RETURN_IF_ERROR(table_need(t, "bytes", &c.bytes, err));
    size_t rows = table_rows(t);
    if (rows == 0) return err_set(err, STATUS_FORMAT, "%s: no prompts", table_name(t));
    out->prompts = calloc(rows, sizeof *out->prompts);
    if (out->prompts == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    for (size_t i = 0; i < rows; i++) {
        out->n = (int)i + 1;
        RETURN_IF_ERROR(read_row(t, i, &c, prompt_dir, &out->prompts[i], err));
        for (size_t j = 0; j < i; j++)
            if (strcmp(out->prompts[i].name, out->prompts[j].name) == 0)
                return table_refuse(t, i, err, "name '%s' appears twice", out->prompts[i].name);
    }
    return STATUS_OK;
}

enum status battery_open(const char *csv, const char *prompt_dir, struct battery *out, struct err *err) {
    table *t = NULL;
    memset(out, 0, sizeof *out);
    RETURN_IF_ERROR(table_read(csv, &t, err));
    enum status s = read_rows(t, prompt_dir, out, err);
    table_close(t);
    if (s != STATUS_OK) battery_close(out);
    return s;
}

void battery_close(struct battery *b) {
    for (int i = 0; i < b->n; i++) free(b->prompts[i].bytes);
    free(b->prompts);
    memset(b, 0, sizeof *b);
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static enum status make_dir(const char *path, struct err *err) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return STATUS_OK;
    return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
}

static void request_of(const struct battery_prompt *p, const char *out, struct generate_request *r) {
    memset(r, 0, sizeof *r);
    r->prompt_name = p->name;
    r->prompt = p->bytes;
    r->prompt_bytes = p->n;
    r->sampler = sampler_greedy();
    r->out = out;
}

enum status battery_generate(engine *e, const struct battery *b, const struct sampler_config *sampler, int n,
                             const char *out_dir, generate_progress *progress, void *ctx, struct err *err) {
    RETURN_IF_ERROR(make_dir(out_dir, err));
    size_t count = (size_t)b->n;
    struct generate_request *requests = calloc(count, sizeof *requests);
    dump **dumps = calloc(count, sizeof *dumps);
    char(*paths)[BATTERY_PATH] = calloc(count, sizeof *paths);
    enum status s = STATUS_OK;
    if (requests == NULL || dumps == NULL || paths == NULL)
        s = err_set(err, STATUS_NOMEM, "battery: out of memory");
    for (int i = 0; s == STATUS_OK && i < b->n; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s.fgd", out_dir, b->prompts[i].name);
        request_of(&b->prompts[i], paths[i], &requests[i]);
        requests[i].n = n;
        requests[i].sampler = *sampler;
    }
    if (s == STATUS_OK) s = generate_run(e, requests, b->n, BATCH_MAX, progress, ctx, dumps, err);
    for (int i = 0; dumps != NULL && i < b->n; i++) dump_close(dumps[i]);
    free(paths);
    free(dumps);
    free(requests);
    return s;
}

static enum status replay_one(engine *e, const struct battery_prompt *p, const char *follow_dir,
                              const char *out_dir, struct err *err) {
    char from[BATTERY_PATH], to[BATTERY_PATH];
    struct generate_request r;
    dump *follow = NULL, *made = NULL;
    (void)snprintf(from, sizeof from, "%s/%s.fgd", follow_dir, p->name);
    (void)snprintf(to, sizeof to, "%s/%s.fgd", out_dir, p->name);
    RETURN_IF_ERROR(dump_open(from, &follow, err));
    request_of(p, to, &r);
    r.follow = follow;
    r.n = (int)dump_count(follow);
    r.n_top_k = BATTERY_TOP_K;
    enum status s = generate_score(e, &r, &made, err);
    dump_close(made);
    dump_close(follow);
    return s;
}

enum status battery_replay(engine *e, const struct battery *b, const char *follow_dir, const char *out_dir,
                           generate_progress *progress, void *ctx, struct err *err) {
    RETURN_IF_ERROR(make_dir(out_dir, err));
    for (int i = 0; i < b->n; i++) {
        RETURN_IF_ERROR(replay_one(e, &b->prompts[i], follow_dir, out_dir, err));
        if (progress != NULL) progress(ctx, (uint64_t)i + 1, (uint64_t)b->n);
    }
    return STATUS_OK;
}
