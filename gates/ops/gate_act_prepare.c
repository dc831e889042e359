/* gate_act_prepare.c - CLAIM: activations are rounded and quantised exactly as the contract says, bad blocks counted.
 * Needs: no model. Cases: kinds f16, q8_32, q8_256; special=1 plants NaN and Inf. Exercise: forkgate run --only op.act_prepare */
#include <math.h>
#include <string.h>

#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

struct prepare {
    enum act_kind kind;
    int64_t rows, k, k_pad;
    float *x;
};

static int kind_from_name(const char *name) {
    for (int i = ACT_F16; i < ACT_KINDS; i++)
        if (strcmp(act_kind_name((enum act_kind)i), name) == 0) return i;
    return -1;
}

static void truth_f16(const struct prepare *s, struct op_io *io) {
    for (int64_t r = 0; r < s->rows; r++) {
        for (int64_t i = 0; i < s->k; i++) {
            double h = oracle_f16_value(oracle_f16_round((double)s->x[r * s->k + i]));
            io->truth[r * s->k_pad + i] = h;
            if (!isfinite(h)) io->overflows++;
        }
    }
}

/* Layout of the outputs: codes [rows, k], then scales [rows, k/block], then sums [rows, k/16]. */
static void truth_q8(const struct prepare *s, struct op_io *io) {
    size_t n = (size_t)(s->rows * s->k), block = (size_t)act_block(s->kind);
    oracle_act_q8(s->x, n, (int)block, io->truth, io->truth + n, io->truth + n + n / block, &io->overflows);
}

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct prepare), &state, err));
    struct prepare *s = io->state = state;
    int kind = kind_from_name(io->c->dtype);
    if (kind < 0) return err_set(err, STATUS_FORMAT, "no activation kind '%s'", io->c->dtype);
    s->kind = (enum act_kind)kind;
    s->rows = case_dim(io->c, "rows", 1);
    s->k = case_dim(io->c, "k", 256);
    s->k_pad = (s->k + TC_K - 1) / TC_K * TC_K;
    size_t n = (size_t)(s->rows * s->k), block = (size_t)act_block(s->kind);
    io->n = s->kind == ACT_F16 ? (size_t)(s->rows * s->k_pad) : n + n / block + n / ACT_SUM_GROUP;
    struct compare_shape shape = {1, {(int64_t)io->n, 0, 0, 0}};
    io->shape = shape;
    io->route = s->kind == ACT_F16 ? ROUTE_F16 : ROUTE_Q8;
    io->exact = 1;
    RETURN_IF_ERROR(bench_floats(b, n, &s->x, err));
    RETURN_IF_ERROR(bench_truth(b, io, err));
    case_fill(io->c, 0, s->kind == ACT_F16 ? &op_range_f16 : &op_range_f32, s->x, n);
    if (case_dim(io->c, "special", 0) != 0) {
        s->x[0] = NAN;
        s->x[n - 1] = -INFINITY;
        s->x[n / 2] = s->kind == ACT_F16 ? 65520.0f : 3e38f; /* overflows f16; large but legal for int8 */
    }
    if (s->kind == ACT_F16)
        truth_f16(s, io);
    else
        truth_q8(s, io);
    return STATUS_OK;
}

static enum status read_f16(struct op_bench *b, const struct op_io *io, const struct act *a, float *got,
                            struct err *err) {
    void *bits;
    RETURN_IF_ERROR(bench_host(b, io->n, sizeof(uint16_t), &bits, err));
    RETURN_IF_ERROR(bench_read(b, bits, a->f16, io->n * sizeof(uint16_t), err));
    op_widen_f16(bits, io->n, got);
    return STATUS_OK;
}

static enum status read_q8(struct op_bench *b, const struct prepare *s, const struct act *a, float *got,
                           struct err *err) {
    size_t n = (size_t)(s->rows * s->k), blocks = n / (size_t)act_block(s->kind), groups = n / ACT_SUM_GROUP;
    void *codes, *sums;
    RETURN_IF_ERROR(bench_host(b, n, 1, &codes, err));
    RETURN_IF_ERROR(bench_host(b, groups, sizeof(int16_t), &sums, err));
    RETURN_IF_ERROR(bench_read(b, codes, a->q, n, err));
    RETURN_IF_ERROR(bench_read(b, got + n, a->d, blocks * sizeof(float), err));
    RETURN_IF_ERROR(bench_read(b, sums, a->sum, groups * sizeof(int16_t), err));
    for (size_t i = 0; i < n; i++) got[i] = (float)((const int8_t *)codes)[i];
    for (size_t i = 0; i < groups; i++) got[n + blocks + i] = (float)((const int16_t *)sums)[i];
    return STATUS_OK;
}

/* Each part by itself: the gaps that act_carve leaves between them are nobody's to write. */
static enum status make_outputs(struct op_bench *b, const struct prepare *s, struct act *a, struct err *err) {
    size_t n = (size_t)(s->rows * s->k);
    void *p;
    memset(a, 0, sizeof *a);
    a->kind = s->kind;
    a->k = s->k;
    if (s->kind == ACT_F16) {
        RETURN_IF_ERROR(bench_output(b, (size_t)(s->rows * s->k_pad) * sizeof(uint16_t), &p, err));
        a->f16 = p;
        return STATUS_OK;
    }
    RETURN_IF_ERROR(bench_output(b, n, &p, err));
    a->q = p;
    RETURN_IF_ERROR(bench_output(b, n / (size_t)act_block(s->kind) * sizeof(float), &p, err));
    a->d = p;
    RETURN_IF_ERROR(bench_output(b, n / ACT_SUM_GROUP * sizeof(int16_t), &p, err));
    a->sum = p;
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    const struct prepare *s = io->state;
    struct act a;
    void *x;
    size_t n = (size_t)(s->rows * s->k);
    RETURN_IF_ERROR(bench_input(b, s->x, n * sizeof(float), &x, err));
    RETURN_IF_ERROR(make_outputs(b, s, &a, err));
    RETURN_IF_ERROR(b->subject->act_prepare(b->subject, s->kind, x, s->rows, s->k, &a, err));
    return s->kind == ACT_F16 ? read_f16(b, io, &a, got, err) : read_q8(b, s, &a, got, err);
}

static const struct op_subject subject = {"op.act_prepare", "act_prepare", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_act_prepare = {
    "op.act_prepare",
    TIER_PARITY,
    "activations are rounded and quantised exactly as the contract says, bad blocks counted",
    0,
    0,
    120,
    run};
