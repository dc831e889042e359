/* gate_matmul.c - CLAIM: every matrix product is right within its budget, and a row's bits do not depend on its company.
 * Needs: no model. Cases: 11 storage types on the routes that take them, K and N at block and panel edges, real shapes;
 * route f32 with the activations that act_prepare leaves (its own gate has the kinds that round).
 * Own arms: row-alone (the last row by itself), tc-model (route f16: sampled outputs against an independent chain of
 * tensor-core steps, bit for bit). Exercise: forkgate run --only op.matmul */
#include <math.h>
#include <string.h>

#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

#define TC_SAMPLES 24

struct product {
    enum dtype dtype;
    enum act_kind kind;
    int64_t rows, n, k, k_pad;
    int64_t from, count; /* rows of the current run */
    void *weights;
    size_t weight_bytes;
    float *x, *d, *bias;    /* [rows, k], [rows, k/block], [n] or NULL */
    uint16_t *f16, *w16;    /* [rows, k_pad], [n, k]: route f16 only */
    int8_t *q;              /* [rows, k] */
    int16_t *sum;           /* [rows, k/16] */
    double *a, *w, *w_size; /* stored operands as doubles */
};

static enum status make_activations(struct op_bench *b, const struct op_io *io, struct product *s,
                                    struct err *err) {
    size_t n = (size_t)(s->rows * s->k);
    RETURN_IF_ERROR(bench_floats(b, n, &s->x, err));
    RETURN_IF_ERROR(bench_doubles(b, n, &s->a, err));
    struct fill_range range = {s->kind == ACT_F16 ? 60000.0f : 1e15f,
                               s->kind == ACT_F16 ? 0x1p-14f : 0x1p-60f};
    case_fill(io->c, 0, &range, s->x, n);
    int64_t block = act_block(s->kind);
    if (io->c->family == FAMILY_EXACT && block > 1)
        for (int64_t i = 0; i < s->rows * s->k; i += block)
            s->x[i] = 127.0f; /* scale 1: codes are the values */
    for (size_t i = 0; i < n; i++) s->a[i] = (double)s->x[i];
    return STATUS_OK;
}

static enum status store_f16(struct op_bench *b, struct product *s, struct err *err) {
    void *bits;
    RETURN_IF_ERROR(bench_host(b, (size_t)(s->rows * s->k_pad), sizeof(uint16_t), &bits, err));
    s->f16 = bits;
    for (int64_t r = 0; r < s->rows; r++) {
        for (int64_t i = 0; i < s->k; i++) {
            uint16_t h = oracle_f16_round(s->a[r * s->k + i]);
            s->f16[r * s->k_pad + i] = h;
            s->a[r * s->k + i] = oracle_f16_value(h);
        }
    }
    return STATUS_OK;
}

static enum status store_q8(struct op_bench *b, struct product *s, struct err *err) {
    size_t n = (size_t)(s->rows * s->k), block = (size_t)act_block(s->kind);
    double *scales, *sums;
    void *q, *sum;
    uint64_t bad;
    RETURN_IF_ERROR(bench_doubles(b, n / block, &scales, err));
    RETURN_IF_ERROR(bench_doubles(b, n / ACT_SUM_GROUP, &sums, err));
    RETURN_IF_ERROR(bench_floats(b, n / block, &s->d, err));
    RETURN_IF_ERROR(bench_host(b, n, 1, &q, err));
    RETURN_IF_ERROR(bench_host(b, n / ACT_SUM_GROUP, sizeof(int16_t), &sum, err));
    s->q = q;
    s->sum = sum;
    oracle_act_q8(s->x, n, (int)block, s->a, scales, sums, &bad);
    for (size_t i = 0; i < n / ACT_SUM_GROUP; i++) s->sum[i] = (int16_t)sums[i];
    for (size_t i = 0; i < n; i++) {
        s->q[i] = (int8_t)s->a[i];
        s->d[i / block] = (float)scales[i / block];
        s->a[i] *= scales[i / block];
    }
    return STATUS_OK;
}

