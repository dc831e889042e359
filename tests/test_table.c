/* test_table.c - CSV in and out: any bytes round-trip, and what is not a table is refused with record and line. */
#include <criterion/criterion.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gates/table.h"

static table *parse(const char *text, size_t n, struct err *err) {
    table *t = NULL;
    enum status s = table_read_memory(text, n, "t.csv", &t, err);
    cr_assert_eq(s == STATUS_OK, t != NULL);
    return t;
}

/* Field case A14: every token text of the report, then three sentinels. */
static const struct {
    size_t n;
    char bytes[8];
} nasty[] = {{4, "\",\\n"},   {1, "\""},   {2, "\"\""}, {1, ","},        {1, "\n"},
             {2, "\r\n"},     {1, "\r"},   {1, "\t"},   {0, ""},         {1, " "},
             {5, " =1+1"},    {4, "=1+1"}, {2, "-1"},   {1, "+"},        {2, "@a"},
             {1, "\0"},       {3, "a\0b"}, {1, "\x80"}, {2, "\xc3\xa9"}, {3, "\xef\xbb\xbf"},
             {1, "#"},        {2, "\\n"},  {1, "\\"},   {4, "\\x41"},    {4, "\xf0\x9f\x98\x8a"},
             {2, "\xf0\x9f"}, {3, "end"},  {3, "end"},  {3, "end"}};
#define N_NASTY (sizeof nasty / sizeof nasty[0])

static char *write_nasty(enum table_eol eol, size_t *n) {
    static const char *const columns[] = {"id", "raw", "hex", "text"};
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    table_writer *w = NULL;
    struct err err = {""};
    cr_assert_eq(table_writer_open(NULL, f, eol, columns, 4, &w, &err), STATUS_OK);
    for (size_t i = 0; i < N_NASTY; i++) {
        table_put_u64(w, i);
        table_put_bytes(w, nasty[i].bytes, nasty[i].n);
        table_put_hex(w, nasty[i].bytes, nasty[i].n);
        table_put_escaped(w, nasty[i].bytes, nasty[i].n);
        table_end_row(w);
    }
    cr_assert_eq(table_writer_finish(w, &err), STATUS_OK, "%s", err.message);
    (void)fclose(f);
    return text;
}

Test(table, case_a14_any_bytes_round_trip_in_every_form) {
    for (int eol = 0; eol < 2; eol++) {
        size_t n = 0;
        char *text = write_nasty(eol == 0 ? TABLE_CRLF : TABLE_LF, &n);
        struct err err = {""};
        table *t = parse(text, n, &err);
        cr_assert(t != NULL, "%s", err.message);
        cr_assert_eq(table_rows(t), N_NASTY);
        for (size_t i = 0; i < N_NASTY; i++) {
            size_t length = 0, used = 0;
            int64_t id = -1;
            uint8_t back[64];
            cr_assert_eq(table_integer(t, i, 0, 0, 1000, &id, &err), STATUS_OK);
            cr_assert_eq((size_t)id, i);
            const char *cell = table_cell(t, i, 1, &length);
            cr_assert(length == nasty[i].n && memcmp(cell, nasty[i].bytes, length) == 0, "raw %zu", i);
            cell = table_cell(t, i, 2, &length);
            cr_assert(table_parse_hex(cell, length, back) == 1 && length == 2 * nasty[i].n, "hex %zu", i);
            cr_assert_eq(memcmp(back, nasty[i].bytes, nasty[i].n), 0);
            cell = table_cell(t, i, 3, &length);
            cr_assert(strchr("=+-@", *cell) == NULL || *cell == '\0', "a formula in row %zu", i);
            for (size_t k = 0; k < length; k++)
                cr_assert((unsigned char)cell[k] >= 0x20, "control byte in row %zu", i);
            cr_assert(table_unescape(cell, length, back, &used) == 1 && used == nasty[i].n, "escaped %zu", i);
            cr_assert_eq(memcmp(back, nasty[i].bytes, used), 0);
        }
        table_close(t);
        free(text);
    }
}

Test(table, output_is_rfc_4180) {
    size_t n = 0;
    char *text = write_nasty(TABLE_CRLF, &n);
    cr_assert_eq(strncmp(text, "id,raw,hex,text\r\n0,\"\"\",\\n\",222c5c6e,\"\"\",\\\\n\"\r\n", 46), 0);
    cr_assert_eq(memcmp(text + n - 2, "\r\n", 2), 0);
    free(text);
}

static void refused(const char *text, size_t n, const char *part) {
    struct err err = {""};
    table *t = parse(text, n, &err);
    cr_assert(t == NULL, "accepted: %s", part);
    cr_assert(strstr(err.message, part) != NULL, "message lacks: %s", part);
    cr_assert(strncmp(err.message, "t.csv: ", 7) == 0);
}
#define REFUSED(text, part) refused(text, sizeof text - 1, part)

