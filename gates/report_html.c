/* report_html.c - the page: verdict, tiers, gates, and the order of everything else. See report_html.h. */
#include "gates/report_html.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/page.h"
#include "gates/report.h"
#include "gates/report_sum.h"

static const char *class_of(enum verdict v) {
    if (v == VERDICT_PASS) return "good";
    return v == VERDICT_FAIL || v == VERDICT_BLIND ? "bad" : "warn";
}

/* ---- verdict ------------------------------------------------------------------------------------------------------- */

static void put_run_verdict(FILE *out, const struct report_sum *s) {
    int code = report_sum_exit_code(s);
    uint64_t passed = s->counts[VERDICT_PASS], skipped = s->counts[VERDICT_SKIP];
    fprintf(out, "<div class=\"verdict %s\"><h1>", code == 0 ? "good" : code == 1 ? "bad" : "warn");
    page_text(out, report_sum_headline(s));
    fprintf(out,
            "</h1>\n<p>%" PRIu64 " gates passed, %" PRIu64 " failed, %" PRIu64 " skipped; %zu checks</p>\n",
            passed, (uint64_t)s->n - passed - skipped, skipped, s->n_rows);
    if (s->next[0] != '\0') {
        fprintf(out, "<p>The whole verdict: <code>");
        page_text(out, s->next);
        fprintf(out, "</code></p>\n");
    }
    for (size_t i = 0; i < s->n; i++) {
        if (s->gates[i].verdict == VERDICT_PASS || s->gates[i].verdict == VERDICT_SKIP) continue;
        fprintf(out, "<p><span class=\"word %s\">%s</span> <a href=\"#gate-", class_of(s->gates[i].verdict),
                verdict_name(s->gates[i].verdict));
        page_text(out, s->gates[i].id);
        fprintf(out, "\">");
        page_text(out, s->gates[i].id);
        fprintf(out, "</a></p>\n");
    }
    fprintf(out, "</div>\n");
}

static void put_fork_verdict(FILE *out, const struct report_page *p, int is_head) {
    int code = diff_exit_code(p->diff->verdict);
    const char *tag = is_head ? "h1" : "p";
    fprintf(out, "<div class=\"verdict %s\"><%s>", code == 0 ? "good" : code == 1 ? "bad" : "warn", tag);
    if (!is_head) {
        page_text(out, p->fork_title == NULL ? "The two streams" : p->fork_title);
        fprintf(out, ": <b>");
    }
    page_text(out, diff_verdict_name(p->diff->verdict));
    if (!is_head) fprintf(out, "</b>");
    if (p->diff->fork != UINT64_MAX)
        fprintf(out, " at token <a href=\"#fork\">%" PRIu64 "</a> of %" PRIu64 " | %" PRIu64, p->diff->fork,
                p->diff->count_a, p->diff->count_b);
    fprintf(out, "</%s>\n", tag);
    page_element(out, "p", NULL, p->diff->reason);
    fprintf(out, "</div>\n");
}

/* ---- tiers and gates ------------------------------------------------------------------------------------------------- */

static void put_tier(FILE *out, const struct report_sum *s, enum tier t) {
    uint64_t counts[VERDICTS] = {0};
    size_t rows = 0;
    double ms = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->gates[i].tier != t) continue;
        counts[s->gates[i].verdict]++;
        rows += s->gates[i].n;
        ms += s->gates[i].ms;
    }
    if (rows == 0) return;
    enum verdict v = verdict_worst(counts);
    uint64_t bad =
        counts[VERDICT_FAIL] + counts[VERDICT_BLIND] + counts[VERDICT_ERROR] + counts[VERDICT_INCONCLUSIVE];
    fprintf(out, "<tr><th scope=\"row\">%d %s</th><td>", (int)t + 1, tier_name(t));
    page_text(out, report_tier_question(t));
    fprintf(out,
            "</td><td class=\"%s\">%s</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
            "</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%zu</td><td class=\"n\">%.1f s</td></tr>\n",
            class_of(v), verdict_name(v), counts[VERDICT_PASS], bad, counts[VERDICT_SKIP], rows, ms * 1e-3);
}

