/* cmd_inspect.c - `forkgate inspect`: any dump, tensor or model as CSV on stdout. */
#include <stdio.h>
#include <string.h>

#include "gates/inspect.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

struct inspect_args {
    const char *path;
    int provenance, textconv;
    enum table_eol eol;
};

static const struct cli_option options[] = {
    {"provenance", 0, NULL, "first print '# key=value' lines: who made the file, and how", 1,
     CLI_AT(struct inspect_args, provenance)},
    {"eol", 0, "crlf|lf", "line ends (default crlf, as RFC 4180 asks; lf suits git)", 1,
     CLI_AT(struct inspect_args, eol)},
    {"textconv", 0, NULL,
     "for git diff: --provenance --eol lf, and a damaged file is one line that says so, exit 0: git gives up "
     "the whole diff "
     "when a textconv fails",
     1, CLI_AT(struct inspect_args, textconv)},
    CLI_LAST};

static void take_path(struct argp_state *state, void *args, char *arg) {
    struct inspect_args *a = args;
    if (a->path != NULL) argp_error(state, "unexpected argument '%s': one file at a time", arg);
    a->path = arg;
}

static void check(struct argp_state *state, void *args) {
    if (((struct inspect_args *)args)->path == NULL) argp_error(state, "give a .fgd, .fgt or .gguf file");
}

static const struct cli_table arguments = {
    CLI_ARGP("FILE",
             "Print a dump (.fgd), a tensor (.fgt) or a model (.gguf) as CSV, after verifying it.\v"
             "A dump's CSV reads back with forkgate import. To see dumps in git diff:\n"
             "  git config diff.fgd.textconv 'forkgate inspect --textconv'\n"
             "  echo '*.fgd diff=fgd' >> .gitattributes\n\n"
             "Examples:\n"
             "  forkgate inspect a.fgd > a.csv\n"
             "  forkgate inspect --provenance a.fgd\n"
             "  forkgate inspect fixtures/models/seedling-q8_0.gguf\n"
             "Exit: 0 verified and printed; 2 damaged, or not a file that is known here.\n",
             NULL),
    options, take_path, check};

/* Git passes a temporary file: its name would be another one at every call. */
static int print_damage(const char *path, const struct err *err) {
    size_t n = strlen(path);
    int named = strncmp(err->message, path, n) == 0 && strncmp(err->message + n, ": ", 2) == 0;
    printf("damaged: %s\n", err->message + (named ? n + 2 : 0));
    return 0;
}

static int run_inspect(int argc, char **argv) {
    struct inspect_args args;
    struct err err = {""};
    memset(&args, 0, sizeof args);
    cli_parse(&arguments.argp, argc, argv, &args);
    if (args.textconv) args.eol = TABLE_LF;
    enum status s = inspect_file(args.path, args.provenance || args.textconv, args.eol, stdout, &err);
    if (s == STATUS_OK) return 0;
    int content = s == STATUS_FORMAT || s == STATUS_UNSUPPORTED || s == STATUS_LIMIT;
    return args.textconv && content ? print_damage(args.path, &err) : cli_fail("inspect", &err);
}

const struct command cmd_inspect = {"inspect", "any dump, tensor or model as CSV on stdout", &arguments.argp,
                                    run_inspect};
