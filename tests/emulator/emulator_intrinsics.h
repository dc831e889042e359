/* emulator_intrinsics.h - what kernels call within a thread or a warp: exchange, arithmetic, memory, and the instructions
 * of engine/cuda/mma.cuh. Not here: blocks and launches (emulator.h).
 * Source: CUDA C programming guide; PTX ISA 8. Exercise: ctest -R emulator */
#ifndef EMULATOR_INTRINSICS_H
#define EMULATOR_INTRINSICS_H

/* ---- exchange within a warp ---------------------------------------------------------------------------------- */

struct emulated_slot {
    uint32_t w[16];
};
struct emulated_slot *emulated_slots(); /* the 32 of this warp */

template <typename T, typename F> inline auto emulated_exchange(T x, F read) {
    struct emulated_slot *s = emulated_slots();
    memcpy(&s[emulated_self->lane], &x, sizeof x);
    emulated_sync_warp();
    auto result = read([s](int lane) {
        T value;
        memcpy(&value, &s[lane], sizeof value);
        return value;
    });
    emulated_sync_warp(); /* nobody writes its slot before everybody has read */
    return result;
}
template <typename T> inline T __shfl_sync(unsigned, T x, int lane) {
    return emulated_exchange(x, [lane](auto of) { return of(lane % 32); });
}
template <typename T> inline T __shfl_xor_sync(unsigned, T x, int mask) {
    return emulated_exchange(x, [mask](auto of) { return of(emulated_self->lane ^ mask); });
}
template <typename T> inline T __shfl_down_sync(unsigned, T x, int by) {
    int from = emulated_self->lane + by < 32 ? emulated_self->lane + by : emulated_self->lane;
    return emulated_exchange(x, [from](auto of) { return of(from); });
}
inline unsigned __reduce_add_sync(unsigned, unsigned x) {
    return emulated_exchange(x, [](auto of) {
        unsigned sum = 0;
        for (int i = 0; i < 32; i++) sum += of(i);
        return sum;
    });
}
inline unsigned __reduce_max_sync(unsigned, unsigned x) {
    return emulated_exchange(x, [](auto of) {
        unsigned most = 0;
        for (int i = 0; i < 32; i++) most = of(i) > most ? of(i) : most;
        return most;
    });
}
inline int __all_sync(unsigned, int x) {
    return __reduce_max_sync(0, x == 0) == 0;
}

/* ---- arithmetic ---------------------------------------------------------------------------------------------- */

inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(int8_t)(a >> 8 * i) * (int)(int8_t)(b >> 8 * i);
    return c;
}
inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
inline uint32_t __float_as_uint(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
inline float __uint_as_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
template <typename A, typename B> inline typename std::common_type<A, B>::type min(A a, B b) {
    typename std::common_type<A, B>::type x = a, y = b;
    return x < y ? x : y;
}
template <typename A, typename B> inline typename std::common_type<A, B>::type max(A a, B b) {
    typename std::common_type<A, B>::type x = a, y = b;
    return x > y ? x : y;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

template <typename T> inline T __ldg(const T *p) {
    if ((uintptr_t)p % sizeof(T) != 0) emulated_stop("misaligned load");
    return *p;
}
template <typename T> inline T atomicAdd(T *p, T x) {
    T old = *p;
    *p = old + x;
    return old;
}
template <typename T> inline T atomicSub(T *p, T x) {
    T old = *p;
    *p = old - x;
    return old;
}
template <typename T> inline T atomicMax(T *p, T x) {
    T old = *p;
    *p = old > x ? old : x;
    return old;
}

/* ---- what engine/cuda/mma.cuh gives on a device -------------------------------------------------------------- */
#define FORKGATE_MMA_CUH

uint32_t smem_address(const void *p);
void mma_f16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void mma_s8_k32(int c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
void mma_s8_k16(int c[4], uint32_t a0, uint32_t a1, uint32_t b);
void ldmatrix_x4(uint32_t r[4], uint32_t address);
void ldmatrix_x2(uint32_t r[2], uint32_t address);
void ldmatrix_x2_trans(uint32_t r[2], uint32_t address);
void ldmatrix_x4_trans(uint32_t r[4], uint32_t address);
void copy_async_16(uint32_t dst, const void *src, int valid);
void copy_async_commit();
void emulated_copy_wait(int groups_left);
template <int N> inline void copy_async_wait() {
    emulated_copy_wait(N);
}
inline uint16_t f16_bits(float x) {
    return fm_f32_to_f16(x);
}
inline float f16_value(uint16_t h) {
    return fm_f16_to_f32(h);
}
inline uint32_t f16_pair(float low, float high) {
    return (uint32_t)f16_bits(low) | (uint32_t)f16_bits(high) << 16;
}
inline int f16_overflows(uint16_t h) {
    return (h & 0x7c00u) == 0x7c00u;
}

#endif
