/* fault.cuh - planted faults inside kernels: FAULT_TOLD(id) is the constant 0 in a normal build.
 * Not a parameter: no kernel and no argument struct knows about faults, so a normal build has the code it always had.
 * Idea: in forkgate-faults each .cu file with sites keeps the bits of what is on in its own constant memory; cuda_start
 * puts them there before the file's first launch. Launchers say what a launch reaches (FAULT_SITES, fault.h).
 * Source: ours. Exercise: forkgate mutants --backend cuda */
#ifndef FORKGATE_FAULT_CUH
#define FORKGATE_FAULT_CUH

#include "../fault.h"

#ifndef FORKGATE_FAULTS

#define FAULT_TOLD(id)            0
#define FAULT_BLOCK_TURN()        0u
#define FAULT_ARRIVAL_SUM(x)      (x)
#define FAULT_TELL_DEVICE(c, err) STATUS_OK

#else

#include <cuda_runtime_api.h>

#ifdef EMULATOR_H /* kernels run on the host: they can ask */

#define FAULT_TOLD(id)            (fault_mask() >> FAULT_##id & 1)
#define FAULT_TELL_DEVICE(c, err) STATUS_OK
inline unsigned fault_turn() {
    return fault_arrival();
}

#else

static __constant__ unsigned long long fault_told;
static __device__ unsigned fault_turns;
#define FAULT_TOLD(id)            (fault_told >> FAULT_##id & 1)
#define FAULT_TELL_DEVICE(c, err) fault_tell_device(err)
static __device__ __forceinline__ unsigned fault_turn() {
    return atomicAdd(&fault_turns, 1u);
}

/* Another stream may be capturing: this copy is no part of it. */
static inline enum status fault_tell_device(struct err *err) {
    static unsigned long long told = 0; /* constant memory starts as zero */
    unsigned long long now = fault_mask();
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (told == now) return STATUS_OK;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t e = cudaMemcpyToSymbol(fault_told, &now, sizeof now);
    if (e == cudaSuccess) e = cudaStreamSynchronize(cudaStreamLegacy);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (e == cudaSuccess) told = now;
    return e == cudaSuccess ? STATUS_OK : err_set(err, STATUS_DEVICE, "faults: %s", cudaGetErrorString(e));
}

#endif

#define FAULT_BLOCK_TURN()   fault_block_turn()
#define FAULT_ARRIVAL_SUM(x) fault_arrival_sum(x)

/* Any number, the same for all threads of the block: the order in which something would have arrived. */
__device__ __forceinline__ unsigned fault_block_turn() {
    __shared__ unsigned turn;
    if (threadIdx.x == 0) turn = fault_turn();
    __syncthreads();
    return turn;
}

/* Sum of a warp's x in an order that differs from call to call. */
__device__ __forceinline__ float fault_arrival_sum(float x) {
    unsigned first = __shfl_sync(0xffffffffu, fault_turn(), 0);
    float sum = 0.0f;
    for (unsigned i = 0; i < 32; i++) sum += __shfl_sync(0xffffffffu, x, (int)((first + i) % 32));
    return sum;
}

#endif
#endif
