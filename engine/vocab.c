/* vocab.c - see vocab.h. Opening, the accessors, and the split of a text at the special tokens written out in it.
 * Not the merging: plain text between special tokens goes to vocab_bpe.c or vocab_spm.c.
 * Idea: specials are found left to right, the longest first at each place, before any pattern or merge sees the text.
 * Source: ours. Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int string_is(struct gguf_string s, const char *text) {
    return s.length == strlen(text) && memcmp(s.data, text, strlen(text)) == 0;
}

/* The family, and what it does unless the file says otherwise. */
static enum status open_family(struct vocab *v, const gguf *g, struct err *err) {
    struct gguf_string model = {NULL, 0}, pre = {"(none)", 6};
    RETURN_IF_ERROR(gguf_get_string(g, "tokenizer.ggml.model", &model, err));
    v->bos = v->eos = -1;
    if (string_is(model, "llama")) {
        v->kind = VOCAB_SPM;
        v->pre_name = "spm";
        v->add_bos = v->space_prefix = 1;
        if (v->n > 2) { /* SentencePiece's own numbers */
            v->bos = 1;
            v->eos = 2;
        }
        return STATUS_OK;
    }
    if (!string_is(model, "gpt2"))
        return err_set(err, STATUS_UNSUPPORTED,
                       "tokenizer.ggml.model '%.*s' is not handled (gpt2 and llama are)",
                       (int)(model.length < 64 ? model.length : 64), model.data);
    v->kind = VOCAB_BPE;
    if (gguf_key_find(g, "tokenizer.ggml.pre") >= 0)
        RETURN_IF_ERROR(gguf_get_string(g, "tokenizer.ggml.pre", &pre, err));
    return vocab_pre_open(v, pre.data, (size_t)pre.length, err);
}

static enum status load(struct vocab *v, const gguf *g, struct err *err) {
    RETURN_IF_ERROR(vocab_load_tokens(v, g, err));
    RETURN_IF_ERROR(open_family(v, g, err));
    RETURN_IF_ERROR(vocab_load_special(v, g, err));
    return v->kind == VOCAB_BPE ? bpe_load(v, g, err) : spm_load(v, g, err);
}

enum status vocab_open(const gguf *g, vocab **out, struct err *err) {
    *out = NULL;
    struct vocab *v = calloc(1, sizeof *v);
    if (v == NULL) return err_set(err, STATUS_NOMEM, "no memory for a vocabulary");
    enum status s = load(v, g, err);
    if (s != STATUS_OK) {
        vocab_close(v);
        return s;
    }
    *out = v;
    return STATUS_OK;
}

void vocab_close(vocab *v) {
    if (v == NULL) return;
    pcre2_code_free(v->pattern);
    free(v->type);
    free(v->is_end);
    free(v->text.data);
    free(v->text.at);
    free(v->bytes.data);
    free(v->bytes.at);
    free(v->map.slots);
    free(v->merged);
    free(v->pairs.keys);
    free(v->pairs.values);
    free(v->order);
    free(v->special);
    free(v);
}

int32_t vocab_size(const vocab *v) {
    return v->n;
}

int32_t vocab_bos(const vocab *v) {
    return v->bos;
}

int32_t vocab_eos(const vocab *v) {
    return v->eos;
}

int vocab_is_end(const vocab *v, int32_t id) {
    return id >= 0 && id < v->n && v->is_end[id];
}

const char *vocab_pre_name(const vocab *v) {
    return v->pre_name;
}

void vocab_bytes(const vocab *v, int32_t id, const uint8_t **bytes, size_t *length) {
    assert(id >= 0 && id < v->n);
    *bytes = v->bytes.data + v->bytes.at[id];
    *length = v->bytes.at[id + 1] - v->bytes.at[id];
}

int vocab_is_special(const vocab *v, int32_t id) {
    return id >= 0 && id < v->n && (v->type[id] == TOKEN_CONTROL || v->type[id] == TOKEN_UNKNOWN);
}

enum status id_list_push(struct id_list *list, int32_t id, struct err *err) {
    if (list->n == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        int32_t *grown = realloc(list->ids, capacity * sizeof *grown);
        if (grown == NULL) return err_set(err, STATUS_NOMEM, "no memory for %zu token ids", capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
    return STATUS_OK;
}

/* The special token written at text, -1 when there is none. User-defined tokens count always, the others on demand. */
static int32_t special_at(const struct vocab *v, const uint8_t *text, size_t left, int parse_special) {
    for (uint32_t i = v->special_first[text[0]]; i < v->special_first[text[0] + 1]; i++) {
        int32_t id = v->special[i];
        if (!parse_special && v->type[id] != TOKEN_USER_DEFINED) continue;
        size_t length = v->text.at[id + 1] - v->text.at[id];
        if (length <= left && memcmp(v->text.data + v->text.at[id], text, length) == 0) return id;
    }
    return -1;
}

/* Text that starts the input or follows a special token; SPM puts a space before both. */
static enum status encode_plain(struct encoder *e, const uint8_t *text, size_t length, struct err *err) {
    if (length == 0) return STATUS_OK;
    return e->v->kind == VOCAB_BPE ? bpe_encode(e, text, length, err) : spm_encode(e, text, length, err);
}

static enum status encode(struct encoder *e, size_t length, int add_bos, int parse_special, struct err *err) {
    const struct vocab *v = e->v;
    const uint8_t *text = e->origin;
    if (add_bos && v->add_bos) RETURN_IF_ERROR(id_list_push(&e->out, v->bos, err));
    size_t from = 0;
    for (size_t at = 0; at < length;) {
        int32_t id = special_at(v, text + at, length - at, parse_special);
        if (id < 0) {
            at++;
            continue;
        }
        RETURN_IF_ERROR(encode_plain(e, text + from, at - from, err));
        RETURN_IF_ERROR(id_list_push(&e->out, id, err));
        at += v->text.at[id + 1] - v->text.at[id];
        from = at;
    }
    return from == length ? STATUS_OK : encode_plain(e, text + from, length - from, err);
}

enum status vocab_encode(const vocab *v, const char *text, size_t length, int add_bos, int parse_special,
                         int32_t **ids, size_t *n, struct err *err) {
    *ids = NULL;
    *n = 0;
    if (length > INT32_MAX / 4) /* symbols are numbered in 32 bits, and a space takes three bytes in SPM */
        return err_set(err, STATUS_LIMIT, "a text of %zu bytes is too long to encode at once", length);
    struct encoder e = {.v = v, .origin = (const uint8_t *)text};
    e.scratch = malloc(v->text_max + 2);
    if (e.scratch == NULL) return err_set(err, STATUS_NOMEM, "no memory to encode");
    enum status s = encode(&e, length, add_bos, parse_special, err);
    merge_free(&e.work);
    free(e.scratch);
    if (s != STATUS_OK) {
        free(e.out.ids);
        return s;
    }
    *ids = e.out.ids;
    *n = e.out.n;
    return STATUS_OK;
}
