/* fuzz_import.c - libFuzzer entry: any bytes as the answer of a server and as an array; what is imported must be a dump that verifies.
 * Not a test of results alone: a crash, a hang or a sanitizer report is a finding, and so is a refusal without a sentence.
 * Idea: from memory and with every leniency, so that the readers behind the refusals are reached.
 * Source: ours. Exercise: cmake -DFORKGATE_FUZZ=ON -DCMAKE_C_COMPILER=clang .. ; fuzz_import -runs=1000000
 * fixtures/fuzz/import fixtures/peer/server */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gates/import_json.h"
#include "gates/import_npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void import_as(const uint8_t *data, size_t size, const struct import_json_options *o) {
    dump *d = NULL;
    struct err err = {""};
    enum status s = import_json_memory(data, size, "fuzz", o, NULL, NULL, &d, &err);
    if (s != STATUS_OK && (d != NULL || err.message[0] == '\0')) abort();
    if (s == STATUS_OK && (d == NULL || dump_count(d) == 0)) abort();
    dump_close(d);
}

/* Every other input gets the magic and a length that fits, so that the dictionary is reached. */
static void import_array(const uint8_t *data, size_t size, int bf16) {
    const struct import_npy_options o = {bf16, size % 3 == 0};
    struct import_npy a;
    struct err err = {""};
    uint8_t *bytes = malloc(size + 10);
    if (bytes == NULL) return;
    memcpy(bytes, IMPORT_NPY_MAGIC "\x01\x00\xff\x00", 10);
    if (size > 0) memcpy(bytes + 10, data, size);
    bytes[8] = (uint8_t)(size < 118 ? size : 118);
    for (int raw = 0; raw < 2; raw++) {
        enum status s = raw ? import_npy_parse(data, size, "fuzz", &o, &a, &err)
                            : import_npy_parse(bytes, size + 10, "fuzz", &o, &a, &err);
        if (s != STATUS_OK && err.message[0] == '\0') abort();
        if (s == STATUS_OK && (a.data + a.bytes != (raw ? data + size : bytes + 10 + size) || a.bytes == 0))
            abort();
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    import_array(data, size, 0);
    import_array(data, size, 1);
    const struct import_json_options strict = {NULL, NULL, -1, 0}, partial = {NULL, "bf16", 0, 1};
    import_as(data, size, &strict);
    import_as(data, size, &partial);
    return 0;
}
