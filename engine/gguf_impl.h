/* gguf_impl.h - what a parsed GGUF looks like inside; shared by gguf.c, gguf_read.c and gguf_open.c only.
 * Not an interface: everybody else includes gguf.h.
 * Idea: keys and tensors in file order, and beside each an index sorted by name, so that look-ups and the search for
 * duplicates are O(log n) each however hostile the counts. Source: ours. Exercise: ctest -R unit.gguf */
#ifndef FORKGATE_GGUF_IMPL_H
#define FORKGATE_GGUF_IMPL_H

#include "gguf.h"

struct gguf_key {
    struct gguf_string name;
    enum gguf_type type;
    enum gguf_type element; /* ARRAY: type of the elements */
    uint64_t n;             /* ARRAY: element count; STRING: length; else 1 */
    const uint8_t *value;   /* first byte of the scalar, of the string's text, or of the first element */
    uint64_t *string_at;    /* ARRAY of STRING: offset of each element's length field from value */
};

struct gguf {
    const uint8_t *base;
    uint64_t length;
    void *map; /* what gguf_open mapped; NULL for gguf_parse */
    uint64_t alignment;
    struct gguf_key *keys; /* [n_keys] */
    uint64_t n_keys;
    const struct gguf_key **keys_by_name; /* [n_keys] */
    struct gguf_tensor *tensors;          /* [n_tensors] */
    uint64_t n_tensors;
    const struct gguf_tensor **tensors_by_name; /* [n_tensors] */
};

/* Little-endian reads at any address. */
uint64_t gguf_le(const uint8_t *p, int bytes);

/* Bytes of one scalar of the type; 0 for STRING and ARRAY. */
int gguf_scalar_bytes(enum gguf_type t);

/* Order of names: bytes first, then length. */
int gguf_name_compare(struct gguf_string a, struct gguf_string b);

#endif
