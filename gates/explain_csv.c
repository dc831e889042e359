/* explain_csv.c - an explanation as CSV: one row per op of every captured step (explain_report.h).
 * Source: ours. Exercise: ctest -R cli.explain */
#include <string.h>

#include "gates/explain_report.h"

static const char *const heads[] = {"step",     "pos",   "layer",   "op",        "tensor",  "kernel_a",
                                    "kernel_b", "rows",  "cols",    "differing", "max_abs", "row_max",
                                    "max_ulp",  "worst", "worst_a", "worst_b",   "first"};
#define HEADS ((int)(sizeof heads / sizeof heads[0]))

static void put_delta(table_writer *w, const struct explain_result *e, const struct explain_delta *d) {
    table_put_i64(w, d->step);
    table_put_i64(w, d->pos);
    table_put_i64(w, d->op.layer);
    table_put_text(w, d->op.op);
    table_put_text(w, d->op.tensor);
    table_put_text(w, d->op.kernel);
    table_put_text(w, d->kernel_b);
    table_put_i64(w, d->op.rows);
    table_put_i64(w, d->op.cols);
    table_put_u64(w, d->differing);
    table_put_f64(w, d->max_abs);
    table_put_f64(w, d->row_max);
    table_put_u64(w, d->max_ulps);
    table_put_u64(w, d->worst);
    table_put_f32(w, d->a);
    table_put_f32(w, d->b);
    table_put_i64(w, d->pos == e->first_pos && d->op.layer == e->first.layer &&
                         strcmp(d->op.op, e->first.op) == 0 && strcmp(d->op.tensor, e->first.tensor) == 0);
    for (int i = 0; i < ULP_BUCKETS; i++) table_put_u64(w, d->hist.n[i]);
    table_end_row(w);
}

enum status explain_report_csv(const char *path, enum table_eol eol, const struct explain_result *e,
                               struct err *err) {
    const char *columns[HEADS + ULP_BUCKETS];
    table_writer *w = NULL;
    memcpy(columns, heads, sizeof heads);
    for (int i = 0; i < ULP_BUCKETS; i++) columns[HEADS + i] = ulp_bucket_column((enum ulp_bucket)i);
    RETURN_IF_ERROR(table_writer_open(path, NULL, eol, columns, HEADS + ULP_BUCKETS, &w, err));
    for (int i = 0; i < e->n_deltas; i++) put_delta(w, e, &e->deltas[i]);
    return table_writer_finish(w, err);
}
