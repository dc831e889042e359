/* report_html_growth.c - growth of a difference through the layers: the part made from the CSV of `forkgate explain`.
 * Not a judgement: the conclusion is explain's.
 * Source: ours. Exercise: ctest -R unit.report_html */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/page.h"
#include "gates/page_plot.h"
#include "gates/report_html.h"

/* ---- growth ---------------------------------------------------------------------------------------------------------- */

struct growth {
    const table *t;
    int step, pos, layer, op, tensor, kernel, cols, differing, max_abs, row_max, max_ulp, first;
    size_t from[2], n[2]; /* rows of the step where it began, and of the last one */
    int64_t first_step, last_step;
};

static enum status find_columns(struct growth *g, struct err *err) {
    const struct {
        const char *name;
        int *at;
    } columns[] = {{"step", &g->step},       {"pos", &g->pos},         {"layer", &g->layer},
                   {"op", &g->op},           {"tensor", &g->tensor},   {"kernel_a", &g->kernel},
                   {"cols", &g->cols},       {"max_abs", &g->max_abs}, {"differing", &g->differing},
                   {"row_max", &g->row_max}, {"max_ulp", &g->max_ulp}, {"first", &g->first}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        RETURN_IF_ERROR(table_need(g->t, columns[i].name, columns[i].at, err));
    return STATUS_OK;
}

/* Captured steps stand behind each other, (step, pos) by (step, pos): the one that holds the first op, and the last. */
static enum status find_steps(struct growth *g, struct err *err) {
    int64_t step = 0, pos = 0, first = 0, was_step = -1, was_pos = -1;
    size_t from = 0;
    int found = 0;
    for (size_t r = 0; r < table_rows(g->t); r++) {
        RETURN_IF_ERROR(table_integer(g->t, r, g->step, 0, INT32_MAX, &step, err));
        RETURN_IF_ERROR(table_integer(g->t, r, g->pos, 0, INT32_MAX, &pos, err));
        RETURN_IF_ERROR(table_integer(g->t, r, g->first, 0, 1, &first, err));
        if (step != was_step || pos != was_pos) from = r;
        was_step = step;
        was_pos = pos;
        if (first && !found) {
            found = 1;
            g->from[0] = from;
            g->first_step = step;
        }
        if (found && g->from[0] == from) g->n[0] = r + 1 - from;
        g->from[1] = from;
        g->n[1] = r + 1 - from;
        g->last_step = step;
    }
    return STATUS_OK;
}

/* Relative size of the difference of one op: max-abs over the largest value of the row. */
static enum status sizes(const struct growth *g, size_t from, size_t n, double *x, double *y,
                         struct err *err) {
    for (size_t i = 0; i < n; i++) {
        double max_abs = 0, row_max = 0;
        RETURN_IF_ERROR(table_real(g->t, from + i, g->max_abs, &max_abs, err));
        RETURN_IF_ERROR(table_real(g->t, from + i, g->row_max, &row_max, err));
        x[i] = (double)i;
        y[i] = max_abs > 0 && row_max > 0 ? max_abs / row_max : (double)NAN;
    }
    return STATUS_OK;
}

/* A line where each layer begins, as many as there is room for. */
static enum status mark_layers(const struct growth *g, size_t from, size_t n, struct plot *p,
                               char labels[PLOT_MARKS][20], struct err *err) {
    int64_t was = -1, layer = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        RETURN_IF_ERROR(table_integer(g->t, from + i, g->layer, -1, 100000, &layer, err));
        if (layer > top) top = layer;
    }
    int64_t every = top / (PLOT_MARKS - 2) + 1;
    for (size_t i = 0; i < n; i++) {
        RETURN_IF_ERROR(table_integer(g->t, from + i, g->layer, -1, 100000, &layer, err));
        if (layer == was || layer < 0) continue;
        was = layer;
        if (layer % every != 0 || p->n_marks == PLOT_MARKS) continue;
        (void)snprintf(labels[p->n_marks], 20, "layer %d", (int)layer);
        p->marks[p->n_marks] =
            (struct plot_mark){(double)i, labels[p->n_marks] + (p->n_marks > 0 ? 6 : 0), NULL, 0};
        p->n_marks++;
    }
    return STATUS_OK;
}

static void put_op(FILE *out, const struct growth *g, size_t row) {
    const int columns[] = {g->layer, g->op, g->tensor, g->kernel};
    fprintf(out, "<tr>");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        page_element(out, "td", i == 0 ? "n" : "mono", table_cell(g->t, row, columns[i], NULL));
    fprintf(out, "<td class=\"n\">");
    page_text(out, table_cell(g->t, row, g->differing, NULL));
    fprintf(out, " of ");
    page_text(out, table_cell(g->t, row, g->cols, NULL));
    fprintf(out, "</td><td class=\"n\">%.4g</td><td class=\"n\">%.4g</td><td class=\"n\">",
            strtod(table_cell(g->t, row, g->max_abs, NULL), NULL),
            strtod(table_cell(g->t, row, g->row_max, NULL), NULL));
    page_text(out, table_cell(g->t, row, g->max_ulp, NULL));
    fprintf(out, "</td></tr>\n");
}

