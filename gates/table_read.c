/* table_read.c - the reading half of table.h.
 * Not a lenient reader: ragged rows, stray quotes, blank lines and unterminated quotes are refused with their place.
 * Idea: libcsv is fed one physical line at a time, so every record knows the line it starts on.
 * Source: libcsv. Exercise: ctest -R unit.table ; fuzz_csv */
#include <csv.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "gates/slurp.h"
#include "gates/table.h"

#define COLUMNS_MAX 4096

struct table {
    char *name;
    char *bytes; /* cells, each NUL-terminated */
    size_t used, room;
    size_t *cells; /* offset of each cell; cells[i + 1] - cells[i] - 1 is its length */
    size_t n_cells, cells_room;
    uint64_t *lines; /* first physical line of each record, header included */
    size_t n_records, lines_room;
    int columns;
    char **notes;
    int n_notes, notes_room;
    /* while reading */
    uint64_t line;       /* physical line being fed */
    uint64_t start;      /* line the current record started on */
    uint64_t blank_line; /* a blank line seen since the last record, or 0 */
    int open;            /* a record has begun */
    int fields;          /* of the current record */
    enum status status;
    struct err *err;
};

static int grow(void **memory, size_t *room, size_t needed, size_t each) {
    if (needed <= *room) return 1;
    size_t n = *room == 0 ? 64 : *room;
    while (n < needed) n *= 2;
    void *bigger = realloc(*memory, n * each);
    if (bigger == NULL) return 0;
    *memory = bigger;
    *room = n;
    return 1;
}

static void fail_memory(struct table *t) {
    if (t->status == STATUS_OK) t->status = err_set(t->err, STATUS_NOMEM, "%s: out of memory", t->name);
}

/* Record numbers start at 1 after the header; the header is record 0. */
static void fail(struct table *t, uint64_t line, const char *what) {
    if (t->status != STATUS_OK) return;
    t->status = err_set(t->err, STATUS_FORMAT, "%s: record %zu (line %" PRIu64 "): %s", t->name, t->n_records,
                        line, what);
}

static void add_cell(struct table *t, const void *bytes, size_t n) {
    void *cells = t->cells, *room = t->bytes;
    int ok = grow(&cells, &t->cells_room, t->n_cells + 2, sizeof *t->cells);
    t->cells = cells;
    ok = ok && grow(&room, &t->room, t->used + n + 1, 1);
    t->bytes = room;
    if (!ok) {
        fail_memory(t);
        return;
    }
    if (n > 0) memcpy(t->bytes + t->used, bytes, n);
    t->bytes[t->used + n] = '\0';
    t->cells[t->n_cells++] = t->used;
    t->used += n + 1;
    t->cells[t->n_cells] = t->used;
}

static void on_field(void *bytes, size_t n, void *context) {
    struct table *t = context;
    if (t->status != STATUS_OK) return;
    t->fields++;
    if (t->fields > COLUMNS_MAX) {
        fail(t, t->start, "more fields than any table has");
        return;
    }
    add_cell(t, bytes, n);
}

static void end_of_record(struct table *t) {
    if (t->blank_line != 0) {
        fail(t, t->blank_line, "blank line");
        return;
    }
    if (t->n_records == 0) t->columns = t->fields;
    if (t->fields != t->columns) {
        char what[96];
        (void)snprintf(what, sizeof what, "%d fields where the header has %d", t->fields, t->columns);
        fail(t, t->start, what);
        return;
    }
    void *lines = t->lines;
    if (!grow(&lines, &t->lines_room, t->n_records + 1, sizeof *t->lines))
        fail_memory(t);
    else
        ((uint64_t *)lines)[t->n_records++] = t->start;
    t->lines = lines;
}

static void on_record(int end, void *context) {
    struct table *t = context;
    (void)end;
    if (t->status == STATUS_OK) end_of_record(t);
    t->fields = 0;
    t->open = 0;
}

static int no_blank(unsigned char c) {
    (void)c;
    return 0;
}

static size_t line_length(const char *at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (at[i] == '\n') return i + 1;
        if (at[i] == '\r') return i + 1 < n && at[i + 1] == '\n' ? i + 2 : i + 1;
    }
    return n;
}

static int is_blank(const char *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (at[i] != '\r' && at[i] != '\n') return 0;
    return 1;
}

static void feed_line(struct table *t, struct csv_parser *parser, const char *at, size_t n) {
    if (!t->open && is_blank(at, n)) { /* libcsv drops blank lines; a one-column empty row would be lost */
        if (t->blank_line == 0) t->blank_line = t->line;
        return;
    }
    if (!t->open) {
        t->start = t->line;
        t->open = 1;
    }
    if (csv_parse(parser, at, n, on_field, on_record, t) != n && t->status == STATUS_OK) {
        if (csv_error(parser) == CSV_EPARSE)
            fail(t, t->start, "a quote inside an unquoted field, or text after a closing quote");
        else
            fail_memory(t);
    }
}

