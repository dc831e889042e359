/* fuzz_gguf.c - libFuzzer entry: parse any bytes, run every query on what loads, then read the model configuration.
 * Not a test of results: a crash, a hang or a sanitizer report is the finding.
 * Idea: the input is used in place, so reads out of bounds meet libFuzzer's own guard.
 * Source: ours. Exercise: cmake -DFORKGATE_FUZZ=ON -DCMAKE_C_COMPILER=clang .. ; fuzz_gguf -runs=1000000 fixtures/fuzz/gguf */
#include "engine/model.h"
#include "tests/gguf_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gguf *g = NULL;
    struct err err = {""};
    if (gguf_parse(data, size, &g, &err) != STATUS_OK) {
        if (g != NULL || err.message[0] == '\0') abort();
        return 0;
    }
    volatile uint64_t sink = read_everything(g);
    (void)sink;
    struct model_config config;
    if (model_read_config(g, &config, &err) == STATUS_OK && config.n_head % config.n_kv_head != 0) abort();
    gguf_close(g);
    return 0;
}
