/* tensor_csv.c - one CSV row per comparison of two tensors: see tensor_report.h. */
#include <string.h>

#include "gates/shell_word.h"
#include "gates/tensor_report.h"

static const char *const columns[] = {"schema",      "a",
                                      "b",           "verdict",
                                      "exit",        "tensor",
                                      "elements",    "differing",
                                      "first",       "first_a",
                                      "first_b",     "worst",
                                      "worst_a",     "worst_b",
                                      "max_abs",     "rms",
                                      "max_a",       "max_scaled",
                                      "rms_scaled",  "nmse",
                                      "max_ulps",    "ulp_0",
                                      "ulp_1",       "ulp_2",
                                      "ulp_4",       "ulp_16",
                                      "ulp_256",     "ulp_more",
                                      "sign_nan",    "nan_a",
                                      "inf_a",       "subnormal_a",
                                      "zero_a",      "nan_b",
                                      "inf_b",       "subnormal_b",
                                      "zero_b",      "control_max_abs",
                                      "control_rms", "control",
                                      "xxh3_a",      "xxh3_b",
                                      "reason",      "repro"};
#define N_COLUMNS ((int)(sizeof columns / sizeof columns[0]))
#define MEASURED  31 /* "elements" to "zero_b" */
#define SCHEMA    1

enum status tensor_csv_open(const char *path, enum table_eol eol, table_writer **out, struct err *err) {
    return table_writer_open(path, NULL, eol, columns, N_COLUMNS, out, err);
}

static void put_empty(table_writer *w, int n) {
    for (int i = 0; i < n; i++) table_put_empty(w);
}

static void put_name(table_writer *w, const char *name) {
    table_put_escaped(w, name, strlen(name));
}

static void put_hash(table_writer *w, const tensor_dump *t) {
    char text[HASH_TEXT_BYTES];
    struct hash128 h = tensor_dump_hash(t);
    hash_format(&h, text);
    table_put_text(w, text);
}

static void put_repro(table_writer *w, const char *a, const char *b, const char *control) {
    char text[16384] = "forkgate diff";
    int whole = shell_word_add(text, sizeof text, a) && shell_word_add(text, sizeof text, b);
    if (control != NULL)
        whole = whole && shell_word_add(text, sizeof text, "--control") &&
                shell_word_add(text, sizeof text, control);
    if (!whole) (void)snprintf(text, sizeof text, "# too long for a row");
    table_put_escaped(w, text, strlen(text));
}

static void put_point(table_writer *w, const tensor_dump *t, const struct tensor_point *p) {
    char at[64];
    if (p->at == UINT64_MAX) {
        put_empty(w, 3);
        return;
    }
    tensor_index_text(t, p->at, at, sizeof at);
    table_put_text(w, at);
    table_put_f32(w, p->a);
    table_put_f32(w, p->b);
}

static void put_distance(table_writer *w, const tensor_dump *a, const struct tensor_distance *d) {
    const double numbers[] = {d->max_abs, d->rms, d->max_a, d->max_scaled, d->rms_scaled, d->nmse};
    table_put_u64(w, d->n);
    table_put_u64(w, d->differing);
    put_point(w, a, &d->first);
    put_point(w, a, &d->worst);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) table_put_f64(w, numbers[i]);
    table_put_u64(w, d->max_ulps);
    for (int i = 0; i < ULP_BUCKETS; i++) table_put_u64(w, d->ulps.n[i]);
    for (int side = 0; side < 2; side++) {
        const struct census *c = &d->census[side];
        const size_t counts[] = {c->n_nan, c->n_pos_inf + c->n_neg_inf, c->n_subnormal, c->n_zero};
        for (int i = 0; i < 4; i++) table_put_u64(w, counts[i]);
    }
}

static void put_head(table_writer *w, const char *a, const char *b, enum tensor_verdict v) {
    table_put_u64(w, SCHEMA);
    put_name(w, a);
    put_name(w, b);
    table_put_text(w, tensor_verdict_name(v));
    table_put_i64(w, tensor_exit_code(v));
}

void tensor_csv_row(table_writer *w, const tensor_dump *a, const tensor_dump *b, const struct tensor_diff *r,
                    const char *control) {
    char shape[96];
    const char *name_a = tensor_dump_name(a), *name_b = tensor_dump_name(b);
    put_head(w, name_a, name_b, r->verdict);
    tensor_shape_text(a, shape, sizeof shape);
    table_put_text(w, shape);
    if (r->measured)
        put_distance(w, a, &r->distance);
    else
        put_empty(w, MEASURED);
    if (r->control.used > 0) {
        table_put_f64(w, r->control.max_abs);
        table_put_f64(w, r->control.rms);
    } else
        put_empty(w, 2);
    put_name(w, r->control.source);
    put_hash(w, a);
    put_hash(w, b);
    put_name(w, r->reason);
    put_repro(w, name_a, name_b, control);
    table_end_row(w);
}

void tensor_csv_damage(table_writer *w, const char *path_a, const char *path_b, const struct err *err,
                       const char *control) {
    put_head(w, path_a, path_b, TENSOR_INVALID);
    put_empty(w, N_COLUMNS - 7);
    put_name(w, err->message);
    put_repro(w, path_a, path_b, control);
    table_end_row(w);
}
