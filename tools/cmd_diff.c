/* cmd_diff.c - `forkgate diff`: two dumps, two tensors or two folders of dumps in; a report and an exit code out. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/diff_folder.h"
#include "gates/diff_report.h"
#include "gates/file_map.h"
#include "gates/file_out.h"
#include "gates/shell_word.h"
#include "gates/tensor_report.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/dump_inputs.h"

#define FILE_WIDTH       200 /* nobody wraps a file */
#define VERDICTS_OF_DIFF (DIFF_NOT_COMPARABLE + 1)

struct diff_args {
    const char *paths[2];
    int n_paths;
    const char *control, *csv;
    enum table_eol eol;
    int bits;
};

struct diff_run {
    const struct diff_args *args;
    struct diff_view view;
    table_writer *csv;
    uint64_t verdicts[VERDICTS_OF_DIFF];
    uint64_t unusable;            /* damaged, or without a partner */
    uint64_t off_rails, no_rails; /* identical, and the rows of logits are not, or nobody knows */
};

static const struct cli_option options[] = {
    {"control", 0, "DIR",
     "how much noise is legal. Dumps: pairs (X, and its replay under a benign fa_tkv); default: the "
     "calibrated row of golden/budgets.csv, if there is one. Tensors: A's op under other launches (*.fgt)",
     1, CLI_AT(struct diff_args, control)},
    {"csv", 0, "FILE", "write one evidence row per comparison", 1, CLI_AT(struct diff_args, csv)},
    {"eol", 0, "crlf|lf", "line ends of the CSV (default crlf, as RFC 4180 asks)", 1,
     CLI_AT(struct diff_args, eol)},
    {"bits", 0, NULL,
     "dumps: ask for the same rails too: identical tokens exit 1 where rows of logits differ, 2 where a row "
     "lacks its hash",
     1, CLI_AT(struct diff_args, bits)},
    CLI_LAST};

static void take_path(struct argp_state *state, void *args, char *arg) {
    struct diff_args *a = args;
    if (a->n_paths == 2) argp_error(state, "unexpected argument '%s': two dumps, tensors or folders", arg);
    a->paths[a->n_paths++] = arg;
}

static void check(struct argp_state *state, void *args) {
    const struct diff_args *a = args;
    if (a->n_paths != 2) argp_error(state, "give two dumps, two tensors or two folders of dumps");
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "A.fgd B.fgd\nA.fgt B.fgt\nDIR_A DIR_B",
        "Locate and judge the fork between two generated streams, or the difference between two tensors.\v"
        "Verdicts: IDENTICAL (exit 0); EXACT-TIE, KNIFE-EDGE, FORK, LENGTH (exit "
        "1); INVALID and NOT-COMPARABLE (exit 2: NaN, an id outside the vocabulary, a damaged file, "
        "another model, prompt, sampler or tie rule). Two folders are paired by file name; of their "
        "exit codes 1 outranks 2.\n\n"
        "Tensors (.fgt: forkgate trace --values, or another engine's .npy by forkgate import) are "
        "compared bit for bit: IDENTICAL (exit 0); WITHIN-CONTROL, no further apart than --control's "
        "legal regroupings are from A, and DIFFERENT (exit 1); INVALID (NaN or infinities) and "
        "NOT-COMPARABLE: another shape, dtype, op, tensor, layer, step, pos, input, model or prompt "
        "(exit 2). A control is A's op and build under a launch that is neither A's nor B's. Elements are "
        "named as NumPy does: [row, column].\n\n"
        "Examples:\n"
        "  forkgate diff base.fgd head.fgd\n"
        "  forkgate diff base.fgd head.fgd --control control/ --csv diff.csv\n"
        "  forkgate diff golden-dumps/ new-dumps/\n"
        "  forkgate import eager.npy -o eager.fgt -P op=attention -P bound=253\n"
        "  forkgate diff eager.fgt graph.fgt --control splits/ --csv tensors.csv\n",
        NULL),
    options, take_path, check};

/* Non-ASCII text goes to a terminal that says it is UTF-8, escaped anywhere else. The locale is asked, then left again:
 * numbers are always written in the C locale. */
static int utf8_terminal(void) {
    if (!isatty(STDOUT_FILENO)) return 0;
    if (setlocale(LC_CTYPE, "") == NULL) return 0;
    int utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    (void)setlocale(LC_CTYPE, "C");
    return utf8;
}

static int off_rails(const struct diff_result *r) {
    return r->verdict == DIFF_IDENTICAL && diff_rails(r) == DIFF_RAILS_DIFFER;
}

/* The one command that tells more about this verdict. An import has no binary behind it that explain could run. What no dump
 * holds is named in capitals. */
