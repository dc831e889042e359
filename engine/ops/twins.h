/* twins.h - prototypes of the CPU twins, one per op of ops.h; backend_cpu.c is their only caller besides tests.
 * Not the contract: formulas, shapes and orders are in ops.h.
 * Idea: a twin takes plain host pointers and a small context; it cannot fail except where it says so.
 * Source: ours. Exercise: forkgate run --tier parity --backend cpu */
#ifndef FORKGATE_TWINS_H
#define FORKGATE_TWINS_H

#include "../backend.h"
#include "../ops.h"
#include "../par.h"

struct twin_ctx {
    enum route route;
    enum arch arch;
    struct geometry geometry;
    int use_avx2; /* resolved from enum simd and the machine; 0 selects the scalar code (same bits) */
    par *pool;
    uint64_t *overflow;        /* contract's *overflow; twins running in several threads add atomically */
    struct attention_use *use; /* where attention notes how it ran; may be NULL */
};

void embed_twin(const struct twin_ctx *t, const struct step *s, const struct weight *table, float *x);
void rmsnorm_twin(const struct twin_ctx *t, const float *x, const float *w, float eps, int64_t rows,
                  int64_t cols, float *y);
void act_prepare_twin(const struct twin_ctx *t, enum act_kind kind, const float *x, int64_t rows, int64_t k,
                      struct act *out);
void rope_twin(const struct twin_ctx *t, const struct step *s, const struct rope_table *table, int n_head,
               int head_dim, float *x);
void kv_append_twin(const struct twin_ctx *t, const struct step *s, int layer, const float *k,
                    const float *v);
void swiglu_twin(const struct twin_ctx *t, const float *g, const float *u, int64_t n, float *y);
void add_twin(const struct twin_ctx *t, float *x, const float *d, int64_t n);
void top2_twin(const struct twin_ctx *t, const float *logits, int64_t rows, int64_t n_vocab, int64_t stride,
               struct top2 *out);

/* Attention allocates scratch of its own: STATUS_NOMEM. */
enum status attention_twin(const struct twin_ctx *t, const struct step *s, int layer, int n_head,
                           const float *q, float *o, struct err *err);

/* Matrix products: pack once at upload (malloc'ed, caller frees), then multiply. bytes/layout are private to the pair.
 * src is the file's layout, n rows of k. STATUS_UNSUPPORTED / STATUS_INVALID as the contract refuses. */
enum status matmul_f16_pack(enum dtype dtype, const void *src, int64_t n, int64_t k, void **out,
                            struct err *err);
void matmul_f16_twin(const struct twin_ctx *t, const struct weight *w, const struct act *a, int64_t rows,
                     float *y);
enum status matmul_q8_pack(enum dtype dtype, const void *src, int64_t n, int64_t k, void **out,
                           struct err *err);
void matmul_q8_twin(const struct twin_ctx *t, const struct weight *w, const struct act *a, int64_t rows,
                    float *y);
/* route f32: weights stay in the file's layout and are dequantised row by row. */
void matmul_f32_twin(const struct twin_ctx *t, const struct weight *w, const struct act *a, int64_t rows,
                     float *y);

#endif
