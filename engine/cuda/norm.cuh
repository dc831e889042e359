/* norm.cuh - the tree and the scale of rmsnorm, shared by its own kernels and the fused one.
 * Source: Zhang & Sennrich 2019, eq. 4; order in ops.h. Exercise: device_parity --op rmsnorm */
#ifndef FORKGATE_NORM_CUH
#define FORKGATE_NORM_CUH

#include "launch.h"
#include "reduce.cuh"

static_assert(NORM_LANES == 256, "the register tree below is written for 256 lanes");

/* Levels 128, 64, 32 on lane[j] = lane t + 32 j, then the warp's five; valid in lane 0. */
__device__ __forceinline__ float norm_tree(float lane[8]) {
#pragma unroll
    for (int s = 4; s > 0; s /= 2)
#pragma unroll
        for (int j = 0; j < s; j++) lane[j] += lane[j + s];
    return warp_tree_sum(lane[0]);
}

__device__ __forceinline__ float norm_scale(float sum, int64_t cols, float eps) {
    float mean = sum / (float)cols;
    return 1.0f / sqrtf(mean + eps);
}

#endif
