/* cmd_diff.c - `forkgate diff`: two dumps, or two folders of dumps, in; a fork report and an exit code out. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/diff_folder.h"
#include "gates/diff_report.h"
#include "gates/file_out.h"
#include "tools/cli_table.h"
#include "tools/commands.h"

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
    uint64_t unusable; /* damaged, or without a partner */
    uint64_t off_rails;
};

static const struct cli_option options[] = {
    {"control", 0, "DIR",
     "pairs of dumps (X, and its replay under a benign fa_tkv) that say how much noise is legal; default: "
     "the calibrated row of golden/budgets.csv, if there is one",
     1, CLI_AT(struct diff_args, control)},
    {"csv", 0, "FILE", "write one evidence row per comparison", 1, CLI_AT(struct diff_args, csv)},
    {"eol", 0, "crlf|lf", "line ends of the CSV (default crlf, as RFC 4180 asks)", 1,
     CLI_AT(struct diff_args, eol)},
    {"bits", 0, NULL, "ask for the same rails too: identical tokens whose row hashes differ exit 1", 1,
     CLI_AT(struct diff_args, bits)},
    CLI_LAST};

static void take_path(struct argp_state *state, void *args, char *arg) {
    struct diff_args *a = args;
    if (a->n_paths == 2) argp_error(state, "unexpected argument '%s': two dumps or two folders", arg);
    a->paths[a->n_paths++] = arg;
}

static void check(struct argp_state *state, void *args) {
    const struct diff_args *a = args;
    if (a->n_paths != 2) argp_error(state, "give two dumps, or two folders of dumps");
}

static const struct cli_table arguments = {
    CLI_ARGP("A.fgd B.fgd\nDIR_A DIR_B",
             "Locate and judge the fork between two generated streams.\v"
             "Verdicts: IDENTICAL (exit 0); EXACT-TIE, KNIFE-EDGE, FORK, LENGTH (exit "
             "1); INVALID and NOT-COMPARABLE (exit 2: NaN, an id outside the vocabulary, a damaged file, "
             "another model, prompt, sampler or tie rule). Two folders are paired by file name; of their "
             "exit codes 1 outranks 2.\n\n"
             "Examples:\n"
             "  forkgate diff base.fgd head.fgd\n"
             "  forkgate diff base.fgd head.fgd --control control/ --csv diff.csv\n"
             "  forkgate diff golden-dumps/ new-dumps/\n",
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

/* 'it'\''s': safe to paste. Too long a name is cut, and the command says so by being unfinished. */
static void quote(const char *text, char *out, size_t room) {
    size_t used = 0;
    int plain =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=,") == strlen(text);
    if (!plain && room > 1) out[used++] = '\'';
    for (; *text != '\0' && used + 6 < room; text++) {
        if (*text == '\'') {
            memcpy(out + used, "'\\''", 4);
            used += 4;
        } else
            out[used++] = *text;
    }
    if (!plain && used + 1 < room) out[used++] = '\'';
    out[used] = '\0';
}

static int command_exists(const char *name) {
    for (int i = 0; commands[i] != NULL; i++)
        if (strcmp(commands[i]->name, name) == 0) return 1;
    return 0;
}

/* The one command that tells more about this verdict, among those this binary has. */
static void next_command(const struct diff_args *args, const struct diff_result *r, char out[1024]) {
    char a[400], b[400];
    quote(args->paths[0], a, sizeof a);
    quote(args->paths[1], b, sizeof b);
    out[0] = '\0';
    if (r->verdict == DIFF_FORK && r->control.delta < 0.0 && args->control == NULL)
        (void)snprintf(out, 1024, "forkgate diff %s %s --control DIR", a, b);
    else if (r->fork != UINT64_MAX && r->verdict != DIFF_INVALID && command_exists("explain"))
        (void)snprintf(out, 1024, "forkgate explain %s %s", a, b);
    else if (r->fork != UINT64_MAX && r->verdict != DIFF_INVALID)
        (void)snprintf(out, 1024,
                       "forkgate replay --follow %s -o B-forced.fgd (as B was run), then diff it with A", a);
    else if (r->verdict == DIFF_INVALID)
        (void)snprintf(out, 1024, "forkgate inspect %s; forkgate inspect %s", a, b);
}

static int off_rails(const struct diff_result *r) {
    return r->verdict == DIFF_IDENTICAL && r->first_hash_diff != UINT64_MAX;
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
    dump *a = NULL, *b = NULL;
    struct diff_result r;
    struct err err = {""};
    if (diff_with_control(args->paths[0], args->paths[1], o, &a, &b, &r, &err) != STATUS_OK) {
        if (run->csv != NULL) diff_csv_damage(run->csv, args->paths[0], args->paths[1], &err);
        (void)close_csv(run, EXIT_TROUBLE);
        return cli_fail("diff", &err);
    }
    char next[1024];
    next_command(args, &r, next);
    run->view.next = next[0] == '\0' ? NULL : next;
    diff_report_text(stdout, a, b, &r, &run->view);
    if (run->csv != NULL) diff_csv_row(run->csv, a, b, &r);
    int code = diff_exit_code(r.verdict);
    if (args->bits && off_rails(&r)) code = 1;
    printf("forkgate: %s%s\n", diff_verdict_name(r.verdict), off_rails(&r) ? ", logits differ" : "");
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
    if (status != STATUS_OK) {
        char name[256];
        (void)table_escape(base_name(path_a), strlen(base_name(path_a)), run->view.utf8, 0, name,
                           sizeof name);
        run->unusable++;
        printf("%-14s %s  %s\n", "UNUSABLE", name, err->message);
        if (run->csv != NULL) diff_csv_damage(run->csv, path_a, path_b, err);
        return;
    }
    run->verdicts[r->verdict]++;
    run->off_rails += (uint64_t)off_rails(r);
    diff_report_line(stdout, base_name(path_a), r, &run->view);
    if (run->csv != NULL) diff_csv_row(run->csv, a, b, r);
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
    printf("forkgate: %llu identical (%llu with other logits), %llu exact-tie, %llu knife-edge, %llu fork, "
           "%llu length, %llu invalid, %llu not comparable, %llu unusable\n",
           (unsigned long long)v[DIFF_IDENTICAL], (unsigned long long)run->off_rails,
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

static int run_diff(int argc, char **argv) {
    struct diff_args args;
    memset(&args, 0, sizeof args);
    cli_parse(&arguments.argp, argc, argv, &args);
    char budgets[4200];
    (void)snprintf(budgets, sizeof budgets, "%s/golden/budgets.csv", cli_source_dir());
    struct diff_options o = {args.control, budgets, args.csv != NULL};
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
    if (args.csv != NULL && diff_csv_open(args.csv, args.eol, &run.csv, &err) != STATUS_OK)
        return cli_fail("diff", &err);
    return folders == 2 ? compare_folders(&run, &o) : compare_files(&run, &o);
}

const struct command cmd_diff = {"diff", "locate and judge the fork between two dumps or two folders",
                                 &arguments.argp, run_diff};
