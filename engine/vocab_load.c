/* vocab_load.c - reads what both families share from the file: token texts, types, special ids, the search lists.
 * Not trusting: every count and id is checked against the others before it is used.
 * Idea: a special token is looked for only at positions that hold its first byte, longest text first.
 * Source: the tokenizer.ggml.* keys of the GGUF specification. Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX (INT32_MAX / 4) /* keeps every table size in 32 bits */

static enum status load_text(struct vocab *v, const gguf *g, int64_t key, struct err *err) {
    size_t total = 0;
    for (int32_t id = 0; id < v->n; id++) total += (size_t)gguf_array_string(g, key, (uint64_t)id).length;
    v->text.data = malloc(total + 1);
    v->text.at = malloc(((size_t)v->n + 1) * sizeof *v->text.at);
    if (v->text.data == NULL || v->text.at == NULL)
        return err_set(err, STATUS_NOMEM, "no memory for the texts of %d tokens", (int)v->n);
    size_t at = 0;
    for (int32_t id = 0; id < v->n; id++) {
        struct gguf_string s = gguf_array_string(g, key, (uint64_t)id);
        v->text.at[id] = at;
        if (s.length > 0) memcpy(v->text.data + at, s.data, (size_t)s.length);
        at += (size_t)s.length;
        if (s.length > v->text_max) v->text_max = (size_t)s.length;
    }
    v->text.at[v->n] = at;
    return STATUS_OK;
}

static enum status load_types(struct vocab *v, const gguf *g, struct err *err) {
    v->type = malloc((size_t)v->n);
    v->is_end = calloc((size_t)v->n, 1);
    if (v->type == NULL || v->is_end == NULL)
        return err_set(err, STATUS_NOMEM, "no memory for the types of %d tokens", (int)v->n);
    memset(v->type, TOKEN_NORMAL, (size_t)v->n);
    int64_t key = gguf_key_find(g, "tokenizer.ggml.token_type");
    if (key < 0) return STATUS_OK;
    uint64_t n = 0;
    RETURN_IF_ERROR(gguf_array_length(g, "tokenizer.ggml.token_type", GGUF_I32, &n, err));
    if (n != (uint64_t)v->n)
        return err_set(err, STATUS_FORMAT, "tokenizer.ggml.token_type has %llu entries for %d tokens",
                       (unsigned long long)n, (int)v->n);
    for (int32_t id = 0; id < v->n; id++) {
        int64_t type = gguf_array_int(g, key, (uint64_t)id);
        if (type >= TOKEN_NORMAL && type <= TOKEN_BYTE) v->type[id] = (uint8_t)type;
    }
    return STATUS_OK;
}

enum status vocab_load_tokens(struct vocab *v, const gguf *g, struct err *err) {
    uint64_t n = 0;
    RETURN_IF_ERROR(gguf_array_length(g, "tokenizer.ggml.tokens", GGUF_STRING, &n, err));
    if (n < 1 || n > TOKENS_MAX)
        return err_set(err, STATUS_FORMAT, "tokenizer.ggml.tokens has %llu entries", (unsigned long long)n);
    v->n = (int32_t)n;
    RETURN_IF_ERROR(load_text(v, g, gguf_key_find(g, "tokenizer.ggml.tokens"), err));
    RETURN_IF_ERROR(load_types(v, g, err));
    return text_map_build(v, err);
}

/* Reads an optional id; *id keeps its value when the key is absent. */
static enum status load_id(const struct vocab *v, const gguf *g, const char *key, int32_t *id,
                           struct err *err) {
    if (gguf_key_find(g, key) < 0) return STATUS_OK;
    uint32_t value = 0;
    RETURN_IF_ERROR(gguf_get_u32(g, key, &value, err));
    if (value >= (uint32_t)v->n)
        return err_set(err, STATUS_FORMAT, "%s is %u, outside the vocabulary of %d tokens", key, value,
                       (int)v->n);
    *id = (int32_t)value;
    return STATUS_OK;
}

/* Files rarely name every token that ends a turn, so those of the handled families are known by their text too. */
static enum status load_ends(struct vocab *v, const gguf *g, struct err *err) {
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "<|eot_id|>",    "<|eom_id|>",
                                        "<|im_end|>",    "<|end|>",         "<end_of_turn>", "<EOT>"};
    if (v->eos >= 0) v->is_end[v->eos] = 1;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int32_t id = -1;
        RETURN_IF_ERROR(load_id(v, g, keys[i], &id, err));
        if (id >= 0) v->is_end[id] = 1;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t id = text_map_find(v, (const uint8_t *)names[i], strlen(names[i]));
        if (id < 0) continue;
        v->is_end[id] = 1;
        v->type[id] = TOKEN_CONTROL; /* some files call it normal text */
    }
    return STATUS_OK;
}

static int is_searched(const struct vocab *v, int32_t id) {
    int type = v->type[id];
    return (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED) &&
           v->text.at[id + 1] > v->text.at[id];
}

struct searched {
    size_t length;
    int32_t id;
    uint8_t first;
};

static int by_first_then_longest(const void *a, const void *b) {
    const struct searched *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static enum status index_special(struct vocab *v, struct err *err) {
    size_t n = 0;
    for (int32_t id = 0; id < v->n; id++) n += (size_t)is_searched(v, id);
    struct searched *list = malloc((n + 1) * sizeof *list);
    v->special = malloc((n + 1) * sizeof *v->special);
    if (list == NULL || v->special == NULL) {
        free(list);
        return err_set(err, STATUS_NOMEM, "no memory for %zu special tokens", n);
    }
    n = 0;
    for (int32_t id = 0; id < v->n; id++) {
        if (!is_searched(v, id)) continue;
        size_t at = v->text.at[id];
        list[n++] = (struct searched){.length = v->text.at[id + 1] - at, .id = id, .first = v->text.data[at]};
    }
    qsort(list, n, sizeof *list, by_first_then_longest);
    for (size_t i = 0; i < n; i++) {
        v->special[i] = list[i].id;
        v->special_first[list[i].first + 1]++;
    }
    for (size_t b = 0; b < 256; b++) v->special_first[b + 1] += v->special_first[b];
    free(list);
    return STATUS_OK;
}

enum status vocab_load_special(struct vocab *v, const gguf *g, struct err *err) {
    RETURN_IF_ERROR(load_id(v, g, "tokenizer.ggml.bos_token_id", &v->bos, err));
    RETURN_IF_ERROR(load_id(v, g, "tokenizer.ggml.eos_token_id", &v->eos, err));
    if (gguf_key_find(g, "tokenizer.ggml.add_bos_token") >= 0)
        RETURN_IF_ERROR(gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, err));
    if (v->add_bos && v->bos < 0)
        return err_set(err, STATUS_FORMAT, "the vocabulary wants a BOS token and names none");
    RETURN_IF_ERROR(load_ends(v, g, err));
    return index_special(v, err);
}
