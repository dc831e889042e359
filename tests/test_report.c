/* test_report.c - evidence rows survive CSV, contradict themselves never, and make JUnit XML that any reader takes. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/report.h"
#include "gates/report_compare.h"

#define N 9

static struct evidence rows[N];
static char path[64];
static struct err err;

static void make_rows(void) {
    static const char *const notes[N] = {
        "plain",    "quote \" and comma,", "line\nbreak", "=1+1", "\xff byte", "back\\slash", "", "tab\t",
        "]]> & <x>"};
    memset(rows, 0, sizeof rows);
    (void)snprintf(path, sizeof path, "/tmp/forkgate-report-%ld", (long)getpid());
    for (int i = 0; i < N; i++) {
        rows[i].tier = i < 5 ? TIER_PARITY : TIER_IDENTITY;
        rows[i].verdict = VERDICT_PASS;
        rows[i].value = 0.1 * i;
        rows[i].bound = 1;
        rows[i].seed = UINT64_MAX - (uint64_t)i;
        rows[i].ms = 1.5;
        strcpy(rows[i].gate, i < 5 ? "op.add" : "model.repeat");
        strcpy(rows[i].arm, "oracle");
        strcpy(rows[i].grade, "measured");
        strcpy(rows[i].metric, "max_scaled");
        strcpy(rows[i].test_case, i % 2 == 0 ? "n=1 family=normal" : "n=2");
        strcpy(rows[i].note, notes[i]);
    }
    rows[3].verdict = VERDICT_SKIP;
    rows[3].value = rows[3].bound = NAN;
}

TestSuite(report, .init = make_rows);

Test(report, csv_gives_the_same_rows_back_whatever_their_text_holds) {
    for (int eol = TABLE_CRLF; eol <= TABLE_LF; eol++) {
        cr_assert_eq(report_write_csv(path, NULL, (enum table_eol)eol, rows, N, &err), STATUS_OK, "%s",
                     err.message);
        struct evidence *back;
        size_t n;
        cr_assert_eq(report_read_csv(path, &back, &n, &err), STATUS_OK, "%s", err.message);
        cr_assert_eq(n, N);
        for (size_t i = 0; i < N; i++) {
            cr_assert(strcmp(back[i].note, rows[i].note) == 0, "note of row %zu", i);
            cr_assert_eq(back[i].seed, rows[i].seed);
            cr_assert_eq(back[i].verdict, rows[i].verdict);
            cr_assert(memcmp(&back[i].value, &rows[i].value, sizeof(double)) == 0 || isnan(rows[i].value),
                      "row %zu", i);
        }
        free(back);
    }
    remove(path);
}

/* "self" is what a golden of the build's own commit is, right after a refresh. */
Test(report, every_grade_is_read_back) {
    static const char *const grades[] = {"measured", "derived", "queried", "recorded", "self"};
    struct evidence *back;
    size_t n;
    for (int i = 0; i < 5; i++) strcpy(rows[i].grade, grades[i]);
    cr_assert_eq(report_write_csv(path, NULL, TABLE_LF, rows, N, &err), STATUS_OK);
    cr_assert_eq(report_read_csv(path, &back, &n, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < 5; i++) cr_assert_str_eq(back[i].grade, grades[i]);
    free(back);
    remove(path);
}

Test(report, a_row_whose_numbers_contradict_its_verdict_is_refused) {
    rows[2].value = 2; /* above its bound, yet PASS */
    cr_assert_eq(report_write_csv(path, NULL, TABLE_LF, rows, N, &err), STATUS_OK);
    struct evidence *back;
    size_t n;
    cr_assert_eq(report_read_csv(path, &back, &n, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "record 3") != NULL && strstr(err.message, "contradicted") != NULL, "%s",
              err.message);
    make_rows();
    rows[4].verdict = VERDICT_FAIL; /* within its bound, yet FAIL */
    cr_assert_eq(report_write_csv(path, NULL, TABLE_LF, rows, N, &err), STATUS_OK);
    cr_assert_eq(report_read_csv(path, &back, &n, &err), STATUS_FORMAT);
    make_rows();
    rows[4].value = NAN; /* NaN is not a pass */
    cr_assert_eq(report_write_csv(path, NULL, TABLE_LF, rows, N, &err), STATUS_OK);
    cr_assert_eq(report_read_csv(path, &back, &n, &err), STATUS_FORMAT);
    remove(path);
}

static void edit_and_read(const char *from, const char *to, const char *expect) {
    cr_assert_eq(report_write_csv(path, NULL, TABLE_LF, rows, N, &err), STATUS_OK);
    FILE *f = fopen(path, "r");
    static char text[65536];
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    char *at = strstr(text, from);
    cr_assert(at != NULL, "no %s in the file", from);
    f = fopen(path, "w");
    fprintf(f, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(f);
    struct evidence *back;
    cr_assert_eq(report_read_csv(path, &back, &n, &err), STATUS_FORMAT, "accepted %s", to);
    cr_assert(strstr(err.message, expect) != NULL, "%s", err.message);
    remove(path);
}

Test(report, foreign_or_damaged_reports_are_refused_by_name) {
    edit_and_read("\n1,parity", "\n2,parity", "schema_version");
    edit_and_read("parity", "paritx", "tier");
    edit_and_read("PASS", "PASSED", "verdict");
    edit_and_read("measured", "guessed", "grade");
    edit_and_read(",bound,", ",bund,", "bound");
}

static void read_all(const char *file, char *out, size_t room) {
    FILE *f = fopen(file, "r");
    cr_assert(f != NULL, "cannot read back");
    out[fread(out, 1, room - 1, f)] = '\0';
    fclose(f);
}

Test(report, junit_names_are_unique_and_text_is_escaped) {
    static char text[65536];
    rows[8].verdict = VERDICT_FAIL;
    rows[8].value = 3;
    rows[7].verdict = VERDICT_ERROR;
    cr_assert_eq(report_write_junit(path, rows, N, &err), STATUS_OK, "%s", err.message);
    read_all(path, text, sizeof text);
    cr_assert(
        strstr(text, "classname=\"forkgate.parity.op.add\" name=\"n=1 family=normal oracle max_scaled\"") !=
            NULL,
        "first name");
    cr_assert(strstr(text, "name=\"n=1 family=normal oracle max_scaled #2\"") != NULL, "second of the same");
    cr_assert(strstr(text, "n=2 oracle max_scaled #3") == NULL, "two of them a gate");
    cr_assert(strstr(text, "tests=\"5\" failures=\"0\" errors=\"0\" skipped=\"1\"") != NULL, "first suite");
    cr_assert(strstr(text, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"0\"") != NULL, "second suite");
    cr_assert(strstr(text, "]]&gt; &amp; &lt;x&gt;") != NULL, "escaped");
    remove(path);
}

Test(report, junit_names_are_unique_over_rounds_and_backends) {
    static char text[65536];
    for (int i = 0; i < N;
         i++) { /* two rounds of a gate, another between them; the last row on the other backend */
        strcpy(rows[i].test_case, "n=1");
        strcpy(rows[i].gate, i == 4 ? "op.other" : "op.add");
        rows[i].tier = TIER_PARITY;
        strcpy(rows[i].backend, i == 8 ? "cuda" : "cpu");
    }
    cr_assert_eq(report_write_junit(path, rows, N, &err), STATUS_OK, "%s", err.message);
    read_all(path, text, sizeof text);
    cr_assert(strstr(text, "op.add\" name=\"n=1 oracle max_scaled #7\"") != NULL, "the seventh of one name");
    cr_assert(strstr(text, "op.add\" name=\"n=1 oracle max_scaled on cuda\"") != NULL, "the first on cuda");
    cr_assert(strstr(text, "op.other\" name=\"n=1 oracle max_scaled\"") != NULL, "another gate");
    const char *second = strstr(text, "max_scaled #2\"");
    cr_assert(second != NULL && strstr(second + 1, "max_scaled #2\"") == NULL, "one number twice");
    remove(path);
}

Test(report, xml_holds_no_forbidden_byte) {
    char out[64];
    (void)report_xml_escape("a\x01\xff\xc3\xa4\xed\xa0\x80z", out, sizeof out);
    cr_assert_str_eq(out, "a\\x01\\xff\xc3\xa4\\xed\\xa0\\x80z");
    cr_assert_eq(report_xml_escape("<&>", out, 4), 13, "the size needed is reported");
}

/* ---- since an earlier report ----------------------------------------------------------------------------------- */
static struct evidence later[N + 1];
static struct report_comparison c;

static size_t moves(enum report_move m) {
    size_t n = 0;
    for (size_t i = 0; i < c.n; i++) n += c.changes[i].move == m;
    return n;
}

/* The comparison of rows[] with later[]: how many changes of this kind, and whether they count. */
static void expect_move(size_t n_later, enum report_move m, size_t n, size_t worse) {
    report_compare_free(&c);
    cr_assert_eq(report_compare(rows, N, later, n_later, REPORT_RATCHET, &c, &err), STATUS_OK, "%s",
                 err.message);
    cr_assert_eq(moves(m), n, "%zu times %s", moves(m), report_move_name(m));
    cr_assert_eq(c.worse, worse, "%zu are worse", c.worse);
    cr_assert_eq(c.n, n, "%zu changes", c.n);
    memcpy(later, rows, sizeof rows);
    memset(&later[N], 0, sizeof later[N]);
}

Test(report, compare_says_what_is_worse_and_nothing_else) {
    memcpy(later, rows, sizeof rows);
    expect_move(N, REPORT_WORSE, 0, 0);
    later[2].verdict = VERDICT_FAIL;
    expect_move(N, REPORT_WORSE, 1, 1);
    later[2].verdict = VERDICT_SKIP; /* judged before, not any more */
    expect_move(N, REPORT_WORSE, 1, 1);
    later[3].verdict = VERDICT_INCONCLUSIVE; /* SKIP before */
    expect_move(N, REPORT_WORSE, 1, 1);
    later[3].verdict = VERDICT_PASS;
    expect_move(N, REPORT_BETTER, 1, 0);
    expect_move(N - 1, REPORT_VANISHED, 1, 1);
    cr_assert(!c.changes[0].whole_gate);
    expect_move(5, REPORT_VANISHED, N - 5, N - 5); /* model.repeat is the other four */
    cr_assert(c.changes[0].whole_gate);
    later[N] = rows[0];
    strcpy(later[N].gate, "op.new");
    expect_move(N + 1, REPORT_APPEARED, 1, 0);
    later[N] = rows[0];
    later[N].verdict = VERDICT_ERROR;
    expect_move(N + 1, REPORT_WORSE, 1, 1);
}

Test(report, compare_has_a_ratchet_for_headroom_and_bounds) {
    memcpy(later, rows, sizeof rows);
    later[4].value = rows[4].value + 0.009; /* within the ratchet of 1 % */
    expect_move(N, REPORT_SHRANK, 0, 0);
    later[4].value = rows[4].value + 0.02;
    expect_move(N, REPORT_SHRANK, 1, 1);
    later[4].value = rows[4].value - 0.02;
    expect_move(N, REPORT_GREW, 1, 0);
    later[4].bound = 2; /* the same value with more room is no better */
    expect_move(N, REPORT_LOOSENED, 1, 1);
    later[4].bound = 0.9;
    expect_move(N, REPORT_TIGHTENED, 1, 0);
    later[4].bound = NAN; /* PASS of what is not bounded any more */
    expect_move(N, REPORT_LOOSENED, 1, 1);
    rows[4].tier = TIER_PERF; /* a measured time has no ratchet */
    memcpy(later, rows, sizeof rows);
    later[4].value += 0.3;
    expect_move(N, REPORT_SHRANK, 0, 0);
}

Test(report, compare_misses_evidence_that_was_there) {
    strcpy(rows[1].kernels, "add");
    strcpy(rows[2].ref, "1234");
    strcpy(rows[4].got, "1234");
    memcpy(later, rows, sizeof rows);
    later[1].kernels[0] = '\0';
    expect_move(N, REPORT_BARE, 1, 1);
    later[2].ref[0] = later[4].got[0] = '\0';
    expect_move(N, REPORT_BARE, 2, 2);
    later[1].value -= 0.05; /* more headroom does not pay for it */
    later[1].kernels[0] = '\0';
    expect_move(N, REPORT_BARE, 1, 1);
    strcpy(later[0].kernels, "add"); /* more evidence than before is none of it */
    expect_move(N, REPORT_BARE, 0, 0);
    report_compare_free(&c);
}

Test(report, compare_pairs_rows_of_one_key_in_order_and_shows_speed_without_judging_it) {
    for (int i = 1; i < 5; i++) strcpy(rows[i].test_case, rows[0].test_case);
    memcpy(later, rows, sizeof rows);
    later[2].verdict = VERDICT_FAIL; /* the third of five with the same name */
    expect_move(N, REPORT_WORSE, 1, 1);
    report_compare_free(&c);
    cr_assert(report_compare(rows, N, later, N, REPORT_RATCHET, &c, &err) == STATUS_OK && c.n == 0);
    later[7].ms = 900;
    expect_move(N, REPORT_SLOWER, 1, 0);
    cr_assert(c.changes[0].to > 900 && strcmp(c.changes[0].after->gate, "model.repeat") == 0);
    later[1].ms = 50; /* too short to tell from the machine's own noise */
    expect_move(N, REPORT_SLOWER, 0, 0);
    report_compare_free(&c);
}
