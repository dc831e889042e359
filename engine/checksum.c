/* checksum.c - see checksum.h: the plain loops. */
#include "checksum.h"

uint64_t checksum_f32(const float *x, int64_t n) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += checksum_element((uint64_t)i, x[i]);
    return sum;
}

uint64_t checksum_part(uint64_t sum, uint64_t pos, uint64_t tag) {
    return checksum_mix(sum ^ checksum_mix(pos << 32 | tag));
}

static const void *row_at(const struct row_span *s, int64_t r) {
    return (const uint8_t *)s->data + checksum_offset(s->kind, r * s->stride);
}

void checksum_rows(const struct row_span *s, struct row_sum *out) {
    for (int64_t r = 0; r < s->n; r++) {
        const void *row = row_at(s, r);
        struct row_sum sum = {0, 0, 0};
        for (int64_t i = 0; i < s->cols; i++) {
            float x = checksum_value(s->kind, row, i);
            uint32_t magnitude = fm_f32_bits(x) & 0x7fffffffu;
            sum.sum += checksum_element((uint64_t)i, x);
            if (!fm_f32_is_nan(x) && magnitude > sum.largest) sum.largest = magnitude;
        }
        out[r] = sum;
    }
}

void checksum_widen(const struct row_span *s, int64_t r, float *out) {
    const void *row = row_at(s, r);
    for (int64_t i = 0; i < s->cols; i++) out[i] = checksum_value(s->kind, row, i);
}
