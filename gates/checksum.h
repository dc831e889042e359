/* checksum.h - a 64-bit checksum of an f32 row that does not depend on the order of summing: a screen for equal bits.
 * Not a golden: a screen says "look here"; what is stored and compared for good is XXH3-128 (hash.h).
 * Idea: each element is mixed with its index and the results are added modulo 2^64, so any split over threads, lanes or
 * devices gives the same sum, and a device can add where the tensor lies.
 * Source: the finaliser of SplitMix64 (Steele, Lea & Flood 2014). Exercise: ctest -R unit.explain */
#ifndef FORKGATE_CHECKSUM_H
#define FORKGATE_CHECKSUM_H

#include <stdint.h>

/* A bijection of 64 bits whose every output bit depends on every input bit. */
uint64_t checksum_mix(uint64_t x);

/* sum over i of mix(i * 2^32 + bits(x[i])), modulo 2^64; a NaN counts as 0x7fc00000, -0 and +0 are different. */
uint64_t checksum_f32(const float *x, int64_t n);

/* The part that row `pos` with checksum `sum` adds to the checksum of a tensor known as `tag`. */
uint64_t checksum_part(uint64_t sum, uint64_t pos, uint64_t tag);

#endif
