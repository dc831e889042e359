/* embed.c - twin of embed: dequantise one table row per step row.
 * Not a lookup of prepared rows: the table stays in the file's type.
 * Idea: a row is whole blocks, so the row's address is bytes(cols) * id.
 * Source: ours. Exercise: ctest -R unit.ops */
#include "../fault.h"
#include "../fmath.h"
#include "twins.h"

/* Scale of the block that holds column c of a q4_0 row (its first two bytes). */
static inline float q4_0_scale(const uint8_t *row, int64_t c) {
    const uint8_t *d = row + dtype_bytes(DTYPE_Q4_0, (uint64_t)(c / QK_32 * QK_32));
    return fm_f16_to_f32((uint16_t)(d[0] | d[1] << 8));
}

void embed_twin(const struct twin_ctx *t, const struct step *s, const struct weight *table, float *x) {
    (void)t;
    uint64_t row_bytes = dtype_bytes(table->dtype, (uint64_t)table->k);
    for (int r = 0; r < s->n_rows; r++) {
        const uint8_t *row = (const uint8_t *)table->data + row_bytes * (uint64_t)s->id[r];
        dtype_dequantise(table->dtype, row, x + (int64_t)r * table->k, (size_t)table->k);
        if (table->dtype == DTYPE_Q4_0 && FAULT(EMB_OFFSET))
            for (int64_t c = 0; c < table->k; c++) x[r * table->k + c] += 8.0f * q4_0_scale(row, c);
    }
}
