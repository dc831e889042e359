/* cmd_inspect.c - `forkgate inspect`: any dump, tensor or model as CSV on stdout. */
#include <stdio.h>
#include <string.h>

#include "gates/inspect.h"
#include "tools/commands.h"

struct inspect_args {
    const char *path;
    int provenance;
    enum table_eol eol;
};

enum { OPT_PROVENANCE = 0x200, OPT_EOL };

static const struct argp_option options[] = {
    {"provenance", OPT_PROVENANCE, NULL, 0, "first print '# key=value' lines: who made the file, and how", 1},
    {"eol", OPT_EOL, "crlf|lf", 0, "line ends (default crlf, as RFC 4180 asks; lf suits git)", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct inspect_args *a = state->input;
    switch (key) {
    case OPT_PROVENANCE:
        a->provenance = 1;
        return 0;
    case OPT_EOL:
        if (strcmp(arg, "crlf") != 0 && strcmp(arg, "lf") != 0)
            argp_error(state, "--eol %s: want crlf or lf", arg);
        a->eol = *arg == 'c' ? TABLE_CRLF : TABLE_LF;
        return 0;
    case ARGP_KEY_ARG:
        if (a->path != NULL) argp_error(state, "unexpected argument '%s': one file at a time", arg);
        a->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->path == NULL) argp_error(state, "give a .fgd, .fgt or .gguf file");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse,
    "FILE",
    "Print a dump (.fgd), a tensor (.fgt) or a model (.gguf) as CSV, after verifying it.\v"
    "A dump's CSV reads back with forkgate import. To see dumps in git diff:\n"
    "  git config diff.fgd.textconv 'forkgate inspect --provenance --eol lf'\n"
    "  echo '*.fgd diff=fgd' >> .gitattributes\n\n"
    "Examples:\n"
    "  forkgate inspect a.fgd > a.csv\n"
    "  forkgate inspect --provenance a.fgd\n"
    "  forkgate inspect fixtures/models/seedling-q8_0.gguf\n",
    NULL,
    NULL,
    NULL};

static int run_inspect(int argc, char **argv) {
    struct inspect_args args;
    struct err err = {""};
    memset(&args, 0, sizeof args);
    cli_parse(&argp, argc, argv, &args);
    if (inspect_file(args.path, args.provenance, args.eol, stdout, &err) != STATUS_OK)
        return cli_fail("inspect", &err);
    return 0;
}

const struct command cmd_inspect = {"inspect", "any dump, tensor or model as CSV on stdout", &argp,
                                    run_inspect};