static enum status make_weights(struct op_bench *b, const struct op_io *io, struct product *s,
                                struct err *err) {
    size_t n = (size_t)(s->n * s->k);
    RETURN_IF_ERROR(op_weights(b, io->c, s->dtype, s->n, s->k, 2, &s->weights, &s->weight_bytes, err));
    RETURN_IF_ERROR(bench_doubles(b, n, &s->w, err));
    RETURN_IF_ERROR(bench_doubles(b, n, &s->w_size, err));
    oracle_dequant(s->dtype, s->weights, n, s->w, s->w_size);
    if (s->kind != ACT_F16) return STATUS_OK;
    void *bits;
    RETURN_IF_ERROR(bench_host(b, n, sizeof(uint16_t), &bits, err));
    s->w16 = bits;
    for (size_t i = 0; i < n; i++) { /* stored as f16 of the f32 dequantisation */
        s->w16[i] = oracle_f16_round((double)(float)s->w[i]);
        s->w[i] = oracle_f16_value(s->w16[i]);
        s->w_size[i] = fabs(s->w[i]);
    }
    return STATUS_OK;
}

/* Roundings on the longest path, in units that budgets.csv multiplies (see the derivations there). */
static double path_length(const struct product *s) {
    if (s->kind == ACT_F16) return (double)s->k_pad / TC_K;
    if (s->kind == ACT_F32) return (double)s->k / F32_LANES + 7.0;
    return 2.0 * (double)s->k / act_block(s->kind) + 4.0;
}

static enum status make_truth(struct op_bench *b, struct op_io *io, struct product *s, struct err *err) {
    RETURN_IF_ERROR(bench_truth(b, io, err));
    if (case_dim(io->c, "bias", 0) != 0) {
        RETURN_IF_ERROR(bench_floats(b, (size_t)s->n, &s->bias, err));
        struct op_case c = *io->c;
        if (c.family != FAMILY_EXACT) c.family = FAMILY_NORMAL;
        case_fill(&c, 3, &op_range_f32, s->bias, (size_t)s->n);
    }
    struct oracle_product p = {s->a, s->w, s->w_size, s->bias, s->rows, s->n, s->k};
    oracle_matmul(&p, io->truth, io->scale);
    double largest = 0;
    for (size_t i = 0; i < io->n; i++) {
        largest = fmax(largest, io->scale[i]);
        io->scale[i] = io->scale[i] * path_length(s) + 0x1p-120;
    }
    io->exact =
        io->c->family == FAMILY_EXACT && largest < 0x1p24; /* every partial sum is an integer below 2^24 */
    return STATUS_OK;
}

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct product), &state, err));
    struct product *s = io->state = state;
    int code = dtype_from_name(io->c->dtype);
    if (code < 0) return err_set(err, STATUS_FORMAT, "no dtype '%s'", io->c->dtype);
    s->dtype = (enum dtype)code;
    io->route = (enum route)case_dim(io->c, "route", ROUTE_F16);
    io->budget = route_name(io->route);
    s->kind = act_kind_for(io->route, s->dtype);
    s->rows = s->count = case_dim(io->c, "rows", 1);
    s->n = case_dim(io->c, "n", 1);
    s->k = case_dim(io->c, "k", 256);
    s->k_pad = (s->k + TC_K - 1) / TC_K * TC_K;
    io->n = (size_t)(s->rows * s->n);
    struct compare_shape shape = {2, {s->rows, s->n, 0, 0}};
    io->shape = shape;
    RETURN_IF_ERROR(make_activations(b, io, s, err));
    RETURN_IF_ERROR(make_weights(b, io, s, err));
    if (s->kind == ACT_F16) RETURN_IF_ERROR(store_f16(b, s, err));
    if (s->kind == ACT_Q8_32 || s->kind == ACT_Q8_256) RETURN_IF_ERROR(store_q8(b, s, err));
    return make_truth(b, io, s, err);
}

/* Route f32 has nothing to store: its prepared form is the input itself, so the op that prepares it is judged here. */
static enum status prepare_f32(struct op_bench *b, const struct product *s, struct act *a, struct err *err) {
    void *x;
    size_t bytes = (size_t)(s->count * s->k) * sizeof(float);
    RETURN_IF_ERROR(bench_input(b, s->x + s->from * s->k, bytes, &x, err));
    RETURN_IF_ERROR(b->subject->act_prepare(b->subject, ACT_F32, x, s->count, s->k, a, err));
    return a->f32 == x ? STATUS_OK
                       : err_set(err, STATUS_INVALID, "act_prepare: rows of route f32 are not the input's");
}

