/* op_inputs.c - see op_inputs.h. */
#include "gates/ops/op_inputs.h"

#include <math.h>
#include <string.h>

#include "engine/rng.h"

const struct fill_range op_range_f32 = {1e30f, 0x1p-126f};
const struct fill_range op_range_f16 = {60000.0f, 0x1p-14f};

/* A block's scale: what the family means for a quantised type whose codes reach `top`. */
static uint16_t block_scale(const struct op_case *c, uint64_t seed, size_t i, double top) {
    double r = fabs((double)rng_normal(seed, i)) + 0.25;
    switch (c->family) {
    case FAMILY_NORMAL:
        return oracle_f16_round(r * 2.0 / top);
    case FAMILY_OUTLIER:
        return oracle_f16_round(rng_u64(seed, i) % 8 == 0 ? r * 120.0 / top : r * 2.0 / top);
    case FAMILY_NEAR_TIE:
    case FAMILY_CONSTANT:
        return oracle_f16_round(0.8125 / top);
    case FAMILY_SUBNORMAL:
        return (uint16_t)(1 + rng_u64(seed, i) % 1023);
    case FAMILY_HUGE:
        return oracle_f16_round((0.5 + 0.4 * r / 6.25) * 50000.0 / top);
    case FAMILY_EXACT:
        return 0x3c00;
    }
    return 0;
}

/* Codes: the family EXACT keeps sums small, CONSTANT repeats one byte. */
static uint8_t code_byte(const struct op_case *c, uint64_t seed, size_t i) {
    if (c->family == FAMILY_CONSTANT) return 0x5a;
    return (uint8_t)(rng_u64(seed ^ 0x2545f491u, i) >> 56);
}

static void fill_codes(const struct op_case *c, uint64_t seed, size_t at, uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = code_byte(c, seed, at + i);
}

static void put_f16(uint8_t *p, uint16_t v) {
    memcpy(p, &v, sizeof v);
}

/* The largest |value| of the type at scale 1 (scale and min together). */
static double type_top(enum dtype t) {
    switch (t) {
    case DTYPE_Q8_0:
        return 128;
    case DTYPE_Q4_0:
        return 8;
    case DTYPE_Q4_1:
        return 15;
    case DTYPE_Q5_0:
        return 16;
    case DTYPE_Q5_1:
        return 31;
    case DTYPE_Q4_K:
        return 15 * 63;
    case DTYPE_Q5_K:
        return 31 * 63;
    case DTYPE_Q6_K:
        return 32 * 128;
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        break;
    }
    return 1;
}

static void fill_block(const struct op_case *c, enum dtype t, uint64_t seed, size_t i, uint8_t *p,
                       size_t bytes) {
    fill_codes(c, seed, i * bytes, p, bytes);
    uint16_t d = block_scale(c, seed, i, type_top(t));
    if (t == DTYPE_Q6_K) {
        put_f16(p + 208, d);
        return;
    }
    put_f16(p, d);
    int has_min = t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K;
    if (has_min)
        put_f16(p + 2, c->family == FAMILY_EXACT ? 0x3c00 : (uint16_t)(d ^ (i % 2 == 0 ? 0x8000 : 0)));
}

static void fill_floats(const struct op_case *c, enum dtype t, int stream, float *x, size_t n, uint8_t *out) {
    case_fill(c, stream, t == DTYPE_F16 ? &op_range_f16 : &op_range_f32, x, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t wide;
        if (c->family == FAMILY_HUGE) x[i] = copysignf(40000.0f, x[i]);
        if (t == DTYPE_BF16 && c->family == FAMILY_SUBNORMAL) x[i] *= 0x1p20f;
        memcpy(&wide, x + i, sizeof wide);
        uint16_t half = t == DTYPE_F16 ? oracle_f16_round((double)x[i]) : (uint16_t)(wide >> 16);
        if (t == DTYPE_F32)
            memcpy(out + 4 * i, x + i, 4);
        else
            memcpy(out + 2 * i, &half, 2);
    }
}

enum status op_weights(struct op_bench *b, const struct op_case *c, enum dtype t, int64_t n, int64_t k,
                       int stream, void **out, size_t *bytes, struct err *err) {
    const struct dtype_info *info = dtype_info((int)t);
    size_t elements = (size_t)n * (size_t)k, blocks = elements / (size_t)info->block;
    *bytes = blocks * (size_t)info->bytes;
    RETURN_IF_ERROR(bench_host(b, *bytes, 1, out, err));
    uint64_t seed = c->seed * 64 + (uint64_t)stream;
    if (!info->is_quantised) {
        float *x;
        RETURN_IF_ERROR(bench_floats(b, elements, &x, err));
        fill_floats(c, t, stream, x, elements, *out);
        return STATUS_OK;
    }
    for (size_t i = 0; i < blocks; i++)
        fill_block(c, t, seed, i, (uint8_t *)*out + i * (size_t)info->bytes, (size_t)info->bytes);
    return STATUS_OK;
}

struct kv_cache op_cache_dummy(int n_ctx) {
    struct kv_cache kv = {KV_F16, 1, n_ctx, 1, TC_K, NULL, NULL};
    return kv;
}

enum status op_step_new(struct op_bench *b, int n_rows, int n_seq, int32_t pos0, struct op_step *out,
                        struct err *err) {
    void *id, *pos, *caches;
    RETURN_IF_ERROR(bench_host(b, (size_t)n_rows, sizeof(int32_t), &id, err));
    RETURN_IF_ERROR(bench_host(b, (size_t)n_rows, sizeof(int32_t), &pos, err));
    RETURN_IF_ERROR(bench_host(b, (size_t)n_seq, sizeof(struct kv_cache *), &caches, err));
    out->id = id;
    out->pos = pos;
    out->caches = caches;
    for (int r = 0; r < n_rows; r++) out->pos[r] = pos0 + r;
    struct step s = {n_rows, n_seq, out->id, out->pos, out->caches};
    out->step = s;
    return STATUS_OK;
}

enum status op_step_begin(struct op_bench *b, const struct op_step *s, struct err *err) {
    int replayed = 0;
    RETURN_IF_ERROR(b->subject->step_begin(b->subject, &s->step, &replayed, err));
    return replayed ? err_set(err, STATUS_INVALID, "a step was replayed with graphs off") : STATUS_OK;
}

enum status op_step_end(struct op_bench *b, const struct op_step *s, struct err *err) {
    return b->subject->step_end(b->subject, &s->step, err);
}

void op_widen_f16(const uint16_t *bits, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) out[i] = (float)oracle_f16_value(bits[i]);
}
