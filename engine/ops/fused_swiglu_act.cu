/* fused_swiglu_act.cu - swiglu and act_prepare in one pass: a warp takes 256 neighbouring columns of a row.
 * Not another formula: the product is swiglu.cu's, scale and codes are act.cuh's; it writes both results.
 * Source: ours. Exercise: device_parity --op step */
#include "../cuda/act.cuh"
#include "../cuda/check.h"

#define LANE_COLS 8 /* columns of a lane: two 16-byte pieces */
#define WARP_COLS (WARP * LANE_COLS)

struct swiglu_act_args {
    const float *g, *u;
    float *y;
    int64_t k; /* columns of a row */
    act_out out;
};

__device__ __forceinline__ float swiglu_of(float g, float u) {
    return (g * (1.0f / (1.0f + fm_expf(-g)))) * u;
}

/* Codes of a lane's columns; LANES lanes share a block. */
template <int LANES>
__device__ __forceinline__ void swiglu_codes(const float v[LANE_COLS], const act_out &out, int64_t at,
                                             bool live) {
    uint32_t top = 0;
    int lane = threadIdx.x % WARP, code[LANE_COLS], sum = 0;
#pragma unroll
    for (int i = 0; i < LANE_COLS; i++) top = max(top, act_magnitude(v[i]));
#pragma unroll
    for (int s = 1; s < LANES; s *= 2) top = max(top, __shfl_xor_sync(WARP_ALL, top, s));
    act_scale scale = act_scale_of(__uint_as_float(top), out.overflow, live && lane % LANES == 0);
#pragma unroll
    for (int i = 0; i < LANE_COLS; i++) sum += code[i] = act_code(v[i], scale.inverse);
    sum += __shfl_xor_sync(WARP_ALL, sum, 1);
    if (!live) return;
    *(uint2 *)(void *)(out.q + at) = make_uint2(act_pack(code[0], code[1], code[2], code[3]),
                                                act_pack(code[4], code[5], code[6], code[7]));
    if (lane % 2 == 0) out.sum[at / ACT_SUM_GROUP] = (int16_t)sum;
    if (lane % LANES == 0) out.d[at / (LANES * LANE_COLS)] = scale.d;
}

__device__ __forceinline__ void swiglu_f16(const float v[LANE_COLS], const act_out &out, int64_t at,
                                           bool live) {
    uint32_t h[LANE_COLS / 2];
    unsigned over = 0;
#pragma unroll
    for (int i = 0; i < LANE_COLS / 2; i++) {
        h[i] = f16_pair(v[2 * i], v[2 * i + 1]);
        over += f16_overflows((uint16_t)(h[i] & 0xffff)) + f16_overflows((uint16_t)(h[i] >> 16));
    }
    if (live) *(uint4 *)(void *)(out.f16 + at) = make_uint4(h[0], h[1], h[2], h[3]);
    warp_count(live ? over : 0, out.overflow);
}

template <int KIND> __global__ void __launch_bounds__(ELEMENT_THREADS) swiglu_act_kernel(swiglu_act_args a) {
    int64_t c = (int64_t)blockIdx.x * ELEMENT_THREADS * LANE_COLS + threadIdx.x * LANE_COLS;
    int64_t at = (int64_t)blockIdx.y * a.k + c;
    bool live = c < a.k; /* k is a multiple of LANE_COLS */
    float v[LANE_COLS] = {};
    if (live) {
        const float4 *g = (const float4 *)(const void *)(a.g + at),
                     *u = (const float4 *)(const void *)(a.u + at);
        float4 g0 = g[0], g1 = g[1], u0 = u[0], u1 = u[1];
        v[0] = swiglu_of(g0.x, u0.x), v[1] = swiglu_of(g0.y, u0.y);
        v[2] = swiglu_of(g0.z, u0.z), v[3] = swiglu_of(g0.w, u0.w);
        v[4] = swiglu_of(g1.x, u1.x), v[5] = swiglu_of(g1.y, u1.y);
        v[6] = swiglu_of(g1.z, u1.z), v[7] = swiglu_of(g1.w, u1.w);
        float4 *y = (float4 *)(void *)(a.y + at);
        y[0] = make_float4(v[0], v[1], v[2], v[3]);
        y[1] = make_float4(v[4], v[5], v[6], v[7]);
    }
    if constexpr (KIND == ACT_F16) swiglu_f16(v, a.out, at, live);
    if constexpr (KIND == ACT_Q8_32) swiglu_codes<ACT_BLOCK_32 / LANE_COLS>(v, a.out, at, live);
    if constexpr (KIND == ACT_Q8_256) swiglu_codes<ACT_BLOCK_256 / LANE_COLS>(v, a.out, at, live);
}

extern "C" enum status fused_swiglu_act(struct cuda_context *c, const struct swiglu_call *s,
                                        const struct act *out, int *done, struct err *err) {
    int64_t k = out->k, rows = s->n / k, unit = out->kind == ACT_Q8_256 ? ACT_BLOCK_256 : ACT_BLOCK_32;
    if (k % unit != 0) return STATUS_OK; /* an f16 row then has no padding either */
    swiglu_act_args a = {s->g, s->u, s->y, k, act_out_of(out, c->overflow)};
    auto kernel = out->kind == ACT_F16     ? swiglu_act_kernel<ACT_F16>
                  : out->kind == ACT_Q8_32 ? swiglu_act_kernel<ACT_Q8_32>
                                           : swiglu_act_kernel<ACT_Q8_256>;
    FAULT_SITES(out->kind != ACT_F16 ? FAULT_BIT(Q_AMAX126) : 0);
    *done = 1;
    return cuda_start(c, KERNEL_SWIGLU_ACT, kernel,
                      dim3(ceil_div(k, ELEMENT_THREADS * LANE_COLS), (unsigned)rows), dim3(ELEMENT_THREADS),
                      0, err, a);
}
