/* weights.cu - upload of one tensor: as it is (embed), as f32 (vectors), as f16 rows (route f16), as planes (route q8).
 * Not a cache: a tensor is uploaded once, with the model.
 * Idea: the file's bytes go to the device and are converted there, by the formulas of dtype.h.
 * Source: ours. Exercise: device_parity --op matmul */
#include <type_traits>

#include "check.h"
#include "dequant.cuh"
#include "planes.h"

/* out[r, c] = f16(value), zero for c >= k; counts values with no finite f16. */
template <int T>
__global__ void __launch_bounds__(UPLOAD_THREADS)
    weight_f16_kernel(const uint8_t *src, int64_t row_bytes, int64_t n, int64_t k, int64_t k_pad,
                      uint16_t *out, unsigned long long *overflow) {
    int64_t i = (int64_t)blockIdx.x * UPLOAD_THREADS + threadIdx.x, r = i / k_pad, c = i % k_pad;
    if (r >= n) return;
    uint16_t h = c < k ? f16_bits(dequant_element<T>(src + r * row_bytes, c)) : (uint16_t)0;
    out[i] = h;
    if (f16_overflows(h)) atomicAdd(overflow, 1ull);
}

template <int T>
__global__ void __launch_bounds__(UPLOAD_THREADS)
    weight_vector_kernel(const uint8_t *src, int64_t row_bytes, int64_t n, int64_t k, float *out) {
    int64_t i = (int64_t)blockIdx.x * UPLOAD_THREADS + threadIdx.x;
    if (i < n * k) out[i] = dequant_element<T>(src + i / k * row_bytes, i % k);
}

/* Moves byte `at` of block b to its plane. */
__global__ void __launch_bounds__(UPLOAD_THREADS)
    weight_planes_kernel(const uint8_t *src, int block_bytes, int64_t n_blocks, plane_set s, size_t at1,
                         size_t at2, size_t at3, uint8_t *out) {
    int64_t i = (int64_t)blockIdx.x * UPLOAD_THREADS + threadIdx.x, b = i / block_bytes;
    int at = (int)(i % block_bytes);
    if (b >= n_blocks) return;
    const size_t base[4] = {0, at1, at2, at3};
#pragma unroll
    for (int p = 0; p < 4; p++) {
        int in = at - s.part[p].at;
        if (in >= 0 && in < s.part[p].bytes) out[base[p] + (size_t)b * s.part[p].bytes + in] = src[i];
    }
}

struct upload {
    struct cuda_context *c;
    const uint8_t *raw; /* the file's bytes on the device */
    int64_t row_bytes;
    struct weight *w;
};

static enum status upload_vector(const struct upload *u, struct err *err) {
    struct weight *w = u->w;
    RETURN_IF_ERROR(cuda_reserve(u->c, (size_t)(w->n * w->k) * sizeof(float), &w->data, err));
    return dequant_dispatch(w->dtype, [&](auto type) {
        return cuda_start(u->c, KERNEL_WEIGHT_VECTOR, weight_vector_kernel<decltype(type)::value>,
                          dim3(ceil_div(w->n * w->k, UPLOAD_THREADS)), dim3(UPLOAD_THREADS), 0, err, u->raw,
                          u->row_bytes, w->n, w->k, (float *)w->data);
    });
}

