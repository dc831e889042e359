/* test_ops.c - the small twins against float64 formulas, restated orders, hand-worked edges; one result for any
 * SIMD level and thread count. */
#include <criterion/criterion.h>

#include <math.h>

#include "twin_variants.h"

static const int64_t widths[] = {1, 3, 255, 256, 257, 1000, 4096};
#define N_WIDTHS (sizeof widths / sizeof widths[0])

/* ---- rmsnorm ---- */
/* Node i of the halving tree at stride s: the definition, read from the root. */
static float tree_node(const float *lane, int i, int s) {
    return s == NORM_LANES ? lane[i] : tree_node(lane, i, 2 * s) + tree_node(lane, i + s, 2 * s);
}

static float norm_scale_by_definition(const float *x, int64_t cols, float eps) {
    float lane[NORM_LANES];
    for (int l = 0; l < NORM_LANES; l++) {
        lane[l] = 0.0f;
        for (int64_t c = l; c < cols; c += NORM_LANES) lane[l] = fmaf(x[c], x[c], lane[l]);
    }
    float mean = tree_node(lane, 0, 1) / (float)cols;
    return 1.0f / sqrtf(mean + eps);
}

static void check_norm_row(const float *x, const float *w, float eps, int64_t cols, const float *y) {
    double squares = 0.0;
    for (int64_t c = 0; c < cols; c++) squares += (double)x[c] * (double)x[c];
    double scale = 1.0 / sqrt(squares / (double)cols + (double)eps);
    float f32_scale = norm_scale_by_definition(x, cols, eps);
    for (int64_t c = 0; c < cols; c++) {
        double want = (double)x[c] * scale * (double)w[c];
        double bound = ((double)cols / NORM_LANES + 16.0) * 0x1p-24 * fabs(want);
        cr_assert(fabs((double)y[c] - want) <= bound, "cols %d, column %d: %a", (int)cols, (int)c,
                  (double)y[c]);
        cr_assert_eq(fm_f32_bits(y[c]), fm_f32_bits((x[c] * f32_scale) * w[c]), "cols %d, column %d: order",
                     (int)cols, (int)c);
    }
}

Test(ops, rmsnorm_follows_its_formula_and_its_order) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    for (size_t i = 0; i < N_WIDTHS; i++) {
        int64_t cols = widths[i], rows = 21;
        size_t n = (size_t)(rows * cols);
        float *x = random_floats(1 + i, n, 3.0f), *w = random_floats(50 + i, (size_t)cols, 1.0f);
        for (int64_t c = 0; c < cols; c++) x[c] *= 1e-18f; /* squares are subnormal; eps rules */
        for (int k = 0; k < v.n; k++) {
            float *y = poisoned(n);
            rmsnorm_twin(&v.ctx[k], x, w, 1e-6f, rows, cols, y);
            for (int64_t r = 0; r < rows; r++) check_norm_row(x + r * cols, w, 1e-6f, cols, y + r * cols);
            free(y);
        }
        rmsnorm_twin(&v.ctx[0], x, w, 1e-6f, rows, cols, x); /* in place */
        free(x);
        free(w);
    }
    variants_close(&v);
}

Test(ops, rmsnorm_of_a_constant_row_is_exact_at_every_width) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    for (size_t i = 0; i < N_WIDTHS; i++) {
        float x[4096], w[4096], y[4096];
        for (int64_t c = 0; c < widths[i]; c++) x[c] = c % 2 ? -2.0f : 2.0f, w[c] = (float)(c % 13);
        for (int k = 0; k < v.n; k++) {
            rmsnorm_twin(&v.ctx[k], x, w, 0x1p-80f, 1, widths[i], y);
            for (int64_t c = 0; c < widths[i]; c++)
                cr_assert(fabsf(y[c] - (c % 2 ? -w[c] : w[c])) <= 0.0f,
                          "cols %d: a column was left out of the sum", (int)widths[i]);
        }
    }
    variants_close(&v);
}

