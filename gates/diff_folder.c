/* diff_folder.c - see diff_folder.h. */
#include "gates/diff_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The control that applies to this fork, or why none does: a fork is told either way. 0: nothing to tell. */
static int find_control(const dump *a, const dump *b, const struct diff_options *o, struct diff_control *c) {
    struct err err = {""};
    int pairs = 0;
    memset(c, 0, sizeof *c);
    c->delta = -1.0;
    if (o->control == NULL && o->budgets == NULL) return 0;
    enum status s = o->control == NULL ? diff_control_from_budgets(o->budgets, a, b, c, &err)
                                       : diff_control_for(o->control, a, b, c, &pairs, &err);
    if (s == STATUS_OK && o->control == NULL) return c->delta >= 0.0;
    if (s == STATUS_OK && pairs > 0) return 1;
    if (s == STATUS_OK)
        (void)err_set(
            &err, STATUS_USAGE,
            "%.90s: no pair there is a control for this comparison: a replay of a dump of A's build, "
            "under an fa_tkv that neither side is judged for",
            o->control);
    c->delta = -1.0;
    (void)snprintf(c->source, sizeof c->source, "%.255s", err.message);
    return 1;
}

/* A mistyped folder is an error even when nothing forks: an option is never ignored. */
enum status diff_control_folder(const char *dir, struct err *err) {
    if (dir == NULL) return STATUS_OK;
    DIR *d = opendir(dir);
    if (d == NULL) return err_set(err, STATUS_IO, "--control %s: %s", dir, strerror(errno));
    (void)closedir(d);
    return STATUS_OK;
}

enum status diff_with_control(const char *path_a, const char *path_b, const struct diff_options *options,
                              dump **a, dump **b, struct diff_result *out, struct err *err) {
    struct diff_control control;
    RETURN_IF_ERROR(diff_control_folder(options->control, err));
    RETURN_IF_ERROR(diff_files(path_a, path_b, NULL, a, b, out, err));
    int unchecked_a = out->results_unchecked_a, unchecked_b = out->results_unchecked_b;
    if (out->verdict != DIFF_FORK || !find_control(*a, *b, options, &control)) return STATUS_OK;
    enum status s = diff_streams(*a, *b, &control, out, err);
    out->results_unchecked_a = unchecked_a;
    out->results_unchecked_b = unchecked_b;
    if (s != STATUS_OK) {
        dump_close(*a);
        dump_close(*b);
        *a = *b = NULL;
    }
    return s;
}

/* ---- two folders ------------------------------------------------------------------------------------------------- */

static int is_dump_name(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".fgd") == 0;
}

static int by_name(const struct dirent **x, const struct dirent **y) {
    return strcmp((*x)->d_name, (*y)->d_name); /* alphasort follows the locale */
}

static enum status list(const char *dir, struct dirent ***names, int *n, struct err *err) {
    *n = scandir(dir, names, is_dump_name, by_name);
    if (*n >= 0) return STATUS_OK;
    *n = 0;
    *names = NULL;
    return err_set(err, STATUS_IO, "%s: %s", dir, strerror(errno));
}

static void free_list(struct dirent **names, int n) {
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

static char *join(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = malloc(n);
    if (path != NULL) (void)snprintf(path, n, "%s/%s", dir, name);
    return path;
}

static enum status visit_pair(const char *dir_a, const char *dir_b, const char *name,
                              const struct diff_options *options, diff_visit *visit, void *ctx,
                              struct err *err) {
    char *path_a = join(dir_a, name), *path_b = join(dir_b, name);
    enum status s = STATUS_OK;
    if (path_a == NULL || path_b == NULL) s = err_set(err, STATUS_NOMEM, "%s: out of memory", name);
    if (s == STATUS_OK) {
        dump *a = NULL, *b = NULL;
        struct diff_result r;
        struct err pair_err = {""};
        enum status pair = diff_with_control(path_a, path_b, options, &a, &b, &r, &pair_err);
        visit(ctx, path_a, path_b, pair, a, b, &r, &pair_err);
        dump_close(a);
        dump_close(b);
    }
    free(path_a);
    free(path_b);
    return s;
}

enum status diff_folders(const char *dir_a, const char *dir_b, const struct diff_options *options,
                         diff_visit *visit, void *ctx, struct err *err) {
    struct dirent **in_a = NULL, **in_b = NULL;
    int n = 0, m = 0;
    RETURN_IF_ERROR(list(dir_a, &in_a, &n, err));
    enum status s = list(dir_b, &in_b, &m, err);
    if (s == STATUS_OK && n + m == 0)
        s = err_set(err, STATUS_USAGE,
                    "%s and %s: no .fgd file in either (tensors are compared two at a time)", dir_a, dir_b);
    for (int i = 0, j = 0; s == STATUS_OK && (i < n || j < m);) {
        int order = i == n ? 1 : j == m ? -1 : strcmp(in_a[i]->d_name, in_b[j]->d_name);
        s = visit_pair(dir_a, dir_b, order <= 0 ? in_a[i]->d_name : in_b[j]->d_name, options, visit, ctx,
                       err);
        i += order <= 0;
        j += order >= 0;
    }
    free_list(in_a, n);
    free_list(in_b, m);
    return s;
}
