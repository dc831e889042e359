/* gguf_write.c - see gguf_write.h.
 * Not a reader. Idea: the header grows in one buffer and goes out, with the counts patched in, when the first byte of
 * tensor data arrives. Source: the GGUF specification. Exercise: ctest -R unit.make_model */
#include "gguf_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_impl.h"

#define ALIGNMENT 32u
#define COUNTS_AT 8u /* tensor count, then key count */

struct gguf_writer {
    FILE *out;
    uint8_t *header; /* [used] of [room] bytes */
    size_t used, room;
    uint64_t n_keys, n_tensors;
    uint64_t *bytes; /* [n_tensors] size of each tensor */
    uint64_t offset; /* of the next declared tensor in the data section */
    int started;     /* the header is out */
    uint64_t at;     /* tensor being filled */
    uint64_t filled; /* bytes of it written */
    enum status failed;
    const char *why;
};

static void fail(gguf_writer *w, enum status s, const char *why) {
    if (w->failed != STATUS_OK) return;
    w->failed = s;
    w->why = why;
}

static void put(gguf_writer *w, const void *p, size_t n) {
    if (w->failed != STATUS_OK || n == 0) return;
    if (n > w->room - w->used) {
        size_t room = w->room * 2 + n + 256;
        uint8_t *more = realloc(w->header, room);
        if (more == NULL) {
            fail(w, STATUS_NOMEM, "no memory for the header");
            return;
        }
        w->header = more;
        w->room = room;
    }
    memcpy(w->header + w->used, p, n);
    w->used += n;
}

