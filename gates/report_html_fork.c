/* report_html_fork.c - the fork with both texts side by side, and how close the choices were along the stream.
 * Not a judgement: numbers are those of struct diff_result and of the records.
 * Source: DESIGN of forkgate, section 6. Exercise: ctest -R unit.report_html */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/page.h"
#include "gates/page_plot.h"
#include "gates/report_html.h"

#define CONTEXT_BYTES  240 /* of text before the fork, and behind it on each side */
#define POINTS_MAX     500 /* of a plot; longer streams show the smallest gap of each group */
#define SMALLEST_SHOWN 8

/* ---- texts ----------------------------------------------------------------------------------------------------------- */

static uint64_t text_end(const dump *d) {
    uint64_t n = dump_count(d);
    if (n == 0) return 0;
    const struct dump_record *last = dump_record_at(d, n - 1);
    return last->text_offset + last->text_bytes;
}

static const uint8_t *whole_text(const dump *d) {
    uint32_t n = 0;
    return dump_count(d) == 0 ? NULL : dump_text(d, 0, &n);
}

static uint64_t start_of(const dump *d, uint64_t i) {
    return i < dump_count(d) ? dump_record_at(d, i)->text_offset : text_end(d);
}

/* Moves back to where a character begins. */
static uint64_t whole_character(const uint8_t *text, uint64_t at) {
    for (int i = 0; i < 3 && at > 0 && (text[at] & 0xc0) == 0x80; i++) at--;
    return at;
}

/* The file and its folder: what tells two dumps apart. */
static const char *short_name(const char *path) {
    const char *p = path + strlen(path);
    for (int slashes = 0; p > path; p--)
        if (p[-1] == '/' && ++slashes == 2) break;
    return p;
}

static void put_side(FILE *out, const char *side, const char *name, const dump *d, uint64_t fork) {
    uint64_t at = start_of(d, fork), behind = start_of(d, fork + 1), end = text_end(d);
    const uint8_t *text = whole_text(d);
    uint64_t from = at > CONTEXT_BYTES ? whole_character(text, at - CONTEXT_BYTES) : 0;
    uint64_t to = end - behind > CONTEXT_BYTES ? whole_character(text, behind + CONTEXT_BYTES) : end;
    fprintf(out, "<article class=\"side %s\"><h3>%s: ", side[0] == 'A' ? "a" : "b", side);
    page_text(out, name != NULL ? name : short_name(dump_name(d)));
    fprintf(out, "</h3>\n<p class=\"text\" dir=\"auto\"><span class=\"same\">%s", from > 0 ? "&hellip;" : "");
    page_bytes(out, text + from, (size_t)(at - from));
    fprintf(out, "</span>");
    if (fork < dump_count(d)) {
        fprintf(out, "<span class=\"vh\"> chosen here: </span><mark>");
        page_bytes(out, text + at, (size_t)(behind - at));
        fprintf(out, "</mark>");
    } else
        fprintf(out, "<mark>(the stream ends here)</mark>");
    page_bytes(out, text + behind, (size_t)(to - behind));
    fprintf(out, "%s</p></article>\n", to < end ? "&hellip;" : "");
}

/* ---- numbers --------------------------------------------------------------------------------------------------------- */

static void put_logit(FILE *out, const struct dump_record *r, uint32_t absent, int32_t id, float logit) {
    fprintf(out, "<td class=\"n\">");
    if (r->flags & absent)
        fprintf(out, "unknown");
    else if (id >= 0)
        fprintf(out, "id %d: %.9g", (int)id, (double)logit);
    else
        fprintf(out, "%.9g", (double)logit);
    fprintf(out, "</td>");
}

static void put_choice(FILE *out, const char *side, const dump *d, uint64_t i, double gap, double ulps) {
    if (i >= dump_count(d)) return;
    const struct dump_record *r = dump_record_at(d, i);
    uint32_t n = 0;
    const uint8_t *text = dump_text(d, i, &n);
    fprintf(out, "<tr><th scope=\"row\">%s</th><td class=\"mono tok\">", side);
    page_bytes(out, text, n);
    fprintf(out, "</td><td class=\"n\">");
    if (r->flags & DUMP_NO_ID)
        fprintf(out, "unknown</td>");
    else
        fprintf(out, "%d</td>", (int)r->token);
    put_logit(out, r, DUMP_NO_TOP1, r->id1, r->logit1);
    put_logit(out, r, DUMP_NO_TOP2, r->id2, r->logit2);
    fprintf(out, "<td class=\"n\">");
    page_number(out, gap);
    fprintf(out, ulps >= 0 ? "</td><td class=\"n\">%.0f</td></tr>\n" : "</td><td class=\"n\">-</td></tr>\n",
            ulps);
}