/* The ops around the first difference, then the residual stream layer by layer. */
static void put_ops(FILE *out, const struct growth *g) {
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Ops\"><table><caption>Step "
            "%" PRId64 ": the first ops that differ, then the residual stream</caption>\n<thead><tr><th "
            "scope=\"col\" class=\"n\">"
            "layer</th><th scope=\"col\">op</th><th scope=\"col\">tensor</th><th "
            "scope=\"col\">kernel</th><th scope=\"col\" "
            "class=\"n\">values that differ</th><th scope=\"col\" class=\"n\">max-abs</th><th scope=\"col\" "
            "class=\"n\">"
            "row max</th><th scope=\"col\" class=\"n\">max ULPs</th></tr></thead>\n<tbody>\n",
            g->first_step);
    int began = 0, shown = 0;
    for (size_t i = 0; i < g->n[0]; i++) {
        size_t row = g->from[0] + i;
        const char *tensor = table_cell(g->t, row, g->tensor, NULL);
        began |= strcmp(table_cell(g->t, row, g->first, NULL), "1") == 0;
        if (!began) continue;
        if (shown < 4 || strstr(tensor, "residual") != NULL || i + 1 == g->n[0]) put_op(out, g, row);
        shown++;
    }
    fprintf(out, "</tbody></table></div>\n");
}

static enum status put_growth(FILE *out, const struct growth *g, double *x, double *y, struct err *err) {
    char labels[PLOT_MARKS][20], names[2][48], text[512];
    size_t room = g->n[0];
    struct plot p = {"growth-plot",
                     "Growth of the difference through the ops of a step",
                     text,
                     "op of the step, in order",
                     "max-abs / row max",
                     0,
                     1,
                     {{NULL, NULL, NULL, 0, 0}, {NULL, NULL, NULL, 0, 0}},
                     0,
                     (double)NAN,
                     "",
                     {{0, NULL, NULL, 0}},
                     0};
    for (int k = 0; k < 2; k++) {
        if (k == 1 && g->from[1] == g->from[0]) break;
        RETURN_IF_ERROR(sizes(g, g->from[k], g->n[k], x + (k == 1 ? room : 0), y + (k == 1 ? room : 0), err));
        (void)snprintf(names[k], sizeof names[k], "step %" PRId64 "%s", k == 0 ? g->first_step : g->last_step,
                       k == 0 ? ": began" : ": last");
        p.series[k] =
            (struct plot_series){names[k], x + (k == 1 ? room : 0), y + (k == 1 ? room : 0), g->n[k], 1};
        p.n_series++;
        if ((double)g->n[k] - 1 > p.x_max) p.x_max = (double)g->n[k] - 1;
    }
    RETURN_IF_ERROR(mark_layers(g, g->from[0], g->n[0], &p, labels, err));
    (void)snprintf(
        text, sizeof text,
        "Largest difference of each op's output over the largest value of its row, on a logarithmic scale. "
        "Diamonds: step %" PRId64 ", where it began. Crosses: step %" PRId64
        ", the last one captured. Ops whose "
        "outputs are equal have no point.",
        g->first_step, g->last_step);
    fprintf(out, "<figure>\n");
    plot_write(out, &p);
    fprintf(out, "<figcaption>");
    page_text(out, text);
    fprintf(out, "</figcaption></figure>\n");
    put_ops(out, g);
    return STATUS_OK;
}

enum status html_growth(FILE *out, const table *t, struct err *err) {
    struct growth g;
    memset(&g, 0, sizeof g);
    g.t = t;
    RETURN_IF_ERROR(find_columns(&g, err));
    RETURN_IF_ERROR(find_steps(&g, err));
    fprintf(out, "<section aria-labelledby=\"growth\"><h2 id=\"growth\">Growth through the layers</h2>\n");
    enum status s = STATUS_OK;
    if (g.n[0] == 0)
        fprintf(out, "<p>No op differs.</p>\n");
    else {
        double *x = calloc(2 * (g.n[0] + g.n[1]), sizeof *x);
        s = x == NULL ? err_set(err, STATUS_NOMEM, "HTML report: out of memory")
                      : put_growth(out, &g, x, x + g.n[0] + g.n[1], err);
        free(x);
    }
    fprintf(out, "</section>\n");
    return s;
}
