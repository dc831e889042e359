/* test_import_refused.c - answers that are broken, cut, mixed or not to be judged are refused with line and byte, also deep in
 * a large file. Source: ours. Exercise: ctest -R unit.import_refused */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/import_answers.h"

Test(import_refused, broken_json_is_refused_where_it_breaks) {
    refused("{\"choices\":[\n{\"index\":0,,\"text\":\"x\"}]}", &plain,
            "t.json: line 2, byte 24: a key is missing");
    refused(CHAT(ENTRY("a", "b") ",{\"token\":\"b\",\"logprob\":-0.5x}"), &plain,
            "line 1, byte 251: not JSON");
    refused(CHAT("{\"token\":\"b\",\"logprob\":NaN," TOP2("a", "b") "}"), &plain, "NaN is no JSON number");
    refused(CHAT("{\"token\":\"b\",\"logprob\":-Infinity," TOP2("a", "b") "}"), &plain,
            "Infinity is no JSON number");
    refused(CHAT("{\"token\":\"b\",\"logprob\":-1e999," TOP2("a", "b") "}"), &plain,
            "not JSON: real number overflow");
    refused("{\"choices\":[],\"choices\":[]}", &plain, "not JSON: duplicate object key");
    refused(
        COMPLETION("\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"a\":-0.5,\"a\":-0.5}]"),
        &plain, "not JSON: duplicate object key");
    refused("[1]", &plain, "line 1, byte 0: neither JSON nor a line of an event stream");
    refused("{\"a\":\"\x01\"}", &plain, "line 1, byte 6: a control byte inside a string");
    refused("{\"choices\":[{\"logprobs\":{\"content\":[1 2]}}]}", &plain,
            "a comma or a closing bracket is missing");
    refused("{\"choices\":[{\"logprobs\":{\"content\":[,1]}}]}", &plain,
            "a value is missing"); /* found by fuzzing */
    refused("{\"choices\":[{\"logprobs\":{\"content\":[{]}]}}]}", &plain, "is missing");
}

Test(import_refused, a_cut_stream_is_refused) {
    static const char whole[] = CHAT(ENTRY("a", "b") "," ENTRY("c", "d"));
    char cut[sizeof whole];
    struct err err = {""};
    dump *d = NULL;
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        memcpy(cut, whole, n);
        cut[n] = '\0';
        cr_assert_eq(import_text(cut, &plain, &d, &err), STATUS_FORMAT, "cut at %d", (int)n);
        cr_assert(strstr(err.message, "t.json: line 1, byte ") == err.message, "cut at %d: %s", (int)n,
                  err.message);
    }
    refused("data: "
            "{\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],\"token_"
            "logprobs\":[-0.5],"
            "\"top_logprobs\":[{\"a\":-0.5,\"x\":-2}]},\"finish_reason\":null}]}\n\ndata: [DONE]\n",
            &plain, "line 4, byte 174: the answer does not say that it is finished");
    refused("{\"content\":\"a\",\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":2,\"completion_"
            "probabilities\":"
            "[{\"id\":5,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.1,\"top_logprobs\":[{\"id\":5,"
            "\"token\":\"a\",\"logprob\":-0.1},"
            "{\"id\":6,\"token\":\"b\",\"logprob\":-1}]}]}",
            &plain, "the server made 2 tokens and lists 1");
}

Test(import_refused, what_cannot_be_judged_is_refused) {
    refused(CHAT("{\"token\":\"a\",\"logprob\":-0.5,\"top_logprobs\":[]}"), &plain,
            "token 0: top-2 is missing");
    refused(COMPLETION("\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],\"top_logprobs\":null"), &plain,
            "top-2 is missing");
    refused(COMPLETION("\"tokens\":[\"a\"],\"token_logprobs\":[null],\"top_logprobs\":[null]"), &plain,
            "logprob is null");
    refused(
        COMPLETION(
            "\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-0.5],\"top_logprobs\":[{\"a\":-0.5,\"b\":-1}]"),
        &plain, "of different lengths");
    refused(CHAT("{\"token\":\"a\",\"logprob\":0.5," TOP2("a", "b") "}"), &plain, "0.5 is no logprob");
    refused("{\"choices\":[{\"index\":0,\"text\":\"hello\",\"logprobs\":null,\"finish_reason\":\"stop\"}]}",
            &plain, "text without logprobs");
    refused("{\"content\":\"a\",\"stop\":true,\"completion_probabilities\":[{\"id\":1,\"token\":\"a\","
            "\"prob\":0.5,\"top_probs\":[]}]}",
            &plain, "probabilities behind the sampler");
    refused("{\"error\":{\"code\":400,\"message\":\"bad\\nrequest\"}}", &plain,
            "answered with an error: bad\\nrequest");
    refused("{\"hello\":1}", &plain, "not an answer that is known here");
    refused(CHAT(ENTRY("a", "b")) CHAT(ENTRY("a", "b")), &plain, "a second one begins");
    refused("", &plain, "no token in it");
}

