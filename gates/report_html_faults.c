/* report_html_faults.c - the fault matrix: the part made from the CSV of `forkgate mutants`.
 * Not a judgement: every row carries its verdict.
 * Source: ours. Exercise: ctest -R unit.report_html */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gates/page.h"
#include "gates/report_html.h"

struct faults {
    const table *t;
    int backend, id, op, where, size, legal, tier, cell, killed_by, how, verdict;
    int tiers[TIER_PERF + 1]; /* non-zero: some row is about it */
};

static const char *class_of(const char *word) {
    if (strcmp(word, "killed") == 0 || strcmp(word, "ok") == 0) return "good";
    if (strcmp(word, "HOLE") == 0 || strcmp(word, "FALSE ALARM") == 0 || strcmp(word, "ERROR") == 0)
        return "bad";
    return strcmp(word, "error") == 0 || strcmp(word, "survived") == 0 ? "warn" : "muted";
}

static const char *cell(const struct faults *f, size_t row, int column) {
    return table_cell(f->t, row, column, NULL);
}

static enum status find_columns(struct faults *f, struct err *err) {
    const struct {
        const char *name;
        int *at;
    } columns[] = {{"backend", &f->backend}, {"id", &f->id},          {"op", &f->op},
                   {"where", &f->where},     {"size", &f->size},      {"legal", &f->legal},
                   {"tier", &f->tier},       {"cell", &f->cell},      {"killed_by", &f->killed_by},
                   {"how", &f->how},         {"verdict", &f->verdict}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        RETURN_IF_ERROR(table_need(f->t, columns[i].name, columns[i].at, err));
    for (size_t r = 0; r < table_rows(f->t); r++) {
        int tier = tier_from_name(cell(f, r, f->tier));
        if (tier < 0) return table_refuse(f->t, r, err, "tier: not a tier");
        f->tiers[tier] = 1;
    }
    return STATUS_OK;
}

/* One plant on one backend; two commands that judged it differently are two lines. */
static int same_plant(const struct faults *f, size_t a, size_t b) {
    return strcmp(cell(f, a, f->id), cell(f, b, f->id)) == 0 &&
           strcmp(cell(f, a, f->backend), cell(f, b, f->backend)) == 0 &&
           strcmp(cell(f, a, f->verdict), cell(f, b, f->verdict)) == 0;
}

/* Its rows need not stand together: one command may have made those of one tier, another those of the next. */
static int is_first_row(const struct faults *f, size_t row) {
    for (size_t r = 0; r < row; r++)
        if (same_plant(f, r, row)) return 0;
    return 1;
}

static void put_tier(FILE *out, const struct faults *f, size_t plant, enum tier tier) {
    for (size_t r = plant; r < table_rows(f->t); r++) {
        if (!same_plant(f, plant, r) || strcmp(cell(f, r, f->tier), tier_name(tier)) != 0) continue;
        page_element(out, "td", class_of(cell(f, r, f->cell)), cell(f, r, f->cell));
        return;
    }
    fprintf(out, "<td class=\"muted\">not run</td>");
}

/* One line, a cell a tier, and who killed it first. */
static void put_plant(FILE *out, const struct faults *f, size_t from) {
    size_t told = from;
    for (size_t r = table_rows(f->t); r-- > from;)
        if (same_plant(f, from, r) && cell(f, r, f->killed_by)[0] != '\0') told = r;
    fprintf(out, "<tr><th scope=\"row\" class=\"mono\">");
    page_text(out, cell(f, from, f->id));
    fprintf(out, "</th>");
    page_element(out, "td", class_of(cell(f, from, f->verdict)), cell(f, from, f->verdict));
    page_element(out, "td", NULL, cell(f, from, f->op));
    page_element(out, "td", NULL,
                 strcmp(cell(f, from, f->legal), "1") == 0 ? "legal" : cell(f, from, f->size));
    for (int t = 0; t <= TIER_PERF; t++)
        if (f->tiers[t]) put_tier(out, f, from, (enum tier)t);
    page_element(out, "td", NULL, cell(f, from, f->backend));
    fprintf(out, "<td class=\"wrap what muted\">");
    page_text(out, cell(f, told, f->killed_by));
    fprintf(out, cell(f, told, f->how)[0] != '\0' ? ": " : "");
    page_text(out, cell(f, told, f->how));
    fprintf(out, "</td></tr>\n");
}

/* "34 ok, 1 HOLE": plants by verdict, in the order they are met. */
static void put_counts(FILE *out, const struct faults *f) {
    char names[8][24];
    size_t counts[8] = {0};
    int n = 0;
    for (size_t r = 0; r < table_rows(f->t); r++) {
        if (!is_first_row(f, r)) continue;
        int i = 0;
        while (i < n && strcmp(names[i], cell(f, r, f->verdict)) != 0) i++;
        if (i == 8) continue;
        if (i == n) (void)snprintf(names[n++], sizeof names[0], "%s", cell(f, r, f->verdict));
        counts[i]++;
    }
    fprintf(out, "<p>Planted faults by verdict: ");
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s%zu ", i > 0 ? ", " : "", counts[i]);
        page_text(out, names[i]);
    }
    fprintf(out, ".</p>\n");
}

/* When, from what and how: a matrix may be older than the run it stands beside. */
static void put_made(FILE *out, const struct faults *f) {
    static const char *const names[] = {"date", "device", "commit", "command"};
    static const char *const words[] = {"Made ", " on ", ", commit ", ": "};
    int at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = table_find(f->t, names[i]);
        if (at[i] < 0 || table_rows(f->t) == 0) return;
    }
    fprintf(out, "<p class=\"muted\">");
    for (int i = 0; i < 4; i++) {
        page_text(out, words[i]);
        page_text(out, cell(f, 0, at[i]));
    }
    fprintf(out, "</p>\n");
}

enum status html_faults(FILE *out, const table *t, struct err *err) {
    struct faults f;
    memset(&f, 0, sizeof f);
    f.t = t;
    RETURN_IF_ERROR(find_columns(&f, err));
    fprintf(out, "<section aria-labelledby=\"faults\"><h2 id=\"faults\">Fault matrix</h2>\n");
    put_made(out, &f);
    put_counts(out, &f);
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
            "aria-labelledby=\"faults\"><table><caption>Each planted "
            "fault against each tier. Killed: a gate of the tier turned red. A fault that a tier survives "
            "must be killed "
            "by another.</caption>\n<thead><tr><th scope=\"col\">fault</th><th scope=\"col\">verdict</th>"
            "<th scope=\"col\">op</th><th scope=\"col\">size</th>");
    for (int i = 0; i <= TIER_PERF; i++)
        if (f.tiers[i]) fprintf(out, "<th scope=\"col\">%s</th>", tier_name((enum tier)i));
    fprintf(out, "<th scope=\"col\">backend</th><th scope=\"col\">first kill</th></tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < table_rows(t); r++)
        if (is_first_row(&f, r)) put_plant(out, &f, r);
    fprintf(out, "</tbody></table></div></section>\n");
    return STATUS_OK;
}
