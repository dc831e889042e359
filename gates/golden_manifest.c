/* golden_manifest.c - golden/manifest.csv in and out. See golden.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/golden.h"
#include "gates/slurp.h"
#include "gates/table.h"

enum column {
    NAME,
    STREAM,
    LOGITS,
    COUNT,
    TEXT_HEAD,
    GAP,
    STOP,
    MODEL,
    PROMPT,
    ROUTE,
    ARCH,
    KV,
    LOGITS_DTYPE,
    TKV,
    CHUNK,
    SAMPLER,
    REQUESTED,
    FILE_NAME,
    MODEL_HASH,
    PROMPT_HASH,
    PROVENANCE,
    COMMIT,
    REPLACES,
    REASON,
    COLUMNS
};
static const char *const column_names[COLUMNS] = {
    "name",         "stream",      "logits",     "count",   "text_head",   "smallest_gap",
    "stop",         "model",       "prompt",     "route",   "arch",        "kv",
    "logits_dtype", "fa_tkv",      "fa_chunk",   "sampler", "n_requested", "file",
    "model.xxh3",   "prompt.xxh3", "provenance", "commit",  "replaces",    "reason"};

/* ---- reading ------------------------------------------------------------------------------------------------- */
static enum status get_text(const table *t, size_t row, int column, char *out, size_t room, struct err *err) {
    size_t n;
    const char *cell = table_cell(t, row, column, &n);
    if (n >= room || strlen(cell) != n)
        return table_refuse(t, row, err, "%s: too long, or holds a NUL", table_column_name(t, column));
    memcpy(out, cell, n + 1);
    return STATUS_OK;
}

static enum status get_hash(const table *t, size_t row, int column, struct hash128 *out, struct err *err) {
    if (hash_parse(table_cell(t, row, column, NULL), out)) return STATUS_OK;
    return table_refuse(t, row, err, "%s: not 32 hex digits", table_column_name(t, column));
}

