/* diff_control.c - how much a benign change moves logits: from a folder of paired dumps, or from the calibrated row.
 * Not measured on the pair under judgement: a broken build must not excuse itself.
 * Idea: Y replays X's tokens under another legal geometry, so every position of the two may be compared.
 * Source: DESIGN of forkgate, section 5 "benign". Exercise: ctest -R unit.diff_control */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/budget.h"
#include "gates/diff_parts.h"

struct folder {
    dump **dumps;
    int n, room;
};

/* What the pairs say together. */
struct tally {
    double delta;
    int pairs, left_out;
    uint64_t measured;     /* logits whose change is known */
    uint64_t only_bounded; /* logits that Y does not hold: their change is known from below only */
    char changes[160];     /* "fa_tkv=64 fa_tkv=16" */
};

static const char *key_of(const dump *d, const char *key) {
    const char *value = provenance_get(dump_provenance(d), key);
    return value == NULL ? "" : value;
}

static int same_key(const dump *x, const dump *y, const char *key) {
    return strcmp(key_of(x, key), key_of(y, key)) == 0;
}

/* "fa_tkv=32" inside "fa_tq=64,fa_tkv=32,..": start and length of the value, or the empty string. */
static const char *geometry_field(const struct provenance *p, const char *field, size_t *n) {
    const char *at = provenance_get(p, "geometry");
    size_t length = strlen(field);
    if (at == NULL) at = "";
    for (; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, field, length) != 0 || at[length] != '=') continue;
        *n = strcspn(at + length + 1, ",");
        return at + length + 1;
    }
    *n = 0;
    return "";
}

static int same_in(const struct provenance *x, const struct provenance *y, const char *field) {
    size_t n = 0, m = 0;
    const char *vx = geometry_field(x, field, &n), *vy = geometry_field(y, field, &m);
    return n == m && strncmp(vx, vy, n) == 0;
}

static int same_field(const dump *x, const dump *y, const char *field) {
    return same_in(dump_provenance(x), dump_provenance(y), field);
}

int diff_names_tile(const struct provenance *p) {
    size_t n = 0;
    (void)geometry_field(p, "fa_tkv", &n);
    return n > 0;
}

int diff_same_tile(const struct provenance *x, const struct provenance *y) {
    return same_in(x, y, "fa_tkv") && same_in(x, y, "fa_chunk");
}

/* A foreign engine's geometry is compared as text. */
static int same_bits(const dump *x, const dump *y) {
    if (!diff_names_tile(dump_provenance(x))) return same_key(x, y, "geometry");
    return diff_same_tile(dump_provenance(x), dump_provenance(y));
}

const char *diff_change(const dump *a, const dump *b) {
    int tkv = !same_field(a, b, "fa_tkv"), chunk = !same_field(a, b, "fa_chunk");
    if (tkv && chunk) return "fa_tkv+fa_chunk";
    return tkv ? "fa_tkv" : chunk ? "fa_chunk" : "code";
}

/* ---- one pair --------------------------------------------------------------------------------------------- */

static void measure_logit(const dump *y, uint64_t i, int32_t id, float logit, struct tally *t) {
    double change = 0.0;
    enum diff_known known = diff_change_of(y, i, id, logit, &change);
    if (known == DIFF_UNKNOWN || !isfinite(change))
        return; /* a masked logit (-Inf) on one side is no noise */
    if (known == DIFF_AT_LEAST) t->only_bounded++;
    t->measured++;
    if (change > t->delta) t->delta = change;
}

static uint64_t shorter(const dump *x, const dump *y) {
    return dump_count(x) < dump_count(y) ? dump_count(x) : dump_count(y);
}

