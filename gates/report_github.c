/* report_github.c - annotation lines. See report_github.h. */
#include "gates/report_github.h"

#include <math.h>
#include <string.h>

#include "gates/report_sum.h"
#include "gates/table.h"

#define MESSAGE_BYTES 1200

/* %25 %0D %0A in data, %3A %2C in a property too. Foreign "::" would look like the start of a command: it is parted. */
static void put_escaped(FILE *out, const char *text, int property) {
    char plain[MESSAGE_BYTES];
    (void)table_escape(text, strlen(text), 1, 0, plain,
                       sizeof plain); /* line ends and controls are \n and \xNN now */
    for (const char *p = plain; *p != '\0'; p++) {
        if (*p == '%')
            fputs("%25", out);
        else if (property && *p == ':')
            fputs("%3A", out);
        else if (property && *p == ',')
            fputs("%2C", out);
        else
            fputc(*p, out);
        if (!property && p[0] == ':' && p[1] == ':') fputc(' ', out);
    }
}

static void put_gate(FILE *out, const struct report_gate *g) {
    const struct evidence *e = g->telling;
    char title[160], text[MESSAGE_BYTES];
    (void)snprintf(title, sizeof title, "%s %s", verdict_name(g->verdict), g->id);
    fputs("::error title=", out);
    put_escaped(out, title, 1);
    fputs("::", out);
    if (e == NULL) {
        fputs("no row\n", out);
        return;
    }
    int used = snprintf(text, sizeof text, "%s %s", e->test_case, e->arm);
    if (!isnan(e->bound) && used > 0)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %s %.6g > %.6g", e->metric, e->value,
                         e->bound);
    if (e->note[0] != '\0' && used > 0 && (size_t)used < sizeof text)
        used += snprintf(text + used, sizeof text - (size_t)used, ": %s", e->note);
    if (e->repro[0] != '\0' && used > 0 && (size_t)used < sizeof text)
        (void)snprintf(text + used, sizeof text - (size_t)used, "; rerun: %s", e->repro);
    put_escaped(out, text, 0);
    fputc('\n', out);
}

enum status report_github(FILE *out, const struct evidence *rows, size_t n, struct err *err) {
    struct report_sum s;
    size_t shown = 0, left = 0;
    RETURN_IF_ERROR(report_sum_rows(rows, n, &s, err));
    for (size_t i = 0; i < s.n; i++) {
        if (s.gates[i].verdict == VERDICT_PASS || s.gates[i].verdict == VERDICT_SKIP) continue;
        if (shown == REPORT_ANNOTATIONS) {
            left++;
            continue;
        }
        shown++;
        put_gate(out, &s.gates[i]);
    }
    if (left > 0) fprintf(out, "::error title=forkgate::and %zu more\n", left);
    report_sum_free(&s);
    return STATUS_OK;
}
