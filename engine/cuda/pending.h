/* pending.h - calls of the op table that wait for the next one, so that neighbours become one launch.
 * Not a graph compiler: a handful of pairs, each written down in pending.c with the kernel that replaces it.
 * Idea: a waiting call is launched by whatever comes next - its partner, any other launch, copy or wait - so order is kept
 * and nothing outside engine/cuda and the launchers can tell. A fused kernel writes everything its parts would have
 * written, with the same bits.
 * Source: ours. Exercise: device_parity --op step */
#ifndef FORKGATE_PENDING_H
#define FORKGATE_PENDING_H

#include "../backend.h"
#include "launch.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_context;

/* x += t when t is given, then y = rmsnorm(x) * w when y is. */
struct norm_call {
    float *x;
    const float *t, *w;
    float eps;
    int64_t n, rows, cols; /* n: elements of x, known before rows and cols are */
    float *y;
};

struct swiglu_call {
    const float *g, *u;
    int64_t n;
    float *y;
};

struct rope_shape {
    float *x;
    int n_head, head_dim, half; /* half = n_rot / 2 pairs per head */
    int interleaved;
};

struct rope_call {
    struct rope_shape part[2]; /* q, k */
    int parts, n_rows;
    const float *cos, *sin;
};

/* The chunk results of a decode attention, still to be folded into o. */
struct merge_call {
    float *o;
    int n_rows, n_head;
};

enum pending_kind {
    PENDING_NONE = 0,
    PENDING_ADD,
    PENDING_NORM,
    PENDING_SWIGLU,
    PENDING_ROPE,
    PENDING_MERGE
};

struct pending {
    enum pending_kind kind;
    struct norm_call norm; /* PENDING_ADD, PENDING_NORM */
    struct swiglu_call swiglu;
    struct rope_call rope;
    struct merge_call merge;
    enum status late; /* a failure that could not be returned when it happened */
    struct err late_err;
};

/* Launches what waits, by its own kernels. */
enum status cuda_settle(struct cuda_context *c, struct err *err);
/* The same where no error can be returned: a failure is returned by the next cuda_settle instead. */
void cuda_settle_quietly(struct cuda_context *c);

/* Act_prepare of x as the second half of what waits. *done is 0 when they do not fit together (nothing was launched). */
enum status cuda_settle_prepared(struct cuda_context *c, enum act_kind kind, const float *x, int64_t rows,
                                 int64_t k, const struct act *out, int *done, struct err *err);

/* ---- the launches behind it: plain ones in the op's file, fused ones in engine/ops/fused_<pair>.cu ------------------- */
enum status add_launch(struct cuda_context *c, const struct norm_call *n, struct err *err);
enum status norm_launch(struct cuda_context *c, const struct norm_call *n, struct err *err);
enum status swiglu_launch(struct cuda_context *c, const struct swiglu_call *s, struct err *err);
enum status rope_launch(struct cuda_context *c, const struct rope_call *r, struct err *err);
enum status merge_launch(struct cuda_context *c, const struct merge_call *m, struct err *err);
/* *done = 0: this shape has no fused kernel. */
enum status fused_norm_act(struct cuda_context *c, const struct norm_call *n, const struct act *out,
                           int *done, struct err *err);
enum status fused_swiglu_act(struct cuda_context *c, const struct swiglu_call *s, const struct act *out,
                             int *done, struct err *err);
enum status fused_merge_act(struct cuda_context *c, const struct merge_call *m, const struct act *out,
                            int *done, struct err *err);
/* Rotates q and k and appends k and v (f16 caches). */
enum status fused_rope_append(struct cuda_context *c, const struct rope_call *r, int layer, const float *v,
                              struct err *err);

#ifdef __cplusplus
}
#endif
#endif
