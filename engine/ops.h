/* ops.h - THE contract: one documented entry per op of the forward pass, for twin and kernel alike.
 * Not an implementation: engine/ops/<op>.c is the CPU twin, engine/ops/<op>.cu the kernel; both give the same bits.
 * Idea: every reduction order below is a function of the row's own length only - never of the number of rows, the
 * chunk of the prompt, the batch, the SM count, timing or threads. Change an order here and the goldens change.
 * Notation: a*b, a+b are single f32 roundings (RNE); fma(a,b,c) is one fused rounding and appears only where
 * written. f16(x) is RNE. A halving tree over L lanes is: for s = L/2, L/4, .. 1: lane[i] += lane[i+s], i < s.
 * Source: named per op. Exercise: forkgate run --tier parity */
#ifndef FORKGATE_OPS_H
#define FORKGATE_OPS_H

#include <stdint.h>

#include "dtype.h"
#include "geometry.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum route { ROUTE_F16 = 0, ROUTE_Q8 = 1, ROUTE_F32 = 2 };
enum kv_dtype { KV_F16 = 0, KV_Q8_0 = 1, KV_F32 = 2 };
enum rope_kind { ROPE_INTERLEAVED = 0, ROPE_HALF_SPLIT = 1 }; /* pairs (2i, 2i+1) / (i, i + n_rot/2) */

/* What a matrix product wants its activations as. Route and weight type decide (act_kind_for). */
enum act_kind {
    ACT_F32 = 0,   /* route f32: the f32 rows themselves */
    ACT_F16 = 1,   /* route f16 */
    ACT_Q8_32 = 2, /* route q8, weights with 32-element blocks: Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 */
    ACT_Q8_256 = 3 /* route q8, K-quant weights: Q4_K Q5_K Q6_K */
};
#define ACT_KINDS 4

/* One matrix of the model in backend memory, laid out as the backend likes (weight_upload makes it). */
struct weight {
    enum dtype dtype;  /* type in the file */
    enum act_kind act; /* what matmul wants as its input */
    int64_t n, k;      /* y[rows, n] = x[rows, k] . W[n, k]^T */
    void *data;        /* backend memory, backend-private layout */
    const float *bias; /* [n] backend memory, or NULL */
};

/* Activations of one input, prepared once and shared by its consumers (q,k,v / gate,up). Unused parts are NULL. */
struct act {
    enum act_kind kind;
    int64_t k;        /* row length */
    const float *f32; /* [rows, k]          ACT_F32: aliases the input */
    uint16_t *f16;    /* [rows, k_pad]      ACT_F16: k_pad = k rounded up to TC_K, padding zero */
    int8_t *q;        /* [rows, k]          ACT_Q8_*: codes, |q| <= 127 */
    float *d;         /* [rows, k/block]    ACT_Q8_*: block scale */
    int16_t *sum;     /* [rows, k/16]       ACT_Q8_*: exact sums of codes per ACT_SUM_GROUP */
};

/* One session's keys and values. Position-major so that a tile of keys is contiguous.
 * f16/f32: [n_layer][n_ctx][n_kv_head][head_dim]; q8_0: the same with blocks of 32 (struct block_q8_0). */
struct kv_cache {
    enum kv_dtype dtype;
    int n_layer, n_ctx, n_kv_head, head_dim;
    void *k, *v;
};

/* The rows of one step. Prefill: n_seq == 1 and positions pos[0], pos[0]+1, ..  Decode: n_seq == n_rows, one row of
 * each sequence. Arrays are host memory; backends copy what they need in step_begin. */
struct step {
    int n_rows;                       /* 1 .. CHUNK_MAX */
    int n_seq;                        /* 1, or n_rows <= BATCH_MAX */
    const int32_t *id;                /* [n_rows] token ids */
    const int32_t *pos;               /* [n_rows] absolute positions */
    const struct kv_cache *const *kv; /* [n_seq] */
};

struct rope_table {
    enum rope_kind kind;
    int n_rot;              /* rotated leading dims of each head, even, <= head_dim */
    int n_pos;              /* table covers positions 0 .. n_pos-1 */
    const float *cos, *sin; /* [n_pos, n_rot/2] backend memory */
};