Test(import_refused, mixed_tokenizers_are_noticed) {
    refused("{\"content\":\"ab\",\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":2,\"completion_"
            "probabilities\":["
            "{\"id\":5,\"token\":\"a\",\"bytes\":[97],\"logprob\":-0.1,\"top_logprobs\":[{\"id\":5,\"token\":"
            "\"a\",\"bytes\":[97],"
            "\"logprob\":-0.1},{\"id\":6,\"token\":\"b\",\"bytes\":[98],\"logprob\":-1}]},"
            "{\"id\":5,\"token\":\"q\",\"bytes\":[113],\"logprob\":-0.1,\"top_logprobs\":[{\"id\":5,"
            "\"token\":\"q\",\"bytes\":[113],"
            "\"logprob\":-0.1},{\"id\":6,\"token\":\"b\",\"bytes\":[98],\"logprob\":-1}]}]}",
            &plain, "token 1: id 5 is 'q' here and was another text before: mixed tokenizers");
    refused(CHAT(ENTRY("xyzzy-no-token", "b")), &with_ids, "'xyzzy-no-token' is no token of");
    refused("data: {\"model\":\"m\",\"choices\":[]}\n\ndata: {\"model\":\"k\",\"choices\":[]}\n", &plain,
            "line 3, byte 40: model was 'm' and is 'k' here");
    refused("{\"content\":\"a\",\"stop\":true,\"completion_probabilities\":[{\"id\":262,\"token\":\"q\","
            "\"bytes\":[113],\"logprob\":-0.1,"
            "\"top_logprobs\":[{\"id\":262,\"token\":\"q\",\"bytes\":[113],\"logprob\":-0.1},{\"id\":1,"
            "\"token\":\"b\",\"logprob\":-1}]}]}",
            &with_ids, "id 262 is 'q' here and another text in");
    refused("{\"content\":\"a\",\"stop\":true,\"completion_probabilities\":[{\"id\":99999,\"token\":\"q\","
            "\"logprob\":-0.1,"
            "\"top_logprobs\":[{\"id\":99999,\"token\":\"q\",\"logprob\":-0.1},{\"id\":1,\"token\":\"b\","
            "\"logprob\":-1}]}]}",
            &with_ids, "id 99999 is outside the vocabulary");
}

/* ---- sizes ----------------------------------------------------------------------------------------------------------- */

/* Documents that are larger than every window: one answer of 3 MB, its arrays behind each other, read from a file. */
Test(import_refused, arrays_longer_than_a_window_are_read_side_by_side) {
    enum { N = 30000 };
    char path[] = "/tmp/forkgate-test-json-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    cr_assert(f != NULL, "temporary file");
    fprintf(f, "{\"choices\":[{\"index\":0,\"text\":\"");
    for (int i = 0; i < 100000; i++) fputs("\\u00e9", f);
    fprintf(f, "\",\"finish_reason\":\"length\",\"logprobs\":{\"tokens\":[");
    for (int i = 0; i < N; i++) fprintf(f, "%s\"t%d\"", i > 0 ? "," : "", i % 1000);
    fprintf(f, "],\n\"token_logprobs\":[");
    for (int i = 0; i < N; i++) fprintf(f, "%s-%d.5", i > 0 ? ", " : "", i % 7);
    fprintf(f, "],\n\"top_logprobs\":[");
    for (int i = 0; i < N; i++)
        fprintf(f, "%s{\"t%d\":-%d.5,\"u%d\":-9.25}", i > 0 ? ",\n" : "", i % 1000, i % 7, i);
    fprintf(f, "]}}]}\n");
    cr_assert_eq(fclose(f), 0, "write");
    struct err err = {""};
    dump *d = NULL;
    enum status s = import_json(path, &plain, NULL, NULL, &d, &err);
    (void)remove(path);
    cr_assert_eq(s, STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_count(d), (uint64_t)N, "records");
    for (int i = 0; i < N; i++) {
        char want[16];
        uint32_t n = 0;
        const uint8_t *text = dump_text(d, (uint64_t)i, &n);
        (void)snprintf(want, sizeof want, "t%d", i % 1000);
        cr_assert(n == strlen(want) && memcmp(text, want, n) == 0, "token %d", i);
        cr_assert_float_eq(dump_record_at(d, (uint64_t)i)->logit1, -(i % 7) - 0.5, 1e-6, "logprob %d", i);
        cr_assert_float_eq(dump_record_at(d, (uint64_t)i)->logit2, -9.25, 1e-6, "top-2 %d", i);
    }
    dump_close(d);
}

/* An error deep in a large file names the place in the file, not in the piece that was parsed. */
Test(import_refused, places_are_those_of_the_file) {
    size_t room = 2000000, n = 0;
    char *text = malloc(room), want[80];
    cr_assert(text != NULL);
    n += (size_t)snprintf(
        text + n, room - n,
        "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"x\"},\"logprobs\":{\"content\":[\n");
    for (int i = 0; i < 5000; i++) n += (size_t)snprintf(text + n, room - n, "%s,\n", ENTRY("a", "b"));
    n += (size_t)snprintf(text + n, room - n, "{\"token\":\"a\",\"logprob\":nul}\n");
    (void)snprintf(want, sizeof want, "line 5002, byte %d: not JSON", (int)n - 2);
    (void)snprintf(text + n, room - n, "]},\"finish_reason\":\"stop\"}]}");
    refused(text, &plain, want);
    free(text);
    refused("{\"model\":\"m\",\n\"id\":nul}", &plain, "line 2, byte 22: not JSON");
    n = 0;
    text = calloc(1, room);
    n += (size_t)snprintf(text + n, room - n, "{\"choices\":[{\"text\":\"");
    memset(text + n, 'x', 100000); /* longer than what is kept of a string */
    n += 100000;
    (void)snprintf(want, sizeof want, "line 1, byte %d: not JSON", (int)n + 13);
    (void)snprintf(text + n, room - n, "\",\"index\":nul}]}");
    refused(text, &plain, want);
    free(text);
}
