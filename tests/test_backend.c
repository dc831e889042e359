/* test_backend.c - the CPU table: memory, uploads and refusals, step checks, counters, and ops reaching their twins. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/tcmodel.h"

static struct backend_config config_of(enum route route, int threads, enum simd simd) {
    struct backend_config c = {route, ARCH_SM90, geometry_default(ARCH_SM90), threads, simd, 0};
    return c;
}

static struct backend *open_or_fail(enum route route) {
    struct backend_config config = config_of(route, 2, SIMD_AUTO);
    struct backend *b = NULL;
    struct err err = {""};
    cr_assert_eq(backend_cpu_open(&config, &b, &err), STATUS_OK, "%s", err.message);
    return b;
}

static uint64_t calls_of(struct backend *b, const char *name) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    int n = b->kernel_counts(b, counts);
    for (int i = 0; i < n; i++)
        if (strcmp(counts[i].name, name) == 0) return counts[i].calls;
    cr_assert(0, "no kernel is called %s", name);
    return 0;
}

Test(backend, memory_is_aligned_copied_filled_and_freed_in_any_order) {
    struct backend *b = open_or_fail(ROUTE_F16);
    struct err err;
    void *p[200];
    for (size_t i = 0; i < 200; i++) {
        cr_assert_eq(b->alloc(b, i * 7, &p[i], &err), STATUS_OK);
        cr_assert_eq((uintptr_t)p[i] % 256, 0, "allocation %zu", i);
        cr_assert_eq(b->fill(b, p[i], (int)i, i * 7, &err), STATUS_OK);
    }
    for (size_t i = 0; i < 200; i += 3) b->free(b, p[i]);
    b->free(b, NULL);
    uint8_t in[1393], out[1393];
    for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)(i * 31);
    cr_assert_eq(b->copy_out(b, out, p[199], 1393, &err), STATUS_OK);
    for (size_t i = 0; i < 1393; i++) cr_assert_eq(out[i], 199, "byte %zu after frees", i);
    cr_assert_eq(b->copy_in(b, p[199], in, 1393, &err), STATUS_OK);
    cr_assert_eq(b->copy_out(b, out, p[199], 1393, &err), STATUS_OK);
    cr_assert_eq(memcmp(in, out, sizeof in), 0);
    cr_assert_eq(b->sync(b, &err), STATUS_OK);
    err.message[0] = '\0';
    cr_assert_eq(b->alloc(b, SIZE_MAX - 10, &p[0], &err), STATUS_NOMEM);
    cr_assert(p[0] == NULL && strlen(err.message) > 0);
    b->close(b); /* the rest of the 200 is the backend's to free */
}

static void check_matmul(enum route route, enum dtype dtype, const void *src, int64_t n, int64_t k,
                         const double *want_of_ones, enum act_kind act, const char *kernel) {
    struct backend *b = open_or_fail(route);
    struct err err = {""};
    struct weight w;
    cr_assert_eq(b->weight_upload(b, WEIGHT_MATMUL, dtype, src, n, k, &w, &err), STATUS_OK, "%s",
                 err.message);
    cr_assert(w.act == act && w.n == n && w.k == k && w.dtype == dtype && w.bias == NULL);
    void *memory, *ones, *y;
    struct act a;
    cr_assert_eq(b->alloc(b, act_carve(act, 1, k, NULL, NULL), &memory, &err), STATUS_OK);
    cr_assert_eq(b->alloc(b, (size_t)k * sizeof(float), &ones, &err), STATUS_OK);
    cr_assert_eq(b->alloc(b, (size_t)n * sizeof(float), &y, &err), STATUS_OK);
    for (int64_t i = 0; i < k; i++) ((float *)ones)[i] = 1.0f;
    act_carve(act, 1, k, memory, &a);
    cr_assert_eq(b->act_prepare(b, act, ones, 1, k, &a, &err), STATUS_OK);
    cr_assert_eq(b->matmul(b, &w, &a, 1, y, &err), STATUS_OK);
    for (int64_t i = 0; i < n; i++)
        cr_assert(fabs((double)((float *)y)[i] - want_of_ones[i]) <= 1e-4, "%s column %d: %g", kernel, (int)i,
                  (double)((float *)y)[i]);
    cr_assert_eq(calls_of(b, kernel), 1);
    a.k = k / 2;
    cr_assert_eq(b->matmul(b, &w, &a, 1, y, &err), STATUS_SHAPE);
    a.k = k;
    a.kind = act == ACT_F32 ? ACT_F16 : ACT_F32;
    cr_assert_eq(b->matmul(b, &w, &a, 1, y, &err), STATUS_SHAPE);
    cr_assert_eq(calls_of(b, kernel), 1, "a refused call was counted");
    b->weight_free(b, &w);
    cr_assert(w.data == NULL);
    b->close(b);
}

