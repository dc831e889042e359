/* matmul_f16.c - twin of matmul on f16 activations: weights rounded once to f16, tensor-core arithmetic in K order.
 * Not the accumulate model itself (tcmodel.h).
 * Idea: columns never meet in the arithmetic, so they are what threads share.
 * Source: ours. Exercise: ctest -R unit.matmul */
#include <stdlib.h>

#include "../fmath.h"
#include "../tcmodel.h"
#include "twins.h"

#define PART_PRODUCTS   (1 << 15) /* least work of a thread, about 20 us: waking one costs several */
#define DEQUANTISE_STEP 1024

/* One row of W to f16; STATUS_INVALID at the first element without a finite f16 value. */
static enum status row_to_f16(enum dtype dtype, const uint8_t *src, int64_t row, int64_t k, uint16_t *out,
                              struct err *err) {
    float x[DEQUANTISE_STEP];
    for (int64_t k0 = 0; k0 < k; k0 += DEQUANTISE_STEP) {
        int64_t n = k - k0 < DEQUANTISE_STEP ? k - k0 : DEQUANTISE_STEP;
        dtype_dequantise(dtype, src + dtype_bytes(dtype, (uint64_t)k0), x, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            out[k0 + i] = fm_f32_to_f16(x[i]);
            if ((out[k0 + i] & 0x7c00u) == 0x7c00u)
                return err_set(err, STATUS_INVALID, "row %lld, column %lld: %g has no finite f16 value",
                               (long long)row, (long long)(k0 + i), (double)x[i]);
        }
    }
    return STATUS_OK;
}

enum status matmul_f16_pack(enum dtype dtype, const void *src, int64_t n, int64_t k, void **out,
                            struct err *err) {
    *out = NULL;
    const struct dtype_info *info = dtype_info((int)dtype);
    if (k % info->block != 0)
        return err_set(err, STATUS_SHAPE, "row length %lld is not a multiple of the %s block %d",
                       (long long)k, info->name, info->block);
    size_t bytes = tc_packed_elements(n, k) * sizeof(uint16_t), panel = tc_packed_elements(TC_PANEL, k);
    uint16_t *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
    uint16_t *rows = malloc((size_t)k * TC_PANEL * sizeof *rows);
    enum status s = STATUS_OK;
    if (packed == NULL || rows == NULL)
        s = err_set(err, STATUS_NOMEM, "packing a %lld x %lld matrix takes %zu bytes", (long long)n,
                    (long long)k, bytes);
    uint64_t row_bytes = dtype_bytes(dtype, (uint64_t)k);
    for (int64_t row = 0; s == STATUS_OK && row < n; row += TC_PANEL) {
        int64_t width = n - row < TC_PANEL ? n - row : TC_PANEL;
        for (int64_t j = 0; s == STATUS_OK && j < width; j++)
            s = row_to_f16(dtype, (const uint8_t *)src + row_bytes * (uint64_t)(row + j), row + j, k,
                           rows + j * k, err);
        if (s == STATUS_OK) tc_pack_rows(rows, k, width, k, packed + (size_t)(row / TC_PANEL) * panel);
    }
    free(rows);
    if (s != STATUS_OK) {
        free(packed);
        return s;
    }
    *out = packed;
    return STATUS_OK;
}

struct f16_job {
    const struct twin_ctx *t;
    const struct weight *w;
    const struct act *a;
    int64_t rows;
    float *y; /* [rows, w->n] */
};

static void multiply_panels(void *ctx, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const struct f16_job *job = ctx;
    int64_t n = job->w->n, k = job->w->k, lda = (k + TC_K - 1) / TC_K * TC_K;
    int64_t j0 = begin * TC_PANEL, j1 = end * TC_PANEL < n ? end * TC_PANEL : n;
    tc_gemm(job->t->arch, TC_F16, job->t->use_avx2, job->a->f16, lda, job->rows, job->w->data, k, j0, j1,
            job->y, n, 0);
    if (job->w->bias == NULL) return;
    for (int64_t r = 0; r < job->rows; r++)
        for (int64_t j = j0; j < j1; j++) job->y[r * n + j] = job->y[r * n + j] + job->w->bias[j];
}

void matmul_f16_twin(const struct twin_ctx *t, const struct weight *w, const struct act *a, int64_t rows,
                     float *y) {
    struct f16_job job = {t, w, a, rows, y};
    int64_t grain = 1 + PART_PRODUCTS / (TC_PANEL * w->k * rows);
    par_for(t->pool, (w->n + TC_PANEL - 1) / TC_PANEL, grain, multiply_panels, &job);
}
