/* backend.c - the part of backend.h that no backend owns: how prepared activations lie in one piece of memory, and what a
 * watcher may do where that is the host's.
 * Not an allocator: the caller brings the memory.
 * Source: ours. Exercise: ctest -R unit.backend */
#include "backend.h"

#include <string.h>

#include "checksum.h"

#define CARVE_ALIGN 256 /* as backend alloc */

/* Takes bytes at *at (rounded up for the next part); NULL when only measuring. */
static void *carve(uint8_t *base, size_t *at, size_t bytes) {
    void *part = base == NULL ? NULL : base + *at;
    *at += (bytes + CARVE_ALIGN - 1) / CARVE_ALIGN * CARVE_ALIGN;
    return part;
}

size_t act_carve(enum act_kind kind, int64_t rows, int64_t k, void *base, struct act *out) {
    struct act a = {0};
    size_t bytes = 0, n = (size_t)rows * (size_t)k;
    a.kind = kind;
    a.k = k;
    if (kind == ACT_F16) {
        size_t k_pad = ((size_t)k + TC_K - 1) / TC_K * TC_K;
        a.f16 = carve(base, &bytes, (size_t)rows * k_pad * sizeof *a.f16);
    } else if (kind != ACT_F32) { /* ACT_F32 aliases the input */
        a.q = carve(base, &bytes, n);
        a.d = carve(base, &bytes, n / (size_t)act_block(kind) * sizeof *a.d);
        a.sum = carve(base, &bytes, n / ACT_SUM_GROUP * sizeof *a.sum);
    }
    if (out != NULL) *out = a;
    return bytes;
}

int host_waiting(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX], int *n) {
    *n = self->kernel_counts(self, out);
    return 0;
}

enum status host_row_sums(struct backend *self, const struct row_span *rows, struct row_sum *host,
                          struct err *err) {
    (void)self, (void)err;
    checksum_rows(rows, host);
    return STATUS_OK;
}
