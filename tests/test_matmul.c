/* test_matmul.c - matrix products of every weight type and route: exact integers, float64, restated chains, and one
 * result for any SIMD level, thread count and neighbours. */
#include <criterion/criterion.h>

#include <math.h>

#include "engine/dtype_codes.h"
#include "matmul_problem.h"

/* Every output against float64 on the same activations: |error| <= slack * sum |a_k w_k| (+ the min terms' share). */
static void check_float64(const struct problem *p, const float *y, double slack) {
    float *w = poisoned((size_t)p->k);
    size_t row_bytes = (size_t)dtype_bytes(p->dtype, (uint64_t)p->k);
    for (int64_t n = 0; n < p->n; n++) {
        dtype_dequantise(p->dtype, p->src + row_bytes * (size_t)n, w, (size_t)p->k);
        for (int64_t i = 0; p->route == ROUTE_F16 && i < p->k; i++) w[i] = fm_f16_to_f32(fm_f32_to_f16(w[i]));
        for (int64_t r = 0; r < p->rows; r++) {
            double want = p->bias == NULL ? 0.0 : (double)p->bias[n], size = fabs(want);
            for (int64_t i = 0; i < p->k; i++) {
                double term = act_value(&p->a, r, i) * (double)w[i];
                want += term;
                size += fabs(term);
            }
            double got = (double)y[r * p->n + n];
            cr_assert(fabs(got - want) <= slack * size, "%s %s n %d k %d rows %d at [%d, %d]: %a, want %a",
                      route_name(p->route), type_name(p->dtype), (int)p->n, (int)p->k, (int)p->rows, (int)r,
                      (int)n, got, want);
        }
    }
    free(w);
}

static const int64_t ks[] = {32, 256, 768, 1056};

Test(matmul, integers_give_exact_answers_for_every_type_and_route) {
    struct variants v;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route++) {
        variants_open(&v, (enum route)route);
        for (size_t t = 0; t < N_TYPES; t++) {
            for (size_t i = 0; i < 4; i++) {
                if (!is_runnable((enum route)route, all_types[t], ks[i])) continue;
                struct problem p = problem_make((enum route)route, all_types[t], 9, ks[i], 5, 1);
                for (int k = 0; k < v.n; k++) {
                    float *y = poisoned((size_t)(p.rows * p.n));
                    multiply(&p, &v.ctx[k], &p.a, p.rows, y);
                    check_float64(&p, y, 0.0);
                    free(y);
                }
                problem_free(&p);
            }
        }
        variants_close(&v);
    }
}

/* Slack: the f32 chains round once a block (q8), once a lane step (f32); the tensor-core model truncates to 25 bits once
 * a k16 step, and its products add at most 16 units each. */
static double slack_of(enum route route, int64_t k) {
    if (route == ROUTE_F16) return (double)(k / 16 + 1) * 0x1p-20;
    return ((double)k / 16.0 + 8.0) * 0x1p-24 + (route == ROUTE_Q8 ? 4 * 0x1p-24 : 0.0);
}

/* n and rows around the panel and tile sizes, ordinary values, all variants bit for bit. */
static void check_shape(struct variants *v, enum route route, enum dtype t, int64_t n, int64_t k,
                        int64_t rows) {
    struct problem p = problem_make(route, t, n, k, rows, 0);
    if (n % 2 == 1) p.bias = random_floats(77, (size_t)n, 1.0f);
    p.w.bias = p.bias;
    size_t cells = (size_t)(n * rows), at = 0;
    float *first = poisoned(cells), *y = poisoned(cells + 8);
    for (int i = 0; i < v->n; i++) {
        memset(y, 0xff, (cells + 8) * sizeof *y);
        multiply(&p, &v->ctx[i], &p.a, rows, y);
        if (i == 0) memcpy(first, y, cells * sizeof *y);
        cr_assert_eq(bits_differ(y, first, cells, &at), 0,
                     "%s %s n %d k %d rows %d: variant %d differs at %zu", route_name(route), type_name(t),
                     (int)n, (int)k, (int)rows, i, at);
        for (int guard = 0; guard < 8; guard++)
            cr_assert_eq(fm_f32_bits(y[cells + (size_t)guard]), 0xffffffffu, "wrote beyond the output");
    }
    /* on q8 the min term is summed apart: where w = d*q - m cancels, sum |a w| says little about the parts */
    int has_min = t == DTYPE_Q4_1 || t == DTYPE_Q5_1 || t == DTYPE_Q4_K || t == DTYPE_Q5_K;
    if (n <= 64) check_float64(&p, first, slack_of(route, k) * (has_min && route == ROUTE_Q8 ? 64.0 : 1.0));
    free(first);
    free(y);
    problem_free(&p);
}

