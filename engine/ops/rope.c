/* rope.c - twin of rope: rotate pairs of each head by the table row of the token's position.
 * Not the table: the host makes it once in double (model_rope.c).
 * Idea: interleaved pairs (2i, 2i+1), half-split pairs (i, i + n_rot/2); dims beyond n_rot pass through.
 * Source: Su et al. 2021. Exercise: ctest -R unit.ops */
#include "../fault.h"
#include "twins.h"

void rope_twin(const struct twin_ctx *t, const struct step *s, const struct rope_table *table, int n_head,
               int head_dim, float *x) {
    (void)t;
    int half = table->n_rot / 2;
    int interleaved = table->kind == ROPE_INTERLEAVED || FAULT(ROPE_PAIRS);
    int step = interleaved ? 2 : 1, partner = interleaved ? 1 : half;
    for (int r = 0; r < s->n_rows; r++) {
        const float *cosine = table->cos + (int64_t)s->pos[r] * half;
        const float *sine = table->sin + (int64_t)s->pos[r] * half;
        for (int h = 0; h < n_head; h++) {
            float *v = x + ((int64_t)r * n_head + h) * head_dim;
            for (int i = 0; i < half; i++) {
                float a = v[i * step], b = v[i * step + partner];
                v[i * step] = a * cosine[i] - b * sine[i];
                v[i * step + partner] = a * sine[i] + b * cosine[i];
            }
        }
    }
}
