/* parity_rows.c - device_parity for the ops that treat rows one by one: embed, rmsnorm, act_prepare, swiglu, add, top2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/checksum.h"
#include "../engine/cuda/launch.h"
#include "../engine/fmath.h"
#include "parity_rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const enum dtype all_types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};

/* A step whose rows only matter by id. */
static struct step step_of(const int32_t *id, const int32_t *pos, const struct kv_cache *const *kv, int n) {
    struct step s = {n, 1, id, pos, kv};
    return s;
}

static void embed_case(struct rig *r, enum dtype t, int64_t cols, int rows) {
    enum { N_VOCAB = 37 };
    struct verdict v;
    int32_t id[64], pos[64];
    size_t bytes = (size_t)dtype_bytes(t, (uint64_t)cols * N_VOCAB);
    void *table = rig_memory(bytes);
    verdict_begin(&v, "embed", dtype_info((int)t)->name, "plain", "rows=%d cols=%lld", rows, (long long)cols);
    fill_weights(r, t, table, (size_t)cols * N_VOCAB);
    for (int i = 0; i < rows; i++) {
        id[i] = i == 0 ? N_VOCAB - 1 : i * 7 % N_VOCAB;
        pos[i] = i;
    }
    struct pair x = rig_output(r, (size_t)(rows * cols) * 4);
    for (int side = 0; side < RIG_SIDES; side++) {
        struct backend *b = r->side[side];
        struct kv_cache kv = {KV_F16, 1, 64, 1, 16, NULL, NULL};
        const struct kv_cache *kvs[1] = {&kv};
        struct step s = step_of(id, pos, kvs, rows);
        struct weight w;
        int replayed;
        if (!verdict_call(r, &v, side,
                          b->weight_upload(b, WEIGHT_EMBED, t, table, N_VOCAB, cols, &w, &r->err)))
            continue;
        (void)(verdict_call(r, &v, side, b->step_begin(b, &s, &replayed, &r->err)) &&
               verdict_call(r, &v, side, b->embed(b, &s, &w, x.p[side], &r->err)) &&
               verdict_call(r, &v, side, b->step_end(b, &s, &r->err)));
        b->weight_free(b, &w);
    }
    verdict_floats(r, &v, &x, "x");
    verdict_end(r, &v);
    free(table);
}

static void embed_cases(struct rig *r) {
    static const int64_t float_cols[] = {1,  7, ELEMENT_THREADS - 1, ELEMENT_THREADS, ELEMENT_THREADS + 1,
                                         896};
    static const int64_t block_cols[] = {32, 224, 256, 288, 896};
    static const int64_t super_cols[] = {256, 768, 3584};
    for (int t = 0; t < COUNT(all_types); t++) {
        int block = dtype_info((int)all_types[t])->block;
        const int64_t *cols = block == 1 ? float_cols : block == QK_32 ? block_cols : super_cols;
        int n = block == 1 ? COUNT(float_cols) : block == QK_32 ? COUNT(block_cols) : COUNT(super_cols);
        for (int i = 0; i < n; i++) embed_case(r, all_types[t], cols[i], i % 2 ? 1 : 64);
    }
}

static void rmsnorm_case(struct rig *r, enum fill f, int64_t rows, int64_t cols, int alias) {
    struct verdict v;
    float *x = rig_memory((size_t)(rows * cols) * 4), *w = rig_memory((size_t)cols * 4);
    verdict_begin(&v, "rmsnorm", "f32", alias ? "in_place" : "plain", "rows=%lld cols=%lld family=%s",
                  (long long)rows, (long long)cols, fill_name(f));
    fill_floats(r, f, x, (size_t)(rows * cols));
    fill_floats(r, FILL_NORMAL, w, (size_t)cols);
    struct pair px = rig_input(r, x, (size_t)(rows * cols) * 4), pw = rig_input(r, w, (size_t)cols * 4);
    struct pair py = alias ? px : rig_output(r, (size_t)(rows * cols) * 4);
    for (int s = 0; s < RIG_SIDES; s++)
        (void)verdict_call(
            r, &v, s, r->side[s]->rmsnorm(r->side[s], px.p[s], pw.p[s], 1e-6f, rows, cols, py.p[s], &r->err));
    verdict_floats(r, &v, &py, "y");
    verdict_end(r, &v);
    free(x);
    free(w);
}

