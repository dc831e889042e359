/* norm.cuh - the tree and the scale of rmsnorm, shared by its own kernels and the fused one.
 * Source: Zhang & Sennrich 2019, eq. 4; order in ops.h. Exercise: device_parity --op rmsnorm */
#ifndef FORKGATE_NORM_CUH
#define FORKGATE_NORM_CUH

#include "fault.cuh"
#include "launch.h"
#include "reduce.cuh"

static_assert(NORM_LANES == 256, "the register tree below is written for 256 lanes");

/* Levels 128, 64, 32 on lane[j] = lane t + 32 j, then the warp's five; valid in lane 0. */
__device__ __forceinline__ float norm_tree(float lane[8]) {
#pragma unroll
    for (int s = 4; s > 0; s /= 2)
#pragma unroll
        for (int j = 0; j < s; j++) lane[j] += lane[j + s];
    return FAULT_TOLD(RT_ATOMICS) ? FAULT_ARRIVAL_SUM(lane[0]) : warp_tree_sum(lane[0]);
}

/* Columns a planted fault leaves out of the sum of squares; none otherwise. */
__device__ __forceinline__ bool norm_skips(int64_t c, int64_t cols) {
    return (FAULT_TOLD(SUM_SKIP_LAST) && cols % NORM_LANES != 0 && c == cols - 1) ||
           (FAULT_TOLD(NORM_TAIL) && cols % 1024 != 0 && cols > 4 && c >= cols - 4);
}
#define NORM_SITES(cols)                                                                                     \
    FAULT_SITES(FAULT_BIT(RT_ATOMICS) | ((cols) % NORM_LANES != 0 ? FAULT_BIT(SUM_SKIP_LAST) : 0) |          \
                ((cols) % 1024 != 0 && (cols) > 4 ? FAULT_BIT(NORM_TAIL) : 0))

__device__ __forceinline__ float norm_scale(float sum, int64_t cols, float eps) {
    float mean = sum / (float)cols;
    return 1.0f / sqrtf(mean + eps);
}

#endif
