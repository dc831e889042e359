/* gate_top2.c - CLAIM: the two largest logits follow the declared tie rule; NaN, +Inf and padded rows never win.
 * Needs: no model. Cases: ties, constant rows, special=1 plants one kind of bad value per row. Exercise: forkgate run --only op.top2 */
#include <math.h>

#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

#define FIELDS 7

struct top2_case {
    int64_t rows, n_vocab, stride;
    float *logits; /* [rows, stride] */
};

/* Row r gets the r-th of the field's bad rows. */
static void plant(float *row, int64_t n, int64_t kind) {
    static const float fills[] = {0, 0, 0, 0, NAN, -INFINITY, -INFINITY, 1.0f};
    int64_t last = n - 1, middle = n / 2;
    for (int64_t i = 0; kind % 8 >= 4 && i < n; i++) row[i] = fills[kind % 8];
    if (kind % 8 == 0) row[0] = NAN;
    if (kind % 8 == 1) row[middle] = -NAN;
    if (kind % 8 == 2) row[last] = NAN;
    if (kind % 8 == 3) row[middle] = INFINITY;
    if (kind % 8 == 6) row[middle] = -3.0f;
    if (kind % 8 == 7) row[0] = row[last] = 2.0f; /* a tie between the first and the last id */
}

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct top2_case), &state, err));
    struct top2_case *s = io->state = state;
    s->rows = case_dim(io->c, "rows", 1);
    s->n_vocab = case_dim(io->c, "n_vocab", 16);
    s->stride = s->n_vocab + case_dim(io->c, "pad", 8);
    size_t n = (size_t)(s->rows * s->stride);
    io->n = (size_t)s->rows * FIELDS;
    struct compare_shape shape = {2, {s->rows, FIELDS, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    io->exact = 1;
    io->any_bits = 1; /* a second choice that is not there has no logit */
    RETURN_IF_ERROR(bench_floats(b, n, &s->logits, err));
    RETURN_IF_ERROR(bench_truth(b, io, err));
    case_fill(io->c, 0, &op_range_f32, s->logits, n);
    for (int64_t r = 0; r < s->rows; r++) {
        float *row = s->logits + r * s->stride;
        if (case_dim(io->c, "special", 0) != 0) plant(row, s->n_vocab, r);
        for (int64_t i = s->n_vocab; i < s->stride; i++) row[i] = 3e38f; /* padding that would win */
    }
    oracle_top2(s->logits, s->rows, s->n_vocab, s->stride, io->truth);
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    const struct top2_case *s = io->state;
    void *logits, *out, *host;
    size_t rows = (size_t)s->rows;
    RETURN_IF_ERROR(bench_input(b, s->logits, rows * (size_t)s->stride * sizeof(float), &logits, err));
    RETURN_IF_ERROR(bench_output(b, rows * sizeof(struct top2), &out, err));
    RETURN_IF_ERROR(b->subject->top2(b->subject, logits, s->rows, s->n_vocab, s->stride, out, err));
    RETURN_IF_ERROR(bench_host(b, rows, sizeof(struct top2), &host, err));
    RETURN_IF_ERROR(bench_read(b, host, out, rows * sizeof(struct top2), err));
    const struct top2 *t = host;
    for (size_t r = 0; r < rows; r++, got += FIELDS) {
        got[0] = (float)t[r].id1;
        got[1] = (float)t[r].id2;
        got[2] = t[r].logit1;
        got[3] = t[r].logit2;
        got[4] = (float)t[r].n_nan;
        got[5] = (float)t[r].n_inf;
        got[6] = (float)t[r].first_bad;
    }
    return STATUS_OK;
}

static const struct op_subject subject = {"op.top2", "top2", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_top2 = {
    "op.top2",
    TIER_PARITY,
    "the two largest logits follow the declared tie rule; NaN, +Inf and padded rows never win",
    0,
    0,
    120,
    run};
