/* gate_add.c - CLAIM: the residual sum is one f32 rounding per element, whatever the length.
 * Needs: no model. Exercise: forkgate run --only op.add */
#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

struct sum {
    float *x, *t;
};

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct sum), &state, err));
    struct sum *s = io->state = state;
    io->n = (size_t)case_dim(io->c, "n", 1);
    struct compare_shape shape = {1, {(int64_t)io->n, 0, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    io->exact = 1; /* the float64 sum of two f32 rounded once is the f32 sum */
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->x, err));
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->t, err));
    RETURN_IF_ERROR(bench_truth(b, io, err));
    case_fill(io->c, 0, &op_range_f32, s->x, io->n);
    case_fill(io->c, 1, &op_range_f32, s->t, io->n);
    oracle_add(s->x, s->t, io->n, io->truth, io->scale);
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    const struct sum *s = io->state;
    void *x, *t;
    RETURN_IF_ERROR(bench_input(b, s->x, io->n * sizeof(float), &x, err));
    RETURN_IF_ERROR(bench_input(b, s->t, io->n * sizeof(float), &t, err));
    RETURN_IF_ERROR(b->subject->add(b->subject, x, t, (int64_t)io->n, err));
    return bench_read(b, got, x, io->n * sizeof(float), err);
}

static const struct op_subject subject = {"op.add", "add", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_add = {
    "op.add", TIER_PARITY, "the residual sum is one f32 rounding per element, whatever the length", 0, 0,
    120,      run};
