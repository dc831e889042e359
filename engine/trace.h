/* trace.h - a neutral observer of op outputs.
 * Not a debugger: an observer never changes the path (the observer arm of the identity tier proves it).
 * Idea: forward.c calls the hook after every op with the op's name and its output; the engine knows nothing of who
 * watches. Source: ours. Exercise: ctest -R unit.session */
#ifndef FORKGATE_TRACE_H
#define FORKGATE_TRACE_H

#include <stdint.h>

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

#ifdef __cplusplus
}
#endif
#endif