static void rmsnorm_cases(struct rig *r) {
    static const int64_t cols[] = {1,
                                   2,
                                   16,
                                   63,
                                   64,
                                   80,
                                   127,
                                   128,
                                   NORM_LANES - 1,
                                   NORM_LANES,
                                   NORM_LANES + 1,
                                   896,
                                   NORM_WARP_COLS - 1,
                                   NORM_WARP_COLS,
                                   NORM_WARP_COLS + 1,
                                   1531,
                                   3584,
                                   8192,
                                   18944};
    static const int64_t rows[] = {1, NORM_WARP_ROWS - 1, NORM_WARP_ROWS, NORM_WARP_ROWS + 1, 130};
    for (int c = 0; c < COUNT(cols); c++)
        for (int i = 0; i < COUNT(rows); i++) {
            if (r->quick && (i == 4 || cols[c] > 4000)) continue;
            rmsnorm_case(r, (enum fill)((c + i) % FILL_COUNT), rows[i], cols[c], i % 2);
        }
}

static void act_case(struct rig *r, enum act_kind kind, enum fill f, int64_t rows, int64_t k) {
    struct verdict v;
    size_t n = (size_t)(rows * k), k_pad = (size_t)((k + TC_K - 1) / TC_K * TC_K),
           block = (size_t)act_block(kind);
    float *x = rig_memory(n * 4);
    verdict_begin(&v, "act_prepare", act_kind_name(kind), "plain", "rows=%lld k=%lld family=%s",
                  (long long)rows, (long long)k, fill_name(f));
    fill_floats(r, f, x, n);
    if (f == FILL_TINY && n >= block) memset(x, 0, block * 4); /* a zero block, and below 2^-100 */
    struct pair px = rig_input(r, x, n * 4),
                main = rig_output(r, kind == ACT_F16 ? (size_t)rows * k_pad * 2 : n);
    struct pair d = rig_output(r, n / block * 4), sum = rig_output(r, n / ACT_SUM_GROUP * 2);
    for (int s = 0; s < RIG_SIDES; s++) {
        struct act a = {kind, k, NULL, main.p[s], main.p[s], d.p[s], sum.p[s]};
        (void)verdict_call(r, &v, s,
                           r->side[s]->act_prepare(r->side[s], kind, px.p[s], rows, k, &a, &r->err));
        if (a.k != k || a.kind != kind) v.mismatches++;
    }
    if (kind == ACT_F16 &&
        f == FILL_SPECIAL) { /* f16 NaN payloads may differ: the products see NaN as a class */
        verdict_overflow(r, &v);
    } else {
        verdict_bytes(r, &v, &main, kind == ACT_F16 ? "f16" : "q");
        verdict_overflow(r, &v);
    }
    if (kind != ACT_F16) {
        verdict_floats(r, &v, &d, "d");
        verdict_bytes(r, &v, &sum, "sum");
    }
    verdict_end(r, &v);
    free(x);
}

static void act_cases(struct rig *r) {
    static const int64_t f16_k[] = {1, 15, 16, 17, ELEMENT_THREADS + 1, 896, 3584};
    static const int64_t k32[] = {32, 64, 96, 896, 18944};
    static const int64_t k256[] = {256, 512, 1280, 18944};
    static const int64_t rows[] = {1, 2, 7, 8, 9, 65};
    for (int f = 0; f < FILL_COUNT; f++)
        for (int i = 0; i < COUNT(rows); i++) {
            for (int c = 0; c < COUNT(f16_k); c++) act_case(r, ACT_F16, (enum fill)f, rows[i], f16_k[c]);
            for (int c = 0; c < COUNT(k32) - r->quick; c++)
                act_case(r, ACT_Q8_32, (enum fill)f, rows[i], k32[c]);
            for (int c = 0; c < COUNT(k256) - r->quick; c++)
                act_case(r, ACT_Q8_256, (enum fill)f, rows[i], k256[c]);
        }
}

