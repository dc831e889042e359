/* device_tc_instructions.cuh - one tile of products by each of the device's tensor-core instructions.
 * Not the engine's kernels: fragments are loaded by hand, nothing stands between operands and instruction.
 * Idea: one warpgroup per tile, warp w takes rows 16w .. 16w+15; c += a b over k, in steps of 16.
 * Source: PTX ISA 8, matrix fragments of m16n8k16 and wgmma m64n16k16. Exercise: device_tc */
#ifndef FORKGATE_DEVICE_TC_INSTRUCTIONS_CUH
#define FORKGATE_DEVICE_TC_INSTRUCTIONS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>
#include <type_traits>

#include "device_tc_inputs.h"

#define TILE_OUT (TC_TEST_M * TC_TEST_N)

__device__ uint32_t pair_at(const uint16_t *row, int k) {
    return (uint32_t)row[k] | (uint32_t)row[k + 1] << 16;
}

/* A of m16n8k16: rows g, g+8; k 2q, 2q+1 and +8. */
__device__ void load_a(uint32_t r[4], const uint16_t *a, int row0, int k0, int k) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const uint16_t *low = a + (row0 + g) * k + k0 + 2 * q, *high = low + 8 * k;
    r[0] = pair_at(low, 0);
    r[1] = pair_at(high, 0);
    r[2] = pair_at(low, 8);
    r[3] = pair_at(high, 8);
}

template <bool BF16> __device__ void mma_once(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    if (BF16)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <bool BF16> __global__ void mma_sync_kernel(const uint16_t *a, const uint16_t *b, float *c, int k) {
    a += (size_t)blockIdx.x * TC_TEST_M * k;
    b += (size_t)blockIdx.x * TC_TEST_N * k;
    c += (size_t)blockIdx.x * TILE_OUT;
    int row0 = threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    for (int j = 0; j < TC_TEST_N / 8; j++) {
        float *at = c + (row0 + g) * TC_TEST_N + j * 8 + 2 * q, *below = at + 8 * TC_TEST_N;
        float d[4] = {at[0], at[1], below[0], below[1]};
        for (int k0 = 0; k0 < k; k0 += TC_K) {
            uint32_t ra[4];
            load_a(ra, a, row0, k0, k);
            const uint16_t *col = b + (j * 8 + g) * k + k0 + 2 * q;
            mma_once<BF16>(d, ra, pair_at(col, 0), pair_at(col, 8));
        }
        at[0] = d[0], at[1] = d[1], below[0] = d[2], below[1] = d[3];
    }
}

template <bool BF16> __global__ void wmma_kernel(const uint16_t *a, const uint16_t *b, float *c, int k) {
    using namespace nvcuda;
    using T = typename std::conditional<BF16, __nv_bfloat16, __half>::type;
    const T *ta = (const T *)a + (size_t)blockIdx.x * TC_TEST_M * k,
            *tb = (const T *)b + (size_t)blockIdx.x * TC_TEST_N * k;
    float *tc = c + (size_t)blockIdx.x * TILE_OUT + threadIdx.x / 32 * 16 * TC_TEST_N;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fc, tc, TC_TEST_N, wmma::mem_row_major);
    for (int k0 = 0; k0 < k; k0 += TC_K) {
        wmma::load_matrix_sync(fa, ta + threadIdx.x / 32 * 16 * k + k0, k);
        wmma::load_matrix_sync(fb, tb + k0, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(tc, fc, TC_TEST_N, wmma::mem_row_major);
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WGMMA_ASM(TYPE)                                                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.fence.sync.aligned;\n"                       \
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                                 \
                 " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, p, 1, 1, 0;\n"                           \
                 "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}"                     \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),       \
                   "+f"(d[7])                                                                                \
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "l"(desc)                                 \
                 : "memory")
#endif

/* B in shared memory as 8x8 core matrices of 128 bytes, K-major, no swizzle: (n8, k8) at (2*n8 + k8) * 128. */
template <bool BF16> __global__ void wgmma_kernel(const uint16_t *a, const uint16_t *b, float *c, int k) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ __align__(128) uint16_t sb[TC_TEST_N * TC_K];
    a += (size_t)blockIdx.x * TC_TEST_M * k;
    b += (size_t)blockIdx.x * TC_TEST_N * k;
    c += (size_t)blockIdx.x * TILE_OUT;
    int row0 = threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    float *at = c + (row0 + g) * TC_TEST_N + 2 * q, *below = at + 8 * TC_TEST_N, d[8];
    for (int j = 0; j < 2; j++) {
        d[4 * j] = at[8 * j], d[4 * j + 1] = at[8 * j + 1];
        d[4 * j + 2] = below[8 * j], d[4 * j + 3] = below[8 * j + 1];
    }
    uint64_t desc = ((uint64_t)__cvta_generic_to_shared(sb) & 0x3ffff) >> 4 | (uint64_t)(128 >> 4) << 16 |
                    (uint64_t)(256 >> 4) << 32;
    for (int k0 = 0; k0 < k; k0 += TC_K) {
        __syncthreads();
        for (int i = threadIdx.x; i < TC_TEST_N * TC_K; i += blockDim.x) {
            int n = i / TC_K, kk = i % TC_K;
            sb[(2 * (n / 8) + kk / 8) * 64 + n % 8 * 8 + kk % 8] = b[n * k + k0 + kk];
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        uint32_t ra[4];
        load_a(ra, a, row0, k0, k);
        if (BF16)
            WGMMA_ASM("bf16");
        else
            WGMMA_ASM("f16");
    }
    for (int j = 0; j < 2; j++) {
        at[8 * j] = d[4 * j], at[8 * j + 1] = d[4 * j + 1];
        below[8 * j] = d[4 * j + 2], below[8 * j + 1] = d[4 * j + 3];
    }
#else
    (void)a, (void)b, (void)c, (void)k;
#endif
}

#endif
