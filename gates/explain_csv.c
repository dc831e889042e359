/* explain_csv.c - an explanation as CSV: a row per op of every captured step, a row per step (explain_report.h).
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
    table_put_i64(w, d->pos == e->worst_pos && d->op.layer == e->first.layer &&
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

static void put_top(table_writer *w, const struct top2 *t) {
    table_put_i64(w, t->id1);
    table_put_f32(w, t->logit1);
    table_put_i64(w, t->id2);
    table_put_f32(w, t->logit2);
    if (t->id2 < 0)
        table_put_empty(w);
    else
        table_put_f64(w, (double)t->logit1 - (double)t->logit2);
}

enum status explain_margins_csv(const char *path, enum table_eol eol, const struct explain_result *e,
                                struct err *err) {
    static const char *const columns[] = {"step",     "pos",      "id1_a",     "logit1_a",  "id2_a",
                                          "logit2_a", "margin_a", "id1_b",     "logit1_b",  "id2_b",
                                          "logit2_b", "margin_b", "row_equal", "ops_equal", "fork"};
    table_writer *w = NULL;
    RETURN_IF_ERROR(
        table_writer_open(path, NULL, eol, columns, (int)(sizeof columns / sizeof columns[0]), &w, err));
    for (int i = 0; i < e->n_steps; i++) {
        const struct tape_step *a = &e->screen[0].steps[i], *b = &e->screen[1].steps[i];
        table_put_i64(w, i);
        table_put_i64(w, a->pos);
        put_top(w, &a->top);
        put_top(w, &b->top);
        table_put_i64(w, hash_equal(&a->row, &b->row));
        table_put_i64(w, a->sum == b->sum);
        table_put_i64(w, i == e->fork);
        table_end_row(w);
    }
    return table_writer_finish(w, err);
}
