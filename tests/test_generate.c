/* test_generate.c - prompts become dumps: greedy, forced, batched; what is stored agrees with the engine's own rows. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/battery.h"
#include "tests/dump_maker.h"

#define ROOT  FORKGATE_SOURCE_DIR
#define MODEL ROOT "/fixtures/models/seedling-q8_0.gguf"

static engine *open_engine(int n_ctx) {
    struct engine_config c = engine_config_default();
    struct err err = {""};
    engine *e = NULL;
    c.compute.route = ROUTE_Q8;
    c.compute.n_threads = 1;
    c.n_ctx = n_ctx;
    cr_assert_eq(engine_open(MODEL, &c, &e, &err), STATUS_OK, "open: %s", err.message);
    return e;
}

static struct generate_request request(const char *prompt, int n) {
    struct generate_request r;
    memset(&r, 0, sizeof r);
    r.prompt_name = "test";
    r.prompt = prompt;
    r.prompt_bytes = strlen(prompt);
    r.n = n;
    r.sampler = sampler_greedy();
    return r;
}

static dump *run_one(engine *e, struct generate_request r) {
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(generate_run(e, &r, 1, 1, NULL, NULL, &d, &err), STATUS_OK, "%s", err.message);
    return d;
}

Test(generate, a_record_is_what_the_row_says) {
    engine *e = open_engine(0);
    struct generate_request r = request("It was the best of times", 6);
    r.n_top_k = 5;
    r.full_logits = 1;
    dump *d = run_one(e, r);
    cr_assert_eq(dump_count(d), 6);
    for (uint64_t i = 0; i < 6; i++) {
        int n_vocab = 0, k = 0;
        const struct dump_record *rec = dump_record_at(d, i);
        const float *row = dump_logits(d, i, &n_vocab);
        const struct dump_top *top = dump_top_k(d, i, &k);
        double sum = 0;
        int better = 0;
        for (int j = 0; j < n_vocab; j++) {
            sum += exp((double)row[j]);
            better += row[j] > rec->logit2 && j != rec->id1;
        }
        cr_assert_eq(better, 0, "step %d: %d logits above the top-2", (int)i, better);
        cr_assert_eq(rec->token, rec->id1);
        cr_assert(fabs(rec->logsumexp - log(sum)) < 1e-5, "step %d: logsumexp", (int)i);
        cr_assert_eq(k, 5);
        cr_assert_eq(top[0].id, rec->id1);
        cr_assert_eq(top[1].id, rec->id2);
        cr_assert(top[3].logit >= top[4].logit, "step %d: top-k out of order", (int)i);
        struct hash128 h = hash_logits(row, (size_t)n_vocab);
        cr_assert(hash_equal(&h, &rec->row), "step %d: row hash", (int)i);
    }
    dump_close(d);
    engine_close(e);
}

Test(generate, batched_streams_equal_streams_alone_also_when_they_end_early) {
    static const char *const prompts[] = {"Call me",        "The", "He said that she", "\"Yes,\" he", "A",
                                          "In the morning", "x"};
    enum { N = sizeof prompts / sizeof prompts[0] };
    engine *e = open_engine(40); /* a small context: streams end at its end, at different steps */
    struct generate_request r[N];
    dump *together[N];
    struct err err = {""};
    for (int i = 0; i < N; i++) r[i] = request(prompts[i], i == 1 ? 1 : 20 + 5 * i);
    cr_assert_eq(generate_run(e, r, N, 3, NULL, NULL, together, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < N; i++) {
        dump *alone = run_one(e, r[i]);
        struct dump_results a = dump_results(alone), b = dump_results(together[i]);
        cr_assert(hash_equal(&a.stream, &b.stream) && hash_equal(&a.logits, &b.logits), "prompt %d differs",
                  i);
        const char *stop = provenance_get(dump_provenance(alone), "stop");
        cr_assert(strcmp(stop, "length") == 0 || strcmp(stop, "context") == 0, "prompt %d stopped by %s", i,
                  stop);
        if (strcmp(stop, "context") == 0) {
            int prompt = atoi(provenance_get(dump_provenance(alone), "prompt.tokens"));
            cr_assert_eq((int)dump_count(alone), 40 - prompt + 1, "prompt %d: %d records", i,
                         (int)dump_count(alone));
        }
        dump_close(alone);
        dump_close(together[i]);
    }
    engine_close(e);
}

