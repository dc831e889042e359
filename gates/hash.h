/* hash.h - XXH3-128 of everything forkgate compares, in canonical byte order.
 * Not cryptographic: equal hashes end a discussion about accidents, not about adversaries.
 * Idea: values are hashed as little-endian bytes; a NaN is hashed as 0x7fc00000 whatever its payload.
 * Source: xxHash 0.8 (XXH3 is frozen since 0.8.0). Exercise: ctest -R unit.hash */
#ifndef FORKGATE_HASH_H
#define FORKGATE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash128 {
    uint8_t bytes[16]; /* canonical form: big-endian, high 64 bits first; hex equals xxh128sum */
};

#define HASH_TEXT_BYTES 33

struct hash128 hash_bytes(const void *data, size_t n);
struct hash128 hash_logits(const float *row, size_t n_vocab); /* little-endian f32, NaN as a class */
int hash_equal(const struct hash128 *a, const struct hash128 *b);
void hash_format(const struct hash128 *h, char out[HASH_TEXT_BYTES]); /* 32 lower-case hex digits */
int hash_parse(const char *text, struct hash128 *out); /* 1 when text is exactly 32 hex digits */

/* Streaming. The state is opaque; _end frees it. open returns NULL when memory is refused. */
typedef struct hash_stream hash_stream;
hash_stream *hash_open(void);
void hash_update(hash_stream *s, const void *data, size_t n);
struct hash128 hash_peek(const hash_stream *s); /* digest so far; s goes on */
void hash_close(hash_stream *s);

#endif