static void put_tiers(FILE *out, const struct report_sum *s) {
    fprintf(
        out,
        "<section aria-labelledby=\"tiers\"><h2 id=\"tiers\">Tiers</h2>\n<div class=\"scroll\" "
        "tabindex=\"0\" "
        "role=\"region\" aria-labelledby=\"tiers\"><table><caption>Gates by tier; time is that of the checks."
        "</caption>\n<thead><tr><th scope=\"col\">tier</th><th scope=\"col\">question</th>"
        "<th scope=\"col\">verdict</th><th scope=\"col\" class=\"n\">passed</th><th scope=\"col\" "
        "class=\"n\">failed"
        "</th><th scope=\"col\" class=\"n\">skipped</th><th scope=\"col\" class=\"n\">checks</th>"
        "<th scope=\"col\" class=\"n\">time</th></tr></thead>\n<tbody>\n");
    for (int t = 0; t < REPORT_TIERS; t++) put_tier(out, s, (enum tier)t);
    fprintf(out, "</tbody></table></div></section>\n");
}

static void put_gates(FILE *out, const struct report_sum *s) {
    fprintf(out, "<section aria-labelledby=\"gates\"><h2 id=\"gates\">Gates</h2>\n<div class=\"scroll\" "
                 "tabindex=\"0\" "
                 "role=\"region\" aria-labelledby=\"gates\"><table><caption>Headroom is value over bound of "
                 "the closest check: "
                 "above 1 is over the limit.</caption>\n<thead><tr><th scope=\"col\">gate</th><th "
                 "scope=\"col\">verdict</th>"
                 "<th scope=\"col\" class=\"n\">headroom</th><th scope=\"col\">what was seen</th>"
                 "<th scope=\"col\">claim</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < s->n; i++) {
        const struct report_gate *g = &s->gates[i];
        char line[512];
        report_gate_line(g, line, sizeof line);
        fprintf(out, "<tr><th scope=\"row\" class=\"mono\">");
        page_text(out, g->id);
        fprintf(out, "</th><td class=\"%s\">%s</td><td class=\"n\">", class_of(g->verdict),
                verdict_name(g->verdict));
        page_number(out, g->closest == NULL ? (double)NAN : report_headroom(g->closest));
        fprintf(out, "</td>");
        page_element(out, "td", "wrap what", line);
        const char *claim = report_gate_claim(g->id);
        page_element(out, "td", "muted", claim == NULL ? "" : claim);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div></section>\n");
}

/* ---- provenance ------------------------------------------------------------------------------------------------------ */

static void put_cell(FILE *out, const char *value) {
    page_element(out, "td", "wrap", value == NULL ? "(absent)" : value);
}

/* Both sides of every key; what differs is said in words. */
static void put_sides(FILE *out, const dump *a, const dump *b) {
    const struct provenance *p = dump_provenance(a), *q = dump_provenance(b);
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Provenance of both "
            "streams\"><table>"
            "<caption>Both streams</caption>\n<thead><tr><th scope=\"col\">key</th><th scope=\"col\">A</th>"
            "<th scope=\"col\">B</th><th scope=\"col\">equal</th></tr></thead>\n<tbody>\n");
    for (int side = 0; side < 2; side++) {
        const struct provenance *own = side == 0 ? p : q, *other = side == 0 ? q : p;
        for (int i = 0; i < own->n; i++) {
            const char *key = own->items[i].key, *x = own->items[i].value, *y = provenance_get(other, key);
            if (side == 1 && y != NULL) continue; /* shown with A */
            int equal = y != NULL && strcmp(x, y) == 0;
            fprintf(out, "<tr><th scope=\"row\">");
            page_text(out, key);
            fprintf(out, "</th>");
            put_cell(out, side == 0 ? x : y);
            put_cell(out, side == 0 ? y : x);
            fprintf(out, "<td%s>%s</td></tr>\n", equal ? "" : " class=\"warn\"", equal ? "yes" : "differs");
        }
    }
    fprintf(out, "</tbody></table></div>\n");
}

static void put_provenance(FILE *out, const struct report_page *p) {
    fprintf(out, "<section aria-labelledby=\"provenance\"><h2 id=\"provenance\">Provenance</h2>\n");
    if (p->about != NULL) {
        fprintf(out, "<dl>\n");
        for (int i = 0; i < p->about->n; i++)
            page_fact(out, p->about->items[i].key, p->about->items[i].value);
        fprintf(out, "</dl>\n");
    }
    if (p->a != NULL) put_sides(out, p->a, p->b);
    fprintf(out, "</section>\n");
}

/* ---- the page -------------------------------------------------------------------------------------------------------- */

struct part {
    const char *anchor, *name;
    int there;
    const char *missing; /* how to get it */
};

