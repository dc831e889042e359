/* fuzz_import.c - libFuzzer entry: any bytes as the answer of a server; what is imported must be a dump that verifies.
 * Not a test of results alone: a crash, a hang or a sanitizer report is a finding, and so is a refusal without a sentence.
 * Idea: from memory and with every leniency, so that the readers behind the refusals are reached.
 * Source: ours. Exercise: cmake -DFORKGATE_FUZZ=ON -DCMAKE_C_COMPILER=clang .. ; fuzz_import -runs=1000000
 * fixtures/fuzz/import fixtures/peer/server */
#include <stdint.h>
#include <stdlib.h>

#include "gates/import_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void import_as(const uint8_t *data, size_t size, const struct import_json_options *o) {
    dump *d = NULL;
    struct err err = {""};
    enum status s = import_json_memory(data, size, "fuzz", o, NULL, NULL, &d, &err);
    if (s != STATUS_OK && (d != NULL || err.message[0] == '\0')) abort();
    if (s == STATUS_OK && (d == NULL || dump_count(d) == 0)) abort();
    dump_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct import_json_options strict = {NULL, NULL, -1, 0}, partial = {NULL, "bf16", 0, 1};
    import_as(data, size, &strict);
    import_as(data, size, &partial);
    return 0;
}
