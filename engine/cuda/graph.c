/* graph.c - captured decode steps: seen once eagerly, captured the second time, replayed from then on.
 * Not a fallback: a capture or replay that fails is an error.
 * Idea: grids of a decode step do not depend on the position (kernels read it from device memory), so a graph is a
 * function of (caches, n_rows) only, and replaying after the ids and positions changed is the eager step, bit for bit.
 * Source: the CUDA graph API. Exercise: device_parity (arm graph) */
#include <string.h>

#include "../fault.h"
#include "check.h"

static void slot_drop(struct graph_slot *slot) {
    if (slot->exec != NULL) (void)cudaGraphExecDestroy(slot->exec);
    memset(slot, 0, sizeof *slot);
}

/* The slot of this step's key; a new key takes an empty slot or the least recently used one. */
static struct graph_slot *slot_find(struct cuda_context *c, const struct step *s) {
    struct graph_slot *oldest = &c->graphs[0];
    for (int i = 0; i < GRAPH_SLOTS; i++) {
        struct graph_slot *slot = &c->graphs[i];
        if (slot->used < oldest->used) oldest = slot;
        if (slot->state == GRAPH_EMPTY || slot->n_rows != s->n_rows) continue;
        int same = 1;
        for (int r = 0; r < s->n_rows; r++) same &= slot->k[r] == s->kv[r]->k;
        if (same) return slot;
    }
    slot_drop(oldest);
    oldest->n_rows = s->n_rows;
    for (int r = 0; r < s->n_rows; r++) oldest->k[r] = s->kv[r]->k;
    return oldest;
}

enum status cuda_graph_abandon(struct cuda_context *c, struct err *err) {
    if (c->capturing == NULL) return cuda_settle(c, err);
    c->pending.kind = PENDING_NONE; /* a call of the failed step */
    cudaGraph_t graph = NULL;
    (void)cudaStreamEndCapture(c->stream, &graph);
    (void)cudaGetLastError();
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    struct graph_slot *slot = c->capturing;
    c->capturing = NULL;
    slot_drop(slot);
    return STATUS_OK;
}

enum status cuda_graph_begin(struct cuda_context *c, const struct step *s, int *replayed, struct err *err) {
    *replayed = 0;
    if (!c->base.config.graphs || s->n_seq != s->n_rows) return STATUS_OK;
    struct graph_slot *slot = slot_find(c, s);
    slot->used = ++c->clock;
    switch (slot->state) {
    case GRAPH_EMPTY:
        slot->state = GRAPH_SEEN;
        return STATUS_OK;
    case GRAPH_SEEN:
        CUDA_TRY(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal), err);
        c->capturing = slot;
        memcpy(c->calls_before, c->calls, sizeof c->calls);
        return STATUS_OK;
    case GRAPH_READY:
        break;
    }
    if (FAULT(RT_CAPTURE)) { /* the lengths of the step before */
        for (int r = 0; r < s->n_rows; r++) c->host_step[CHUNK_MAX + r]--;
        RETURN_IF_ERROR(cuda_copy(c, c->pos, c->host_step + CHUNK_MAX, (size_t)s->n_rows * sizeof(int32_t),
                                  cudaMemcpyHostToDevice, err));
    }
    CUDA_TRY(cudaGraphLaunch(slot->exec, c->stream), err);
    for (int i = 0; i < CUDA_KERNEL_COUNT; i++) c->calls[i] += slot->calls[i];
    *replayed = 1;
    return STATUS_OK;
}

/* Ends the capture and runs it once; *exec is left for the caller to keep or destroy. */
static enum status capture_run(struct cuda_context *c, cudaGraphExec_t *exec, struct err *err) {
    cudaGraph_t graph = NULL;
    c->capturing = NULL;
    cudaError_t e = cudaStreamEndCapture(c->stream, &graph); /* told to fail or not: a capture must end */
    if (cuda_refused("cudaStreamEndCapture")) e = cudaErrorUnknown;
    if (e != cudaSuccess) {
        if (graph != NULL) (void)cudaGraphDestroy(graph);
        return cuda_failed(e, "cudaStreamEndCapture", __FILE__, __LINE__, err);
    }
    e = CUDA_CALL(cudaGraphInstantiate(exec, graph, 0));
    (void)cudaGraphDestroy(graph);
    if (e != cudaSuccess) return cuda_failed(e, "cudaGraphInstantiate", __FILE__, __LINE__, err);
    CUDA_TRY(cudaGraphLaunch(*exec, c->stream), err);
    return STATUS_OK;
}

enum status cuda_graph_end(struct cuda_context *c, struct err *err) {
    struct graph_slot *slot = c->capturing;
    RETURN_IF_ERROR(cuda_settle(c, err));
    if (slot == NULL) return STATUS_OK;
    enum status s = capture_run(c, &slot->exec, err);
    if (s != STATUS_OK) {
        slot_drop(slot);
        return s;
    }
    slot->state = GRAPH_READY;
    for (int i = 0; i < CUDA_KERNEL_COUNT; i++) slot->calls[i] = c->calls[i] - c->calls_before[i];
    return STATUS_OK;
}

enum status cuda_graph_flush(struct cuda_context *c, struct err *err) {
    RETURN_IF_ERROR(cuda_settle(c, err));
    if (c->capturing == NULL) return STATUS_OK;
    cudaGraphExec_t exec = NULL;
    enum status s = capture_run(c, &exec, err);
    cudaError_t e = s == STATUS_OK ? CUDA_CALL(cudaStreamSynchronize(c->stream)) : cudaSuccess;
    if (exec != NULL) (void)cudaGraphExecDestroy(exec);
    if (e != cudaSuccess) return cuda_failed(e, "cudaStreamSynchronize", __FILE__, __LINE__, err);
    return s;
}

enum status cuda_graph_forget(struct cuda_context *c, struct err *err) {
    enum status s = cuda_graph_abandon(c, err);
    cudaError_t e =
        cudaStreamSynchronize(c->stream); /* on the way to a free: every result was fetched before */
    for (int i = 0; i < GRAPH_SLOTS; i++) slot_drop(&c->graphs[i]);
    if (s == STATUS_OK && e != cudaSuccess)
        return cuda_failed(e, "cudaStreamSynchronize", __FILE__, __LINE__, err);
    return s;
}
