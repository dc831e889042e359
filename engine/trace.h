/* trace.h - a neutral observer of op outputs.
 * Not a debugger: an observer never changes the path (the observer arm of the identity tier proves it).
 * Idea: forward.c calls the hook after every op with the op's name and its output; the engine knows nothing of who
 * watches. Source: ours. Exercise: ctest -R unit.session */
#ifndef FORKGATE_TRACE_H
#define FORKGATE_TRACE_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct trace_event {
    const char *op;     /* "rmsnorm", "matmul", "attention", ... */
    const char *tensor; /* "attn_norm", "q", "k", "v", "attn_out", "ffn_gate", ... */
    int layer;          /* -1 for embed, final norm, lm_head */
    int64_t rows, cols;
    const float *data;  /* host copy [rows, cols]; valid during the call only */
    const int32_t *pos; /* [rows] absolute positions; NULL when rows are not step rows */
};

typedef void trace_fn(void *ctx, const struct trace_event *event);

struct act;
struct backend;
struct kv_cache;

/* What a tap sees: the moments of a trace and two more (act_prepare, kv_append), with no copy made. Pointers are backend
 * memory, good during the call; exactly one of data, act and kv is set. A tap decides what is worth copying. */
struct tap_event {
    const char *op;     /* as in trace_event, and "act_prepare", "kv_append" */
    const char *tensor; /* as in trace_event; act_prepare: the name of its input; kv_append: "kv" */
    int layer;
    int64_t rows, cols;               /* act_prepare: of its input; kv_append: of one of k and v */
    const float *data;                /* [rows, cols] */
    const struct act *act;            /* act_prepare */
    const struct kv_cache *const *kv; /* [n_seq] kv_append: one cache for all rows, or one a row */
    int n_seq;
    const int32_t *pos; /* [rows] absolute positions, host memory */
};

/* Anything but STATUS_OK stops the step with that status. */
typedef enum status tap_fn(void *ctx, struct backend *backend, const struct tap_event *event,
                           struct err *err);

#ifdef __cplusplus
}
#endif
#endif
