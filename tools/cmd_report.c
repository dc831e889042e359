/* cmd_report.c - `forkgate report export | compare | html`: evidence rows of a run, checked, filtered and written again; what
 * changed since an earlier run; everything about a change as one HTML file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/report.h"
#include "gates/report_compare.h"
#include "tools/cli_table.h"
#include "tools/commands.h"
#include "tools/report_page.h"
#include "tools/report_print.h"

struct report_args {
    const char *action, *input, *newer, *out, *junit, *gate;
    double ratchet;    /* percent of a bound; negative: not given */
    int tier, verdict; /* as the enumerations count, and the words of the options; -1: all */
    enum table_eol eol;
    struct report_page_args page;
};

/* The second dump stands behind the option's own argument. */
static void take_pair(struct argp_state *state, void *args, char *arg) {
    struct report_args *a = args;
    if (state->next >= state->argc || state->argv[state->next][0] == '-') {
        argp_error(state, "--diff %s: want two dumps, A.fgd B.fgd", arg);
        return;
    }
    a->page.dump_a = arg;
    a->page.dump_b = state->argv[state->next++];
}

static const struct cli_option options[] = {
    {"out", 'o', "FILE",
     "where the result goes (default: standard output); compare: every change as a CSV row", 1,
     CLI_AT(struct report_args, out)},
    CLI_HEADER("export, compare:", 2),
    {"eol", 0, "crlf|lf", "line ends (default crlf, as RFC 4180 asks; lf suits files kept in git)", 2,
     CLI_AT(struct report_args, eol)},
    {"tier", 0, "parity|suite|identity|tolerance|perf", "rows of this tier only", 2,
     CLI_AT(struct report_args, tier)},
    {"gate", 0, "GATE", "rows of this gate only", 2, CLI_AT(struct report_args, gate)},
    {"ratchet", 0, "PERCENT",
     "compare: worse is a check that uses this much more of its bound than before (default 1)", 2,
     CLI_WITHIN(struct report_args, ratchet, 0, 100)},
    {"verdict", 0, "PASS|FAIL|SKIP|ERROR|BLIND|INCONCLUSIVE", "export: rows with this verdict only", 2,
     CLI_AT(struct report_args, verdict)},
    {"junit", 0, "FILE", "export: write the same rows as JUnit XML too", 2,
     CLI_AT(struct report_args, junit)},
    CLI_HEADER("html:", 3),
    {"diff", 0, "A.fgd B.fgd", "show the fork between two dumps, and how close the choices were", 3,
     CLI_BY(take_pair)},
    {"control", 0, "DIR", "control pairs that say what a benign change may move, as diff takes them", 3,
     CLI_AT(struct report_args, page.control)},
    {"explain", 0, "CSV", "growth through the layers, from forkgate explain --csv", 3,
     CLI_AT(struct report_args, page.explain)},
    {"mutants", 0, "CSV", "the fault matrix, from forkgate mutants --csv", 3,
     CLI_AT(struct report_args, page.mutants)},
    CLI_LAST};

static int is_html(const struct report_args *a) {
    return strcmp(a->action, "html") == 0;
}

static int is_compare(const struct report_args *a) {
    return strcmp(a->action, "compare") == 0;
}

/* An option of another action is a mistake, not a wish. */
static void check_options(struct argp_state *state, const struct report_args *a) {
    const struct report_page_args *p = &a->page;
    int of_html = p->dump_a != NULL || p->control != NULL || p->explain != NULL || p->mutants != NULL;
    int of_export = a->verdict >= 0 || a->junit != NULL, of_compare = a->ratchet >= 0;
    int of_rows = a->tier >= 0 || a->gate != NULL;
    const char *of = of_html && !is_html(a)                       ? "html"
                     : of_export && (is_html(a) || is_compare(a)) ? "export"
                     : of_compare && !is_compare(a)               ? "compare"
                     : of_rows && is_html(a)                      ? "export and compare"
                                                                  : NULL;
    if (of != NULL) argp_error(state, "an option of %s does not fit %s", of, a->action);
}

static void check(struct argp_state *state, void *args) {
    const struct report_args *a = args;
    const struct report_page_args *p = &a->page;
    if (a->action == NULL || (strcmp(a->action, "export") != 0 && !is_compare(a) && !is_html(a)))
        argp_error(state, "give export FILE.csv, compare OLD.csv NEW.csv or html [RUN.csv]");
    else if (!is_html(a) && a->input == NULL)
        argp_error(state, "%s which FILE.csv?", a->action);
    else if (is_compare(a) ? a->newer == NULL : a->newer != NULL)
        argp_error(state, is_compare(a) ? "compare: give OLD.csv NEW.csv" : "one FILE.csv at a time");
    else if (is_html(a) && a->input == NULL && p->dump_a == NULL && p->explain == NULL && p->mutants == NULL)
        argp_error(state, "html: give RUN.csv, --diff, --explain or --mutants");
    else
        check_options(state, a);
}

static void take_operand(struct argp_state *state, void *args, char *arg) {
    struct report_args *a = args;
    if (a->action == NULL)
        a->action = arg;
    else if (a->input == NULL)
        a->input = arg;
    else if (a->newer == NULL)
        a->newer = arg;
    else
        argp_error(state, "unexpected argument '%s'", arg);
}

