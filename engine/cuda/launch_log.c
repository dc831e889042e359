/* launch_log.c - the kinds of launch a backend has made, and what the driver says about each.
 * Not a trace: a kind (code, block size, shared memory) is noted once. Source: CUDA occupancy API.
 * Exercise: forkgate occupancy --device */
#include "check.h"

#ifdef FORKGATE_OCCUPANCY_PROBE
#include "probe.h"

static void note_alive(const struct cuda_context *c, struct launch_kind *kind) {
    int alive;
    if (c->capturing != NULL) return; /* nothing has run yet */
    if (cuda_probe_take(&alive) == cudaSuccess && alive > kind->measured) kind->measured = alive;
}
#else
static void note_alive(const struct cuda_context *c, const struct launch_kind *kind) {
    (void)c;
    (void)kind;
}
#endif

void cuda_launch_note(struct cuda_context *c, enum kernel_id id, const void *func, int threads,
                      size_t dynamic) {
    int i = c->n_kinds - 1;
    while (i >= 0 &&
           (c->kinds[i].func != func || c->kinds[i].threads != threads || c->kinds[i].dynamic != dynamic))
        i--;
    if (i < 0) {
        if (c->n_kinds == BACKEND_LAUNCHES_MAX) {
            c->kinds_lost++;
            return;
        }
        struct launch_kind kind = {func, id, threads, dynamic, 0};
        i = c->n_kinds++;
        c->kinds[i] = kind;
    }
    note_alive(c, &c->kinds[i]);
}

static int most(int a, int b) {
    return a > b ? a : b;
}

void cuda_attention_note(struct cuda_context *c, int tile_rows, int rows, int splits, int chunks) {
    struct attention_use u = {most(c->use.tile_rows, tile_rows), most(c->use.rows, rows),
                              most(c->use.splits, splits), most(c->use.chunks, chunks)};
    c->use = u;
}

void cuda_attention_use(struct backend *self, struct attention_use *out) {
    *out = cuda_context_of(self)->use;
}

enum status cuda_launches(struct backend *self, struct kernel_launch out[BACKEND_LAUNCHES_MAX], int *n,
                          struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    RETURN_IF_ERROR(cuda_settle(c, err));
    if (c->kinds_lost > 0)
        return err_set(err, STATUS_LIMIT, "cuda: more than %d kinds of launch", BACKEND_LAUNCHES_MAX);
    for (*n = 0; *n < c->n_kinds; (*n)++) {
        const struct launch_kind *k = &c->kinds[*n];
        struct kernel_launch *l = &out[*n];
        struct cudaFuncAttributes a;
        CUDA_TRY(cudaFuncGetAttributes(&a, k->func), err);
        CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&l->queried, k->func, k->threads, k->dynamic),
                 err);
        l->kernel = cuda_kernel_name(k->id);
        l->threads = k->threads;
        l->registers = a.numRegs;
        l->shared = a.sharedSizeBytes;
        l->dynamic = k->dynamic;
        l->measured = k->measured;
    }
    return STATUS_OK;
}