Test(table, ragged_and_broken_rows_are_refused_with_record_and_line) {
    REFUSED("a,b\n1,2\n3\n", "record 2 (line 3): 1 fields where the header has 2");
    REFUSED("a,b\n1,2,3\n", "record 1 (line 2): 3 fields");
    REFUSED("a,b\n\"x\ny\nz\",2\n3,4\n5,6,7\n", "record 3 (line 6): 3 fields"); /* records are not lines */
    REFUSED("a,b\r\n\"x\r\ny\",2\r\n5\r\n", "record 2 (line 4): 1 fields");
    REFUSED("a,b\n1,2\n\n3,4\n", "(line 3): blank line");
    REFUSED("a\n\n1\n", "(line 2): blank line");
    REFUSED("a\n1\n\n", "(line 3): blank line"); /* one column: it may have been an empty row */
    REFUSED("a,b\n1,\"2\n", "record 1 (line 2): the file ends inside a quoted field");
    REFUSED("a,b\n1,x\"y\n", "record 1 (line 2): a quote inside an unquoted field");
    REFUSED("a,b\n1,\"x\"y\n", "record 1 (line 2)");
    REFUSED("", "no header row");
    REFUSED("\n\n", "no header row");
    REFUSED("a,a\n", "column 'a' appears twice");
    REFUSED("a,\n1,2\n", "column 2 has no name");
    REFUSED("a,b\0c\n1,2\n", "column 2 has a NUL byte");
}

Test(table, case_a17_f_a_missing_last_newline_is_valid) {
    static const char *const same[] = {"a,b\n1,2\n3,4",
                                       "a,b\n1,2\n3,4\n",
                                       "a,b\r\n1,2\r\n3,4\r\n",
                                       "a,b\r1,2\r3,4\r",
                                       ("\xef\xbb\xbf"
                                        "a,b\n1,2\n3,4\n\n"),
                                       "# k=v\n#\na,b\n1,2\n3,4\n"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct err err = {""};
        table *t = parse(same[i], strlen(same[i]), &err);
        cr_assert(t != NULL, "case %zu: %s", i, err.message);
        cr_assert_eq(table_rows(t), 2);
        cr_assert_str_eq(table_cell(t, 1, 1, NULL), "4");
        cr_assert_str_eq(table_column_name(t, 0), "a");
        cr_assert_eq(table_line(t, 1), i == 5 ? 5 : 3);
        cr_assert_eq(table_notes(t), i == 5 ? 2 : 0);
        if (i == 5) cr_assert_str_eq(table_note(t, 0), "k=v");
        table_close(t);
    }
}

Test(table, blanks_belong_to_the_field_and_empty_is_empty) {
    struct err err = {""};
    const char *text = "a,b,c\n  x \t,\"\",\n";
    table *t = parse(text, strlen(text), &err);
    cr_assert(t != NULL);
    size_t n = 9;
    cr_assert_str_eq(table_cell(t, 0, 0, NULL), "  x \t");
    (void)table_cell(t, 0, 1, &n);
    cr_assert_eq(n, 0);
    (void)table_cell(t, 0, 2, &n);
    cr_assert_eq(n, 0);
    cr_assert_str_eq(table_cell(t, 0, -1, &n), "");
    int at = 0;
    cr_assert_eq(table_need(t, "nope", &at, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "no column 'nope'") != NULL);
    table_close(t);
}

Test(table, numbers_are_whole_cells_in_range) {
    struct err err = {""};
    const char *good = "i,r\n-5,1e-3\n7,nan\n0,-inf\n3,inf\n";
    table *t = parse(good, strlen(good), &err);
    int64_t i = 0;
    double r = 0;
    cr_assert(table_integer(t, 0, 0, -5, 7, &i, &err) == STATUS_OK && i == -5);
    cr_assert(table_real(t, 0, 1, &r, &err) == STATUS_OK && fabs(r - 0.001) < 1e-15);
    cr_assert(table_real(t, 1, 1, &r, &err) == STATUS_OK && isnan(r));
    cr_assert(table_real(t, 2, 1, &r, &err) == STATUS_OK && isinf(r) && r < 0);
    cr_assert_eq(table_integer(t, 1, 0, -5, 6, &i, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "record 2 (line 3): i '7': want a whole number from -5 to 6") != NULL);
    table_close(t);
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "1x", "0x1", "1e", "--1", "99999999999999999999", "1,", "NaN", "1e999"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        char text[64];
        (void)snprintf(text, sizeof text, "i,r\n\"%s\",\"%s\"\n", bad[k], bad[k]);
        t = parse(text, strlen(text), &err);
        cr_assert_eq(table_integer(t, 0, 0, INT64_MIN, INT64_MAX, &i, &err), STATUS_FORMAT, "integer: %s",
                     bad[k]);
        if (strcmp(bad[k], "99999999999999999999") != 0 &&
            strcmp(bad[k], "0x1") != 0) /* a hex float is one */
            cr_assert_eq(table_real(t, 0, 1, &r, &err), STATUS_FORMAT, "real: %s", bad[k]);
        table_close(t);
    }
}

