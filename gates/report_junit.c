/* report_junit.c - evidence rows as JUnit XML, the subset that GitLab, Jenkins and ctest readers share.
 * Idea: servers key a test by classname and name and drop duplicates, so the name is case, arm, metric and backend, with a
 * number when they repeat anywhere in the report (rounds of --repeat).
 * Source: ours (no official schema exists). Exercise: ctest -R unit.report */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/report.h"
#include "gates/report_sum.h"

/* Length of a valid UTF-8 sequence at p that XML 1.0 may hold, 0 when there is none. */
static size_t xml_sequence(const unsigned char *p) {
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : 0;
    if (p[0] >= 0xf0 && p[0] < 0xf5) n = 4;
    if (n == 1) return p[0] >= 0x20 && p[0] != 0x7f ? 1 : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f))) return 0;
    if (n == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] > 0xbd) return 0; /* U+FFFE, U+FFFF */
    if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))) return 0;
    return n;
}

static void append(const char *text, size_t n, char *out, size_t room, size_t *used) {
    for (size_t i = 0; i < n; i++, (*used)++)
        if (*used + 1 < room) out[*used] = text[i];
}

size_t report_xml_escape(const char *text, char *out, size_t room) {
    size_t used = 0;
    for (const char *p = text; *p != '\0';) {
        unsigned char c = (unsigned char)*p;
        const char *entity = c == '&'   ? "&amp;"
                             : c == '<' ? "&lt;"
                             : c == '>' ? "&gt;"
                             : c == '"' ? "&quot;"
                                        : NULL;
        size_t n = xml_sequence((const unsigned char *)p);
        char hex[8];
        if (entity == NULL && n == 0) {
            (void)snprintf(hex, sizeof hex, "\\x%02x", c);
            entity = hex;
        }
        if (entity != NULL)
            append(entity, strlen(entity), out, room, &used);
        else
            append(p, n, out, room, &used);
        p += n > 0 ? n : 1;
    }
    if (room > 0) out[used < room ? used : room - 1] = '\0';
    return used;
}

static void put_attribute(FILE *f, const char *name, const char *text) {
    char escaped[4096];
    (void)report_xml_escape(text, escaped, sizeof escaped);
    fprintf(f, " %s=\"%s\"", name, escaped);
}

/* ---- which of those with one name --------------------------------------------------------------------------------- */
static int name_order(const struct evidence *a, const struct evidence *b) {
    int c = (int)a->tier - (int)b->tier;
    if (c == 0) c = strcmp(a->gate, b->gate);
    if (c == 0) c = strcmp(a->test_case, b->test_case);
    if (c == 0) c = strcmp(a->arm, b->arm);
    if (c == 0) c = strcmp(a->metric, b->metric);
    return c != 0 ? c : (strcmp(a->backend, "cuda") == 0) - (strcmp(b->backend, "cuda") == 0);
}

static int row_order(const void *x, const void *y) {
    const struct evidence *a = *(const struct evidence *const *)x, *b = *(const struct evidence *const *)y;
    int c = name_order(a, b);
    return c != 0 ? c : (a > b) - (a < b);
}

/* For every row, how many rows before it have its name; NULL: no memory. */
static size_t *count_repeats(const struct evidence *rows, size_t n) {
    const struct evidence **order = calloc(n + 1, sizeof *order);
    size_t *repeats = calloc(n + 1, sizeof *repeats);
    for (size_t i = 0; order != NULL && i < n; i++) order[i] = &rows[i];
    if (order != NULL) qsort(order, n, sizeof *order, row_order);
    for (size_t i = 1; order != NULL && repeats != NULL && i < n; i++)
        if (name_order(order[i - 1], order[i]) == 0)
            repeats[order[i] - rows] = repeats[order[i - 1] - rows] + 1;
    if (order == NULL) free(repeats);
    if (order == NULL) repeats = NULL;
    free(order);
    return repeats;
}

