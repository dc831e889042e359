/* cmd_ab.c - `forkgate ab`: two geometries of this build, or two binaries, timed in turns; a decision under a named bar. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/ab.h"
#include "gates/file_hash.h"
#include "gates/file_out.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "gates/slurp.h"

struct ab_args {
    struct cli_engine engine;
    const char *binary[2], *geometry[2]; /* of A and of B */
    const char *file, *csv;
    int rounds, n_decode, decode, n_tokens;
    double warm_s, bar; /* bar: percent */
};

static const struct cli_option options[] = {
    {"a", 0, "BINARY", "side A: a forkgate binary (default: this build)", 1,
     CLI_AT(struct ab_args, binary[0])},
    {"b", 0, "BINARY", "side B", 1, CLI_AT(struct ab_args, binary[1])},
    {"a-geometry", 0, "LIST", "side A's geometry, as --geometry", 1, CLI_AT(struct ab_args, geometry[0])},
    {"b-geometry", 0, "LIST", "side B's geometry", 1, CLI_AT(struct ab_args, geometry[1])},
    {"bar", 0, "PERCENT", "gain that B must reach (default +1.5)", 2,
     CLI_WITHIN(struct ab_args, bar, 0.1, 900)},
    {"metric", 0, "prefill|decode", "what the bar is about (default prefill)", 2,
     CLI_AT(struct ab_args, decode)},
    {"rounds", 0, "N", "rounds of A, A again and B (default 7)", 2,
     CLI_WITHIN(struct ab_args, rounds, AB_ROUNDS_MIN, AB_ROUNDS_MAX)},
    {"warm", 0, "SECONDS", "warm-up of each side (default 1)", 2,
     CLI_WITHIN(struct ab_args, warm_s, 0, 3600)},
    {"file", 'f', "FILE", "prompt (default fixtures/prompts/whale-512.txt)", 2, CLI_AT(struct ab_args, file)},
    {"tokens", 0, "N", "a prompt of N pseudo-random tokens instead of a file", 2,
     CLI_WITHIN(struct ab_args, n_tokens, 1, 1 << 20)},
    {"decode", 0, "N", "decode steps after the prompt (default 16)", 2,
     CLI_WITHIN(struct ab_args, n_decode, 0, 1 << 20)},
    {"csv", 0, "FILE", "write every round as CSV", 2, CLI_AT(struct ab_args, csv)},
    CLI_LAST};

static void check(struct argp_state *state, void *args) {
    const struct ab_args *a = args;
    if (a->binary[0] == NULL && a->binary[1] == NULL && a->geometry[0] == NULL && a->geometry[1] == NULL)
        argp_error(state, "give two sides: --a and --b, or --a-geometry and --b-geometry");
    if (a->n_tokens > 0 && (a->binary[0] != NULL || a->binary[1] != NULL))
        argp_error(state, "--tokens goes with geometries of this build, not with --a or --b");
    if (a->decode && a->n_decode == 0) argp_error(state, "--metric decode needs --decode of at least 1");
}

static const struct cli_table arguments = {
    CLI_ARGP("",
             "Is B faster than A? Rounds of A, A again and B in alternating order after a warm-up; every "
             "round is printed. The bar is named before anything is measured. When A and A again differ by "
             "more than half the bar there is no decision.\v"
             "Examples:\n"
             "  forkgate ab --b-geometry fa_tkv=64\n"
             "  forkgate ab --a before/forkgate --b build/forkgate --bar 1.5 --csv ab.csv\n"
             "  forkgate ab --a-geometry fa_tq=64 --b-geometry fa_tq=128 --backend cuda\n"
             "Exit: 0 B reaches the bar; 1 it does not; 2 no decision, or trouble.\n",
             cli_engine_children),
    options, NULL, check};

/* ---- sides --------------------------------------------------------------------------------------------------------- */
struct ab_side {
    struct engine_config config;
    bench *bench;            /* this build */
    struct ab_binary binary; /* a program, run as a child */
};

/* Both sides are measured the same way: an engine of this process against a child would compare the ways. */
static int by_binary(const struct ab_args *a) {
    return a->binary[0] != NULL || a->binary[1] != NULL;
}

static const char *program_of(const struct ab_args *a, int k) {
    return a->binary[k] != NULL ? a->binary[k] : cli_self();
}

static enum status side_start(const struct ab_args *a, int k, const struct bench_work *w, const char *file,
                              struct ab_side *s, ab_measure **measure, void **ctx, struct err *err) {
    s->config = a->engine.config;
    if (a->geometry[k] != NULL)
        RETURN_IF_ERROR(geometry_parse(a->geometry[k], &s->config.compute.geometry, err));
    if (by_binary(a)) {
        struct ab_binary b = {program_of(a, k), a->engine.model, file, s->config, a->n_decode, a->warm_s};
        s->binary = b;
        *measure = ab_measure_binary;
        *ctx = &s->binary;
        return STATUS_OK;
    }
    RETURN_IF_ERROR(bench_start(a->engine.model, &s->config, w, &s->bench, err));
    *measure = ab_measure_bench;
    *ctx = s->bench;
    return bench_warm(s->bench, a->warm_s, err);
}

