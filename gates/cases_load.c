/* cases_load.c - reads fixtures/op_cases.csv; one row becomes one case per family. See cases.h. */
#include <stdlib.h>
#include <string.h>

#include "gates/cases.h"
#include "gates/table.h"

static const char *const case_columns[] = {"op", "dtype", "shape", "families", "seed", "battery"};
#define COLUMNS 6

static enum status load_row(const table *t, size_t row, const int at[COLUMNS], struct op_case **cases,
                            size_t *n, struct err *err) {
    const char *fields[COLUMNS];
    struct op_case parsed[FAMILIES];
    struct err why = {""};
    int added = 0;
    for (int c = 0; c < COLUMNS; c++) fields[c] = table_cell(t, row, at[c], NULL);
    if (case_parse(fields, parsed, &added, &why) != STATUS_OK)
        return table_refuse(t, row, err, "%s", why.message);
    struct op_case *grown = realloc(*cases, (*n + (size_t)added) * sizeof *grown);
    if (grown == NULL) return err_set(err, STATUS_NOMEM, "%s: %zu cases", table_name(t), *n);
    memcpy(grown + *n, parsed, (size_t)added * sizeof *grown);
    *cases = grown;
    *n += (size_t)added;
    return STATUS_OK;
}

static enum status load_rows(const table *t, struct op_case **cases, size_t *n, struct err *err) {
    int at[COLUMNS];
    for (int c = 0; c < COLUMNS; c++) RETURN_IF_ERROR(table_need(t, case_columns[c], &at[c], err));
    for (size_t r = 0; r < table_rows(t); r++) RETURN_IF_ERROR(load_row(t, r, at, cases, n, err));
    return *n > 0 ? STATUS_OK : err_set(err, STATUS_FORMAT, "%s: no case", table_name(t));
}

enum status cases_load(const char *path, struct op_case **out, size_t *n, struct err *err) {
    *out = NULL;
    *n = 0;
    table *t = NULL;
    RETURN_IF_ERROR(table_read(path, &t, err));
    enum status s = load_rows(t, out, n, err);
    table_close(t);
    if (s != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    return s;
}
