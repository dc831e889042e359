/* vocab_spm.c - SentencePiece BPE ("llama"): merges driven by the score of the joined text, bytes as a fallback.
 * Not the unigram model, and no normaliser: the only change to the text is space -> U+2581 and the leading space.
 * Idea: scores become dense ranks once at open, so merging is the same engine as BPE. A character that is no token is
 * spelled by its byte tokens <0xXX>. A literal U+2581 is spelled by bytes too: as a space its bytes would be lost.
 * Source: Kudo & Richardson 2018 (SentencePiece). Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t space_mark[3] = {0xe2, 0x96, 0x81}; /* U+2581 */

static int is_space_mark(const uint8_t *text, size_t left) {
    return left >= sizeof space_mark && memcmp(text, space_mark, sizeof space_mark) == 0;
}

static enum status find_byte_tokens(struct vocab *v, struct err *err) {
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        int n = snprintf(name, sizeof name, "<0x%02X>", b);
        v->byte_id[b] = text_map_find(v, (const uint8_t *)name, (size_t)n);
        if (v->byte_id[b] < 0 || v->type[v->byte_id[b]] != TOKEN_BYTE)
            return err_set(err, STATUS_UNSUPPORTED,
                           "an SPM vocabulary without the byte token %s is not handled", name);
    }
    return STATUS_OK;
}

static size_t put_bytes(const struct vocab *v, int32_t id, uint8_t *out) {
    const uint8_t *text = v->text.data + v->text.at[id];
    size_t length = v->text.at[id + 1] - v->text.at[id], n = 0;
    for (unsigned b = 0; b < 256 && v->type[id] == TOKEN_BYTE; b++) {
        if (v->byte_id[b] != id) continue;
        out[0] = (uint8_t)b;
        return 1;
    }
    for (size_t i = 0; i < length;) {
        int space = v->type[id] == TOKEN_NORMAL && is_space_mark(text + i, length - i);
        out[n++] = space ? ' ' : text[i];
        i += space ? sizeof space_mark : 1;
    }
    return n;
}

/* A byte token stands for its byte, a normal one for its text with the mark as a space, any other for its text. */
static enum status load_bytes(struct vocab *v, struct err *err) {
    v->bytes.data = malloc(v->text.at[v->n] + 1); /* bytes are never more than the text */
    v->bytes.at = malloc(((size_t)v->n + 1) * sizeof *v->bytes.at);
    if (v->bytes.data == NULL || v->bytes.at == NULL)
        return err_set(err, STATUS_NOMEM, "no memory for the bytes of %d tokens", (int)v->n);
    size_t at = 0;
    for (int32_t id = 0; id < v->n; id++) {
        v->bytes.at[id] = at;
        at += put_bytes(v, id, v->bytes.data + at);
    }
    v->bytes.at[v->n] = at;
    return STATUS_OK;
}

struct scored {
    float score;
    int32_t id;
};

static int higher_score_first(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score > y->score) return -1;
    if (x->score < y->score) return 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Equal scores share a rank: among them the leftmost pair goes first, whichever token it makes. */
static enum status load_scores(struct vocab *v, const gguf *g, struct err *err) {
    uint64_t n = 0;
    RETURN_IF_ERROR(gguf_array_length(g, "tokenizer.ggml.scores", GGUF_F32, &n, err));
    if (n != (uint64_t)v->n)
        return err_set(err, STATUS_FORMAT, "tokenizer.ggml.scores has %llu entries for %d tokens",
                       (unsigned long long)n, (int)v->n);
    int64_t key = gguf_key_find(g, "tokenizer.ggml.scores");
    struct scored *list = malloc((size_t)n * sizeof *list);
    v->order = malloc((size_t)n * sizeof *v->order);
    if (list == NULL || v->order == NULL) {
        free(list);
        return err_set(err, STATUS_NOMEM, "no memory for the scores of %d tokens", (int)v->n);
    }
    for (int32_t id = 0; id < v->n; id++) {
        float score = gguf_array_f32(g, key, (uint64_t)id);
        if (!(score <= 0) && !(score > 0)) {
            free(list);
            return err_set(err, STATUS_FORMAT, "tokenizer.ggml.scores[%d] is not a number", (int)id);
        }
        list[id] = (struct scored){.score = score, .id = id};
    }
    qsort(list, (size_t)n, sizeof *list, higher_score_first);
    uint32_t rank = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        if (i > 0 && list[i - 1].score > list[i].score) rank++;
        v->order[list[i].id] = rank;
    }
    free(list);
    return STATUS_OK;
}

