/* context.h - what one open CUDA backend owns: stream, step buffers, scratch, counters, captured graphs.
 * Not public: only engine/backend_cuda.cu, engine/cuda/ and the launchers in engine/ops/ include it.
 * Idea: device-side step buffers never move, so a captured graph replays after only their contents changed.
 * Source: ours. Exercise: device_parity */
#ifndef FORKGATE_CUDA_CONTEXT_H
#define FORKGATE_CUDA_CONTEXT_H

#include <cuda_runtime_api.h>

#include "../backend.h"
#include "kernels.h"
#include "launch.h"
#include "pending.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GRAPH_SLOTS  32  /* decode shapes remembered; the least recently used one makes room */
#define GRANTS_MAX   128 /* kernel instances that asked for more than the default shared memory */
#define SMEM_DEFAULT 49152
#define FETCH_SMALL  64 /* bytes of a result that is staged; struct top2 fits */

/* The caches of a step as kernels see them, passed by value. Row r uses sequence r, or 0 when n_seq is 1. */
struct kv_view {
    enum kv_dtype dtype;
    int n_ctx, n_kv_head, head_dim;
    int per_row; /* 1: one sequence per row */
    void *k[BATCH_MAX], *v[BATCH_MAX];
};

enum graph_state { GRAPH_EMPTY = 0, GRAPH_SEEN, GRAPH_READY };

struct graph_slot {
    enum graph_state state;
    int n_rows;
    void *k[BATCH_MAX]; /* the key, with n_rows: which caches, in which order */
    cudaGraphExec_t exec;
    uint64_t calls[CUDA_KERNEL_COUNT]; /* kernels in the graph: a replay counts them */
    uint64_t used;                     /* clock of the last use */
};

/* One product of a decode launch that several may share. */
struct product {
    struct weight w;
    float *y; /* [rows, w.n] */
};

/* Chunk results of decode attention, in the caller's memory (backend.h: attention_room). */
struct attention_room {
    float *ml;           /* [rows, n_head, chunks, 2]: m and l of a chunk, decode to merge */
    float *part;         /* [rows, n_head, chunks, head_dim] */
    size_t n_ml, n_part; /* floats there are */
};

struct launch_kind {
    const void *func;
    enum kernel_id id;
    int threads;
    size_t dynamic;
    int measured; /* probe.h */
};

struct cuda_context {
    struct backend base; /* base.impl points back here */
    cudaStream_t stream;
    int n_sm;
    int hopper;                          /* sm_90a code is loaded: the kernels *_hopper.cu may run */
    void *tensor_encoder;                /* cuTensorMapEncodeTiled, found at first use */
    size_t smem_optin;                   /* most dynamic shared memory a block may ask for */
    unsigned long long *overflow;        /* device counter of what steps met */
    unsigned long long *upload_overflow; /* of the weight being uploaded */
    struct top2 *top2_parts;             /* device [TOP2_ROWS, TOP2_PARTS] */
    struct row_sum *row_sums;            /* device [CHECKSUM_ROWS], for watchers */
    struct attention_room room;
    uint64_t calls[CUDA_KERNEL_COUNT];
    struct attention_use use;
    struct launch_kind kinds[BACKEND_LAUNCHES_MAX]; /* for reports on occupancy (launch_log.c) */
    int n_kinds, kinds_lost;
    void **owned; /* every device allocation still held */
    int n_owned, owned_room;
    /* the current step */
    int32_t *id, *pos;   /* device [CHUNK_MAX] each */
    int32_t *host_step;  /* pinned [2, CHUNK_MAX] */
    uint8_t *host_fetch; /* pinned: the overflow count, then FETCHES_MAX small results of FETCH_SMALL bytes */
    cudaEvent_t staged;  /* the last copy out of host_step is done */
    struct kv_view kv;
    struct pending pending; /* a call that waits for its partner */
    /* graphs */
    struct graph_slot graphs[GRAPH_SLOTS];
    struct graph_slot *capturing; /* the slot being captured, or NULL */
    uint64_t calls_before[CUDA_KERNEL_COUNT];
    uint64_t clock;
};

