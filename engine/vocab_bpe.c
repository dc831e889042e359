/* vocab_bpe.c - byte-level BPE: the GPT-2 byte alphabet, the merge table, and encoding of a text without specials.
 * Not a trainer, and no dropout: merges apply by rank, the leftmost first among equals.
 * Idea: the file spells bytes as printable characters; that is undone once at open, so that encoding works on bytes and
 * ids alone. A byte for which the vocabulary has no token is refused by name, because dropping it would lose it.
 * Source: Radford et al. 2019 sec. 2.2; Sennrich et al. 2016. Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <stdlib.h>
#include <string.h>

#define ALPHABET_END 0x144 /* one past the last character of the byte alphabet */

/* 0x21..0x7e, 0xa1..0xac and 0xae..0xff are their own characters; the other 68 bytes follow from U+0100 on. */
static int byte_is_printable(unsigned b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

static void alphabet_init(uint16_t to_char[256], int16_t to_byte[ALPHABET_END]) {
    for (size_t c = 0; c < ALPHABET_END; c++) to_byte[c] = -1;
    uint16_t next = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        to_char[b] = byte_is_printable(b) ? (uint16_t)b : next++;
        to_byte[to_char[b]] = (int16_t)b;
    }
}

/* Writes c (below 0x800) as UTF-8; returns the bytes written. */
static size_t put_char(uint8_t *out, uint16_t c) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    out[0] = (uint8_t)(0xc0 | c >> 6);
    out[1] = (uint8_t)(0x80 | (c & 0x3f));
    return 2;
}

/* Undoes the alphabet; returns the bytes written, or -1 when a character is not of the alphabet. */
static ptrdiff_t decode(const int16_t to_byte[ALPHABET_END], const uint8_t *text, size_t length,
                        uint8_t *out) {
    ptrdiff_t n = 0;
    for (size_t i = 0; i < length;) {
        size_t step = utf8_length(text + i, length - i);
        unsigned c = step == 1   ? text[i]
                     : step == 2 ? (text[i] & 0x1fu) << 6 | (text[i + 1] & 0x3fu)
                                 : ALPHABET_END;
        if (c >= ALPHABET_END || to_byte[c] < 0) return -1;
        out[n++] = (uint8_t)to_byte[c];
        i += step;
    }
    return n;
}

/* Specials, user-defined tokens and anything not spelled in the alphabet stand for their literal text. */
static enum status load_bytes(struct vocab *v, const int16_t to_byte[ALPHABET_END], struct err *err) {
    v->bytes.data = malloc(v->text.at[v->n] + 1); /* decoding never lengthens */
    v->bytes.at = malloc(((size_t)v->n + 1) * sizeof *v->bytes.at);
    if (v->bytes.data == NULL || v->bytes.at == NULL)
        return err_set(err, STATUS_NOMEM, "no memory for the bytes of %d tokens", (int)v->n);
    size_t at = 0;
    for (int32_t id = 0; id < v->n; id++) {
        const uint8_t *text = v->text.data + v->text.at[id];
        size_t length = v->text.at[id + 1] - v->text.at[id];
        v->bytes.at[id] = at;
        ptrdiff_t n = v->type[id] == TOKEN_NORMAL ? decode(to_byte, text, length, v->bytes.data + at) : -1;
        if (n < 0) memcpy(v->bytes.data + at, text, length);
        at += n < 0 ? length : (size_t)n;
    }
    v->bytes.at[v->n] = at;
    return STATUS_OK;
}

/* "left right": the first space after the first character parts them (the alphabet has no space). */
static enum status load_merge(struct vocab *v, struct gguf_string s, int32_t rank, uint8_t *joined,
                              struct err *err) {
    const uint8_t *text = (const uint8_t *)s.data;
    const uint8_t *space =
        s.length < 3 || s.length - 1 > 2 * v->text_max ? NULL : memchr(text + 1, ' ', (size_t)s.length - 1);
    int32_t left = -1, right = -1, whole = -1;
    if (space != NULL) {
        size_t n_left = (size_t)(space - text), n_right = (size_t)s.length - n_left - 1;
        memcpy(joined, text, n_left);
        memcpy(joined + n_left, space + 1, n_right);
        left = text_map_find(v, text, n_left);
        right = text_map_find(v, space + 1, n_right);
        whole = text_map_find(v, joined, n_left + n_right);
    }
    if (left < 0 || right < 0 || whole < 0)
        return err_set(err, STATUS_FORMAT,
                       "tokenizer.ggml.merges[%d] '%.*s' does not join two tokens into a third", (int)rank,
                       (int)(s.length < 64 ? s.length : 64), s.data);
    v->merged[rank] = whole;
    pair_map_put(&v->pairs, left, right, rank);
    return STATUS_OK;
}