Test(matmul, every_shape_is_within_float64_and_the_same_in_all_variants, .timeout = 60) {
    static const int64_t ns[] = {1, 7, 8, 9};
    struct variants v;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route++) {
        variants_open(&v, (enum route)route);
        for (size_t t = 0; t < N_TYPES; t++)
            for (size_t i = 0; i < 4; i++)
                for (size_t j = 0; j < 4; j++)
                    if (is_runnable((enum route)route, all_types[t], ks[i]))
                        check_shape(&v, (enum route)route, all_types[t], ns[j], ks[i], j % 2 ? 5 : 3);
        variants_close(&v);
    }
}

Test(matmul, long_rows_and_many_columns, .timeout = 60) {
    struct variants v;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route++) {
        variants_open(&v, (enum route)route);
        for (size_t t = 0; t < N_TYPES; t++) {
            if (!is_runnable((enum route)route, all_types[t], 256)) continue;
            check_shape(&v, (enum route)route, all_types[t], 9, 18944, 1); /* a 7B down-projection's K */
            if (all_types[t] == DTYPE_Q8_0 || all_types[t] == DTYPE_Q4_K)
                check_shape(&v, (enum route)route, all_types[t], 4096, 256, 4);
        }
        variants_close(&v);
    }
}

Test(matmul, float_types_take_row_lengths_that_are_no_multiple_of_anything) {
    static const int64_t odd[] = {1, 15, 16, 17, 33, 1025};
    struct variants v;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route += ROUTE_F32 - ROUTE_F16) {
        variants_open(&v, (enum route)route);
        for (size_t t = 0; t < 3; t++)
            for (size_t i = 0; i < 6; i++) check_shape(&v, (enum route)route, all_types[t], 9, odd[i], 5);
        variants_close(&v);
    }
}

Test(matmul, a_row_has_the_same_bits_alone_and_in_any_company, .timeout = 60) {
    static const int64_t counts[] = {1, 2, 3, 5, 8, 9, 64};
    struct variants v;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route++) {
        variants_open(&v, (enum route)route);
        for (size_t t = 0; t < N_TYPES; t++) {
            if (!is_runnable((enum route)route, all_types[t], 768)) continue;
            struct problem p = problem_make((enum route)route, all_types[t], 20, 768, 64, 0);
            float *alone = poisoned(64 * 20), *together = poisoned(64 * 20);
            for (int variant = v.n - 1; variant >= 0; variant -= 4) {
                for (int64_t r = 0; r < 64; r++) {
                    struct act one = act_row(&p.a, r);
                    multiply(&p, &v.ctx[variant], &one, 1, alone + r * 20);
                }
                for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                    size_t cells = (size_t)counts[c] * 20, at = 0;
                    memset(together, 0xff, 64 * 20 * sizeof *together);
                    multiply(&p, &v.ctx[variant], &p.a, counts[c], together);
                    cr_assert_eq(bits_differ(alone, together, cells, &at), 0,
                                 "%s %s: %d rows, differs at %zu", route_name((enum route)route),
                                 type_name(all_types[t]), (int)counts[c], at);
                }
            }
            free(alone);
            free(together);
            problem_free(&p);
        }
        variants_close(&v);
    }
}

/* The q8 chain of ops.h restated from the file's blocks, sharing neither packing nor kernels. */
static float q8_by_definition(const struct problem *p, int64_t r, int64_t n) {
    const struct dtype_info *info = dtype_info((int)p->dtype);
    int block = info->block, sub = p->dtype == DTYPE_Q6_K ? 16 : 32;
    const uint8_t *src = p->src + dtype_bytes(p->dtype, (uint64_t)p->k) * (uint64_t)n;
    float acc = 0.0f;
    for (int64_t b = 0; b < p->k / block; b++, src += info->bytes) {
        const int8_t *q = p->a.q + r * p->k + b * block;
        float da = p->a.d[r * (p->k / block) + b];
        struct block_codes c;
        dtype_block_codes(p->dtype, src, &c);
        int32_t dot = 0, mins = 0;
        for (int i = 0; i < block; i++) {
            int scale = block == QK_256 ? c.scale[i / sub] : 1;
            int min = p->dtype == DTYPE_Q4_K || p->dtype == DTYPE_Q5_K ? c.min[i / 32] : 1;
            dot += scale * c.q[i] * q[i];
            mins += min * q[i];
        }
        acc = fmaf(c.d * da, (float)dot, acc);
        if (p->dtype == DTYPE_Q4_1 || p->dtype == DTYPE_Q5_1) acc = fmaf(c.m * da, (float)mins, acc);
        if (p->dtype == DTYPE_Q4_K || p->dtype == DTYPE_Q5_K) acc = fmaf(-(c.m * da), (float)mins, acc);
    }
    return acc;
}

