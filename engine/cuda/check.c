/* check.c - see check.h. Compiled twice: the forkgate-faults build can be told to fail here (fault.h). */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../fault.h"

#define CUDA_KERNEL_NAME(id, name) name,
static const char *const kernel_names[] = {CUDA_KERNEL_LIST(CUDA_KERNEL_NAME)};

const char *cuda_kernel_name(enum kernel_id id) {
    return kernel_names[id];
}

enum status cuda_failed(cudaError_t e, const char *expr, const char *file, int line, struct err *err) {
    const char *base = strrchr(file, '/');
    enum status s = e == cudaErrorMemoryAllocation ? STATUS_NOMEM : STATUS_DEVICE;
    (void)cudaGetLastError(); /* a non-sticky error must not be blamed on the next call */
    return err_set(err, s, "cuda: %s failed: %s (%s:%d)", expr, cudaGetErrorString(e),
                   base != NULL ? base + 1 : file, line);
}

int cuda_refused(const char *expr) {
    char name[48] = "";
    size_t n = strcspn(expr, "(");
    memcpy(name, expr, n < sizeof name ? n : sizeof name - 1);
    return FAULT_FAILS_COUNTED(FAULT_RUNTIME, name);
}

/* ---- launches ------------------------------------------------------------------------------------------------ */

/* The attribute belongs to the function, in the whole process: a second backend that asks for less would take away what
 * the first was granted. So the largest request so far is kept here, for all backends together. */
static struct {
    const void *func;
    size_t bytes;
} smem_grants[GRANTS_MAX];
static int n_smem_grants;
static pthread_mutex_t smem_lock = PTHREAD_MUTEX_INITIALIZER;

static enum status allow_smem_locked(struct cuda_context *c, const char *name, const void *func, size_t bytes,
                                     struct err *err) {
    if (bytes > c->smem_optin)
        return err_set(err, STATUS_DEVICE,
                       "cuda: kernel %s needs %zu bytes of shared memory, the device allows %zu", name, bytes,
                       c->smem_optin);
    if (bytes <= SMEM_DEFAULT) return STATUS_OK;
    int slot = 0;
    while (slot < n_smem_grants && smem_grants[slot].func != func) slot++;
    if (slot < n_smem_grants && smem_grants[slot].bytes >= bytes) return STATUS_OK;
    if (slot == GRANTS_MAX)
        return err_set(err, STATUS_LIMIT, "cuda: more than %d kernel instances ask for shared memory",
                       GRANTS_MAX);
    cudaError_t e = FAULT_FAILS_NAMED("attr", name)
                        ? cudaErrorInvalidValue
                        : cudaFuncSetAttribute(func, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        return err_set(err, STATUS_DEVICE, "cuda: kernel %s was refused %zu bytes of shared memory: %s", name,
                       bytes, cudaGetErrorString(e));
    }
    smem_grants[slot].func = func;
    smem_grants[slot].bytes = bytes;
    if (slot == n_smem_grants) n_smem_grants++;
    return STATUS_OK;
}

static enum status allow_smem(struct cuda_context *c, const char *name, const void *func, size_t bytes,
                              struct err *err) {
    (void)pthread_mutex_lock(&smem_lock);
    enum status s = allow_smem_locked(c, name, func, bytes, err);
    (void)pthread_mutex_unlock(&smem_lock);
    return s;
}

enum status cuda_launch_loop(struct cuda_context *c, const char *name, const void *func, dim3 grid,
                             dim3 block, size_t smem, void **args, struct err *err) {
    RETURN_IF_ERROR(cuda_settle(c, err));
    RETURN_IF_ERROR(allow_smem(c, name, func, smem, err));
    int fails =
        FAULT_FAILS_NAMED("launch", name) || (name == kernel_names[KERNEL_ADD] && FAULT(RT_NOLAUNCHCHECK));
    cudaError_t e =
        fails ? cudaErrorLaunchOutOfResources : cudaLaunchKernel(func, grid, block, args, smem, c->stream);
    if (e == cudaSuccess) e = cudaGetLastError();
    if (e != cudaSuccess && !FAULT(RT_NOLAUNCHCHECK)) {
        (void)cudaGetLastError();
        return err_set(err, STATUS_DEVICE,
                       "cuda: launch of %s failed: %s (grid %ux%ux%u, block %u, %zu bytes shared)", name,
                       cudaGetErrorString(e), grid.x, grid.y, grid.z, block.x, smem);
    }
    return STATUS_OK;
}

