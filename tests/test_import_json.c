/* test_import_json.c - answers of servers become dumps: recorded ones, and each dialect by hand. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff.h"
#include "tests/import_answers.h"

/* ---- recorded answers ------------------------------------------------------------------------------------------------ */

static void same_stream(const char *a, const char *b) {
    dump *x = recorded(a, &with_ids, NULL), *y = recorded(b, &with_ids, NULL);
    cr_assert_eq(dump_count(x), dump_count(y), "%s and %s", a, b);
    for (uint64_t i = 0; i < dump_count(x); i++)
        cr_assert_eq(dump_record_at(x, i)->token, dump_record_at(y, i)->token, "%s and %s at %d", a, b,
                     (int)i);
    dump_close(x);
    dump_close(y);
}

Test(import_json, one_server_says_the_same_by_every_endpoint) {
    same_stream("llamacpp-f16kv-completion.json", "llamacpp-f16kv-completions.sse");
    same_stream("llamacpp-f16kv-completion.json", "python-f16kv-completions.json");
    same_stream("llamacpp-f16kv-completion.json", "python-f16kv-completions.sse");
    same_stream("python-f16kv-chat.json", "python-f16kv-chat.sse");
}

Test(import_json, llama_cpp_tells_ids_sampler_and_prompt) {
    dump *d = recorded("llamacpp-f16kv-completion.json", &plain, NULL);
    const struct dump_record *r = dump_record_at(d, 0);
    cr_assert_eq(dump_count(d), 64, "records");
    cr_assert_eq(r->token, 262, "token");
    cr_assert_eq(r->id1, 262, "top-1");
    cr_assert_eq(r->id2, 259, "top-2");
    cr_assert_float_eq(r->logit1, -1.491686463356018, 1e-6, "top-1 logprob");
    cr_assert_float_eq(r->logit2, -2.2211408615112305, 1e-6, "top-2 logprob");
    cr_assert_eq(r->flags, (uint32_t)(DUMP_LOGPROBS | DUMP_NO_LSE | DUMP_NO_HASH), "flags %x", r->flags);
    cr_assert_str_eq(value(d, "sampler"), "greedy", "sampler");
    cr_assert_str_eq(value(d, "repeat_penalty"), "1", "penalty");
    cr_assert_str_eq(value(d, "stop"), "length", "stop");
    cr_assert_str_eq(value(d, "n_requested"), "64", "budget");
    cr_assert_str_eq(value(d, "prompt.tokens"), "12", "prompt tokens");
    cr_assert_str_eq(value(d, "import"), "llama.cpp-completion", "import");
    dump_close(d);
}

