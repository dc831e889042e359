/* attention_case.h - one attention case made concrete: queries, caches with a poisoned tail, truth. Private to gates/ops.
 * Source: ours. Exercise: forkgate run --only op.attention */
#ifndef FORKGATE_ATTENTION_CASE_H
#define FORKGATE_ATTENTION_CASE_H

#include "gates/ops/op_inputs.h"

#define ATTENTION_LAYERS 2 /* the op reads layer 1; layer 0 is poison */
#define ATTENTION_LAYER  1
#define ATTENTION_TAIL   40 /* positions behind the last valid one */

/* What lies in the cache beyond the valid positions; none of it may matter. */
enum tail { TAIL_NAN, TAIL_ZERO, TAIL_INF, TAIL_LARGE, TAILS };

struct attention_case {
    enum kv_dtype kv;
    int rows, n_seq, n_head, n_kv_head, head_dim, n_ctx;
    int from, count;           /* rows of the current run */
    int run_seq;               /* sequences of the current run: 1, or count */
    enum tail tail;            /* of the current run */
    int32_t *pos;              /* [rows] */
    float *q;                  /* [rows, n_head, head_dim] */
    uint16_t *q16;             /* the same as f16 bits (f16 and q8_0 caches) */
    int64_t key_row;           /* n_kv_head * head_dim */
    size_t plane_bytes;        /* of one plane of one sequence */
    uint8_t *planes;           /* [n_seq][k, v], tail as set last */
    uint16_t *k16, *v16;       /* [n_seq][n_ctx, key_row]: what the op reads, as f16 bits (f16 and q8_0) */
    double *q_value;           /* [rows, n_head, head_dim] as the op stores it */
    double *k_value, *v_value; /* [n_seq][n_ctx, key_row] */
    double v_max;
};

/* Fills *s from io->c and sets shape, n, truth, scale, exact, route, geometry and overflows of io. */
enum status attention_make(struct op_bench *b, struct op_io *io, struct attention_case *s, struct err *err);

/* Rewrites every position at or beyond the valid ones of both planes of every sequence. */
void attention_set_tail(struct attention_case *s, enum tail tail);

/* The sequence that row r reads. */
int attention_seq(const struct attention_case *s, int r);

#endif
