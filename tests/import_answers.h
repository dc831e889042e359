/* import_answers.h - answers of servers, recorded and by hand, and what becomes of them: shared by the tests of import.
 * Not for the product. Source: ours. */
#ifndef FORKGATE_TESTS_IMPORT_ANSWERS_H
#define FORKGATE_TESTS_IMPORT_ANSWERS_H

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "gates/import_json.h"

#define SERVER    FORKGATE_SOURCE_DIR "/fixtures/peer/server/"
#define TOKENIZER FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"

static const struct import_json_options plain = {NULL, NULL, -1, 0};
static const struct import_json_options with_ids = {TOKENIZER, NULL, -1, 0};

static inline dump *recorded(const char *name, const struct import_json_options *o,
                             const struct provenance *extra) {
    char path[512];
    struct err err = {""};
    dump *d = NULL;
    (void)snprintf(path, sizeof path, "%s%s", SERVER, name);
    cr_assert(import_json_looks(path), "%s does not look like an answer", name);
    cr_assert_eq(import_json(path, o, extra, NULL, &d, &err), STATUS_OK, "%s", err.message);
    return d;
}

static inline enum status import_text(const char *text, const struct import_json_options *o, dump **d,
                                      struct err *err) {
    return import_json_memory(text, strlen(text), "t.json", o, NULL, NULL, d, err);
}

static inline dump *good(const char *text, const struct import_json_options *o) {
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(import_text(text, o, &d, &err), STATUS_OK, "%s", err.message);
    return d;
}

static inline void refused(const char *text, const struct import_json_options *o, const char *message) {
    struct err err = {""};
    dump *d = NULL;
    enum status s = import_text(text, o, &d, &err);
    cr_assert_eq(s, STATUS_FORMAT, "status %s instead of format for %s", status_name(s), message);
    cr_assert(d == NULL, "a refused answer left a dump");
    cr_assert(strstr(err.message, message) != NULL, "said: %s, wanted: %s", err.message, message);
}

static inline const char *value(const dump *d, const char *key) {
    const char *v = provenance_get(dump_provenance(d), key);
    return v == NULL ? "(absent)" : v;
}

#define TOP2(a, b)                                                                                           \
    "\"top_logprobs\":[{\"token\":\"" a "\",\"logprob\":-0.5,\"bytes\":null},{\"token\":\"" b                \
    "\",\"logprob\":-1.5}]"
#define ENTRY(a, b) "{\"token\":\"" a "\",\"logprob\":-0.5,\"bytes\":null," TOP2(a, b) "}"
#define CHAT(entries)                                                                                        \
    "{\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"x\"},\"logprobs\":{" \
    "\"content\":[" entries "]},\"finish_reason\":\"stop\"}]}"
#define COMPLETION(lists)                                                                                    \
    "{\"model\":\"m\",\"choices\":[{\"text\":\"x\",\"logprobs\":{" lists                                     \
    "},\"finish_reason\":\"length\",\"index\":0}]}"

#endif
