/* fuzz_csv.c - libFuzzer entry: any bytes as CSV; what parses is written, read back and imported.
 * Not a test of results alone: a crash, a hang or a sanitizer report is a finding, and so is a round trip that changes.
 * Idea: every cell must survive write and read, any bytes must survive escape and unescape.
 * Source: ours. Exercise: cmake -DFORKGATE_FUZZ=ON -DCMAKE_C_COMPILER=clang .. ; fuzz_csv -runs=1000000 fixtures/fuzz/csv */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/import.h"
#include "gates/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *write_table(const table *t, size_t *n) {
    int columns = table_columns(t);
    const char **names = malloc((size_t)columns * sizeof *names);
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    table_writer *w = NULL;
    if (names == NULL || f == NULL) abort();
    for (int c = 0; c < columns; c++) names[c] = table_column_name(t, c);
    if (table_writer_open(NULL, f, TABLE_CRLF, names, columns, &w, NULL) != STATUS_OK) abort();
    for (size_t r = 0; r < table_rows(t); r++) {
        for (int c = 0; c < columns; c++) {
            size_t length = 0;
            const char *cell = table_cell(t, r, c, &length);
            table_put_bytes(w, cell, length);
        }
        table_end_row(w);
    }
    if (table_writer_finish(w, NULL) != STATUS_OK) abort();
    (void)fclose(f);
    free(names);
    return text;
}

static void round_trip(const table *t) {
    size_t n = 0;
    char *text = write_table(t, &n);
    table *back = NULL;
    struct err err = {""};
    if (table_read_memory(text, n, "again", &back, &err) != STATUS_OK) abort();
    if (table_rows(back) != table_rows(t) || table_columns(back) != table_columns(t)) abort();
    for (size_t r = 0; r < table_rows(t); r++) {
        for (int c = 0; c < table_columns(t); c++) {
            size_t x = 0, y = 0;
            const char *a = table_cell(t, r, c, &x), *b = table_cell(back, r, c, &y);
            if (x != y || memcmp(a, b, x) != 0) abort();
        }
    }
    table_close(back);
    free(text);
}

static void escape_trip(const uint8_t *data, size_t size) {
    size_t room = 4 * size + 1, used = 0;
    char *text = malloc(room);
    uint8_t *back = malloc(room);
    if (text == NULL || back == NULL) abort();
    for (int mode = 0; mode < 4; mode++) {
        size_t n = table_escape(data, size, mode & 1, mode >> 1, text, room);
        if (n >= room || !table_unescape(text, n, back, &used) || used != size ||
            memcmp(back, data, size) != 0)
            abort();
    }
    free(text);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    table *t = NULL;
    dump *d = NULL;
    struct err err = {""};
    escape_trip(data, size);
    if (table_read_memory(data, size, "fuzz", &t, &err) != STATUS_OK) {
        if (t != NULL || err.message[0] == '\0') abort();
        return 0;
    }
    round_trip(t);
    if (import_csv(t, NULL, (int)(size % 2), NULL, &d, &err) == STATUS_OK) {
        const char *reason = NULL;
        (void)dump_first_invalid(d, &reason);
        dump_close(d);
    } else if (err.message[0] == '\0')
        abort();
    table_close(t);
    return 0;
}
