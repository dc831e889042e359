/* gguf.h - a bounds-checked reader of GGUF v2 and v3 over a byte range, and an mmap opener on top.
 * Not a loader: it knows keys and tensors, not what a model is. Nothing is copied; strings point into the range.
 * Idea: every count, length, offset and product is checked against the bytes that are left before it is used, with
 * checks that cannot wrap (compare by division or subtraction); no allocation is sized by an unchecked field.
 * Source: the GGUF specification. Exercise: ctest -R unit.gguf ; fuzz_gguf */
#ifndef FORKGATE_GGUF_H
#define FORKGATE_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GGUF_MAX_DIMS 4

enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

struct gguf_string {
    const char *data; /* not NUL-terminated */
    uint64_t length;
};

struct gguf_tensor {
    struct gguf_string name;
    enum dtype dtype;
    int n_dims;
    uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] is the row length (fastest); unused dims are 1 */
    const void *data;             /* inside the range, whole tensor inside the range */
    uint64_t bytes;
};

typedef struct gguf gguf;

/* The caller keeps the bytes alive until gguf_close. */
enum status gguf_parse(const void *bytes, uint64_t length, gguf **out, struct err *err);

/* Maps the file read-only and parses it; the map belongs to *out. Errors name the file. */
enum status gguf_open(const char *path, gguf **out, struct err *err);
void gguf_close(gguf *g); /* NULL is legal */

uint64_t gguf_file_bytes(const gguf *g);
const void *gguf_file_data(const gguf *g);

/* Keys, in file order. */
uint64_t gguf_key_count(const gguf *g);
struct gguf_string gguf_key_name(const gguf *g, uint64_t i);
int64_t gguf_key_find(const gguf *g, const char *name); /* -1 when absent */

/* Typed reads. A missing key or a wrong type is STATUS_FORMAT with the key named. Any integer type whose value fits
 * is accepted where an integer is wanted; F32 or F64 where a float is wanted. */
enum status gguf_get_u32(const gguf *g, const char *name, uint32_t *out, struct err *err);
enum status gguf_get_f32(const gguf *g, const char *name, float *out, struct err *err);
enum status gguf_get_bool(const gguf *g, const char *name, int *out, struct err *err);
enum status gguf_get_string(const gguf *g, const char *name, struct gguf_string *out, struct err *err);
/* Arrays. want: element type. STRING arrays are read by index through an offset table built at open. */
enum status gguf_array_length(const gguf *g, const char *name, enum gguf_type want, uint64_t *n,
                              struct err *err);
struct gguf_string gguf_array_string(const gguf *g, int64_t key,
                                     uint64_t i);               /* key and i checked by assert */
int64_t gguf_array_int(const gguf *g, int64_t key, uint64_t i); /* any integer or bool element */
float gguf_array_f32(const gguf *g, int64_t key, uint64_t i);

/* Prints one key's value as text for `inspect` (arrays: element type, count and the first few). Returns out. */
const char *gguf_value_text(const gguf *g, uint64_t i, char *out, size_t out_bytes);

/* Tensors, in file order. */
uint64_t gguf_tensor_count(const gguf *g);
const struct gguf_tensor *gguf_tensor_at(const gguf *g, uint64_t i);
const struct gguf_tensor *gguf_tensor_find(const gguf *g, const char *name); /* NULL when absent */

#ifdef __cplusplus
}
#endif
#endif
