/* provenance.c - see provenance.h. */
#include "gates/provenance.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 1024 /* far above any real header; keeps the duplicate search of a hostile one short */

void provenance_init(struct provenance *p) {
    p->items = NULL;
    p->n = 0;
    p->room = 0;
}

void provenance_free(struct provenance *p) {
    for (int i = 0; i < p->n; i++) {
        free(p->items[i].key);
        free(p->items[i].value);
    }
    free(p->items);
    provenance_init(p);
}

static char *copy_bytes(const char *bytes, size_t n) {
    char *copy = malloc(n + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, bytes, n);
    copy[n] = '\0';
    return copy;
}

static int key_ok(const char *key, size_t n) {
    if (n == 0) return 0;
    for (size_t i = 0; i < n; i++) {
        char c = key[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.')) return 0;
    }
    return 1;
}

static int find(const struct provenance *p, const char *key, size_t n) {
    for (int i = 0; i < p->n; i++)
        if (strncmp(p->items[i].key, key, n) == 0 && p->items[i].key[n] == '\0') return i;
    return -1;
}

/* Takes ownership of value, also when it fails. */
static enum status append(struct provenance *p, const char *key, size_t n, char *value, struct err *err) {
    if (p->n == ITEMS_MAX) {
        free(value);
        return err_set(err, STATUS_LIMIT, "provenance: more than %d keys", ITEMS_MAX);
    }
    char *key_copy = copy_bytes(key, n);
    if (p->n == p->room) {
        int room = p->room == 0 ? 32 : 2 * p->room;
        struct provenance_item *items = realloc(p->items, (size_t)room * sizeof *items);
        if (items != NULL) {
            p->items = items;
            p->room = room;
        }
    }
    if (key_copy == NULL || value == NULL || p->n == p->room) {
        free(key_copy);
        free(value);
        return err_set(err, STATUS_NOMEM, "provenance: out of memory");
    }
    p->items[p->n].key = key_copy;
    p->items[p->n].value = value;
    p->n++;
    return STATUS_OK;
}

enum status provenance_set(struct provenance *p, const char *key, const char *value, struct err *err) {
    size_t n = strlen(key);
    if (!key_ok(key, n))
        return err_set(err, STATUS_USAGE, "provenance: bad key '%s' (letters a-z, digits, '_' and '.')", key);
    int at = find(p, key, n);
    char *copy = copy_bytes(value, strlen(value));
    if (at < 0) return append(p, key, n, copy, err);
    if (copy == NULL) return err_set(err, STATUS_NOMEM, "provenance: out of memory");
    free(p->items[at].value);
    p->items[at].value = copy;
    return STATUS_OK;
}

enum status provenance_setf(struct provenance *p, struct err *err, const char *key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text != NULL) (void)vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    if (text == NULL) return err_set(err, STATUS_NOMEM, "provenance: no memory for the value of %s", key);
    enum status s = provenance_set(p, key, text, err);
    free(text);
    return s;
}

const char *provenance_get(const struct provenance *p, const char *key) {
    int at = find(p, key, strlen(key));
    return at < 0 ? NULL : p->items[at].value;
}

int provenance_one_build(const struct provenance *a, const struct provenance *b) {
    static const char *const keys[] = {"commit",   "dirty",  "build",  "tool",    "compiler",
                                       "flags",    "faults", "device", "backend", "route",
                                       "geometry", "arch",   "kv",     "chunk",   "graphs"};
    const char *commit = provenance_get(a, "commit"), *dirty = provenance_get(a, "dirty");
    if (commit == NULL || dirty == NULL) return 0;
    int named =
        strcmp(commit, "unknown") != 0 && strcmp(dirty, "0") == 0; /* the commit says what was built */
    if (!named && provenance_get(a, "build") == NULL) return 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *x = provenance_get(a, keys[i]), *y = provenance_get(b, keys[i]);
        if (x == NULL || y == NULL ? x != y : strcmp(x, y) != 0) return 0;
    }
    return 1;
}

/* The value between '=' and the newline, escapes undone. Refuses a stray NUL and an unknown escape. */
static enum status unescape(const char *text, size_t n, int line, char **out, struct err *err) {
    char *value = malloc(n + 1);
    if (value == NULL) return err_set(err, STATUS_NOMEM, "provenance: out of memory");
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '\\') {
            char next = i + 1 < n ? text[i + 1] : '\0';
            c = next == 'n' ? '\n' : next == '\\' ? '\\' : '\0';
            i++;
        }
        if (c == '\0') {
            free(value);
            return err_set(err, STATUS_FORMAT, "provenance: line %d: a NUL byte or an unknown escape", line);
        }
        value[used++] = c;
    }
    value[used] = '\0';
    *out = value;
    return STATUS_OK;
}

static enum status parse_line(struct provenance *p, const char *text, size_t n, int line, struct err *err) {
    const char *equals = memchr(text, '=', n);
    if (equals == NULL) return err_set(err, STATUS_FORMAT, "provenance: line %d has no '='", line);
    size_t key_length = (size_t)(equals - text);
    if (!key_ok(text, key_length)) return err_set(err, STATUS_FORMAT, "provenance: line %d: bad key", line);
    if (find(p, text, key_length) >= 0)
        return err_set(err, STATUS_FORMAT, "provenance: line %d: key '%.*s' appears twice", line,
                       (int)(key_length < 64 ? key_length : 64), text);
    char *value = NULL;
    RETURN_IF_ERROR(unescape(equals + 1, n - key_length - 1, line, &value, err));
    return append(p, text, key_length, value, err);
}

enum status provenance_parse(const char *text, size_t length, struct provenance *out, struct err *err) {
    provenance_init(out);
    int line = 1;
    for (size_t at = 0; at < length; line++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end == NULL ? length - at : (size_t)(end - (text + at));
        enum status s = parse_line(out, text + at, n, line, err);
        if (s != STATUS_OK) {
            provenance_free(out);
            return s;
        }
        at += n + 1;
    }
    return STATUS_OK;
}

static size_t escaped_length(const char *value) {
    size_t n = 0;
    for (; *value != '\0'; value++) n += (*value == '\n' || *value == '\\') ? 2 : 1;
    return n;
}

static char *put_escaped(char *to, const char *value) {
    for (; *value != '\0'; value++) {
        if (*value == '\n' || *value == '\\') *to++ = '\\';
        *to++ = *value == '\n' ? 'n' : *value;
    }
    return to;
}

enum status provenance_format(const struct provenance *p, char **text, size_t *length, struct err *err) {
    size_t n = 0;
    for (int i = 0; i < p->n; i++) n += strlen(p->items[i].key) + escaped_length(p->items[i].value) + 2;
    char *out = malloc(n + 1);
    if (out == NULL) return err_set(err, STATUS_NOMEM, "provenance: out of memory");
    char *to = out;
    for (int i = 0; i < p->n; i++) {
        size_t key_length = strlen(p->items[i].key);
        memcpy(to, p->items[i].key, key_length);
        to += key_length;
        *to++ = '=';
        to = put_escaped(to, p->items[i].value);
        *to++ = '\n';
    }
    *to = '\0';
    *text = out;
    *length = n;
    return STATUS_OK;
}
