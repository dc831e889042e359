/* reduce.cuh - sums, maxima and counts over a warp; float sums follow the contract's halving tree.
 * Not for floats in any other order: integer reductions only where the result is exact.
 * Source: ops.h, "halving tree". Exercise: device_parity */
#ifndef FORKGATE_REDUCE_CUH
#define FORKGATE_REDUCE_CUH

#include <stdint.h>

#define WARP_ALL 0xffffffffu

/* for s = 16, 8, .. 1: lane[i] += lane[i+s], i < s; the result is in lane 0 only. */
__device__ __forceinline__ float warp_tree_sum(float x) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) x += __shfl_down_sync(WARP_ALL, x, s);
    return x;
}

/* Adds this warp's counts to the device counter; called by all lanes. Integer, so the order is free. */
__device__ __forceinline__ void warp_count(unsigned n, unsigned long long *counter) {
    unsigned total = __reduce_add_sync(WARP_ALL, n);
    if (total != 0 && threadIdx.x % 32 == 0) atomicAdd(counter, (unsigned long long)total);
}

#endif
