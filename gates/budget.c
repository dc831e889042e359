/* budget.c - see budget.h. */
#include "gates/budget.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/table.h"

enum column { OP, DTYPE, METRIC, BOUND, MODEL, ROUTE, CHANGE, DERIVATION, DEVICE, DATE, COLUMNS };
static const char *const column_names[COLUMNS] = {"op",    "dtype",  "metric",     "bound",  "model",
                                                  "route", "change", "derivation", "device", "date"};

static enum status copy_cell(const table *t, size_t row, int column, char *out, size_t room,
                             struct err *err) {
    size_t n;
    const char *cell = table_cell(t, row, column, &n);
    if (n >= room)
        return table_refuse(t, row, err, "%s: longer than %zu bytes", table_column_name(t, column), room - 1);
    memcpy(out, cell, n + 1);
    return STATUS_OK;
}

static enum status read_row(const table *t, size_t row, const int at[COLUMNS], struct budget_row *out,
                            struct err *err) {
    RETURN_IF_ERROR(copy_cell(t, row, at[OP], out->op, sizeof out->op, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[DTYPE], out->dtype, sizeof out->dtype, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[METRIC], out->metric, sizeof out->metric, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[MODEL], out->model, sizeof out->model, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[ROUTE], out->route, sizeof out->route, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[CHANGE], out->change, sizeof out->change, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[DERIVATION], out->derivation, sizeof out->derivation, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[DEVICE], out->device, sizeof out->device, err));
    RETURN_IF_ERROR(copy_cell(t, row, at[DATE], out->date, sizeof out->date, err));
    RETURN_IF_ERROR(table_real(t, row, at[BOUND], &out->bound, err));
    if (!isfinite(out->bound) || out->bound < 0)
        return table_refuse(t, row, err, "bound: no finite number >= 0");
    if (out->op[0] == '\0' || out->metric[0] == '\0')
        return table_refuse(t, row, err, "op and metric may not be empty");
    if (out->derivation[0] == '\0') return table_refuse(t, row, err, "derivation: a bound without a reason");
    return STATUS_OK;
}

static int same_key(const struct budget_row *a, const struct budget_row *b) {
    return strcmp(a->op, b->op) == 0 && strcmp(a->dtype, b->dtype) == 0 &&
           strcmp(a->metric, b->metric) == 0 && strcmp(a->model, b->model) == 0 &&
           strcmp(a->route, b->route) == 0 && strcmp(a->change, b->change) == 0;
}

static enum status read_rows(const table *t, struct budgets *out, struct err *err) {
    int at[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) RETURN_IF_ERROR(table_need(t, column_names[c], &at[c], err));
    out->rows = calloc(table_rows(t) + 1, sizeof *out->rows);
    if (out->rows == NULL) return err_set(err, STATUS_NOMEM, "%s: %zu rows", table_name(t), table_rows(t));
    for (size_t r = 0; r < table_rows(t); r++) {
        RETURN_IF_ERROR(read_row(t, r, at, &out->rows[r], err));
        for (size_t i = 0; i < r; i++)
            if (same_key(&out->rows[i], &out->rows[r]))
                return table_refuse(t, r, err, "the same key as record %zu", i + 1);
        out->n = r + 1;
    }
    return STATUS_OK;
}

enum status budgets_load(const char *path, struct budgets *out, struct err *err) {
    memset(out, 0, sizeof *out);
    table *t = NULL;
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = read_rows(t, out, err);
    table_close(t);
    if (s != STATUS_OK) budgets_free(out);
    return s;
}

void budgets_free(struct budgets *b) {
    free(b->rows);
    memset(b, 0, sizeof *b);
}

const struct budget_row *budgets_find(const struct budgets *b, const char *op, const char *dtype,
                                      const char *metric) {
    const struct budget_row *any = NULL;
    for (size_t i = 0; i < b->n; i++) {
        const struct budget_row *r = &b->rows[i];
        if (r->model[0] != '\0' || strcmp(r->op, op) != 0 || strcmp(r->metric, metric) != 0) continue;
        if (strcmp(r->dtype, dtype) == 0) return r;
        if (strcmp(r->dtype, "*") == 0) any = r;
    }
    return any;
}

enum status budgets_bound(const struct budgets *b, const char *op, const char *dtype, const char *metric,
                          double *bound, struct err *err) {
    const struct budget_row *r = budgets_find(b, op, dtype, metric);
    if (r == NULL)
        return err_set(err, STATUS_INVALID, "golden/budgets.csv has no row for op %s, dtype %s, metric %s",
                       op, dtype, metric);
    *bound = r->bound;
    return STATUS_OK;
}

const struct budget_row *budgets_calibrated(const struct budgets *b, const char *op, const char *metric,
                                            const char *model, const char *route, const char *change) {
    for (size_t i = 0; i < b->n; i++) {
        const struct budget_row *r = &b->rows[i];
        if (strcmp(r->op, op) == 0 && strcmp(r->metric, metric) == 0 && strcmp(r->model, model) == 0 &&
            strcmp(r->route, route) == 0 && strcmp(r->change, change) == 0)
            return r;
    }
    return NULL;
}
