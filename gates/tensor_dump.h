/* tensor_dump.h - .fgt: one tensor with its shape and provenance, verified as a whole. Format version 1.
 * Not a tensor library: bytes in, the same bytes out.
 * Idea: like .fgd: one XXH3-128 per 64 KiB block, a footer that is hashed itself, equal tensors are equal bytes.
 * Source: ours. Exercise: ctest -R unit.tensor_dump
 *
 * Layout (little-endian):
 *   0    magic "FGTENS1\n", u32 version 1, u32 dtype (engine/dtype.h), u32 n_dims (1..4), u32 0, u64 ne[4] (unused are 1),
 *        u64 header_bytes (provenance text), u64 data_offset; at 72 zeros up to 128; the provenance text; zeros up to
 *        data_offset (a multiple of 64)
 *   ..   the elements, row-major, ne[0] fastest, as dtype.h lays them out
 *   ..   block table: one hash128 for the header, one per 64 KiB of data
 *   ..   struct tensor_footer, the last 64 bytes */
#ifndef FORKGATE_TENSOR_DUMP_H
#define FORKGATE_TENSOR_DUMP_H

#include <stdint.h>

#include "engine/dtype.h"
#include "gates/hash.h"
#include "gates/provenance.h"

struct tensor_shape {
    enum dtype dtype;
    int n_dims;     /* 1 .. 4 */
    uint64_t ne[4]; /* ne[0] is the row length; every one >= 1; unused are 1 */
};

/* STATUS_SHAPE: a dimension of 0, a row that is no whole number of blocks, more than 2^40 elements. *bytes: data size. */
enum status tensor_shape_check(const struct tensor_shape *s, uint64_t *bytes, struct err *err);

/* Appears at path complete or not at all. */
enum status tensor_dump_write(const char *path, const struct tensor_shape *shape, const void *data,
                              const struct provenance *p, struct err *err);

typedef struct tensor_dump tensor_dump;

/* Maps and verifies every byte. STATUS_FORMAT names the file and the first bad block's byte offset and elements. */
enum status tensor_dump_open(const char *path, tensor_dump **out, struct err *err);
enum status tensor_dump_open_memory(const void *bytes, size_t n, const char *name, tensor_dump **out,
                                    struct err *err);
void tensor_dump_close(tensor_dump *t);

#define TENSOR_DUMP_MAGIC "FGTENS" /* how every version begins */

const char *tensor_dump_name(const tensor_dump *t);
struct tensor_shape tensor_dump_shape(const tensor_dump *t);
uint64_t tensor_dump_elements(const tensor_dump *t);
const void *tensor_dump_data(const tensor_dump *t); /* 64-byte aligned when mapped */
const struct provenance *tensor_dump_provenance(const tensor_dump *t);
/* Over dtype, n_dims, ne and the data: equal hashes mean equal tensors, whoever made them. */
struct hash128 tensor_dump_hash(const tensor_dump *t);
/* Elements [first, first + n) as f32 (dequantised); both multiples of the dtype's block. */
void tensor_dump_values(const tensor_dump *t, uint64_t first, uint64_t n, float *out);

#endif