/* swiglu (alias: y over g, as the forward pass does) and add, which works in place anyway. */
static void elementwise_case(struct rig *r, int is_add, enum fill f, int64_t n) {
    struct verdict v;
    float *a = rig_memory((size_t)n * 4), *b = rig_memory((size_t)n * 4);
    verdict_begin(&v, is_add ? "add" : "swiglu", "f32", "in_place", "n=%lld family=%s", (long long)n,
                  fill_name(f));
    fill_floats(r, f, a, (size_t)n);
    fill_floats(r, f, b, (size_t)n);
    for (int64_t i = 0; i < n && f == FILL_OUTLIER; i += 3) a[i] *= 30.0f; /* exp underflow and overflow */
    struct pair pa = rig_input(r, a, (size_t)n * 4), pb = rig_input(r, b, (size_t)n * 4);
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *side = r->side[s];
        (void)verdict_call(r, &v, s,
                           is_add ? side->add(side, pa.p[s], pb.p[s], n, &r->err)
                                  : side->swiglu(side, pa.p[s], pb.p[s], n, pa.p[s], &r->err));
    }
    verdict_floats(r, &v, &pa, "y");
    verdict_end(r, &v);
    free(a);
    free(b);
}

static void elementwise_cases(struct rig *r, int is_add) {
    static const int64_t n[] = {1, ELEMENT_THREADS - 1, ELEMENT_THREADS, ELEMENT_THREADS + 1, 18944, 1000003};
    for (int f = 0; f < FILL_COUNT; f++)
        for (int i = 0; i < COUNT(n) - r->quick; i++) elementwise_case(r, is_add, (enum fill)f, n[i]);
}

/* How a row of logits is made hard. */
enum top2_arm {
    TOP2_RANDOM,
    TOP2_EQUAL,
    TOP2_TIE_ENDS,
    TOP2_ZEROS,
    TOP2_SPECIAL,
    TOP2_ALL_NAN,
    TOP2_ALL_MINUS,
    TOP2_ARMS
};

static void top2_row(struct rig *r, enum top2_arm arm, float *x, int64_t n) {
    fill_floats(r,
                arm == TOP2_SPECIAL ? FILL_SPECIAL
                : arm == TOP2_ZEROS ? FILL_ZERO
                                    : FILL_NORMAL,
                x, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        if (arm == TOP2_EQUAL) x[i] = 3.5f;
        if (arm == TOP2_ALL_NAN) x[i] = fm_f32_from_bits(0x7fc00000u);
        if (arm == TOP2_ALL_MINUS) x[i] = -INFINITY;
    }
    if (arm == TOP2_TIE_ENDS) x[0] = x[n - 1] = 17.125f;
}

static void top2_case(struct rig *r, enum top2_arm arm, int64_t rows, int64_t n_vocab) {
    static const char *const names[TOP2_ARMS] = {"random",  "equal",   "tie_ends", "zeros",
                                                 "special", "all_nan", "all_minus"};
    struct verdict v;
    int64_t stride = n_vocab + 5; /* padded rows hold larger values that must not win */
    float *x = rig_memory((size_t)(rows * stride) * 4);
    verdict_begin(&v, "top2", "f32", names[arm], "rows=%lld n_vocab=%lld", (long long)rows,
                  (long long)n_vocab);
    for (int64_t i = 0; i < rows; i++) {
        top2_row(r, arm, x + i * stride, n_vocab);
        for (int64_t c = n_vocab; c < stride; c++) x[i * stride + c] = 1e9f;
    }
    struct pair px = rig_input(r, x, (size_t)(rows * stride) * 4);
    struct pair out = rig_output(r, (size_t)rows * sizeof(struct top2));
    for (int s = 0; s < RIG_SIDES; s++)
        (void)verdict_call(r, &v, s,
                           r->side[s]->top2(r->side[s], px.p[s], rows, n_vocab, stride, out.p[s], &r->err));
    verdict_bytes(r, &v, &out, "top2");
    verdict_end(r, &v);
    free(x);
}