static const struct cli_table arguments = {
    CLI_ARGP(
        "export FILE.csv\ncompare OLD.csv NEW.csv\nhtml [RUN.csv]",
        "export: reads the CSV of a run (forkgate run --csv), checks it (schema, columns, every verdict "
        "against "
        "its own "
        "value and bound) and writes the rows that were asked for. compare: what changed since an earlier "
        "run: "
        "verdicts, checks "
        "that came and went, bounds, headroom; gates that take longer are listed, but speed is for ab to "
        "judge. "
        "html: one self-contained file about a run, a "
        "fork, an "
        "explanation and a fault matrix, whichever are given; it needs no network and no script.\v"
        "Examples:\n"
        "  forkgate report export run.csv --eol lf -o reports/run.csv\n"
        "  forkgate report export run.csv --verdict FAIL\n"
        "  forkgate report export run.csv --tier identity --junit i.xml -o i.csv\n"
        "  forkgate report compare reports/main.csv run.csv\n"
        "  forkgate report compare main.csv run.csv --tier parity -o changes.csv\n"
        "  forkgate report html run.csv -o run.html\n"
        "  forkgate report html run.csv --diff base.fgd head.fgd --control control/ \\\n"
        "    --explain explain.csv -o fork.html\n"
        "Exit: 0 written, nothing worse; 1 something is worse; 2 not a report, no row matches, bad usage.\n",
        NULL),
    options, take_operand, check};

static size_t filter(const struct report_args *a, struct evidence *rows, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (a->tier >= 0 && (int)rows[i].tier != a->tier) continue;
        if (a->gate != NULL && strcmp(rows[i].gate, a->gate) != 0) continue;
        if (a->verdict >= 0 && (int)rows[i].verdict != a->verdict) continue;
        if (kept != i) rows[kept] = rows[i];
        kept++;
    }
    return kept;
}

/* Reads a report and keeps what was asked for; nothing left is no basis for a result. */
static enum status read_rows(const struct report_args *a, const char *path, struct evidence **rows, size_t *n,
                             struct err *err) {
    RETURN_IF_ERROR(report_read_csv(path, rows, n, err));
    *n = filter(a, *rows, *n);
    if (*n > 0) return STATUS_OK;
    free(*rows);
    *rows = NULL;
    return err_set(err, STATUS_USAGE, "%s: no row matches", path);
}

/* No file twice, and none in place of what was read. */
static enum status check_files(const struct report_args *a, struct err *err) {
    const struct report_page_args *p = &a->page;
    const char *const inputs[] = {a->input,   a->newer,   p->dump_a, p->dump_b,
                                  p->control, p->explain, p->mutants};
    const char *const outputs[2] = {a->out, a->junit};
    for (int i = 0; i < 2; i++) {
        if (outputs[i] == NULL) continue;
        RETURN_IF_ERROR(file_out_check(outputs[i], i == 0, err));
        RETURN_IF_ERROR(file_out_spares(outputs[i], inputs, (int)(sizeof inputs / sizeof inputs[0]), err));
    }
    if (a->out != NULL && a->junit != NULL && file_out_is_one(a->out, a->junit))
        return err_set(err, STATUS_USAGE, "%s: two reports in one file", a->junit);
    return STATUS_OK;
}

static enum status export_rows(const struct report_args *a, struct err *err) {
    struct evidence *rows = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(read_rows(a, a->input, &rows, &n, err));
    enum status s = report_write_csv(a->out, a->out == NULL ? stdout : NULL, a->eol, rows, n, err);
    if (s == STATUS_OK && a->junit != NULL) s = report_write_junit(a->junit, rows, n, err);
    free(rows);
    if (s == STATUS_OK) fprintf(stderr, "%zu rows\n", n);
    return s;
}

static enum status compare_rows(const struct report_args *a, int *worse, struct err *err) {
    struct evidence *before = NULL, *after = NULL;
    size_t n_before = 0, n_after = 0;
    struct report_comparison c = {NULL, 0, 0, 0};
    RETURN_IF_ERROR(read_rows(a, a->input, &before, &n_before, err));
    enum status s = read_rows(a, a->newer, &after, &n_after, err);
    double ratchet = a->ratchet >= 0 ? a->ratchet / 100 : REPORT_RATCHET;
    if (s == STATUS_OK) s = report_compare(before, n_before, after, n_after, ratchet, &c, err);
    if (s == STATUS_OK && a->out != NULL) s = report_compare_csv(a->out, a->eol, &c, err);
    if (s == STATUS_OK) report_print_compared(&c, a->input, n_before, a->newer, n_after);
    *worse = c.worse > 0;
    report_compare_free(&c);
    free(before);
    free(after);
    return s;
}

static int run(int argc, char **argv) {
    struct report_args a;
    struct err err = {""};
    int worse = 0;
    memset(&a, 0, sizeof a);
    a.tier = a.verdict = -1;
    a.ratchet = -1;
    cli_parse(&arguments.argp, argc, argv, &a);
    a.page.run = a.input;
    a.page.out = a.out;
    enum status s = check_files(&a, &err);
    if (s == STATUS_OK)
        s = is_html(&a)      ? report_page_write(&a.page, &err)
            : is_compare(&a) ? compare_rows(&a, &worse, &err)
                             : export_rows(&a, &err);
    return s == STATUS_OK ? worse : cli_fail("report", &err);
}

const struct command cmd_report = {"report", "check, filter, compare and convert the CSV of a run; HTML",
                                   &arguments.argp, run};
