/* test_report_github.c - annotation lines and the job summary: limits kept, and nothing foreign becomes a command or markup. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/report_github.h"

#define HOSTILE "100%\r\n::error::x | <b>**bold** `code` [a](b) \x1b[31m ::set-output"

static struct evidence *make_rows(size_t n, enum verdict v, const char *note) {
    struct evidence *rows = calloc(n, sizeof *rows);
    cr_assert(rows != NULL);
    for (size_t i = 0; i < n; i++) {
        rows[i].tier = TIER_IDENTITY;
        rows[i].verdict = v;
        rows[i].value = 2;
        rows[i].bound = 1;
        (void)snprintf(rows[i].gate, sizeof rows[i].gate, "gate.%zu", i);
        (void)strcpy(rows[i].arm, "golden");
        (void)strcpy(rows[i].metric, "rows");
        (void)snprintf(rows[i].test_case, sizeof rows[i].test_case, "%s", note);
        (void)snprintf(rows[i].note, sizeof rows[i].note, "%s", note);
        (void)snprintf(rows[i].repro, sizeof rows[i].repro, "forkgate run --only '%s'", note);
    }
    return rows;
}

static char *annotate(const struct evidence *rows, size_t n) {
    char *text = NULL;
    size_t bytes = 0;
    struct err err = {""};
    FILE *f = open_memstream(&text, &bytes);
    cr_assert_eq(report_github(f, rows, n, &err), STATUS_OK, "%s", err.message);
    (void)fclose(f);
    return text;
}

static size_t count_lines(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++) n += *text == '\n';
    return n;
}

Test(report_github, hostile_text_starts_no_command) {
    struct evidence *rows = make_rows(1, VERDICT_FAIL, HOSTILE);
    (void)strcpy(rows[0].gate, "a,b::c%");
    char *text = annotate(rows, 1);
    cr_assert_eq(count_lines(text), 1, "one line a gate: %s", text);
    cr_assert(strncmp(text, "::error title=FAIL a%2Cb%3A%3Ac%25::", 36) == 0, "%s", text);
    const char *data = text + 36;
    cr_assert(strstr(data, "::") == NULL, "a raw command in the data: %s", data);
    cr_assert(strstr(data, "100%25\\r\\n: :error: :x") != NULL, "%s", data);
    cr_assert(strchr(data, '\r') == NULL && strchr(data, '\x1b') == NULL, "a control byte");
    free(text);
    free(rows);
}

Test(report_github, nine_and_the_rest_is_counted) {
    struct evidence *rows = make_rows(12, VERDICT_FAIL, "x");
    rows[3].verdict = VERDICT_PASS;
    rows[4].verdict = VERDICT_SKIP;
    rows[5].verdict = VERDICT_ERROR;
    char *text = annotate(rows, 12);
    cr_assert_eq(count_lines(text), 10, "lines: %s", text);
    cr_assert(strstr(text, "::error title=forkgate::and 1 more\n") != NULL, "%s", text);
    cr_assert(strstr(text, "gate.3:") == NULL && strstr(text, "title=ERROR gate.5::") != NULL, "%s", text);
    free(text);
    text = annotate(rows, 8);
    cr_assert_eq(count_lines(text), 6, "all fit: %s", text);
    free(text);
    for (int i = 0; i < 12; i++) rows[i].verdict = VERDICT_PASS;
    text = annotate(rows, 12);
    cr_assert_str_eq(text, "", "a green run says nothing");
    free(text);
    free(rows);
}

static char *summary(const struct evidence *rows, size_t n, size_t *bytes) {
    char path[] = "/tmp/forkgate-test-md-XXXXXX";
    struct err err = {""};
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    cr_assert_eq(report_write_markdown(path, rows, n, NULL, &err), STATUS_OK, "%s", err.message);
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, (2u << 20) + 1);
    *bytes = fread(text, 1, 2u << 20, f);
    (void)fclose(f);
    (void)remove(path);
    return text;
}

Test(report_github, the_summary_is_markdown_that_nothing_foreign_shapes) {
    size_t bytes = 0;
    struct evidence *rows = make_rows(3, VERDICT_FAIL, HOSTILE);
    rows[1].verdict = VERDICT_SKIP;
    rows[1].value = rows[1].bound = (double)NAN;
    char *text = summary(rows, 3, &bytes);
    cr_assert(
        strstr(
            text,
            "## forkgate: FAIL: must not land (cpu only)\n\n0 gates passed, 2 failed, 1 skipped; 3 checks") !=
            NULL,
        "%s", text);
    cr_assert(strstr(text, "| 3 identity | is the path on the rails? | 0 | 2 | 1 | 3 |") != NULL, "%s", text);
    for (const char *line = text; line != NULL;
         line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
        size_t n = strcspn(line, "\n");
        const char *bold = strstr(line, " **bold"), *tag = strstr(line, "<b>");
        if (strncmp(line, "    ", 4) == 0) continue; /* a command: nothing is markup there */
        cr_assert((bold == NULL || bold > line + n) && (tag == NULL || tag > line + n),
                  "markup got through: %.*s", (int)n, line);
    }
    cr_assert(strstr(text, "\\\\r\\\\n") != NULL && strchr(text, '\r') == NULL, "line ends are escaped: %s",
              text);
    cr_assert(strstr(text, "&lt;b&gt;\\*\\*bold\\*\\* \\`code\\` \\[a\\]\\(b\\)") != NULL, "%s", text);
    cr_assert(strstr(text, "- skipped gate.1: 100%") != NULL, "%s", text);
    cr_assert(strstr(text, "\n    forkgate run --only '100%\\r\\n::error") != NULL,
              "the command stays as it is: %s", text);
    free(text);
    free(rows);
}

Test(report_github, a_summary_is_never_over_the_limit) {
    size_t bytes = 0;
    char long_note[300];
    memset(long_note, '*', sizeof long_note - 1);
    long_note[sizeof long_note - 1] = '\0';
    struct evidence *rows = make_rows(6000, VERDICT_FAIL, long_note);
    char *text = summary(rows, 6000, &bytes);
    cr_assert(bytes <= REPORT_SUMMARY_LIMIT, "%zu bytes", bytes);
    cr_assert(strstr(text, " more gates that are not green\n") != NULL, "what is left out is counted");
    free(text);
    for (int i = 0; i < 6000; i++) rows[i].verdict = VERDICT_SKIP;
    text = summary(rows, 6000, &bytes);
    cr_assert(bytes <= REPORT_SUMMARY_LIMIT && text[bytes - 1] == '\n', "%zu bytes of skips", bytes);
    free(text);
    free(rows);
}
