/* checksum.c - see checksum.h. */
#include "gates/checksum.h"

#include <string.h>

#define F32_MAGNITUDE 0x7fffffffu
#define F32_INF       0x7f800000u
#define F32_NAN       0x7fc00000u

uint64_t checksum_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u; /* so that 0 does not map to 0 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t checksum_f32(const float *x, int64_t n) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if ((bits & F32_MAGNITUDE) > F32_INF) bits = F32_NAN;
        sum += checksum_mix((uint64_t)i << 32 | bits);
    }
    return sum;
}

uint64_t checksum_part(uint64_t sum, uint64_t pos, uint64_t tag) {
    return checksum_mix(sum ^ checksum_mix(pos << 32 | tag));
}
