/* gguf_writer.h - builds small GGUF v3 files in memory, keys only, for tests of readers.
 * Not the writer of the product: no tensors, and running out of memory ends the program.
 * Idea: append, and patch the count of keys at the end.
 * Source: the GGUF specification. Exercise: ctest -R unit.vocab */
#ifndef FORKGATE_TESTS_GGUF_WRITER_H
#define FORKGATE_TESTS_GGUF_WRITER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"

struct gguf_writer {
    uint8_t *data;
    size_t length;
    uint64_t n_keys;
};

static inline void gguf_writer_put(struct gguf_writer *w, const void *bytes, size_t n) {
    w->data = realloc(w->data, w->length + n + 1);
    if (w->data == NULL) abort();
    if (n > 0) memcpy(w->data + w->length, bytes, n);
    w->length += n;
}

static inline void gguf_writer_put_u32(struct gguf_writer *w, uint32_t x) {
    gguf_writer_put(w, &x, sizeof x);
}

static inline void gguf_writer_put_u64(struct gguf_writer *w, uint64_t x) {
    gguf_writer_put(w, &x, sizeof x);
}

static inline void gguf_writer_put_string(struct gguf_writer *w, const char *s) {
    gguf_writer_put_u64(w, strlen(s));
    gguf_writer_put(w, s, strlen(s));
}

static inline void gguf_writer_init(struct gguf_writer *w) {
    *w = (struct gguf_writer){0};
    gguf_writer_put(w, "GGUF", 4);
    gguf_writer_put_u32(w, 3);
    gguf_writer_put_u64(w, 0); /* tensors */
    gguf_writer_put_u64(w, 0); /* keys: patched by gguf_writer_end */
}

static inline void gguf_writer_key(struct gguf_writer *w, const char *name, enum gguf_type type) {
    gguf_writer_put_string(w, name);
    gguf_writer_put_u32(w, (uint32_t)type);
    w->n_keys++;
}

static inline void gguf_writer_string(struct gguf_writer *w, const char *name, const char *value) {
    gguf_writer_key(w, name, GGUF_STRING);
    gguf_writer_put_string(w, value);
}

static inline void gguf_writer_u32(struct gguf_writer *w, const char *name, uint32_t value) {
    gguf_writer_key(w, name, GGUF_U32);
    gguf_writer_put_u32(w, value);
}

static inline void gguf_writer_strings(struct gguf_writer *w, const char *name, const char *const *values,
                                       uint64_t n) {
    gguf_writer_key(w, name, GGUF_ARRAY);
    gguf_writer_put_u32(w, GGUF_STRING);
    gguf_writer_put_u64(w, n);
    for (uint64_t i = 0; i < n; i++) gguf_writer_put_string(w, values[i]);
}

/* Elements of four bytes. */
static inline void gguf_writer_array(struct gguf_writer *w, const char *name, enum gguf_type type,
                                     const void *values, uint64_t n) {
    gguf_writer_key(w, name, GGUF_ARRAY);
    gguf_writer_put_u32(w, (uint32_t)type);
    gguf_writer_put_u64(w, n);
    gguf_writer_put(w, values, (size_t)n * 4);
}

static inline void gguf_writer_end(struct gguf_writer *w) {
    memcpy(w->data + 16, &w->n_keys, sizeof w->n_keys);
}

static inline void gguf_writer_free(struct gguf_writer *w) {
    free(w->data);
}

#endif
