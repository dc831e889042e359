/* bench_kernels_csv.c - see bench_kernels.h: shares of ceilings, and the rows. */
#include "gates/bench_kernels.h"
#include "gates/stats.h"
#include "gates/table.h"

const char *ceiling_name(enum ceiling c) {
    static const char *const names[CEILINGS] = {"read", "copy", "wgmma f16", "mma s8"};
    return names[c];
}

double kernel_share(const struct kernel_times *t, const struct kernel_time *k, enum ceiling *of) {
    double s = stats_median(k->seconds, (size_t)t->rounds), most = 0.0;
    const enum ceiling which[] = {CEILING_READ, k->product};
    const double work[] = {k->bytes, k->operations};
    *of = CEILING_READ;
    for (int i = 0; i < 2; i++) {
        double can = stats_median(t->ceiling[which[i]], (size_t)t->rounds);
        if (!(can > 0.0) || !(work[i] / s / can > most)) continue;
        most = work[i] / s / can;
        *of = which[i];
    }
    return most;
}

static void put_spread(table_writer *w, const double *x, int n, double unit) {
    double least = x[0], most = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    table_put_f64(w, stats_median(x, (size_t)n) * unit);
    table_put_f64(w, least * unit);
    table_put_f64(w, most * unit);
}

/* A ceiling's own row: rates a second where an op has microseconds. */
static void put_ceiling(table_writer *w, const struct kernel_times *t, enum ceiling c) {
    int memory = c == CEILING_READ || c == CEILING_COPY;
    double rate = stats_median(t->ceiling[c], (size_t)t->rounds);
    table_put_text(w, "ceiling");
    table_put_text(w, ceiling_name(c));
    table_put_empty(w);
    table_put_text(w, memory ? "GB/s" : "T/s");
    table_put_i64(w, t->rounds);
    table_put_empty(w);
    put_spread(w, t->ceiling[c], t->rounds, memory ? 1e-9 : 1e-12);
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == memory)
            table_put_f64(w, rate * (memory ? 1e-9 : 1e-12));
        else
            table_put_empty(w);
    }
    table_put_empty(w);
    table_put_empty(w);
    table_end_row(w);
}

static void put_time(table_writer *w, const struct kernel_times *t, const struct kernel_time *k) {
    enum ceiling of;
    double s = stats_median(k->seconds, (size_t)t->rounds), share = kernel_share(t, k, &of);
    table_put_text(w, "op");
    table_put_text(w, k->op);
    table_put_text(w, route_name(k->route));
    table_put_text(w, k->shape);
    table_put_i64(w, t->rounds);
    table_put_i64(w, k->calls);
    put_spread(w, k->seconds, t->rounds, 1e6);
    table_put_f64(w, k->bytes / s * 1e-9);
    table_put_f64(w, k->operations / s * 1e-12);
    table_put_text(w, ceiling_name(of));
    table_put_f64(w, share);
    table_end_row(w);
}

enum status bench_kernels_csv(const char *path, const struct kernel_times *t, struct err *err) {
    static const char *const columns[] = {"what",  "name", "route", "shape", "rounds",  "calls", "median",
                                          "least", "most", "GBps",  "Tops",  "ceiling", "share"};
    table_writer *w = NULL;
    RETURN_IF_ERROR(
        table_writer_open(path, NULL, TABLE_LF, columns, (int)(sizeof columns / sizeof columns[0]), &w, err));
    for (int c = 0; c < CEILINGS; c++) put_ceiling(w, t, (enum ceiling)c);
    for (int i = 0; i < t->n; i++) put_time(w, t, &t->time[i]);
    return table_writer_finish(w, err);
}
