/* emulator.h - enough of CUDA C for g++ to compile the kernels as they stand: forced in front of every .cu of the
 * emulated build, so that a machine without a GPU runs the kernels themselves and not only their twins.
 * Not emulated: time, wgmma and bulk tensor copies (the sm_90a instances; the device reports none), L1 and L2.
 * Idea: a thread is a fiber that runs until it must wait; a block's fibers take turns in order, a warp's exchange goes
 * through slots. Asynchronous copies land as late as the kernel allows, dynamic shared memory starts as NaN (static
 * does not), every allocation ends at a guard page: a missing wait, a missing barrier, an overrun or a deadlock shows each time.
 * Source: CUDA C programming guide; PTX ISA 8. Exercise: ctest -R emulator */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <cuda_runtime_api.h>
#include <functional>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>

#include "emulator_types.h"
#include "engine/fmath.h"

#define __CUDACC__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
/* One block runs at a time on a host thread, so its shared memory may be the thread's. */
#define __shared__ thread_local

/* ---- where a thread is --------------------------------------------------------------------------------------- */

struct emulated_thread {
    uint3 tid, bid;
    dim3 block, grid;
    int lane, warp;
};
extern thread_local struct emulated_thread *emulated_self;
#define threadIdx (emulated_self->tid)
#define blockIdx  (emulated_self->bid)
#define blockDim  (emulated_self->block)
#define gridDim   (emulated_self->grid)

/* Ends the launch: the next call that waits for the stream returns an error, and the reason goes to stderr. */
[[noreturn]] void emulated_stop(const char *what);

/* All threads that have not returned; a whole warp in lockstep. Threads that never come are a deadlock. */
void emulated_sync_block();
void emulated_sync_warp();
#define __syncthreads() emulated_sync_block()
#define __syncwarp()    emulated_sync_warp()

#include "emulator_intrinsics.h"

/* ---- launches ------------------------------------------------------------------------------------------------ */

/* A kernel's parameters are known where it is named (check.h: KERNEL_HANDLE); `bind` copies a launch's arguments. */
typedef std::function<std::function<void()>(void **args)> emulated_binder;
void emulated_register(const void *kernel, emulated_binder bind);

template <typename... P, size_t... I>
std::function<void()> emulated_bind(void (*kernel)(P...), void **args, std::index_sequence<I...>) {
    std::tuple<P...> copy{*(P *)args[I]...};
    return [kernel, copy] { std::apply(kernel, copy); };
}
template <typename... P> inline const void *emulated_handle(void (*kernel)(P...)) {
    emulated_register((const void *)kernel, [kernel](void **args) {
        return emulated_bind(kernel, args, std::index_sequence_for<P...>{});
    });
    return (const void *)kernel;
}
#define KERNEL_HANDLE(kernel) emulated_handle(kernel)

#endif
