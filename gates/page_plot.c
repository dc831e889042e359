/* page_plot.c - see page_plot.h. */
#include "gates/page_plot.h"

#include <math.h>
#include <string.h>

#include "gates/page.h"

/* The drawing in its own units; the page scales it. */
enum { WIDTH = 760, HEIGHT = 350, LEFT = 84, RIGHT = 16, TOP = 56, BOTTOM = 58 };
#define DECADES_MAX 9.0

struct scale {
    double x_min, x_max, low, high; /* low, high: whole decades of y */
};

static double to_x(const struct scale *s, double x) {
    double span = s->x_max > s->x_min ? s->x_max - s->x_min : 1.0;
    return LEFT + (x - s->x_min) / span * (WIDTH - LEFT - RIGHT);
}

static double to_y(const struct scale *s, double y) {
    double at = y > 0 ? log10(y) : s->low;
    if (at < s->low) at = s->low;
    if (at > s->high) at = s->high;
    return HEIGHT - BOTTOM - (at - s->low) / (s->high - s->low) * (HEIGHT - TOP - BOTTOM);
}

static void widen(double y, double *low, double *high) {
    if (!(y > 0) || !isfinite(y)) return;
    if (log10(y) < *low) *low = log10(y);
    if (log10(y) > *high) *high = log10(y);
}

static struct scale scale_of(const struct plot *p) {
    struct scale s = {p->x_min, p->x_max, 1e9, -1e9};
    for (int i = 0; i < p->n_series; i++)
        for (size_t k = 0; k < p->series[i].n; k++) widen(p->series[i].y[k], &s.low, &s.high);
    widen(p->band, &s.low, &s.high);
    if (s.low > s.high) s.low = s.high = 0;
    s.low = floor(s.low - 0.05);
    s.high = ceil(s.high + 0.05);
    if (s.high - s.low > DECADES_MAX) s.low = s.high - DECADES_MAX;
    if (s.high - s.low < 2) s.low = s.high - 2;
    return s;
}

static void put_axis_y(FILE *out, const struct plot *p, const struct scale *s) {
    for (double d = s->low; d <= s->high + 0.5; d += 1) {
        double y = to_y(s, pow(10, d));
        int thin = fmod(s->high - d, 2) > 0.5;
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        fprintf(out, "<text class=\"tick%s\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">1e%+.0f</text>\n",
                thin ? " thin" : "", LEFT - 8, y + 5, d);
    }
    fprintf(out, "<text class=\"tick\" x=\"8\" y=\"20\">");
    page_text(out, p->y_name);
    fprintf(out, "</text>\n");
}

/* A step of 1, 2 or 5 times a power of ten that gives at most six ticks. */
static double tick_step(double span) {
    double step = pow(10, floor(log10(span > 1 ? span : 1)));
    static const double part[] = {0.1, 0.2, 0.5, 1, 2};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (span / (step * part[i]) <= 6) return step * part[i] < 1 ? 1 : step * part[i];
    return step;
}

static void put_axis_x(FILE *out, const struct plot *p, const struct scale *s) {
    double step = tick_step(s->x_max - s->x_min);
    for (double x = ceil(s->x_min / step) * step; x <= s->x_max; x += step)
        fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>",
                to_x(s, x), HEIGHT - BOTTOM + 22, x);
    fprintf(out, "<path class=\"grid\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8);
    page_text(out, p->x_name);
    fprintf(out, "</text>\n");
}

static void put_band(FILE *out, const struct plot *p, const struct scale *s) {
    if (!(p->band > 0)) return;
    double y = to_y(s, p->band);
    fprintf(out, "<rect class=\"band\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>", LEFT, y,
            WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - y);
    fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH - RIGHT - 6,
            HEIGHT - BOTTOM - 8);
    page_text(out, p->band_name);
    fprintf(out, "</text>\n");
}

static void put_lines(FILE *out, const struct plot_series *s, const struct scale *scale, int shape) {
    int pen_down = 0;
    fprintf(out, "<path class=\"s%d line\" d=\"", shape);
    for (size_t i = 0; i < s->n; i++) {
        if (isnan(s->y[i])) {
            pen_down = 0;
            continue;
        }
        fprintf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', to_x(scale, s->x[i]), to_y(scale, s->y[i]));
        pen_down = 1;
    }
    fprintf(out, "\"/>\n");
}

static void put_points(FILE *out, const struct plot_series *s, const struct scale *scale, int shape) {
    if (s->joined) put_lines(out, s, scale, shape);
    fprintf(out, "<path class=\"s%d\" d=\"", shape); /* one path for all points: a dot is a closed diamond */
    for (size_t i = 0; i < s->n; i++) {
        if (isnan(s->y[i])) continue;
        double x = to_x(scale, s->x[i]), y = to_y(scale, s->y[i]);
        fprintf(out, shape == 0 ? "M%.1f %.1fl3 3-3 3-3-3z" : "M%.1f %.1fl6 6m0-6l-6 6",
                shape == 0 ? x : x - 3, y - 3);
    }
    fprintf(out, "\"/>\n");
}

static void put_marks(FILE *out, const struct plot *p, const struct scale *s) {
    for (int i = 0; i < p->n_marks; i++) {
        const struct plot_mark *m = &p->marks[i];
        double x = to_x(s, m->x);
        int left = x > WIDTH * 2 / 3;
        fprintf(out, "<path class=\"%s\" d=\"M%.1f %dV%d\"/>", m->strong ? "mark-line" : "grid", x, TOP - 6,
                HEIGHT - BOTTOM);
        if (m->label == NULL) continue;
        if (m->link != NULL) fprintf(out, "<a href=\"%s\">", m->link);
        fprintf(out, "<text%s x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">",
                m->strong ? "" : " class=\"tick thin\"", m->strong ? x + (left ? -6 : 6) : x + 4,
                m->strong ? TOP + 10 : TOP - 8, m->strong && left ? "end" : "start");
        page_text(out, m->label);
        fprintf(out, "</text>%s\n", m->link != NULL ? "</a>" : "");
    }
}

/* Name and shape of each series, in the head of the drawing. */
static void put_legend(FILE *out, const struct plot *p) {
    for (int i = 0; i < p->n_series; i++) {
        int x = WIDTH - RIGHT - 200 * (p->n_series - i); /* room for 15 letters at a phone's size */
        fprintf(out,
                i == 0 ? "<path class=\"s0\" d=\"M%d 11l4 4-4 4-4-4z\"/>"
                       : "<path class=\"s1\" d=\"M%d 11l8 8m0-8l-8 8\"/>",
                x);
        fprintf(out, "<text x=\"%d\" y=\"20\">", x + 14);
        page_text(out, p->series[i].name);
        fprintf(out, "</text>\n");
    }
}

void plot_write(FILE *out, const struct plot *p) {
    struct scale s = scale_of(p);
    fprintf(out, "<svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n",
            WIDTH, HEIGHT, p->id, p->id);
    fprintf(out, "<title id=\"%s-t\">", p->id);
    page_text(out, p->title);
    fprintf(out, "</title>\n<desc id=\"%s-d\">", p->id);
    page_text(out, p->description);
    fprintf(out, "</desc>\n");
    put_band(out, p, &s);
    put_axis_y(out, p, &s);
    put_axis_x(out, p, &s);
    for (int i = 0; i < p->n_series; i++) put_points(out, &p->series[i], &s, i);
    put_marks(out, p, &s);
    put_legend(out, p);
    fprintf(out, "</svg>\n");
}
