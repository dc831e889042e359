/* report_html_run.c - what failed, and which gate ran which kernel: the parts of the HTML report about a run's rows.
 * Source: ours. Exercise: ctest -R unit.report_html */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/page.h"
#include "gates/report_html.h"
#include "gates/report_sum.h"

#define OTHERS_SHOWN 40  /* failing rows of a gate behind the first */
#define KERNELS_MAX  128 /* of a coverage map */
#define KERNEL_BYTES 48

/* ---- failures -------------------------------------------------------------------------------------------------------- */

static void put_first(FILE *out, const struct evidence *e) {
    fprintf(out, "<dl>\n");
    page_fact(out, "where", e->test_case);
    page_fact(out, "arm", e->arm);
    if (!isnan(e->bound)) page_factf(out, "measured", "%s %.6g, bound %.6g", e->metric, e->value, e->bound);
    page_fact(out, "want", e->ref);
    page_fact(out, "got", e->got);
    page_fact(out, "what", e->note);
    page_fact(out, "evidence", e->grade);
    fprintf(out, "</dl>\n");
    if (e->repro[0] == '\0') return;
    fprintf(out, "<p class=\"muted\">Run it again:</p>");
    page_element(out, "pre", NULL, e->repro);
    fprintf(out, "\n");
}

static void put_others(FILE *out, const struct report_gate *g, const struct evidence *rows, size_t n) {
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < n; i++) {
        const struct evidence *e = &rows[i];
        if (e == g->telling || e->verdict != g->verdict || strcmp(e->gate, g->id) != 0) continue;
        if (shown == OTHERS_SHOWN) {
            left++;
            continue;
        }
        if (shown++ == 0)
            fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"More failing "
                         "checks\"><table>"
                         "<caption>The other failing checks</caption><thead><tr><th scope=\"col\">case</th>"
                         "<th scope=\"col\">arm</th><th scope=\"col\" class=\"n\">value</th><th "
                         "scope=\"col\" class=\"n\">bound"
                         "</th><th scope=\"col\">what</th></tr></thead><tbody>\n");
        fprintf(out, "<tr>");
        page_element(out, "td", "wrap", e->test_case);
        page_element(out, "td", NULL, e->arm);
        fprintf(out, "<td class=\"n\">");
        page_number(out, e->value);
        fprintf(out, "</td><td class=\"n\">");
        page_number(out, e->bound);
        fprintf(out, "</td>");
        page_element(out, "td", "wrap what", e->note);
        fprintf(out, "</tr>\n");
    }
    if (shown > 0) fprintf(out, "</tbody></table></div>\n");
    if (left > 0) fprintf(out, "<p>and %zu more in the CSV of the run.</p>\n", left);
}

void html_failures(FILE *out, const struct report_sum *s, const struct evidence *rows, size_t n) {
    fprintf(out, "<section aria-labelledby=\"failures\"><h2 id=\"failures\">Failures</h2>\n");
    size_t red = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct report_gate *g = &s->gates[i];
        if (g->verdict == VERDICT_PASS || g->verdict == VERDICT_SKIP) continue;
        int failed = g->verdict == VERDICT_FAIL || g->verdict == VERDICT_BLIND;
        const char *claim = report_gate_claim(g->id);
        red++;
        fprintf(out, "<article class=\"gate%s\"><h3 id=\"gate-", failed ? "" : " warn");
        page_text(out, g->id);
        fprintf(out, "\"><span class=\"word %s\">%s</span> <code>", failed ? "bad" : "warn",
                verdict_name(g->verdict));
        page_text(out, g->id);
        fprintf(out, "</code></h3>\n");
        if (claim != NULL) {
            fprintf(out, "<p>Claim: ");
            page_text(out, claim);
            fprintf(out, "</p>\n");
        }
        if (g->telling != NULL) put_first(out, g->telling);
        put_others(out, g, rows, n);
        fprintf(out, "</article>\n");
    }
    if (red == 0) fprintf(out, "<p>No gate failed, but nothing passed either: there is no verdict.</p>\n");
    fprintf(out, "</section>\n");
}

