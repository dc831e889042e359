/* test_import_engines.c - what vLLM really answers becomes the same stream by every endpoint; what an answer says twice must
 * be the same twice. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "gates/import_json.h"

#define SERVER    FORKGATE_SOURCE_DIR "/fixtures/peer/server/"
#define TOKENIZER FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"

static const struct import_json_options plain = {NULL, NULL, -1, 0};
static const struct import_json_options with_ids = {TOKENIZER, NULL, -1, 0};

static dump *recorded(const char *name, const struct import_json_options *o) {
    char path[512];
    struct err err = {""};
    dump *d = NULL;
    (void)snprintf(path, sizeof path, "%s%s", SERVER, name);
    cr_assert_eq(import_json(path, o, NULL, NULL, &d, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_count(d), 64, "%s: records", name);
    return d;
}

/* Tokens, bytes, top-2 and gaps are those of vllm-f32-completions.json. */
static void as_the_first(const char *name, const struct import_json_options *o, int with_text) {
    dump *x = recorded("vllm-f32-completions.json", &with_ids), *y = recorded(name, o);
    for (uint64_t i = 0; i < 64; i++) {
        const struct dump_record *a = dump_record_at(x, i), *b = dump_record_at(y, i);
        uint32_t na = 0, nb = 0;
        const uint8_t *ta = dump_text(x, i, &na), *tb = dump_text(y, i, &nb);
        cr_assert_eq(a->token, b->token, "%s: token %d", name, (int)i);
        cr_assert(a->id1 == b->id1 && a->id2 == b->id2, "%s: top-2 of %d", name, (int)i);
        cr_assert_float_eq(a->logit1, b->logit1, 1e-6, "%s: top-1 of %d", name, (int)i);
        cr_assert_float_eq(a->logit2, b->logit2, 1e-6, "%s: top-2 of %d", name, (int)i);
        cr_assert(!with_text || (na == nb && memcmp(ta, tb, na) == 0), "%s: text of %d", name, (int)i);
    }
    dump_close(x);
    dump_close(y);
}

Test(import_engines, vllm_says_the_same_by_every_endpoint) {
    as_the_first("vllm-f32-completions.sse", &with_ids, 1);
    as_the_first("vllm-f32-chat.json", &with_ids, 1);
    as_the_first("vllm-f32-chat.sse", &with_ids, 1);
    as_the_first("vllm-f32-ids-completions.json", &with_ids, 1);
    as_the_first("vllm-f32-ids-chat.json", &with_ids, 1);
}

/* No recording: SGLang's own response classes round the numbers of vLLM's. */
Test(import_engines, the_shapes_of_sglang_are_read) {
    as_the_first("sglang-shape-completions.json", &with_ids, 1);
    as_the_first("sglang-shape-completions.sse", &with_ids, 1);
    as_the_first("sglang-shape-chat.json", &with_ids, 1);
}

/* return_tokens_as_token_ids names candidates by id, and gives them the bytes of that name. */
Test(import_engines, vllm_ids_need_no_tokenizer) {
    as_the_first("vllm-f32-ids-completions.json", &plain, 0);
    as_the_first("vllm-f32-ids-chat.json", &plain, 0);
    dump *d = recorded("vllm-f32-ids-chat.json", &plain);
    uint32_t n = 0;
    const uint8_t *text = dump_text(d, 0, &n);
    cr_assert(n == 4 && memcmp(text, " the", 4) == 0, "the chosen token has its own bytes");
    dump_close(d);
}

Test(import_engines, another_dtype_moves_logprobs_and_no_token) {
    dump *x = recorded("vllm-f32-completions.json", &with_ids),
         *y = recorded("vllm-bf16-completions.json", &with_ids);
    int moved = 0;
    for (uint64_t i = 0; i < 64; i++) {
        cr_assert_eq(dump_record_at(x, i)->token, dump_record_at(y, i)->token, "token %d", (int)i);
        double d = (double)dump_record_at(x, i)->logit1 - (double)dump_record_at(y, i)->logit1;
        moved += d > 1e-4 || d < -1e-4;
    }
    cr_assert(moved > 32, "%d logprobs moved", moved);
    dump_close(x);
    dump_close(y);
}

/* ---- contradictions -------------------------------------------------------------------------------------------------- */

static enum status import_text(const char *text, const struct import_json_options *o, dump **d,
                               struct err *err) {
    return import_json_memory(text, strlen(text), "t.json", o, NULL, NULL, d, err);
}

static void refused(const char *text, const struct import_json_options *o, const char *message) {
    struct err err = {""};
    dump *d = NULL;
    enum status s = import_text(text, o, &d, &err);
    cr_assert_eq(s, STATUS_FORMAT, "status %s instead of format for %s", status_name(s), message);
    cr_assert(d == NULL, "a refused answer left a dump");
    cr_assert(strstr(err.message, "t.json: line 1, byte ") == err.message, "no place: %s", err.message);
    cr_assert(strstr(err.message, message) != NULL, "said: %s, wanted: %s", err.message, message);
}

static void taken(const char *text, const struct import_json_options *o) {
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(import_text(text, o, &d, &err), STATUS_OK, "%s", err.message);
    dump_close(d);
}

#define LLAMA(entry)                                                                                         \
    "{\"content\":\"x\",\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":1,"                       \
    "\"completion_probabilities\":[" entry "]}"
#define BEST(id, text, bytes, logprob)                                                                       \
    "{\"id\":" id ",\"token\":\"" text "\",\"bytes\":[" bytes "],\"logprob\":" logprob "}"