Test(backend, uploads_serve_matmul_on_every_route) {
    struct block_q8_0 rows[9] = {{0}};
    struct block_q4_K wide[9];
    double want[9], want_k[9];
    memset(wide, 0, sizeof wide);
    for (int i = 0; i < 9; i++) {
        rows[i].d = 0x3800; /* 0.5 */
        rows[i].qs[i] = (int8_t)(2 * i);
        rows[i].qs[31] = -4;
        want[i] = i - 2.0;
        wide[i].d = 0x3c00;
        wide[i].scales[0] = 1;
        wide[i].qs[3] = (uint8_t)i; /* element 3 of sub-block 0, scale 1 */
        want_k[i] = i;
    }
    check_matmul(ROUTE_F16, DTYPE_Q8_0, rows, 9, 32, want, ACT_F16, "matmul_f16");
    check_matmul(ROUTE_Q8, DTYPE_Q8_0, rows, 9, 32, want, ACT_Q8_32, "matmul_q8_32");
    check_matmul(ROUTE_F32, DTYPE_Q8_0, rows, 9, 32, want, ACT_F32, "matmul_f32");
    check_matmul(ROUTE_F16, DTYPE_Q4_K, wide, 9, 256, want_k, ACT_F16, "matmul_f16");
    check_matmul(ROUTE_Q8, DTYPE_Q4_K, wide, 9, 256, want_k, ACT_Q8_256, "matmul_q8_256");
    check_matmul(ROUTE_F32, DTYPE_Q4_K, wide, 9, 256, want_k, ACT_F32, "matmul_f32");
}

Test(backend, vectors_become_f32_and_tables_keep_their_type) {
    static const uint16_t half[4] = {0x3c00, 0xc000, 0x0001, 0x7bff};
    static const float want[4] = {1.0f, -2.0f, 0x1p-24f, 65504.0f};
    struct backend *b = open_or_fail(ROUTE_Q8);
    struct err err;
    struct weight vector, table;
    cr_assert_eq(b->weight_upload(b, WEIGHT_VECTOR, DTYPE_F16, half, 1, 4, &vector, &err), STATUS_OK);
    cr_assert_eq(memcmp(vector.data, want, sizeof want), 0);
    cr_assert_eq(b->weight_upload(b, WEIGHT_EMBED, DTYPE_F16, half, 2, 2, &table, &err), STATUS_OK);
    static const int32_t ids[] = {1, 0}, bad_low[] = {0, -1}, bad_high[] = {2, 0};
    struct step s = {.n_rows = 2, .n_seq = 1, .id = ids};
    float x[4];
    cr_assert_eq(b->embed(b, &s, &table, x, &err), STATUS_OK);
    cr_assert(memcmp(x, want + 2, 8) == 0 && memcmp(x + 2, want, 8) == 0);
    s.id = bad_low;
    cr_assert_eq(b->embed(b, &s, &table, x, &err), STATUS_INVALID);
    s.id = bad_high;
    cr_assert_eq(b->embed(b, &s, &table, x, &err), STATUS_INVALID);
    cr_assert_eq(calls_of(b, "embed"), 1);
    b->close(b);
}

Test(backend, uploads_that_cannot_be_are_refused_by_name) {
    struct backend *q8 = open_or_fail(ROUTE_Q8), *f16 = open_or_fail(ROUTE_F16);
    float x[32] = {0};
    x[7] = 1e6f;
    struct weight w;
    struct err err = {""};
    cr_assert_eq(q8->weight_upload(q8, WEIGHT_MATMUL, DTYPE_BF16, x, 1, 32, &w, &err), STATUS_UNSUPPORTED);
    cr_assert(strstr(err.message, "bf16") != NULL && strstr(err.message, "q8") != NULL, "%s", err.message);
    cr_assert_eq(f16->weight_upload(f16, WEIGHT_MATMUL, DTYPE_F32, x, 1, 32, &w, &err), STATUS_INVALID);
    cr_assert(strstr(err.message, "column 7") != NULL && w.data == NULL, "%s", err.message);
    cr_assert_eq(q8->weight_upload(q8, WEIGHT_MATMUL, DTYPE_Q8_0, x, 1, 31, &w, &err), STATUS_SHAPE);
    cr_assert_eq(q8->weight_upload(q8, WEIGHT_EMBED, DTYPE_Q4_K, x, 1, 128, &w, &err), STATUS_SHAPE);
    cr_assert_eq(q8->weight_upload(q8, WEIGHT_VECTOR, DTYPE_F32, x, 0, 32, &w, &err), STATUS_SHAPE);
    cr_assert_eq(q8->weight_upload(q8, WEIGHT_VECTOR, (enum dtype)10, x, 1, 32, &w, &err),
                 STATUS_UNSUPPORTED);
    q8->close(q8);
    f16->close(f16);
}

