/* explain_stale.c - is what differs on side B an older content of the buffer (explain_parts.h)?
 * Not a proof: B's memory is not looked at before the op ran; what its rows hold afterwards is compared with what ops before
 * it left, and with other rows of the same op.
 * Idea: one row that equals another one proves nothing. An attention that may read one key gives the value row of that key,
 * at every position where that happens. A buffer that was not written shows that in most of the rows that differ.
 * Source: ours. Exercise: ctest -R unit.explain */
#include <stdlib.h>
#include <string.h>

#include "gates/explain_parts.h"

#define STALE_MIN 8 /* fewer equal values are a coincidence that small integers make easily */

/* Every differing value of B equals the value of the same element in `old`. */
static int holds_old(const float *a, const float *b, size_t n, const float *old) {
    for (size_t i = 0; i < n; i++)
        if (!explain_bits_equal(a[i], b[i]) && !explain_bits_equal(b[i], old[i])) return 0;
    return 1;
}

/* ---- the same op, in other rows ----------------------------------------------------------------------------------- */

struct row_key {
    uint64_t sum;
    int pos;
};

static int by_sum(const void *x, const void *y) {
    const struct row_key *a = x, *b = y;
    if (a->sum != b->sum) return a->sum < b->sum ? -1 : 1;
    return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* The rows of a prompt run from position 0 on; NULL where there is none. */
static const struct tape_row *row_at(const struct tape *t, int pos) {
    if (pos < 0 || (size_t)pos >= t->n_rows || t->rows[pos].pos != pos) return NULL;
    return &t->rows[pos];
}

/* All rows of both sides, sorted by checksum; NULL without memory. */
static struct row_key *sort_rows(const struct explain_evidence *e, size_t *n) {
    struct row_key *keys = calloc(e->rows[0].n_rows + e->rows[1].n_rows + 1, sizeof *keys);
    *n = 0;
    for (int side = 0; keys != NULL && side < 2; side++)
        for (size_t i = 0; i < e->rows[side].n_rows; i++)
            keys[(*n)++] = (struct row_key){e->rows[side].rows[i].sum, e->rows[side].rows[i].pos};
    if (keys != NULL) qsort(keys, *n, sizeof *keys, by_sum);
    return keys;
}

/* The position whose whole row B's row at `pos` is, -1: none. Where A's two rows are equal as well (the same token twice,
 * before positions matter) that says nothing. */
static int whole_copy(const struct explain_evidence *e, const struct row_key *keys, size_t n, int pos) {
    const struct tape_row *a = row_at(&e->rows[0], pos), *b = row_at(&e->rows[1], pos);
    size_t low = 0, high = n;
    while (b != NULL && low < high) {
        size_t middle = low + (high - low) / 2;
        if (keys[middle].sum < b->sum)
            low = middle + 1;
        else
            high = middle;
    }
    for (; a != NULL && b != NULL && low < n && keys[low].sum == b->sum; low++) {
        const struct tape_row *twin = row_at(&e->rows[0], keys[low].pos);
        if (keys[low].pos != pos && (twin == NULL || twin->sum != a->sum)) return keys[low].pos;
    }
    return -1;
}

/* What differs of B's row at `pos` is what its buffer rows held one chunk earlier. */
static int chunk_copy(const struct explain_evidence *e, int pos, int chunk) {
    const struct tape_row *a = row_at(&e->rows[0], pos), *b = row_at(&e->rows[1], pos);
    const struct tape_row *old = row_at(&e->rows[1], pos - chunk);
    if (a == NULL || b == NULL || old == NULL) return 0;
    if (a->cols == 0 || a->cols != b->cols || a->cols != old->cols) return 0;
    const float *values = e->rows[1].row_values;
    return holds_old(e->rows[0].row_values + a->at, values + b->at, (size_t)a->cols, values + old->at);
}

/* Are at least half of the rows that differ copies of other rows of the op? *from: where worst_pos's comes from, or -1. */
static int rows_are_copies(const struct explain_evidence *e, const struct explain_result *out, int *from) {
    size_t n = 0;
    int copies = 0, chunk = e->before < 0 ? 0 : out->worst_pos - e->before;
    struct row_key *keys = sort_rows(e, &n);
    *from = -1;
    if (keys == NULL) return 0;
    for (size_t i = 0; i < e->rows[0].n_rows && i < e->rows[1].n_rows; i++) {
        if (e->rows[0].rows[i].sum == e->rows[1].rows[i].sum) continue;
        int pos = e->rows[1].rows[i].pos, whole = whole_copy(e, keys, n, pos);
        int earlier = whole < 0 && chunk > 0 && chunk_copy(e, pos, chunk);
        copies += whole >= 0 || earlier;
        if (pos == out->worst_pos && (whole >= 0 || earlier)) *from = whole >= 0 ? whole : pos - chunk;
    }
    free(keys);
    return 2 * copies >= out->rows_differing;
}

/* ---- what ops before it left ---------------------------------------------------------------------------------------- */

static int is_first_op(const struct tape_op *op, const struct explain_result *out) {
    return op->layer == out->first.layer && strcmp(op->op, out->first.op) == 0 &&
           strcmp(op->tensor, out->first.tensor) == 0;
}

/* What a result in the same memory held, of ops [0, n_ops) of a capture of B, the latest first; the op's own earlier result
 * only where `own` allows it. */
static int left_by(const struct explain_result *out, const struct explain_pair *p,
                   const struct tape_capture *c, int n_ops, int own, char *what, size_t room) {
    int buffer = p->of_b->ops.op[p->index_b].buffer;
    for (int i = n_ops - 1; i >= 0; i--) {
        const struct tape_op *op = &c->ops.op[i];
        if (op->cols != (int64_t)p->n || op->buffer != buffer || (!own && is_first_op(op, out))) continue;
        if (!holds_old(p->a, p->b, p->n, explain_values(c, i))) continue;
        (void)snprintf(what, room, "what %s of layer %d at position %d holds", op->tensor, op->layer, c->pos);
        return 1;
    }
    return 0;
}

int explain_stale(const struct explain_evidence *e, const struct explain_result *out,
                  const struct explain_pair *p, char *what, size_t room) {
    uint64_t differing = out->first_delta.differing;
    int from = -1, prefill = e->rows[1].n_rows > 0;
    if (differing < STALE_MIN && differing < p->n) return 0;
    int copies = prefill && rows_are_copies(e, out, &from);
    if (left_by(out, p, p->of_b, p->index_b, 1, what, room)) return 1;
    const struct tape_capture *before = e->before < 0 ? NULL : tape_capture_at(&e->kept[1], e->before);
    if (before != NULL && left_by(out, p, before, before->ops.n, !prefill || copies, what, room)) return 1;
    if (!copies || from < 0) return 0;
    (void)snprintf(what, room, "the row of position %d", from);
    return 1;
}
