/* check.h - the one door to the device: launches, attributes, allocations and copies, each checked and countable.
 * Not a convenience layer: no kernel, device allocation or copy reaches the device around it. Around it go what a step never
 * fails by: pinned memory and fills at open, events, and replays of graphs whose launches came through here.
 * Idea: every launch reads the error, counts its kernel by name and can be told to fail, so a refused launch is one clear
 * line and never a buffer of old numbers. Injection exists only where FORKGATE_FAULTS is defined (check.c).
 * Source: ours. Exercise: FORKGATE_FAULT=fail:launch:swiglu forkgate-faults generate ... */
#ifndef FORKGATE_CUDA_CHECK_H
#define FORKGATE_CUDA_CHECK_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *cuda_kernel_name(enum kernel_id id);

/* "cuda: <expr> failed: <reason> (file:line)"; STATUS_NOMEM for a refused allocation, STATUS_DEVICE otherwise. */
enum status cuda_failed(cudaError_t e, const char *expr, const char *file, int line, struct err *err);

#define CUDA_TRY(expr, err)                                                                                  \
    do {                                                                                                     \
        cudaError_t cuda_try_e_ = (expr);                                                                    \
        if (cuda_try_e_ != cudaSuccess) return cuda_failed(cuda_try_e_, #expr, __FILE__, __LINE__, (err));   \
    } while (0)

/* Launches on the context's stream. More than the default dynamic shared memory is asked for first (once per instance)
 * and checked against the device's opt-in limit: a refusal is an error, never another kernel. */
enum status cuda_launch(struct cuda_context *c, enum kernel_id id, const void *func, dim3 grid, dim3 block,
                        size_t smem, void **args, struct err *err);

/* Device memory, 256-byte aligned, remembered until freed; cuda_release ignores NULL. */
enum status cuda_reserve(struct cuda_context *c, size_t bytes, void **out, struct err *err);
void cuda_release(struct cuda_context *c, void *p);
void cuda_release_all(struct cuda_context *c);

/* Ordered on the stream; host memory may be pageable (then the call returns when the bytes were taken). */
enum status cuda_copy(struct cuda_context *c, void *dst, const void *src, size_t bytes,
                      enum cudaMemcpyKind kind, struct err *err);

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