struct step_case {
    const char *what;
    enum status want;
    int n_rows, n_seq;
    int32_t pos[4];
    enum kv_dtype kv;
};

static const struct step_case step_cases[] = {
    {"prompt", STATUS_OK, 3, 1, {0, 1, 2}, KV_F16},
    {"prompt to the last position", STATUS_OK, 2, 1, {14, 15}, KV_Q8_0},
    {"batch", STATUS_OK, 3, 3, {9, 0, 4}, KV_F16},
    {"no rows", STATUS_USAGE, 0, 1, {0}, KV_F16},
    {"too many rows", STATUS_USAGE, CHUNK_MAX + 1, 1, {0}, KV_F16},
    {"two sequences, three rows", STATUS_USAGE, 3, 2, {0, 1, 2}, KV_F16},
    {"too many sequences", STATUS_USAGE, BATCH_MAX + 1, BATCH_MAX + 1, {0}, KV_F16},
    {"a gap in a prompt", STATUS_USAGE, 3, 1, {0, 1, 3}, KV_F16},
    {"beyond the cache", STATUS_LIMIT, 2, 1, {15, 16}, KV_F16},
    {"negative position", STATUS_LIMIT, 1, 1, {-1}, KV_F16},
    {"f32 cache on route f16", STATUS_UNSUPPORTED, 1, 1, {0}, KV_F32},
};

Test(backend, step_begin_checks_rows_sequences_and_positions) {
    struct backend *b = open_or_fail(ROUTE_F16);
    for (size_t i = 0; i < sizeof step_cases / sizeof step_cases[0]; i++) {
        const struct step_case *c = &step_cases[i];
        struct kv_cache cache = {c->kv, 1, 16, 1, 32, NULL, NULL};
        const struct kv_cache *kv[4] = {&cache, &cache, &cache, &cache};
        struct step s = {.n_rows = c->n_rows, .n_seq = c->n_seq, .pos = c->pos, .kv = kv};
        struct err err = {""};
        int replayed = 7;
        cr_assert_eq(b->step_begin(b, &s, &replayed, &err), c->want, "%s: %s", c->what, err.message);
        cr_assert_eq(replayed, 0);
        cr_assert_eq(c->want == STATUS_OK, err.message[0] == '\0', "%s", c->what);
        cr_assert_eq(b->step_end(b, &s, &err), STATUS_OK);
    }
    struct err err;
    cr_assert_eq(b->step_forget(b, &err), STATUS_OK);
    b->close(b);
}

Test(backend, overflow_is_taken_once) {
    struct backend *b = open_or_fail(ROUTE_F16);
    struct err err;
    uint64_t count = 99, *memory[64];
    float x[16] = {1e5f, NAN, 1.0f};
    struct act a;
    act_carve(ACT_F16, 1, 16, memory, &a);
    cr_assert_eq(b->act_prepare(b, ACT_F16, x, 1, 16, &a, &err), STATUS_OK);
    cr_assert_eq(b->act_prepare(b, ACT_F16, x, 1, 16, &a, &err), STATUS_OK);
    cr_assert_eq(b->overflow_take(b, &count, &err), STATUS_OK);
    cr_assert_eq(count, 4);
    cr_assert_eq(b->overflow_take(b, &count, &err), STATUS_OK);
    cr_assert_eq(count, 0);
    cr_assert_eq(b->act_prepare(b, ACT_Q8_32, x, 1, 16, &a, &err), STATUS_SHAPE);
    b->close(b);
}

