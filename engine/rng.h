/* rng.h - counter-based pseudo-random numbers: the same bits on every machine, no state, no order.
 * Not cryptographic. Idea: value i of stream s is a hash of (s, i), so any element can be made alone.
 * Source: the splitmix64 finaliser (Steele et al. 2014) applied twice. Exercise: ctest -R unit.sampler */
#ifndef FORKGATE_RNG_H
#define FORKGATE_RNG_H

#include <stdint.h>

static inline uint64_t rng_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 64 uniform bits: element `index` of stream `seed`. */
static inline uint64_t rng_u64(uint64_t seed, uint64_t index) {
    return rng_mix(rng_mix(seed + 0x9e3779b97f4a7c15u) + (index + 1) * 0x9e3779b97f4a7c15u);
}

/* Uniform in [-1, 1), 24 bits. */
static inline float rng_uniform(uint64_t seed, uint64_t index) {
    return (float)(int32_t)(rng_u64(seed, index) >> 40) * 0x1p-23f - 1.0f;
}

/* Near normal, mean 0, variance 1, |x| <= 6: sum of twelve 16-bit uniforms (exact in f32 up to the last scaling). */
static inline float rng_normal(uint64_t seed, uint64_t index) {
    int32_t sum = 0;
    for (uint64_t part = 0; part < 3; part++) {
        uint64_t bits = rng_u64(seed, index * 3 + part);
        sum += (int32_t)(bits & 0xffff) + (int32_t)((bits >> 16) & 0xffff) +
               (int32_t)((bits >> 32) & 0xffff) + (int32_t)(bits >> 48);
    }
    return (float)(sum - 6 * 65535) * (1.0f / 65536.0f);
}

#endif
