/* attention.cu - the launcher of attention: prefill tiles for rows of one sequence, split-KV for one row of each.
 * Not a tuner: which kernel serves a step follows from the step alone, and both give the same bits.
 * Source: ours. Exercise: device_parity --op attention */
#include <math.h>
#include <type_traits>

#include "../cuda/fa.cuh"

extern "C" enum status attention_cuda(struct backend *self, const struct step *s, int layer, int n_head,
                                      const float *q, float *o, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    const kv_view &kv = c->kv;
    if (kv.head_dim % TC_K != 0 || kv.head_dim > FA_HEAD_DIM_MAX || n_head % kv.n_kv_head != 0)
        return err_set(err, STATUS_SHAPE,
                       "attention: head_dim %d (a multiple of %d, at most %d), %d heads on %d", kv.head_dim,
                       TC_K, FA_HEAD_DIM_MAX, n_head, kv.n_kv_head);
    int chunk = c->base.config.geometry.fa_chunk, n_chunks = (int)ceil_div(kv.n_ctx, chunk);
    fa_args a = {kv,       q,   o,         c->pos, c->overflow,           NULL,
                 NULL,     0,   s->n_rows, n_head, n_head / kv.n_kv_head, chunk,
                 n_chunks, 0.0f};
    a.layer_at = (int64_t)layer * kv.n_ctx * kv.n_kv_head * kv.head_dim;
    a.c = (float)(M_LOG2E / sqrt((double)kv.head_dim));
    FAULT_SITES(FAULT_BIT(FA_MAJOR) | FAULT_BIT(FA_WAIT) | FAULT_BIT(FA_STRIDE) | FAULT_BIT(FA_SCALE) |
                FAULT_BIT(FA_NOSYNC) | FAULT_BIT(FA_UNWRITTEN_KV) |
                (a.group > 1 && kv.n_kv_head > 1 ? FAULT_BIT(GQA_HEAD) : 0) |
                (kv.dtype == KV_Q8_0 && kv.head_dim > QK_32 ? FAULT_BIT(KV_Q8BASE) : 0));
    if (s->n_seq != s->n_rows) {
        FAULT_SITES(
            (s->pos[0] > 0 ? FAULT_BIT(FA_WINDOW) : 0) |
            (s->n_rows % FA_ROWS_PER_WARP != 0 ? FAULT_BIT(FA_TAIL_GUARD) : 0) |
            (s->pos[0] / chunk != (s->pos[0] + s->n_rows - 1) / chunk ? FAULT_BIT(FA_MASKED_TILE) : 0));
        if (c->hopper && kv.dtype == KV_F16 && kv.head_dim <= FA_HOPPER_HD_MAX)
            return attention_hopper_cuda(c, a, s->pos[0] + s->n_rows, err);
        return attention_prefill_cuda(c, a, err);
    }
    FAULT_SITES(FAULT_BIT(DEC_SHUFFLE) | FAULT_BIT(DEC_COMBINE) |
                (s->pos[0] >= chunk ? FAULT_BIT(DEC_SPLITS) | FAULT_BIT(MERGE_ORDER) : 0) |
                (s->pos[0] >= chunk && kv.dtype == KV_F16 ? FAULT_BIT(DEC_STRIPE) : 0) |
                (s->pos[0] / chunk + 1 < n_chunks ? FAULT_BIT(FA_INIT_INF) : 0) |
                (s->pos[0] >= fa_decode_segment(fa_head_dim_instance(kv.head_dim)) / 2
                     ? FAULT_BIT(FA_PROW_ALIAS)
                     : 0));
    size_t parts = (size_t)s->n_rows * (size_t)n_head * (size_t)n_chunks;
    if (parts * 2 > c->room.n_ml || parts * (size_t)kv.head_dim > c->room.n_part)
        return err_set(err, STATUS_LIMIT,
                       "attention: no room was given for %d rows of %d heads of %d over %d positions",
                       s->n_rows, n_head, kv.head_dim, kv.n_ctx);
    a.ml = c->room.ml;
    a.part = c->room.part;
    return attention_decode_cuda(c, a, err);
}