static void print_side(const struct ab_args *a, int k, const struct ab_side *s) {
    char geometry[96];
    geometry_format(&s->config.compute.geometry, geometry, sizeof geometry);
    printf("%c: %s, %s, route %s\n", "AB"[k], a -> binary[k] != NULL ? a -> binary[k] : "this build",
           geometry, route_name(s->config.compute.route));
}

static void print_round(void *sink, int round, enum ab_arm arm, const struct ab_sample *s) {
    (void)sink;
    printf("round %-3d %-2s  prefill %10.2f tok/s   decode %9.2f tok/s   clock %s\n", round + 1,
           ab_arm_name(arm), s->round.prefill, s->round.decode, s->clock);
    (void)fflush(stdout);
}

/* The same program is the same bytes, by whatever name. */
static enum status check_differ(const struct ab_args *a, const struct ab_side s[2], struct err *err) {
    const struct geometry *g = &s[0].config.compute.geometry, *h = &s[1].config.compute.geometry;
    struct hash128 x, y;
    if (g->fa_tq != h->fa_tq || g->fa_tkv != h->fa_tkv || g->fa_chunk != h->fa_chunk ||
        g->fa_splits != h->fa_splits)
        return STATUS_OK;
    RETURN_IF_ERROR(file_hash(program_of(a, 0), &x, err));
    RETURN_IF_ERROR(file_hash(program_of(a, 1), &y, err));
    if (!hash_equal(&x, &y)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "A and B are the same program with the same geometry: nothing to decide");
}

/* ---- the run --------------------------------------------------------------------------------------------------------- */
static int decide(const struct ab_args *a, const struct ab_result *r) {
    static const int codes[AB_VERDICTS] = {0, 0, 1, 1, EXIT_TROUBLE};
    struct ab_decision d = ab_decide(r, a->decode, 0.01 * a->bar);
    printf("%s\n", r->same_logits
                       ? "logits: B computes A's bits"
                       : "logits: B computes other bits than A (identity and tolerance judge that)");
    printf("%s\n", d.reason);
    printf("forkgate: %s\n", ab_verdict_name(d.verdict));
    return codes[d.verdict];
}

static enum status measure(const struct ab_args *a, const struct bench_work *w, const char *file,
                           struct ab_side s[2], struct ab_result *result, struct err *err) {
    struct ab_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.rounds = a->rounds;
    plan.on_round = print_round;
    for (int k = 0; k < 2; k++) {
        RETURN_IF_ERROR(side_start(a, k, w, file, &s[k], &plan.measure[k], &plan.ctx[k], err));
        print_side(a, k, &s[k]);
    }
    RETURN_IF_ERROR(check_differ(a, s, err));
    printf("bar: %s %+.2f %%, named before measuring\n", a->decode ? "decode" : "prefill", a->bar);
    RETURN_IF_ERROR(ab_run(&plan, result, err));
    return a->csv == NULL ? STATUS_OK : ab_write_csv(a->csv, result, err);
}

static int run(int argc, char **argv) {
    static struct ab_result result;
    struct ab_args a;
    struct ab_side sides[2];
    struct err err = {""};
    char path[4096], *prompt = NULL;
    size_t n = 0;
    memset(&a, 0, sizeof a);
    memset(sides, 0, sizeof sides);
    cli_engine_default(&a.engine);
    a.rounds = 7;
    a.n_decode = 16;
    a.warm_s = 1.0;
    a.bar = 1.5;
    cli_parse(&arguments.argp, argc, argv, &a);
    (void)snprintf(path, sizeof path, "%.3900s/fixtures/prompts/whale-512.txt", cli_source_dir());
    const char *file = a.file != NULL ? a.file : path;
    const char *const inputs[] = {file, a.binary[0], a.binary[1], a.engine.model};
    if (a.csv != NULL &&
        (file_out_check(a.csv, 1, &err) != STATUS_OK || file_out_spares(a.csv, inputs, 4, &err) != STATUS_OK))
        return cli_fail("ab", &err);
    if (slurp_file(file, &prompt, &n, &err) != STATUS_OK) return cli_fail("ab", &err);
    struct bench_work w = {file, prompt, n, a.n_decode, a.n_tokens};
    enum status s = measure(&a, &w, file, sides, &result, &err);
    for (int k = 0; k < 2; k++) bench_close(sides[k].bench);
    free(prompt);
    return s == STATUS_OK ? decide(&a, &result) : cli_fail("ab", &err);
}

const struct command cmd_ab = {"ab", "two builds or geometries timed in turns: is B faster, really?",
                               &arguments.argp, run};
