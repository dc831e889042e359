/* attention_case.c - see attention_case.h. */
#include "gates/ops/attention_case.h"

#include <math.h>
#include <string.h>

int attention_seq(const struct attention_case *s, int r) {
    return s->n_seq == 1 ? 0 : r;
}

/* Positions of sequence `seq` that hold keys. */
static int valid_positions(const struct attention_case *s, int seq) {
    return s->pos[s->n_seq == 1 ? s->rows - 1 : seq] + 1;
}

/* ---- storing rows -------------------------------------------------------------------------------------------- */
static size_t row_bytes(const struct attention_case *s) {
    size_t n = (size_t)s->key_row;
    return s->kv == KV_Q8_0 ? n / QK_32 * sizeof(struct block_q8_0) : n * (s->kv == KV_F16 ? 2 : 4);
}

/* One stored row from floats; value and bits are what the op reads back. */
static void store_row(const struct attention_case *s, const float *x, uint8_t *out, double *value,
                      uint16_t *bits) {
    for (int64_t i = 0; i < s->key_row; i++) {
        bits[i] = oracle_f16_round((double)x[i]);
        value[i] = s->kv == KV_F32 ? (double)x[i] : oracle_f16_value(bits[i]);
    }
    if (s->kv == KV_F32) memcpy(out, x, row_bytes(s));
    if (s->kv == KV_F16) memcpy(out, bits, row_bytes(s));
    for (int64_t i = 0; s->kv == KV_Q8_0 && i < s->key_row / QK_32; i++) {
        struct block_q8_0 block;
        (void)oracle_kv_q8_block(x + i * QK_32, &block.d, block.qs);
        memcpy(out + (size_t)i * sizeof block, &block, sizeof block);
        for (int e = 0; e < QK_32; e++) { /* an element is f16((float)q * (float)d) */
            int64_t at = i * QK_32 + e;
            bits[at] = oracle_f16_round((double)(float)(block.qs[e] * oracle_f16_value(block.d)));
            value[at] = oracle_f16_value(bits[at]);
        }
    }
}

static void tail_row(const struct attention_case *s, enum tail tail, uint8_t *out) {
    static const uint16_t half[TAILS] = {0x7e01, 0, 0x7c00, 0x7b00};
    static const uint32_t single[TAILS] = {0x7fc00001, 0, 0x7f800000, 0x7f000000};
    for (int64_t i = 0; i < s->key_row; i++) {
        if (s->kv == KV_F16) memcpy(out + 2 * i, &half[tail], 2);
        if (s->kv == KV_F32) memcpy(out + 4 * i, &single[tail], 4);
        if (s->kv != KV_Q8_0) continue;
        struct block_q8_0 block = {half[tail], {0}};
        memset(block.qs, 127, sizeof block.qs);
        memcpy(out + (size_t)(i / QK_32) * sizeof block, &block, sizeof block);
    }
}

void attention_set_tail(struct attention_case *s, enum tail tail) {
    s->tail = tail;
    size_t bytes = row_bytes(s);
    for (int plane = 0; plane < 2 * s->n_seq; plane++) {
        uint8_t *at = s->planes + (size_t)plane * s->plane_bytes;
        for (int p = 0; p < s->n_ctx; p++) tail_row(s, TAIL_NAN, at + (size_t)p * bytes); /* layer 0 */
        for (int p = valid_positions(s, plane / 2); p < s->n_ctx; p++)
            tail_row(s, tail, at + (size_t)(s->n_ctx + p) * bytes);
    }
}

/* ---- making a case ------------------------------------------------------------------------------------------- */
/* Which family an array gets. Keys stay ordinary where huge or outlying ones would only test the softmax of one key. */
static struct op_case array_case(const struct op_case *c, int is_value) {
    struct op_case out = *c;
    int value_only = c->family == FAMILY_HUGE || c->family == FAMILY_SUBNORMAL || c->family == FAMILY_EXACT;
    if (!is_value && value_only) out.family = FAMILY_NORMAL;
    return out;
}

static enum status make_caches(struct op_bench *b, const struct op_io *io, struct attention_case *s,
                               struct err *err) {
    void *planes, *k16, *v16;
    size_t row = (size_t)s->key_row, all = (size_t)s->n_seq * (size_t)s->n_ctx * row;
    s->plane_bytes = (size_t)ATTENTION_LAYERS * (size_t)s->n_ctx * row_bytes(s);
    RETURN_IF_ERROR(bench_host(b, 2 * (size_t)s->n_seq * s->plane_bytes, 1, &planes, err));
    RETURN_IF_ERROR(bench_host(b, all, sizeof(uint16_t), &k16, err));
    RETURN_IF_ERROR(bench_host(b, all, sizeof(uint16_t), &v16, err));
    RETURN_IF_ERROR(bench_doubles(b, all, &s->k_value, err));
    RETURN_IF_ERROR(bench_doubles(b, all, &s->v_value, err));
    s->planes = planes;
    s->k16 = k16;
    s->v16 = v16;
    float *x;
    RETURN_IF_ERROR(bench_floats(b, (size_t)s->n_ctx * row, &x, err));
    for (int seq = 0; seq < s->n_seq; seq++) {
        for (int is_value = 0; is_value < 2; is_value++) {
            struct op_case c = array_case(io->c, is_value);
            if (c.family == FAMILY_OUTLIER && !is_value)
                c.family = FAMILY_NORMAL; /* |q| ~ 57, ordinary keys */
            case_fill(&c, 4 + 2 * seq + is_value, &op_range_f16, x, (size_t)s->n_ctx * row);
            uint8_t *layer = s->planes + (size_t)(2 * seq + is_value) * s->plane_bytes + s->plane_bytes / 2;
            for (int p = 0; p < valid_positions(s, seq); p++) {
                size_t at = ((size_t)seq * (size_t)s->n_ctx + (size_t)p) * row;
                store_row(s, x + (size_t)p * row, layer + (size_t)p * row_bytes(s),
                          (is_value ? s->v_value : s->k_value) + at, (is_value ? s->v16 : s->k16) + at);
            }
        }
    }
    attention_set_tail(s, TAIL_NAN);
    return STATUS_OK;
}

