/* cmd_report.c - `forkgate report export | compare | html`: evidence rows of a run, checked, filtered and written again; what
 * changed since an earlier run; everything about a change as one HTML file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/report.h"
#include "gates/report_compare.h"
#include "tools/commands.h"
#include "tools/report_page.h"
#include "tools/report_print.h"

struct report_args {
    const char *action, *input, *newer, *out, *junit, *gate, *verdict;
    double ratchet; /* percent of a bound; negative: not given */
    int tier;       /* -1: all */
    enum table_eol eol;
    struct report_page_args page;
};

enum {
    OPT_EOL = 0x500,
    OPT_TIER,
    OPT_GATE,
    OPT_VERDICT,
    OPT_JUNIT,
    OPT_DIFF,
    OPT_CONTROL,
    OPT_EXPLAIN,
    OPT_MUTANTS,
    OPT_RATCHET
};

static const struct argp_option options[] = {
    {"out", 'o', "FILE", 0,
     "where the result goes (default: standard output); compare: every change as a CSV row", 1},
    {NULL, 0, NULL, 0, "export, compare:", 2},
    {"eol", OPT_EOL, "crlf|lf", 0, "line ends (default crlf, as RFC 4180 asks; lf suits files kept in git)",
     2},
    {"tier", OPT_TIER, "TIER", 0, "rows of this tier only", 2},
    {"gate", OPT_GATE, "GATE", 0, "rows of this gate only", 2},
    {"ratchet", OPT_RATCHET, "PERCENT", 0,
     "compare: worse is a check that uses this much more of its bound than before (default 1)", 2},
    {"verdict", OPT_VERDICT, "VERDICT", 0, "export: rows with this verdict only", 2},
    {"junit", OPT_JUNIT, "FILE", 0, "export: write the same rows as JUnit XML too", 2},
    {NULL, 0, NULL, 0, "html:", 3},
    {"diff", OPT_DIFF, "A.fgd B.fgd", 0, "show the fork between two dumps, and how close the choices were",
     3},
    {"control", OPT_CONTROL, "DIR", 0,
     "control pairs that say what a benign change may move, as diff takes them", 3},
    {"explain", OPT_EXPLAIN, "CSV", 0, "growth through the layers, from forkgate explain --csv", 3},
    {"mutants", OPT_MUTANTS, "CSV", 0, "the fault matrix, from forkgate mutants --csv", 3},
    {NULL, 0, NULL, 0, NULL, 0}};

static int known_verdict(const char *name) {
    for (int v = 0; v < VERDICTS; v++)
        if (strcmp(verdict_name((enum verdict)v), name) == 0) return 1;
    return 0;
}

static error_t parse_filter(int key, char *arg, struct argp_state *state, struct report_args *a) {
    switch (key) {
    case OPT_TIER:
        a->tier = tier_from_name(arg);
        if (a->tier < 0) argp_error(state, "--tier %s: want parity, suite, identity, tolerance or perf", arg);
        return 0;
    case OPT_GATE:
        a->gate = arg;
        return 0;
    case OPT_VERDICT:
        a->verdict = arg;
        if (!known_verdict(arg))
            argp_error(state, "--verdict %s: want PASS, FAIL, SKIP, ERROR, BLIND or INCONCLUSIVE", arg);
        return 0;
    case OPT_RATCHET:
        a->ratchet = cli_real(state, "--ratchet", arg, 0, 100);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The second dump stands behind the option's own argument. */
static void parse_pair(struct argp_state *state, char *arg, struct report_page_args *p) {
    if (state->next >= state->argc || state->argv[state->next][0] == '-') {
        argp_error(state, "--diff %s: want two dumps, A.fgd B.fgd", arg);
        return;
    }
    p->dump_a = arg;
    p->dump_b = state->argv[state->next++];
}

static error_t parse_page(int key, char *arg, struct argp_state *state, struct report_args *a) {
    switch (key) {
    case OPT_DIFF:
        parse_pair(state, arg, &a->page);
        return 0;
    case OPT_CONTROL:
        a->page.control = arg;
        return 0;
    case OPT_EXPLAIN:
        a->page.explain = arg;
        return 0;
    case OPT_MUTANTS:
        a->page.mutants = arg;
        return 0;
    default:
        return parse_filter(key, arg, state, a);
    }
}

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
    int of_export = a->verdict != NULL || a->junit != NULL, of_compare = a->ratchet >= 0;
    int of_rows = a->tier >= 0 || a->gate != NULL;
    const char *of = of_html && !is_html(a)                       ? "html"
                     : of_export && (is_html(a) || is_compare(a)) ? "export"
                     : of_compare && !is_compare(a)               ? "compare"
                     : of_rows && is_html(a)                      ? "export and compare"
                                                                  : NULL;
    if (of != NULL) argp_error(state, "an option of %s does not fit %s", of, a->action);
}

static void check(struct argp_state *state, const struct report_args *a) {
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

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct report_args *a = state->input;
    switch (key) {
    case 'o':
        a->out = arg;
        return 0;
    case OPT_JUNIT:
        a->junit = arg;
        return 0;
    case OPT_EOL:
        if (strcmp(arg, "crlf") != 0 && strcmp(arg, "lf") != 0)
            argp_error(state, "--eol %s: want crlf or lf", arg);
        a->eol = arg[0] == 'l' ? TABLE_LF : TABLE_CRLF;
        return 0;
    case ARGP_KEY_ARG:
        if (a->action == NULL)
            a->action = arg;
        else if (a->input == NULL)
            a->input = arg;
        else if (a->newer == NULL)
            a->newer = arg;
        else
            argp_error(state, "unexpected argument '%s'", arg);
        return 0;
    case ARGP_KEY_END:
        check(state, a);
        return 0;
    default:
        return parse_page(key, arg, state, a);
    }
}

static const struct argp argp = {
    options,
    parse,
    "export FILE.csv\ncompare OLD.csv NEW.csv\nhtml [RUN.csv]",
    "export: reads the CSV of a run (forkgate run --csv), checks it (schema, columns, every verdict against "
    "its own "
    "value and bound) and writes the rows that were asked for. compare: what changed since an earlier run: "
    "verdicts, checks "
    "that came and went, bounds, headroom; gates that take longer are listed, but speed is for ab to judge. "
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
    NULL,
    NULL,
    NULL};

static size_t filter(const struct report_args *a, struct evidence *rows, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (a->tier >= 0 && (int)rows[i].tier != a->tier) continue;
        if (a->gate != NULL && strcmp(rows[i].gate, a->gate) != 0) continue;
        if (a->verdict != NULL && strcmp(verdict_name(rows[i].verdict), a->verdict) != 0) continue;
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
    const char *const inputs[] = {a->input, a->newer, p->dump_a, p->dump_b, p->control, p->explain, p->mutants};
    const char *const outputs[2] = {a->out, a->junit};
    for (int i = 0; i < 2; i++) {
        if (outputs[i] == NULL) continue;
        RETURN_IF_ERROR(file_out_check(outputs[i], i == 0, err));
        RETURN_IF_ERROR(
            file_out_spares(outputs[i], inputs, (int)(sizeof inputs / sizeof inputs[0]), err));
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
    a.tier = -1;
    a.ratchet = -1;
    a.eol = TABLE_CRLF;
    cli_parse(&argp, argc, argv, &a);
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
                                   &argp, run};