/* Two settings of one engine: the fork is judged like any other, in differences of logprobs. */
Test(import_json, two_settings_fork_at_a_near_tie) {
    dump *a = recorded("llamacpp-f16kv-completion.json", &with_ids, NULL);
    dump *b = recorded("llamacpp-q8kv-completion.sse", &with_ids, NULL);
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(diff_streams(a, b, NULL, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(r.verdict, DIFF_FORK, "%s: %s", diff_verdict_name(r.verdict), r.reason);
    cr_assert_eq(r.fork, 42, "fork at %d", (int)r.fork);
    cr_assert_float_eq(r.gap_a, 0.02544, 1e-4, "gap of A %g", r.gap_a);
    cr_assert_float_eq(r.gap_b, 0.06395, 1e-4, "gap of B %g", r.gap_b);
    cr_assert(r.ulps_a < 0 && r.ulps_b < 0, "ULPs of logprobs without a dtype");
    cr_assert(r.drift_at != UINT64_MAX && r.drift < 0.2, "drift %g", r.drift);
    struct diff_control control = {0.09, "test"};
    cr_assert_eq(diff_streams(a, b, &control, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(r.verdict, DIFF_KNIFE_EDGE, "%s: %s", diff_verdict_name(r.verdict), r.reason);
    dump_close(a);
    dump_close(b);
}

Test(import_json, without_ids_identity_is_by_bytes) {
    dump *a = recorded("python-f16kv-completions.json", &plain, NULL);
    dump *b = recorded("python-f16kv-completions.sse", &plain, NULL);
    dump *c = recorded("python-q8kv-completions.json", &plain, NULL);
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(dump_first_without_id(a), 0, "ids without a tokenizer");
    cr_assert_eq(diff_streams(a, b, NULL, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(r.verdict, DIFF_IDENTICAL, "%s", r.reason);
    cr_assert_eq(r.by_bytes, 1, "by bytes");
    cr_assert_eq(diff_streams(a, c, NULL, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(r.verdict, DIFF_FORK, "%s", r.reason);
    cr_assert_float_eq(r.gap_a, 0.02544, 1e-4, "a gap survives: %g", r.gap_a);
    dump_close(a);
    dump_close(b);
    dump_close(c);
}

Test(import_json, a_declared_dtype_gives_ulps) {
    struct import_json_options o = with_ids;
    o.logits_dtype = "bf16";
    dump *a = recorded("llamacpp-f16kv-completion.json", &o, NULL),
         *b = recorded("llamacpp-q8kv-completion.sse", &o, NULL);
    struct diff_result r;
    struct err err = {""};
    cr_assert_str_eq(value(a, "logits"), "bf16", "declared");
    cr_assert_eq(diff_streams(a, b, NULL, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert(r.ulps_a > 0 && r.ulps_b > 0, "ULPs %g %g", r.ulps_a, r.ulps_b);
    dump_close(a);
    dump_close(b);
}

/* ---- dialects by hand ------------------------------------------------------------------------------------------------ */

Test(import_json, chat_with_bytes_that_are_no_characters) {
    dump *d = good(
        CHAT("{\"token\":\"\\ufffd\",\"bytes\":[240,159],\"logprob\":-0.25,\"top_logprobs\":"
             "[{\"token\":\"b\",\"bytes\":[98],\"logprob\":-3},{\"token\":\"\\ufffd\",\"bytes\":[240,159],"
             "\"logprob\":-0.25}]}"),
        &plain);
    uint32_t n = 0;
    const uint8_t *text = dump_text(d, 0, &n);
    cr_assert(n == 2 && memcmp(text, "\xf0\x9f", 2) == 0,
              "the bytes are the token, not the replacement character");
    cr_assert_float_eq(dump_record_at(d, 0)->logit1, -0.25, 1e-9,
                       "the larger is top-1, wherever it is listed");
    cr_assert_float_eq(dump_record_at(d, 0)->logit2, -3, 1e-9, "top-2");
    dump_close(d);
}

/* vLLM: return_tokens_as_token_ids and return_token_ids. */
Test(import_json, ids_written_as_texts_and_as_a_list) {
    dump *d = good(COMPLETION("\"text_offset\":[0],\"token_logprobs\":[-0.5],\"tokens\":[\"token_id:262\"],"
                              "\"top_logprobs\":[{\"token_id:262\":-0.5,\"token_id:259\":-2}]"),
                   &plain);
    cr_assert_eq(dump_record_at(d, 0)->token, 262, "chosen");
    cr_assert_eq(dump_record_at(d, 0)->id2, 259, "top-2");
    dump_close(d);
    d = good("{\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" "
             "the\",\"token_ids\":[262],\"logprobs\":{\"tokens\":[\" the\"],"
             "\"token_logprobs\":[-0.5],\"top_logprobs\":[{\" the\":-0.5,\" "
             "a\":-2}]},\"finish_reason\":\"length\"}]}",
             &with_ids);
    uint32_t n = 0;
    const uint8_t *text = dump_text(d, 0, &n);
    cr_assert(n == 4 && memcmp(text, " the", 4) == 0, "text from the tokenizer");
    cr_assert_eq(dump_record_at(d, 0)->id2, 259, "top-2 resolved");
    dump_close(d);
}

/* A server lists its n best and the chosen token only beside them. */
Test(import_json, the_chosen_token_is_a_candidate) {
    dump *d = good(
        COMPLETION("\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"b\":-2,\"c\":-3}]"),
        &plain);
    cr_assert_float_eq(dump_record_at(d, 0)->logit1, -0.5, 1e-9, "top-1");
    cr_assert_float_eq(dump_record_at(d, 0)->logit2, -2, 1e-9, "top-2");
    dump_close(d);
    d = good(
        COMPLETION("\"tokens\":[\"a\"],\"token_logprobs\":[-2.5],\"top_logprobs\":[{\"b\":-2,\"c\":-3}]"),
        &plain);
    cr_assert_float_eq(dump_record_at(d, 0)->logit2, -2.5, 1e-9, "a sampled second");
    dump_close(d);
}

Test(import_json, one_choice_of_several) {
    static const char two[] =
        "data: "
        "{\"id\":\"c\",\"choices\":[{\"index\":1,\"text\":\"b\",\"logprobs\":{\"tokens\":[\"b\"],\"token_"
        "logprobs\":[-0.5],"
        "\"top_logprobs\":[{\"b\":-0.5,\"x\":-2}]},\"finish_reason\":null}]}\r\n\r\n"
        "data: "
        "{\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],\"token_"
        "logprobs\":[-0.5],"
        "\"top_logprobs\":[{\"a\":-0.5,\"x\":-2}]},\"finish_reason\":\"stop\"}]}\r\n\r\n"
        ": keep-alive\r\n\r\n"
        "data: "
        "{\"id\":\"c\",\"choices\":[{\"index\":1,\"text\":\"\",\"logprobs\":null,\"finish_reason\":"
        "\"length\"}]}\r\n\r\n"
        "data: "
        "{\"id\":\"c\",\"choices\":[],\"usage\":{\"completion_tokens\":1,\"prompt_tokens\":4}}\r\n\r\ndata: "
        "[DONE]\r\n\r\n";
    struct import_json_options o = plain;
    refused(two, &plain, "line 3, byte 169: the answer has several choices");
    o.choice = 1;
    dump *d = good(two, &o);
    uint32_t n = 0;
    cr_assert_eq(dump_count(d), 1, "records");
    cr_assert_eq(*dump_text(d, 0, &n), 'b', "text of choice 1");
    cr_assert_str_eq(value(d, "stop"), "length", "its stop");
    dump_close(d);
}

Test(import_json, end_token_by_server_and_by_tokenizer) {
    dump *d = good(
        "{\"content\":\"a\",\"stop\":true,\"stop_type\":\"eos\",\"tokens_predicted\":1,\"completion_"
        "probabilities\":"
        "[{\"id\":0,\"token\":\"\",\"bytes\":[],\"logprob\":-0.1,\"top_logprobs\":[{\"id\":0,\"token\":\"\","
        "\"bytes\":[],"
        "\"logprob\":-0.1},{\"id\":262,\"token\":\" the\",\"bytes\":[32,116,104,101],\"logprob\":-3}]}]}",
        &plain);
    cr_assert(dump_record_at(d, 0)->flags & DUMP_END, "the end token ends the stream");
    dump_close(d);
}

Test(import_json, what_a_server_lost_is_marked_when_asked) {
    struct import_json_options partial = plain;
    partial.partial = 1;
    dump *d = good("{\"content\":\"a\",\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":2,"
                   "\"completion_probabilities\":"
                   "[{\"id\":5,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.1,\"top_logprobs\":[]}]}",
                   &partial);
    cr_assert(dump_record_at(d, 0)->flags & DUMP_NO_TOP2, "no top-2");
    cr_assert_str_eq(value(d, "import.without_top2"), "1", "counted");
    cr_assert_str_eq(value(d, "import.tokens_told"), "2", "told");
    dump_close(d);
    static const char late[] =
        "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null}]}\n\n"
        "data: {\"choices\":[{\"index\":0,\"text\":\"b\",\"logprobs\":{\"tokens\":[\"b\"],"
        "\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"b\":-0.5,\"x\":-2}]},\"finish_reason\":"
        "\"stop\"}]}\n\n";
    refused(late, &plain, "line 1, byte 6: text without logprobs");
    d = good(late, &partial);
    cr_assert_eq(dump_count(d), 1, "the token that has them");
    dump_close(d);
}