/* ---- XML ---------------------------------------------------------------------------------------------------------- */
static const char *element_of(enum verdict v) {
    if (v == VERDICT_PASS) return NULL;
    if (v == VERDICT_SKIP) return "skipped";
    return v == VERDICT_FAIL || v == VERDICT_BLIND ? "failure" : "error";
}

static void put_case(FILE *f, const struct evidence *e, size_t repeats) {
    char name[512], text[1024];
    (void)snprintf(text, sizeof text, "forkgate.%s.%s", tier_name(e->tier), e->gate);
    fprintf(f, "    <testcase");
    put_attribute(f, "classname", text);
    int used = snprintf(name, sizeof name, "%s %s %s", e->test_case, e->arm, e->metric);
    if (used > 0 && (size_t)used < sizeof name && strcmp(e->backend, "cuda") == 0)
        used += snprintf(name + used, sizeof name - (size_t)used, " on cuda");
    if (repeats > 0 && used > 0 && (size_t)used < sizeof name)
        (void)snprintf(name + used, sizeof name - (size_t)used, " #%zu", repeats + 1);
    put_attribute(f, "name", name);
    fprintf(f, " time=\"%.6f\"", e->ms * 1e-3);
    const char *element = element_of(e->verdict);
    if (element == NULL) {
        fprintf(f, "/>\n");
        return;
    }
    fprintf(f, ">\n      <%s", element);
    (void)snprintf(text, sizeof text, "%s: value %.9g bound %.9g; %s; rerun: %s", verdict_name(e->verdict),
                   e->value, e->bound, e->note, e->repro);
    put_attribute(f, "message", text);
    fprintf(f, "/>\n    </testcase>\n");
}

static void put_suite(FILE *f, const struct evidence *rows, const size_t *repeats, size_t begin, size_t end) {
    size_t failures = 0, errors = 0, skipped = 0;
    double ms = 0;
    for (size_t i = begin; i < end; i++) {
        const char *element = element_of(rows[i].verdict);
        failures += element != NULL && element[0] == 'f';
        errors += element != NULL && element[0] == 'e';
        skipped += element != NULL && element[0] == 's';
        ms += rows[i].ms;
    }
    fprintf(f, "  <testsuite");
    put_attribute(f, "name", rows[begin].gate);
    fprintf(f, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.6f\">\n", end - begin,
            failures, errors, skipped, ms * 1e-3);
    for (size_t i = begin; i < end; i++) put_case(f, &rows[i], repeats[i]);
    fprintf(f, "  </testsuite>\n");
}

/* The name of the whole says what the tests add up to: green ones alone are no landing verdict. */
static void put_report(FILE *f, const struct evidence *rows, const size_t *repeats, size_t n,
                       const struct report_sum *s) {
    char name[1600];
    (void)snprintf(name, sizeof name, "forkgate: %s%s%s", report_sum_headline(s),
                   s->next[0] != '\0' ? "; the whole verdict: " : "", s->next);
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
    put_attribute(f, "name", name);
    fprintf(f, ">\n");
    for (size_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && strcmp(rows[end].gate, rows[begin].gate) == 0;) end++;
        put_suite(f, rows, repeats, begin, end);
    }
    fprintf(f, "</testsuites>\n");
}

enum status report_write_junit(const char *path, const struct evidence *rows, size_t n, struct err *err) {
    char *text = NULL;
    size_t bytes = 0;
    struct report_sum sum;
    RETURN_IF_ERROR(report_sum_rows(rows, n, &sum, err));
    size_t *repeats = count_repeats(rows, n);
    FILE *f = repeats == NULL ? NULL : open_memstream(&text, &bytes);
    int bad = f == NULL;
    if (f != NULL) {
        put_report(f, rows, repeats, n, &sum);
        bad = ferror(f);
        bad |= fclose(f) != 0;
    }
    enum status s =
        bad ? err_set(err, STATUS_NOMEM, "%s: out of memory", path) : file_out_whole(path, text, bytes, err);
    free(text);
    free(repeats);
    report_sum_free(&sum);
    return s;
}
