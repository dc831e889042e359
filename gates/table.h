/* table.h - every CSV file that forkgate reads or writes: RFC 4180, header row, equal field counts, strict.
 * Not a data frame: cells are bytes; the caller converts and knows the columns.
 * Idea: a row that does not fit is an error with its record number and physical line, never skipped.
 * Source: libcsv 3.0.3 under its strict options. Exercise: ctest -R unit.table ; fuzz_csv */
#ifndef FORKGATE_TABLE_H
#define FORKGATE_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/status.h"

/* ---- reading ---- */
typedef struct table table;

/* Reads a whole file. The first record is the header: names must not be empty or repeat. Lines before it that start with
 * '#' are kept aside (table_note). Errors: STATUS_IO; STATUS_FORMAT "FILE: record N (line L): what", where record 1 is
 * the first after the header and line counts physical lines from 1. A UTF-8 byte order mark is dropped. */
enum status table_read(const char *path, table **out, struct err *err);
enum status table_read_memory(const void *bytes, size_t n, const char *name, table **out, struct err *err);
void table_close(table *t);

const char *table_name(const table *t);
size_t table_rows(const table *t); /* without the header */
int table_columns(const table *t);
const char *table_column_name(const table *t, int column);
int table_find(const table *t, const char *column); /* -1 when absent */
/* As table_find, but absence is STATUS_FORMAT "FILE: no column 'x'". */
enum status table_need(const table *t, const char *column, int *at, struct err *err);
/* Bytes of a cell, also NUL-terminated; *n may be NULL. Blanks are kept. column < 0 gives "". */
const char *table_cell(const table *t, size_t row, int column, size_t *n);
uint64_t table_line(const table *t, size_t row); /* physical line where the row starts */
int table_notes(const table *t);
const char *table_note(const table *t, int i); /* the text after '#' and one blank, without the line end */

/* STATUS_FORMAT "FILE: record N (line L): message", for callers that refuse a cell. */
enum status table_refuse(const table *t, size_t row, struct err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A cell as a number, whole and in range, or a refusal that names the column. real takes "nan", "inf", "-inf" too. */
enum status table_integer(const table *t, size_t row, int column, int64_t low, int64_t high, int64_t *out,
                          struct err *err);
enum status table_real(const table *t, size_t row, int column, double *out, struct err *err);

/* ---- writing ---- */
typedef struct table_writer table_writer;

enum table_eol { TABLE_CRLF, TABLE_LF }; /* RFC 4180 wants CRLF; LF suits files kept in git */

/* Writes the header row. Either of path (a temporary file beside it, renamed at finish) or stream must be given. */
enum status table_writer_open(const char *path, FILE *stream, enum table_eol eol, const char *const *columns,
                              int n_columns, table_writer **out, struct err *err);

/* Cells in order; a row must have exactly one per column. Text is quoted when it must be. */
void table_put_bytes(table_writer *w, const void *bytes, size_t n);
void table_put_text(table_writer *w, const char *text);
/* Text for people who open the file in a spreadsheet: control bytes and invalid UTF-8 escaped as \xNN (\n, \r, \t, \\ by
 * name), and a cell that would start with = + - @ starts with its \x escape instead. table_unescape undoes it. */
void table_put_escaped(table_writer *w, const void *bytes, size_t n);
void table_put_hex(table_writer *w, const void *bytes, size_t n);
void table_put_u64(table_writer *w, uint64_t v);
void table_put_i64(table_writer *w, int64_t v);
void table_put_f32(table_writer *w, float v);  /* %.9g */
void table_put_f64(table_writer *w, double v); /* %.17g */
void table_put_empty(table_writer *w);
void table_end_row(table_writer *w);

/* Flushes and reports the first trouble of all calls (full disk, a row with the wrong number of cells). The writer is
 * gone afterwards; a file appears at its path only on success. */
enum status table_writer_finish(table_writer *w, struct err *err);
void table_writer_abandon(table_writer *w);

/* ---- text forms ---- */
/* Escapes into out (NUL-terminated, always whole escapes); returns the bytes needed without the NUL. spreadsheet: also
 * guards a first = + - @. Valid UTF-8 stays as it is when utf8 is set, else it is escaped too. */
size_t table_escape(const void *bytes, size_t n, int utf8, int spreadsheet, char *out, size_t room);
/* Undoes table_escape into out[n] (never longer than the text). 0 when an escape is malformed. */
int table_unescape(const char *text, size_t n, uint8_t *out, size_t *used);
int table_parse_hex(const char *text, size_t n,
                    uint8_t *out); /* n digits, n even: n/2 bytes; 0 when malformed */

#endif
