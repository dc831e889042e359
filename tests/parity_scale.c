/* parity_scale.c - device_parity for the products of a 7B model: the device computes all of them, the twin a sample.
 * Not less exact: an output depends on its own row and its own weights alone (ops.h), so the twin multiplies the sampled
 * rows by the sampled weights and each of its outputs must be the device's, bit for bit; a few also meet float64.
 * Idea: samples are the first and the last row and column of every tile, and others until there are SAMPLES_MIN.
 * Source: the shapes of Qwen2.5-7B. Exercise: device_parity --op scale */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/cuda/launch.h"
#include "../engine/rng.h"
#include "../gates/oracle/oracle.h"
#include "parity_rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

enum {
    SAMPLES_MIN = 4096, /* outputs that are compared in a case */
    PERIOD = 1021,      /* different rows of weights: a prime, so that no tile meets its neighbour's */
    ROWS_MAX = 322,
    K_MAX = 18944,
    ORACLE_ROWS = 3,
    ORACLE_COLS = 32
};

/* Sampled indices of one dimension, ascending. */
struct sample {
    int64_t *at, n;
};

static struct sample sample_of(int64_t n, int64_t tile, int64_t want) {
    struct sample s = {rig_memory((size_t)n * sizeof *s.at), 0};
    uint8_t *taken = rig_memory((size_t)n);
    int64_t held = 0;
    memset(taken, 0, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (i % tile == 0 || i % tile == tile - 1 || i == n - 1) taken[i] = 1, held++;
    for (uint64_t i = 0; held < want && held < n; i++) {
        uint64_t at = rng_u64(99, i) % (uint64_t)n;
        held += !taken[at];
        taken[at] = 1;
    }
    for (int64_t i = 0; i < n; i++)
        if (taken[i]) s.at[s.n++] = i;
    free(taken);
    return s;
}

/* What all cases of a type and a K share. */
struct operands {
    enum dtype t;
    int64_t k, n; /* n: rows of src */
    size_t row;   /* bytes of one */
    uint8_t *src;
    const float *x;    /* [ROWS_MAX, k] */
    const float *bias; /* [n] */
};

static void *gather(const void *src, const struct sample *s, size_t row) {
    uint8_t *out = rig_memory((size_t)s->n * row);
    for (int64_t i = 0; i < s->n; i++)
        memcpy(out + (size_t)i * row, (const uint8_t *)src + (size_t)s->at[i] * row, row);
    return out;
}

/* ---- float64 --------------------------------------------------------------------------------------------------- */

/* Row r of stored activations as float64. */
static void act_values(const struct act *a, int64_t r, double *out) {
    int64_t k_pad = (a->k + TC_K - 1) / TC_K * TC_K, block = act_block(a->kind);
    for (int64_t i = 0; i < a->k; i++)
        out[i] = a->kind == ACT_F16 ? oracle_f16_value(a->f16[r * k_pad + i])
                                    : (double)a->q[r * a->k + i] * (double)a->d[(r * a->k + i) / block];
}

/* Stored weights as float64: on route f16 they are rounded to f16 once. */
static void weight_values(enum dtype t, enum act_kind kind, const void *src, size_t n, double *w,
                          double *size) {
    oracle_dequant(t, src, n, w, size);
    for (size_t i = 0; i < n && kind == ACT_F16; i++) {
        w[i] = oracle_f16_value(oracle_f16_round((double)(float)w[i]));
        size[i] = fabs(w[i]);
    }
}

/* The twin's outputs at a spread of the sample; the budget is that of op.matmul, in its own units. */
static void judge_oracle(struct rig *r, struct verdict *v, const struct operands *o, const struct act *a,
                         const struct sample *rows, const struct sample *cols, const uint8_t *src,
                         const float *bias, const float *y) {
    double truth, scale, budget = rig_budget(r, "matmul", a->kind == ACT_F16 ? "f16" : "q8"),
                         path = a->kind == ACT_F16 ? (double)((o->k + TC_K - 1) / TC_K)
                                                   : 2.0 * (double)o->k / act_block(a->kind) + 4.0;
    double *x = rig_memory((size_t)o->k * 3 * sizeof *x), *w = x + o->k, *size = w + o->k;
    for (int i = 0; i < ORACLE_ROWS * ORACLE_COLS; i++) {
        int64_t row = i % ORACLE_ROWS * (rows->n - 1) / (ORACLE_ROWS - 1);
        int64_t col = i / ORACLE_ROWS * (cols->n - 1) / (ORACLE_COLS - 1);
        act_values(a, row, x);
        weight_values(o->t, a->kind, src + (size_t)col * o->row, (size_t)o->k, w, size);
        struct oracle_product p = {x, w, size, bias + col, 1, 1, o->k};
        oracle_matmul(&p, &truth, &scale);
        verdict_oracle(v, y[row * cols->n + col], truth, budget, scale * path + 0x1p-120);
    }
    free(x);
}

/* ---- one case ---------------------------------------------------------------------------------------------------- */

/* The product on one side: `rows` rows of x by n rows of src. */
static int multiply(struct rig *r, struct verdict *v, int side, const struct operands *o, const void *src,
                    int64_t n, int64_t rows, const struct pair *x, const struct pair *bias,
                    const struct pair *act, const struct pair *y) {
    struct backend *b = r->side[side];
    struct weight w;
    struct act a;
    if (!verdict_call(r, v, side, b->weight_upload(b, WEIGHT_MATMUL, o->t, src, n, o->k, &w, &r->err)))
        return 0;
    w.bias = bias->p[side];
    (void)act_carve(w.act, rows, o->k, act->p[side], &a);
    int ok = verdict_call(r, v, side, b->act_prepare(b, w.act, x->p[side], rows, o->k, &a, &r->err)) &&
             verdict_call(r, v, side, b->matmul(b, &w, &a, rows, y->p[side], &r->err));
    b->weight_free(b, &w);
    return ok;
}

/* Edges of tiles as the kernels cut them, or of finer ones: a decode block has up to GEMV_TILE weight rows, fewer where
 * that fills the device better; a prefill block has MMQ_BN or twice as many. */
static void choose(int64_t rows, int64_t n, struct sample *r, struct sample *c) {
    int64_t fine = n <= 512 ? 1 : n <= 3584 ? 4 : GEMV_TILE;
    *r = sample_of(rows, rows <= GEMV_ROWS ? 1 : TC_K, (SAMPLES_MIN + n - 1) / n);
    *c = sample_of(n, rows <= GEMV_ROWS ? fine : MMQ_BN, (SAMPLES_MIN + r->n - 1) / r->n);
}

static void product_case(struct rig *r, const struct operands *o, int64_t n, int64_t rows) {
    enum route route = r->side[0]->config.route;
    enum act_kind kind = act_kind_for(route, o->t);
    size_t x_row = (size_t)o->k * 4;
    struct sample sr, sc;
    struct verdict v;
    choose(rows, n, &sr, &sc);
    size_t n_sample = (size_t)(sr.n * sc.n);
    verdict_begin(&v, "matmul", dtype_info((int)o->t)->name, route == ROUTE_F16 ? "7b_f16" : "7b_q8",
                  "rows=%lld n=%lld k=%lld sampled=%zu", (long long)rows, (long long)n, (long long)o->k,
                  n_sample);
    void *x = gather(o->x, &sr, x_row), *src = gather(o->src, &sc, o->row), *bias = gather(o->bias, &sc, 4);
    int64_t *index = rig_memory(n_sample * sizeof *index);
    for (int64_t i = 0; i < sr.n; i++)
        for (int64_t j = 0; j < sc.n; j++) index[i * sc.n + j] = sr.at[i] * n + sc.at[j];
    struct pair px = rig_input_sized(r, x, (size_t)sr.n * x_row, o->x, (size_t)rows * x_row),
                pb = rig_input_sized(r, bias, (size_t)sc.n * 4, o->bias, (size_t)n * 4),
                pa = rig_output_sized(r, act_carve(kind, sr.n, o->k, NULL, NULL),
                                      act_carve(kind, rows, o->k, NULL, NULL)),
                y = rig_output_sized(r, n_sample * 4, (size_t)(rows * n) * 4);
    if (multiply(r, &v, 0, o, src, sc.n, sr.n, &px, &pb, &pa, &y) &&
        multiply(r, &v, 1, o, o->src, n, rows, &px, &pb, &pa, &y)) {
        struct act a;
        (void)act_carve(kind, sr.n, o->k, pa.p[0], &a);
        a.kind = kind;
        a.k = o->k;
        verdict_sample(r, &v, &y, index, n_sample);
        judge_oracle(r, &v, o, &a, &sr, &sc, src, bias, y.p[0]); /* the twin's memory is the host's */
    }
    verdict_overflow(r, &v);
    verdict_end(r, &v);
    free(sr.at), free(sc.at), free(x), free(src), free(bias), free(index);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* PERIOD rows of weights, over and over. */
static void make_source(struct rig *r, struct operands *o, enum dtype t, int64_t k, int64_t n) {
    o->t = t;
    o->k = k;
    o->n = n;
    o->row = (size_t)dtype_bytes(t, (uint64_t)k);
    o->src = rig_memory((size_t)n * o->row);
    fill_weights(r, t, o->src, (size_t)(n < PERIOD ? n : PERIOD) * (size_t)k);
    for (int64_t at = PERIOD; at < n; at += PERIOD)
        memcpy(o->src + (size_t)at * o->row, o->src, (size_t)(n - at < PERIOD ? n - at : PERIOD) * o->row);
}

static void source_cases(struct rig *r, const struct operands *o) {
    static const int64_t narrow[] = {512, 3584, 18944, 152064}, all_rows[] = {1, GEMV_ROWS, 33, ROWS_MAX};
    struct geometry g = geometry_default(ARCH_SM90);
    int quantised = dtype_info((int)o->t)->is_quantised;
    for (int route = ROUTE_F16; route <= (quantised ? ROUTE_Q8 : ROUTE_F16); route++) {
        rig_open(r, (enum route)route, &g, 0);
        for (int i = 0; i < COUNT(narrow) && narrow[i] <= o->n; i++)
            for (int j = 0; j < COUNT(all_rows); j++) {
                int vocabulary = narrow[i] > K_MAX;
                if ((o->k == K_MAX && narrow[i] != 3584) || (vocabulary && j == 1) ||
                    (r->quick && j % 2 != 0))
                    continue;
                product_case(r, o, narrow[i], vocabulary && j == 3 ? 130 : all_rows[j]);
            }
        rig_close(r);
    }
}

void parity_scale(struct rig *r) {
    static const enum dtype types[] = {DTYPE_Q4_K, DTYPE_F16,  DTYPE_Q8_0, DTYPE_Q6_K, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q5_K, DTYPE_BF16, DTYPE_F32};
    struct operands o;
    if (!rig_wants(r, "scale")) return;
    float *x = rig_memory((size_t)ROWS_MAX * K_MAX * 4), *bias = rig_memory((size_t)152064 * 4);
    fill_floats(r, FILL_OUTLIER, x, (size_t)ROWS_MAX * K_MAX);
    fill_floats(r, FILL_NORMAL, bias, 152064);
    o.x = x;
    o.bias = bias;
    for (int i = 0; i < (r->quick ? 2 : COUNT(types)); i++) {
        /* float files: their f16 copies are multiplied by the kernels of f16, whose vocabulary is above */
        int64_t vocab = types[i] == DTYPE_BF16 || types[i] == DTYPE_F32 ? 18944 : 152064;
        make_source(r, &o, types[i], 3584, r->quick ? 512 : vocab);
        source_cases(r, &o);
        free(o.src);
        if (r->quick) continue;
        make_source(r, &o, types[i], K_MAX, 3584);
        source_cases(r, &o);
        free(o.src);
    }
    free(x);
    free(bias);
}
