/* table_text.c - cells as numbers and as escaped text: the text forms of table.h.
 * Not a locale's business: numbers are read and written in the C locale that forkgate never leaves.
 * Source: ours. Exercise: ctest -R unit.table */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/table.h"

#define SHOWN 48 /* bytes of a refused cell that a message quotes */

static enum status refuse_cell(const table *t, size_t row, int column, const char *want, struct err *err) {
    size_t n = 0;
    const char *cell = table_cell(t, row, column, &n);
    char shown[SHOWN];
    (void)table_escape(cell, n, 0, 0, shown, sizeof shown);
    return table_refuse(t, row, err, "%s '%s': want %s", table_column_name(t, column), shown, want);
}

/* No blanks, no sign of plus, nothing behind: strtoll alone would take them. */
static int starts_like_number(const char *cell) {
    return (*cell >= '0' && *cell <= '9') || *cell == '-';
}

enum status table_integer(const table *t, size_t row, int column, int64_t low, int64_t high, int64_t *out,
                          struct err *err) {
    size_t n = 0;
    const char *cell = table_cell(t, row, column, &n);
    char *end = NULL;
    errno = 0;
    long long v = strtoll(cell, &end, 10);
    if (n == 0 || !starts_like_number(cell) || end != cell + n || errno != 0 || v < low || v > high) {
        char want[96];
        (void)snprintf(want, sizeof want, "a whole number from %" PRId64 " to %" PRId64, low, high);
        return refuse_cell(t, row, column, want, err);
    }
    *out = v;
    return STATUS_OK;
}

enum status table_real(const table *t, size_t row, int column, double *out, struct err *err) {
    size_t n = 0;
    const char *cell = table_cell(t, row, column, &n);
    if (strcmp(cell, "nan") == 0 || strcmp(cell, "inf") == 0 || strcmp(cell, "-inf") == 0) {
        *out = *cell == 'n' ? (double)NAN : *cell == '-' ? -(double)INFINITY : (double)INFINITY;
        return STATUS_OK;
    }
    char *end = NULL;
    double v = strtod(cell, &end);
    if (n == 0 || !(starts_like_number(cell) || *cell == '.') || end != cell + n || !isfinite(v))
        return refuse_cell(t, row, column, "a number", err);
    *out = v;
    return STATUS_OK;
}

/* Length of the valid UTF-8 sequence at p (1 to 4), or 0. Overlong forms, surrogates and > U+10FFFF are not valid. */
static size_t utf8_length(const uint8_t *p, size_t n) {
    if (p[0] < 0x80) return 1;
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return length;
}

/* C1 controls (U+0080..U+009F) and the line separators U+2028/9 would move a terminal or break a line. */
static int is_control(const uint8_t *p, size_t length) {
    if (length == 1) return p[0] < 0x20 || p[0] == 0x7f;
    if (length == 2) return p[0] == 0xc2 && p[1] < 0xa0;
    return length == 3 && p[0] == 0xe2 && p[1] == 0x80 &&
           (p[2] == 0xa8 || p[2] == 0xa9 || (p[2] >= 0xaa && p[2] <= 0xae));
}

static size_t escape_byte(uint8_t c, char out[5]) {
    const char *name = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
    int n = name != NULL ? snprintf(out, 5, "%s", name) : snprintf(out, 5, "\\x%02X", c);
    return (size_t)n;
}

struct escape_out {
    char *to;
    size_t room, needed;
    int full;
};

static void put(struct escape_out *o, const char *bytes, size_t n) {
    o->needed += n;
    if (o->full || o->needed + 1 > o->room) {
        o->full = 1; /* never half an escape */
        return;
    }
    memcpy(o->to, bytes, n);
    o->to += n;
}

size_t table_escape(const void *bytes, size_t n, int utf8, int spreadsheet, char *out, size_t room) {
    const uint8_t *p = bytes;
    struct escape_out o = {out, room, 0, room == 0};
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length(p + i, n - i);
        int formula = spreadsheet && i == 0 && (*p == '=' || *p == '+' || *p == '-' || *p == '@');
        if (length > 0 && !is_control(p + i, length) && p[i] != '\\' && !formula && (length == 1 || utf8)) {
            const void *raw = p + i;
            put(&o, raw, length);
            i += length;
            continue;
        }
        char escaped[5];
        size_t each = length == 0 ? 1 : length;
        for (size_t k = 0; k < each; k++) put(&o, escaped, escape_byte(p[i + k], escaped));
        i += each;
    }
    if (room > 0) *o.to = '\0';
    return o.needed;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int table_parse_hex(const char *text, size_t n, uint8_t *out) {
    if (n % 2 != 0) return 0;
    for (size_t i = 0; i < n; i += 2) {
        int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0) return 0;
        out[i / 2] = (uint8_t)(high * 16 + low);
    }
    return 1;
}

int table_unescape(const char *text, size_t n, uint8_t *out, size_t *used) {
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\\') {
            out[to++] = (uint8_t)text[i];
            continue;
        }
        if (++i == n) return 0;
        char c = text[i];
        if (c == 'x') {
            if (n - i < 3 || !table_parse_hex(text + i + 1, 2, out + to)) return 0;
            i += 2;
        } else if (c == 'n' || c == 'r' || c == 't' || c == '\\') {
            out[to] = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : '\\';
        } else
            return 0;
        to++;
    }
    *used = to;
    return 1;
}
