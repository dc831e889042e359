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

/* No recording: the fields that trtllm-serve's classes have, written by hand, with the numbers of vLLM's. */
Test(import_engines, the_shapes_of_tensorrt_llm_are_read) {
    as_the_first("trtllm-shape-completions.json", &with_ids, 1);
    as_the_first("trtllm-shape-completions.sse", &with_ids, 1);
    as_the_first("trtllm-shape-chat.json", &with_ids, 1);
    as_the_first("trtllm-shape-chat.sse", &with_ids, 1);
    dump *d = recorded("trtllm-shape-chat.sse", &plain);
    cr_assert_str_eq(provenance_get(dump_provenance(d), "stop"), "length");
    cr_assert_str_eq(provenance_get(dump_provenance(d), "import.tokens_told"), "64");
    dump_close(d);
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

/* ---- what one server does and another does not -------------------------------------------------------------------------- */

#define CHAT(entries, reason)                                                                                \
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"x\"},\"logprobs\":{\"content\":[" entries         \
    "]},\"finish_reason\":\"" reason "\"}]}"
#define MAP(token, logprob, top)                                                                             \
    "{\"choices\":[{\"index\":0,\"text\":\"" token                                                           \
    "\",\"logprobs\":{\"text_offset\":[0],\"token_logprobs\":[" logprob "],\"tokens\":[\"" token             \
    "\"],\"top_logprobs\":[" top "]},\"finish_reason\":\"length\"}]}"
#define TWO                                                                                                  \
    "[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97]},{\"token\":\"b\",\"logprob\":-1.5,\"bytes\":[98]}]"
#define PLAIN_ENTRY "{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":" TWO "}"

static struct dump_record first_of(const char *text, const struct import_json_options *o) {
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(import_text(text, o, &d, &err), STATUS_OK, "%s", err.message);
    struct dump_record r = *dump_record_at(d, 0);
    dump_close(d);
    return r;
}

static void top_is(struct dump_record r, float first, float second) {
    cr_assert((r.flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) == 0, "top-2 is absent");
    cr_assert_float_eq(r.logit1, first, 1e-6, "top-1 %g", (double)r.logit1);
    cr_assert_float_eq(r.logit2, second, 1e-6, "top-2 %g", (double)r.logit2);
}

/* TensorRT-LLM and SGLang encode the decoded text: of half a character that is U+FFFD, which no token has. */
Test(import_engines, bytes_of_a_replaced_character_are_not_the_tokens) {
    const char *text =
        CHAT("{\"token\":\"\\ufffd\",\"logprob\":-0.5,\"bytes\":[239,191,189],\"top_logprobs\":["
             "{\"token\":\"\\ufffd\",\"logprob\":-0.5,\"bytes\":[239,191,189]},"
             "{\"token\":\"\\ufffd\",\"logprob\":-2.5,\"bytes\":[239,191,189]}]}",
             "length");
    struct dump_record r = first_of(text, &with_ids);
    cr_assert((r.flags & DUMP_NO_ID) != 0 && r.token == -1, "an id was made up");
    top_is(r, -0.5f, -2.5f);
}

/* A map of texts holds one of two tokens with the same text: not always the one that was chosen. */
Test(import_engines, a_map_of_texts_that_lost_the_chosen_token) {
    top_is(first_of(MAP("\\ufffd", "-0.1", "{\" a\":-2,\"\\ufffd\":-3}"), &plain), -0.1f, -2.0f);
    top_is(first_of(MAP("the", "-0.1", "{\"the\":-3,\" a\":-2}"), &plain), -0.1f, -2.0f);
    top_is(first_of(MAP("the", "-2.5", "{\"the\":-0.1,\"a\":-2}"), &plain), -0.1f, -2.0f);
    top_is(first_of(MAP("the", "-0.10004", "{\"the\":-0.1,\"a\":-2}"), &plain), -0.1f, -2.0f); /* rounding */
}

/* -9999 is no logprob: vLLM writes it for an end token that its mask took from the candidates, TensorRT-LLM for minus infinity. */
Test(import_engines, a_logprob_that_stands_for_none_is_none) {
    static const struct import_json_options partial = {NULL, NULL, -1, 1};
    const char *none = CHAT("{\"token\":\"\",\"logprob\":-9999.0,\"bytes\":[],\"top_logprobs\":[]}", "stop");
    refused(none, &plain, "token 0: top-2 is missing");
    struct dump_record r = first_of(none, &partial);
    cr_assert_eq(r.flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2), DUMP_NO_TOP1 | DUMP_NO_TOP2);
    refused(MAP("a", "-0.1", "{\"a\":-0.1,\"b\":-9999.0}"), &plain, "token 0: top-2 is missing");
    top_is(first_of(MAP("a", "-9999.0", "{\"b\":-0.1,\"c\":-2}"), &plain), -0.1f, -2.0f);
    /* TensorRT-LLM without top_logprobs; its PyTorch backend with one logprob a token */
    refused(CHAT("{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":null}", "stop"), &plain,
            "token 0: top-2 is missing");
    refused("{\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":{\"text_offset\":[0],\"token_logprobs\":["
            "-0.5],"
            "\"tokens\":[\"a\"],\"top_logprobs\":[]},\"finish_reason\":\"length\"}]}",
            &plain, "token 0: top-2 is missing");
}

#define ONE(token) "{\"token\":\"" token "\",\"logprob\":-0.5,\"bytes\":null,\"top_logprobs\":" TWO "}"
#define SAID(content, one, two, three)                                                                       \
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"" content "\"},\"logprobs\":{\"content\":[" ONE(  \
        one) "," ONE(two) "," ONE(three) "]},\"finish_reason\":\"length\"}]}"

static const char *blanks_lost(const char *text) {
    static char value[32];
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(import_text(text, &plain, &d, &err), STATUS_OK, "%s", err.message);
    const char *v = provenance_get(dump_provenance(d), "import.blanks_lost");
    (void)snprintf(value, sizeof value, "%s", v != NULL ? v : "none");
    dump_close(d);
    return value;
}

/* SentencePiece, token by token: the blank before a word is gone, and the word alone is another token. */
Test(import_engines, blanks_that_a_decoder_dropped_are_noticed) {
    const char *dropped = SAID("the man is", "the", "man", "is");
    cr_assert_str_eq(blanks_lost(dropped), "2");
    refused(dropped, &with_ids, "2 blanks of the text are in no token: the server's decoder drops them");
    cr_assert_str_eq(blanks_lost(SAID("the man is", "the", " man", " is")), "none");
    cr_assert_str_eq(blanks_lost(SAID("the man is", " the", " man", " is")), "none"); /* a server may trim */
    cr_assert_str_eq(blanks_lost(SAID(" the man is", "the", " man", " is")), "none");
    cr_assert_str_eq(blanks_lost(SAID("the man", "the", "man", "is")),
                     "none"); /* a stop word, cut off the text */
    cr_assert_str_eq(blanks_lost(SAID("the man in", "the", "man", "is")),
                     "none"); /* more than blanks differ: nothing is known */
    const char *streamed =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"the \"},\"logprobs\":{\"content\":[" ONE(
            "the") "]}}]}\n\ndata: "
                   "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"man\"},\"logprobs\":{\"content\":"
                   "[" ONE("man") "]},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    cr_assert_str_eq(blanks_lost(streamed), "1");
}

/* A token without text, as its end token is to vLLM: nothing to compare, and nothing to read. */
Test(import_engines, a_token_may_have_no_bytes) {
    top_is(first_of(CHAT("{\"token\":\"\",\"logprob\":-0.5,\"bytes\":[],\"top_logprobs\":["
                         "{\"token\":\"\",\"logprob\":-0.5,\"bytes\":[]},"
                         "{\"token\":\"a\",\"logprob\":-1.5,\"bytes\":[97]}]}",
                         "stop"),
                    &with_ids),
           -0.5f, -1.5f);
}

Test(import_engines, an_answer_that_was_given_up_is_no_answer) {
    static const struct import_json_options partial = {NULL, NULL, -1, 1};
    refused(CHAT(PLAIN_ENTRY, "abort"), &plain, "the server gave up (abort): the stream was cut");
    refused(CHAT(PLAIN_ENTRY, "timeout"), &plain, "the server gave up (timeout)");
    refused(CHAT(PLAIN_ENTRY, "not_finished"), &plain, "the server gave up (not_finished)");
    taken(CHAT(PLAIN_ENTRY, "abort"), &partial);
    taken(CHAT(PLAIN_ENTRY, "tool_calls"), &plain);
    refused("{\"object\":\"error\",\"message\":\"too "
            "long\",\"type\":\"BadRequestError\",\"param\":null,\"code\":400}",
            &plain, "the server answered with an error: too long");
}

Test(import_engines, the_native_answer_of_sglang_is_refused_with_what_to_ask) {
    refused("{\"text\":\" "
            "a\",\"output_ids\":[259],\"meta_info\":{\"id\":\"x\",\"finish_reason\":{\"type\":\"length\","
            "\"length\":1},\"completion_tokens\":1,\"output_token_logprobs\":[[-0.1,259,null]],"
            "\"output_top_logprobs\":[[[-0.1,259,null],[-2.0,262,null]]]}}",
            &plain,
            "SGLang's own /generate is not read here: ask its /v1/completions or /v1/chat/completions");
}
