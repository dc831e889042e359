/* cmd_import.c - `forkgate import`: a CSV of generated tokens becomes a dump. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/import.h"
#include "tools/commands.h"

struct import_args {
    const char *path, *out;
    struct provenance extra;
};

static const struct argp_option options[] = {
    {"out", 'o', "OUT.fgd", 0, "the dump to write (required)", 1},
    {"provenance", 'P', "KEY=VALUE", 0,
     "who made the tokens: model.xxh3, sampler, repeat_penalty, logits, ..; repeat as needed", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static void add_provenance(struct argp_state *state, struct provenance *p, const char *arg) {
    struct err err = {""};
    const char *equals = strchr(arg, '=');
    char key[128];
    size_t n = equals == NULL ? 0 : (size_t)(equals - arg);
    if (equals == NULL || n >= sizeof key) {
        argp_error(state, "--provenance %s: want KEY=VALUE", arg);
        return;
    }
    memcpy(key, arg, n);
    key[n] = '\0';
    if (provenance_set(p, key, equals + 1, &err) != STATUS_OK)
        argp_error(state, "--provenance: %s", err.message);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct import_args *a = state->input;
    switch (key) {
    case 'o':
        a->out = arg;
        return 0;
    case 'P':
        add_provenance(state, &a->extra, arg);
        return 0;
    case ARGP_KEY_ARG:
        if (a->path != NULL) argp_error(state, "unexpected argument '%s': one CSV at a time", arg);
        a->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->path == NULL || a->out == NULL) argp_error(state, "give FILE.csv and -o OUT.fgd");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "FILE.csv -o OUT.fgd",
    "Make a dump from a CSV of generated tokens, so that diff can judge another engine's stream.\v"
    "Columns (step and one of the token columns are required; an empty cell is unknown): step, token_id, "
    "token_bytes_hex, "
    "token_text_escaped, token_text, id1, logit1, id2, logit2, unit (logit or logprob), logsumexp, end (1 on "
    "the token that "
    "ends the stream), row_hash, top_k, logits: what forkgate inspect prints. Lines '# key=value' before the "
    "header are "
    "provenance. Any row that does not fit is an error with its record and line; nothing is skipped.\n\n"
    "Examples:\n"
    "  forkgate import stream.csv -o stream.fgd -P sampler=greedy -P repeat_penalty=1 -P logits=bf16\n"
    "  forkgate inspect --provenance a.fgd > a.csv && forkgate import a.csv -o copy.fgd && forkgate diff "
    "a.fgd copy.fgd\n",
    NULL,
    NULL,
    NULL};

static void report(const dump *d, const char *out) {
    char stream[HASH_TEXT_BYTES];
    const char *reason = NULL;
    struct dump_results r = dump_results(d);
    hash_format(&r.stream, stream);
    fprintf(stderr, "%llu records, stream %s\nwrote %s\n", (unsigned long long)dump_count(d), stream, out);
    uint64_t bad = dump_first_invalid(d, &reason);
    if (bad != UINT64_MAX)
        fprintf(stderr, "note: diff will call it INVALID from record %llu on: %s\n", (unsigned long long)bad,
                reason);
}

static int run_import(int argc, char **argv) {
    struct import_args args;
    struct err err = {""};
    table *t = NULL;
    dump *d = NULL;
    memset(&args, 0, sizeof args);
    provenance_init(&args.extra);
    cli_parse(&argp, argc, argv, &args);
    enum status s = table_read(args.path, &t, &err);
    if (s == STATUS_OK) s = import_csv(t, &args.extra, args.out, &d, &err);
    table_close(t);
    provenance_free(&args.extra);
    if (s != STATUS_OK) return cli_fail("import", &err);
    report(d, args.out);
    dump_close(d);
    return 0;
}

const struct command cmd_import = {"import", "a CSV of generated tokens becomes a dump", &argp, run_import};