static void add_note(struct table *t, const char *at, size_t n) {
    while (n > 0 && (at[n - 1] == '\n' || at[n - 1] == '\r')) n--;
    if (n > 0 && *at == ' ') {
        at++;
        n--;
    }
    size_t room = (size_t)t->notes_room;
    void *notes = t->notes;
    char *copy = malloc(n + 1);
    if (copy == NULL || t->n_notes == COLUMNS_MAX ||
        !grow(&notes, &room, (size_t)t->n_notes + 1, sizeof *t->notes)) {
        free(copy);
        fail_memory(t);
        return;
    }
    memcpy(copy, at, n);
    copy[n] = '\0';
    t->notes = notes;
    t->notes_room = (int)room;
    t->notes[t->n_notes++] = copy;
}

static void parse(struct table *t, const char *bytes, size_t n) {
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        fail_memory(t);
        return;
    }
    csv_set_space_func(&parser, no_blank); /* blanks belong to the field */
    if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        bytes += 3;
        n -= 3;
    }
    while (n > 0 && t->status == STATUS_OK) {
        size_t length = line_length(bytes, n);
        t->line++;
        if (*bytes == '#' && !t->open && t->n_records == 0)
            add_note(t, bytes + 1, length - 1);
        else
            feed_line(t, &parser, bytes, length);
        bytes += length;
        n -= length;
    }
    if (t->status == STATUS_OK && csv_fini(&parser, on_field, on_record, t) != 0)
        fail(t, t->start, "the file ends inside a quoted field");
    csv_free(&parser);
}

static void check_header(struct table *t) {
    if (t->status != STATUS_OK) return;
    if (t->n_records == 0) {
        t->status = err_set(t->err, STATUS_FORMAT, "%s: no header row", t->name);
        return;
    }
    if (t->blank_line != 0 && t->columns == 1) fail(t, t->blank_line, "blank line");
    for (int i = 0; i < t->columns && t->status == STATUS_OK; i++) {
        const char *name = table_column_name(t, i);
        if (*name == '\0')
            t->status = err_set(t->err, STATUS_FORMAT, "%s: header: column %d has no name", t->name, i + 1);
        if (strlen(name) != t->cells[i + 1] - t->cells[i] - 1 && t->status == STATUS_OK)
            t->status = err_set(t->err, STATUS_FORMAT, "%s: header: column %d has a NUL byte in its name",
                                t->name, i + 1);
        if (table_find(t, name) != i && t->status == STATUS_OK) {
            char shown[64];
            (void)table_escape(name, strlen(name), 0, 0, shown, sizeof shown);
            t->status =
                err_set(t->err, STATUS_FORMAT, "%s: header: column '%s' appears twice", t->name, shown);
        }
    }
}

enum status table_read_memory(const void *bytes, size_t n, const char *name, table **out, struct err *err) {
    *out = NULL;
    table *t = calloc(1, sizeof *t);
    char *copy = malloc(strlen(name) + 1);
    if (t == NULL || copy == NULL) {
        free(t);
        free(copy);
        return err_set(err, STATUS_NOMEM, "%s: out of memory", name);
    }
    memcpy(copy, name, strlen(name) + 1);
    t->name = copy;
    t->err = err;
    parse(t, bytes, n);
    check_header(t);
    enum status s = t->status;
    if (s != STATUS_OK) {
        table_close(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

enum status table_read(const char *path, table **out, struct err *err) {
    char *bytes = NULL;
    size_t n = 0;
    *out = NULL;
    RETURN_IF_ERROR(slurp_any(path, &bytes, &n, err));
    enum status s = table_read_memory(bytes, n, path, out, err);
    free(bytes);
    return s;
}

void table_close(table *t) {
    if (t == NULL) return;
    for (int i = 0; i < t->n_notes; i++) free(t->notes[i]);
    free(t->notes);
    free(t->name);
    free(t->bytes);
    free(t->cells);
    free(t->lines);
    free(t);
}

const char *table_name(const table *t) {
    return t->name;
}
size_t table_rows(const table *t) {
    return t->n_records - 1;
}
int table_columns(const table *t) {
    return t->columns;
}
const char *table_column_name(const table *t, int column) {
    return t->bytes + t->cells[column];
}
uint64_t table_line(const table *t, size_t row) {
    return t->lines[row + 1];
}
int table_notes(const table *t) {
    return t->n_notes;
}
const char *table_note(const table *t, int i) {
    return t->notes[i];
}

int table_find(const table *t, const char *column) {
    for (int i = 0; i < t->columns; i++)
        if (strcmp(table_column_name(t, i), column) == 0) return i;
    return -1;
}

enum status table_need(const table *t, const char *column, int *at, struct err *err) {
    *at = table_find(t, column);
    if (*at >= 0) return STATUS_OK;
    return err_set(err, STATUS_FORMAT, "%s: no column '%s'", t->name, column);
}

const char *table_cell(const table *t, size_t row, int column, size_t *n) {
    size_t cell = (row + 1) * (size_t)t->columns + (size_t)(column < 0 ? 0 : column);
    if (n != NULL) *n = column < 0 ? 0 : t->cells[cell + 1] - t->cells[cell] - 1;
    return column < 0 ? "" : t->bytes + t->cells[cell];
}

enum status table_refuse(const table *t, size_t row, struct err *err, const char *format, ...) {
    char what[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return err_set(err, STATUS_FORMAT, "%s: record %zu (line %" PRIu64 "): %s", t->name, row + 1,
                   table_line(t, row), what);
}