static void next_command(const struct diff_args *args, const dump *a, const dump *b,
                         const struct diff_result *r, char *out, size_t room) {
    int whole = 1, invalid = r->verdict == DIFF_INVALID;
    out[0] = '\0';
    if (!invalid && r->fork == UINT64_MAX && !off_rails(r)) return;
    if (!invalid && (!dump_inputs_ours(a) || !dump_inputs_ours(b))) return;
    (void)snprintf(out, room, "forkgate %s", invalid ? "inspect" : "explain");
    whole = shell_word_add(out, room, args->paths[0]);
    if (invalid) {
        size_t n = strlen(out);
        (void)snprintf(out + n, room - n, "; forkgate inspect");
    }
    whole = whole && shell_word_add(out, room, args->paths[1]);
    if (!whole) out[0] = '\0';
    if (invalid || !whole) return;
    struct cli_engine e;
    struct err err;
    char *prompt = NULL;
    size_t n = 0, used = strlen(out);
    cli_engine_default(&e);
    const char *model = dump_inputs_model(a, e.model, &err) == STATUS_OK ? "" : " -m MODEL";
    const char *text = dump_inputs_prompt(a, NULL, NULL, &prompt, &n, &err) == STATUS_OK ? "" : " -p PROMPT";
    free(prompt);
    (void)snprintf(out + used, room - used, "%s%s", model, text);
}

/* Only who asks for the rails is told that nothing is known of them. */
static int no_rails(const struct diff_run *run, const struct diff_result *r) {
    return run->args->bits && r->verdict == DIFF_IDENTICAL && diff_rails(r) == DIFF_RAILS_UNKNOWN;
}

static struct diff_asked asked(const struct diff_run *run) {
    struct diff_asked asked = {run->args->control, run->args->bits};
    return asked;
}

static int close_csv(struct diff_run *run, int code) {
    struct err err;
    if (run->csv == NULL) return code;
    enum status s = table_writer_finish(run->csv, &err);
    run->csv = NULL;
    return s == STATUS_OK ? code : cli_fail("diff", &err);
}

