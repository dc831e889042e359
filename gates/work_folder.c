/* work_folder.c - see work_folder.h. */
#include "gates/work_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/child_process.h"
#include "gates/table.h"

enum status work_folder_make(const char *name, struct work_folder *out, struct err *err) {
    char path[256];
    out->root[0] = '\0';
    RETURN_IF_ERROR(child_folder_make(name, path, err));
    (void)snprintf(out->root, sizeof out->root, "%s", path);
    return STATUS_OK;
}

void work_folder_remove(struct work_folder *w) {
    if (w->root[0] != '\0') child_folder_remove(w->root);
    w->root[0] = '\0';
}

enum status work_folder_sub(const struct work_folder *w, const char *name, char out[WORK_PATH],
                            struct err *err) {
    int n = snprintf(out, WORK_PATH, "%s/%s", w->root, name);
    if (n < 0 || n >= WORK_PATH) return err_set(err, STATUS_LIMIT, "%s/%s: too long a path", w->root, name);
    if (mkdir(out, 0700) == 0 || errno == EEXIST) return STATUS_OK;
    return err_set(err, STATUS_IO, "%s: %s", out, strerror(errno));
}

void work_folder_prompt(const struct work_folder *w, const struct battery_prompt *p, char out[WORK_PATH]) {
    (void)snprintf(out, WORK_PATH, "%.300s/fixtures/prompts/%s", w->root, p->name);
}

static enum status write_prompt(const struct work_folder *w, const struct battery_prompt *p,
                                struct err *err) {
    char path[WORK_PATH];
    work_folder_prompt(w, p, path);
    FILE *f = fopen(path, "wb");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    int whole = fwrite(p->bytes, 1, p->n, f) == p->n;
    if (fclose(f) != 0 || !whole) return err_set(err, STATUS_IO, "%s: cannot be written", path);
    return STATUS_OK;
}

enum status work_folder_battery(const struct work_folder *w, const struct battery *b, const char *list,
                                char csv[WORK_PATH], struct err *err) {
    static const char *const columns[] = {"name", "file", "offset", "bytes"};
    char folder[WORK_PATH];
    table_writer *t = NULL;
    RETURN_IF_ERROR(work_folder_sub(w, "fixtures", folder, err));
    RETURN_IF_ERROR(work_folder_sub(w, "fixtures/prompts", folder, err));
    (void)snprintf(csv, WORK_PATH, "%.300s/%.100s.csv", w->root, list);
    for (int i = 0; i < b->n; i++) RETURN_IF_ERROR(write_prompt(w, &b->prompts[i], err));
    RETURN_IF_ERROR(table_writer_open(csv, NULL, TABLE_LF, columns, 4, &t, err));
    for (int i = 0; i < b->n; i++) {
        table_put_text(t, b->prompts[i].name);
        table_put_text(t, b->prompts[i].name);
        table_put_i64(t, 0);
        table_put_u64(t, b->prompts[i].n);
        table_end_row(t);
    }
    return table_writer_finish(t, err);
}