#define ENTRY(id, text, bytes, logprob, first, second)                                                       \
    "{\"id\":" id ",\"token\":\"" text "\",\"bytes\":[" bytes "],\"logprob\":" logprob                       \
    ",\"top_logprobs\":[" first "," second "]}"
#define THE "32,116,104,101"
#define A   "32,97"

Test(import_engines, text_and_bytes_are_of_one_token) {
    taken(LLAMA(ENTRY("262", " the", THE, "-0.5", BEST("262", " the", THE, "-0.5"),
                      BEST("259", " a", A, "-2"))),
          &with_ids);
    refused(LLAMA(ENTRY("262", " teh", THE, "-0.5", BEST("262", " the", THE, "-0.5"),
                        BEST("259", " a", A, "-2"))),
            &plain, "token 0: token and bytes are of two tokens");
    refused(LLAMA(ENTRY("262", " the", THE, "-0.5", BEST("262", " the", THE, "-0.5"),
                        BEST("259", " b", A, "-2"))),
            &plain, "token and bytes are of two tokens");
    /* the first half of a character, as llama.cpp cuts it, and as others show it */
    taken(LLAMA(ENTRY("5", "a", "97,240,159", "-0.5", BEST("5", "a", "97,240,159", "-0.5"),
                      BEST("6", "\\ufffd", "240", "-2"))),
          &plain);
    refused(LLAMA(ENTRY("5", "a", "97,98", "-0.5", BEST("5", "a", "97", "-0.5"), BEST("6", "b", "98", "-2"))),
            &plain, "token and bytes are of two tokens");
}

Test(import_engines, the_chosen_token_is_the_one_its_id_says) {
    refused(LLAMA(ENTRY("259", " the", THE, "-0.5", BEST("262", " the", THE, "-0.5"),
                        BEST("259", " a", A, "-2"))),
            &with_ids, "id 259 is ' the' here and another text in");
    refused(
        LLAMA(ENTRY("259", " the", THE, "-2", BEST("262", " the", THE, "-0.5"), BEST("259", " a", A, "-2"))),
        &plain, "id 259 is ' the', and ' a' among the candidates");
    refused(LLAMA(ENTRY("262", " the", THE, "-1.5", BEST("262", " the", THE, "-0.5"),
                        BEST("259", " a", A, "-2"))),
            &plain, "its logprob is -1.5, and -0.5 among the candidates");
    /* bytes of a character begun by the token before come first */
    taken(LLAMA(ENTRY("262", "\\ufffd the", "159," THE, "-0.5", BEST("262", " the", THE, "-0.5"),
                      BEST("259", " a", A, "-2"))),
          &with_ids);
    refused("{\"choices\":[{\"index\":0,\"text\":\" the\",\"token_ids\":[259],\"logprobs\":{\"tokens\":[\" "
            "the\"],"
            "\"token_logprobs\":[-0.5],\"top_logprobs\":[{\" the\":-0.5,\" "
            "a\":-2}]},\"finish_reason\":\"length\"}]}",
            &with_ids, "id 259 is ' the' here and another text in");
    refused("{\"choices\":[{\"index\":0,\"text\":\" "
            "the\",\"token_ids\":[259],\"logprobs\":{\"tokens\":[\"token_id:262\"],"
            "\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"token_id:262\":-0.5,\"token_id:259\":-2}]},"
            "\"finish_reason\":\"length\"}]}",
            &plain, "token_ids and the token are of two tokens");
    refused(LLAMA(ENTRY("5", "token_id:6", "97", "-0.5", BEST("5", "a", "97", "-0.5"),
                        BEST("7", "b", "98", "-2"))),
            &plain, "id and token name two tokens");
}

Test(import_engines, the_two_best_are_two_tokens) {
    refused(LLAMA(ENTRY("262", " the", THE, "-0.5", BEST("262", " the", THE, "-0.5"),
                        BEST("262", " the", THE, "-0.5"))),
            &plain, "id 262 is its first and its second choice");
    refused("{\"choices\":[{\"index\":0,\"message\":{\"content\":\"x\"},\"logprobs\":{\"content\":[{"
            "\"token\":\" the\","
            "\"logprob\":-0.5,\"top_logprobs\":[{\"token\":\" the\",\"logprob\":-0.5},{\"token\":\" "
            "the\",\"logprob\":-2}]}]},"
            "\"finish_reason\":\"stop\"}]}",
            &with_ids, "id 262 is its first and its second choice");
}

Test(import_engines, provenance_is_not_told_twice_in_two_ways) {
    struct err err = {""};
    struct provenance extra;
    dump *d = NULL;
    static const char text[] =
        LLAMA(ENTRY("5", "a", "97", "-0.5", BEST("5", "a", "97", "-0.5"), BEST("6", "b", "98", "-2")));
    provenance_init(&extra);
    cr_assert_eq(provenance_set(&extra, "stop", "length", &err), STATUS_OK);
    cr_assert_eq(import_json_memory(text, strlen(text), "t.json", &plain, &extra, NULL, &d, &err), STATUS_OK,
                 "%s", err.message);
    dump_close(d);
    cr_assert_eq(provenance_set(&extra, "stop", "eos", &err), STATUS_OK);
    cr_assert_eq(import_json_memory(text, strlen(text), "t.json", &plain, &extra, NULL, &d, &err),
                 STATUS_USAGE);
    cr_assert(strstr(err.message, "the file says stop=length, and -P says eos") != NULL, "%s", err.message);
    provenance_free(&extra);
}
