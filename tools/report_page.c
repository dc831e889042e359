/* report_page.c - see report_page.h. */
#include "tools/report_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "build_info.h"
#include "gates/diff_folder.h"
#include "gates/file_hash.h"
#include "gates/report.h"
#include "gates/report_html.h"
#include "tools/cli.h"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static enum status add_config(const struct engine_config *c, struct provenance *p, struct err *err) {
    char geometry[96];
    geometry_format(&c->compute.geometry, geometry, sizeof geometry);
    RETURN_IF_ERROR(provenance_set(p, "backend", c->backend == BACKEND_CUDA ? "cuda" : "cpu", err));
    RETURN_IF_ERROR(provenance_set(p, "arch", arch_name(c->compute.arch), err));
    return provenance_set(p, "candidate", geometry, err);
}

enum status report_page_about(const char *command, const char *model, const struct engine_config *config,
                              struct provenance *p, struct err *err) {
    char date[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL) (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    RETURN_IF_ERROR(provenance_set(p, "tool", "forkgate 0.1.0", err));
    RETURN_IF_ERROR(provenance_setf(p, err, "commit", "%s%s", FORKGATE_COMMIT,
                                    FORKGATE_DIRTY[0] == '1' ? " (modified)" : ""));
    RETURN_IF_ERROR(provenance_set(p, "date", date, err));
    RETURN_IF_ERROR(provenance_set(p, "command", command, err));
    if (model != NULL) RETURN_IF_ERROR(provenance_set(p, "model", base_name(model), err));
    return config != NULL ? add_config(config, p, err) : STATUS_OK;
}

/* The inputs by name and hash: a report that was made later says from what. */
static enum status add_file(const char *key, const char *path, struct provenance *p, struct err *err) {
    struct hash128 hash;
    char text[HASH_TEXT_BYTES];
    if (path == NULL) return STATUS_OK;
    RETURN_IF_ERROR(file_hash(path, &hash, err));
    hash_format(&hash, text);
    return provenance_setf(p, err, key, "%s (XXH3-128 %s)", base_name(path), text);
}

struct parts {
    struct evidence *rows;
    dump *a, *b;
    table *explain, *mutants;
    struct diff_result diff;
    struct provenance about;
};

static enum status gather(const struct report_page_args *a, struct parts *parts, struct report_page *page,
                          struct err *err) {
    char budgets[4200];
    (void)snprintf(budgets, sizeof budgets, "%s/golden/budgets.csv", cli_source_dir());
    const struct diff_options o = {a->control, budgets};
    RETURN_IF_ERROR(report_page_about("forkgate report html", NULL, NULL, &parts->about, err));
    RETURN_IF_ERROR(add_file("run", a->run, &parts->about, err));
    RETURN_IF_ERROR(add_file("a", a->dump_a, &parts->about, err));
    RETURN_IF_ERROR(add_file("b", a->dump_b, &parts->about, err));
    RETURN_IF_ERROR(add_file("explain", a->explain, &parts->about, err));
    RETURN_IF_ERROR(add_file("mutants", a->mutants, &parts->about, err));
    if (a->run != NULL) RETURN_IF_ERROR(report_read_csv(a->run, &parts->rows, &page->n, err));
    if (a->dump_a != NULL) {
        RETURN_IF_ERROR(diff_with_control(a->dump_a, a->dump_b, &o, &parts->a, &parts->b, &parts->diff, err));
        page->diff = &parts->diff;
    }
    if (a->explain != NULL) RETURN_IF_ERROR(table_read(a->explain, &parts->explain, err));
    if (a->mutants != NULL) RETURN_IF_ERROR(table_read(a->mutants, &parts->mutants, err));
    page->rows = parts->rows;
    page->a = parts->a;
    page->b = parts->b;
    page->explain = parts->explain;
    page->mutants = parts->mutants;
    page->about = &parts->about;
    return STATUS_OK;
}

enum status report_page_write(const struct report_page_args *a, struct err *err) {
    struct parts parts;
    struct report_page page;
    memset(&parts, 0, sizeof parts);
    memset(&page, 0, sizeof page);
    provenance_init(&parts.about);
    enum status s = gather(a, &parts, &page, err);
    if (s == STATUS_OK) s = report_write_html(a->out, stdout, &page, err);
    free(parts.rows);
    dump_close(parts.a);
    dump_close(parts.b);
    table_close(parts.explain);
    table_close(parts.mutants);
    provenance_free(&parts.about);
    return s;
}
