/* check.h - the one door to the device: launches, attributes, memory, copies and every other call of the runtime, each
 * checked and each able to be told to fail (fault.h; only in forkgate-faults).
 * Not a convenience layer: tests/check_door.sh holds engine/ to it. Around it go, and nothing else: frees, destroys and
 * cudaGetLastError (what an error leaves behind; no result hangs on them), error texts, and what a product build has not:
 * fault.cuh (the plants themselves) and probe.* (counters of forkgate-probe).
 * Idea: every launch reads the error, counts its kernel by name and can be refused, so a refusal is one clear line and
 * never a buffer of old numbers. Host and device memory is counted too: a step takes and gives back none (backend.h).
 * Graphs are the driver's: it makes one in memory of its own in the second decode step of the same caches.
 * Source: ours. Exercise: tests/device_failures.sh ; FORKGATE_FAULT=fail:launch:swiglu forkgate-faults generate ... */
#ifndef FORKGATE_CUDA_CHECK_H
#define FORKGATE_CUDA_CHECK_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *cuda_kernel_name(enum kernel_id id);

/* "cuda: <expr> failed: <reason> (file:line)"; STATUS_NOMEM for a refused allocation, STATUS_DEVICE otherwise. */
enum status cuda_failed(cudaError_t e, const char *expr, const char *file, int line, struct err *err);

/* Was this call (its text, from the name on) told to fail? Counts it. */
int cuda_refused(const char *expr);

/* A call of the runtime: its error, or the one that was asked for. */
#define CUDA_CALL(expr) (cuda_refused(#expr) ? cudaErrorUnknown : (expr))

#define CUDA_TRY(expr, err)                                                                                  \
    do {                                                                                                     \
        cudaError_t cuda_try_e_ = CUDA_CALL(expr);                                                           \
        if (cuda_try_e_ != cudaSuccess) return cuda_failed(cuda_try_e_, #expr, __FILE__, __LINE__, (err));   \
    } while (0)

/* Launches on the context's stream. More than the default dynamic shared memory is asked for first (once per instance)
 * and checked against the device's opt-in limit: a refusal is an error, never another kernel. */
enum status cuda_launch(struct cuda_context *c, enum kernel_id id, const void *func, dim3 grid, dim3 block,
                        size_t smem, void **args, struct err *err);
/* The same for a loop that is no op (measure.cu): refused by `name`, not in the census. */
enum status cuda_launch_loop(struct cuda_context *c, const char *name, const void *func, dim3 grid,
                             dim3 block, size_t smem, void **args, struct err *err);

/* Device memory, 256-byte aligned, remembered until freed; cuda_release ignores NULL. */
enum status cuda_reserve(struct cuda_context *c, size_t bytes, void **out, struct err *err);
void cuda_release(struct cuda_context *c, void *p);
/* Page-locked host memory. */
enum status cuda_reserve_host(struct cuda_context *c, size_t bytes, void **out, struct err *err);
void cuda_release_host(struct cuda_context *c, void *p);
void cuda_release_all(struct cuda_context *c);

/* Ordered on the stream; host memory may be pageable (then the call returns when the bytes were taken). */
enum status cuda_copy(struct cuda_context *c, void *dst, const void *src, size_t bytes,
                      enum cudaMemcpyKind kind, struct err *err);
/* Ordered on the stream; told to fail as a copy. */
enum status cuda_fill(struct cuda_context *c, void *dst, int byte, size_t bytes, struct err *err);

#ifdef __cplusplus
}

#include "fault.cuh"

template <typename T> struct launch_arg { using type = T; };

/* The driver needs a kernel's address and no more; the emulated build (tests/emulator/) its parameter types too. */
#ifndef KERNEL_HANDLE
#define KERNEL_HANDLE(kernel) ((const void *)(kernel))
#endif

/* Typed front of cuda_launch: arguments are converted to the kernel's own parameter types. */
template <typename... P>
static enum status cuda_start(struct cuda_context *c, enum kernel_id id, void (*kernel)(P...), dim3 grid,
                              dim3 block, size_t smem, struct err *err,
                              typename launch_arg<P>::type... args) {
    void *argv[] = {(void *)&args...};
    RETURN_IF_ERROR(FAULT_TELL_DEVICE(c, err));
    return cuda_launch(c, id, KERNEL_HANDLE(kernel), grid, block, smem, argv, err);
}

static inline unsigned ceil_div(int64_t a, int64_t b) {
    return (unsigned)((a + b - 1) / b);
}
#endif
#endif
