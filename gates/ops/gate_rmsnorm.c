/* gate_rmsnorm.c - CLAIM: RMSNorm is right within its budget, repeats bit for bit and writes its rows only.
 * Needs: no model. Cases: op_cases.csv, edges around NORM_LANES. Exercise: forkgate run --only op.rmsnorm */
#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

#define EPS 1e-5f

struct norm {
    int64_t rows, cols;
    float *x, *w;
};

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct norm), &state, err));
    struct norm *s = io->state = state;
    s->rows = case_dim(io->c, "rows", 1);
    s->cols = case_dim(io->c, "cols", 1);
    io->n = (size_t)(s->rows * s->cols);
    struct compare_shape shape = {2, {s->rows, s->cols, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->x, err));
    RETURN_IF_ERROR(bench_floats(b, (size_t)s->cols, &s->w, err));
    RETURN_IF_ERROR(bench_truth(b, io, err));
    struct fill_range range = {1e16f, 0x1p-126f}; /* squares of the row must not overflow */
    case_fill(io->c, 0, &range, s->x, io->n);
    struct op_case weights = *io->c;
    weights.family = FAMILY_NORMAL;
    case_fill(&weights, 1, &range, s->w, (size_t)s->cols);
    oracle_rmsnorm(s->x, s->w, (double)EPS, s->rows, s->cols, io->truth, io->scale);
    /* |error| <= u (chain of cols/NORM_LANES + 8 tree levels, halved by the square root, + 4 roundings) |y| */
    double roundings = ((double)s->cols / NORM_LANES + 9.0) / 2.0 + 4.0;
    for (size_t i = 0; i < io->n; i++) io->scale[i] = io->scale[i] * roundings + 0x1p-125;
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    const struct norm *s = io->state;
    void *x, *w, *y;
    RETURN_IF_ERROR(bench_input(b, s->x, io->n * sizeof(float), &x, err));
    RETURN_IF_ERROR(bench_input(b, s->w, (size_t)s->cols * sizeof(float), &w, err));
    RETURN_IF_ERROR(bench_output(b, io->n * sizeof(float), &y, err));
    RETURN_IF_ERROR(b->subject->rmsnorm(b->subject, x, w, EPS, s->rows, s->cols, y, err));
    return bench_read(b, got, y, io->n * sizeof(float), err);
}

static const struct op_subject subject = {"op.rmsnorm", "rmsnorm", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_rmsnorm = {
    "op.rmsnorm",
    TIER_PARITY,
    "RMSNorm is right within its budget, repeats bit for bit and writes its rows only",
    0,
    0,
    120,
    run};
