/* cmd_bench.c - `forkgate bench`: prefill and decode speed of one engine, every round printed, ops timed on request. */
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/bench.h"
#include "gates/bench_kernels.h"
#include "gates/file_out.h"
#include "gates/stats.h"
#include "gates/table.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "gates/slurp.h"

#define ROUNDS_MAX 1000

struct bench_args {
    struct cli_engine engine;
    const char *file, *csv;
    int rounds, ops, kernels;
    double warm_s;
    struct bench_work work; /* the prompt comes later */
};

static const struct cli_option options[] = {
    {"file", 'f', "FILE", "prompt (default fixtures/prompts/whale-512.txt)", 1,
     CLI_AT(struct bench_args, file)},
    {"tokens", 0, "N", "a prompt of N pseudo-random tokens instead of a file", 1,
     CLI_WITHIN(struct bench_args, work.n_tokens, 1, 1 << 20)},
    {"decode", 0, "N", "decode steps after the prompt (default 32)", 1,
     CLI_WITHIN(struct bench_args, work.n_decode, 0, 1 << 20)},
    {"rounds", 0, "N", "rounds that count (default 5)", 1,
     CLI_WITHIN(struct bench_args, rounds, 1, ROUNDS_MAX)},
    {"warm", 0, "SECONDS", "warm-up before them (default 1)", 1,
     CLI_WITHIN(struct bench_args, warm_s, 0, 3600)},
    {"ops", 0, NULL, "one more round with every op timed apart", 1, CLI_AT(struct bench_args, ops)},
    {"kernels", 0, NULL,
     "no model: single ops of a CUDA device at the shapes of a 7B model, beside its own ceilings", 1,
     CLI_AT(struct bench_args, kernels)},
    {"csv", 0, "FILE", "write rounds and ops as CSV", 1, CLI_AT(struct bench_args, csv)},
    CLI_LAST};

static const struct cli_table arguments = {
    CLI_ARGP("",
             "Measures prefill and decode of one engine in tokens a second. The logits are hashed in every "
             "round: a round that computes something else is an error, not a time. Two runs of this command "
             "are not a comparison: see forkgate ab.\v"
             "Examples:\n"
             "  forkgate bench\n"
             "  forkgate bench -f fixtures/prompts/boat-2k.txt --decode 64 --rounds 9 --ops\n"
             "  forkgate bench --backend cuda --route q8 --csv bench.csv\n"
             "  forkgate bench --backend cuda -m 7b.gguf --tokens 3325 --ops\n"
             "  forkgate bench --backend cuda --kernels --rounds 7 --csv kernels.csv\n"
             "Exit: 0 measured; 2 trouble, or rounds that differ in their logits.\n",
             cli_engine_children),
    options, NULL, NULL};

struct measured {
    struct bench_round rounds[ROUNDS_MAX];
    double prefill[ROUNDS_MAX], decode[ROUNDS_MAX];
    int n;
    struct op_times ops[2]; /* prefill, decode */
};

/* ---- output ------------------------------------------------------------------------------------------------------ */
static void print_rounds(const struct bench_args *a, const struct measured *m, size_t n_prompt,
                         const char *clock) {
    char hash[HASH_TEXT_BYTES], geometry[96];
    geometry_format(&a->engine.config.compute.geometry, geometry, sizeof geometry);
    hash_format(&m->rounds[0].logits, hash);
    printf("%zu prompt tokens, %d decode steps | route %s, %s | clock %s\n", n_prompt, a->work.n_decode,
           route_name(a->engine.config.compute.route), geometry, clock);
    for (int i = 0; i < m->n; i++)
        printf("round %-4d prefill %10.2f tok/s   decode %8.2f tok/s\n", i + 1, m->prefill[i], m->decode[i]);
    printf("median     prefill %10.2f tok/s   decode %8.2f tok/s\n", stats_median(m->prefill, (size_t)m->n),
           stats_median(m->decode, (size_t)m->n));
    printf("logits %s in all %d rounds\n", hash, m->n);
    size_t first = m->rounds[0].device_bytes, last = m->rounds[m->n - 1].device_bytes;
    if (first > 0)
        printf("device memory %.3f GB in use in round 1, %+.0f bytes in round %d\n", (double)first * 1e-9,
               (double)last - (double)first, m->n);
}

static double sum_of(const struct op_times *t) {
    double sum = 0.0;
    for (int op = 0; op < TIMED_OPS; op++) sum += t->seconds[op];
    return sum;
}

static void print_ops(const struct measured *m, int n_decode) {
    double prefill = sum_of(&m->ops[0]), decode = sum_of(&m->ops[1]);
    printf("%-12s %10s %7s   %12s %7s\n", "op", "prefill ms", "share", "decode us/tok", "share");
    for (int op = 0; op < TIMED_OPS; op++) {
        double p = m->ops[0].seconds[op], d = m->ops[1].seconds[op];
        printf("%-12s %10.3f %6.1f%%   %12.2f %6.1f%%\n", op_timer_name((enum timed_op)op), 1e3 * p,
               100.0 * p / prefill, n_decode > 0 ? 1e6 * d / n_decode : 0.0,
               n_decode > 0 ? 100.0 * d / decode : 0.0);
    }
}

static void put_op(table_writer *w, const char *phase, enum timed_op op, const struct op_times *t) {
    table_put_text(w, "op");
    for (int i = 0; i < 4; i++) table_put_empty(w);
    table_put_text(w, phase);
    table_put_text(w, op_timer_name(op));
    table_put_u64(w, t->calls[op]);
    table_put_f64(w, t->seconds[op]);
    table_put_empty(w);
    table_end_row(w);
}