/* ---- add, swiglu ---- */
Test(ops, add_and_swiglu_follow_their_formulas) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    static const float edges[] = {0.0f,  -0.0f,  1.0f,   -1.0f,   20.0f, -20.0f,
                                  88.0f, -87.0f, -89.5f, -200.0f, 3e38f};
    size_t n = 10007, n_edges = sizeof edges / sizeof edges[0];
    float *g = random_floats(3, n, 4.0f), *u = random_floats(4, n, 2.0f), *first = poisoned(n);
    memcpy(g, edges, sizeof edges);
    for (size_t i = 0; i < n_edges; i++) u[i] = 1.0f;
    for (int k = 0; k < v.n; k++) {
        float *y = poisoned(n), *x = poisoned(n);
        swiglu_twin(&v.ctx[k], g, u, (int64_t)n, y);
        memcpy(x, g, n * sizeof *x);
        add_twin(&v.ctx[k], x, u, (int64_t)n);
        for (size_t i = 0; i < n; i++) {
            double want = (double)g[i] / (1.0 + exp(-(double)g[i])) * (double)u[i];
            cr_assert(fabs((double)y[i] - want) <= 8 * 0x1p-24 * fabs(want) + 1e-36, "swiglu(%a, %a) = %a",
                      (double)g[i], (double)u[i], (double)y[i]);
            cr_assert_eq(fm_f32_bits(x[i]), fm_f32_bits((float)((double)g[i] + (double)u[i])), "add at %zu",
                         i);
        }
        if (k == 0) memcpy(first, y, n * sizeof *y);
        size_t at = 0;
        cr_assert_eq(bits_differ(y, first, n, &at), 0, "variant %d differs at %zu", k, at);
        free(y);
        free(x);
    }
    free(g);
    free(u);
    free(first);
    variants_close(&v);
}

/* ---- embed ---- */
Test(ops, embed_dequantises_the_row_it_was_asked_for) {
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    static const int32_t ids[] = {6, 0, 3, 3};
    struct variants v;
    variants_open(&v, ROUTE_F16);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        size_t bytes = (size_t)dtype_bytes(types[t], 7 * 512);
        uint8_t *src = malloc(bytes);
        for (size_t i = 0; i < bytes; i++) src[i] = (uint8_t)(rng_u64(t, i) & 0x3b); /* no NaN patterns */
        float all[7 * 512], *x = poisoned(4 * 512);
        dtype_dequantise(types[t], src, all, 7 * 512);
        struct weight table = {.dtype = types[t], .n = 7, .k = 512, .data = src};
        struct step s = {.n_rows = 4, .n_seq = 1, .id = ids};
        embed_twin(&v.ctx[0], &s, &table, x);
        for (int r = 0; r < 4; r++)
            cr_assert_eq(memcmp(x + 512 * r, all + 512 * ids[r], 512 * sizeof *x), 0, "%s row %d",
                         dtype_info((int)types[t])->name, r);
        free(src);
        free(x);
    }
    variants_close(&v);
}

/* ---- rope ---- */
#define ROPE_POSITIONS 131072
static const int32_t rope_pos[] = {0, 1, 40, 2047, 131071};

/* The angle of pair i at position pos, in double: the tables of this test and the values it expects. */
static double rope_angle(int pos, int i, int n_rot) {
    return (double)pos * pow(10000.0, -2.0 * i / n_rot);
}

static void check_rope(const struct twin_ctx *t, enum rope_kind kind, int n_rot, int head_dim) {
    int half = n_rot / 2, n_head = 3, rows = (int)(sizeof rope_pos / sizeof rope_pos[0]);
    size_t n = (size_t)(rows * n_head * head_dim), cells = (size_t)ROPE_POSITIONS * (size_t)half;
    float *cosine = poisoned(cells), *sine = poisoned(cells);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < half; i++) { /* only the rows that may be read are not NaN */
            cosine[(size_t)rope_pos[r] * (size_t)half + (size_t)i] =
                (float)cos(rope_angle(rope_pos[r], i, n_rot));
            sine[(size_t)rope_pos[r] * (size_t)half + (size_t)i] =
                (float)sin(rope_angle(rope_pos[r], i, n_rot));
        }
    struct rope_table table = {kind, n_rot, ROPE_POSITIONS, cosine, sine};
    struct step s = {.n_rows = rows, .n_seq = 1, .pos = rope_pos};
    float *x = random_floats(9, n, 2.0f), *y = poisoned(n);
    memcpy(y, x, n * sizeof *x);
    rope_twin(t, &s, &table, n_head, head_dim, y);
    for (int row = 0; row < rows * n_head; row++) {
        const float *a = x + row * head_dim, *b = y + row * head_dim;
        for (int i = 0; i < half; i++) {
            int first = kind == ROPE_INTERLEAVED ? 2 * i : i,
                second = kind == ROPE_INTERLEAVED ? 2 * i + 1 : i + half;
            double angle = rope_angle(rope_pos[row / n_head], i, n_rot),
                   size = hypot((double)a[first], (double)a[second]);
            double want1 = (double)a[first] * cos(angle) - (double)a[second] * sin(angle);
            double want2 = (double)a[first] * sin(angle) + (double)a[second] * cos(angle);
            cr_assert(fabs((double)b[first] - want1) <= 4 * 0x1p-24 * size, "kind %d row %d pair %d",
                      (int)kind, row, i);
            cr_assert(fabs((double)b[second] - want2) <= 4 * 0x1p-24 * size, "kind %d row %d pair %d",
                      (int)kind, row, i);
        }
        cr_assert_eq(memcmp(a + n_rot, b + n_rot, (size_t)(head_dim - n_rot) * sizeof *a), 0,
                     "dims beyond n_rot");
    }
    free(cosine);
    free(sine);
    free(x);
    free(y);
}

