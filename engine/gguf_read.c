/* gguf_read.c - queries and typed reads of a parsed GGUF (see gguf.h).
 * Not a parser: every pointer it follows was checked by gguf.c.
 * Idea: a value is read as what the file says it is, then converted only where nothing is lost.
 * Source: the GGUF specification. Exercise: ctest -R unit.gguf ; fuzz_gguf */
#include "gguf_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t gguf_file_bytes(const gguf *g) {
    return g->length;
}
const void *gguf_file_data(const gguf *g) {
    return g->base;
}
uint64_t gguf_key_count(const gguf *g) {
    return g->n_keys;
}
uint64_t gguf_tensor_count(const gguf *g) {
    return g->n_tensors;
}

struct gguf_string gguf_key_name(const gguf *g, uint64_t i) {
    assert(i < g->n_keys);
    return g->keys[i].name;
}

const struct gguf_tensor *gguf_tensor_at(const gguf *g, uint64_t i) {
    assert(i < g->n_tensors);
    return &g->tensors[i];
}

static struct gguf_string string_of(const char *name) {
    struct gguf_string s = {name, strlen(name)};
    return s;
}

int64_t gguf_key_find(const gguf *g, const char *name) {
    struct gguf_string want = string_of(name);
    uint64_t lo = 0, hi = g->n_keys;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int c = gguf_name_compare(g->keys_by_name[mid]->name, want);
        if (c == 0) return (int64_t)(g->keys_by_name[mid] - g->keys);
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

const struct gguf_tensor *gguf_tensor_find(const gguf *g, const char *name) {
    struct gguf_string want = string_of(name);
    uint64_t lo = 0, hi = g->n_tensors;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int c = gguf_name_compare(g->tensors_by_name[mid]->name, want);
        if (c == 0) return g->tensors_by_name[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

/* ---- scalars ----------------------------------------------------------------------------------------------- */

static const char *type_name(enum gguf_type t) {
    static const char *const names[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                        "bool",  "string", "array",  "uint64", "int64",  "float64"};
    return names[t];
}

static int is_integer(enum gguf_type t) {
    return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

static int is_signed(enum gguf_type t) {
    return t == GGUF_I8 || t == GGUF_I16 || t == GGUF_I32 || t == GGUF_I64;
}

/* The integer (or bool) at p, sign-extended; uint64 values above INT64_MAX come out negative with *huge set. */
static int64_t integer_at(const uint8_t *p, enum gguf_type t, int *huge) {
    int bytes = gguf_scalar_bytes(t);
    uint64_t v = gguf_le(p, bytes);
    *huge = 0;
    if (is_signed(t)) {
        uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
        v = (v ^ sign) - sign;
    } else if (v > INT64_MAX) {
        *huge = 1;
    }
    int64_t out = 0;
    memcpy(&out, &v,
           sizeof out); /* two's complement, without a conversion that C leaves to the implementation */
    return out;
}

static double float_at(const uint8_t *p, enum gguf_type t) {
    if (t == GGUF_F32) {
        uint32_t bits = (uint32_t)gguf_le(p, 4);
        float f = 0;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    uint64_t bits = gguf_le(p, 8);
    double d = 0;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* NULL, with the message set, when there is no such key. */
static const struct gguf_key *find_key(const gguf *g, const char *name, struct err *err) {
    int64_t i = gguf_key_find(g, name);
    if (i >= 0) return &g->keys[i];
    (void)err_set(err, STATUS_FORMAT, "key '%s' is missing", name);
    return NULL;
}

static enum status wrong_type(const struct gguf_key *k, const char *name, const char *want, struct err *err) {
    return err_set(err, STATUS_FORMAT, "key '%s': is of type %s, not %s", name, type_name(k->type), want);
}

enum status gguf_get_u32(const gguf *g, const char *name, uint32_t *out, struct err *err) {
    const struct gguf_key *k = find_key(g, name, err);
    if (k == NULL) return STATUS_FORMAT;
    if (!is_integer(k->type)) return wrong_type(k, name, "an integer", err);
    int huge = 0;
    int64_t v = integer_at(k->value, k->type, &huge);
    if (huge) return err_set(err, STATUS_FORMAT, "key '%s': %" PRIu64 " is out of range", name, (uint64_t)v);
    if (v < 0 || v > (int64_t)UINT32_MAX)
        return err_set(err, STATUS_FORMAT, "key '%s': %" PRId64 " is out of range", name, v);
    *out = (uint32_t)v;
    return STATUS_OK;
}

enum status gguf_get_f32(const gguf *g, const char *name, float *out, struct err *err) {
    const struct gguf_key *k = find_key(g, name, err);
    if (k == NULL) return STATUS_FORMAT;
    if (k->type != GGUF_F32 && k->type != GGUF_F64) return wrong_type(k, name, "a float", err);
    *out = (float)float_at(k->value, k->type);
    return STATUS_OK;
}

enum status gguf_get_bool(const gguf *g, const char *name, int *out, struct err *err) {
    const struct gguf_key *k = find_key(g, name, err);
    if (k == NULL) return STATUS_FORMAT;
    if (k->type != GGUF_BOOL) return wrong_type(k, name, "a bool", err);
    *out = k->value[0] != 0;
    return STATUS_OK;
}

enum status gguf_get_string(const gguf *g, const char *name, struct gguf_string *out, struct err *err) {
    const struct gguf_key *k = find_key(g, name, err);
    if (k == NULL) return STATUS_FORMAT;
    if (k->type != GGUF_STRING) return wrong_type(k, name, "a string", err);
    out->data = (const char *)k->value;
    out->length = k->n;
    return STATUS_OK;
}

/* ---- arrays ------------------------------------------------------------------------------------------------ */

enum status gguf_array_length(const gguf *g, const char *name, enum gguf_type want, uint64_t *n,
                              struct err *err) {
    const struct gguf_key *k = find_key(g, name, err);
    if (k == NULL) return STATUS_FORMAT;
    if (k->type != GGUF_ARRAY) return wrong_type(k, name, "an array", err);
    if (k->element != want)
        return err_set(err, STATUS_FORMAT, "key '%s': array elements are %s, not %s", name,
                       type_name(k->element), type_name(want));
    *n = k->n;
    return STATUS_OK;
}

static const struct gguf_key *array_at(const gguf *g, int64_t key, uint64_t i) {
    assert(key >= 0 && (uint64_t)key < g->n_keys);
    const struct gguf_key *k = &g->keys[key];
    assert(k->type == GGUF_ARRAY && i < k->n);
    (void)i;
    return k;
}

struct gguf_string gguf_array_string(const gguf *g, int64_t key, uint64_t i) {
    const struct gguf_key *k = array_at(g, key, i);
    assert(k->element == GGUF_STRING);
    const uint8_t *p = k->value + k->string_at[i];
    struct gguf_string s = {(const char *)(p + 8), gguf_le(p, 8)};
    return s;
}

int64_t gguf_array_int(const gguf *g, int64_t key, uint64_t i) {
    const struct gguf_key *k = array_at(g, key, i);
    assert(is_integer(k->element) || k->element == GGUF_BOOL);
    int huge = 0;
    return integer_at(k->value + i * (uint64_t)gguf_scalar_bytes(k->element), k->element, &huge);
}

float gguf_array_f32(const gguf *g, int64_t key, uint64_t i) {
    const struct gguf_key *k = array_at(g, key, i);
    assert(k->element == GGUF_F32 || k->element == GGUF_F64);
    return (float)float_at(k->value + i * (uint64_t)gguf_scalar_bytes(k->element), k->element);
}

/* ---- text -------------------------------------------------------------------------------------------------- */

#define TEXT_ELEMENTS 4 /* elements of an array shown by gguf_value_text */

/* Appends bytes as they are, control bytes as \xNN; stops whole characters short of the end of the buffer. */
static size_t put_bytes(char *out, size_t size, size_t used, const uint8_t *p, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        int control = p[i] < 0x20 || p[i] == 0x7f;
        if (used + (control ? 5u : 1u) > size) {
            /* Do not leave half a UTF-8 character: drop its continuation bytes, then its lead byte. */
            if ((p[i] & 0xc0) == 0x80) {
                while (used > 0 && ((uint8_t)out[used - 1] & 0xc0) == 0x80) used--;
                if (used > 0 && (uint8_t)out[used - 1] >= 0xc0) used--;
            }
            break;
        }
        if (control)
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", p[i]);
        else
            out[used++] = (char)p[i];
    }
    out[used] = '\0';
    return used;
}

static size_t put_text(char *out, size_t size, size_t used, const char *text) {
    return put_bytes(out, size, used, (const uint8_t *)text, strlen(text));
}

static size_t put_scalar(char *out, size_t size, size_t used, const uint8_t *p, enum gguf_type t) {
    char text[40];
    int huge = 0;
    if (t == GGUF_F32) {
        (void)snprintf(text, sizeof text, "%.9g", float_at(p, t));
    } else if (t == GGUF_F64) {
        (void)snprintf(text, sizeof text, "%.17g", float_at(p, t));
    } else if (t == GGUF_BOOL) {
        (void)snprintf(text, sizeof text, "%s", p[0] != 0 ? "true" : "false");
    } else {
        int64_t v = integer_at(p, t, &huge);
        if (huge)
            (void)snprintf(text, sizeof text, "%" PRIu64, (uint64_t)v);
        else
            (void)snprintf(text, sizeof text, "%" PRId64, v);
    }
    return put_text(out, size, used, text);
}

const char *gguf_value_text(const gguf *g, uint64_t i, char *out, size_t out_bytes) {
    assert(i < g->n_keys && out_bytes > 0);
    const struct gguf_key *k = &g->keys[i];
    size_t size = out_bytes - 1, used = 0; /* the last byte is the NUL's */
    out[0] = '\0';
    if (k->type == GGUF_STRING) {
        (void)put_bytes(out, size, used, k->value, k->n);
        return out;
    }
    if (k->type != GGUF_ARRAY) {
        (void)put_scalar(out, size, used, k->value, k->type);
        return out;
    }
    char head[48];
    (void)snprintf(head, sizeof head, "%s[%" PRIu64 "]", type_name(k->element), k->n);
    used = put_text(out, size, used, head);
    for (uint64_t e = 0; e < k->n && e < TEXT_ELEMENTS; e++) {
        used = put_text(out, size, used, e == 0 ? " " : ", ");
        if (k->element == GGUF_STRING) {
            struct gguf_string s = gguf_array_string(g, (int64_t)i, e);
            used = put_bytes(out, size, used, (const uint8_t *)s.data, s.length);
        } else {
            used = put_scalar(out, size, used, k->value + e * (uint64_t)gguf_scalar_bytes(k->element),
                              k->element);
        }
    }
    if (k->n > TEXT_ELEMENTS) (void)put_text(out, size, used, ", ...");
    return out;
}
