/* forked.c - see forked.h. */
#include "gates/forked.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gates/file_out.h"

#define SUFFIX ".golden"

enum status forked_keep(const char *folder, const char *gate, const char *prompt, const dump *golden,
                        const dump *got, struct err *err) {
    char path[FORKED_PATH];
    size_t n = 0;
    if (folder == NULL) return STATUS_OK;
    const void *bytes = dump_bytes(got, &n);
    (void)snprintf(path, sizeof path, "%.4000s/%.60s %.60s.fgd", folder, gate, prompt);
    RETURN_IF_ERROR(file_out_whole(path, bytes, n, err));
    (void)snprintf(path, sizeof path, "%.4000s/%.60s %.60s" SUFFIX, folder, gate, prompt);
    return file_out_whole(path, dump_name(golden), strlen(dump_name(golden)), err);
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

struct rank {
    int same_tokens, other_route;
    uint64_t fork;
};

static int comes_before(const struct rank *a, const struct rank *b) {
    if (a->same_tokens != b->same_tokens) return a->same_tokens < b->same_tokens;
    if (a->other_route != b->other_route) return a->other_route < b->other_route;
    return a->fork < b->fork;
}

static struct rank rank_of(const dump *golden, const dump *got) {
    const char *route = provenance_get(dump_provenance(got), "route");
    uint64_t n = dump_count(golden) < dump_count(got) ? dump_count(golden) : dump_count(got);
    struct rank r = {1, route == NULL || strcmp(route, "f16") != 0, n};
    for (uint64_t i = 0; i < n && r.same_tokens; i++) {
        if (dump_record_at(golden, i)->token == dump_record_at(got, i)->token) continue;
        r.same_tokens = 0;
        r.fork = i;
    }
    return r;
}

static enum status read_path(const char *file, char out[FORKED_PATH], struct err *err) {
    FILE *f = fopen(file, "rb");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", file, strerror(errno));
    size_t n = fread(out, 1, FORKED_PATH - 1, f);
    out[n] = '\0';
    return fclose(f) == 0 ? STATUS_OK : err_set(err, STATUS_IO, "%s: cannot be read", file);
}

/* Takes the stream called `name` when it comes before the best so far. */
static enum status consider(const char *folder, const char *name, struct rank *best,
                            struct forked_stream *out, struct err *err) {
    struct forked_stream s;
    char file[FORKED_PATH];
    dump *golden = NULL, *got = NULL;
    (void)snprintf(s.name, sizeof s.name, "%.127s", name);
    (void)snprintf(file, sizeof file, "%.4000s/%.127s" SUFFIX, folder, name);
    (void)snprintf(s.candidate, sizeof s.candidate, "%.4000s/%.127s.fgd", folder, name);
    RETURN_IF_ERROR(read_path(file, s.golden, err));
    enum status st = dump_open(s.golden, &golden, err);
    if (st == STATUS_OK) st = dump_open(s.candidate, &got, err);
    if (st == STATUS_OK) {
        struct rank r = rank_of(golden, got);
        s.n = out->n + 1;
        if (out->n == 0 || comes_before(&r, best)) {
            *best = r;
            *out = s;
        }
        out->n = s.n;
    }
    dump_close(golden);
    dump_close(got);
    return st;
}

enum status forked_first(const char *folder, struct forked_stream *out, struct err *err) {
    struct rank best = {0, 0, 0};
    const struct dirent *e;
    enum status s = STATUS_OK;
    out->n = 0;
    DIR *d = opendir(folder);
    if (d == NULL) return err_set(err, STATUS_IO, "%s: %s", folder, strerror(errno));
    while (s == STATUS_OK && (e = readdir(d)) != NULL) {
        char name[128];
        size_t n = strlen(e->d_name), suffix = sizeof SUFFIX - 1;
        if (n <= suffix || n - suffix >= sizeof name || strcmp(e->d_name + n - suffix, SUFFIX) != 0) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(n - suffix), e->d_name);
        s = consider(folder, name, &best, out, err);
    }
    (void)closedir(d);
    return s;
}