enum status spm_load(struct vocab *v, const gguf *g, struct err *err) {
    RETURN_IF_ERROR(find_byte_tokens(v, err));
    RETURN_IF_ERROR(load_bytes(v, err));
    RETURN_IF_ERROR(load_scores(v, g, err));
    if (gguf_key_find(g, "tokenizer.ggml.add_space_prefix") < 0) return STATUS_OK;
    return gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &v->space_prefix, err);
}

/* The token that plain text may become, or -1: control, unknown and byte tokens are never reached by merging. */
static int32_t plain_token(const struct vocab *v, const uint8_t *text, size_t length) {
    int32_t id = text_map_find(v, text, length);
    if (id < 0) return -1;
    int type = v->type[id];
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_BYTE ? -1 : id;
}

static int spm_rule(const struct vocab *v, const struct symbol *left, const struct symbol *right,
                    uint32_t *order, int32_t *token) {
    if (left->id == SYMBOL_ALONE || right->id == SYMBOL_ALONE) return 0;
    *token =
        plain_token(v, left->text, (size_t)left->length + right->length); /* neighbours lie side by side */
    if (*token < 0) return 0;
    *order = v->order[*token];
    return 1;
}

/* The symbols of text, copied to `marked` with each space as the mark. */
static enum status push_symbols(struct encoder *e, const uint8_t *text, size_t length, uint8_t *marked,
                                struct err *err) {
    size_t at = 0;
    for (size_t i = 0; i < length;) {
        size_t step = utf8_length(text + i, length - i), n = step == 0 ? 1 : step;
        int alone = step == 0 || is_space_mark(text + i, length - i);
        const uint8_t *source = text + i;
        i += n;
        if (*source == ' ') {
            source = space_mark;
            n = sizeof space_mark;
        }
        memcpy(marked + at, source, n);
        int32_t id = alone ? SYMBOL_ALONE : plain_token(e->v, marked + at, n);
        RETURN_IF_ERROR(merge_push_symbol(&e->work, marked + at, n, id, err));
        at += n;
    }
    return STATUS_OK;
}

static enum status push_ids(struct encoder *e, struct err *err) {
    const struct merge_work *w = &e->work;
    for (int32_t i = w->n_symbols > 0 ? 0 : -1; i >= 0; i = w->symbols[i].next) {
        const struct symbol *s = &w->symbols[i];
        if (s->id >= 0) {
            RETURN_IF_ERROR(id_list_push(&e->out, s->id, err));
            continue;
        }
        for (uint32_t k = 0; k < s->length; k++)
            RETURN_IF_ERROR(id_list_push(&e->out, e->v->byte_id[s->text[k]], err));
    }
    return STATUS_OK;
}

enum status spm_encode(struct encoder *e, const uint8_t *text, size_t length, struct err *err) {
    uint8_t *marked = malloc(sizeof space_mark * (length + 1));
    if (marked == NULL) return err_set(err, STATUS_NOMEM, "no memory for a text of %zu bytes", length);
    e->work.n_symbols = 0;
    enum status s = STATUS_OK;
    size_t shift = 0;
    if (e->v->space_prefix) {
        s = push_symbols(e, (const uint8_t *)" ", 1, marked, err);
        shift = sizeof space_mark;
    }
    if (s == STATUS_OK) s = push_symbols(e, text, length, marked + shift, err);
    if (s == STATUS_OK) s = merge_run(e->v, &e->work, spm_rule, err);
    if (s == STATUS_OK) s = push_ids(e, err);
    free(marked);
    return s;
}
