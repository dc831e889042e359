/* gate_kv_append.c - CLAIM: a step's keys and values land in their own cache rows, in the cache's type, and nowhere else.
 * Needs: no model. Cases: f16, q8_0 and f32 caches, one sequence or many. Exercise: forkgate run --only op.kv_append */
#include <math.h>
#include <string.h>

#include "gates/ops/op_gates.h"
#include "gates/ops/op_inputs.h"

#define LAYERS 2
#define LAYER  1

struct append {
    enum kv_dtype kv;
    int rows, n_seq, n_kv_head, head_dim, n_ctx;
    int64_t row, row_bytes, plane_bytes; /* floats of a row; bytes of a stored row and of a plane */
    float *k, *v;                        /* [rows, row] */
    uint8_t *before, *want;              /* [n_seq][k plane, v plane] */
    struct op_step step;
    struct kv_cache caches[BATCH_MAX];
};

static uint64_t store(enum kv_dtype kv, const float *x, int64_t n, uint8_t *out) {
    uint64_t bad = 0;
    for (int64_t i = 0; kv == KV_F16 && i < n; i++) {
        uint16_t h = oracle_f16_round((double)x[i]);
        memcpy(out + 2 * i, &h, 2);
        if (!isfinite(oracle_f16_value(h))) bad++;
    }
    for (int64_t i = 0; kv == KV_Q8_0 && i < n / QK_32; i++) {
        struct block_q8_0 block;
        if (oracle_kv_q8_block(x + i * QK_32, &block.d, block.qs)) bad++;
        memcpy(out + i * (int64_t)sizeof block, &block, sizeof block);
    }
    if (kv == KV_F32) memcpy(out, x, (size_t)n * sizeof(float));
    return bad;
}

static void make_planes(const struct append *s, struct op_io *io) {
    int64_t total = 2 * s->n_seq * s->plane_bytes;
    for (int64_t i = 0; i < total; i++) s->before[i] = (uint8_t)(i * 37 + 11);
    memcpy(s->want, s->before, (size_t)total);
    for (int r = 0; r < s->rows; r++) {
        int seq = s->n_seq == 1 ? 0 : r;
        int64_t at = 2 * seq * s->plane_bytes + ((int64_t)LAYER * s->n_ctx + s->step.pos[r]) * s->row_bytes;
        io->overflows += store(s->kv, s->k + r * s->row, s->row, s->want + at);
        io->overflows += store(s->kv, s->v + r * s->row, s->row, s->want + at + s->plane_bytes);
    }
}

/* Outputs are the planes' 16-bit words as numbers; any f16 NaN counts as one. */
static float word_value(const struct append *s, const uint8_t *planes, size_t i) {
    uint16_t w;
    memcpy(&w, planes + 2 * i, 2);
    int is_f16 = s->kv == KV_F16 || (s->kv == KV_Q8_0 && i % (sizeof(struct block_q8_0) / 2) == 0);
    return is_f16 && (w & 0x7fff) > 0x7c00 ? 32256.0f : (float)w;
}