Test(table, floats_read_back_to_the_same_bits) {
    static const char *const columns[] = {"f", "d"};
    char *text = NULL;
    size_t n = 0;
    struct err err = {""};
    FILE *f = open_memstream(&text, &n);
    table_writer *w = NULL;
    cr_assert_eq(table_writer_open(NULL, f, TABLE_CRLF, columns, 2, &w, &err), STATUS_OK);
    uint32_t x = 12345;
    enum { ROWS = 2000 };
    static float fs[ROWS];
    static double ds[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x = x * 1664525u + 1013904223u;
        memcpy(&fs[i], &x, 4);
        if (!isfinite(fs[i])) fs[i] = 0.1f;
        ds[i] = (double)fs[i] / 3.0;
        table_put_f32(w, fs[i]);
        table_put_f64(w, ds[i]);
        table_end_row(w);
    }
    cr_assert_eq(table_writer_finish(w, &err), STATUS_OK);
    (void)fclose(f);
    table *t = parse(text, n, &err);
    for (size_t i = 0; i < ROWS; i++) {
        double a = 0, b = 0;
        cr_assert_eq(table_real(t, i, 0, &a, &err), STATUS_OK);
        cr_assert_eq(table_real(t, i, 1, &b, &err), STATUS_OK);
        float af = (float)a;
        cr_assert(memcmp(&af, &fs[i], 4) == 0 && memcmp(&b, &ds[i], 8) == 0, "row %zu", i);
    }
    table_close(t);
    free(text);
}

Test(table, writer_tells_trouble_once_and_keeps_the_old_file) {
    static const char *const columns[] = {"a", "b"};
    char path[] = "/tmp/forkgate-test-table-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, "old", 3) == 3);
    (void)close(fd);
    struct err err = {""};
    table_writer *w = NULL;
    cr_assert_eq(table_writer_open(path, NULL, TABLE_CRLF, columns, 2, &w, &err), STATUS_OK);
    table_put_text(w, "only one");
    table_end_row(w);
    cr_assert_eq(table_writer_finish(w, &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "1 cells for 2 columns") != NULL);
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {1000, 1000};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(table_writer_open(path, NULL, TABLE_CRLF, columns, 2, &w, &err), STATUS_OK);
    for (int i = 0; i < 10000; i++) {
        table_put_text(w, "text, quoted");
        table_put_i64(w, -i);
        table_end_row(w);
    }
    cr_assert_eq(table_writer_finish(w, &err), STATUS_IO);
    cr_assert(strstr(err.message, path) != NULL);
    FILE *f = fopen(path, "rb");
    char old[8] = "";
    cr_assert(f != NULL && fread(old, 1, 7, f) == 3);
    (void)fclose(f);
    cr_assert_str_eq(old, "old");
    cr_assert_eq(table_writer_open("/nonexistent/x.csv", NULL, TABLE_LF, columns, 2, &w, &err), STATUS_IO);
    f = fopen("/dev/full", "wb");
    cr_assert(f != NULL);
    cr_assert_eq(table_writer_open(NULL, f, TABLE_LF, columns, 2, &w, &err), STATUS_OK);
    cr_assert_eq(table_writer_finish(w, &err), STATUS_IO, "a full disk is told at finish");
    (void)fclose(f);
    (void)unlink(path);
}

Test(table, escape_never_ends_in_half_an_escape) {
    const uint8_t bytes[] = {'a', 1, 2, 0xc3, 0xa9, 0xff};
    char out[32];
    for (size_t room = 1; room < sizeof out; room++) {
        size_t needed = table_escape(bytes, sizeof bytes, 1, 0, out, room);
        cr_assert_eq(needed, 1 + 4 + 4 + 2 + 4);
        size_t used = 0;
        uint8_t back[32];
        cr_assert(strlen(out) < room && table_unescape(out, strlen(out), back, &used) == 1);
        cr_assert_eq(memcmp(back, bytes, used), 0);
    }
    static const char *const not_utf8[] = {"\xc0\x80",         "\xe0\x80\x80",     "\xed\xa0\x80",
                                           "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xc2\x9b",
                                           "\xe2\x80\xae",     "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < sizeof not_utf8 / sizeof not_utf8[0];
         i++) { /* overlong, surrogate, too large, controls */
        size_t n = strlen(not_utf8[i]);
        cr_assert_eq(table_escape(not_utf8[i], n, 1, 0, out, sizeof out), 4 * n, "case %zu", i);
    }
    cr_assert_eq(table_escape("\xf0\x9f\x98\x8a\xc3\xa9", 6, 1, 0, out, sizeof out), 6);
    size_t used = 0;
    uint8_t back[8];
    static const char *const bad[] = {"\\", "\\x", "\\x4", "\\xg0", "\\q"};
    for (size_t i = 0; i < 5; i++) cr_assert_eq(table_unescape(bad[i], strlen(bad[i]), back, &used), 0);
    cr_assert(table_parse_hex("0", 1, back) == 0 && table_parse_hex("0g", 2, back) == 0);
}