Test(matmul, q8_follows_the_chain_of_the_contract) {
    struct variants v;
    variants_open(&v, ROUTE_Q8);
    for (size_t t = 0; t < N_TYPES; t++) {
        if (!is_runnable(ROUTE_Q8, all_types[t], 2048)) continue;
        struct problem p = problem_make(ROUTE_Q8, all_types[t], 11, 2048, 6, 0);
        float *y = poisoned(66);
        multiply(&p, &v.ctx[v.n - 1], &p.a, 6, y);
        for (int64_t r = 0; r < 6; r++)
            for (int64_t n = 0; n < 11; n++)
                cr_assert_eq(fm_f32_bits(y[r * 11 + n]), fm_f32_bits(q8_by_definition(&p, r, n)),
                             "%s [%d, %d]", type_name(all_types[t]), (int)r, (int)n);
        free(y);
        problem_free(&p);
    }
    variants_close(&v);
}

/* Codes at both ends in every position: the largest pair sums that the 16-bit stage of the SIMD kernel can meet. */
Test(matmul, q8_extreme_codes_do_not_saturate) {
    struct variants v;
    variants_open(&v, ROUTE_Q8);
    for (size_t t = 0; t < N_TYPES; t++) {
        if (!is_runnable(ROUTE_Q8, all_types[t], 256)) continue;
        for (int fill = 0; fill <= 3; fill++) {
            static const uint8_t fills[] = {0x80, 0x7f, 0xff, 0x00};
            const struct dtype_info *info = dtype_info((int)all_types[t]);
            struct problem p = problem_make(ROUTE_Q8, all_types[t], 8, 256, 4, 0);
            size_t bytes = (size_t)dtype_bytes(p.dtype, 8 * 256), at = 0;
            memset(p.src, fills[fill], bytes);
            set_scales(p.dtype, p.src, bytes / (size_t)info->bytes, 0);
            for (int i = 0; i < 4 * 256; i++) p.x[i] = (i / 256 + fill) % 2 ? -127.0f : 127.0f;
            free(p.w.data);
            cr_assert_eq(matmul_q8_pack(p.dtype, p.src, 8, 256, &p.w.data, NULL), STATUS_OK);
            prepare(&p, &v.ctx[0]);
            float first[32], y[32];
            multiply(&p, &v.ctx[0], &p.a, 4, first);
            multiply(&p, &v.ctx[v.n - 1], &p.a, 4, y);
            cr_assert_eq(bits_differ(first, y, 32, &at), 0, "%s fill %02x at %zu", info->name, fills[fill],
                         at);
            for (int i = 0; i < 32; i++)
                cr_assert_eq(fm_f32_bits(y[i]), fm_f32_bits(q8_by_definition(&p, i / 8, i % 8)), "%s",
                             info->name);
            problem_free(&p);
        }
    }
    variants_close(&v);
}

/* A block that could not be quantised must poison its own row and no other. */
Test(matmul, a_nan_activation_reaches_its_row_only) {
    struct variants v;
    for (int route = ROUTE_F16; route <= ROUTE_F32; route++) {
        variants_open(&v, (enum route)route);
        for (size_t t = 3; t < N_TYPES; t++) {
            struct problem p = problem_make((enum route)route, all_types[t], 9, 512, 5, 0);
            p.x[2 * 512 + 300] = NAN;
            prepare(&p, &v.ctx[0]);
            for (int i = 0; i < v.n; i++) {
                float y[45];
                multiply(&p, &v.ctx[i], &p.a, 5, y);
                for (int c = 0; c < 45; c++)
                    cr_assert_eq(!!isnan(y[c]), c / 9 == 2, "%s %s row %d", route_name((enum route)route),
                                 type_name(all_types[t]), c / 9);
            }
            problem_free(&p);
        }
        variants_close(&v);
    }
}

Test(matmul, refusals_name_what_they_refuse) {
    float x[64] = {0};
    void *out = x;
    struct err err = {""};
    x[35] = 65520.0f;
    cr_assert_eq(matmul_f16_pack(DTYPE_F32, x, 2, 32, &out, &err), STATUS_INVALID);
    cr_assert(out == NULL && strstr(err.message, "row 1") != NULL && strstr(err.message, "column 3") != NULL,
              "%s", err.message);
    x[35] = 65519.0f;
    cr_assert_eq(matmul_f16_pack(DTYPE_F32, x, 2, 32, &out, &err), STATUS_OK);
    free(out);
    static const enum dtype floats[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int i = 0; i < 3; i++) {
        err.message[0] = '\0';
        cr_assert_eq(matmul_q8_pack(floats[i], x, 1, 32, &out, &err), STATUS_UNSUPPORTED);
        cr_assert(out == NULL && strstr(err.message, type_name(floats[i])) != NULL, "%s", err.message);
    }
    cr_assert_eq(matmul_q8_pack(DTYPE_Q4_K, x, 1, 288, &out, &err), STATUS_SHAPE);
    cr_assert_eq(matmul_f16_pack(DTYPE_Q8_0, x, 1, 33, &out, &err), STATUS_SHAPE);
}
