/* poison.c - see poison.h. */
#include "gates/poison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t poison_word(size_t i, int salt) {
    uint32_t payload = (uint32_t)(i * 2654435761u) >> 12; /* 20 bits that change with every position */
    return salt != 0 ? 0xffa00000u | (payload ^ 0xfffffu) << 1 : 0x7f800001u | payload << 1;
}

static void pattern(uint8_t *out, size_t bytes, size_t first_word, int salt) {
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word = poison_word(first_word + i / 4, salt);
        size_t part = bytes - i < 4 ? bytes - i : 4;
        memcpy(out + i, &word, part);
    }
}

static enum status copy_pattern(struct backend *b, void *dst, size_t bytes, size_t first_word, int salt,
                                struct err *err) {
    if (bytes == 0) return STATUS_OK;
    uint8_t *host = malloc(bytes);
    if (host == NULL) return err_set(err, STATUS_NOMEM, "poison: %zu bytes refused", bytes);
    pattern(host, bytes, first_word, salt);
    enum status s = b->copy_in(b, dst, host, bytes, err);
    free(host);
    return s;
}

/* Guards use word numbers that data never has. */
#define FRONT_WORDS ((size_t)1 << 40)
#define BACK_WORDS  ((size_t)1 << 41)

static uint8_t *back_guard(const struct guarded *g) {
    return (uint8_t *)g->data + g->bytes;
}

enum status poison_alloc(struct backend *b, size_t bytes, struct guarded *out, struct err *err) {
    memset(out, 0, sizeof *out);
    void *base = NULL;
    RETURN_IF_ERROR(b->alloc(b, bytes + 2 * POISON_GUARD, &base, err));
    out->backend = b;
    out->base = base;
    out->data = (uint8_t *)base + POISON_GUARD;
    out->bytes = bytes;
    enum status s = copy_pattern(b, base, POISON_GUARD, FRONT_WORDS, 0, err);
    if (s == STATUS_OK) s = copy_pattern(b, back_guard(out), POISON_GUARD, BACK_WORDS, 0, err);
    if (s == STATUS_OK) s = poison_fill(out, 0, err);
    if (s != STATUS_OK) poison_free(out);
    return s;
}

enum status poison_alloc_copy(struct backend *b, const void *host, size_t bytes, struct guarded *out,
                              struct err *err) {
    RETURN_IF_ERROR(poison_alloc(b, bytes, out, err));
    enum status s = bytes == 0 ? STATUS_OK : b->copy_in(b, out->data, host, bytes, err);
    if (s != STATUS_OK) poison_free(out);
    return s;
}

void poison_free(struct guarded *g) {
    if (g->base != NULL) g->backend->free(g->backend, g->base);
    memset(g, 0, sizeof *g);
}

enum status poison_fill(struct guarded *g, int salt, struct err *err) {
    return copy_pattern(g->backend, g->data, g->bytes, 0, salt, err);
}

static size_t guard_damage(const uint8_t *got, size_t first_word, size_t *first) {
    uint8_t want[POISON_GUARD];
    pattern(want, sizeof want, first_word, 0);
    size_t damaged = 0;
    for (size_t i = 0; i < sizeof want; i++) {
        if (got[i] == want[i]) continue;
        if (damaged++ == 0) *first = i;
    }
    return damaged;
}

enum status poison_check(const struct guarded *g, size_t *damaged, char where[64], struct err *err) {
    uint8_t host[POISON_GUARD];
    size_t at = 0;
    where[0] = '\0';
    RETURN_IF_ERROR(g->backend->copy_out(g->backend, host, g->base, sizeof host, err));
    *damaged = guard_damage(host, FRONT_WORDS, &at);
    if (*damaged > 0) (void)snprintf(where, 64, "%zu bytes before the start", sizeof host - at);
    RETURN_IF_ERROR(g->backend->copy_out(g->backend, host, back_guard(g), sizeof host, err));
    size_t behind = guard_damage(host, BACK_WORDS, &at);
    if (*damaged == 0 && behind > 0) (void)snprintf(where, 64, "%zu bytes after the end", at);
    *damaged += behind;
    return STATUS_OK;
}

enum status poison_left(const struct guarded *g, int salt, uint8_t *left, struct err *err) {
    if (g->bytes == 0) return STATUS_OK;
    uint8_t *want = malloc(g->bytes);
    if (want == NULL) return err_set(err, STATUS_NOMEM, "poison: %zu bytes refused", g->bytes);
    pattern(want, g->bytes, 0, salt);
    enum status s = g->backend->copy_out(g->backend, left, g->data, g->bytes, err);
    for (size_t i = 0; s == STATUS_OK && i < g->bytes; i++) left[i] = left[i] == want[i];
    free(want);
    return s;
}

enum status poison_tail(engine *e, session *s, struct err *err) {
    struct backend *b = engine_backend(e);
    const struct kv_cache *kv = session_kv(s);
    size_t row = (size_t)kv->n_kv_head * (size_t)kv->head_dim, pos = (size_t)session_pos(s);
    row =
        kv->dtype == KV_Q8_0 ? row / QK_32 * sizeof(struct block_q8_0) : row * (kv->dtype == KV_F32 ? 4 : 2);
    for (int layer = 0; layer < kv->n_layer; layer++) {
        size_t at = ((size_t)layer * (size_t)kv->n_ctx + pos) * row, bytes = ((size_t)kv->n_ctx - pos) * row;
        RETURN_IF_ERROR(b->fill(b, (uint8_t *)kv->k + at, 0xff, bytes, err));
        RETURN_IF_ERROR(b->fill(b, (uint8_t *)kv->v + at, 0xff, bytes, err));
    }
    return b->sync(b, err);
}
