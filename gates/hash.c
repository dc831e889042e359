/* hash.c - see hash.h. */
#include "gates/hash.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h> /* AVX2 / AVX-512 chosen at run time inside libxxhash: twice the baseline's speed */
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "forkgate hashes memory as little-endian values: this machine needs byte swaps that do not exist yet"
#endif

#define CANON_VALUES  4096 /* values rewritten at a time when a row holds a NaN */
#define F32_MAGNITUDE 0x7fffffffu
#define F32_INF       0x7f800000u
#define F32_NAN       0x7fc00000u

struct hash_stream {
    XXH3_state_t *state;
};

static struct hash128 canonical(XXH128_hash_t h) {
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, h);
    struct hash128 out;
    memcpy(out.bytes, c.digest, sizeof out.bytes);
    return out;
}

struct hash128 hash_bytes(const void *data, size_t n) {
    return canonical(XXH3_128bits(n == 0 ? "" : data, n)); /* never NULL into the library */
}

static uint32_t bits_at(const float *row, size_t i) {
    uint32_t bits;
    memcpy(&bits, row + i, sizeof bits);
    return bits;
}

static int has_nan(const float *row, size_t n) {
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = bits_at(row, i) & F32_MAGNITUDE;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest > F32_INF;
}

struct hash128 hash_logits(const float *row, size_t n_vocab) {
    if (!has_nan(row, n_vocab)) return hash_bytes(row, n_vocab * sizeof *row);
    /* A NaN's payload depends on the instruction that made it: all NaNs hash as one class. */
    XXH3_state_t *state = XXH3_createState();
    struct hash128 none = {{0}};
    if (state == NULL) return none;
    (void)XXH3_128bits_reset(state);
    uint32_t part[CANON_VALUES];
    for (size_t done = 0; done < n_vocab;) {
        size_t n = n_vocab - done < CANON_VALUES ? n_vocab - done : CANON_VALUES;
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = bits_at(row, done + i);
            part[i] = (bits & F32_MAGNITUDE) > F32_INF ? F32_NAN : bits;
        }
        (void)XXH3_128bits_update(state, part, n * sizeof part[0]);
        done += n;
    }
    struct hash128 out = canonical(XXH3_128bits_digest(state));
    (void)XXH3_freeState(state);
    return out;
}

int hash_equal(const struct hash128 *a, const struct hash128 *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void hash_format(const struct hash128 *h, char out[HASH_TEXT_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof h->bytes; i++) {
        out[2 * i] = digits[h->bytes[i] >> 4];
        out[2 * i + 1] = digits[h->bytes[i] & 15];
    }
    out[2 * sizeof h->bytes] = '\0';
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

int hash_parse(const char *text, struct hash128 *out) {
    struct hash128 h;
    for (size_t i = 0; i < sizeof h.bytes; i++) {
        int high = hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (low < 0) return 0;
        h.bytes[i] = (uint8_t)(high * 16 + low);
    }
    if (text[2 * sizeof h.bytes] != '\0') return 0;
    *out = h;
    return 1;
}

hash_stream *hash_open(void) {
    hash_stream *s = malloc(sizeof *s);
    if (s == NULL) return NULL;
    s->state = XXH3_createState();
    if (s->state == NULL) {
        free(s);
        return NULL;
    }
    (void)XXH3_128bits_reset(s->state);
    return s;
}

void hash_update(hash_stream *s, const void *data, size_t n) {
    if (n > 0) (void)XXH3_128bits_update(s->state, data, n);
}

struct hash128 hash_peek(const hash_stream *s) {
    return canonical(XXH3_128bits_digest(s->state));
}

void hash_close(hash_stream *s) {
    if (s == NULL) return;
    (void)XXH3_freeState(s->state);
    free(s);
}
