/* explain_tape.c - see explain_tape.h: the growing lists and the look-ups. */
#include "gates/explain_tape.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *array, size_t used, size_t *room, size_t item_bytes) {
    if (used < *room) return array;
    size_t wanted = *room == 0 ? 64 : 2 * *room;
    void *bigger = realloc(array, wanted * item_bytes);
    if (bigger != NULL) *room = wanted;
    return bigger;
}

enum status tape_add_op(struct tape_ops *ops, const struct tape_op *op, struct err *err) {
    size_t room = (size_t)ops->room;
    struct tape_op *list = grow(ops->op, (size_t)ops->n, &room, sizeof *list);
    if (list == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    ops->op = list;
    ops->room = (int)room;
    ops->op[ops->n++] = *op;
    return STATUS_OK;
}

static enum status append(float **values, size_t *used, size_t *room, const float *x, size_t n,
                          struct err *err) {
    if (*used + n > *room) {
        size_t wanted = *room + n > 2 * *room ? *room + n : 2 * *room;
        float *bigger = realloc(*values, wanted * sizeof *bigger);
        if (bigger == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory for %zu values", wanted);
        *values = bigger;
        *room = wanted;
    }
    if (n > 0) memcpy(*values + *used, x, n * sizeof *x);
    *used += n;
    return STATUS_OK;
}

int tape_row_fits(const struct tape *t, int64_t cols) {
    return t->n_row_values + (size_t)cols <= TAPE_ROW_VALUES;
}

enum status tape_add_row(struct tape *t, int pos, uint64_t sum, const float *x, int64_t cols,
                         struct err *err) {
    struct tape_row *list = grow(t->rows, t->n_rows, &t->rows_room, sizeof *list);
    if (list == NULL) return err_set(err, STATUS_NOMEM, "trace: out of memory");
    t->rows = list;
    struct tape_row *row = &t->rows[t->n_rows++];
    row->pos = pos;
    row->sum = sum;
    row->cols = tape_row_fits(t, cols) ? cols : 0;
    row->at = t->n_row_values;
    if (x != NULL)
        return append(&t->row_values, &t->n_row_values, &t->row_values_room, x, (size_t)row->cols, err);
    t->n_row_values += (size_t)row->cols;
    return STATUS_OK;
}

enum status tape_add_values(struct tape_capture *c, const float *x, size_t n, struct err *err) {
    return append(&c->values, &c->n_values, &c->room, x, n, err);
}

void tape_free(struct tape *t) {
    free(t->steps);
    free(t->ops.op);
    free(t->rows);
    free(t->row_values);
    for (int i = 0; i < TAPE_CAPTURES; i++) {
        free(t->captures[i].ops.op);
        free(t->captures[i].values);
    }
    memset(t, 0, sizeof *t);
}

void tape_op_key(const struct tape_op *op, char out[TAPE_KEY]) {
    (void)snprintf(out, TAPE_KEY, "%d/%s/%s", op->layer, op->op, op->tensor);
}

static int same_op(const struct tape_op *a, const struct tape_op *b) {
    return a->layer == b->layer && strcmp(a->op, b->op) == 0 && strcmp(a->tensor, b->tensor) == 0;
}

int tape_find(const struct tape_ops *ops, const struct tape_op *like, int from) {
    for (int i = from; i < ops->n; i++)
        if (same_op(&ops->op[i], like)) return i;
    for (int i = 0; i < from && i < ops->n; i++)
        if (same_op(&ops->op[i], like)) return i;
    return -1;
}

int tape_is_input(const struct tape_op *op) {
    const char *dot = strchr(op->tensor, '.');
    return strcmp(op->op, "act_prepare") == 0 && dot != NULL && strchr(dot + 1, '.') == NULL;
}

const struct tape_capture *tape_capture_at(const struct tape *t, int pos) {
    for (int i = 0; i < t->n_captures; i++)
        if (t->captures[i].pos == pos) return &t->captures[i];
    return NULL;
}
