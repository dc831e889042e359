/* test_vocab_open.c - vocabularies built by hand: what is refused and by which name, and how specials are found. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "engine/vocab.h"
#include "tests/gguf_bytes.h"

/* "1 2 3" against ids. */
static int ids_equal(const char *want, const int32_t *ids, size_t n) {
    size_t i = 0;
    while (*want != '\0') {
        char *end;
        long id = strtol(want, &end, 10);
        if (end == want || i == n || ids[i] != id) return 0;
        i++;
        want = end;
    }
    return i == n;
}

/* A GGUF with three letters, "ab", two user-defined tokens of which one begins the other, and a control token. */
struct recipe {
    char model[16], pre[16];
    int merges, types, scores, bos; /* types, scores: entries; bos: -1 no key */
    char merge[8];
    int want;
    char says[40];
};

static void put_array(struct bytes *b, const char *name, uint32_t type, const void *words, size_t n) {
    put_key_array(b, name, type, n);
    put_raw(b, words, n * 4);
}

static struct bytes build(const struct recipe *r) {
    static const char *const tokens[] = {"a", "b", "c", "ab", "<u>", "<|c|>", "<u>!"};
    static const int32_t types[] = {1, 1, 1, 1, 4, 3, 4, 1};
    static const float scores[] = {0, 0, 0, -1, 0, 0, 0, 0};
    int n_keys = 1 + (r->model[0] != '\0') + (r->pre[0] != '\0') + (r->types > 0) + (r->scores > 0) +
                 r->merges + (r->bos >= 0);
    struct bytes b = start_gguf(0, (uint64_t)n_keys);
    if (r->model[0] != '\0') put_key_string(&b, "tokenizer.ggml.model", r->model);
    if (r->pre[0] != '\0') put_key_string(&b, "tokenizer.ggml.pre", r->pre);
    put_key_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, sizeof tokens / sizeof tokens[0]);
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) put_str(&b, tokens[i]);
    if (r->types > 0) put_array(&b, "tokenizer.ggml.token_type", GGUF_I32, types, (size_t)r->types);
    if (r->scores > 0) put_array(&b, "tokenizer.ggml.scores", GGUF_F32, scores, (size_t)r->scores);
    if (r->merges) {
        put_key_array(&b, "tokenizer.ggml.merges", GGUF_STRING, 1);
        put_str(&b, r->merge);
    }
    if (r->bos >= 0) put_key(&b, "tokenizer.ggml.bos_token_id", GGUF_U32, (uint64_t)r->bos, 4);
    return b;
}

Test(vocab_open, what_is_not_handled_is_refused_by_name) {
    static const struct recipe rows[] = {
        {"bert", "gpt-2", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'bert'"},
        {"t5", "gpt-2", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'t5'"},
        {"rwkv", "", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'rwkv'"},
        {"", "gpt-2", 1, 7, 0, -1, "a b", STATUS_FORMAT, "tokenizer.ggml.model"},
        {"gpt2", "tekken", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'tekken'"},
        {"gpt2", "gpt-20", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'gpt-20'"},
        {"gpt2", "", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'(none)'"},
        {"gpt2", "gpt-2", 0, 7, 0, -1, "a b", STATUS_FORMAT, "tokenizer.ggml.merges"},
        {"gpt2", "gpt-2", 1, 7, 0, -1, "a c", STATUS_FORMAT, "merges[0] 'a c'"},
        {"gpt2", "gpt-2", 1, 7, 0, -1, "ab", STATUS_FORMAT, "merges[0] 'ab'"},
        {"gpt2", "gpt-2", 1, 7, 0, -1, "", STATUS_FORMAT, "merges[0]"},
        {"gpt2", "gpt-2", 1, 6, 0, -1, "a b", STATUS_FORMAT, "token_type has 6"},
        {"gpt2", "gpt-2", 1, 8, 0, -1, "a b", STATUS_FORMAT, "token_type has 8"},
        {"gpt2", "gpt-2", 1, 7, 0, 7, "a b", STATUS_FORMAT, "bos_token_id is 7"},
        {"gpt2", "llama-bpe", 1, 7, 0, -1, "a b", STATUS_FORMAT, "wants a BOS token"},
        {"llama", "", 0, 7, 7, 0, "", STATUS_UNSUPPORTED, "byte token <0x00>"},
        {"gpt2", "gpt-2", 1, 7, 0, 5, "a b", STATUS_OK, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bytes b = build(&rows[i]);
        gguf *g = NULL;
        vocab *v = NULL;
        struct err err = {""};
        cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK, "row %zu: %s", i, err.message);
        cr_assert_eq((int)vocab_open(g, &v, &err), rows[i].want, "row %zu: %s", i, err.message);
        cr_assert(strstr(err.message, rows[i].says) != NULL, "row %zu says: %s", i, err.message);
        cr_assert_eq(v == NULL, rows[i].want != STATUS_OK, "row %zu", i);
        vocab_close(v);
        gguf_close(g);
        free(b.p);
    }
}

Test(vocab_open, user_defined_tokens_count_always_and_control_tokens_on_demand) {
    static const struct recipe recipe = {"gpt2", "gpt-2", 1, 7, 0, 5, "a b", STATUS_OK, ""};
    struct bytes b = build(&recipe);
    gguf *g;
    vocab *v;
    struct err err = {""};
    cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(vocab_open(g, &v, &err), STATUS_OK, "%s", err.message);
    int32_t *ids;
    size_t n;
    cr_assert_eq(vocab_encode(v, "ab<u>c<|c|>a", 12, 0, 1, &ids, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert(ids_equal("3 4 2 5 0", ids, n), "specials on");
    free(ids);
    cr_assert_eq(vocab_encode(v, "b<u><u>!", 8, 0, 0, &ids, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert(ids_equal("1 4 6", ids, n), "user-defined tokens with specials off, the longest first");
    free(ids);
    cr_assert_eq(vocab_encode(v, "ba<|c|>", 7, 0, 0, &ids, &n, &err), STATUS_INVALID,
                 "the control token was found");
    cr_assert_str_eq(err.message, "the vocabulary has no token for byte 0x3c (at offset 2)");
    cr_assert(ids == NULL && n == 0, "ids after a refusal");
    cr_assert_eq(vocab_encode(v, "", 0, 1, 1, &ids, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(n, 0, "an empty text has %zu ids", n);
    free(ids);
    vocab_close(v);
    gguf_close(g);
    free(b.p);
}