Test(ops, a09_rope_turns_pairs_of_both_kinds_up_to_position_131071) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    for (int kind = 0; kind <= 1; kind++) {
        check_rope(&v.ctx[0], (enum rope_kind)kind, 16, 16);
        check_rope(&v.ctx[0], (enum rope_kind)kind, 8, 20);
    }
    variants_close(&v);
}

/* ---- top2 ---- */
#define INF INFINITY
struct top2_case {
    const char *what;
    int n;
    float x[16];
    int id1, id2, n_nan, n_inf, first_bad;
};

static const struct top2_case top2_cases[] = {
    {"tie in the middle", 4, {1.0f, 3.5f, 3.5f, 2.0f}, 1, 2, 0, 0, -1},
    {"three values, tie at the end", 3, {0.0f, 1.0f, 1.0f}, 1, 2, 0, 0, -1},
    {"f32 values that tie once narrowed", 8, {0, 1, 2, 17.12f, 3, 4, 5, 17.15f}, 7, 3, 0, 0, -1},
    {"the same two as bf16", 8, {0, 1, 2, 17.125f, 3, 4, 5, 17.125f}, 3, 7, 0, 0, -1},
    {"all equal", 8, {2, 2, 2, 2, 2, 2, 2, 2}, 0, 1, 0, 0, -1},
    {"tie at both ends", 8, {9, 1, 1, 1, 1, 1, 1, 9}, 0, 7, 0, 0, -1},
    {"minus zero before plus zero", 3, {-1, -0.0f, 0.0f}, 1, 2, 0, 0, -1},
    {"descending", 4, {4, 3, 2, 1}, 0, 1, 0, 0, -1},
    {"second best comes after the best", 4, {1, 9, 3, 8}, 1, 3, 0, 0, -1},
    {"one value", 1, {-3}, 0, -1, 0, 0, -1},
    {"NaN first", 16, {NAN, 1, 2, 3}, 3, 2, 1, 0, 0},
    {"NaN at 7", 16, {0, 1, 2, 3, 0, 0, 0, NAN}, 3, 2, 1, 0, 7},
    {"NaN last", 16, {0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NAN}, 3, 2, 1, 0, 15},
    {"+Inf at 7", 16, {0, 1, 2, 3, 0, 0, 0, INF}, 3, 2, 0, 1, 7},
    {"+Inf, then NaN", 4, {1, INF, -NAN, 0}, 0, 3, 1, 1, 1},
    {"all NaN", 4, {NAN, NAN, -NAN, NAN}, -1, -1, 4, 0, 0},
    {"all -Inf", 4, {-INF, -INF, -INF, -INF}, 0, 1, 0, 0, -1},
    {"-Inf but one", 4, {-INF, -INF, 5, -INF}, 2, 0, 0, 0, -1},
};

Test(ops, top2_counts_first_and_breaks_ties_to_the_lowest_id) {
    struct variants v;
    variants_open(&v, ROUTE_F16);
    for (size_t i = 0; i < sizeof top2_cases / sizeof top2_cases[0]; i++) {
        const struct top2_case *c = &top2_cases[i];
        float rows[3][20]; /* columns from n_vocab on are padding rows of the matrix and may hold anything */
        for (int r = 0; r < 3; r++)
            for (int j = 0; j < 20; j++) rows[r][j] = j < c->n ? c->x[j] : (r == 1 ? NAN : 1e30f);
        for (int k = 0; k < v.n; k++) {
            struct top2 got[3];
            memset(got, 0x55, sizeof got);
            top2_twin(&v.ctx[k], rows[0], 3, c->n, 20, got);
            for (int r = 0; r < 3; r++) {
                cr_assert(got[r].id1 == c->id1 && got[r].id2 == c->id2, "%s: ids %d %d", c->what,
                          (int)got[r].id1, (int)got[r].id2);
                cr_assert(got[r].n_nan == c->n_nan && got[r].n_inf == c->n_inf &&
                              got[r].first_bad == c->first_bad,
                          "%s: census %d %d %d", c->what, (int)got[r].n_nan, (int)got[r].n_inf,
                          (int)got[r].first_bad);
                float want1 = c->id1 < 0 ? -INF : c->x[c->id1], want2 = c->id2 < 0 ? -INF : c->x[c->id2];
                cr_assert_eq(fm_f32_bits(got[r].logit1), fm_f32_bits(want1), "%s: logit 1", c->what);
                cr_assert_eq(fm_f32_bits(got[r].logit2), fm_f32_bits(want2), "%s: logit 2", c->what);
            }
        }
    }
    variants_close(&v);
}
