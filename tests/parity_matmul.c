/* parity_matmul.c - device_parity for matmul: both routes, every weight type, decode and prefill kernels. */
#include <stdlib.h>
#include <string.h>

#include "../engine/cuda/launch.h"
#include "parity_rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const int64_t all_rows[] = {
    1,          2,      3,          4,           5,       7,           GEMV_ROWS, GEMV_ROWS + 1,
    MMQ_BM - 1, MMQ_BM, MMQ_BM + 1, GEMM_BM - 1, GEMM_BM, GEMM_BM + 1, 130,       500};

static void matmul_case(struct rig *r, enum route route, enum dtype t, int64_t n, int64_t k, int64_t rows,
                        enum fill f) {
    struct verdict v;
    int has_bias = (n + rows) % 2 == 0;
    size_t bytes = (size_t)dtype_bytes(t, (uint64_t)(n * k));
    void *src = rig_memory(bytes);
    float *x = rig_memory((size_t)(rows * k) * 4), *bias = rig_memory((size_t)n * 4);
    verdict_begin(&v, "matmul", dtype_info((int)t)->name, route_name(route),
                  "rows=%lld n=%lld k=%lld bias=%d family=%s", (long long)rows, (long long)n, (long long)k,
                  has_bias, fill_name(f));
    fill_weights(r, t, src, (size_t)(n * k));
    fill_floats(r, f, x, (size_t)(rows * k));
    fill_floats(r, FILL_NORMAL, bias, (size_t)n);
    enum act_kind kind = act_kind_for(route, t);
    size_t act_bytes = act_carve(kind, rows, k, NULL, NULL);
    struct pair px = rig_input(r, x, (size_t)(rows * k) * 4), pb = rig_input(r, bias, (size_t)n * 4);
    struct pair pa = rig_output(r, act_bytes), y = rig_output(r, (size_t)(rows * n) * 4);
    for (int s = 0; s < RIG_SIDES; s++) {
        struct backend *b = r->side[s];
        struct weight w;
        struct act a;
        if (!verdict_call(r, &v, s, b->weight_upload(b, WEIGHT_MATMUL, t, src, n, k, &w, &r->err))) continue;
        w.bias = has_bias ? pb.p[s] : NULL;
        (void)act_carve(kind, rows, k, pa.p[s], &a);
        (void)(verdict_call(r, &v, s, b->act_prepare(b, kind, px.p[s], rows, k, &a, &r->err)) &&
               verdict_call(r, &v, s, b->matmul(b, &w, &a, rows, y.p[s], &r->err)));
        b->weight_free(b, &w);
    }
    verdict_overflow(r, &v);
    verdict_floats(r, &v, &y, "y");
    verdict_end(r, &v);
    free(src);
    free(x);
    free(bias);
}

static void f16_cases(struct rig *r) {
    static const enum dtype types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                       DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    static const int64_t ks[] = {1,
                                 15,
                                 16,
                                 17,
                                 GEMM_BK - 1,
                                 GEMM_BK,
                                 GEMM_BK + 1,
                                 80,
                                 GEMV_BK - 1,
                                 GEMV_BK,
                                 GEMV_BK + 1,
                                 GEMM_BK * GEMM_STAGES - 1,
                                 GEMM_BK * GEMM_STAGES + 1,
                                 GEMV_BK * GEMV_STAGES - 1,
                                 GEMV_BK * GEMV_STAGES,
                                 GEMV_BK * GEMV_STAGES + 1,
                                 GEMV_BK * GEMV_STAGES + 16,
                                 896};
    static const int64_t ns[] = {1,           GEMV_TILE - 1,  GEMV_TILE,   GEMV_TILE + 1,
                                 GEMM_BN - 1, GEMM_BN,        GEMM_BN + 1, 2 * GEMM_BN - 1,
                                 2 * GEMM_BN, 2 * GEMM_BN + 1}; /* twice: the wide wgmma tile */
    for (int i = 0; i < COUNT(types); i++)
        for (int j = 0; j < 3; j++)
            matmul_case(r, ROUTE_F16, types[i], 40, 512, j == 0 ? 1 : j == 1 ? 8 : 33, FILL_NORMAL);
    for (int i = 0; i < COUNT(all_rows); i++) {
        if (r->quick && all_rows[i] > 66) continue;
        for (int k = 0; k < COUNT(ks); k++)
            if (!r->quick || (i + k) % 2)
                matmul_case(r, ROUTE_F16, DTYPE_F16, ns[(i + k) % COUNT(ns)], ks[k], all_rows[i],
                            (enum fill)(k % FILL_COUNT));
        for (int n = 0; n < COUNT(ns) - 2 * r->quick; n++)
            matmul_case(r, ROUTE_F16, DTYPE_F16, ns[n], 160, all_rows[i], FILL_OUTLIER);
    }
    if (r->quick) return;
    matmul_case(r, ROUTE_F16, DTYPE_F16, 3584, 18944, 1, FILL_NORMAL);
    matmul_case(r, ROUTE_F16, DTYPE_Q4_K, 512, 18944, 8, FILL_OUTLIER);
    matmul_case(r, ROUTE_F16, DTYPE_Q6_K, 512, 18944, 130, FILL_NORMAL);
    matmul_case(r, ROUTE_F16, DTYPE_Q4_K, 3584, 3584, 129, FILL_OUTLIER);
}

static void q8_cases(struct rig *r) {
    static const enum dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0,
                                       DTYPE_Q5_1, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    static const int64_t k32[] = {32, 64, MMQ_BK - 32, MMQ_BK, MMQ_BK + 32, 896},
                         k256[] = {256, 512, 768, 1280, 2304};
    static const int64_t ns[] = {
        1, 3, MMVQ_ROWS_MAX - 1, MMVQ_ROWS_MAX, MMVQ_ROWS_MAX + 1, MMQ_BN - 1, MMQ_BN, MMQ_BN + 1, 300};
    for (int t = 0; t < COUNT(types); t++) {
        int super = dtype_info((int)types[t])->block == QK_256, n_k = super ? COUNT(k256) : COUNT(k32);
        const int64_t *ks = super ? k256 : k32;
        for (int i = 0; i < COUNT(all_rows); i++) {
            if (r->quick && all_rows[i] > 66) continue;
            for (int k = 0; k < n_k; k++)
                matmul_case(r, ROUTE_Q8, types[t], ns[(i + k + t) % COUNT(ns)], ks[k], all_rows[i],
                            (enum fill)((i + k) % FILL_COUNT));
        }
        if (r->quick) continue;
        matmul_case(r, ROUTE_Q8, types[t], 3584, 18944, 1, FILL_NORMAL);
        matmul_case(r, ROUTE_Q8, types[t], 1000, 18944, 8, FILL_OUTLIER);
        matmul_case(r, ROUTE_Q8, types[t], 500, 18944, 130, FILL_OUTLIER);
        matmul_case(r, ROUTE_Q8, types[t], 20000, 3584, 3, FILL_NORMAL);
    }
}

void parity_matmul(struct rig *r) {
    struct geometry g = geometry_default(ARCH_SM90);
    if (!rig_wants(r, "matmul")) return;
    rig_open(r, ROUTE_F16, &g, 0);
    f16_cases(r);
    rig_close(r);
    rig_open(r, ROUTE_Q8, &g, 0);
    q8_cases(r);
    rig_close(r);
}
