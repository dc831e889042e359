/* gate_attention.c - CLAIM: attention is right within its budget and as good as a plain untiled form; its bits depend on
 * fa_tkv and fa_chunk alone: not on the tail of the cache, the other launch parameters, the prompt's cut or the batch.
 * Needs: no model. Cases: tile and chunk edges, groups 1 to 8 (5 and 7 too), head dims, f16, q8_0 and f32 caches.
 * Own arms: plain-2x, tail-*, fa_tq, fa_splits, row-alone. Exercise: forkgate run --only op.attention */
#include <math.h>
#include <string.h>

#include "gates/ops/attention_case.h"
#include "gates/ops/op_gates.h"

#define SAMPLE_ROWS 3

static enum status make(struct op_bench *b, struct op_io *io, struct err *err) {
    void *state;
    RETURN_IF_ERROR(bench_host(b, 1, sizeof(struct attention_case), &state, err));
    io->state = state;
    return attention_make(b, io, state, err);
}

/* Uploads the caches that the rows of this run need. */
static enum status upload_caches(struct op_bench *b, const struct attention_case *s, struct kv_cache *caches,
                                 struct op_step *step, struct err *err) {
    for (int i = 0; i < s->run_seq; i++) {
        size_t seq = (size_t)attention_seq(s, s->from + i);
        const uint8_t *planes = s->planes + 2 * seq * s->plane_bytes;
        struct kv_cache c = {s->kv, ATTENTION_LAYERS, s->n_ctx, s->n_kv_head, s->head_dim, NULL, NULL};
        caches[i] = c;
        RETURN_IF_ERROR(bench_input(b, planes, s->plane_bytes, &caches[i].k, err));
        RETURN_IF_ERROR(bench_input(b, planes + s->plane_bytes, s->plane_bytes, &caches[i].v, err));
        step->caches[i] = &caches[i];
    }
    for (int r = 0; r < s->count; r++) step->pos[r] = s->pos[s->from + r];
    return STATUS_OK;
}

static enum status run_op(struct op_bench *b, struct op_io *io, float *got, struct err *err) {
    struct attention_case *s = io->state;
    struct op_step step;
    struct kv_cache caches[BATCH_MAX];
    size_t row = (size_t)(s->n_head * s->head_dim), bytes = (size_t)s->count * row * sizeof(float);
    void *q, *o, *room;
    RETURN_IF_ERROR(op_step_new(b, s->count, s->run_seq, 0, &step, err));
    RETURN_IF_ERROR(upload_caches(b, s, caches, &step, err));
    struct backend *on = b->subject;
    size_t room_bytes = on->attention_room(on, s->n_head, s->head_dim, caches[0].n_ctx, NULL);
    RETURN_IF_ERROR(bench_scratch(b, room_bytes, &room, err));
    (void)on->attention_room(on, s->n_head, s->head_dim, caches[0].n_ctx, room);
    RETURN_IF_ERROR(bench_input(b, s->q + (size_t)s->from * row, bytes, &q, err));
    RETURN_IF_ERROR(bench_output(b, bytes, &o, err));
    RETURN_IF_ERROR(op_step_begin(b, &step, err));
    RETURN_IF_ERROR(on->attention(on, &step.step, ATTENTION_LAYER, s->n_head, q, o, err));
    RETURN_IF_ERROR(op_step_end(b, &step, err));
    return bench_read(b, got, o, bytes, err);
}

/* ---- arms ---------------------------------------------------------------------------------------------------- */
/* Runs the case again under changed conditions; the bits must stay. */
static enum status same_bits(struct op_bench *b, struct op_io *io, struct backend *subject, const char *arm,
                             const float *want, size_t n, float *scratch, struct err *err) {
    struct bench_run report;
    RETURN_IF_ERROR(bench_run_once(b, io, subject, 0, scratch, &report, err));
    bench_row_bits(b, io, arm, want, scratch, n);
    return STATUS_OK;
}

static enum status tail_arms(struct op_bench *b, struct op_io *io, const float *got, float *scratch,
                             struct err *err) {
    static const char *const names[TAILS] = {"tail-nan", "tail-zero", "tail-inf", "tail-large"};
    struct attention_case *s = io->state;
    enum status status = STATUS_OK;
    for (int t = TAIL_ZERO; t < TAILS && status == STATUS_OK; t++) {
        attention_set_tail(s, (enum tail)t);
        status = same_bits(b, io, b->subject, names[t], got, io->n, scratch, err);
    }
    attention_set_tail(s, TAIL_NAN);
    return status;
}

