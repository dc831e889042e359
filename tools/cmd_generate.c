/* cmd_generate.c - `forkgate generate`: one prompt in, text on stdout, optionally a dump. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/battery.h"
#include "gates/file_out.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "gates/slurp.h"

struct generate_args {
    struct cli_engine engine;
    const char *text, *file, *battery, *out;
    int n, top_k, full_logits;
};

static const struct cli_option options[] = {
    {"prompt", 'p', "TEXT", "prompt text", 1, CLI_AT(struct generate_args, text)},
    {"file", 'f', "FILE", "read the prompt from FILE, byte for byte", 1, CLI_AT(struct generate_args, file)},
    {"battery", 0, "FILE.csv", "run every prompt of a battery, eight streams at a time, into the folder -o",
     1, CLI_AT(struct generate_args, battery)},
    {"n", 'n', "N", "tokens to generate at most (default 64)", 1,
     CLI_WITHIN(struct generate_args, n, 1, 1 << 30)},
    {"out", 'o', "OUT.fgd", "write a dump (ids, top-2, row hashes, provenance)", 1,
     CLI_AT(struct generate_args, out)},
    {"top-k", 0, "K", "store the K largest logits of every step, at most 64", 1,
     CLI_WITHIN(struct generate_args, top_k, 0, 64)},
    {"full-logits", 0, NULL, "store every row of logits", 1, CLI_AT(struct generate_args, full_logits)},
    CLI_LAST};

static void refuse_operand(struct argp_state *state, void *args, char *arg) {
    (void)args;
    argp_error(state, "unexpected argument '%s' (a prompt goes after -p)", arg);
}

static void check(struct argp_state *state, void *args) {
    const struct generate_args *a = args;
    if ((a->text != NULL) + (a->file != NULL) + (a->battery != NULL) != 1)
        argp_error(state, "give one of -p TEXT, -f FILE and --battery FILE.csv");
    if (a->battery != NULL && a->out == NULL) argp_error(state, "--battery needs -o FOLDER");
}

static const struct argp_child children[] = {
    {&cli_engine_argp, 0, NULL, 0}, {&cli_sampling_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};
static const struct cli_table arguments = {
    CLI_ARGP("-p TEXT | -f FILE | --battery FILE.csv -o FOLDER",
             "Continue a prompt; the text goes to stdout, a dump to OUT.fgd.\v"
             "Examples:\n"
             "  forkgate generate -p 'It was a dark night' -n 32\n"
             "  forkgate generate -f fixtures/prompts/holmes.txt -n 256 -o a.fgd\n"
             "  forkgate generate -f fixtures/prompts/holmes.txt -n 256 -o b.fgd \\\n"
             "    --geometry fa_tkv=16\n"
             "  forkgate diff a.fgd b.fgd\n"
             "Exit: 0 generated; 2 trouble, or a stream that is INVALID (a NaN logit, an overflow).\n",
             children),
    options, refuse_operand, check};

static void show_progress(void *ctx, uint64_t done, uint64_t total) {
    (void)ctx;
    cli_progress("generate: token", done, total);
}

static void print_text(const dump *d) {
    for (uint64_t i = 0; i < dump_count(d); i++) {
        uint32_t n = 0;
        const uint8_t *text = dump_text(d, i, &n);
        (void)fwrite(text, 1, n, stdout);
    }
    (void)fputc('\n', stdout);
}

/* Results on stdout, how it ended on stderr. A stream that cannot be judged is trouble, in one line. */
static int report(const dump *d, const char *out) {
    char stream[HASH_TEXT_BYTES], logits[HASH_TEXT_BYTES];
    struct dump_results r = dump_results(d);
    const char *reason = NULL;
    uint64_t bad = dump_first_invalid(d, &reason);
    hash_format(&r.stream, stream);
    hash_format(&r.logits, logits);
    print_text(d);
    if (bad != UINT64_MAX) {
        struct err err;
        (void)err_set(&err, STATUS_INVALID, "INVALID from token %llu on: %s%s%s", (unsigned long long)bad,
                      reason, out != NULL ? "; wrote " : "", out != NULL ? out : "");
        return cli_fail("generate", &err);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) return EXIT_TROUBLE; /* which main says */
    fprintf(stderr, "%llu token%s, stop %s, stream %s, logits %s\n", (unsigned long long)dump_count(d),
            dump_count(d) == 1 ? "" : "s", provenance_get(dump_provenance(d), "stop"), stream, logits);
    if (out != NULL) fprintf(stderr, "wrote %s\n", out);
    return 0;
}

static enum status generate(const struct generate_args *a, const char *prompt, size_t n, const char *name,
                            dump **out, struct err *err) {
    engine *e = NULL;
    struct generate_request r;
    memset(&r, 0, sizeof r);
    r.prompt_name = name;
    r.prompt = prompt;
    r.prompt_bytes = n;
    r.n = a->n;
    r.sampler.repeat_penalty = a->engine.repeat_penalty;
    r.sampler.temperature = a->engine.temperature;
    r.sampler.seed = a->engine.seed;
    r.ignore_eos = a->engine.ignore_eos;
    r.n_top_k = a->top_k;
    r.full_logits = a->full_logits;
    r.out = a->out;
    RETURN_IF_ERROR(engine_open(a->engine.model, &a->engine.config, &e, err));
    enum status s = generate_run(e, &r, 1, 1, show_progress, NULL, out, err);
    cli_progress_end();
    engine_close(e);
    return s;
}

static enum status generate_battery(const struct generate_args *a, struct err *err) {
    char prompts[4096];
    struct battery b;
    struct sampler_config sampler = {a->engine.repeat_penalty, a->engine.temperature, a->engine.seed};
    engine *e = NULL;
    (void)snprintf(prompts, sizeof prompts, "%s/fixtures/prompts", cli_source_dir());
    RETURN_IF_ERROR(battery_open(a->battery, prompts, &b, err));
    enum status s = engine_open(a->engine.model, &a->engine.config, &e, err);
    if (s == STATUS_OK) s = battery_generate(e, &b, &sampler, a->n, a->out, show_progress, NULL, err);
    cli_progress_end();
    if (s == STATUS_OK) printf("wrote %d dumps to %s\n", b.n, a->out);
    engine_close(e);
    battery_close(&b);
    return s;
}

static int run(int argc, char **argv) {
    struct generate_args a;
    struct err err = {""};
    memset(&a, 0, sizeof a);
    cli_engine_default(&a.engine);
    a.n = 64;
    cli_parse(&arguments.argp, argc, argv, &a);
    const char *const inputs[] = {a.file, a.battery, a.engine.model};
    if (file_out_spares(a.out, inputs, 3, &err) != STATUS_OK) return cli_fail("generate", &err);
    if (a.battery != NULL) return generate_battery(&a, &err) == STATUS_OK ? 0 : cli_fail("generate", &err);
    char *from_file = NULL;
    size_t n = a.text != NULL ? strlen(a.text) : 0;
    if (a.file != NULL && slurp_file(a.file, &from_file, &n, &err) != STATUS_OK)
        return cli_fail("generate", &err);
    char name[512];
    (void)snprintf(name, sizeof name, "%s", a.file != NULL ? a.file : "-p");
    dump *d = NULL;
    enum status s = generate(&a, from_file != NULL ? from_file : a.text, n, basename(name), &d, &err);
    free(from_file);
    if (s != STATUS_OK) return cli_fail("generate", &err);
    int code = report(d, a.out);
    dump_close(d);
    return code;
}

const struct command cmd_generate = {"generate", "continue a prompt and write a dump", &arguments.argp, run};
