/* gate_swiglu.c - CLAIM: SiLU(g) u is right within its budget for every gate value, saturated ones included.
 * Needs: no model. Exercise: forkgate run --only op.swiglu */
#include <math.h>

#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

struct glu {
    float *g, *u;
};

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct glu), &state, err));
    struct glu *s = io->state = state;
    io->n = (size_t)case_dim(io->c, "n", 1);
    struct compare_shape shape = {1, {(int64_t)io->n, 0, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->g, err));
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->u, err));
    RETURN_IF_ERROR(bench_truth(b, io, err));
    struct fill_range range = {1e15f, 0x1p-126f};
    case_fill(io->c, 0, &range, s->g, io->n);
    case_fill(io->c, 1, &range, s->u, io->n);
    oracle_swiglu(s->g, s->u, io->n, io->truth, io->scale);
    /* beyond exp's range the sigmoid is zero or subnormal: an absolute term of 2^-128 |g u|, in units of the bound */
    for (size_t i = 0; i < io->n; i++)
        io->scale[i] += 0x1p-104 * fabs((double)s->g[i] * (double)s->u[i]) + 0x1p-125;
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    const struct glu *s = io->state;
    void *g, *u, *y;
    RETURN_IF_ERROR(bench_input(b, s->g, io->n * sizeof(float), &g, err));
    RETURN_IF_ERROR(bench_input(b, s->u, io->n * sizeof(float), &u, err));
    RETURN_IF_ERROR(bench_output(b, io->n * sizeof(float), &y, err));
    RETURN_IF_ERROR(b->subject->swiglu(b->subject, g, u, (int64_t)io->n, y, err));
    return bench_read(b, got, y, io->n * sizeof(float), err);
}

static const struct op_subject subject = {"op.swiglu", "swiglu", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_swiglu = {
    "op.swiglu",
    TIER_PARITY,
    "SiLU(g) u is right within its budget for every gate value, saturated ones included",
    0,
    0,
    120,
    run};
