/* embed.c - twin of embed: dequantise one table row per step row.
 * Not a lookup of prepared rows: the table stays in the file's type.
 * Idea: a row is whole blocks, so the row's address is bytes(cols) * id.
 * Source: ours. Exercise: ctest -R unit.ops */
#include "twins.h"

void embed_twin(const struct twin_ctx *t, const struct step *s, const struct weight *table, float *x) {
    (void)t;
    uint64_t row_bytes = dtype_bytes(table->dtype, (uint64_t)table->k);
    for (int r = 0; r < s->n_rows; r++) {
        const uint8_t *row = (const uint8_t *)table->data + row_bytes * (uint64_t)s->id[r];
        dtype_dequantise(table->dtype, row, x + (int64_t)r * table->k, (size_t)table->k);
    }
}
