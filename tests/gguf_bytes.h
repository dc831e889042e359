/* gguf_bytes.h - builds GGUF bytes by hand, right or wrong, for tests of the reader. Knows the format on its own: nothing
 * of engine/gguf_write.c is used, so writer and reader cannot agree on a mistake.
 * Source: the GGUF specification. Exercise: ctest -R unit.gguf */
#ifndef FORKGATE_GGUF_BYTES_H
#define FORKGATE_GGUF_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf.h"

struct bytes {
    uint8_t *p;
    size_t n, room;
};

static inline void put_raw(struct bytes *b, const void *p, size_t n) {
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2 + 64;
        b->p = realloc(b->p, b->room);
        if (b->p == NULL) abort();
    }
    if (n > 0) memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void put_int(struct bytes *b, uint64_t v, int bytes) {
    uint8_t le[8];
    for (int i = 0; i < 8; i++) le[i] = (uint8_t)(v >> (8 * i));
    put_raw(b, le, (size_t)bytes);
}

static inline void put_str(struct bytes *b, const char *s) {
    put_int(b, strlen(s), 8);
    put_raw(b, s, strlen(s));
}

static inline struct bytes start_gguf(uint64_t n_tensors, uint64_t n_keys) {
    struct bytes b = {NULL, 0, 0};
    put_raw(&b, "GGUF", 4);
    put_int(&b, 3, 4);
    put_int(&b, n_tensors, 8);
    put_int(&b, n_keys, 8);
    return b;
}

/* A scalar key of any type; value in its low bytes. */
static inline void put_key(struct bytes *b, const char *name, uint32_t type, uint64_t value, int bytes) {
    put_str(b, name);
    put_int(b, type, 4);
    put_int(b, value, bytes);
}

static inline void put_key_string(struct bytes *b, const char *name, const char *value) {
    put_str(b, name);
    put_int(b, GGUF_STRING, 4);
    put_str(b, value);
}

static inline void put_key_array(struct bytes *b, const char *name, uint32_t element, uint64_t n) {
    put_str(b, name);
    put_int(b, GGUF_ARRAY, 4);
    put_int(b, element, 4);
    put_int(b, n, 8);
}

static inline void put_tensor(struct bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims,
                              uint32_t type, uint64_t offset) {
    put_str(b, name);
    put_int(b, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) put_int(b, dims[i], 8);
    put_int(b, type, 4);
    put_int(b, offset, 8);
}

/* Pads to the alignment and appends n zero bytes of tensor data. */
static inline void put_data(struct bytes *b, size_t alignment, size_t n) {
    static const uint8_t zero[1] = {0};
    while (b->n % alignment != 0) put_raw(b, zero, 1);
    for (size_t i = 0; i < n; i++) put_raw(b, zero, 1);
}

/* Parses a copy that ends exactly where an allocation ends, so that a sanitizer sees the first byte read beyond it. */
static inline enum status parse_exact(const void *p, size_t n, void **copy, gguf **g, struct err *err) {
    *copy = malloc(n > 0 ? n : 1);
    if (*copy == NULL) abort();
    if (n > 0) memcpy(*copy, p, n);
    return gguf_parse(*copy, n, g, err);
}

/* Calls every query on every key and tensor; touches the ends of each tensor. Returns something that depends on all. */
static inline uint64_t read_everything(const gguf *g) {
    uint64_t sum = 0;
    char text[96];
    struct err err;
    for (uint64_t i = 0; i < gguf_key_count(g); i++) {
        struct gguf_string name = gguf_key_name(g, i);
        sum += strlen(gguf_value_text(g, i, text, 1 + (size_t)(i * 7) % sizeof text));
        char *z = calloc(1, (size_t)name.length + 1);
        if (z == NULL) abort();
        memcpy(z, name.data, (size_t)name.length);
        if (gguf_key_find(g, z) != (int64_t)i) abort();
        uint32_t u = 0;
        float f = 0;
        int flag = 0;
        struct gguf_string s = {"", 0};
        uint64_t n = 0;
        sum += (uint64_t)gguf_get_u32(g, z, &u, &err) + (uint64_t)gguf_get_f32(g, z, &f, &err);
        sum += (uint64_t)gguf_get_bool(g, z, &flag, &err) + (uint64_t)gguf_get_string(g, z, &s, &err);
        sum += u + (uint64_t)flag + s.length + (s.length > 0 ? (uint8_t)s.data[s.length - 1] : 0u);
        for (int t = GGUF_U8; t <= GGUF_F64; t++) {
            if (gguf_array_length(g, z, (enum gguf_type)t, &n, &err) != STATUS_OK) continue;
            for (uint64_t e = 0; e < n; e++) {
                if (t == GGUF_STRING) {
                    s = gguf_array_string(g, (int64_t)i, e);
                    sum += s.length + (s.length > 0 ? (uint8_t)s.data[s.length - 1] : 0u);
                } else if (t == GGUF_F32 || t == GGUF_F64) {
                    sum += gguf_array_f32(g, (int64_t)i, e) > 0.0f;
                } else {
                    sum += (uint64_t)gguf_array_int(g, (int64_t)i, e);
                }
            }
        }
        free(z);
    }
    const uint8_t *low = gguf_file_data(g), *high = low + gguf_file_bytes(g);
    for (uint64_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const uint8_t *p = t->data;
        if (t->bytes == 0 || p < low || p > high || t->bytes > (uint64_t)(high - p)) abort();
        sum += (uint64_t)p[0] + p[t->bytes - 1] + t->name.length;
    }
    return sum;
}

#endif
