/* fuzz_vocab.c - libFuzzer entry: any bytes must encode, and the bytes of the ids must be the text again.
 * Not a comparison of ids (that is unit.vocab). The first byte picks the vocabulary and whether specials are parsed.
 * Idea: exactness is the property that needs no second implementation. SPM puts a space before a text; a text with a
 * byte that SmolLM2 has no token for must be refused and nothing else.
 * Source: ours. Exercise: fuzz_vocab -runs=1000000 -max_len=256 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define N_VOCABS 6
#define SPM      3
#define SMOLLM   4

static void fail(const char *what) {
    fprintf(stderr, "fuzz_vocab: %s\n", what);
    abort();
}

/* Opened once; the process ends with the fuzzer. */
static const vocab *vocab_number(size_t i) {
    static const char *const files[N_VOCABS] = {"tokens/gpt-2.gguf",     "tokens/qwen2.gguf",
                                                "tokens/llama-bpe.gguf", "tokens/llama-spm.gguf",
                                                "tokens/smollm.gguf",    "models/seedling-q8_0.gguf"};
    static gguf *opened[N_VOCABS];
    static vocab *vocabs[N_VOCABS];
    if (vocabs[i] == NULL) {
        char path[1024];
        struct err err = {""};
        snprintf(path, sizeof path, "%s/fixtures/%s", FORKGATE_SOURCE_DIR, files[i]);
        if (gguf_open(path, &opened[i], &err) != STATUS_OK ||
            vocab_open(opened[i], &vocabs[i], &err) != STATUS_OK)
            fail(err.message);
    }
    return vocabs[i];
}

static void check_bytes(const vocab *v, const int32_t *ids, size_t n, const uint8_t *text, size_t length,
                        int lead) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *bytes;
        size_t k;
        vocab_bytes(v, ids[i], &bytes, &k);
        if (i == 0 && lead) {
            if (k == 0 || bytes[0] != ' ') fail("SPM did not start with a space");
            bytes++;
            k--;
        }
        if (k > length - at || memcmp(text + at, bytes, k) != 0) fail("the ids stand for other bytes");
        at += k;
    }
    if (at != length) fail("bytes are missing at the end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    size_t which = data[0] % N_VOCABS;
    int special = data[0] >= 128;
    const vocab *v = vocab_number(which);
    const uint8_t *text = data + 1;
    size_t length = size - 1, n;
    int32_t *ids;
    struct err err = {""};
    enum status s = vocab_encode(v, (const char *)text, length, 0, special, &ids, &n, &err);
    if (s == STATUS_INVALID && which == SMOLLM && strstr(err.message, "has no token for byte") != NULL)
        return 0;
    if (s != STATUS_OK) fail(err.message);
    int spm = which == SPM;
    if (!spm || !special) check_bytes(v, ids, n, text, length, spm && length > 0);
    free(ids);
    return 0;
}
