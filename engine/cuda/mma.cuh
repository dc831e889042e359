/* mma.cuh - the tensor-core and asynchronous-copy instructions the kernels use, one function each.
 * Not an abstraction of layouts: fragment positions are written where they are used.
 * Idea: lane = 4*g + q. m16n8k16 (f16): A rows g, g+8, k 2q, 2q+1 (+8); B column g, k 2q, 2q+1 (+8); C rows g, g+8,
 * columns 2q, 2q+1. m16n8k32 (s8): A rows g, g+8, k 4q..4q+3 (+16); B column g; C as above.
 * Source: PTX ISA 8, mma, ldmatrix, cp.async. Exercise: device_tc */
#ifndef FORKGATE_MMA_CUH
#define FORKGATE_MMA_CUH

#include <cuda_fp16.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t smem_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* c = tc(c, a . b): one TC_K step */
__device__ __forceinline__ void mma_f16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* c += a . b over 32 int8 products, exact */
__device__ __forceinline__ void mma_s8_k32(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same over 16: rows g, g+8 in a0, a1 (k 4q..4q+3), column g in b. */
__device__ __forceinline__ void mma_s8_k16(int c[4], uint32_t a0, uint32_t a1, uint32_t b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}

/* Four 8x8 matrices of 16-bit elements (eight rows of 16 bytes each): lane l gives the address of row l%8 of matrix l/8;
 * register i of lane 4g+q receives row g, elements 2q, 2q+1 of matrix i. */
__device__ __forceinline__ void ldmatrix_x4(uint32_t r[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}
__device__ __forceinline__ void ldmatrix_x2(uint32_t r[2], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address));
}
/* Transposed: register i of lane 4g+q receives rows 2q, 2q+1, element g. */
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t r[2], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address));
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t r[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

/* 16 bytes to shared memory, asynchronously; valid == 0 writes zeros and does not touch src. */
__device__ __forceinline__ void copy_async_16(uint32_t dst, const void *src, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(valid ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* All but the latest N groups of this thread are complete. */
template <int N> __device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* f16 bits, round to nearest even (cvt.rn: the same as fm_f32_to_f16 for every value; NaN as a class). */
__device__ __forceinline__ uint16_t f16_bits(float x) {
    return __half_as_ushort(__float2half_rn(x));
}
__device__ __forceinline__ float f16_value(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}
/* low in bits 0..15 */
__device__ __forceinline__ uint32_t f16_pair(float low, float high) {
    return (uint32_t)f16_bits(low) | (uint32_t)f16_bits(high) << 16;
}
/* 1 when the f16 bits are Inf or NaN */
__device__ __forceinline__ int f16_overflows(uint16_t h) {
    return (h & 0x7c00u) == 0x7c00u;
}

#endif
