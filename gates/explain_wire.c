/* explain_wire.c - a tape as CSV, so that two builds can be compared that never share a process (explain_tape.h).
 * Not a format to keep: it lives as long as the pipe; its first line says its version.
 * Idea: text for what people may want to look at, one verified tensor file for the values.
 * Source: ours. Exercise: ctest -R unit.explain ; forkgate trace --help */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gates/explain_tape.h"
#include "gates/table.h"
#include "gates/tensor_dump.h"

#define WIRE_NOTE "forkgate trace 2"
#define COST_NOTE                                                                                            \
    "bytes summed %" PRIu64 " copied %" PRIu64 " held %" PRIu64 /* a trace without it is read too */

enum column {
    KIND,
    STEP,
    POS,
    LAYER,
    OP,
    TENSOR,
    KERNEL,
    ROWS,
    COLS,
    BUFFER,
    SUM,
    ROW,
    ID1,
    LOGIT1,
    ID2,
    LOGIT2,
    COLUMNS
};

static const char *const columns[COLUMNS] = {"kind",   "step",   "pos",  "layer",  "op",  "tensor",
                                             "kernel", "rows",   "cols", "buffer", "sum", "row_hash",
                                             "id1",    "logit1", "id2",  "logit2"};

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void put_sum(table_writer *w, uint64_t sum) {
    char text[17];
    (void)snprintf(text, sizeof text, "%016" PRIx64, sum);
    table_put_text(w, text);
}

static void put_empty(table_writer *w, int n) {
    for (int i = 0; i < n; i++) table_put_empty(w);
}

static void put_step(table_writer *w, int step, const struct tape_step *s) {
    char row[HASH_TEXT_BYTES];
    hash_format(&s->row, row);
    table_put_text(w, "step");
    table_put_i64(w, step);
    table_put_i64(w, s->pos);
    put_empty(w, SUM - LAYER);
    put_sum(w, s->sum);
    table_put_text(w, row);
    table_put_i64(w, s->top.id1);
    table_put_f32(w, s->top.logit1);
    table_put_i64(w, s->top.id2);
    table_put_f32(w, s->top.logit2);
    table_end_row(w);
}

static void put_op(table_writer *w, const char *kind, int pos, const struct tape_op *op) {
    table_put_text(w, kind);
    table_put_empty(w);
    table_put_i64(w, pos);
    table_put_i64(w, op->layer);
    table_put_text(w, op->op);
    table_put_text(w, op->tensor);
    table_put_text(w, op->kernel);
    table_put_i64(w, op->rows);
    table_put_i64(w, op->cols);
    table_put_i64(w, op->buffer);
    put_sum(w, op->sum);
    put_empty(w, COLUMNS - ROW);
    table_end_row(w);
}

static void put_row(table_writer *w, const struct tape_row *row) {
    table_put_text(w, "row");
    table_put_empty(w);
    table_put_i64(w, row->pos);
    put_empty(w, COLS - LAYER);
    table_put_i64(w, row->cols);
    table_put_empty(w);
    put_sum(w, row->sum);
    put_empty(w, COLUMNS - ROW);
    table_end_row(w);
}

/* One line of values; rows of one op, all of one length and nothing beside them, keep their shape. */
static struct tensor_shape shape_of(const struct tape *t) {
    struct tensor_shape shape = {DTYPE_F32, 1, {0, 1, 1, 1}};
    shape.ne[0] = t->n_row_values;
    for (int i = 0; i < t->n_captures; i++) shape.ne[0] += t->captures[i].n_values;
    uint64_t cols = t->n_rows == 0 ? 0 : (uint64_t)t->rows[0].cols;
    for (size_t i = 0; i < t->n_rows; i++)
        if ((uint64_t)t->rows[i].cols != cols) return shape;
    if (t->n_captures > 0 || cols == 0 || cols * t->n_rows != t->n_row_values) return shape;
    shape.n_dims = 2;
    shape.ne[0] = cols;
    shape.ne[1] = t->n_rows;
    return shape;
}

