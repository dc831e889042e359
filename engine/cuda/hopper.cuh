/* hopper.cuh - the Hopper instructions the sm_90a kernels use: mbarrier, bulk tensor copy, wgmma, register hand-over.
 * Not a layout library: shared-memory tiles are always rows of 128 bytes with the 128-byte swizzle.
 * Idea: wgmma gives the bits of mma.sync (device_tc), so it may serve any product whose K order it keeps. Compiled only
 * for sm_90a; elsewhere the kernels that include this are empty and are never launched (context.h: hopper).
 * Source: PTX ISA 8, wgmma, cp.async.bulk.tensor, mbarrier. Exercise: device_tc, device_parity */
#ifndef FORKGATE_HOPPER_CUH
#define FORKGATE_HOPPER_CUH

#include <cuda.h> /* CUtensorMap: the type only */
#include <stdint.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

#define WARPGROUP 128

/* ---- mbarrier ------------------------------------------------------------------------------------------------ */
__device__ __forceinline__ void mbarrier_init(uint32_t bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
/* Makes initialised barriers visible to the copy engine and, in a cluster, to the other block (then cluster_sync). */
__device__ __forceinline__ void mbarrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_expect(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* Arrives at the barrier of the same offset in block `rank` of the cluster. */
__device__ __forceinline__ void mbarrier_arrive_at(uint32_t bar, uint32_t rank) {
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}
/* Waits until the phase of this parity is complete. */
__device__ __forceinline__ void mbarrier_wait(uint32_t bar, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\nWAIT:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

/* ---- bulk tensor copies: boxes of 64 f16 by rows, zeros outside the tensor ----------------------------------------- */
__device__ __forceinline__ void tensor_load_2d(uint32_t dst, const CUtensorMap *map, int x, int y,
                                               uint32_t bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(dst),
        "l"(map), "r"(x), "r"(y), "r"(bar)
        : "memory");
}
/* The same bytes and the same completion at the same offsets of every block in `blocks` (a bit mask of ranks). */
__device__ __forceinline__ void tensor_load_2d_multicast(uint32_t dst, const CUtensorMap *map, int x, int y,
                                                         uint32_t bar, uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(dst),
        "l"(map), "r"(x), "r"(y), "r"(bar), "h"(blocks)
        : "memory");
}
__device__ __forceinline__ void tensor_load_3d(uint32_t dst, const CUtensorMap *map, int x, int y, int z,
                                               uint32_t bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4}], [%5];" ::"r"(dst),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar)
                 : "memory");
}

/* ---- register hand-over between warpgroups ------------------------------------------------------------------------- */
template <int N> __device__ __forceinline__ void registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ __forceinline__ void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* ---- wgmma ------------------------------------------------------------------------------------------------------- */
/* Descriptor of rows of 64 f16 whose 16-byte pieces are swizzled; K along the row (A, or B as rows of B^T): the next
 * TC_K step is 32 bytes on. */
__device__ __forceinline__ uint64_t wgmma_rows(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | 1ull << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}
/* B with N along the row and K across rows; `panel` bytes from one group of 64 columns to the next. A TC_K step is 2 KB. */
__device__ __forceinline__ uint64_t wgmma_columns(uint32_t address, uint32_t panel) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(panel >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           1ull << 62;
}
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define WGMMA_REGS_32                                                                                        \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_REGS_64                                                                                        \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                       \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                       \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_REGS_128                                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                       \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                       \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                       \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                       \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                       \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "           \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_ON          "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n" /* d is added to, not overwritten */
#define WGMMA_ACC4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_ACC16(d, i) WGMMA_ACC4(d, i), WGMMA_ACC4(d, i + 4), WGMMA_ACC4(d, i + 8), WGMMA_ACC4(d, i + 12)
#define WGMMA_ACC32(d, i) WGMMA_ACC16(d, i), WGMMA_ACC16(d, i + 16)

/* d = tc(d, a . b): one TC_K step of 64 rows by N columns; d[4j + e] is column 8j + 2q + e%2 of row g + 8(e/2) of the
 * warp's 16. A and B from shared memory. */
__device__ __forceinline__ void wgmma_shared(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_ON "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_REGS_64
                          "}, %64, %65, p, 1, 1, 0, 0;\n}"
                 : WGMMA_ACC32(d, 0), WGMMA_ACC32(d, 32)
                 : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma_shared(float (&d)[128], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_ON "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" WGMMA_REGS_128
                          "}, %128, %129, p, 1, 1, 0, 0;\n}"
                 : WGMMA_ACC32(d, 0), WGMMA_ACC32(d, 32), WGMMA_ACC32(d, 64), WGMMA_ACC32(d, 96)
                 : "l"(a), "l"(b));
}
/* A in registers (the m16n8k16 fragment of each warp); B's K along the row (COLUMNS 0) or across rows (1). */
template <int COLUMNS>
__device__ __forceinline__ void wgmma_registers(float (&d)[32], const uint32_t a[4], uint64_t b) {
    asm volatile(WGMMA_ON "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" WGMMA_REGS_32
                          "}, {%32, %33, %34, %35}, %36, p, 1, 1, %37;\n}"
                 : WGMMA_ACC32(d, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(COLUMNS));
}
template <int COLUMNS>
__device__ __forceinline__ void wgmma_registers(float (&d)[64], const uint32_t a[4], uint64_t b) {
    asm volatile(WGMMA_ON "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" WGMMA_REGS_64
                          "}, {%64, %65, %66, %67}, %68, p, 1, 1, %69;\n}"
                 : WGMMA_ACC32(d, 0), WGMMA_ACC32(d, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(COLUMNS));
}

#endif /* sm_90a */
#endif
