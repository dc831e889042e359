/* report.c - see report.h; the JUnit writer is report_junit.c. */
#include "gates/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum column {
    SCHEMA,
    TIER,
    GATE,
    CASE,
    ARM,
    KERNELS,
    METRIC,
    VALUE,
    BOUND,
    HEADROOM,
    VERDICT,
    GRADE,
    SEED,
    REF,
    GOT,
    PROVENANCE,
    MS,
    REPRO,
    NOTE,
    BACKEND, /* absent in reports of earlier builds */
    COLUMNS
};
static const char *const column_names[COLUMNS] = {
    "schema_version", "tier",  "gate", "case", "arm", "kernels",    "metric", "value", "bound", "headroom",
    "verdict",        "grade", "seed", "ref",  "got", "provenance", "ms",     "repro", "note",  "backend"};

double report_headroom(const struct evidence *row) {
    if (isnan(row->value) || isnan(row->bound)) return (double)NAN;
    return row->bound > 0 ? row->value / row->bound : row->value;
}

static void put_escaped(table_writer *w, const char *text) {
    table_put_escaped(w, text, strlen(text));
}

static void put_row(table_writer *w, const struct evidence *e) {
    table_put_u64(w, REPORT_SCHEMA);
    table_put_text(w, tier_name(e->tier));
    table_put_text(w, e->gate);
    put_escaped(w, e->test_case);
    table_put_text(w, e->arm);
    table_put_text(w, e->kernels);
    table_put_text(w, e->metric);
    table_put_f64(w, e->value);
    table_put_f64(w, e->bound);
    table_put_f64(w, report_headroom(e));
    table_put_text(w, verdict_name(e->verdict));
    table_put_text(w, e->grade);
    table_put_u64(w, e->seed);
    table_put_text(w, e->ref);
    table_put_text(w, e->got);
    table_put_text(w, e->provenance);
    table_put_f64(w, e->ms);
    put_escaped(w, e->repro);
    put_escaped(w, e->note);
    table_put_text(w, e->backend);
    table_end_row(w);
}

enum status report_write_csv(const char *path, FILE *stream, enum table_eol eol, const struct evidence *rows,
                             size_t n, struct err *err) {
    table_writer *w = NULL;
    RETURN_IF_ERROR(table_writer_open(path, stream, eol, column_names, COLUMNS, &w, err));
    for (size_t i = 0; i < n; i++) put_row(w, &rows[i]);
    return table_writer_finish(w, err);
}

/* ---- reading ------------------------------------------------------------------------------------------------- */
static enum status get_text(const table *t, size_t row, int column, char *out, size_t room, struct err *err) {
    size_t n, used = 0;
    const char *cell = table_cell(t, row, column, &n);
    if (n >= room * 4) return table_refuse(t, row, err, "%s: too long", table_column_name(t, column));
    uint8_t *plain = malloc(n + 1);
    if (plain == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", table_name(t));
    int good = table_unescape(cell, n, plain, &used) && used < room;
    if (good) memcpy(out, plain, used);
    if (good) out[used] = '\0';
    free(plain);
    return good ? STATUS_OK
                : table_refuse(t, row, err, "%s: malformed or too long", table_column_name(t, column));
}

static int verdict_from_name(const char *name) {
    for (int v = 0; v < VERDICTS; v++)
        if (strcmp(verdict_name((enum verdict)v), name) == 0) return v;
    return -1;
}

static int is_grade(const char *name) {
    static const char *const grades[] = {"measured", "derived", "queried", "recorded", "self"};
    for (size_t i = 0; i < sizeof grades / sizeof grades[0]; i++)
        if (strcmp(grades[i], name) == 0) return 1;
    return 0;
}

static enum status get_numbers(const table *t, size_t row, const int at[COLUMNS], struct evidence *e,
                               struct err *err) {
    int64_t schema;
    RETURN_IF_ERROR(table_integer(t, row, at[SCHEMA], REPORT_SCHEMA, REPORT_SCHEMA, &schema, err));
    RETURN_IF_ERROR(table_real(t, row, at[VALUE], &e->value, err));
    RETURN_IF_ERROR(table_real(t, row, at[BOUND], &e->bound, err));
    RETURN_IF_ERROR(table_real(t, row, at[MS], &e->ms, err));
    const char *seed = table_cell(t, row, at[SEED], NULL);
    char *end = NULL;
    e->seed = strtoull(seed, &end, 10);
    if (end == seed || *end != '\0') return table_refuse(t, row, err, "seed: '%s'", seed);
    int tier = tier_from_name(table_cell(t, row, at[TIER], NULL));
    int verdict = verdict_from_name(table_cell(t, row, at[VERDICT], NULL));
    if (tier < 0) return table_refuse(t, row, err, "tier: '%s'", table_cell(t, row, at[TIER], NULL));
    if (verdict < 0) return table_refuse(t, row, err, "verdict: '%s'", table_cell(t, row, at[VERDICT], NULL));
    e->tier = (enum tier)tier;
    e->verdict = (enum verdict)verdict;
    if (evidence_contradicts(e)) return table_refuse(t, row, err, "verdict: contradicted by value and bound");
    return STATUS_OK;
}

static enum status get_row(const table *t, size_t row, const int at[COLUMNS], struct evidence *e,
                           struct err *err) {
    RETURN_IF_ERROR(get_numbers(t, row, at, e, err));
    const struct {
        int column;
        char *out;
        size_t room;
    } texts[] = {{GATE, e->gate, sizeof e->gate},
                 {CASE, e->test_case, sizeof e->test_case},
                 {ARM, e->arm, sizeof e->arm},
                 {KERNELS, e->kernels, sizeof e->kernels},
                 {METRIC, e->metric, sizeof e->metric},
                 {GRADE, e->grade, sizeof e->grade},
                 {REF, e->ref, sizeof e->ref},
                 {GOT, e->got, sizeof e->got},
                 {PROVENANCE, e->provenance, sizeof e->provenance},
                 {REPRO, e->repro, sizeof e->repro},
                 {NOTE, e->note, sizeof e->note},
                 {BACKEND, e->backend, sizeof e->backend}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        RETURN_IF_ERROR(get_text(t, row, at[texts[i].column], texts[i].out, texts[i].room, err));
    if (!is_grade(e->grade)) return table_refuse(t, row, err, "grade: '%s'", e->grade);
    if (at[BACKEND] < 0)
        (void)snprintf(e->backend, sizeof e->backend,
                       strstr(e->repro, "--backend cuda") != NULL ? "cuda" : "cpu");
    return STATUS_OK;
}

static enum status get_rows(const table *t, struct evidence **rows, size_t *n, struct err *err) {
    int at[COLUMNS];
    for (int c = 0; c < BACKEND; c++) RETURN_IF_ERROR(table_need(t, column_names[c], &at[c], err));
    at[BACKEND] = table_find(t, column_names[BACKEND]);
    *rows = calloc(table_rows(t) + 1, sizeof **rows);
    if (*rows == NULL) return err_set(err, STATUS_NOMEM, "%s: %zu rows", table_name(t), table_rows(t));
    for (size_t r = 0; r < table_rows(t); r++) RETURN_IF_ERROR(get_row(t, r, at, &(*rows)[r], err));
    *n = table_rows(t);
    return STATUS_OK;
}

enum status report_read_csv(const char *path, struct evidence **rows, size_t *n, struct err *err) {
    *rows = NULL;
    *n = 0;
    table *t = NULL;
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = get_rows(t, rows, n, err);
    table_close(t);
    if (s != STATUS_OK) {
        free(*rows);
        *rows = NULL;
    }
    return s;
}
