/* test_witness.c - options that never change a bit and are parsed and ignored: chunk, threads, graphs. The witness sees it,
 * and the row about it is red.
 * Source: ours. Exercise: ctest -R unit.witness */
#include <criterion/criterion.h>

#include <string.h>

#include "gates/model/streams.h"

TestSuite(witness, .timeout = 60);

static struct evidence last;
static void keep_last(void *sink, const struct evidence *row) {
    (void)sink;
    last = *row;
}

static struct stream_arm arm_of(struct gate_context *c) {
    memset(c, 0, sizeof *c);
    c->config = engine_config_default();
    c->emit = keep_last;
    struct stream_arm a = {c, "stream.test", ROUTE_F16, NULL, NULL};
    return a;
}

/* What 42 tokens and `decodes` steps behind them look like to the witness. */
static struct witness watched(const struct engine_config *config, int decodes) {
    engine *e = NULL;
    session *s = NULL;
    struct err err = {""};
    int32_t ids[42];
    for (int i = 0; i < 42; i++) ids[i] = 300 + i;
    cr_assert_eq(engine_open(FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf", config, &e, &err),
                 STATUS_OK, "%s", err.message);
    cr_assert_eq(witness_open(e, &err), STATUS_OK);
    cr_assert_eq(witness_open(e, &err), STATUS_USAGE, "one engine at a time");
    cr_assert_eq(session_create(e, &s, &err), STATUS_OK);
    cr_assert_eq(session_prefill(s, ids, 42, &err), STATUS_OK);
    for (int i = 0; i < decodes; i++) cr_assert_eq(session_decode(s, 1, &err), STATUS_OK);
    const struct witness w = witness_close();
    session_close(s);
    engine_close(e);
    return w;
}

/* No bit and no count of kernels knows how a prompt was cut. */
Test(witness, a_chunk_ignored) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    struct engine_config seven = c.config;
    seven.chunk = 7;
    const struct witness w = watched(&seven, 4), none = {0, 0, 0, 0};
    cr_assert(w.rows == 7 && w.decodes == 4 && w.ripe == 2 && w.replayed == 0, "%d %d", w.rows, (int)w.ripe);
    streams_chunk_row(&a, 7, &w, 42);
    cr_assert_eq(last.verdict, VERDICT_PASS, "%s", last.note);
    streams_chunk_row(&a, 7, &w, 8); /* a last token by itself */
    cr_assert_eq(last.verdict, VERDICT_PASS, "%s", last.note);
    static const int others[] = {1, 6, 8, 64, CHUNK_DEFAULT};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        streams_chunk_row(&a, others[i], &w, 42);
        cr_assert(last.verdict == VERDICT_FAIL && strcmp(last.arm, "heeded") == 0, "%s", last.test_case);
    }
    streams_chunk_row(&a, 7, &none, 42);
    cr_assert_eq(last.verdict, VERDICT_FAIL, "no step was seen");
    for (int longest = 0; longest < 2; longest++) {
        streams_chunk_row(&a, 7, &w, longest);
        cr_assert_eq(last.verdict, VERDICT_SKIP, "nothing to cut in %d tokens", longest);
    }
}

/* What ran is what the arm's own engine counted; of nothing that ran there is no green row. */
Test(witness, nothing_launched) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c), own;
    struct err err = {""};
    session *s = NULL;
    const int32_t ids[2] = {300, 301};
    c.model_path = FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf";
    cr_assert_eq(streams_other_open(&a, &c.config, &own, &err), STATUS_OK, "%s", err.message);
    cr_assert(own.engine != NULL && a.engine == NULL);
    streams_launched_row(&own, "idle");
    cr_assert(last.verdict == VERDICT_FAIL && last.kernels[0] == '\0', "%s", last.kernels);
    cr_assert(strcmp(last.arm, "launched") == 0 && strcmp(last.test_case, "idle") == 0);
    cr_assert_eq(session_create(own.engine, &s, &err), STATUS_OK);
    cr_assert_eq(session_prefill(s, ids, 2, &err), STATUS_OK);
    session_close(s);
    streams_other_close(&own, "busy", STATUS_OK);
    cr_assert_eq(last.verdict, VERDICT_PASS, "%s", last.note);
    cr_assert(strstr(last.kernels, "attention_f16") != NULL && strstr(last.kernels, "matmul_f16") != NULL);
    cr_assert(strcmp(last.test_case, "busy") == 0 && own.engine == NULL);
}

Test(witness, threads_ignored) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    for (int n = 1; n <= 3; n += 2) {
        engine *e = NULL;
        struct err err = {""};
        struct engine_config config = c.config;
        config.compute.n_threads = n;
        const struct witness_threads before = witness_threads();
        cr_assert_eq(
            engine_open(FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf", &config, &e, &err),
            STATUS_OK, "%s", err.message);
        const int started = witness_started(&before);
        streams_threads_row(&a, n, started);
        cr_assert_eq(last.verdict, VERDICT_PASS, "%s: %s", last.test_case, last.note);
        streams_threads_row(&a, n + 1, started);
        cr_assert_eq(last.verdict, VERDICT_FAIL, "%s: %s", last.test_case, last.note);
        engine_close(e);
    }
}

Test(witness, graphs_ignored) {
    struct gate_context c;
    struct stream_arm a = arm_of(&c);
    const struct witness eager = {498, 5, 3, 0}, graphs = {498, 5, 3, 3}, brief = {498, 2, 0, 0};
    streams_graphs_row(&a, &graphs, &eager);
    cr_assert_eq(last.verdict, VERDICT_PASS, "%s", last.note);
    streams_graphs_row(&a, &eager, &eager);
    cr_assert(last.verdict == VERDICT_FAIL && last.value == 1, "graphs were asked for: %s", last.note);
    streams_graphs_row(&a, &graphs, &graphs);
    cr_assert(last.verdict == VERDICT_FAIL && last.value == 1, "no graphs were asked for: %s", last.note);
    streams_graphs_row(&a, &brief, &brief);
    cr_assert_eq(last.verdict, VERDICT_SKIP, "too few steps to tell");
}