static enum status write_values(const struct tape *t, const char *path, const struct provenance *who,
                                struct err *err) {
    const struct tensor_shape shape = shape_of(t);
    const struct provenance nobody = {NULL, 0, 0};
    if (shape.ne[0] == 0) return STATUS_OK;
    float *all = malloc((size_t)(shape.ne[0] * shape.ne[1]) * sizeof *all);
    if (all == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    size_t used = 0;
    for (int i = 0; i < t->n_captures; i++) {
        memcpy(all + used, t->captures[i].values, t->captures[i].n_values * sizeof *all);
        used += t->captures[i].n_values;
    }
    if (t->n_row_values > 0) memcpy(all + used, t->row_values, t->n_row_values * sizeof *all);
    enum status s = tensor_dump_write(path, &shape, all, who != NULL ? who : &nobody, err);
    free(all);
    return s;
}

enum status tape_write(const struct tape *t, FILE *out, const char *values_path, const struct provenance *who,
                       struct err *err) {
    table_writer *w = NULL;
    if (values_path != NULL) RETURN_IF_ERROR(write_values(t, values_path, who, err));
    fprintf(out, "# %s\n", WIRE_NOTE);
    fprintf(out, "# " COST_NOTE "\n", t->cost.screened, t->cost.copied, t->cost.held);
    RETURN_IF_ERROR(table_writer_open(NULL, out, TABLE_LF, columns, COLUMNS, &w, err));
    for (int i = 0; i < t->n_steps; i++) put_step(w, i, &t->steps[i]);
    for (int i = 0; i < t->ops.n; i++) put_op(w, "op", -1, &t->ops.op[i]);
    for (size_t i = 0; i < t->n_rows; i++) put_row(w, &t->rows[i]);
    for (int i = 0; i < t->n_captures; i++)
        for (int j = 0; j < t->captures[i].ops.n; j++)
            put_op(w, "capture", t->captures[i].pos, &t->captures[i].ops.op[j]);
    return table_writer_finish(w, err);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static enum status get_int(const table *t, size_t row, int column, int *out, struct err *err) {
    int64_t v = 0;
    RETURN_IF_ERROR(table_integer(t, row, column, INT32_MIN, INT32_MAX, &v, err));
    *out = (int)v;
    return STATUS_OK;
}

static enum status get_f32(const table *t, size_t row, int column, float *out, struct err *err) {
    double v = 0.0;
    RETURN_IF_ERROR(table_real(t, row, column, &v, err));
    *out = (float)v;
    return STATUS_OK;
}

static enum status get_sum(const table *t, size_t row, uint64_t *out, struct err *err) {
    size_t n = 0;
    uint8_t bytes[8];
    const char *text = table_cell(t, row, SUM, &n);
    if (n != 16 || !table_parse_hex(text, n, bytes))
        return table_refuse(t, row, err, "bad checksum '%s'", text);
    *out = 0;
    for (int i = 0; i < 8; i++) *out = *out << 8 | bytes[i];
    return STATUS_OK;
}

static enum status read_step(const table *t, size_t row, struct tape *out, struct err *err) {
    struct tape_step *s = &out->steps[out->n_steps];
    int step = 0;
    RETURN_IF_ERROR(get_int(t, row, STEP, &step, err));
    if (step != out->n_steps)
        return table_refuse(t, row, err, "step %d where %d was due", step, out->n_steps);
    RETURN_IF_ERROR(get_int(t, row, POS, &s->pos, err));
    RETURN_IF_ERROR(get_sum(t, row, &s->sum, err));
    if (!hash_parse(table_cell(t, row, ROW, NULL), &s->row)) return table_refuse(t, row, err, "bad row hash");
    RETURN_IF_ERROR(get_int(t, row, ID1, &s->top.id1, err));
    RETURN_IF_ERROR(get_f32(t, row, LOGIT1, &s->top.logit1, err));
    RETURN_IF_ERROR(get_int(t, row, ID2, &s->top.id2, err));
    RETURN_IF_ERROR(get_f32(t, row, LOGIT2, &s->top.logit2, err));
    out->n_steps++;
    return STATUS_OK;
}

static enum status read_op(const table *t, size_t row, struct tape_op *op, struct err *err) {
    memset(op, 0, sizeof *op);
    RETURN_IF_ERROR(get_int(t, row, LAYER, &op->layer, err));
    RETURN_IF_ERROR(table_integer(t, row, ROWS, 0, INT32_MAX, &op->rows, err));
    RETURN_IF_ERROR(table_integer(t, row, COLS, 0, INT32_MAX, &op->cols, err));
    RETURN_IF_ERROR(get_int(t, row, BUFFER, &op->buffer, err));
    RETURN_IF_ERROR(get_sum(t, row, &op->sum, err));
    (void)snprintf(op->op, sizeof op->op, "%s", table_cell(t, row, OP, NULL));
    (void)snprintf(op->tensor, sizeof op->tensor, "%s", table_cell(t, row, TENSOR, NULL));
    (void)snprintf(op->kernel, sizeof op->kernel, "%s", table_cell(t, row, KERNEL, NULL));
    return STATUS_OK;
}

static enum status read_capture(const table *t, size_t row, struct tape *out, struct err *err) {
    struct tape_op op;
    int pos = 0;
    RETURN_IF_ERROR(read_op(t, row, &op, err));
    RETURN_IF_ERROR(get_int(t, row, POS, &pos, err));
    struct tape_capture *c = out->n_captures > 0 ? &out->captures[out->n_captures - 1] : NULL;
    if (c == NULL || c->pos != pos) {
        if (out->n_captures == TAPE_CAPTURES)
            return table_refuse(t, row, err, "more than %d captures", TAPE_CAPTURES);
        c = &out->captures[out->n_captures++];
        c->pos = pos;
    }
    op.at = c->n_values;
    c->n_values += (size_t)op.cols; /* filled by read_values */
    return tape_add_op(&c->ops, &op, err);
}

static enum status read_row(const table *t, size_t row, struct tape *out, struct err *err) {
    const char *kind = table_cell(t, row, KIND, NULL);
    if (strcmp(kind, "step") == 0) return read_step(t, row, out, err);
    if (strcmp(kind, "capture") == 0) return read_capture(t, row, out, err);
    if (strcmp(kind, "op") == 0) {
        struct tape_op op;
        RETURN_IF_ERROR(read_op(t, row, &op, err));
        return tape_add_op(&out->ops, &op, err);
    }
    if (strcmp(kind, "row") != 0) return table_refuse(t, row, err, "unknown kind '%s'", kind);
    int pos = 0;
    int64_t cols = 0;
    uint64_t sum = 0;
    RETURN_IF_ERROR(get_int(t, row, POS, &pos, err));
    RETURN_IF_ERROR(table_integer(t, row, COLS, 0, INT32_MAX, &cols, err));
    RETURN_IF_ERROR(get_sum(t, row, &sum, err));
    return tape_add_row(out, pos, sum, NULL, cols, err); /* filled by read_values */
}

/* The values in the order of write_values: captures, then rows. */
static enum status take_values(struct tape *out, const float *values, struct err *err) {
    for (int i = 0; i < out->n_captures; i++) {
        struct tape_capture *c = &out->captures[i];
        size_t n = c->n_values;
        c->n_values = 0;
        RETURN_IF_ERROR(tape_add_values(c, values, n, err));
        values += n;
    }
    if (out->n_row_values == 0) return STATUS_OK;
    out->row_values = malloc(out->n_row_values * sizeof *values);
    if (out->row_values == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    memcpy(out->row_values, values, out->n_row_values * sizeof *values);
    return STATUS_OK;
}

static enum status read_values(struct tape *out, const char *path, struct err *err) {
    tensor_dump *d = NULL;
    uint64_t wanted = out->n_row_values;
    for (int i = 0; i < out->n_captures; i++) wanted += out->captures[i].n_values;
    if (wanted == 0) return STATUS_OK;
    RETURN_IF_ERROR(tensor_dump_open(path, &d, err));
    enum status s = STATUS_OK;
    struct tensor_shape shape = tensor_dump_shape(d);
    if (tensor_dump_elements(d) != wanted || shape.dtype != DTYPE_F32)
        s = err_set(err, STATUS_FORMAT, "%s: %llu values where the trace lists %llu", path,
                    (unsigned long long)tensor_dump_elements(d), (unsigned long long)wanted);
    if (s == STATUS_OK) s = take_values(out, tensor_dump_data(d), err);
    tensor_dump_close(d);
    return s;
}

static void read_cost(const table *t, struct tape_cost *out) {
    uint64_t n[3];
    for (int i = 1; i < table_notes(t); i++)
        if (sscanf(table_note(t, i), "bytes summed %" SCNu64 " copied %" SCNu64 " held %" SCNu64, &n[0],
                   &n[1], &n[2]) == 3)
            *out = (struct tape_cost){n[0], n[1], n[2]};
}

static enum status read_table(const table *t, struct tape *out, struct err *err) {
    if (table_notes(t) < 1 || strcmp(table_note(t, 0), WIRE_NOTE) != 0)
        return err_set(err, STATUS_FORMAT, "%s: not the output of this version's trace", table_name(t));
    read_cost(t, &out->cost);
    for (int i = 0; i < COLUMNS; i++) {
        int at = -1;
        RETURN_IF_ERROR(table_need(t, columns[i], &at, err));
        if (at != i)
            return err_set(err, STATUS_FORMAT, "%s: column '%s' is out of place", table_name(t), columns[i]);
    }
    out->steps = calloc(table_rows(t) + 1, sizeof *out->steps);
    if (out->steps == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    for (size_t row = 0; row < table_rows(t); row++) RETURN_IF_ERROR(read_row(t, row, out, err));
    return STATUS_OK;
}

enum status tape_read(const void *bytes, size_t n, const char *name, const char *values_path,
                      struct tape *out, struct err *err) {
    table *t = NULL;
    memset(out, 0, sizeof *out);
    RETURN_IF_ERROR(table_read_memory(bytes, n, name, &t, err));
    enum status s = read_table(t, out, err);
    table_close(t);
    if (s == STATUS_OK && values_path != NULL) s = read_values(out, values_path, err);
    return s;
}