/* ---- coverage -------------------------------------------------------------------------------------------------------- */

struct coverage_map {
    char kernels[KERNELS_MAX][KERNEL_BYTES];
    int n_kernels;
    const char *gates[64];
    int n_gates;
    unsigned char ran[KERNELS_MAX][64];
};

static int kernel_of(struct coverage_map *m, const char *word, size_t n) {
    if (n == 0 || n >= KERNEL_BYTES) return -1;
    for (int i = 0; i < m->n_kernels; i++)
        if (strlen(m->kernels[i]) == n && memcmp(m->kernels[i], word, n) == 0) return i;
    if (m->n_kernels == KERNELS_MAX) return -1;
    memcpy(m->kernels[m->n_kernels], word, n);
    return m->n_kernels++;
}

static int gate_of(struct coverage_map *m, const char *gate) {
    for (int i = m->n_gates; i-- > 0;)
        if (strcmp(m->gates[i], gate) == 0) return i;
    if (m->n_gates == 64) return -1;
    m->gates[m->n_gates] = gate;
    return m->n_gates++;
}

static void add_row(struct coverage_map *m, const struct evidence *e) {
    if (e->kernels[0] == '\0') return;
    int gate = gate_of(m, e->gate);
    for (const char *p = e->kernels; *p != '\0' && gate >= 0;) {
        size_t n = strcspn(p, " ");
        int kernel = kernel_of(m, p, n);
        if (kernel >= 0) m->ran[kernel][gate] = 1;
        p += n + (p[n] == ' ');
    }
}

static void put_map(FILE *out, const struct coverage_map *m) {
    fprintf(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"coverage\"><table "
        "class=\"map\">"
        "<caption>Kernels that really ran, by gate (from each row's launch counters). A dot: the gate ran it."
        "</caption>\n<thead><tr><th scope=\"col\">kernel</th>");
    for (int g = 0; g < m->n_gates; g++) {
        fprintf(out, "<th scope=\"col\"><span>");
        page_text(out, m->gates[g]);
        fprintf(out, "</span></th>");
    }
    fprintf(out, "</tr></thead>\n<tbody>\n");
    for (int k = 0; k < m->n_kernels; k++) {
        fprintf(out, "<tr><th scope=\"row\" class=\"mono\">");
        page_text(out, m->kernels[k]);
        fprintf(out, "</th>");
        for (int g = 0; g < m->n_gates; g++)
            fprintf(out, m->ran[k][g] ? "<td>&#9679;<span class=\"vh\">ran</span></td>" : "<td></td>");
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div>\n");
}

void html_coverage(FILE *out, const struct evidence *rows, size_t n) {
    struct coverage_map *m = calloc(1, sizeof *m);
    const struct evidence *judged = NULL;
    fprintf(out, "<section aria-labelledby=\"coverage\"><h2 id=\"coverage\">Coverage</h2>\n");
    for (size_t i = 0; i < n; i++) {
        if (m != NULL) add_row(m, &rows[i]);
        if (strcmp(rows[i].gate, "coverage.kernels") == 0) judged = &rows[i];
    }
    if (judged != NULL) {
        fprintf(out, "<p>Every kernel of the backend ran in some gate: <b>%s</b>. ",
                verdict_name(judged->verdict));
        page_text(out, judged->note);
        fprintf(out, "</p>\n");
    } else
        fprintf(
            out,
            "<p>Not a complete run of parity and identity: whether every kernel ran was not judged.</p>\n");
    if (m != NULL && m->n_kernels > 0)
        put_map(out, m);
    else
        fprintf(out, "<p>No row names a kernel.</p>\n");
    fprintf(out, "</section>\n");
    free(m);
}
