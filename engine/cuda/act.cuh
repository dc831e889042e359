/* act.cuh - act_prepare as the tail of a kernel that has the values in registers: int8 blocks and f16, as act_prepare.cu.
 * Not a second definition: the scale and the code of an element are written once, here.
 * Source: ops.h (act_prepare). Exercise: device_parity --op act_prepare; --op step */
#ifndef FORKGATE_ACT_CUH
#define FORKGATE_ACT_CUH

#include "../fmath.h"
#include "../ops.h"
#include "fault.cuh"
#include "mma.cuh"
#include "reduce.cuh"

#define ACT_AMAX_MIN 0x1p-100f /* as the twin */

/* Where a row's prepared form goes. */
struct act_out {
    uint16_t *f16;
    int8_t *q;
    float *d;
    int16_t *sum;
    unsigned long long *overflow;
};

static inline act_out act_out_of(const struct act *a, unsigned long long *overflow) {
    return {a->f16, a->q, a->d, a->sum, overflow};
}

/* Scale of a block and the factor of its values; inverse == 0: all codes are zero. */
struct act_scale {
    float d, inverse;
};
__device__ __forceinline__ act_scale act_scale_of(float amax, unsigned long long *overflow, bool count) {
    if (!fm_f32_is_finite(amax)) {
        if (count) atomicAdd(overflow, 1ull);
        return {fm_f32_from_bits(0x7fc00000u), 0.0f};
    }
    if (amax < ACT_AMAX_MIN) return {0.0f, 0.0f};
    float top = FAULT_TOLD(Q_AMAX126) ? 126.0f : 127.0f;
    return {amax / top, top / amax};
}
__device__ __forceinline__ int act_code(float x, float inverse) {
    return inverse == 0.0f ? 0 : (int)fm_rintf(x * inverse);
}
__device__ __forceinline__ uint32_t act_magnitude(float x) {
    return __float_as_uint(x) & 0x7fffffffu;
}
/* Four codes in a word, the first in the low byte. */
__device__ __forceinline__ uint32_t act_pack(int a, int b, int c, int d) {
    return (uint32_t)(a & 255) | (uint32_t)(b & 255) << 8 | (uint32_t)(c & 255) << 16 | (uint32_t)d << 24;
}
/* Sum of sixteen codes. */
__device__ __forceinline__ int act_sum16(const int4 &v) {
    int s = __dp4a(v.x, 0x01010101, 0);
    s = __dp4a(v.y, 0x01010101, s);
    s = __dp4a(v.z, 0x01010101, s);
    return __dp4a(v.w, 0x01010101, s);
}

#endif