static void put_facts(FILE *out, const struct report_page *p) {
    const struct diff_result *r = p->diff;
    fprintf(out, "<dl>\n");
    page_fact(out, "verdict", diff_verdict_name(r->verdict));
    page_fact(out, "because", r->reason);
    page_factf(out, "where", "token %" PRIu64 " of %" PRIu64 " (A) and %" PRIu64 " (B), text byte %" PRIu64,
               r->fork, r->count_a, r->count_b, r->text_offset);
    if (r->drift_at != UINT64_MAX)
        page_factf(out, "drift before it", "largest change of a top logit %s%.4g, at token %" PRIu64,
                   r->drift_at_least ? "at least " : "", r->drift, r->drift_at);
    else
        page_fact(out, "drift before it", "no logits to compare");
    if (r->first_hash_diff != UINT64_MAX)
        page_factf(out, "rails left at", "token %" PRIu64 ": the first row of logits whose hash differs",
                   r->first_hash_diff);
    if (r->control.delta >= 0)
        page_factf(out, "control", "delta %.4g, bound 2 x delta = %.4g (%s)", r->control.delta,
                   2 * r->control.delta, r->control.source);
    else
        page_factf(out, "control", "none: %s",
                   r->control.source[0] != '\0' ? r->control.source
                                                : "nothing says what a benign change may move");
    if (r->by_bytes) page_fact(out, "note", "a side has no token ids: compared by bytes");
    fprintf(out, "</dl>\n");
}

void html_fork(FILE *out, const struct report_page *p) {
    const struct diff_result *r = p->diff;
    int logprobs = r->fork < dump_count(p->a) && (dump_record_at(p->a, r->fork)->flags & DUMP_LOGPROBS) != 0;
    fprintf(out, "<section aria-labelledby=\"fork\"><h2 id=\"fork\">The fork, at token %" PRIu64 "</h2>\n",
            r->fork);
    fprintf(out, "<div class=\"sides\">\n");
    put_side(out, "A", p->side_names[0], p->a, r->fork);
    put_side(out, "B", p->side_names[1], p->b, r->fork_b);
    fprintf(out,
            "</div>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Choices at the "
            "fork\"><table>"
            "<caption>The choice on each side%s</caption>\n<thead><tr><th scope=\"col\">side</th>"
            "<th scope=\"col\">token</th><th scope=\"col\" class=\"n\">id</th><th scope=\"col\" "
            "class=\"n\">top-1</th>"
            "<th scope=\"col\" class=\"n\">top-2</th><th scope=\"col\" class=\"n\">gap</th><th scope=\"col\" "
            "class=\"n\">"
            "gap in ULPs</th></tr></thead>\n<tbody>\n",
            logprobs ? " (logprobs)" : "");
    put_choice(out, "A", p->a, r->fork, r->gap_a, r->ulps_a);
    put_choice(out, "B", p->b, r->fork_b, r->gap_b, r->ulps_b);
    fprintf(out, "</tbody></table></div>\n");
    put_facts(out, p);
    fprintf(out, "</section>\n");
}

/* ---- gaps along the stream --------------------------------------------------------------------------------------------- */

static double gap_at(const dump *d, uint64_t i) {
    const struct dump_record *r = dump_record_at(d, i);
    if (r->flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) return (double)NAN;
    return (double)r->logit1 - (double)r->logit2;
}

struct gaps {
    double x[POINTS_MAX], y[POINTS_MAX];
    size_t n;
    uint64_t known, near; /* records with a gap; those within the band */
    uint64_t smallest[SMALLEST_SHOWN];
    size_t n_smallest;
};

static void note_smallest(const dump *d, struct gaps *g, uint64_t i, double gap) {
    size_t at = g->n_smallest;
    while (at > 0 && gap < gap_at(d, g->smallest[at - 1])) at--;
    if (at == SMALLEST_SHOWN) return;
    size_t last = g->n_smallest < SMALLEST_SHOWN ? g->n_smallest : SMALLEST_SHOWN - 1;
    memmove(g->smallest + at + 1, g->smallest + at, (last - at) * sizeof g->smallest[0]);
    g->smallest[at] = i;
    if (g->n_smallest < SMALLEST_SHOWN) g->n_smallest++;
}

