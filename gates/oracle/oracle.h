/* oracle.h - the truth of every op in float64, by plain loops, from the op's stored inputs.
 * Not the twin: no reduction order, no tiles, no code shared with engine/ops; slow on purpose.
 * Idea: besides the truth each oracle gives a scale per output, the magnitude that its worst-case error bound multiplies
 * (sum |a b| of a product, max |v| of an attention row), so that budgets are pure numbers.
 * Source: the formulas of engine/ops.h. Exercise: ctest -R unit.oracle */
#ifndef FORKGATE_ORACLE_H
#define FORKGATE_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/dtype.h"
#include "engine/geometry.h"

/* ---- values (oracle_value.c) ---- */
double oracle_f16_value(uint16_t bits);
/* Round to nearest even in one step from double; overflow gives infinity, subnormals are kept. */
uint16_t oracle_f16_round(double x);
double oracle_bf16_value(uint16_t bits);

/* value[i] of element i and magnitude[i] = |d*q| + |m|, the size of the terms it was made of (magnitude may be NULL). */
void oracle_dequant(enum dtype t, const void *src, size_t n, double *value, double *magnitude);

/* ---- row ops ---- */
/* y = x * w / sqrt(mean x^2 + eps); scale = |y|. */
void oracle_rmsnorm(const float *x, const float *w, double eps, int64_t rows, int64_t cols, double *y,
                    double *scale);
/* Rotates x[rows, n_head, head_dim] with cos/sin [n_pos, n_rot/2] (the op's stored table); pairs (i, i + n_rot/2), or
 * (2i, 2i+1) when interleaved. scale = |a cos| + |b sin| and |a sin| + |b cos|; an untouched element has scale 0. */
void oracle_rope(const float *x, const int32_t *pos, int64_t rows, int n_head, int head_dim, int n_rot,
                 int interleaved, const float *cosines, const float *sines, double *y, double *scale);
/* y = g / (1 + exp(-g)) * u; scale = |y|. */
void oracle_swiglu(const float *g, const float *u, size_t n, double *y, double *scale);
/* y = x + t; scale = |y|. */
void oracle_add(const float *x, const float *t, size_t n, double *y, double *scale);
/* Seven values per row: id1, id2, logit1, logit2, NaN count, +Inf count, first bad index; the rule of ops.h. */
void oracle_top2(const float *logits, int64_t rows, int64_t n_vocab, int64_t stride, double *out);

/* ---- activations (oracle_act.c): the contract's own codes, exact ---- */
/* codes, scales and group sums of `block` elements each; *unquantisable counts blocks with a NaN or Inf. */
void oracle_act_q8(const float *x, size_t n, int block, double *codes, double *scales, double *sums,
                   uint64_t *unquantisable);
/* One q8_0 cache block of 32: d as f16 bits and the codes. Returns 1 when it cannot be represented. */
int oracle_kv_q8_block(const float *x, uint16_t *d, int8_t codes[QK_32]);

/* ---- products ---- */
struct oracle_product {
    const double *a;      /* [rows, k] stored activations */
    const double *w;      /* [n, k] stored weights */
    const double *w_size; /* [n, k] magnitudes; NULL: |w| */
    const float *bias;    /* [n] or NULL */
    int64_t rows, n, k;
};
/* y[rows, n] = a . w^T + bias; scale = sum |a| w_size + |bias|. */
void oracle_matmul(const struct oracle_product *p, double *y, double *scale);

/* ---- attention ---- */
struct oracle_attention {
    const double *q;    /* [rows, n_head, head_dim] as stored (f16-rounded where the op rounds) */
    const double *k;    /* [n_keys, n_kv_head, head_dim] as stored */
    const double *v;    /* the same */
    const int32_t *pos; /* [rows] */
    int64_t rows;
    int n_head, n_kv_head, head_dim;
};
/* o = softmax(q.k / sqrt(head_dim)) v over keys j <= pos; scale = max |v| of the keys and dims seen by the row's head. */
void oracle_attention(const struct oracle_attention *p, double *o, double *scale);

/* ---- the plain low-precision arm (plain_attention.c, plain_tc.c) ---- */
/* One TC_K step of the tensor-core accumulate model in plain 64-bit integers, finite f16 inputs only. */
float plain_tc_step(enum arch arch, const uint16_t a[TC_K], const uint16_t b[TC_K], float c);
/* Chain over k (any length, zero-padded) from c. */
float plain_tc_dot(enum arch arch, const uint16_t *a, const uint16_t *b, int64_t b_stride, int64_t k,
                   float c);
/* One row and head, untiled: whole-row softmax in f32, P rounded to f16, both products on plain_tc_dot.
 * q, k, v: f16 bits; keys j = 0..pos at k + j*key_stride; o: [head_dim]. STATUS_NOMEM. */
enum status plain_attention(enum arch arch, const uint16_t *q, const uint16_t *k, const uint16_t *v,
                            int64_t key_stride, int64_t pos, int head_dim, float *o, struct err *err);

#endif
