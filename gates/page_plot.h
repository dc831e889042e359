/* page_plot.h - one scatter plot on a logarithmic scale, as inline SVG with a title and a description.
 * Not a chart library: what a fork report needs, and no more.
 * Idea: sides differ in shape as well as in colour; what the plot shows is said in its description too.
 * Source: ours. Exercise: ctest -R unit.report_html */
#ifndef FORKGATE_PAGE_PLOT_H
#define FORKGATE_PAGE_PLOT_H

#include <stddef.h>
#include <stdio.h>

#define PLOT_MARKS 16

struct plot_series {
    const char *name;
    const double *x, *y; /* [n]; y NaN: no point; y <= 0: drawn on the bottom line, marked 0 */
    size_t n;
    int joined; /* a thin line between neighbours too */
};

struct plot_mark { /* a vertical line */
    double x;
    const char *label, *link; /* link: "#fork" or NULL */
    int strong;
};

struct plot {
    const char *id, *title, *description, *x_name, *y_name;
    double x_min, x_max;
    struct plot_series series[2]; /* dots, then crosses */
    int n_series;
    double band; /* 0..band is a region, named; NaN: none */
    const char *band_name;
    struct plot_mark marks[PLOT_MARKS];
    int n_marks;
};

void plot_write(FILE *out, const struct plot *p);

#endif
