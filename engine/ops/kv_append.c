/* kv_append.c - twin of kv_append: the step's keys and values into the cache, in the cache's type.
 * Not a paged cache: one contiguous row per position.
 * Idea: rows of one step go to different positions, so their order does not matter.
 * Source: ours. Exercise: ctest -R unit.ops */
#include <math.h>

#include "../fault.h"
#include "../fmath.h"
#include "overflow.h"

#define KV_AMAX_MIN                                                                                          \
    0x1p-14f /* below it d would be an f16 subnormal with few bits: the block is stored as zero */

static uint64_t store_f16(const float *x, int64_t n, uint16_t *out) {
    uint64_t overflow = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = fm_f32_to_f16(x[i]);
        overflow += (out[i] & 0x7c00u) == 0x7c00u;
    }
    return overflow;
}

/* Returns 1 when the block cannot be represented (and stores it as NaN). */
static uint64_t store_q8_block(const float *x, struct block_q8_0 *out) {
    uint32_t top = 0;
    for (int i = 0; i < QK_32; i++) {
        uint32_t magnitude = fm_f32_bits(x[i]) & 0x7fffffffu;
        if (magnitude > top) top = magnitude;
    }
    float amax = fm_f32_from_bits(top);
    memset(out, 0, sizeof *out);
    uint16_t d = fm_f32_to_f16(amax / 127.0f);
    if ((d & 0x7c00u) == 0x7c00u) { /* a NaN, an Inf, or a finite amax whose scale has no f16 */
        out->d = 0x7e00;
        return 1;
    }
    if (amax < KV_AMAX_MIN) return 0;
    float inverse = 127.0f / amax;
    out->d = d;
    for (int i = 0; i < QK_32; i++) out->qs[i] = (int8_t)fm_rintf(x[i] * inverse);
    return 0;
}

/* Stores one row at element offset `at` of the cache plane; returns what it adds to the overflow count. */
static uint64_t store_row(enum kv_dtype dtype, const float *x, int64_t n, void *plane, int64_t at) {
    switch (dtype) {
    case KV_F16:
        return store_f16(x, n, (uint16_t *)plane + at);
    case KV_F32:
        memcpy((float *)plane + at, x, (size_t)n * sizeof *x);
        return 0;
    case KV_Q8_0:
        break;
    }
    uint64_t overflow = 0;
    struct block_q8_0 *out = (struct block_q8_0 *)plane + at / QK_32;
    for (int64_t i = 0; i < n / QK_32; i++) overflow += store_q8_block(x + i * QK_32, out + i);
    return overflow;
}

void kv_append_twin(const struct twin_ctx *t, const struct step *s, int layer, const float *k,
                    const float *v) {
    uint64_t overflow = 0;
    for (int r = 0; r < s->n_rows; r++) {
        const struct kv_cache *kv = s->kv[s->n_seq == 1 || FAULT(KV_SLOT) ? 0 : r];
        int64_t n = (int64_t)kv->n_kv_head * kv->head_dim;
        int64_t at = ((int64_t)layer * kv->n_ctx + s->pos[r]) * n;
        overflow += store_row(kv->dtype, k + r * n, n, kv->k, at);
        overflow += store_row(kv->dtype, v + r * n, n, kv->v, at);
    }
    overflow_add(t, overflow);
}