static inline struct cuda_context *cuda_context_of(struct backend *b) {
    return (struct cuda_context *)b->impl;
}

/* ---- graph.c: one captured graph per (caches, n_rows) of a decode step -------------------------------------- */
/* Throws away a capture that a failed step left open; settles what waits otherwise. First thing in a step. */
enum status cuda_graph_abandon(struct cuda_context *c, struct err *err);
enum status cuda_graph_begin(struct cuda_context *c, const struct step *s, int *replayed, struct err *err);
enum status cuda_graph_end(struct cuda_context *c, struct err *err);
/* Runs what was captured so far and leaves the rest of the step eager: a host copy in mid-step needs its bytes now. */
enum status cuda_graph_flush(struct cuda_context *c, struct err *err);
enum status cuda_graph_forget(struct cuda_context *c, struct err *err);
/* 1 where the device runs code compiled for sm_90a itself (not the sm_80 PTX); matmul_f16_hopper.cu. */
enum status cuda_hopper_loaded(int *out, struct err *err);

/* ---- launch_log.c ---------------------------------------------------------------------------------------------- */
void cuda_launch_note(struct cuda_context *c, enum kernel_id id, const void *func, int threads,
                      size_t dynamic);
void cuda_attention_note(struct cuda_context *c, int tile_rows, int rows, int splits, int chunks);
void cuda_attention_use(struct backend *self, struct attention_use *out);
enum status cuda_launches(struct backend *self, struct kernel_launch out[BACKEND_LAUNCHES_MAX], int *n,
                          struct err *err);

/* ---- checksum.cu ----------------------------------------------------------------------------------------------- */
int kernel_counts_cuda(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX]);
int waiting_cuda(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX], int *n);
enum status row_sums_cuda(struct backend *self, const struct row_span *rows, struct row_sum *host,
                          struct err *err);
enum status peek_cuda(struct backend *self, void *host, const void *src, size_t bytes, struct err *err);

/* ---- measure.cu ------------------------------------------------------------------------------------------------ */
/* Sets launches, time_calls, ceiling and memory_used of a table. */
void cuda_measure_table(struct backend *b);

/* ---- weights.cu ------------------------------------------------------------------------------------------------ */
enum status cuda_weight_upload(struct backend *self, enum weight_use use, enum dtype dtype, const void *src,
                               int64_t n, int64_t k, struct weight *out, struct err *err);

/* ---- launchers, one file per op; contracts in ops.h ------------------------------------------------------------ */
enum status embed_cuda(struct backend *self, const struct step *s, const struct weight *table, float *x,
                       struct err *err);
enum status rmsnorm_cuda(struct backend *self, const float *x, const float *w, float eps, int64_t rows,
                         int64_t cols, float *y, struct err *err);
enum status act_prepare_cuda(struct backend *self, enum act_kind kind, const float *x, int64_t rows,
                             int64_t k, struct act *out, struct err *err);
enum status matmul_cuda(struct backend *self, const struct weight *w, const struct act *a, int64_t rows,
                        float *y, struct err *err);
enum status rope_cuda(struct backend *self, const struct step *s, const struct rope_table *t, int n_head,
                      int head_dim, float *x, struct err *err);
enum status kv_append_cuda(struct backend *self, const struct step *s, int layer, const float *k,
                           const float *v, struct err *err);
enum status attention_cuda(struct backend *self, const struct step *s, int layer, int n_head, const float *q,
                           float *o, struct err *err);
enum status swiglu_cuda(struct backend *self, const float *g, const float *u, int64_t n, float *y,
                        struct err *err);
enum status add_cuda(struct backend *self, float *x, const float *t, int64_t n, struct err *err);
enum status top2_cuda(struct backend *self, const float *logits, int64_t rows, int64_t n_vocab,
                      int64_t stride, struct top2 *out, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