static enum status make_arrays(struct op_bench *b, struct op_io *io, struct append *s, struct err *err) {
    void *before, *want;
    size_t floats = (size_t)s->rows * (size_t)s->row, bytes = 2 * (size_t)s->n_seq * (size_t)s->plane_bytes;
    RETURN_IF_ERROR(bench_floats(b, floats, &s->k, err));
    RETURN_IF_ERROR(bench_floats(b, floats, &s->v, err));
    RETURN_IF_ERROR(bench_host(b, bytes, 1, &before, err));
    RETURN_IF_ERROR(bench_host(b, bytes, 1, &want, err));
    s->before = before;
    s->want = want;
    io->n = bytes / 2;
    RETURN_IF_ERROR(bench_truth(b, io, err));
    const struct fill_range *range = s->kv == KV_F32 ? &op_range_f32 : &op_range_f16;
    case_fill(io->c, 0, range, s->k, floats);
    case_fill(io->c, 1, range, s->v, floats);
    if (case_dim(io->c, "special", 0) != 0) {
        s->k[0] = NAN;
        s->v[0] = 9e6f; /* finite, but its int8 scale has no f16 */
        s->v[floats - 1] = INFINITY;
    }
    make_planes(s, io);
    for (size_t i = 0; i < io->n; i++) io->truth[i] = (double)word_value(s, s->want, i);
    return STATUS_OK;
}

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct append), &state, err));
    struct append *s = io->state = state;
    int kv = kv_dtype_from_name(io->c->dtype);
    if (kv < 0) return err_set(err, STATUS_FORMAT, "no cache type '%s'", io->c->dtype);
    s->kv = (enum kv_dtype)kv;
    s->rows = (int)case_dim(io->c, "rows", 1);
    s->n_seq = case_dim(io->c, "n_seq", 1) > 1 ? s->rows : 1;
    s->n_kv_head = (int)case_dim(io->c, "n_kv_head", 1);
    s->head_dim = (int)case_dim(io->c, "head_dim", 64);
    int pos0 = (int)case_dim(io->c, "pos", 0);
    s->n_ctx = pos0 + s->rows + 2;
    s->row = (int64_t)s->n_kv_head * s->head_dim;
    s->row_bytes = s->kv == KV_Q8_0 ? s->row / QK_32 * 34 : s->row * (s->kv == KV_F16 ? 2 : 4);
    s->plane_bytes = (int64_t)LAYERS * s->n_ctx * s->row_bytes;
    io->route = s->kv == KV_F32 ? ROUTE_F32 : ROUTE_F16;
    io->exact = 1;
    RETURN_IF_ERROR(op_step_new(b, s->rows, s->n_seq, pos0, &s->step, err));
    for (int i = 0; i < s->n_seq; i++) {
        struct kv_cache cache = {s->kv, LAYERS, s->n_ctx, s->n_kv_head, s->head_dim, NULL, NULL};
        s->caches[i] = cache;
        s->step.caches[i] = &s->caches[i];
    }
    RETURN_IF_ERROR(make_arrays(b, io, s, err));
    struct compare_shape shape = {1, {(int64_t)io->n, 0, 0, 0}};
    io->shape = shape;
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    struct append *s = io->state;
    size_t bytes = (size_t)s->plane_bytes;
    void *k, *v, *after;
    for (int i = 0; i < s->n_seq; i++) {
        const uint8_t *planes = s->before + 2 * (size_t)i * bytes;
        RETURN_IF_ERROR(bench_input(b, planes, bytes, &s->caches[i].k, err));
        RETURN_IF_ERROR(bench_input(b, planes + bytes, bytes, &s->caches[i].v, err));
    }
    size_t floats = (size_t)s->rows * (size_t)s->row;
    RETURN_IF_ERROR(bench_input(b, s->k, floats * sizeof(float), &k, err));
    RETURN_IF_ERROR(bench_input(b, s->v, floats * sizeof(float), &v, err));
    RETURN_IF_ERROR(op_step_begin(b, &s->step, err));
    RETURN_IF_ERROR(b->subject->kv_append(b->subject, &s->step.step, LAYER, k, v, err));
    RETURN_IF_ERROR(op_step_end(b, &s->step, err));
    RETURN_IF_ERROR(bench_host(b, 2 * (size_t)s->n_seq * bytes, 1, &after, err));
    for (int i = 0; i < s->n_seq; i++) {
        uint8_t *planes = (uint8_t *)after + 2 * (size_t)i * bytes;
        RETURN_IF_ERROR(bench_read(b, planes, s->caches[i].k, bytes, err));
        RETURN_IF_ERROR(bench_read(b, planes + bytes, s->caches[i].v, bytes, err));
    }
    for (size_t i = 0; i < io->n; i++) got[i] = word_value(s, after, i);
    return STATUS_OK;
}

static const struct op_subject subject = {"op.kv_append", "kv_append", make, run_op, NULL};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_kv_append = {
    "op.kv_append",
    TIER_PARITY,
    "a step's keys and values land in their own cache rows, in the cache's type, and nowhere else",
    0,
    0,
    120,
    run};
