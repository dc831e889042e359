/* tensor_map.h - describes a tensor in device memory to the bulk copy engine (sm_90a kernels take the map by value).
 * Not a cache: a map is 128 bytes made in a microsecond for each launch.
 * Idea: the only driver call of the engine; it is reached through the runtime, so nothing links libcuda.
 * Source: CUDA driver API, tensor map object management. Exercise: device_parity --op matmul */
#ifndef FORKGATE_TENSOR_MAP_H
#define FORKGATE_TENSOR_MAP_H

#include <cuda.h>

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TENSOR_RANK_MAX 3
#define TENSOR_BOX_X    64 /* f16 elements of a box row: 128 bytes, the swizzle's width */

/* An f16 tensor of `rank` dims, innermost first: dim[i] elements, stride[i] bytes from one index of dim i to the next
 * (stride[0] is 2, the others multiples of 16). A box is TENSOR_BOX_X x box[1] x box[2]; it lands in shared memory as
 * rows of 128 bytes, 16-byte pieces swizzled by row % 8; elements outside the tensor are zero. */
struct tensor_shape {
    const void *base;
    int rank;
    uint64_t dim[TENSOR_RANK_MAX], stride[TENSOR_RANK_MAX];
    uint32_t box[TENSOR_RANK_MAX];
};

enum status cuda_tensor_map(struct cuda_context *c, const struct tensor_shape *s, CUtensorMap *out,
                            struct err *err);

#ifdef __cplusplus
}
#endif
#endif
