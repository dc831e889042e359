/* report_markdown.c - a run as a Markdown job summary. See report_github.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/report.h"
#include "gates/report_github.h"
#include "gates/report_sum.h"
#include "gates/table.h"

#define CLOSING_BYTES ((size_t)8192) /* kept free for what stands behind the failures */
#define TEXT_BYTES    1400

/* Text that Markdown and HTML leave alone; on one line, so that it stays in its cell. */
static void put_text(FILE *out, const char *text) {
    char plain[TEXT_BYTES];
    (void)table_escape(text, strlen(text), 1, 0, plain, sizeof plain);
    for (const char *p = plain; *p != '\0'; p++) {
        if (*p == '&')
            fputs("&amp;", out);
        else if (*p == '<')
            fputs("&lt;", out);
        else if (*p == '>')
            fputs("&gt;", out);
        else {
            if (strchr("\\`*_{}[]()#+-!|~$:@", *p) != NULL) fputc('\\', out);
            fputc(*p, out);
        }
    }
}

/* A command as an indented block: nothing in it is markup, and it has one line. */
static void put_command(FILE *out, const char *text) {
    char plain[TEXT_BYTES];
    (void)table_escape(text, strlen(text), 1, 0, plain, sizeof plain);
    fprintf(out, "\n    %s\n\n", plain);
}

static void put_tiers(FILE *out, const struct report_sum *s) {
    fprintf(out, "| tier | question | passed | failed | skipped | checks |\n|---|---|--:|--:|--:|--:|\n");
    for (int t = 0; t < REPORT_TIERS; t++) {
        uint64_t counts[VERDICTS] = {0}, total = 0;
        size_t rows = 0;
        for (size_t i = 0; i < s->n; i++) {
            if ((int)s->gates[i].tier != t) continue;
            counts[s->gates[i].verdict]++;
            rows += s->gates[i].n;
            total++;
        }
        if (total == 0) continue;
        uint64_t passed = counts[VERDICT_PASS], skipped = counts[VERDICT_SKIP];
        fprintf(out, "| %d %s | %s | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %zu |\n", t + 1,
                tier_name((enum tier)t), report_tier_question((enum tier)t), passed, total - passed - skipped,
                skipped, rows);
    }
}

static void put_failure(FILE *out, const struct report_gate *g) {
    const struct evidence *e = g->telling;
    const char *claim = report_gate_claim(g->id);
    char line[512];
    report_gate_line(g, line, sizeof line);
    fprintf(out, "\n### %s ", verdict_name(g->verdict));
    put_text(out, g->id);
    fprintf(out, "\n\n");
    if (claim != NULL) {
        fprintf(out, "Claim: ");
        put_text(out, claim);
        fprintf(out, "  \n");
    }
    put_text(out, line);
    if (e == NULL) return;
    fprintf(out, "  \nWhere: ");
    put_text(out, e->test_case);
    fprintf(out, ", ");
    put_text(out, e->arm);
    if (!isnan(e->bound)) fprintf(out, ", %s %.6g, bound %.6g", e->metric, e->value, e->bound);
    fprintf(out, "  \nWhat: ");
    put_text(out, e->note);
    fprintf(out, "\n");
    if (e->repro[0] != '\0') put_command(out, e->repro);
}

static int is_red(enum verdict v) {
    return v != VERDICT_PASS && v != VERDICT_SKIP;
}

/* Skips with their reasons: they are not passes. */
static void put_skips(FILE *out, const struct report_sum *s) {
    for (size_t i = 0; i < s->n; i++) {
        if (s->gates[i].verdict != VERDICT_SKIP) continue;
        fprintf(out, "- skipped ");
        put_text(out, s->gates[i].id);
        fprintf(out, ": ");
        put_text(out, s->gates[i].telling == NULL ? "" : s->gates[i].telling->note);
        fprintf(out, "\n");
    }
}

static void put_about(FILE *out, const struct provenance *about) {
    fprintf(out, "\n| | |\n|---|---|\n");
    for (int i = 0; i < about->n; i++) {
        fprintf(out, "| ");
        put_text(out, about->items[i].key);
        fprintf(out, " | ");
        put_text(out, about->items[i].value);
        fprintf(out, " |\n");
    }
}

static void put_all(FILE *out, const struct report_sum *s, const struct provenance *about) {
    uint64_t passed = s->counts[VERDICT_PASS], skipped = s->counts[VERDICT_SKIP];
    size_t left = 0;
    fprintf(out,
            "## forkgate: %s\n\n%" PRIu64 " gates passed, %" PRIu64 " failed, %" PRIu64
            " skipped; %zu checks\n\n",
            report_sum_headline(s), passed, (uint64_t)s->n - passed - skipped, skipped, s->n_rows);
    if (s->next[0] != '\0') {
        fprintf(out, "The whole verdict:\n");
        put_command(out, s->next);
    }
    put_tiers(out, s);
    for (size_t i = 0; i < s->n; i++) {
        if (!is_red(s->gates[i].verdict)) continue;
        if ((size_t)ftell(out) > REPORT_SUMMARY_LIMIT / 2)
            left++;
        else
            put_failure(out, &s->gates[i]);
    }
    if (left > 0) fprintf(out, "\nand %zu more gates that are not green\n", left);
    fprintf(out, "\n");
    put_skips(out, s);
    if (about != NULL) put_about(out, about);
}

/* What is over the limit is cut at a line end: GitHub would drop all of it. */
static size_t fitting(const char *text, size_t n) {
    if (n <= REPORT_SUMMARY_LIMIT) return n;
    n = REPORT_SUMMARY_LIMIT - CLOSING_BYTES;
    while (n > 0 && text[n - 1] != '\n') n--;
    return n;
}

enum status report_write_markdown(const char *path, const struct evidence *rows, size_t n,
                                  const struct provenance *about, struct err *err) {
    struct report_sum sum;
    char *text = NULL;
    size_t bytes = 0;
    RETURN_IF_ERROR(report_sum_rows(rows, n, &sum, err));
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) put_all(out, &sum, about);
    report_sum_free(&sum);
    if (out == NULL || fclose(out) != 0) {
        free(text);
        return err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    }
    enum status s = file_out_whole(path, text, fitting(text, bytes), err);
    free(text);
    return s;
}