Test(generate, forcing_a_stream_through_prefill_equals_decoding_it) {
    engine *e = open_engine(0);
    struct err err = {""};
    struct generate_request r = request("The ship sailed", 24);
    dump *base = run_one(e, r), *scored = NULL;
    r.follow = base;
    dump *forced = run_one(e, r);
    cr_assert_eq(generate_score(e, &r, &scored, &err), STATUS_OK, "%s", err.message);
    struct dump_results a = dump_results(base), b = dump_results(forced), c = dump_results(scored);
    cr_assert(hash_equal(&a.logits, &b.logits), "forced decode differs");
    cr_assert(hash_equal(&a.logits, &c.logits), "forced prefill differs");
    cr_assert(provenance_get(dump_provenance(scored), "follow") != NULL);
    dump_close(base);
    dump_close(forced);
    dump_close(scored);
    engine_close(e);
}

/* A stream of two tokens of a larger vocabulary, or of one that knows no ids in its middle. */
static dump *foreign_stream(int32_t first, int32_t second) {
    struct made m = make_begin(NULL, 0, NULL);
    make_record(&m, greedy(first, 3.0f, 1, 2.0f), "a", 1, NULL);
    make_record(&m, greedy(second, 3.0f, 1, 2.0f), "b", 1, NULL);
    return make_end(&m);
}

Test(generate, a_forced_token_that_the_model_does_not_have_is_refused_before_any_work) {
    engine *e = open_engine(64);
    struct engine_info info;
    engine_describe(e, &info);
    const int32_t bad[][3] = {
        {info.n_vocab, 1, 0}, {1, info.n_vocab, 1}, {1, INT32_MAX, 1}, {-1, 1, 0}, {1, -2, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        dump *follow = foreign_stream(bad[i][0], bad[i][1]), *d = NULL;
        struct generate_request r = request("The ship", 2);
        struct err err = {""};
        char record[32];
        r.follow = follow;
        r.out = "test_generate_foreign.fgd";
        (void)snprintf(record, sizeof record, "record %d forces token", (int)bad[i][2]);
        cr_assert_eq(generate_run(e, &r, 1, 1, NULL, NULL, &d, &err), STATUS_USAGE, "decode %d", (int)i);
        cr_assert(strstr(err.message, record) != NULL, "%s", err.message);
        cr_assert_eq(generate_score(e, &r, &d, &err), STATUS_USAGE, "prefill %d", (int)i);
        cr_assert(strstr(err.message, record) != NULL, "%s", err.message);
        cr_assert(access(r.out, F_OK) != 0, "a refused run left a file");
        dump_close(follow);
    }
    engine_close(e);
}

Test(generate, a_request_that_cannot_run_leaves_no_file) {
    engine *e = open_engine(16);
    struct err err = {""};
    dump *d = NULL;
    struct generate_request r = request("", 4);
    r.out = "test_generate_refused.fgd";
    cr_assert_eq(generate_run(e, &r, 1, 1, NULL, NULL, &d, &err), STATUS_USAGE, "an empty prompt ran");
    cr_assert(access(r.out, F_OK) != 0, "a refused run left a file");
    r = request("a prompt that is longer than the sixteen positions of this very small context, certainly",
                4);
    cr_assert_eq(generate_run(e, &r, 1, 1, NULL, NULL, &d, &err), STATUS_LIMIT, "a long prompt ran");
    cr_assert(d == NULL);
    engine_close(e);
}

Test(battery, the_committed_battery_opens_and_a_bad_row_is_named) {
    struct battery b;
    struct err err = {""};
    cr_assert_eq(battery_open(ROOT "/fixtures/battery.csv", ROOT "/fixtures/prompts", &b, &err), STATUS_OK,
                 "%s", err.message);
    cr_assert_eq(b.n, 64);
    battery_close(&b);
    static const char *const bad[][2] = {
        {"name,file,offset,bytes\na,holmes.txt,0,4\na,holmes.txt,1,4\n", "twice"},
        {"name,file,offset,bytes\na,../x,0,4\n", "plain"},
        {"name,file,offset,bytes\na,holmes.txt,40,4\n", "not all there"},
        {"name,file,offset\na,holmes.txt,4\n", "bytes"},
        {"name,file,offset,bytes\na,holmes.txt,-1,4\n", "offset"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FILE *f = fopen("test_battery_bad.csv", "wb");
        fputs(bad[i][0], f);
        fclose(f);
        cr_assert(battery_open("test_battery_bad.csv", ROOT "/fixtures/prompts", &b, &err) != STATUS_OK,
                  "row %zu opened", i);
        cr_assert(strstr(err.message, bad[i][1]) != NULL, "row %zu: message says %s", i, err.message);
    }
    remove("test_battery_bad.csv");
}