static void top2_cases(struct rig *r) {
    static const int64_t n[] = {
        1, 2, TOP2_PARTS - 1, TOP2_PARTS, TOP2_PARTS + 1, 257, TOP2_PARTS * TOP2_THREADS + 1, 152064};
    for (int arm = 0; arm < TOP2_ARMS; arm++)
        for (int i = 0; i < COUNT(n) - 2 * r->quick; i++)
            top2_case(r, (enum top2_arm)arm, i % 2 ? 8 : 1, n[i]);
    for (int rows = TOP2_ROWS - 1; rows <= TOP2_ROWS + 1; rows++) top2_case(r, TOP2_RANDOM, rows, 97);
}

/* Sums are integers, so the device's are the twin's; the last rows lie where a row is longer than its stride. */
static void checksum_case(struct rig *r, enum row_kind kind, int64_t n, int64_t cols) {
    static const char *const names[] = {"f32", "f16", "i8", "i16", "q8_0"};
    struct verdict v;
    int64_t stride = cols + ROW_BLOCK;
    size_t bytes = checksum_offset(kind, n * stride);
    float *noise = rig_memory(bytes + sizeof *noise);
    struct row_sum *sums[RIG_SIDES];
    verdict_begin(&v, "row_sums", names[kind], "plain", "rows=%lld cols=%lld", (long long)n, (long long)cols);
    fill_floats(r, FILL_SPECIAL, noise, bytes / sizeof *noise + 1);
    struct pair p = rig_input(r, noise, bytes);
    for (int s = 0; s < RIG_SIDES; s++) {
        struct row_span rows = {kind, p.p[s], n, cols, stride};
        sums[s] = rig_memory((size_t)n * sizeof *sums[s]);
        memset(sums[s], 0xff, (size_t)n * sizeof *sums[s]);
        (void)verdict_call(r, &v, s, r->side[s]->row_sums(r->side[s], &rows, sums[s], &r->err));
    }
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&sums[0][i], &sums[1][i], sizeof sums[0][i]) != 0 && v.mismatches++ == 0)
            v.first = (long)i, v.where = "sum";
    verdict_end(r, &v);
    free(noise), free(sums[0]), free(sums[1]);
}

static void checksum_cases(struct rig *r) {
    enum { SLICE = CHECKSUM_THREADS * CHECKSUM_PER_THREAD };
    static const int64_t cols[] = {
        1,         CHECKSUM_THREADS - 1,       CHECKSUM_THREADS, CHECKSUM_THREADS + 1, SLICE - 1, SLICE,
        SLICE + 1, SLICE * CHECKSUM_SLICES + 1};
    for (int kind = ROWS_F32; kind <= ROWS_Q8_0; kind++) {
        int64_t block = kind == ROWS_Q8_0 ? ROW_BLOCK : 1;
        for (int i = 0; i < COUNT(cols); i++) {
            int64_t whole = (cols[i] + block - 1) / block * block;
            checksum_case(r, (enum row_kind)kind, i % 2 ? 1 : 3, whole);
        }
        for (int64_t n = CHECKSUM_ROWS - 1; n <= CHECKSUM_ROWS + 1 - r->quick; n++)
            checksum_case(r, (enum row_kind)kind, n, block);
    }
    checksum_case(r, ROWS_F32, 2 * CHECKSUM_ROWS + 3, 7);
}

void parity_rows(struct rig *r) {
    struct geometry g = geometry_default(ARCH_SM90);
    rig_open(r, ROUTE_F16, &g, 0);
    if (rig_wants(r, "embed")) embed_cases(r);
    if (rig_wants(r, "rmsnorm")) rmsnorm_cases(r);
    if (rig_wants(r, "act_prepare")) act_cases(r);
    if (rig_wants(r, "swiglu")) elementwise_cases(r, 0);
    if (rig_wants(r, "add")) elementwise_cases(r, 1);
    if (rig_wants(r, "top2")) top2_cases(r);
    if (rig_wants(r, "row_sums")) checksum_cases(r);
    rig_close(r);
}