static void store_le(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static void put_le(gguf_writer *w, uint64_t v, int bytes) {
    uint8_t p[8];
    store_le(p, v, bytes);
    put(w, p, (size_t)bytes);
}

static void put_text(gguf_writer *w, struct gguf_string s) {
    put_le(w, s.length, 8);
    put(w, s.data, (size_t)s.length);
}

static void put_name(gguf_writer *w, struct gguf_string name, enum gguf_type type) {
    if (w->n_tensors > 0 || w->started) fail(w, STATUS_USAGE, "a key was put after a tensor");
    put_text(w, name);
    put_le(w, (uint64_t)type, 4);
    w->n_keys++;
}

static struct gguf_string string_of(const char *text) {
    struct gguf_string s = {text, strlen(text)};
    return s;
}

enum status gguf_writer_open(FILE *out, gguf_writer **w, struct err *err) {
    *w = calloc(1, sizeof **w);
    if (*w == NULL) return err_set(err, STATUS_NOMEM, "no memory for a GGUF writer");
    (*w)->out = out;
    put(*w, "GGUF", 4);
    put_le(*w, 3, 4);
    put_le(*w, 0, 8); /* both counts are patched in by start() */
    put_le(*w, 0, 8);
    return STATUS_OK;
}

void gguf_writer_drop(gguf_writer *w) {
    if (w == NULL) return;
    free(w->header);
    free(w->bytes);
    free(w);
}

void gguf_put_u32(gguf_writer *w, const char *name, uint32_t value) {
    put_name(w, string_of(name), GGUF_U32);
    put_le(w, value, 4);
}

void gguf_put_f32(gguf_writer *w, const char *name, float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_name(w, string_of(name), GGUF_F32);
    put_le(w, bits, 4);
}

void gguf_put_bool(gguf_writer *w, const char *name, int value) {
    put_name(w, string_of(name), GGUF_BOOL);
    put_le(w, value != 0, 1);
}

void gguf_put_string(gguf_writer *w, const char *name, const char *text) {
    put_name(w, string_of(name), GGUF_STRING);
    put_text(w, string_of(text));
}

static void put_array(gguf_writer *w, const char *name, enum gguf_type element, uint64_t n) {
    put_name(w, string_of(name), GGUF_ARRAY);
    put_le(w, (uint64_t)element, 4);
    put_le(w, n, 8);
}

void gguf_put_strings(gguf_writer *w, const char *name, const struct gguf_string *items, uint64_t n) {
    put_array(w, name, GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++) put_text(w, items[i]);
}

void gguf_put_i32s(gguf_writer *w, const char *name, const int32_t *items, uint64_t n) {
    put_array(w, name, GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++) put_le(w, (uint32_t)items[i], 4);
}

void gguf_put_key(gguf_writer *w, const gguf *from, uint64_t i) {
    const struct gguf_key *k = &from->keys[i];
    put_name(w, k->name, k->type);
    if (k->type == GGUF_STRING) {
        put_le(w, k->n, 8);
        put(w, k->value, (size_t)k->n);
    } else if (k->type != GGUF_ARRAY) {
        put(w, k->value, (size_t)gguf_scalar_bytes(k->type));
    } else {
        put_le(w, (uint64_t)k->element, 4);
        put_le(w, k->n, 8);
        if (k->element != GGUF_STRING) put(w, k->value, (size_t)k->n * (size_t)gguf_scalar_bytes(k->element));
        for (uint64_t e = 0; k->element == GGUF_STRING && e < k->n; e++)
            put_text(w, gguf_array_string(from, (int64_t)i, e));
    }
}

void gguf_put_tensor(gguf_writer *w, struct gguf_string name, enum dtype dtype, int n_dims,
                     const uint64_t *dims) {
    uint64_t elements = 1;
    put_text(w, name);
    put_le(w, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) {
        put_le(w, dims[i], 8);
        elements *= dims[i];
    }
    put_le(w, (uint64_t)dtype, 4);
    put_le(w, w->offset, 8);
    uint64_t *more = realloc(w->bytes, (size_t)(w->n_tensors + 1) * sizeof *more);
    if (more == NULL) {
        fail(w, STATUS_NOMEM, "no memory for the tensor list");
        return;
    }
    w->bytes = more;
    uint64_t bytes = dtype_bytes(dtype, elements);
    w->bytes[w->n_tensors++] = bytes;
    w->offset += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void emit(gguf_writer *w, const void *p, size_t n) {
    if (n > 0 && fwrite(p, 1, n, w->out) != n) fail(w, STATUS_IO, strerror(errno));
}

static void pad(gguf_writer *w, uint64_t written) {
    static const uint8_t zeros[ALIGNMENT];
    emit(w, zeros, (size_t)((ALIGNMENT - written % ALIGNMENT) % ALIGNMENT));
}

static void start(gguf_writer *w) {
    if (w->started || w->failed != STATUS_OK) return;
    w->started = 1;
    store_le(w->header + COUNTS_AT, w->n_tensors, 8);
    store_le(w->header + COUNTS_AT + 8, w->n_keys, 8);
    emit(w, w->header, w->used);
    pad(w, w->used);
}

static enum status report(const gguf_writer *w, struct err *err) {
    return w->failed == STATUS_OK ? STATUS_OK : err_set(err, w->failed, "writing GGUF: %s", w->why);
}

enum status gguf_write_data(gguf_writer *w, const void *bytes, uint64_t n, struct err *err) {
    start(w);
    if (w->at >= w->n_tensors || n > w->bytes[w->at] - w->filled)
        fail(w, STATUS_USAGE, "more data than the tensor holds");
    if (w->failed != STATUS_OK) return report(w, err);
    emit(w, bytes, (size_t)n);
    w->filled += n;
    if (w->filled == w->bytes[w->at]) {
        pad(w, w->filled);
        w->at++;
        w->filled = 0;
    }
    return report(w, err);
}

enum status gguf_writer_close(gguf_writer *w, struct err *err) {
    start(w);
    if (w->at != w->n_tensors) fail(w, STATUS_USAGE, "a declared tensor has not all of its data");
    if (fflush(w->out) != 0) fail(w, STATUS_IO, strerror(errno));
    enum status s = report(w, err);
    gguf_writer_drop(w);
    return s;
}
