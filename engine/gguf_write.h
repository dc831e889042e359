/* gguf_write.h - writes a valid GGUF v3: keys and tensor records first, then the tensors' bytes in the same order.
 * Not an editor: what was put is put. Used by make-model and by tests.
 * Idea: the put functions remember the first thing that went wrong and gguf_write_data or gguf_writer_close reports
 * it, so that writing forty keys needs one check. Tensor data is streamed: memory holds the header only.
 * Source: the GGUF specification. Exercise: ctest -R unit.make_model */
#ifndef FORKGATE_GGUF_WRITE_H
#define FORKGATE_GGUF_WRITE_H

#include <stdio.h>

#include "gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gguf_writer gguf_writer;

/* Writes to out, which stays the caller's (it may be a memory stream) and must be at its start. */
enum status gguf_writer_open(FILE *out, gguf_writer **w, struct err *err);

/* Flushes and frees w. STATUS_USAGE when a declared tensor did not get all its bytes; STATUS_IO when out refused some. */
enum status gguf_writer_close(gguf_writer *w, struct err *err);

/* Frees w without finishing; NULL is legal. */
void gguf_writer_drop(gguf_writer *w);

/* Keys. name is not checked against keys already put: the reader refuses duplicates. */
void gguf_put_u32(gguf_writer *w, const char *name, uint32_t value);
void gguf_put_f32(gguf_writer *w, const char *name, float value);
void gguf_put_bool(gguf_writer *w, const char *name, int value);
void gguf_put_string(gguf_writer *w, const char *name, const char *text);
void gguf_put_strings(gguf_writer *w, const char *name, const struct gguf_string *items, uint64_t n);
void gguf_put_i32s(gguf_writer *w, const char *name, const int32_t *items, uint64_t n);
void gguf_put_key(gguf_writer *w, const gguf *from, uint64_t i); /* key i of another file, as it is */

/* Declares the next tensor; dims[0] is the row length. Offsets follow from the order. No key may be put after it. */
void gguf_put_tensor(gguf_writer *w, struct gguf_string name, enum dtype dtype, int n_dims,
                     const uint64_t *dims);

/* Appends bytes to the tensor data. Tensors are filled in the order declared; one call stays within one tensor. */
enum status gguf_write_data(gguf_writer *w, const void *bytes, uint64_t n, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