/* One point a record, or the smallest gap of each group of neighbours: near-ties are what must not be lost. */
static void collect(const dump *d, double band, struct gaps *g) {
    uint64_t count = dump_count(d), group = (count + POINTS_MAX - 1) / POINTS_MAX;
    memset(g, 0, sizeof *g);
    for (uint64_t i = 0; i < count; i++) {
        double gap = gap_at(d, i);
        size_t at = (size_t)(i / group);
        if (i % group == 0) {
            g->x[at] = (double)i;
            g->y[at] = (double)NAN;
            g->n = at + 1;
        }
        if (isnan(gap)) continue;
        g->known++;
        g->near += gap <= band;
        note_smallest(d, g, i, gap);
        if (gap < g->y[at] || isnan(g->y[at])) {
            g->x[at] = (double)i;
            g->y[at] = gap;
        }
    }
}

static double band_of(const struct diff_result *r, char name[96]) {
    if (r->control.delta >= 0) {
        (void)snprintf(name, 96, "near-tie: within 2 x delta = %.3g", 2 * r->control.delta);
        return 2 * r->control.delta;
    }
    double ulp = r->ulp_a > r->ulp_b ? r->ulp_a : r->ulp_b;
    (void)snprintf(name, 96, "near-tie: within 1 ULP = %.3g (no control)", ulp);
    return ulp > 0 ? ulp : (double)NAN;
}

static void put_smallest(FILE *out, const dump *d, const struct gaps *g) {
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Smallest gaps of A\"><table "
            "class=\"narrow\">"
            "<caption>The smallest gaps of A</caption><thead><tr><th scope=\"col\" class=\"n\">token</th>"
            "<th scope=\"col\">text</th><th scope=\"col\" class=\"n\">gap</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < g->n_smallest; i++) {
        uint32_t n = 0;
        const uint8_t *text = dump_text(d, g->smallest[i], &n);
        fprintf(out, "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"mono tok\">", g->smallest[i]);
        page_bytes(out, text, n);
        fprintf(out, "</td><td class=\"n\">%.4g</td></tr>\n", gap_at(d, g->smallest[i]));
    }
    fprintf(out, "</tbody></table></div>\n");
}

static void describe(const struct report_page *p, const struct gaps *a, const char *band_name, double band,
                     char text[640]) {
    int used = snprintf(text, 640,
                        "Top-1 minus top-2 of every token, on a logarithmic scale. %" PRIu64
                        " of A's %" PRIu64 " tokens have a known gap",
                        a->known, p->diff->count_a);
    if (a->n_smallest > 0 && used > 0)
        used += snprintf(text + used, 640 - (size_t)used, "; the smallest is %.3g at token %" PRIu64,
                         gap_at(p->a, a->smallest[0]), a->smallest[0]);
    if (band > 0 && used > 0 && used < 640)
        used += snprintf(text + used, 640 - (size_t)used, "; %" PRIu64 " lie in the band (%s)", a->near,
                         band_name);
    if (p->diff->fork != UINT64_MAX && used > 0 && used < 640)
        (void)snprintf(text + used, 640 - (size_t)used,
                       ". The streams fork at token %" PRIu64 "; behind it the two are different texts.",
                       p->diff->fork);
}

enum status html_gaps(FILE *out, const struct report_page *p, struct err *err) {
    struct gaps *g = calloc(2, sizeof *g);
    char band_name[96], text[640], label[48];
    if (g == NULL) return err_set(err, STATUS_NOMEM, "HTML report: out of memory");
    double band = band_of(p->diff, band_name);
    collect(p->a, band, &g[0]);
    collect(p->b, band, &g[1]);
    describe(p, &g[0], band_name, band, text);
    uint64_t longer = p->diff->count_a > p->diff->count_b ? p->diff->count_a : p->diff->count_b;
    struct plot plot = {"gap-plot",
                        "Gap between the two best tokens along the stream",
                        text,
                        "token",
                        "gap, nats",
                        0,
                        longer > 1 ? (double)(longer - 1) : 1,
                        {{"A", g[0].x, g[0].y, g[0].n, 0}, {"B", g[1].x, g[1].y, g[1].n, 0}},
                        2,
                        band,
                        band_name,
                        {{0, NULL, NULL, 0}},
                        0};
    if (p->diff->fork != UINT64_MAX) {
        (void)snprintf(label, sizeof label, "fork at %" PRIu64, p->diff->fork);
        plot.marks[plot.n_marks++] = (struct plot_mark){(double)p->diff->fork, label, "#fork", 1};
    }
    fprintf(out,
            "<section aria-labelledby=\"gaps\"><h2 id=\"gaps\">How close the choices were</h2>\n<figure>\n");
    if (g[0].known + g[1].known > 0) plot_write(out, &plot);
    fprintf(out, "<figcaption>");
    page_text(out, text);
    fprintf(out, "</figcaption></figure>\n");
    if (g[0].n_smallest > 0) put_smallest(out, p->a, &g[0]);
    fprintf(out, "</section>\n");
    free(g);
    return STATUS_OK;
}
