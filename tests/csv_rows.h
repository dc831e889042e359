/* csv_rows.h - a whole CSV file as rows of strings, for tests that read fixtures.
 * Not for the product (that is gates/table.h): a bad file ends the program. Quoted or not, LF or CRLF.
 * Idea: libcsv pushes fields; each is kept in one growing text, and rows are runs of offsets into it.
 * Source: ours. Exercise: ctest -R unit.vocab */
#ifndef FORKGATE_TESTS_CSV_ROWS_H
#define FORKGATE_TESTS_CSV_ROWS_H

#include <csv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct csv_rows {
    size_t n;      /* rows, the header included */
    size_t *first; /* [n + 1] number of the row's first field */
    size_t *field; /* [n_fields] offset into text */
    char *text;    /* the fields, each ended by NUL */
    size_t n_fields, n_text, room_rows, room_fields, room_text;
};

static inline void csv_rows_die(const char *path, const char *what) {
    fprintf(stderr, "%s: %s\n", path, what);
    abort();
}

static inline void *csv_rows_room(void *p, size_t need, size_t *room, size_t item) {
    if (need <= *room) return p;
    *room = need * 2 + 64;
    p = realloc(p, *room * item);
    if (p == NULL) csv_rows_die("csv_rows", "no memory");
    return p;
}

static inline void csv_rows_field(void *field, size_t length, void *context) {
    struct csv_rows *r = context;
    r->field = csv_rows_room(r->field, r->n_fields + 1, &r->room_fields, sizeof *r->field);
    r->text = csv_rows_room(r->text, r->n_text + length + 1, &r->room_text, 1);
    r->field[r->n_fields++] = r->n_text;
    if (length > 0) memcpy(r->text + r->n_text, field, length);
    r->text[r->n_text + length] = '\0';
    r->n_text += length + 1;
}

static inline void csv_rows_end(int terminator, void *context) {
    struct csv_rows *r = context;
    (void)terminator;
    r->first = csv_rows_room(r->first, r->n + 2, &r->room_rows, sizeof *r->first);
    if (r->n == 0) r->first[0] = 0;
    r->first[++r->n] = r->n_fields;
}

static inline struct csv_rows csv_rows_read(const char *path) {
    struct csv_rows r = {0};
    struct csv_parser parser;
    FILE *f = fopen(path, "rb");
    if (f == NULL) csv_rows_die(path, "cannot be opened");
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) csv_rows_die(path, "no parser");
    static char block[1 << 16];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        if (csv_parse(&parser, block, n, csv_rows_field, csv_rows_end, &r) != n)
            csv_rows_die(path, "bad CSV");
    if (csv_fini(&parser, csv_rows_field, csv_rows_end, &r) != 0) csv_rows_die(path, "bad CSV at its end");
    csv_free(&parser);
    fclose(f);
    for (size_t i = 1; i < r.n; i++)
        if (r.first[i + 1] - r.first[i] != r.first[1])
            csv_rows_die(path, "a row with another number of fields");
    return r;
}

static inline const char *csv_cell(const struct csv_rows *r, size_t row, size_t column) {
    if (row >= r->n || r->first[row] + column >= r->first[row + 1]) csv_rows_die("csv_cell", "no such cell");
    return r->text + r->field[r->first[row] + column];
}

static inline void csv_rows_free(struct csv_rows *r) {
    free(r->first);
    free(r->field);
    free(r->text);
}

#endif