static enum status write_csv(const struct bench_args *a, const struct measured *m, struct err *err) {
    static const char *const columns[] = {"what",  "round", "prefill_tok_s", "decode_tok_s", "logits",
                                          "phase", "op",    "calls",         "seconds",      "device_bytes"};
    char hash[HASH_TEXT_BYTES];
    table_writer *w = NULL;
    RETURN_IF_ERROR(table_writer_open(a->csv, NULL, TABLE_CRLF, columns, 10, &w, err));
    for (int i = 0; i < m->n; i++) {
        hash_format(&m->rounds[i].logits, hash);
        table_put_text(w, "round");
        table_put_i64(w, i + 1);
        table_put_f64(w, m->prefill[i]);
        table_put_f64(w, m->decode[i]);
        table_put_text(w, hash);
        for (int k = 0; k < 4; k++) table_put_empty(w);
        table_put_u64(w, m->rounds[i].device_bytes);
        table_end_row(w);
    }
    for (int op = 0; a->ops && op < TIMED_OPS; op++) {
        put_op(w, "prefill", (enum timed_op)op, &m->ops[0]);
        put_op(w, "decode", (enum timed_op)op, &m->ops[1]);
    }
    return table_writer_finish(w, err);
}

/* ---- measuring ----------------------------------------------------------------------------------------------------- */
static enum status measure(const struct bench_args *a, struct measured *m, size_t *n_prompt,
                           struct err *err) {
    struct engine_config config = a->engine.config;
    bench *b = NULL;
    if (a->ops) config.compute.graphs = 0; /* a captured graph would pass the shims by */
    RETURN_IF_ERROR(bench_start(a->engine.model, &config, &a->work, &b, err));
    *n_prompt = bench_prompt_tokens(b);
    enum status s = bench_warm(b, a->warm_s, err);
    for (m->n = 0; m->n < a->rounds && s == STATUS_OK; m->n++) {
        s = bench_run(b, &m->rounds[m->n], err);
        m->prefill[m->n] = m->rounds[m->n].prefill;
        m->decode[m->n] = m->rounds[m->n].decode;
        cli_progress("bench: round", (uint64_t)m->n + 1, (uint64_t)a->rounds);
    }
    cli_progress_end();
    if (s == STATUS_OK && a->ops) s = bench_ops(b, &m->ops[0], &m->ops[1], err);
    bench_close(b);
    return s;
}

/* ---- single ops ---------------------------------------------------------------------------------------------------- */
static void kernels_progress(int done, int all) {
    cli_progress("bench: round", (uint64_t)done, (uint64_t)all);
}

static int run_kernels(const struct bench_args *a) {
    static struct kernel_times t;
    struct err err = {""};
    enum status s = bench_kernels(&a->engine.config.compute, a->rounds, &t, kernels_progress, &err);
    cli_progress_end();
    if (s == STATUS_OK && a->csv != NULL) s = bench_kernels_csv(a->csv, &t, &err);
    if (s != STATUS_OK) return cli_fail("bench", &err);
    for (int c = 0; c < CEILINGS; c++)
        printf("ceiling %-12s %10.1f %s\n", ceiling_name((enum ceiling)c),
               stats_median(t.ceiling[c], (size_t)t.rounds) *
                   (c == CEILING_READ || c == CEILING_COPY ? 1e-9 : 1e-12),
               c == CEILING_READ || c == CEILING_COPY ? "GB/s" : "T/s");
    for (int i = 0; i < t.n; i++) {
        const struct kernel_time *k = &t.time[i];
        enum ceiling of;
        double us = 1e6 * stats_median(k->seconds, (size_t)t.rounds), share = kernel_share(&t, k, &of);
        printf("%-3s %-17s %-38s %9.2f us %8.1f GB/s %7.1f T/s  %3.0f %% of %s\n", route_name(k->route),
               k->op, k->shape, us, k->bytes / us * 1e-3, k->operations / us * 1e-6, 100.0 * share,
               ceiling_name(of));
    }
    return 0;
}

static int run(int argc, char **argv) {
    static struct measured m;
    struct bench_args a;
    struct err err = {""};
    char path[4096], clock[24], *prompt = NULL;
    size_t n = 0, n_prompt = 0;
    memset(&a, 0, sizeof a);
    cli_engine_default(&a.engine);
    a.rounds = 5;
    a.work.n_decode = 32;
    a.warm_s = 1.0;
    cli_parse(&arguments.argp, argc, argv, &a);
    const char *const inputs[] = {a.file, a.engine.model};
    if (a.csv != NULL &&
        (file_out_check(a.csv, 1, &err) != STATUS_OK || file_out_spares(a.csv, inputs, 2, &err) != STATUS_OK))
        return cli_fail("bench", &err);
    if (a.kernels) return run_kernels(&a);
    (void)snprintf(path, sizeof path, "%.3900s/fixtures/prompts/whale-512.txt", cli_source_dir());
    if (slurp_file(a.file != NULL ? a.file : path, &prompt, &n, &err) != STATUS_OK)
        return cli_fail("bench", &err);
    a.work.prompt_name = a.file != NULL ? a.file : "whale-512.txt";
    a.work.prompt = prompt;
    a.work.prompt_bytes = n;
    bench_clock(clock, sizeof clock);
    enum status s = measure(&a, &m, &n_prompt, &err);
    free(prompt);
    if (s == STATUS_OK && a.csv != NULL) s = write_csv(&a, &m, &err);
    if (s != STATUS_OK) return cli_fail("bench", &err);
    print_rounds(&a, &m, n_prompt, clock);
    if (a.ops) print_ops(&m, a.work.n_decode);
    return 0;
}

const struct command cmd_bench = {"bench", "prefill and decode speed of one engine, logits checked",
                                  &arguments.argp, run};
