/* vocab_table.c - the two hash tables of a vocabulary: text to id, and pair of ids to merge rank.
 * Not a general container: sizes are fixed at open, nothing is ever removed.
 * Idea: open addressing at most half full, so a miss costs about one probe; merging asks for many pairs that do not exist.
 * Source: ours; text is hashed by XXH3. Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A power of two at least twice n. n is bounded by the file size, so this cannot overflow 32 bits for n < 2^30. */
static uint32_t table_size(size_t n) {
    uint32_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
}

enum status text_map_build(struct vocab *v, struct err *err) {
    uint32_t size = table_size((size_t)v->n);
    v->map.slots = calloc(size, sizeof *v->map.slots);
    if (v->map.slots == NULL) return err_set(err, STATUS_NOMEM, "no memory for a table of %u tokens", size);
    v->map.mask = size - 1;
    for (int32_t id = 0; id < v->n; id++) {
        const uint8_t *text = v->text.data + v->text.at[id];
        size_t length = v->text.at[id + 1] - v->text.at[id];
        if (length == 0) continue; /* a hole in the vocabulary: no text can ask for it */
        uint32_t slot = (uint32_t)XXH3_64bits(text, length) & v->map.mask;
        int duplicate = 0;
        for (; v->map.slots[slot] != 0 && !duplicate; slot = (slot + 1) & v->map.mask) {
            size_t other = v->map.slots[slot] - 1;
            duplicate = v->text.at[other + 1] - v->text.at[other] == length &&
                        memcmp(v->text.data + v->text.at[other], text, length) == 0;
        }
        if (!duplicate) v->map.slots[slot] = (uint32_t)id + 1; /* of two equal texts the lower id is found */
    }
    return STATUS_OK;
}

int32_t text_map_find(const struct vocab *v, const uint8_t *text, size_t length) {
    if (length == 0 || length > v->text_max) return -1;
    uint32_t slot = (uint32_t)XXH3_64bits(text, length) & v->map.mask;
    for (; v->map.slots[slot] != 0; slot = (slot + 1) & v->map.mask) {
        size_t id = v->map.slots[slot] - 1;
        if (v->text.at[id + 1] - v->text.at[id] == length &&
            memcmp(v->text.data + v->text.at[id], text, length) == 0)
            return (int32_t)id;
    }
    return -1;
}

enum status pair_map_init(struct pair_map *m, size_t n, struct err *err) {
    uint32_t size = table_size(n);
    m->keys = calloc(size, sizeof *m->keys);
    m->values = calloc(size, sizeof *m->values);
    m->mask = size - 1;
    if (m->keys == NULL || m->values == NULL)
        return err_set(err, STATUS_NOMEM, "no memory for a table of %u merges", size);
    return STATUS_OK;
}

static uint64_t pair_key(int32_t left, int32_t right) {
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

/* The finaliser of splitmix64: ids are small and dense, so their bits need spreading. */
static uint32_t pair_slot(const struct pair_map *m, uint64_t key) {
    key ^= key >> 30;
    key *= 0xbf58476d1ce4e5b9u;
    key ^= key >> 27;
    key *= 0x94d049bb133111ebu;
    key ^= key >> 31;
    return (uint32_t)key & m->mask;
}

void pair_map_put(struct pair_map *m, int32_t left, int32_t right, int32_t value) {
    uint64_t key = pair_key(left, right);
    uint32_t slot = pair_slot(m, key);
    while (m->keys[slot] != 0 && m->keys[slot] != key) slot = (slot + 1) & m->mask;
    if (m->keys[slot] == key) return;
    m->keys[slot] = key;
    m->values[slot] = value;
}

int32_t pair_map_get(const struct pair_map *m, int32_t left, int32_t right) {
    uint64_t key = pair_key(left, right);
    uint32_t slot = pair_slot(m, key);
    for (; m->keys[slot] != 0; slot = (slot + 1) & m->mask)
        if (m->keys[slot] == key) return m->values[slot];
    return -1;
}
