/* import_npy.h - a NumPy array (.npy) that another engine's kernel left becomes a tensor (.fgt) that diff can judge.
 * Not NumPy: little-endian f4 and f2 in C order, and bf16 as 16-bit words; everything else is refused by name.
 * Idea: the header is a Python literal of three keys; it is read as exactly that, with the byte where it stops being so.
 * Source: the NumPy format specification, versions 1.0 and 2.0. Exercise: ctest -R unit.import_npy ; ctest -R cli.tensors */
#ifndef FORKGATE_IMPORT_NPY_H
#define FORKGATE_IMPORT_NPY_H

#include "gates/tensor_dump.h"

#define IMPORT_NPY_MAGIC "\x93NUMPY"

struct import_npy_options {
    int bf16;     /* the array's 16-bit words (u2, i2, V2) are bf16, which NumPy does not have */
    int keep_nan; /* accept NaN and infinities: the tensor is INVALID when it is judged */
};

/* An array in a file's bytes; the shape's ne[0] is the array's last dimension. */
struct import_npy {
    struct tensor_shape shape;
    const uint8_t *data; /* of any alignment */
    uint64_t bytes;
};

/* STATUS_FORMAT: "NAME: byte B: what"; STATUS_UNSUPPORTED: a dtype or an order that is not read here. */
enum status import_npy_parse(const void *bytes, size_t n, const char *name,
                             const struct import_npy_options *o, struct import_npy *out, struct err *err);

/* Writes the tensor at out, with extra and import=npy as its provenance. */
enum status import_npy(const char *path, const struct import_npy_options *o, const struct provenance *extra,
                       const char *out, struct err *err);

#endif
