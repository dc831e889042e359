/* golden_complete.c - what a manifest does not say: streams that the battery has and no line names, dumps without a line.
 * Not damage of a line (golden.c). Idea: a deleted line must not read as one golden less to check.
 * Source: ours. Exercise: ctest -R cli.golden */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "gates/golden.h"
#include "gates/table.h"

static int is_named(const struct golden_set *s, const char *file) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->entries[i].file, file) == 0) return 1;
    return 0;
}

static void tell_orphans(const struct golden_set *s, const char *folder, golden_gap *tell, void *ctx) {
    char path[4096], file[512];
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, folder);
    DIR *d = opendir(path);
    if (d == NULL) return; /* no such folder: nothing lies in it */
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 4, ".fgd") != 0) continue;
        (void)snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
        if (!is_named(s, file)) tell(ctx, GOLDEN_ORPHAN, file);
    }
    (void)closedir(d);
}

enum status golden_gaps(const char *source_dir, const struct golden_set *s, golden_gap *tell, void *ctx,
                        struct err *err) {
    static const char *const folders[] = {"sm_90-f16", "sm_90-q8"};
    char path[4096], name[256], stem[200];
    int file = 0;
    table *t = NULL;
    (void)snprintf(path, sizeof path, "%s/fixtures/golden_prompts.csv", source_dir);
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status status = table_need(t, "file", &file, err);
    for (int f = 0; status == STATUS_OK && f < 2; f++) {
        for (size_t row = 0; row < table_rows(t); row++) {
            golden_stem(table_cell(t, row, file, NULL), stem, sizeof stem);
            (void)snprintf(name, sizeof name, "%s/%s", folders[f], stem);
            if (golden_by_name(s, name) == NULL) tell(ctx, GOLDEN_MISSING, name);
        }
        tell_orphans(s, folders[f], tell, ctx);
    }
    table_close(t);
    return status;
}
