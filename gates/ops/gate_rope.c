/* gate_rope.c - CLAIM: the rotation of each head pair is right within its budget at every position of the table.
 * Needs: no model (the engine's own table is judged by model.rope). Cases: head dims, partial rotation, positions up to
 * the end of the table. Exercise: forkgate run --only op.rope */
#include <math.h>

#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

struct rope {
    int rows, n_head, head_dim, n_rot, interleaved, n_pos;
    float *x, *cosines, *sines;
    struct op_step step;
    struct kv_cache cache;
};

static void fill_table(struct rope *s) {
    int half = s->n_rot / 2;
    for (int p = 0; p < s->n_pos; p++) {
        for (int i = 0; i < half; i++) {
            double angle = p * pow(10000.0, -2.0 * i / s->n_rot);
            s->cosines[p * half + i] = (float)cos(angle);
            s->sines[p * half + i] = (float)sin(angle);
        }
    }
}

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct rope), &state, err));
    struct rope *s = io->state = state;
    s->rows = (int)case_dim(io->c, "rows", 1);
    s->n_head = (int)case_dim(io->c, "n_head", 1);
    s->head_dim = (int)case_dim(io->c, "head_dim", 64);
    s->n_rot = (int)case_dim(io->c, "n_rot", s->head_dim);
    s->interleaved = (int)case_dim(io->c, "interleaved", 0);
    int pos0 = (int)case_dim(io->c, "pos", 0);
    s->n_pos = pos0 + s->rows;
    io->n = (size_t)(s->rows * s->n_head * s->head_dim);
    struct compare_shape shape = {3, {s->rows, s->n_head, s->head_dim, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    size_t table = (size_t)s->n_pos * (size_t)(s->n_rot / 2);
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->x, err));
    RETURN_IF_ERROR(bench_floats(b, table, &s->cosines, err));
    RETURN_IF_ERROR(bench_floats(b, table, &s->sines, err));
    RETURN_IF_ERROR(bench_truth(b, io, err));
    RETURN_IF_ERROR(op_step_new(b, s->rows, 1, pos0, &s->step, err));
    s->cache = op_cache_dummy(s->n_pos);
    s->step.caches[0] = &s->cache;
    case_fill(io->c, 0, &op_range_f32, s->x, io->n);
    fill_table(s);
    oracle_rope(s->x, s->step.pos, s->rows, s->n_head, s->head_dim, s->n_rot, s->interleaved, s->cosines,
                s->sines, io->truth, io->scale);
    for (size_t i = 0; i < io->n; i++)
        if (io->scale[i] > 0) io->scale[i] += 0x1p-125; /* products may be subnormal */
    return STATUS_OK;
}

static enum status rotate(struct op_bench *b, struct rope *s, const struct rope_table *table, float *x,
                          struct err *err) {
    RETURN_IF_ERROR(op_step_begin(b, &s->step, err));
    RETURN_IF_ERROR(b->subject->rope(b->subject, &s->step.step, table, s->n_head, s->head_dim, x, err));
    return op_step_end(b, &s->step, err);
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    struct rope *s = io->state;
    size_t table_bytes = (size_t)s->n_pos * (size_t)(s->n_rot / 2) * sizeof(float);
    void *x, *cosines, *sines;
    RETURN_IF_ERROR(bench_input(b, s->x, io->n * sizeof(float), &x, err));
    RETURN_IF_ERROR(bench_input(b, s->cosines, table_bytes, &cosines, err));
    RETURN_IF_ERROR(bench_input(b, s->sines, table_bytes, &sines, err));
    struct rope_table table = {s->interleaved ? ROPE_INTERLEAVED : ROPE_HALF_SPLIT, s->n_rot, s->n_pos,
                               cosines, sines};
    RETURN_IF_ERROR(rotate(b, s, &table, x, err));
    return bench_read(b, got, x, io->n * sizeof(float), err);
}

static const struct op_subject subject = {"op.rope", "rope", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_rope = {
    "op.rope",
    TIER_PARITY,
    "the rotation of each head pair is right within its budget at every position of the table",
    0,
    0,
    120,
    run};
