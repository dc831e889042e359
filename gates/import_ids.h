/* import_ids.h - the ids of another engine's tokens, from their bytes and a tokenizer file.
 * Not an encoder: a token is looked up whole, text is never split.
 * Idea: one table from bytes to id, built once; two ids with the same bytes are counted, never silently chosen.
 * Source: ours; the vocabulary is the engine's reader. Exercise: ctest -R unit.import_json */
#ifndef FORKGATE_IMPORT_IDS_H
#define FORKGATE_IMPORT_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/status.h"

typedef struct import_ids import_ids;

/* path: a GGUF with a tokenizer (a model, or a vocabulary without tensors). */
enum status import_ids_open(const char *path, import_ids **out, struct err *err);
void import_ids_close(import_ids *m); /* NULL is legal */

int32_t import_ids_size(const import_ids *m);
/* The id of these bytes, -1 when no token has them. *shared: how many tokens have; then the last that is no special one. */
int32_t import_ids_find(const import_ids *m, const void *bytes, size_t n, int *shared);
/* The bytes of an id in [0, size). */
const uint8_t *import_ids_bytes(const import_ids *m, int32_t id, size_t *n);
int import_ids_special(const import_ids *m, int32_t id);
int import_ids_end(const import_ids *m, int32_t id); /* EOS, EOT and the like */

#endif