static enum status load_merges(struct vocab *v, const gguf *g, struct err *err) {
    uint64_t n = 0;
    RETURN_IF_ERROR(gguf_array_length(g, "tokenizer.ggml.merges", GGUF_STRING, &n, err));
    if (n > INT32_MAX / 4) return err_set(err, STATUS_LIMIT, "tokenizer.ggml.merges is too long");
    int64_t key = gguf_key_find(g, "tokenizer.ggml.merges");
    RETURN_IF_ERROR(pair_map_init(&v->pairs, (size_t)n, err));
    v->merged = malloc(((size_t)n + 1) * sizeof *v->merged);
    uint8_t *joined = malloc(2 * v->text_max + 1);
    enum status s = STATUS_OK;
    if (v->merged == NULL || joined == NULL)
        s = err_set(err, STATUS_NOMEM, "no memory for %llu merges", (unsigned long long)n);
    for (uint64_t i = 0; i < n && s == STATUS_OK; i++)
        s = load_merge(v, gguf_array_string(g, key, i), (int32_t)i, joined, err);
    free(joined);
    return s;
}

enum status bpe_load(struct vocab *v, const gguf *g, struct err *err) {
    int16_t to_byte[ALPHABET_END];
    alphabet_init(v->byte_char, to_byte);
    RETURN_IF_ERROR(load_bytes(v, to_byte, err));
    for (size_t b = 0; b < 256; b++) {
        uint8_t spelled[2];
        v->byte_id[b] = text_map_find(v, spelled, put_char(spelled, v->byte_char[b]));
    }
    return load_merges(v, g, err);
}

static int bpe_rule(const struct vocab *v, const struct symbol *left, const struct symbol *right,
                    uint32_t *order, int32_t *token) {
    int32_t rank = pair_map_get(&v->pairs, left->id, right->id);
    if (rank < 0) return 0;
    *order = (uint32_t)rank;
    *token = v->merged[rank];
    return 1;
}

/* The id of the piece as a whole, -1 when it is no token. The piece is compared in the file's spelling. */
static int32_t whole_piece(const struct encoder *e, const uint8_t *piece, size_t length) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (n >= e->v->text_max) return -1;
        n += put_char(e->scratch + n, e->v->byte_char[piece[i]]);
    }
    return text_map_find(e->v, e->scratch, n);
}

static enum status bpe_piece(void *context, const uint8_t *piece, size_t length, struct err *err) {
    struct encoder *e = context;
    const struct vocab *v = e->v;
    if (v->ignore_merges) {
        int32_t id = whole_piece(e, piece, length);
        if (id >= 0) return id_list_push(&e->out, id, err);
    }
    struct merge_work *w = &e->work;
    w->n_symbols = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t id = v->byte_id[piece[i]];
        if (id < 0)
            return err_set(err, STATUS_INVALID, "the vocabulary has no token for byte 0x%02x (at offset %zu)",
                           piece[i], (size_t)(piece - e->origin) + i);
        RETURN_IF_ERROR(merge_push_symbol(w, piece + i, 1, id, err));
    }
    RETURN_IF_ERROR(merge_run(v, w, bpe_rule, err));
    for (int32_t i = 0; i >= 0; i = w->symbols[i].next)
        RETURN_IF_ERROR(id_list_push(&e->out, w->symbols[i].id, err));
    return STATUS_OK;
}

enum status bpe_encode(struct encoder *e, const uint8_t *text, size_t length, struct err *err) {
    return vocab_pre_split(e->v, text, length, bpe_piece, e, err);
}
