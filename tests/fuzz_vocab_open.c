/* fuzz_vocab_open.c - libFuzzer entry: the tokenizer keys of a hostile GGUF are refused or make a vocabulary that works.
 * Not the reader's own fuzzer (fuzz_gguf) and not the encoder's (fuzz_vocab).
 * Idea: whatever opens must encode two texts, and each id it gives must have bytes.
 * Source: ours. Exercise: fuzz_vocab_open -runs=1000000 -max_len=8192 fixtures/fuzz/vocab_open */
#include <stdlib.h>

#include "engine/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const vocab *v, const char *text, size_t length) {
    int32_t *ids;
    size_t n, k;
    struct err err;
    const uint8_t *bytes;
    if (vocab_encode(v, text, length, 1, 1, &ids, &n, &err) != STATUS_OK) return;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= vocab_size(v)) abort();
        vocab_bytes(v, ids[i], &bytes, &k);
    }
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "it's  abc abcabc\n 12\xff\xe2\x96\x81<|c|><s>";
    gguf *g = NULL;
    vocab *v = NULL;
    struct err err;
    if (gguf_parse(data, size, &g, &err) == STATUS_OK && vocab_open(g, &v, &err) == STATUS_OK) {
        encode(v, text, sizeof text - 1);
        encode(v, (const char *)data, size < 256 ? size : 256);
        for (int32_t id = 0; id < vocab_size(v); id++) (void)(vocab_is_end(v, id) + vocab_is_special(v, id));
    }
    vocab_close(v);
    gguf_close(g);
    return 0;
}
