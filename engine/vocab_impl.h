/* vocab_impl.h - what the files of the tokenizer share. Private: nothing outside engine/vocab*.c includes it.
 * Not an interface for callers (that is vocab.h).
 * Idea: tokens are looked up by their text as the file spells it; merging is one engine for both families, and only the
 * rule that proposes a merge differs (a table of ranks for BPE, the score of the joined text for SPM).
 * Source: ours. Exercise: ctest -R unit.vocab */
#ifndef FORKGATE_VOCAB_IMPL_H
#define FORKGATE_VOCAB_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "vocab.h"

enum vocab_kind { VOCAB_BPE, VOCAB_SPM };

/* tokenizer.ggml.token_type; anything else reads as NORMAL. */
enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

/* Open addressing, linear probing, at most half full; slot 0 is free, otherwise id + 1. */
struct text_map {
    uint32_t *slots; /* [mask + 1] */
    uint32_t mask;
};

/* (left id << 32 | right id) + 1 -> merge index; key 0 is free. */
struct pair_map {
    uint64_t *keys;  /* [mask + 1] */
    int32_t *values; /* [mask + 1] */
    uint32_t mask;
};

/* Many short byte strings in one allocation: string i is data[at[i] .. at[i + 1]). */
struct byte_pool {
    uint8_t *data;
    size_t *at; /* [n + 1] */
};

struct vocab {
    enum vocab_kind kind;
    const char *pre_name;
    pcre2_code *pattern; /* BPE only */
    int32_t n;           /* tokens */
    int32_t bos, eos;    /* -1: none */
    int add_bos;
    int space_prefix;  /* SPM: a space goes before text that starts the input or follows a special token */
    int ignore_merges; /* BPE: a piece that is a token as a whole is not merged up from bytes */

    uint8_t *type;          /* [n] enum token_type */
    uint8_t *is_end;        /* [n] */
    struct byte_pool text;  /* [n] as the file spells it */
    struct byte_pool bytes; /* [n] what the token stands for */
    size_t text_max;        /* longest text */
    struct text_map map;    /* text -> id */
    int32_t byte_id[256];   /* the token of one byte, -1: none */

    uint16_t byte_char[256]; /* BPE: the character that spells a byte in the file */
    int32_t *merged;         /* BPE [n_merges] id of the joined token, by rank */
    struct pair_map pairs;   /* BPE (left, right) -> rank */
    uint32_t *order;         /* SPM [n] dense rank of the score: 0 is merged first */

    int32_t
        *special; /* [special_first[256]] ids that are looked for in the text, longest first per first byte */
    uint32_t special_first[257]; /* by first byte */
};

/* vocab_table.c */
enum status text_map_build(struct vocab *v, struct err *err);
int32_t text_map_find(const struct vocab *v, const uint8_t *text, size_t length); /* -1: not a token */
enum status pair_map_init(struct pair_map *m, size_t n, struct err *err);
void pair_map_put(struct pair_map *m, int32_t left, int32_t right, int32_t value); /* the first value stays */
int32_t pair_map_get(const struct pair_map *m, int32_t left, int32_t right);       /* -1: absent */

/* vocab_load.c: everything both families share: tokens, types, ids of special tokens, the search lists. */
enum status vocab_load_tokens(struct vocab *v, const gguf *g, struct err *err);
enum status vocab_load_special(struct vocab *v, const gguf *g, struct err *err);

/* A growing list of ids. */
struct id_list {
    int32_t *ids;
    size_t n, capacity;
};
enum status id_list_push(struct id_list *list, int32_t id, struct err *err);

/* vocab_merge.c: repeatedly joins the neighbouring pair of lowest order (leftmost on a tie). */
struct symbol {
    const uint8_t *text;
    int32_t prev, next; /* -1: none */
    uint32_t length;    /* 0: absorbed by its left neighbour */
    int32_t id;         /* a token; -1: the text is none, but may become part of one; SYMBOL_ALONE */
};
#define SYMBOL_ALONE (-2) /* never merged: its bytes are spelled out */

struct merge_entry {
    uint64_t key; /* order << 32 | left symbol */
    uint32_t length;
    int32_t token;
};
struct merge_work {
    struct symbol *symbols;
    size_t n_symbols, symbols_capacity;
    struct merge_entry *heap;
    size_t n_heap, heap_capacity;
};
typedef int (*merge_rule)(const struct vocab *v, const struct symbol *left, const struct symbol *right,
                          uint32_t *order, int32_t *token);
enum status merge_push_symbol(struct merge_work *w, const uint8_t *text, size_t length, int32_t id,
                              struct err *err);
enum status merge_run(const struct vocab *v, struct merge_work *w, merge_rule rule, struct err *err);
void merge_free(struct merge_work *w);

/* vocab_pre.c: pieces of a text by the published pattern; the pieces follow each other without a gap. */
typedef enum status (*piece_fn)(void *context, const uint8_t *piece, size_t length, struct err *err);
enum status vocab_pre_open(struct vocab *v, const char *name, size_t name_length, struct err *err);
enum status vocab_pre_split(const struct vocab *v, const uint8_t *text, size_t length, piece_fn emit,
                            void *context, struct err *err);
/* Bytes of the well-formed UTF-8 character at text, 0 when there is none (left >= 1). */
size_t utf8_length(const uint8_t *text, size_t left);

/* One call of vocab_encode. */
struct encoder {
    const struct vocab *v;
    const uint8_t *origin; /* first byte of the whole input, for messages */
    struct merge_work work;
    struct id_list out;
    uint8_t *scratch; /* [text_max + 2] */
};

/* vocab_bpe.c, vocab_spm.c: the rest of opening (bytes, merges or scores), and encoding of text without specials. */
enum status bpe_load(struct vocab *v, const gguf *g, struct err *err);
enum status bpe_encode(struct encoder *e, const uint8_t *text, size_t length, struct err *err);
enum status spm_load(struct vocab *v, const gguf *g, struct err *err);
enum status spm_encode(struct encoder *e, const uint8_t *text, size_t length, struct err *err);

#endif
