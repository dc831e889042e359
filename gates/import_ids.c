/* import_ids.c - see import_ids.h. */
#include "gates/import_ids.h"

#include <stdlib.h>
#include <string.h>

#include "engine/vocab.h"

struct import_ids {
    gguf *file;
    vocab *words;
    int32_t *slots; /* [room] id + 1 of the first token with these bytes, 0: free; open addressing */
    uint32_t room;  /* a power of two, at least twice the tokens */
};

/* FNV-1a; the table is for lookups only, nothing is judged by it. */
static uint32_t spread(const uint8_t *p, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 16777619u;
    return h ^ (h >> 15);
}

static int same(const import_ids *m, int32_t id, const void *bytes, size_t n) {
    size_t length = 0;
    const uint8_t *own = import_ids_bytes(m, id, &length);
    return length == n && (n == 0 || memcmp(own, bytes, n) == 0);
}

static enum status fill(import_ids *m, struct err *err) {
    uint32_t n = (uint32_t)vocab_size(m->words);
    for (m->room = 1024; m->room < 2 * n;) m->room *= 2;
    m->slots = calloc(m->room, sizeof *m->slots);
    if (m->slots == NULL) return err_set(err, STATUS_NOMEM, "tokenizer: out of memory");
    for (uint32_t id = 0; id < n; id++) {
        size_t length = 0;
        const uint8_t *bytes = import_ids_bytes(m, (int32_t)id, &length);
        uint32_t at = spread(bytes, length) & (m->room - 1);
        while (m->slots[at] != 0) at = (at + 1) & (m->room - 1);
        m->slots[at] = (int32_t)id + 1;
    }
    return STATUS_OK;
}

enum status import_ids_open(const char *path, import_ids **out, struct err *err) {
    *out = NULL;
    import_ids *m = calloc(1, sizeof *m);
    if (m == NULL) return err_set(err, STATUS_NOMEM, "tokenizer: out of memory");
    enum status s = gguf_open(path, &m->file, err);
    if (s == STATUS_OK) {
        s = vocab_open(m->file, &m->words, err);
        if (s != STATUS_OK) s = err_prefix(err, s, "%s", path);
    }
    if (s == STATUS_OK) s = fill(m, err);
    if (s != STATUS_OK) {
        import_ids_close(m);
        return s;
    }
    *out = m;
    return STATUS_OK;
}

void import_ids_close(import_ids *m) {
    if (m == NULL) return;
    free(m->slots);
    if (m->words != NULL) vocab_close(m->words);
    gguf_close(m->file);
    free(m);
}

int32_t import_ids_size(const import_ids *m) {
    return vocab_size(m->words);
}

int32_t import_ids_find(const import_ids *m, const void *bytes, size_t n, int *shared) {
    int32_t found = -1;
    *shared = 0;
    for (uint32_t at = spread(bytes, n) & (m->room - 1); m->slots[at] != 0; at = (at + 1) & (m->room - 1)) {
        int32_t id = m->slots[at] - 1;
        if (!same(m, id, bytes, n)) continue;
        if (found < 0 || !import_ids_special(m, id)) found = id;
        ++*shared;
    }
    return found;
}

const uint8_t *import_ids_bytes(const import_ids *m, int32_t id, size_t *n) {
    const uint8_t *bytes = NULL;
    vocab_bytes(m->words, id, &bytes, n);
    return bytes;
}

int import_ids_special(const import_ids *m, int32_t id) {
    return vocab_is_special(m->words, id);
}

int import_ids_end(const import_ids *m, int32_t id) {
    return vocab_is_end(m->words, id);
}