enum status cuda_launch(struct cuda_context *c, enum kernel_id id, const void *func, dim3 grid, dim3 block,
                        size_t smem, void **args, struct err *err) {
    RETURN_IF_ERROR(cuda_launch_loop(c, kernel_names[id], func, grid, block, smem, args, err));
    c->calls[id]++;
    cuda_launch_note(c, id, func, (int)(block.x * block.y * block.z), smem);
    return STATUS_OK;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

enum status cuda_reserve(struct cuda_context *c, size_t bytes, void **out, struct err *err) {
    *out = NULL;
    if (c->n_owned == c->owned_room) {
        int room = c->owned_room == 0 ? 64 : 2 * c->owned_room;
        void **more = realloc(c->owned, (size_t)room * sizeof *more);
        if (more == NULL) return err_set(err, STATUS_NOMEM, "cuda: out of host memory");
        c->owned = more;
        c->owned_room = room;
    }
    cudaError_t e = FAULT_FAILS_COUNTED(FAULT_ALLOC, "") ? cudaErrorMemoryAllocation
                                                         : cudaMalloc(out, bytes == 0 ? 256 : bytes);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        return err_set(err, STATUS_NOMEM, "cuda: no device memory for %zu bytes: %s", bytes,
                       cudaGetErrorString(e));
    }
    c->owned[c->n_owned++] = *out;
    c->base.memory_calls++;
    return STATUS_OK;
}

void cuda_release(struct cuda_context *c, void *p) {
    for (int i = c->n_owned - 1; p != NULL && i >= 0; i--) {
        if (c->owned[i] != p) continue;
        c->owned[i] = c->owned[--c->n_owned];
        (void)cudaFree(p);
        c->base.memory_calls++;
        return;
    }
}

enum status cuda_reserve_host(struct cuda_context *c, size_t bytes, void **out, struct err *err) {
    *out = NULL;
    cudaError_t e = FAULT_FAILS_COUNTED(FAULT_ALLOC, "") ? cudaErrorMemoryAllocation
                                                         : cudaMallocHost(out, bytes == 0 ? 1 : bytes);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        *out = NULL;
        return err_set(err, STATUS_NOMEM, "cuda: no page-locked memory for %zu bytes: %s", bytes,
                       cudaGetErrorString(e));
    }
    c->base.memory_calls++;
    return STATUS_OK;
}

void cuda_release_host(struct cuda_context *c, void *p) {
    if (p == NULL) return;
    (void)cudaFreeHost(p);
    c->base.memory_calls++;
}

void cuda_release_all(struct cuda_context *c) {
    for (int i = 0; i < c->n_owned; i++) (void)cudaFree(c->owned[i]);
    free(c->owned);
    c->owned = NULL;
    c->n_owned = c->owned_room = 0;
}

enum status cuda_copy(struct cuda_context *c, void *dst, const void *src, size_t bytes,
                      enum cudaMemcpyKind kind, struct err *err) {
    RETURN_IF_ERROR(cuda_settle(c, err));
    cudaError_t e = FAULT_FAILS_COUNTED(FAULT_COPY, "") ? cudaErrorUnknown
                                                        : cudaMemcpyAsync(dst, src, bytes, kind, c->stream);
    if (e == cudaSuccess) return STATUS_OK;
    (void)cudaGetLastError();
    return err_set(err, STATUS_DEVICE, "cuda: copy of %zu bytes failed: %s", bytes, cudaGetErrorString(e));
}

enum status cuda_fill(struct cuda_context *c, void *dst, int byte, size_t bytes, struct err *err) {
    RETURN_IF_ERROR(cuda_settle(c, err));
    cudaError_t e =
        FAULT_FAILS_COUNTED(FAULT_COPY, "") ? cudaErrorUnknown : cudaMemsetAsync(dst, byte, bytes, c->stream);
    if (e == cudaSuccess) return STATUS_OK;
    (void)cudaGetLastError();
    return err_set(err, STATUS_DEVICE, "cuda: fill of %zu bytes failed: %s", bytes, cudaGetErrorString(e));
}
