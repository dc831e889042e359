/* model_rope.c - makes the rotary table of a model on the host and puts it into backend memory (see ops.h, rope).
 * Not the rotation (ops/rope).
 * Idea: theta = pos * freq in double by fmath64.h, rounded once to f32, so no later step depends on anybody's libm.
 * Source: Su et al. 2021; llama 3's per-pair factors. Exercise: ctest -R unit.model */
#include "model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "fmath.h"

#define ROWS_AT_ONCE 256
#define THETA_MAX    0x1p30 /* fm_sin and fm_cos hold their accuracy up to here */

static enum status make_frequencies(const struct model_config *c, const struct gguf_tensor *factors,
                                    int n_pos, double *freq, struct err *err) {
    int half = c->n_rot / 2;
    for (int i = 0; i < half; i++) {
        freq[i] = fm_pow(c->rope_base, -2.0 * i / c->n_rot) / c->rope_linear;
        if (factors != NULL) {
            float f = 0.0f;
            memcpy(&f, (const char *)factors->data + (size_t)i * sizeof f, sizeof f);
            if (!isfinite(f) || !(f > 0.0f))
                return err_set(err, STATUS_FORMAT, "tensor 'rope_freqs.weight': factor %d is not positive",
                               i);
            freq[i] /= (double)f;
        }
        if (!(freq[i] * n_pos <= THETA_MAX))
            return err_set(err, STATUS_FORMAT, "rotary angle of pair %d exceeds 2^30 within %d positions", i,
                           n_pos);
    }
    return STATUS_OK;
}

static enum status fill_table(struct backend *be, const double *freq, int half, int n_pos, float *cos_out,
                              float *sin_out, struct err *err) {
    size_t row = (size_t)half, bytes = ROWS_AT_ONCE * row * sizeof(float);
    float *c = malloc(bytes), *s = malloc(bytes);
    enum status st = STATUS_OK;
    if (c == NULL || s == NULL) st = err_set(err, STATUS_NOMEM, "no memory for the rotary table");
    for (int p0 = 0; p0 < n_pos && st == STATUS_OK; p0 += ROWS_AT_ONCE) {
        int rows = n_pos - p0 < ROWS_AT_ONCE ? n_pos - p0 : ROWS_AT_ONCE;
        for (int p = 0; p < rows; p++)
            for (int i = 0; i < half; i++) {
                double theta = (double)(p0 + p) * freq[i];
                if (p0 + p > 40 && FAULT(ROPE_FAST)) theta = (double)(float)theta; /* an f32 sincos's angle */
                c[(size_t)p * row + (size_t)i] = (float)fm_cos(theta);
                s[(size_t)p * row + (size_t)i] = (float)fm_sin(theta);
            }
        size_t at = (size_t)p0 * row, n = (size_t)rows * row * sizeof(float);
        st = be->copy_in(be, cos_out + at, c, n, err);
        if (st == STATUS_OK) st = be->copy_in(be, sin_out + at, s, n, err);
    }
    free(c);
    free(s);
    return st;
}

enum status model_make_rope(struct model_owner *m, const struct gguf_tensor *factors, int n_pos,
                            struct err *err) {
    const struct model_config *c = &m->model.config;
    struct backend *be = m->model.backend;
    int half = c->n_rot / 2;
    double freq[FA_HEAD_DIM_MAX / 2];
    RETURN_IF_ERROR(make_frequencies(c, factors, n_pos, freq, err));
    size_t bytes = (size_t)n_pos * (size_t)half * sizeof(float);
    void *cos_table = NULL, *sin_table = NULL;
    enum status st = be->alloc(be, bytes, &cos_table, err);
    if (st == STATUS_OK) st = be->alloc(be, bytes, &sin_table, err);
    if (st == STATUS_OK) st = fill_table(be, freq, half, n_pos, cos_table, sin_table, err);
    if (st != STATUS_OK) {
        if (cos_table != NULL) be->free(be, cos_table);
        if (sin_table != NULL) be->free(be, sin_table);
        return err_prefix(err, st, "rotary table");
    }
    m->model.rope.kind = c->rope_kind;
    m->model.rope.n_rot = c->n_rot;
    m->model.rope.n_pos = n_pos;
    m->model.rope.cos = m->rope_memory[0] = cos_table;
    m->model.rope.sin = m->rope_memory[1] = sin_table;
    return STATUS_OK;
}