static enum status make_queries(struct op_bench *b, struct op_io *io, struct attention_case *s,
                                struct err *err) {
    void *q16;
    RETURN_IF_ERROR(bench_floats(b, io->n, &s->q, err));
    RETURN_IF_ERROR(bench_host(b, io->n, sizeof(uint16_t), &q16, err));
    RETURN_IF_ERROR(bench_doubles(b, io->n, &s->q_value, err));
    s->q16 = q16;
    struct op_case c = array_case(io->c, 0);
    case_fill(&c, 0, &op_range_f16, s->q, io->n);
    for (size_t i = 0; i < io->n; i++) {
        if (io->c->family == FAMILY_EXACT) s->q[i] = 0.0f; /* every score 0: the mean of the values */
        s->q16[i] = oracle_f16_round((double)s->q[i]);
        s->q_value[i] = s->kv == KV_F32 ? (double)s->q[i] : oracle_f16_value(s->q16[i]);
        if (s->kv != KV_F32 && !isfinite(s->q_value[i])) io->overflows++;
    }
    return STATUS_OK;
}

static void make_truth(struct op_io *io, struct attention_case *s) {
    size_t row = (size_t)(s->n_head * s->head_dim), cache = (size_t)s->n_ctx * (size_t)s->key_row;
    for (int r = 0; r < s->rows; r++) {
        size_t seq = (size_t)attention_seq(s, r), at = (size_t)r * row;
        struct oracle_attention p = {s->q_value + at,
                                     s->k_value + seq * cache,
                                     s->v_value + seq * cache,
                                     s->pos + r,
                                     1,
                                     s->n_head,
                                     s->n_kv_head,
                                     s->head_dim};
        oracle_attention(&p, io->truth + at, io->scale + at);
    }
    for (size_t i = 0; i < io->n; i++) s->v_max = fmax(s->v_max, io->scale[i]);
    int n = s->pos[0] + 1; /* the mean over a power of two of equal weights is exact */
    io->exact = io->c->family == FAMILY_EXACT && s->rows == 1 && (n & (n - 1)) == 0;
}

static void read_dims(const struct op_io *io, struct attention_case *s) {
    s->rows = s->count = (int)case_dim(io->c, "rows", 1);
    s->n_seq = s->run_seq = case_dim(io->c, "n_seq", 1) > 1 ? s->rows : 1;
    s->n_head = (int)case_dim(io->c, "n_head", 1);
    s->n_kv_head = (int)case_dim(io->c, "n_kv_head", 1);
    s->head_dim = (int)case_dim(io->c, "head_dim", 64);
    s->key_row = (int64_t)s->n_kv_head * s->head_dim;
}

enum status attention_make(struct op_bench *b, struct op_io *io, struct attention_case *s, struct err *err) {
    int kv = kv_dtype_from_name(io->c->dtype);
    if (kv < 0) return err_set(err, STATUS_FORMAT, "no cache type '%s'", io->c->dtype);
    s->kv = (enum kv_dtype)kv;
    read_dims(io, s);
    void *pos;
    RETURN_IF_ERROR(bench_host(b, (size_t)s->rows, sizeof(int32_t), &pos, err));
    s->pos = pos;
    int pos0 = (int)case_dim(io->c, "pos", 0), top = 0;
    for (int r = 0; r < s->rows; r++) {
        s->pos[r] = s->n_seq == 1 ? pos0 + r : pos0 + 17 * r; /* sequences of different lengths */
        top = s->pos[r] > top ? s->pos[r] : top;
    }
    s->n_ctx = top + 1 + ATTENTION_TAIL;
    io->n = (size_t)(s->rows * s->n_head * s->head_dim);
    struct compare_shape shape = {3, {s->rows, s->n_head, s->head_dim, 0}};
    io->shape = shape;
    io->route = s->kv == KV_F32 ? ROUTE_F32 : ROUTE_F16;
    io->geometry.fa_tkv = (int)case_dim(io->c, "fa_tkv", io->geometry.fa_tkv);
    io->geometry.fa_chunk = (int)case_dim(io->c, "fa_chunk", io->geometry.fa_chunk);
    RETURN_IF_ERROR(bench_truth(b, io, err));
    RETURN_IF_ERROR(make_queries(b, io, s, err));
    RETURN_IF_ERROR(make_caches(b, io, s, err));
    make_truth(io, s);
    return STATUS_OK;
}