/* Links to what is there, and a line about what is not. */
static void put_contents(FILE *out, const struct part *parts, size_t n) {
    size_t missing = 0;
    fprintf(out, "<nav aria-label=\"Contents\"><ul>\n");
    for (size_t i = 0; i < n; i++)
        if (parts[i].there) fprintf(out, "<li><a href=\"#%s\">%s</a></li>\n", parts[i].anchor, parts[i].name);
    fprintf(out, "</ul></nav>\n");
    for (size_t i = 0; i < n; i++) {
        if (parts[i].there || parts[i].missing == NULL) continue;
        fprintf(out, "%s%s (%s)", missing++ == 0 ? "<p class=\"muted\">Not in this report: " : "; ",
                parts[i].name, parts[i].missing);
    }
    if (missing > 0) fprintf(out, ".</p>\n");
}

static const char *no_fork(const struct report_page *p) {
    return p->of_run ? "no stream left its golden" : "--diff A.fgd B.fgd";
}

static enum status put_main(FILE *out, const struct report_page *p, const struct report_sum *s,
                            struct err *err) {
    int has_rows = p->rows != NULL, red = has_rows && report_sum_exit_code(s) != 0;
    int has_fork = p->diff != NULL && p->diff->fork != UINT64_MAX;
    const struct part parts[] = {
        {"tiers", "Tiers", has_rows, "give the CSV of a run"},
        {"failures", "Failures", red, NULL},
        {"fork", "Fork", has_fork, p->diff == NULL ? no_fork(p) : NULL},
        {"gaps", "Near-ties", p->diff != NULL, NULL},
        {"growth", "Growth", p->explain != NULL, "--explain, of forkgate explain --csv"},
        {"faults", "Faults", p->mutants != NULL, "--mutants, of forkgate mutants --csv"},
        {"gates", "Gates", has_rows, NULL},
        {"coverage", "Coverage", has_rows, NULL},
        {"provenance", "Provenance", 1, NULL}};
    fprintf(out, "<main id=\"main\">\n");
    if (has_rows) put_run_verdict(out, s);
    if (p->diff != NULL) put_fork_verdict(out, p, !has_rows);
    if (!has_rows && p->diff == NULL) page_element(out, "h1", NULL, "forkgate report");
    put_contents(out, parts, sizeof parts / sizeof parts[0]);
    if (has_rows) put_tiers(out, s);
    if (red) html_failures(out, s, p->rows, p->n);
    if (has_fork) html_fork(out, p);
    if (p->diff != NULL) RETURN_IF_ERROR(html_gaps(out, p, err));
    if (p->explain != NULL) RETURN_IF_ERROR(html_growth(out, p->explain, err));
    if (p->mutants != NULL) RETURN_IF_ERROR(html_faults(out, p->mutants, err));
    if (has_rows) put_gates(out, s);
    if (has_rows) html_coverage(out, p->rows, p->n);
    put_provenance(out, p);
    fprintf(out, "</main>\n");
    return STATUS_OK;
}

static void put_title(const struct report_page *p, const struct report_sum *s, char title[440]) {
    if (p->rows != NULL)
        (void)snprintf(title, 440, "forkgate: %s", report_sum_headline(s));
    else if (p->diff != NULL)
        (void)snprintf(title, 440, "forkgate: %s", diff_verdict_name(p->diff->verdict));
    else
        (void)snprintf(title, 440, "forkgate report");
}

static enum status put_page(FILE *out, const struct report_page *p, struct err *err) {
    struct report_sum s;
    char title[440];
    RETURN_IF_ERROR(report_sum_rows(p->rows, p->n, &s, err));
    put_title(p, &s, title);
    page_begin(out, title);
    enum status status = put_main(out, p, &s, err);
    report_sum_free(&s);
    page_end(out, "forkgate: one self-contained file; the evidence rows are in the CSV of the run.");
    return status;
}

static enum status deliver(const char *path, FILE *stream, const char *text, size_t n, struct err *err) {
    if (path == NULL) {
        int bad = fwrite(text, 1, n, stream) != n || fflush(stream) != 0;
        return bad ? err_set(err, STATUS_IO, "HTML output: cannot be written") : STATUS_OK;
    }
    return file_out_whole(path, text, n, err);
}

enum status report_write_html(const char *path, FILE *stream, const struct report_page *p, struct err *err) {
    char *text = NULL;
    size_t n = 0;
    if (p->rows == NULL && p->diff == NULL && p->explain == NULL && p->mutants == NULL)
        return err_set(err, STATUS_USAGE, "HTML report: nothing to report");
    FILE *out = open_memstream(&text, &n);
    if (out == NULL) return err_set(err, STATUS_NOMEM, "HTML report: out of memory");
    enum status s = put_page(out, p, err);
    int bad = ferror(out);
    if (fclose(out) != 0 || bad) s = err_set(err, STATUS_NOMEM, "HTML report: out of memory");
    if (s == STATUS_OK) s = deliver(path, stream, text, n, err);
    free(text);
    return s;
}
