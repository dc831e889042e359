/* make_vocab.c - the vocabulary of a synthetic model (see make_plan.h).
 * Not trained: 256 byte tokens, fourteen merges, one end token, padding; any text can be encoded.
 * Idea: the byte-level alphabet of GPT-2: printable bytes stand for themselves, the others for U+0100 and up.
 * Source: GPT-2's byte-to-unicode table. Exercise: ctest -R unit.make_model */
#include "make_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES 24

enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };

/* Pairs in merge order; both halves exist before the pair does. "\xc4\xa0" is the space. */
static const char *const merges[] = {"\xc4\xa0 t", "h e",          "i n", "\xc4\xa0 a", "r e",
                                     "o n",        "\xc4\xa0t he", "e r", "\xc4\xa0 s", "a t",
                                     "e n",        "\xc4\xa0 o",   "i s", "a n"};
#define N_MERGES (int)(sizeof merges / sizeof merges[0])
#define N_REAL   (256 + N_MERGES + 1)

static int is_printable(int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void put_utf8(int code, char out[TOKEN_BYTES]) {
    if (code < 0x80) {
        (void)snprintf(out, TOKEN_BYTES, "%c", code);
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        out[2] = '\0';
    }
}

/* Token i of the byte alphabet: the printable bytes in order, then the others as U+0100, U+0101, .. */
static int alphabet_code(int i) {
    int seen = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (!is_printable(byte)) continue;
        if (seen++ == i) return byte;
    }
    return 0x100 + (i - seen);
}

static int32_t make_token(int i, char out[TOKEN_BYTES]) {
    if (i < 256) {
        put_utf8(alphabet_code(i), out);
        return TOKEN_NORMAL;
    }
    if (i < 256 + N_MERGES) {
        const char *pair = merges[i - 256], *space = strchr(pair, ' ');
        (void)snprintf(out, TOKEN_BYTES, "%.*s%s", (int)(space - pair), pair, space + 1);
        return TOKEN_NORMAL;
    }
    if (i == N_REAL - 1) {
        (void)snprintf(out, TOKEN_BYTES, "<|endoftext|>");
        return TOKEN_CONTROL;
    }
    (void)snprintf(out, TOKEN_BYTES, "[PAD%d]", i);
    return TOKEN_UNUSED;
}

enum status vocab_put(gguf_writer *w, int n, const char *pre, struct err *err) {
    if (n < N_REAL)
        return err_set(err, STATUS_USAGE, "a vocabulary of %d ids; at least %d are needed", n, N_REAL);
    char(*text)[TOKEN_BYTES] = malloc((size_t)n * sizeof *text);
    struct gguf_string *items = malloc((size_t)n * sizeof *items);
    int32_t *types = malloc((size_t)n * sizeof *types);
    enum status s = STATUS_OK;
    if (text == NULL || items == NULL || types == NULL) {
        s = err_set(err, STATUS_NOMEM, "no memory for the vocabulary");
    } else {
        for (int i = 0; i < n; i++) {
            types[i] = make_token(i, text[i]);
            items[i].data = text[i];
            items[i].length = strlen(text[i]);
        }
        struct gguf_string pairs[N_MERGES];
        for (int i = 0; i < N_MERGES; i++) {
            pairs[i].data = merges[i];
            pairs[i].length = strlen(merges[i]);
        }
        gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
        gguf_put_string(w, "tokenizer.ggml.pre", pre);
        gguf_put_strings(w, "tokenizer.ggml.tokens", items, (uint64_t)n);
        gguf_put_i32s(w, "tokenizer.ggml.token_type", types, (uint64_t)n);
        gguf_put_strings(w, "tokenizer.ggml.merges", pairs, (uint64_t)N_MERGES);
        gguf_put_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)N_REAL - 1);
        gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)N_REAL - 1);
        gguf_put_bool(w, "tokenizer.ggml.add_bos_token", 0);
    }
    free(text);
    free(items);
    free(types);
    return s;
}
