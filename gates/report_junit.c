/* report_junit.c - evidence rows as JUnit XML, the subset that GitLab, Jenkins and ctest readers share.
 * Idea: servers key a test by classname and name and drop duplicates, so the name is case, arm and metric, with a number
 * when one of them repeats. Source: ours (no official schema exists). Exercise: ctest -R unit.report */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/report.h"

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

/* How many rows before i have the same gate, case, arm and metric. */
static size_t repeats_before(const struct evidence *rows, size_t i) {
    size_t n = 0;
    for (size_t k = i; k-- > 0 && strcmp(rows[k].gate, rows[i].gate) == 0;)
        n += strcmp(rows[k].test_case, rows[i].test_case) == 0 && strcmp(rows[k].arm, rows[i].arm) == 0 &&
             strcmp(rows[k].metric, rows[i].metric) == 0;
    return n;
}

static const char *element_of(enum verdict v) {
    if (v == VERDICT_PASS) return NULL;
    if (v == VERDICT_SKIP) return "skipped";
    return v == VERDICT_FAIL || v == VERDICT_BLIND ? "failure" : "error";
}

static void put_case(FILE *f, const struct evidence *rows, size_t i) {
    const struct evidence *e = &rows[i];
    char name[512], text[1024];
    size_t repeats = repeats_before(rows, i);
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

static void put_suite(FILE *f, const struct evidence *rows, size_t begin, size_t end) {
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
    for (size_t i = begin; i < end; i++) put_case(f, rows, i);
    fprintf(f, "  </testsuite>\n");
}

enum status report_write_junit(const char *path, const struct evidence *rows, size_t n, struct err *err) {
    char part[4096];
    (void)snprintf(part, sizeof part, "%s.part%ld", path, (long)getpid());
    FILE *f = fopen(part, "w");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", part, strerror(errno));
    fprintf(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"forkgate\">\n");
    for (size_t begin = 0, end; begin < n; begin = end) {
        for (end = begin; end < n && strcmp(rows[end].gate, rows[begin].gate) == 0;) end++;
        put_suite(f, rows, begin, end);
    }
    fprintf(f, "</testsuites>\n");
    int bad = ferror(f);
    if (fclose(f) != 0 || bad || rename(part, path) != 0) {
        enum status s = err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
        (void)remove(part);
        return s;
    }
    return STATUS_OK;
}
