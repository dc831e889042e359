/* graph.c - captured decode steps: seen once eagerly, captured the second time, replayed from then on.
 * Not a fallback: a capture or replay that fails is an error.
 * Idea: grids of a decode step do not depend on the position (kernels read it from device memory), so a graph is a
 * function of (caches, n_rows) only, and replaying after the ids and positions changed is the eager step, bit for bit.
 * Source: the CUDA graph API. Exercise: device_parity (arm graph) */
#include <string.h>

#include "../fault.h"
#include "check.h"

static enum status slot_drop(struct graph_slot *slot, struct err *err) {
    cudaGraphExec_t exec = slot->exec;
    memset(slot, 0, sizeof *slot);
    if (exec != NULL) CUDA_TRY(cudaGraphExecDestroy(exec), err);
    return STATUS_OK;
}

/* The slot of this step's key; a new key takes an empty slot or the least recently used one. */
static enum status slot_find(struct cuda_context *c, const struct step *s, struct graph_slot **out,
                             struct err *err) {
    struct graph_slot *oldest = &c->graphs[0];
    for (int i = 0; i < GRAPH_SLOTS; i++) {
        struct graph_slot *slot = &c->graphs[i];
        if (slot->used < oldest->used) oldest = slot;
        if (slot->state == GRAPH_EMPTY || slot->n_rows != s->n_rows) continue;
        int same = 1;
        for (int r = 0; r < s->n_rows; r++) same &= slot->k[r] == s->kv[r]->k;
        if (!same) continue;
        *out = slot;
        return STATUS_OK;
    }
    RETURN_IF_ERROR(slot_drop(oldest, err));
    oldest->n_rows = s->n_rows;
    for (int r = 0; r < s->n_rows; r++) oldest->k[r] = s->kv[r]->k;
    *out = oldest;
    return STATUS_OK;
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
    return slot_drop(slot, err);
}

enum status cuda_graph_begin(struct cuda_context *c, const struct step *s, int *replayed, struct err *err) {
    *replayed = 0;
    if (!c->base.config.graphs || s->n_seq != s->n_rows) return STATUS_OK;
    struct graph_slot *slot;
    RETURN_IF_ERROR(slot_find(c, s, &slot, err));
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
    CUDA_TRY(cudaStreamEndCapture(c->stream, &graph), err);
    cudaError_t e = cudaGraphInstantiate(exec, graph, 0);
    (void)cudaGraphDestroy(graph);
    CUDA_TRY(e, err);
    CUDA_TRY(cudaGraphLaunch(*exec, c->stream), err);
    return STATUS_OK;
}

enum status cuda_graph_end(struct cuda_context *c, struct err *err) {
    struct graph_slot *slot = c->capturing;
    RETURN_IF_ERROR(cuda_settle(c, err));
    if (slot == NULL) return STATUS_OK;
    enum status s = capture_run(c, &slot->exec, err);
    if (s != STATUS_OK) {
        struct err ignored;
        (void)slot_drop(slot, &ignored);
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
    if (s == STATUS_OK) CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    if (exec != NULL) CUDA_TRY(cudaGraphExecDestroy(exec), err);
    return s;
}

enum status cuda_graph_forget(struct cuda_context *c, struct err *err) {
    RETURN_IF_ERROR(cuda_graph_abandon(c, err));
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    for (int i = 0; i < GRAPH_SLOTS; i++) RETURN_IF_ERROR(slot_drop(&c->graphs[i], err));
    return STATUS_OK;
}

enum status cuda_graph_stale(struct cuda_context *c, struct err *err) {
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    for (int i = 0; i < GRAPH_SLOTS; i++) {
        struct graph_slot *slot = &c->graphs[i];
        if (slot->state != GRAPH_READY) continue;
        cudaGraphExec_t exec = slot->exec;
        slot->exec = NULL;
        slot->state = GRAPH_SEEN;
        CUDA_TRY(cudaGraphExecDestroy(exec), err);
    }
    return STATUS_OK;
}