/* Uploads rows [from, from+count) as the activations of this kind. */
static enum status upload_act(struct op_bench *b, const struct product *s, struct act *a, struct err *err) {
    size_t from = (size_t)s->from, rows = (size_t)s->count, k = (size_t)s->k, pad = (size_t)s->k_pad;
    void *p;
    memset(a, 0, sizeof *a);
    a->kind = s->kind;
    a->k = s->k;
    if (s->kind == ACT_F32) return prepare_f32(b, s, a, err);
    if (s->kind == ACT_F16) {
        RETURN_IF_ERROR(bench_input(b, s->f16 + from * pad, rows * pad * sizeof(uint16_t), &p, err));
        a->f16 = p;
        return STATUS_OK;
    }
    size_t blocks = k / (size_t)act_block(s->kind), groups = k / ACT_SUM_GROUP;
    RETURN_IF_ERROR(bench_input(b, s->q + from * k, rows * k, &p, err));
    a->q = p;
    RETURN_IF_ERROR(bench_input(b, s->d + from * blocks, rows * blocks * sizeof(float), &p, err));
    a->d = p;
    RETURN_IF_ERROR(bench_input(b, s->sum + from * groups, rows * groups * sizeof(int16_t), &p, err));
    a->sum = p;
    return STATUS_OK;
}

static enum status multiply(struct op_bench *b, struct product *s, struct weight *w, float *got,
                            struct err *err) {
    struct act a;
    void *y, *bias;
    size_t bytes = (size_t)(s->count * s->n) * sizeof(float);
    RETURN_IF_ERROR(upload_act(b, s, &a, err));
    RETURN_IF_ERROR(bench_output(b, bytes, &y, err));
    if (s->bias != NULL) {
        RETURN_IF_ERROR(bench_input(b, s->bias, (size_t)s->n * sizeof(float), &bias, err));
        w->bias = bias;
    }
    RETURN_IF_ERROR(b->subject->matmul(b->subject, w, &a, s->count, y, err));
    return bench_read(b, got, y, bytes, err);
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    struct product *s = io->state;
    struct weight w;
    RETURN_IF_ERROR(
        b->subject->weight_upload(b->subject, WEIGHT_MATMUL, s->dtype, s->weights, s->n, s->k, &w, err));
    enum status status = multiply(b, s, &w, got, err);
    b->subject->weight_free(b->subject, &w);
    return status;
}

static enum status row_alone(struct op_bench *b, struct op_io *io, const float *got, struct err *err) {
    struct product *s = io->state;
    struct bench_run report;
    float *row;
    if (s->rows < 2) return STATUS_OK;
    RETURN_IF_ERROR(bench_floats(b, (size_t)s->n, &row, err));
    s->from = s->rows - 1;
    s->count = 1;
    enum status status = bench_run_once(b, io, b->subject, 0, row, &report, err);
    s->from = 0;
    s->count = s->rows;
    if (status == STATUS_OK)
        bench_row_bits(b, io, "row-alone", row, got + (s->rows - 1) * s->n, (size_t)s->n);
    return status;
}

static enum status tc_model(struct op_bench *b, struct op_io *io, const float *got, struct err *err) {
    const struct product *s = io->state;
    size_t samples = io->n < TC_SAMPLES ? io->n : TC_SAMPLES;
    float *want, *have;
    RETURN_IF_ERROR(bench_floats(b, samples, &want, err));
    RETURN_IF_ERROR(bench_floats(b, samples, &have, err));
    for (size_t i = 0; i < samples; i++) {
        size_t at = samples == 1 ? 0 : i * (io->n - 1) / (samples - 1);
        int64_t r = (int64_t)at / s->n, j = (int64_t)at % s->n;
        want[i] = plain_tc_dot(b->ctx->config.compute.arch, s->f16 + r * s->k_pad, s->w16 + j * s->k, 1, s->k,
                               0.0f);
        if (s->bias != NULL) want[i] += s->bias[j];
        have[i] = got[at];
    }
    bench_row_bits(b, io, "tc-model", want, have, samples);
    return STATUS_OK;
}

static enum status own_arms(struct op_bench *b, struct op_io *io, const float *got, struct err *err) {
    const struct product *s = io->state;
    if (s->kind == ACT_F16) RETURN_IF_ERROR(tc_model(b, io, got, err));
    return row_alone(b, io, got, err);
}

static const struct op_subject subject = {"op.matmul", "matmul", make, run_op, own_arms};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_matmul = {
    "op.matmul",
    TIER_PARITY,
    "every matrix product is right within its budget, and a row's bits do not depend on its company",
    0,
    0,
    300,
    run};