static int compare_files(struct diff_run *run, const struct diff_options *o) {
    const struct diff_args *args = run->args;
    const struct diff_asked how = asked(run);
    dump *a = NULL, *b = NULL;
    struct diff_result r;
    struct err err = {""};
    if (diff_with_control(args->paths[0], args->paths[1], o, &a, &b, &r, &err) != STATUS_OK) {
        if (run->csv != NULL) diff_csv_damage(run->csv, args->paths[0], args->paths[1], &err, &how);
        (void)close_csv(run, EXIT_TROUBLE);
        return cli_fail("diff", &err);
    }
    char next[9000];
    next_command(args, a, b, &r, next, sizeof next);
    run->view.next = next[0] == '\0' ? NULL : next;
    diff_report_text(stdout, a, b, &r, &run->view);
    if (run->csv != NULL) diff_csv_row(run->csv, a, b, &r, &how);
    int code = args->bits ? diff_exit_code_bits(&r) : diff_exit_code(r.verdict);
    printf("forkgate: %s%s\n", diff_verdict_name(r.verdict),
           off_rails(&r)       ? ", logits differ"
           : no_rails(run, &r) ? ", rails unknown"
                               : "");
    dump_close(a);
    dump_close(b);
    return close_csv(run, code);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void visit(void *ctx, const char *path_a, const char *path_b, enum status status, const dump *a,
                  const dump *b, const struct diff_result *r, const struct err *err) {
    struct diff_run *run = ctx;
    const struct diff_asked how = asked(run);
    if (status != STATUS_OK) {
        char name[256];
        (void)table_escape(base_name(path_a), strlen(base_name(path_a)), run->view.utf8, 0, name,
                           sizeof name);
        run->unusable++;
        printf("%-14s %s  %s\n", "UNUSABLE", name, err->message);
        if (run->csv != NULL) diff_csv_damage(run->csv, path_a, path_b, err, &how);
        return;
    }
    run->verdicts[r->verdict]++;
    run->off_rails += (uint64_t)off_rails(r);
    run->no_rails += (uint64_t)no_rails(run, r);
    diff_report_line(stdout, base_name(path_a), r, &run->view);
    if (run->csv != NULL) diff_csv_row(run->csv, a, b, r, &how);
}

static int compare_folders(struct diff_run *run, const struct diff_options *o) {
    struct err err;
    const uint64_t *v = run->verdicts;
    if (diff_folders(run->args->paths[0], run->args->paths[1], o, visit, run, &err) != STATUS_OK) {
        (void)close_csv(run, EXIT_TROUBLE);
        return cli_fail("diff", &err);
    }
    uint64_t forked = v[DIFF_EXACT_TIE] + v[DIFF_KNIFE_EDGE] + v[DIFF_FORK] + v[DIFF_LENGTH];
    uint64_t trouble = v[DIFF_INVALID] + v[DIFF_NOT_COMPARABLE] + run->unusable;
    if (run->args->bits) forked += run->off_rails;
    trouble += run->no_rails;
    char unknown[48] = "";
    if (run->no_rails > 0)
        (void)snprintf(unknown, sizeof unknown, ", %llu of unknown rails", (unsigned long long)run->no_rails);
    printf("forkgate: %llu identical (%llu with other logits%s), %llu exact-tie, %llu knife-edge, %llu fork, "
           "%llu length, %llu invalid, %llu not comparable, %llu unusable\n",
           (unsigned long long)v[DIFF_IDENTICAL], (unsigned long long)run->off_rails, unknown,
           (unsigned long long)v[DIFF_EXACT_TIE], (unsigned long long)v[DIFF_KNIFE_EDGE],
           (unsigned long long)v[DIFF_FORK], (unsigned long long)v[DIFF_LENGTH],
           (unsigned long long)v[DIFF_INVALID], (unsigned long long)v[DIFF_NOT_COMPARABLE],
           (unsigned long long)run->unusable);
    return close_csv(run, forked > 0 ? 1 : trouble > 0 ? EXIT_TROUBLE : 0);
}

static int is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

static int is_tensor(const char *path) {
    return file_map_starts(path, TENSOR_DUMP_MAGIC);
}

static enum status judge_tensors(struct diff_run *run, int *code, struct err *err) {
    const struct diff_args *args = run->args;
    tensor_dump *a = NULL, *b = NULL;
    struct tensor_diff r;
    enum status s = tensor_dump_open(args->paths[0], &a, err);
    if (s == STATUS_OK) s = tensor_dump_open(args->paths[1], &b, err);
    if (s == STATUS_OK) s = tensor_diff(a, b, args->control, &r, err);
    if (s == STATUS_OK) {
        tensor_report_text(stdout, a, b, &r, &run->view);
        if (run->csv != NULL) tensor_csv_row(run->csv, a, b, &r, args->control);
        printf("forkgate: %s\n", tensor_verdict_name(r.verdict));
        *code = tensor_exit_code(r.verdict);
    }
    tensor_dump_close(a);
    tensor_dump_close(b);
    return s;
}

/* At least one is a tensor: so must the other be. */
static int compare_tensors(struct diff_run *run) {
    const struct diff_args *args = run->args;
    struct err err = {""};
    int code = EXIT_TROUBLE, other = is_tensor(args->paths[0]);
    if (file_map_starts(args->paths[other], DUMP_MAGIC_WORD)) {
        (void)err_set(&err, STATUS_USAGE,
                      "%s is a tensor (.fgt) and %s is a dump (.fgd): two of one kind compare",
                      args->paths[!other], args->paths[other]);
        return cli_fail("diff", &err);
    }
    if (args->bits) {
        (void)err_set(&err, STATUS_USAGE, "--bits is for dumps: tensors are compared bit for bit anyway");
        return cli_fail("diff", &err);
    }
    if (args->csv != NULL && tensor_csv_open(args->csv, args->eol, &run->csv, &err) != STATUS_OK)
        return cli_fail("diff", &err);
    if (judge_tensors(run, &code, &err) == STATUS_OK) return close_csv(run, code);
    if (run->csv != NULL) tensor_csv_damage(run->csv, args->paths[0], args->paths[1], &err, args->control);
    (void)close_csv(run, EXIT_TROUBLE);
    return cli_fail("diff", &err);
}

static int run_diff(int argc, char **argv) {
    struct diff_args args;
    memset(&args, 0, sizeof args);
    cli_parse(&arguments.argp, argc, argv, &args);
    char budgets[4200];
    (void)snprintf(budgets, sizeof budgets, "%s/golden/budgets.csv", cli_source_dir());
    struct diff_options o = {args.control, budgets};
    struct diff_run run;
    memset(&run, 0, sizeof run);
    run.args = &args;
    run.view.colour = cli_use_colour(STDOUT_FILENO);
    run.view.utf8 = utf8_terminal();
    run.view.width = isatty(STDOUT_FILENO) ? cli_width(STDOUT_FILENO) : FILE_WIDTH;
    struct err err;
    int folders = is_folder(args.paths[0]) + is_folder(args.paths[1]);
    if (folders == 1) {
        (void)err_set(&err, STATUS_USAGE, "%s and %s: one is a folder, the other is not", args.paths[0],
                      args.paths[1]);
        return cli_fail("diff", &err);
    }
    const char *const inputs[] = {args.paths[0], args.paths[1], args.control};
    if (file_out_spares(args.csv, inputs, 3, &err) != STATUS_OK) return cli_fail("diff", &err);
    if (folders == 0 && (is_tensor(args.paths[0]) || is_tensor(args.paths[1]))) return compare_tensors(&run);
    if (args.csv != NULL && diff_csv_open(args.csv, args.eol, &run.csv, &err) != STATUS_OK)
        return cli_fail("diff", &err);
    return folders == 2 ? compare_folders(&run, &o) : compare_files(&run, &o);
}

const struct command cmd_diff = {"diff", "locate and judge the fork between two dumps or two folders",
                                 &arguments.argp, run_diff};