static enum status get_texts(const table *t, size_t row, const int at[COLUMNS], struct golden_entry *e,
                             struct err *err) {
    const struct {
        enum column column;
        char *out;
        size_t room;
    } texts[] = {{NAME, e->name, sizeof e->name},
                 {TEXT_HEAD, e->text_head, sizeof e->text_head},
                 {STOP, e->stop, sizeof e->stop},
                 {MODEL, e->model, sizeof e->model},
                 {PROMPT, e->prompt, sizeof e->prompt},
                 {ROUTE, e->key.route, sizeof e->key.route},
                 {ARCH, e->key.arch, sizeof e->key.arch},
                 {KV, e->key.kv, sizeof e->key.kv},
                 {LOGITS_DTYPE, e->key.logits, sizeof e->key.logits},
                 {SAMPLER, e->key.sampler, sizeof e->key.sampler},
                 {FILE_NAME, e->file, sizeof e->file},
                 {PROVENANCE, e->provenance, sizeof e->provenance},
                 {COMMIT, e->commit, sizeof e->commit},
                 {REPLACES, e->replaces, sizeof e->replaces},
                 {REASON, e->reason, sizeof e->reason}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        RETURN_IF_ERROR(get_text(t, row, at[texts[i].column], texts[i].out, texts[i].room, err));
    return STATUS_OK;
}

/* "5d9f9c9907bc+": golden_commit_text. */
static void take_modified(struct golden_entry *e) {
    size_t n = strlen(e->commit);
    e->modified = n > 0 && e->commit[n - 1] == '+';
    if (e->modified) e->commit[n - 1] = '\0';
}

static enum status get_entry(const table *t, size_t row, const int at[COLUMNS], struct golden_entry *e,
                             struct err *err) {
    int64_t tkv, chunk, count, requested;
    RETURN_IF_ERROR(get_texts(t, row, at, e, err));
    take_modified(e);
    RETURN_IF_ERROR(get_hash(t, row, at[STREAM], &e->stream_hash, err));
    RETURN_IF_ERROR(get_hash(t, row, at[LOGITS], &e->logits_hash, err));
    RETURN_IF_ERROR(get_hash(t, row, at[MODEL_HASH], &e->key.model, err));
    RETURN_IF_ERROR(get_hash(t, row, at[PROMPT_HASH], &e->key.prompt, err));
    RETURN_IF_ERROR(table_integer(t, row, at[TKV], 1, FA_TKV_MAX, &tkv, err));
    RETURN_IF_ERROR(table_integer(t, row, at[CHUNK], 1, FA_CHUNK_MAX, &chunk, err));
    RETURN_IF_ERROR(table_integer(t, row, at[COUNT], 1, INT32_MAX, &count, err));
    RETURN_IF_ERROR(table_integer(t, row, at[REQUESTED], 1, INT32_MAX, &requested, err));
    RETURN_IF_ERROR(table_real(t, row, at[GAP], &e->smallest_gap, err));
    e->key.fa_tkv = (int)tkv;
    e->key.fa_chunk = (int)chunk;
    e->count = (uint64_t)count;
    e->n_requested = (uint64_t)requested;
    if (e->file[0] == '/' || strstr(e->file, "..") != NULL || strchr(e->file, '/') == NULL)
        return table_refuse(t, row, err, "file: '%s' is not a name below the folder", e->file);
    return STATUS_OK;
}

static enum status get_entries(const table *t, struct golden_set *s, struct err *err) {
    int at[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) RETURN_IF_ERROR(table_need(t, column_names[c], &at[c], err));
    s->entries = calloc(table_rows(t) + 1, sizeof *s->entries);
    if (s->entries == NULL) return err_set(err, STATUS_NOMEM, "%s: %zu rows", table_name(t), table_rows(t));
    for (size_t r = 0; r < table_rows(t); r++) {
        RETURN_IF_ERROR(get_entry(t, r, at, &s->entries[r], err));
        for (size_t i = 0; i < r; i++)
            if (strcmp(s->entries[i].name, s->entries[r].name) == 0 ||
                golden_key_equal(&s->entries[i].key, &s->entries[r].key))
                return table_refuse(t, r, err, "the same name or key as record %zu", i + 1);
        s->n = r + 1;
    }
    return STATUS_OK;
}

static int holds_dump(const char *dir, const char *folder) {
    char path[4096];
    int found = 0;
    (void)snprintf(path, sizeof path, "%s/%s", dir, folder);
    DIR *d = opendir(path);
    for (const struct dirent *f; d != NULL && !found && (f = readdir(d)) != NULL;) {
        size_t n = strlen(f->d_name);
        found = n > 4 && strcmp(f->d_name + n - 4, ".fgd") == 0;
    }
    if (d != NULL) (void)closedir(d);
    return found;
}

/* No manifest is the empty set before the first refresh, which writes one before any dump: dumps without one have lost it,
 * and everything in them would pass as new. */
static enum status without_manifest(const char *dir, struct err *err) {
    enum status s = STATUS_OK;
    DIR *d = opendir(dir);
    for (const struct dirent *f; d != NULL && s == STATUS_OK && (f = readdir(d)) != NULL;)
        if (strncmp(f->d_name, "sm_", 3) == 0 && holds_dump(dir, f->d_name))
            s = err_set(err, STATUS_FORMAT,
                        "%s/manifest.csv is gone, and %s holds dumps: bring it back (git checkout)", dir,
                        f->d_name);
    if (d != NULL) (void)closedir(d);
    return s;
}

enum status golden_load(const char *dir, struct golden_set *out, struct err *err) {
    char path[2304], *bytes = NULL;
    size_t n = 0;
    memset(out, 0, sizeof *out);
    if (strlen(dir) >= sizeof out->dir) return err_set(err, STATUS_USAGE, "golden: folder name too long");
    (void)snprintf(out->dir, sizeof out->dir, "%s", dir);
    (void)snprintf(path, sizeof path, "%s/manifest.csv", dir);
    if (access(path, F_OK) != 0 && errno == ENOENT) return without_manifest(dir, err);
    RETURN_IF_ERROR(slurp_any(path, &bytes, &n, err));
    out->manifest = hash_bytes(bytes, n);
    table *t = NULL;
    enum status s = table_read_memory(bytes, n, path, &t, err);
    if (s == STATUS_OK) s = get_entries(t, out, err);
    table_close(t);
    free(bytes);
    if (s != STATUS_OK) golden_free(out);
    return s;
}

void golden_free(struct golden_set *s) {
    free(s->entries);
    s->entries = NULL;
    s->n = 0;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */
static void put_hash(table_writer *w, const struct hash128 *h) {
    char text[HASH_TEXT_BYTES];
    hash_format(h, text);
    table_put_text(w, text);
}

static void put_entry(table_writer *w, const struct golden_entry *e) {
    char commit[GOLDEN_COMMIT];
    table_put_text(w, e->name);
    put_hash(w, &e->stream_hash);
    put_hash(w, &e->logits_hash);
    table_put_u64(w, e->count);
    table_put_text(w, e->text_head);
    table_put_f64(w, e->smallest_gap);
    table_put_text(w, e->stop);
    table_put_text(w, e->model);
    table_put_text(w, e->prompt);
    table_put_text(w, e->key.route);
    table_put_text(w, e->key.arch);
    table_put_text(w, e->key.kv);
    table_put_text(w, e->key.logits);
    table_put_i64(w, e->key.fa_tkv);
    table_put_i64(w, e->key.fa_chunk);
    table_put_text(w, e->key.sampler);
    table_put_u64(w, e->n_requested);
    table_put_text(w, e->file);
    put_hash(w, &e->key.model);
    put_hash(w, &e->key.prompt);
    table_put_text(w, e->provenance);
    golden_commit_text(e, commit);
    table_put_text(w, commit);
    table_put_text(w, e->replaces);
    table_put_text(w, e->reason);
    table_end_row(w);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct golden_entry *)a)->name, ((const struct golden_entry *)b)->name);
}

enum status golden_format(const struct golden_set *s, char **text, size_t *n, struct err *err) {
    table_writer *w = NULL;
    *text = NULL;
    FILE *f = open_memstream(text, n);
    if (f == NULL) return err_set(err, STATUS_NOMEM, "golden: manifest");
    if (s->n > 1) qsort(s->entries, s->n, sizeof *s->entries, by_name);
    enum status status = table_writer_open(NULL, f, TABLE_LF, column_names, COLUMNS, &w, err);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < s->n; i++) put_entry(w, &s->entries[i]);
        status = table_writer_finish(w, err);
    }
    if (fclose(f) != 0 && status == STATUS_OK) status = err_set(err, STATUS_NOMEM, "golden: manifest");
    if (status == STATUS_OK) return status;
    free(*text);
    *text = NULL;
    return status;
}
