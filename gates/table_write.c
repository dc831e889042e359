/* table_write.c - the writing half of table.h.
 * Not a formatter of reports: one call per cell, in column order.
 * Idea: trouble is remembered and told once, at finish, because stdio reports a full disk only then.
 * Source: libcsv quotes the text cells. Exercise: ctest -R unit.table */
#include <csv.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/file_out.h"
#include "gates/table.h"

struct table_writer {
    FILE *file;
    char *path;          /* NULL when a stream was given */
    struct file_out out; /* the temporary file; fd -1 when path is written directly */
    const char *eol;
    int columns, at;
    uint64_t row;
    enum status status; /* first trouble */
    struct err trouble;
};

static const char *where(const table_writer *w) {
    return w->path != NULL ? w->path : "CSV output";
}

static void note_io(table_writer *w, const char *doing) {
    if (w->status == STATUS_OK)
        w->status = err_set(&w->trouble, STATUS_IO, "%s: %s: %s", where(w), doing, strerror(errno));
}

static void put_raw(table_writer *w, const char *bytes, size_t n) {
    if (n > 0 && fwrite(bytes, 1, n, w->file) != n) note_io(w, "writing");
}

static void separate(table_writer *w) {
    if (w->at > 0) put_raw(w, ",", 1);
    w->at++;
}

static int must_quote(const char *bytes, size_t n) {
    if (n == 0) return 1; /* "" is an empty text; nothing at all is an absent value */
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == ',' || c < 0x20 || c == 0x7f) return 1;
    }
    return bytes[0] == ' ' || bytes[n - 1] == ' ' || bytes[0] == '#' ||
           bytes[0] == '\xef'; /* a note, a byte order mark */
}

void table_put_bytes(table_writer *w, const void *bytes, size_t n) {
    separate(w);
    if (!must_quote(bytes, n))
        put_raw(w, bytes, n);
    else if (csv_fwrite(w->file, n == 0 ? "" : bytes, n) != 0)
        note_io(w, "writing");
}

void table_put_text(table_writer *w, const char *text) {
    table_put_bytes(w, text, strlen(text));
}

void table_put_escaped(table_writer *w, const void *bytes, size_t n) {
    char small[256], *text = small;
    size_t needed = table_escape(bytes, n, 1, 1, small, sizeof small);
    if (needed >= sizeof small) {
        text = malloc(needed + 1);
        if (text == NULL) {
            if (w->status == STATUS_OK)
                w->status = err_set(&w->trouble, STATUS_NOMEM, "%s: out of memory", where(w));
            table_put_empty(w);
            return;
        }
        (void)table_escape(bytes, n, 1, 1, text, needed + 1);
    }
    table_put_bytes(w, text, needed);
    if (text != small) free(text);
}

void table_put_hex(table_writer *w, const void *bytes, size_t n) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = bytes;
    separate(w);
    for (size_t i = 0; i < n; i++) {
        char pair[2] = {digits[p[i] >> 4], digits[p[i] & 15]};
        put_raw(w, pair, sizeof pair);
    }
}

static void put_number(table_writer *w, const char *text) {
    separate(w);
    put_raw(w, text, strlen(text));
}

void table_put_u64(table_writer *w, uint64_t v) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, v);
    put_number(w, text);
}

void table_put_i64(table_writer *w, int64_t v) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, v);
    put_number(w, text);
}

static void put_real(table_writer *w, double v, int digits) {
    char text[40];
    if (isnan(v))
        (void)snprintf(text, sizeof text, "nan"); /* never "-nan": a NaN's sign means nothing */
    else
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
    put_number(w, text);
}

void table_put_f32(table_writer *w, float v) {
    put_real(w, (double)v, 9);
}
void table_put_f64(table_writer *w, double v) {
    put_real(w, v, 17);
}
void table_put_empty(table_writer *w) {
    separate(w);
}

void table_end_row(table_writer *w) {
    if (w->at != w->columns && w->status == STATUS_OK)
        w->status = err_set(&w->trouble, STATUS_USAGE, "%s: row %" PRIu64 " has %d cells for %d columns",
                            where(w), w->row, w->at, w->columns);
    put_raw(w, w->eol, strlen(w->eol));
    w->at = 0;
    w->row++;
}

/* A pipe or /dev/stdout is written directly; a regular file appears at finish. */
static enum status open_path(table_writer *w, const char *path, struct err *err) {
    struct stat st;
    w->path = malloc(strlen(path) + 1);
    if (w->path == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    memcpy(w->path, path, strlen(path) + 1);
    int open_already = file_out_descriptor_of(path);
    if (open_already >= 0) {
        (void)fflush(stdout); /* what was printed stands before the table */
        int own = dup(open_already);
        w->file = own < 0 ? NULL : fdopen(own, "wb");
        if (w->file == NULL && own >= 0) (void)close(own);
    } else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        w->file = fopen(path, "wb");
    else {
        RETURN_IF_ERROR(file_out_open(&w->out, path, err));
        int fd = dup(w->out.fd); /* stdio closes its own */
        w->file = fd < 0 ? NULL : fdopen(fd, "wb");
        if (w->file == NULL && fd >= 0) (void)close(fd);
    }
    return w->file == NULL ? err_set(err, STATUS_IO, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

enum status table_writer_open(const char *path, FILE *stream, enum table_eol eol, const char *const *columns,
                              int n_columns, table_writer **out, struct err *err) {
    *out = NULL;
    table_writer *w = calloc(1, sizeof *w);
    if (w == NULL) return err_set(err, STATUS_NOMEM, "table: out of memory");
    w->eol = eol == TABLE_CRLF ? "\r\n" : "\n";
    w->columns = n_columns;
    w->out.fd = -1;
    enum status s = STATUS_OK;
    if (path != NULL)
        s = open_path(w, path, err);
    else
        w->file = stream;
    if (s != STATUS_OK) {
        table_writer_abandon(w);
        return s;
    }
    for (int i = 0; i < n_columns; i++) table_put_text(w, columns[i]);
    table_end_row(w);
    w->row = 1;
    *out = w;
    return STATUS_OK;
}

enum status table_writer_finish(table_writer *w, struct err *err) {
    if (fflush(w->file) != 0 || ferror(w->file)) note_io(w, "writing");
    if (w->path != NULL) {
        if (fclose(w->file) != 0) note_io(w, "closing");
        w->file = NULL;
    }
    if (w->status == STATUS_OK && w->out.fd >= 0) w->status = file_out_publish(&w->out, &w->trouble);
    enum status s = w->status;
    if (s != STATUS_OK) (void)err_set(err, s, "%s", w->trouble.message);
    table_writer_abandon(w);
    return s;
}

void table_writer_abandon(table_writer *w) {
    if (w == NULL) return;
    if (w->path != NULL && w->file != NULL) (void)fclose(w->file);
    file_out_abandon(&w->out);
    free(w->path);
    free(w);
}
