/* gate_embed.c - CLAIM: an embedded row is its table row, dequantised by one formula, bit for bit.
 * Needs: no model. Cases: every storage type. Exercise: forkgate run --only op.embed */
#include "engine/rng.h"
#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

struct embed {
    int rows;
    int64_t n_vocab, cols;
    enum dtype dtype;
    void *table; /* [n_vocab, cols] in dtype */
    struct op_step step;
    struct kv_cache cache;
};

static enum status make_truth(struct op_bench *b, struct op_io *io, const struct embed *s, struct err *err) {
    double *values;
    RETURN_IF_ERROR(bench_truth(b, io, err));
    RETURN_IF_ERROR(bench_doubles(b, (size_t)(s->n_vocab * s->cols), &values, err));
    oracle_dequant(s->dtype, s->table, (size_t)(s->n_vocab * s->cols), values, NULL);
    for (int r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++)
            io->truth[r * s->cols + c] = values[s->step.id[r] * s->cols + c];
    return STATUS_OK;
}

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    size_t bytes;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct embed), &state, err));
    struct embed *s = io->state = state;
    s->rows = (int)case_dim(io->c, "rows", 1);
    s->cols = case_dim(io->c, "cols", 256);
    s->n_vocab = case_dim(io->c, "n_vocab", 7);
    int code = dtype_from_name(io->c->dtype);
    if (code < 0) return err_set(err, STATUS_FORMAT, "no dtype '%s'", io->c->dtype);
    s->dtype = (enum dtype)code;
    io->n = (size_t)(s->rows * s->cols);
    struct compare_shape shape = {2, {s->rows, s->cols, 0, 0}};
    io->shape = shape;
    io->route = ROUTE_F16;
    io->exact = 1; /* every product of a code fits f32 or rounds once, and so does the double */
    RETURN_IF_ERROR(op_weights(b, io->c, s->dtype, s->n_vocab, s->cols, 0, &s->table, &bytes, err));
    RETURN_IF_ERROR(op_step_new(b, s->rows, 1, 0, &s->step, err));
    s->cache = op_cache_dummy(s->rows);
    s->step.caches[0] = &s->cache;
    for (int r = 0; r < s->rows; r++) /* first and last row of the table, then anything */
        s->step.id[r] =
            (int32_t)(r == 0   ? s->n_vocab - 1
                      : r == 1 ? 0
                               : (int64_t)(rng_u64(io->c->seed, (uint64_t)r) % (uint64_t)s->n_vocab));
    return make_truth(b, io, s, err);
}

static enum status embed_rows(struct op_bench *b, struct embed *s, const struct weight *w, float *x,
                              struct err *err) {
    RETURN_IF_ERROR(op_step_begin(b, &s->step, err));
    RETURN_IF_ERROR(b->subject->embed(b->subject, &s->step.step, w, x, err));
    return op_step_end(b, &s->step, err);
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    struct embed *s = io->state;
    struct weight w;
    void *x;
    RETURN_IF_ERROR(bench_output(b, io->n * sizeof(float), &x, err));
    RETURN_IF_ERROR(b->subject->weight_upload(b->subject, WEIGHT_EMBED, s->dtype, s->table, s->n_vocab,
                                              s->cols, &w, err));
    enum status status = embed_rows(b, s, &w, x, err);
    if (status == STATUS_OK) status = bench_read(b, got, x, io->n * sizeof(float), err);
    b->subject->weight_free(b->subject, &w);
    return status;
}

static const struct op_subject subject = {"op.embed", "embed", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_embed = {
    "op.embed", TIER_PARITY, "an embedded row is its table row, dequantised by one formula, bit for bit",
    0,          0,           120,
    run};