/* Result of top2 for one row. Census first: any NaN or +Inf, or no finite value, makes the row unjudgeable. */
struct top2 {
    int32_t id1, id2;     /* -1 (with logit -INFINITY) where no candidate is left: NaN and +Inf are none */
    float logit1, logit2; /* -INFINITY possible for logit2 */
    int32_t n_nan, n_inf; /* n_inf counts +Inf only; -Inf is a legal logit */
    int32_t first_bad;    /* index of the first NaN or +Inf; -1 when none */
};

/* ------------------------------------------------------------------------------------------------------------
 * embed: x[r,c] = value of element c of table row id[r]
 * shapes    table [n_vocab, cols] of any dtype; x [n_rows, cols] f32
 * ranges    0 <= id < n_vocab (checked by the session)
 * numerics  the dequantisation formula of dtype.h, exact f32 otherwise
 * gate      op.embed
 *
 * rmsnorm: y[r,c] = (x[r,c] * s_r) * w[c],  s_r = 1 / sqrt(mean_c x[r,c]^2 + eps)
 * shapes    x, y [rows, cols] f32, may alias; w [cols] f32.  Per-head norm (qwen3): rows = n_rows * n_head.
 * ranges    cols >= 1; eps > 0
 * numerics  lane l of NORM_LANES: chain over c = l, l+NORM_LANES, .. of a = fma(x,x,a) from +0; halving tree;
 *           mean = tree / (float)cols; s = 1.0f / sqrtf(mean + eps)  (IEEE division and square root)
 * source    Zhang & Sennrich 2019, eq. 4            gate op.rmsnorm
 *
 * act_prepare: the input of a matrix product in the form its consumers want
 *   ACT_F32     aliases x
 *   ACT_F16     h = f16(x); each element whose |h| is Inf or NaN adds 1 to *overflow
 *   ACT_Q8_*    block B = 32 or 256 along k: amax = max |x| (by magnitude bits, so NaN is largest);
 *               amax not finite: d = NaN, codes 0, *overflow += 1;  amax < 2^-100: d = 0, codes 0;
 *               else d = amax / 127.0f, inv = 127.0f / amax, q = rint(x * inv) (RNE);
 *               sum[g] = exact integer sum of the 16 codes of group g
 * ranges    k a multiple of B; ACT_F16 any k
 * gate      op.act_prepare
 *
 * matmul: y[r,n] = sum_k a[r,k] * W[n,k] (+ bias[n], one f32 addition after the sum)
 *   ACT_F32     w = dequantised f32; lane l of F32_LANES: chain a = fma(a_k, w_k, a) over k = l, l+F32_LANES, ..
 *               from +0; halving tree.  CPU only.
 *   ACT_F16     w = f16(dequantised), once at load; K walked in steps of TC_K from k = 0, padded with zeros:
 *               C = tc(C, a, w) from C = +0 (tcmodel.h, the arch's accumulate model)
 *   ACT_Q8_32   chain over blocks b = 0, 1, ..: with I = exact int32 sum of w_code * q over the block,
 *                 Q8_0            acc = fma(dw * da, (float)I, acc)
 *                 Q4_0, Q5_0      I uses w_code = q - 8, q - 16; as Q8_0
 *                 Q4_1, Q5_1      acc = fma(dw * da, (float)I, acc); then acc = fma(mw * da, (float)S, acc),
 *                                 S = sum of the block's activation codes
 *   ACT_Q8_256  chain over super-blocks:
 *                 Q4_K, Q5_K      I = sum_j sc_j * (sum of w_code*q in sub-block j), M = sum_j min_j * S_j  (int32)
 *                                 acc = fma(d * da, (float)I, acc); then acc = fma(-(dmin * da), (float)M, acc)
 *                 Q6_K            I = sum_j sc_j * (sum of (w_code - 32)*q in sub-block j); acc = fma(d*da, (float)I, acc)
 *               int -> float conversion is RNE; f16 scales widen exactly; acc starts at +0.
 * refused   F16, BF16, F32 weights on route q8; |f16(w)| = Inf on route f16 (at upload, by name)
 * gate      op.matmul
 *
 * rope: rotate the leading n_rot dims of every head, in place
 *           (a, b) -> (a*cos - b*sin, a*sin + b*cos): four products, one difference, one sum, none fused
 * shapes    x [n_rows, n_head, head_dim]; table row = pos[r]
 * numerics  the table is made once on the host in double: theta_i = pos * freq_i, freq_i = base^(-2i/n_rot) [/ factor_i]
 *           by fmath.h's pow, sin, cos, rounded once to f32
 * source    Su et al. 2021                            gate op.rope
 *
 * kv_append: cache row pos[r] of layer l = k[r], v[r]
 *   KV_F16    f16(x), non-finite results counted in *overflow;   KV_F32  x itself
 *   KV_Q8_0   per 32: amax (as in act_prepare), d = f16(amax / 127.0f), q = rint(x * (127.0f / amax));
 *             amax or d not finite (from 65520 * 127 on): d = NaN bits 0x7e00, codes 0, *overflow += 1;
 *             amax < 2^-14: d = 0, codes 0
 * gate      op.kv_append
 *
 * attention: o[r,h,:] = softmax_j(scale * q[r,h].k[j,g]) . v[j,g] over positions j <= pos[r], g = h / (n_head/n_kv_head)
 * shapes    q, o [n_rows, n_head, head_dim] f32; cache as struct kv_cache, the step's own rows already appended
 * ranges    head_dim a multiple of 16, <= FA_HEAD_DIM_MAX; n_head a multiple of n_kv_head
 * numerics  (KV f16 and q8_0; a q8_0 element is f16((float)q * (float)d))
 *           qh = f16(q) (non-finite counted in *overflow); c = f32(log2(e)/sqrt(head_dim)), computed in double
 *           S = tc chain over head_dim in TC_K steps from C = +0;  t = S * c;  masked (j > pos): t = -inf
 *           Keys are walked in chunks of fa_chunk absolute positions and, inside a chunk, tiles of fa_tkv, ascending.
 *           A chunk starts with m = -inf, l = +0, O = +0.  Per tile and query row:
 *             mn = max(m, max_j t_j)  (x > y ? x : y; NaN never wins);  mn == -inf: the tile is the identity
 *             alpha = exp2(m - mn) ; p_j = exp2(t_j - mn), masked p_j = +0
 *             lane q of 4: s_q = chain over n8-blocks j: s_q + p[8j+2q], then + p[8j+2q+1], from +0
 *             l = fma(l, alpha, (s_0 + s_1) + (s_2 + s_3));  O = O * alpha;
 *             O = tc chain over the tile's keys in TC_K steps from C = O, A = f16(p), B = V (masked rows zero)
 *             m = mn
 *           Chunks fold left in index order, the first unmasked one being the start: M, L, A =: m, l, O; then
 *             Mn = max(M, m); a = exp2(M - Mn); b = exp2(m - Mn); L = fma(l, b, L*a); A = fma(O, b, A*a); M = Mn
 *           Result: (A * (1.0f / L)) + 0.0f.
 *           fa_tq, fa_splits, chunked prefill, batching and decode-versus-prefill never change a bit.
 *           (KV f32, route f32, CPU only) S by F32_LANES lanes; t = S*c; m = max; p = exp2(t - m); l and O summed in
 *           double over ascending j; result (float)(O / l).  Route f32 over a f16 or q8_0 cache: the same on widened
 *           values.
 * source    Dao 2023 (FlashAttention-2), Dao et al. 2023 (flash-decoding); chunk fold ours      gate op.attention
 *
 * swiglu: y[i] = (g[i] * (1.0f / (1.0f + exp(-g[i])))) * u[i]
 * numerics  exp is fmath.h's fm_expf                  gate op.swiglu
 *
 * add: x[i] = x[i] + t[i]                             gate op.add
 *
 * top2: the two largest logits of a row; order: larger logit first, equal logits (+0 == -0): lower id first
 * ranges    only the first n_vocab columns (the tokenizer's vocabulary, not padded rows) take part
 * numerics  exact; NaN and +Inf take part in the census only (struct top2), and never win
 * gate      op.top2
 * ------------------------------------------------------------------------------------------------------------ */

enum act_kind act_kind_for(enum route route, enum dtype weight_dtype);

/* Number of elements per activation block: 32, 256, or 1 for the float kinds. */
int act_block(enum act_kind kind);

/* The names used in options, provenance and goldens; *_from_name return -1 when unknown. */
const char *route_name(enum route r);
const char *kv_dtype_name(enum kv_dtype k);
const char *arch_name(enum arch a); /* "sm_90" */
const char *act_kind_name(enum act_kind k);
int route_from_name(const char *s);
int kv_dtype_from_name(const char *s);
int arch_from_name(const char *s);

#ifdef __cplusplus
}
#endif
#endif