static void measure_pair(const dump *x, const dump *y, struct tally *t) {
    uint64_t n = shorter(x, y), before = t->measured;
    for (uint64_t i = 0; i < n; i++) {
        const struct dump_record *r = dump_record_at(x, i);
        if ((r->flags ^ dump_record_at(y, i)->flags) & DUMP_LOGPROBS) continue; /* not the same quantity */
        if (!(r->flags & DUMP_NO_TOP1)) measure_logit(y, i, r->id1, r->logit1, t);
        if (!(r->flags & DUMP_NO_TOP2)) measure_logit(y, i, r->id2, r->logit2, t);
    }
    if (t->measured == before) {
        t->left_out++;
        return;
    }
    t->pairs++;
    static const char *const fields[] = {"fa_tkv", "fa_chunk"};
    for (int k = 0; k < 2; k++) {
        if (same_field(x, y, fields[k])) continue;
        size_t length = 0;
        const char *value = geometry_field(dump_provenance(y), fields[k], &length);
        char word[64];
        (void)snprintf(word, sizeof word, " %s=%.*s", fields[k], (int)(length < 24 ? length : 24), value);
        if (strstr(t->changes, word) == NULL && strlen(t->changes) + strlen(word) < sizeof t->changes)
            memcpy(t->changes + strlen(t->changes), word, strlen(word) + 1);
    }
}

/* ---- a folder of dumps ------------------------------------------------------------------------------------- */

static void folder_close(struct folder *f) {
    for (int i = 0; i < f->n; i++) dump_close(f->dumps[i]);
    free(f->dumps);
}

static int is_dump_name(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".fgd") == 0;
}

