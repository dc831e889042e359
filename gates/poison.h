/* poison.h - backend buffers between guard bands, filled with garbage that says where it came from.
 * Not an allocator for the engine: gates only.
 * Idea: every word of poison is a signalling NaN whose payload depends on its position: an unwritten output is NaN for
 * the census and recognisable for the sentinel, a kernel that stores one constant cannot hide, and an in-place sum that
 * runs over the end changes the guard (a quiet NaN would survive it).
 * Source: ours; ggml's sentinels, libsodium's guard pages. Exercise: ctest -R unit.poison */
#ifndef FORKGATE_POISON_H
#define FORKGATE_POISON_H

#include "engine/engine.h"

#define POISON_GUARD 1024 /* bytes before and after; a multiple of the 256-byte alignment */

struct guarded {
    struct backend *backend;
    void *base;   /* backend memory: guard, data, guard */
    void *data;   /* backend memory, 256-byte aligned */
    size_t bytes; /* of data */
};

/* The poison of 32-bit word i under salt (0 or 1; the two patterns differ in every byte). */
uint32_t poison_word(size_t i, int salt);

/* Allocates and poisons guards and data (salt 0). bytes may be 0. */
enum status poison_alloc(struct backend *b, size_t bytes, struct guarded *out, struct err *err);
/* The same, with host bytes copied in. */
enum status poison_alloc_copy(struct backend *b, const void *host, size_t bytes, struct guarded *out,
                              struct err *err);
void poison_free(struct guarded *g); /* a zeroed struct is legal */

/* Poisons the data again; to be done before every call, so that an answer of the call before cannot be reused. */
enum status poison_fill(struct guarded *g, int salt, struct err *err);

/* Bytes of the guards that no longer hold their pattern; *where names the first ("3 bytes after the end"). */
enum status poison_check(const struct guarded *g, size_t *damaged, char where[64], struct err *err);

/* left[i], for each byte of the data: 1 where it still holds its poison of this salt. The two salts differ in every byte, so
 * one that is left under both was never written, whatever the type of the values. left: [g->bytes] */
enum status poison_left(const struct guarded *g, int salt, uint8_t *left, struct err *err);

/* NaN (every byte 0xff) in all layers of a session's cache from its position to the end: nothing of a dropped future is left
 * there for a step that does not write what it should. */
enum status poison_tail(engine *e, session *s, struct err *err);

#endif