static enum status launch_arms(struct op_bench *b, struct op_io *io, const float *got, float *scratch,
                               struct err *err) {
    struct backend *other;
    struct geometry g = io->geometry;
    g.fa_tq = g.fa_tq == FA_TQ_MAX ? FA_TQ_DEFAULT : FA_TQ_MAX;
    RETURN_IF_ERROR(bench_backend(b, io->route, &g, 0, &other, err));
    RETURN_IF_ERROR(same_bits(b, io, other, "fa_tq", got, io->n, scratch, err));
    g = io->geometry;
    g.fa_splits = g.fa_splits == 1 ? FA_SPLITS_DEFAULT : 1;
    RETURN_IF_ERROR(bench_backend(b, io->route, &g, 0, &other, err));
    return same_bits(b, io, other, "fa_splits", got, io->n, scratch, err);
}

static int sample_row(const struct attention_case *s, int i) {
    int n = s->rows < SAMPLE_ROWS ? s->rows : SAMPLE_ROWS;
    return n == 1 ? 0 : i * (s->rows - 1) / (n - 1);
}

static enum status row_arm(struct op_bench *b, struct op_io *io, const float *got, float *scratch,
                           struct err *err) {
    struct attention_case *s = io->state;
    size_t row = (size_t)(s->n_head * s->head_dim);
    int run_seq = s->run_seq;
    enum status status = STATUS_OK;
    for (int i = 0; i < SAMPLE_ROWS && i < s->rows && s->rows > 1 && status == STATUS_OK; i++) {
        s->from = sample_row(s, i);
        s->count = s->run_seq = 1;
        status = same_bits(b, io, b->subject, "row-alone", got + (size_t)s->from * row, row, scratch, err);
    }
    s->from = 0;
    s->count = s->rows;
    s->run_seq = run_seq;
    return status;
}

/* The larger of two errors; NaN stays (fmax would drop it). */
static double worse(double a, double b) {
    return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
}

/* Largest error of the plain form and of the subject over the sampled rows. */
static enum status plain_arm(struct op_bench *b, struct op_io *io, const float *got, float *scratch,
                             struct err *err) {
    const struct attention_case *s = io->state;
    int group = s->n_head / s->n_kv_head;
    double plain = 0, mine = 0;
    for (int i = 0; i < SAMPLE_ROWS && i < s->rows; i++) {
        int r = sample_row(s, i);
        size_t cache = (size_t)attention_seq(s, r) * (size_t)s->n_ctx * (size_t)s->key_row;
        for (int h = 0; h < s->n_head; h++) {
            size_t at = (size_t)((r * s->n_head + h) * s->head_dim);
            size_t kv = cache + (size_t)(h / group * s->head_dim);
            RETURN_IF_ERROR(plain_attention(b->ctx->config.compute.arch, s->q16 + at, s->k16 + kv,
                                            s->v16 + kv, s->key_row, s->pos[r], s->head_dim, scratch, err));
            for (size_t d = 0; d < (size_t)s->head_dim; d++) {
                plain = worse(plain, fabs((double)scratch[d] - io->truth[at + d]));
                mine = worse(mine, fabs((double)got[at + d] - io->truth[at + d]));
            }
        }
    }
    bench_row(b, io, "plain-2x", "max_abs", mine, 2 * plain + 0x1p-22 * s->v_max,
              "bound: 2 x the error of the untiled form + 2^-22 max|v|, sampled rows");
    return STATUS_OK;
}

static enum status own_arms(struct op_bench *b, struct op_io *io, const float *got, struct err *err) {
    const struct attention_case *s = io->state;
    float *scratch;
    RETURN_IF_ERROR(bench_floats(b, io->n, &scratch, err));
    if (s->kv != KV_F32) RETURN_IF_ERROR(plain_arm(b, io, got, scratch, err));
    RETURN_IF_ERROR(tail_arms(b, io, got, scratch, err));
    RETURN_IF_ERROR(launch_arms(b, io, got, scratch, err));
    return row_arm(b, io, got, scratch, err);
}

static const struct op_subject subject = {"op.attention", "attention", make, run_op, own_arms};

static enum status run(const struct gate_context *ctx, struct err *err) {
    return op_bench_run(&subject, ctx, err);
}

const struct gate gate_op_attention = {
    "op.attention",
    TIER_PARITY,
    "attention is right within its budget, and its bits depend on fa_tkv and fa_chunk alone",
    0,
    0,
    300,
    run};