static enum status folder_add(struct folder *f, const char *dir, const char *name, struct err *err) {
    if (f->n == f->room) {
        int room = f->room == 0 ? 64 : 2 * f->room;
        dump **dumps = realloc(f->dumps, (size_t)room * sizeof *dumps);
        if (dumps == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", dir);
        f->dumps = dumps;
        f->room = room;
    }
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", dir);
    (void)snprintf(path, n, "%s/%s", dir, name);
    enum status s = dump_open(path, &f->dumps[f->n], err);
    free(path);
    if (s == STATUS_OK) f->n++;
    return s;
}

/* Names in order, so that a report does not depend on the file system. */
static enum status folder_open(const char *dir, struct folder *f, struct err *err) {
    struct dirent **names = NULL;
    memset(f, 0, sizeof *f);
    int n = scandir(dir, &names, is_dump_name, alphasort);
    if (n < 0) return err_set(err, STATUS_IO, "%s: %s", dir, strerror(errno));
    enum status s = STATUS_OK;
    for (int i = 0; i < n; i++) {
        if (s == STATUS_OK) s = folder_add(f, dir, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    if (s != STATUS_OK) folder_close(f);
    return s;
}

const char *diff_other_build(const struct provenance *x, const struct provenance *y) {
    static const char *const keys[] = {
        "tool",  "commit",  "dirty",          "faults",   "backend", "arch",   "kv", "logits", "model.xxh3",
        "route", "sampler", "repeat_penalty", "compiler", "flags",   "device", "cc", "driver", "runtime"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *vx = provenance_get(x, keys[i]), *vy = provenance_get(y, keys[i]);
        if (strcmp(vx == NULL ? "" : vx, vy == NULL ? "" : vy) != 0) return keys[i];
    }
    return NULL;
}

static int same_build(const dump *x, const dump *y) {
    return diff_other_build(dump_provenance(x), dump_provenance(y)) == NULL;
}

/* The key says that y was fed x's tokens; the records have to say so too. */
static int same_tokens(const dump *x, const dump *y) {
    uint64_t n = shorter(x, y);
    for (uint64_t i = 0; i < n; i++)
        if (dump_record_at(x, i)->token != dump_record_at(y, i)->token) return 0;
    return n > 0;
}

static int is_pair(const dump *x, const dump *y) {
    char stream[HASH_TEXT_BYTES];
    struct dump_results r = dump_results(x);
    hash_format(&r.stream, stream);
    return provenance_get(dump_provenance(x), "follow") == NULL && strcmp(key_of(y, "follow"), stream) == 0 &&
           same_build(x, y) && same_key(x, y, "prompt.xxh3") && !same_bits(x, y) && same_tokens(x, y);
}

/* For one comparison: the pair must be of the base's own build, model and route, and Y must not be the candidate's own
 * geometry. */
static int applies(const dump *x, const dump *y, const dump *a, const dump *b) {
    if (!same_build(x, a)) return 0;
    return !(same_bits(y, a) && !same_bits(x, a)) && !(same_bits(y, b) && !same_bits(x, b));
}

static enum status check_valid(const dump *d, struct err *err) {
    const char *reason = NULL;
    uint64_t at = dump_first_invalid(d, &reason);
    if (at == UINT64_MAX) return STATUS_OK;
    return err_set(err, STATUS_INVALID, "%s: control record %llu: %s", dump_name(d), (unsigned long long)at,
                   reason);
}

static void judge_pair(const dump *x, const dump *y, const dump *a, const dump *b, struct tally *t) {
    if (!is_pair(x, y)) return;
    if (applies(x, y, a, b))
        measure_pair(x, y, t);
    else
        t->left_out++;
}

/* The dump that Y replays may lie beside Y, or, under Y's file name, beside the base under judgement: a battery keeps its
 * base in one folder and each control in another. */
static enum status judge_sibling(const dump *y, const dump *a, const dump *b, struct tally *t,
                                 struct err *err) {
    const char *slash = strrchr(dump_name(y), '/'), *base = strrchr(dump_name(a), '/');
    const char *file = slash == NULL ? dump_name(y) : slash + 1;
    int dir_length = base == NULL ? 1 : (int)(base - dump_name(a));
    size_t n = (size_t)dir_length + strlen(file) + 2;
    char *path = malloc(n);
    if (path == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", file);
    (void)snprintf(path, n, "%.*s/%s", dir_length, base == NULL ? "." : dump_name(a), file);
    dump *x = NULL;
    enum status s = access(path, F_OK) == 0 ? dump_open(path, &x, err) : STATUS_OK;
    free(path);
    if (s == STATUS_OK && x != NULL) judge_pair(x, y, a, b, t);
    dump_close(x);
    return s;
}

static enum status measure(const char *dir, const dump *a, const dump *b, struct tally *t, struct err *err) {
    struct folder f;
    memset(t, 0, sizeof *t);
    RETURN_IF_ERROR(folder_open(dir, &f, err));
    enum status s = STATUS_OK;
    for (int y = 0; y < f.n && s == STATUS_OK; y++) {
        s = check_valid(f.dumps[y], err);
        if (s == STATUS_OK) s = judge_sibling(f.dumps[y], a, b, t, err);
        for (int x = 0; x < f.n && s == STATUS_OK; x++) judge_pair(f.dumps[x], f.dumps[y], a, b, t);
    }
    folder_close(&f);
    return s;
}

static void tell(const char *dir, const struct tally *t, struct diff_control *out) {
    char bounded[80] = "", left_out[64] = "";
    if (t->only_bounded > 0)
        (void)snprintf(bounded, sizeof bounded, "; %llu logits known from below only",
                       (unsigned long long)t->only_bounded);
    if (t->left_out > 0) (void)snprintf(left_out, sizeof left_out, "; %d not applicable", t->left_out);
    out->delta = t->pairs > 0 ? t->delta : -1.0;
    (void)snprintf(out->source, sizeof out->source, "%.60s (%d pairs:%.60s%.50s%.40s)", dir, t->pairs,
                   t->pairs > 0 ? t->changes : " none applies", bounded, left_out);
}

enum status diff_control_for(const char *dir, const dump *a, const dump *b, struct diff_control *out,
                             int *n_pairs, struct err *err) {
    struct tally t;
    RETURN_IF_ERROR(measure(dir, a, b, &t, err));
    tell(dir, &t, out);
    *n_pairs = t.pairs;
    return STATUS_OK;
}

enum status diff_control_from_budgets(const char *path, const dump *a, const dump *b,
                                      struct diff_control *out, struct err *err) {
    out->delta = -1.0;
    (void)snprintf(out->source, sizeof out->source, "none");
    if (access(path, F_OK) != 0) return STATUS_OK;
    struct budgets budgets;
    RETURN_IF_ERROR(budgets_load(path, &budgets, err));
    const char *change = diff_change(a, b);
    const struct budget_row *row = NULL;
    if (same_key(a, b, "route") && *key_of(a, "model.xxh3") != '\0')
        row = budgets_calibrated(&budgets, "logits", "delta", key_of(a, "model.xxh3"), key_of(a, "route"),
                                 change);
    if (row != NULL) {
        out->delta = row->bound;
        (void)snprintf(out->source, sizeof out->source,
                       "golden/budgets.csv: logits delta, route %s, change %s, %.80s", row->route,
                       row->change, row->derivation);
    }
    budgets_free(&budgets);
    return STATUS_OK;
}