static enum status upload_f16(const struct upload *u, struct err *err) {
    struct weight *w = u->w;
    struct cuda_context *c = u->c;
    int64_t k_pad = (w->k + TC_K - 1) / TC_K * TC_K;
    unsigned long long n_over = 0;
    RETURN_IF_ERROR(cuda_reserve(c, (size_t)(w->n * k_pad) * sizeof(uint16_t), &w->data, err));
    RETURN_IF_ERROR(cuda_fill(c, c->upload_overflow, 0, sizeof n_over, err));
    FAULT_SITES(w->dtype == DTYPE_Q5_0 ? FAULT_BIT(MM_MISALIGN) : 0);
    RETURN_IF_ERROR(dequant_dispatch(w->dtype, [&](auto type) {
        return cuda_start(c, KERNEL_WEIGHT_F16, weight_f16_kernel<decltype(type)::value>,
                          dim3(ceil_div(w->n * k_pad, UPLOAD_THREADS)), dim3(UPLOAD_THREADS), 0, err, u->raw,
                          u->row_bytes, w->n, w->k, k_pad, (uint16_t *)w->data, c->upload_overflow);
    }));
    RETURN_IF_ERROR(cuda_copy(c, &n_over, c->upload_overflow, sizeof n_over, cudaMemcpyDeviceToHost, err));
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    if (n_over == 0) return STATUS_OK;
    return err_set(err, STATUS_INVALID, "%llu of %lld weights have no finite f16 value", n_over,
                   (long long)(w->n * w->k));
}

static enum status upload_planes(const struct upload *u, struct err *err) {
    struct weight *w = u->w;
    const struct dtype_info *info = dtype_info((int)w->dtype);
    if (!info->is_quantised)
        return err_set(err, STATUS_UNSUPPORTED, "route q8 does not multiply %s weights", info->name);
    plane_set s = planes_of(w->dtype);
    int64_t n_blocks = w->n * (w->k / info->block);
    RETURN_IF_ERROR(cuda_reserve(u->c, plane_offset(&s, 4, (size_t)n_blocks), &w->data, err));
    return cuda_start(u->c, KERNEL_WEIGHT_PLANES, weight_planes_kernel,
                      dim3(ceil_div(n_blocks * info->bytes, UPLOAD_THREADS)), dim3(UPLOAD_THREADS), 0, err,
                      u->raw, info->bytes, n_blocks, s, plane_offset(&s, 1, (size_t)n_blocks),
                      plane_offset(&s, 2, (size_t)n_blocks), plane_offset(&s, 3, (size_t)n_blocks),
                      (uint8_t *)w->data);
}

static enum status convert(const struct upload *u, enum weight_use use, struct err *err) {
    struct cuda_context *c = u->c;
    RETURN_IF_ERROR(use == WEIGHT_VECTOR                ? upload_vector(u, err)
                    : c->base.config.route == ROUTE_F16 ? upload_f16(u, err)
                                                        : upload_planes(u, err));
    CUDA_TRY(cudaStreamSynchronize(c->stream), err);
    return STATUS_OK;
}

extern "C" enum status cuda_weight_upload(struct backend *self, enum weight_use use, enum dtype dtype,
                                          const void *src, int64_t n, int64_t k, struct weight *out,
                                          struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    const struct dtype_info *info = dtype_info((int)dtype);
    *out = {dtype, act_kind_for(c->base.config.route, dtype), n, k, NULL, NULL};
    if (info == NULL || n < 1 || k < 1 || k % info->block != 0)
        return err_set(err, STATUS_SHAPE, "weight of %lld x %lld does not fit its type", (long long)n,
                       (long long)k);
    int64_t row_bytes = (int64_t)dtype_bytes(dtype, (uint64_t)k);
    void *raw;
    RETURN_IF_ERROR(cuda_graph_flush(c, err));
    RETURN_IF_ERROR(cuda_reserve(c, (size_t)(n * row_bytes), &raw, err));
    struct upload u = {c, (const uint8_t *)raw, row_bytes, out};
    enum status s = cuda_copy(c, raw, src, (size_t)(n * row_bytes), cudaMemcpyHostToDevice, err);
    if (s == STATUS_OK && use == WEIGHT_EMBED) {
        out->data = raw;
        raw = NULL; /* kept as it is */
    } else if (s == STATUS_OK) {
        s = convert(&u, use, err);
    }
    cuda_release(c, raw);
    if (s == STATUS_OK) return s;
    cuda_release(c, out->data);
    out->data = NULL;
    return s;
}