/* One layer's worth of small ops through the table: each does its work and counts itself under its own name. */
Test(backend, every_op_counts_itself) {
    struct backend *b = open_or_fail(ROUTE_F16);
    struct err err = {""};
    float x[64], w[32], o[64] = {0};
    uint16_t k[4 * 32] = {0}, v[4 * 32] = {0};
    for (int i = 0; i < 64; i++) x[i] = 1.0f, w[i % 32] = 3.0f;
    struct kv_cache cache = {KV_F16, 1, 4, 1, 32, k, v};
    const struct kv_cache *kv[1] = {&cache};
    static const int32_t pos[] = {0};
    float cosine[4] = {0}, sine[4] = {1, 1, 1, 1};
    struct rope_table rope = {ROPE_HALF_SPLIT, 2, 4, cosine, sine};
    struct step s = {.n_rows = 1, .n_seq = 1, .pos = pos, .kv = kv};
    cr_assert_eq(b->rmsnorm(b, x, w, 0x1p-80f, 2, 32, x, &err), STATUS_OK);
    cr_assert(fabsf(x[63] - 3.0f) <= 0.0f);
    cr_assert_eq(b->add(b, x, x, 64, &err), STATUS_OK);
    cr_assert(fabsf(x[63] - 6.0f) <= 0.0f);
    cr_assert_eq(b->rope(b, &s, &rope, 2, 32, x, &err), STATUS_OK);
    cr_assert(fabsf(x[0] + 6.0f) <= 0.0f && fabsf(x[1] - 6.0f) <= 0.0f, "a quarter turn");
    cr_assert_eq(b->kv_append(b, &s, 0, w, w, &err), STATUS_OK);
    cr_assert(k[0] == 0x4200 && v[31] == 0x4200 && k[32] == 0);
    cr_assert_eq(b->attention(b, &s, 0, 2, x, o, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < 64; i++)
        cr_assert(fabsf(o[i] - 3.0f) <= 0.0f, "one key: its value, got %g", (double)o[i]);
    cr_assert_eq(b->swiglu(b, w, w, 32, o, &err), STATUS_OK);
    cr_assert(fabsf(o[0] - 8.5731577f) <= 1e-5f, "%g", (double)o[0]);
    struct top2 top;
    cr_assert_eq(b->top2(b, x, 1, 2, 64, &top, &err), STATUS_OK);
    cr_assert(top.id1 == 1 && top.id2 == 0);
    static const char *const names[] = {"rmsnorm",       "add",    "rope", "kv_append_f16",
                                        "attention_f16", "swiglu", "top2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_assert_eq(calls_of(b, names[i]), 1, "%s", names[i]);
    cr_assert_eq(calls_of(b, "embed") + calls_of(b, "matmul_f16") + calls_of(b, "attention_q8_0"), 0);
    static const int32_t far[] = {4};
    s.pos = far;
    cr_assert_eq(b->rope(b, &s, &rope, 2, 32, x, &err), STATUS_LIMIT);
    b->close(b);
}

Test(backend, open_resolves_simd_and_refuses_bad_configurations) {
    struct err err = {""};
    struct backend *b = NULL;
    struct backend_config config = config_of(ROUTE_F16, 1, SIMD_AUTO);
    cr_assert_eq(backend_cpu_open(&config, &b, &err), STATUS_OK);
    cr_assert_eq(b->config.simd, tc_have_avx2() ? SIMD_AVX2 : SIMD_SCALAR);
    cr_assert_str_eq(b->name, "cpu");
    b->close(b);
    config.simd = SIMD_SCALAR;
    cr_assert_eq(backend_cpu_open(&config, &b, &err), STATUS_OK);
    cr_assert_eq(b->config.simd, SIMD_SCALAR);
    b->close(b);
    config.n_threads = 0;
    cr_assert_eq(backend_cpu_open(&config, &b, &err), STATUS_USAGE);
    config.n_threads = 65;
    cr_assert_eq(backend_cpu_open(&config, &b, &err), STATUS_USAGE);
    config.n_threads = 1;
    config.geometry.fa_tkv = 17;
    cr_assert_eq(backend_cpu_open(&config, &b, &err), STATUS_USAGE);
    cr_assert(b == NULL && strstr(err.message, "fa_tkv") != NULL, "%s", err.message);
}

Test(backend, act_carve_parts_are_aligned_and_do_not_overlap) {
    static const int64_t rows_of[] = {1, 3, 512};
    for (int kind = ACT_F32; kind < ACT_KINDS; kind++) {
        for (size_t i = 0; i < 3; i++) {
            int64_t rows = rows_of[i], k = 768, block = act_block((enum act_kind)kind);
            struct act a;
            char *base = (char *)(uintptr_t)4096;
            size_t bytes = act_carve((enum act_kind)kind, rows, k, NULL, NULL);
            cr_assert_eq(act_carve((enum act_kind)kind, rows, k, base, &a), bytes);
            size_t n = (size_t)(rows * k), at = 0;
            cr_assert(a.kind == (enum act_kind)kind && a.k == k && a.f32 == NULL);
            char *parts[4] = {(char *)a.f16, (char *)a.q, (char *)a.d, (char *)a.sum};
            size_t sizes[4] = {2 * n, n, 4 * n / (size_t)block, 2 * n / ACT_SUM_GROUP};
            for (int p = 0; p < 4; p++) {
                if (parts[p] == NULL) continue;
                size_t offset = (size_t)(parts[p] - base);
                cr_assert(offset % 256 == 0 && offset >= at && offset + sizes[p] <= bytes, "kind %d part %d",
                          kind, p);
                at = offset + sizes[p];
            }
            cr_assert_eq(at == 0, kind == ACT_F32);
            cr_assert((a.f16 != NULL) == (kind == ACT_F16) && (a.q != NULL) == (kind >= ACT_Q8_32));
        }
    }
}
