/* probe.cuh - counts the blocks of a kernel that are alive at once on each multiprocessor, in the build made for it.
 * Not in forkgate: PROBE_BLOCK() is nothing unless FORKGATE_OCCUPANCY_PROBE is defined (target forkgate-probe).
 * Idea: a block is counted while its thread 0 is inside the kernel, by integer atomics that no result depends on; what was
 * seen alive is a lower bound of what was resident. Every translation unit has counters of its own; probe.cu lists them.
 * Source: ours. Exercise: forkgate-probe occupancy --device */
#ifndef FORKGATE_CUDA_PROBE_CUH
#define FORKGATE_CUDA_PROBE_CUH

#ifdef FORKGATE_OCCUPANCY_PROBE
#include "probe.h"

static __device__ unsigned probe_alive[PROBE_SMS], probe_most[PROBE_SMS];

struct block_probe {
    unsigned sm;

    __device__ __forceinline__ block_probe() {
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        sm %= PROBE_SMS;
        if (threadIdx.x == 0) atomicMax(&probe_most[sm], atomicAdd(&probe_alive[sm], 1u) + 1u);
    }
    __device__ __forceinline__ ~block_probe() {
        if (threadIdx.x == 0) atomicSub(&probe_alive[sm], 1u);
    }
};

static cudaError_t probe_read(unsigned most[PROBE_SMS]) {
    static const unsigned zero[PROBE_SMS] = {0};
    cudaError_t e = cudaMemcpyFromSymbol(most, probe_most, sizeof probe_most);
    return e != cudaSuccess ? e : cudaMemcpyToSymbol(probe_most, zero, sizeof zero);
}
static const int probe_listed = cuda_probe_list(probe_read);

#define PROBE_BLOCK() block_probe probe_of_this_block
#else
#define PROBE_BLOCK() ((void)0)
#endif

#endif
