/* tensor_map.c - see tensor_map.h. */
#include "tensor_map.h"

#include <string.h>

#include "check.h"

#define TENSOR_MAP_SINCE 12000 /* driver version whose cuTensorMapEncodeTiled we ask for */

static enum status find_encoder(struct cuda_context *c, struct err *err) {
    enum cudaDriverEntryPointQueryResult found;
    CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &c->tensor_encoder, TENSOR_MAP_SINCE,
                                              cudaEnableDefault, &found),
             err);
    if (found == cudaDriverEntryPointSuccess && c->tensor_encoder != NULL) return STATUS_OK;
    c->tensor_encoder = NULL;
    return err_set(err, STATUS_DEVICE, "cuda: the driver has no cuTensorMapEncodeTiled");
}

enum status cuda_tensor_map(struct cuda_context *c, const struct tensor_shape *s, CUtensorMap *out,
                            struct err *err) {
    typedef CUresult encode_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                               const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                               CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                               CUtensorMapFloatOOBfill);
    encode_fn *encode;
    void *base;
    cuuint64_t dim[TENSOR_RANK_MAX], stride[TENSOR_RANK_MAX];
    cuuint32_t box[TENSOR_RANK_MAX], step[TENSOR_RANK_MAX];
    if (c->tensor_encoder == NULL) RETURN_IF_ERROR(find_encoder(c, err));
    memcpy(&encode, &c->tensor_encoder, sizeof encode);
    memcpy(&base, &s->base, sizeof base);
    for (int i = 0; i < s->rank; i++) {
        dim[i] = s->dim[i];
        if (i > 0) stride[i - 1] = s->stride[i];
        box[i] = i == 0 ? TENSOR_BOX_X : s->box[i];
        step[i] = 1;
    }
    CUresult r = cuda_refused("cuTensorMapEncodeTiled")
                     ? CUDA_ERROR_UNKNOWN
                     : encode(out, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, (cuuint32_t)s->rank, base, dim, stride,
                              box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r == CUDA_SUCCESS) return STATUS_OK;
    return err_set(err, STATUS_DEVICE, "cuda: a tensor map of %llu x %llu was refused (driver error %d)",
                   (unsigned long long)dim[0], (unsigned long long)dim[1], (int)r);
}
