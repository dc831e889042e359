/* attention_rows.c - the scalar table of attention_rows.h.
 * Not fast: fmaf is a library call on plain x86-64. Source: ours. Exercise: ctest -R unit.attention */
#include "attention_rows.h"

#include <math.h>
#include <string.h>

#include "../fmath.h"

#define MINUS_INF (-(float)INFINITY)

/* Sums of the four lanes that hold a row's weights in an accumulator fragment, then the fixed tree over them. */
static float row_sum(const float *p, int n) {
    float s[4] = {0};
    for (int j = 0; j < n; j += 8)
        for (int q = 0; q < 4; q++) {
            s[q] = s[q] + p[j + 2 * q];
            s[q] = s[q] + p[j + 2 * q + 1];
        }
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static float softmax(float *s, int visible, int width, float c, float *m, float *l, uint16_t *p) {
    float top = *m;
    for (int j = 0; j < visible; j++) {
        s[j] *= c;
        top = s[j] > top ? s[j] : top; /* a NaN never wins */
    }
    memset(p, 0, (size_t)width * sizeof *p);
    if (!(top > MINUS_INF)) return 1.0f;
    for (int j = 0; j < visible; j++) {
        s[j] = fm_exp2f(s[j] - top);
        p[j] = fm_f32_to_f16(s[j]);
    }
    for (int j = visible; j < width; j++) s[j] = 0.0f;
    float alpha = fm_exp2f(*m - top);
    *l = fmaf(*l, alpha, row_sum(s, width));
    *m = top;
    return alpha;
}

static void scale(float *o, float alpha, int n) {
    for (int i = 0; i < n; i++) o[i] *= alpha;
}

static void merge(float *acc, float a, const float *o, float b, int n) {
    for (int i = 0; i < n; i++) acc[i] = fmaf(o[i], b, acc[i] * a);
}

static float dot(const float *x, const float *y, int n) {
    float lane[F32_LANES] = {0};
    for (int k = 0; k < n; k++) lane[k % F32_LANES] = fmaf(x[k], y[k], lane[k % F32_LANES]);
    for (int s = F32_LANES / 2; s > 0; s /= 2)
        for (int i = 0; i < s; i++) lane[i] += lane[i + s];
    return lane[0];
}

const struct attention_rows attention_rows_scalar = {softmax, scale, merge, dot};
