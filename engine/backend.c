/* backend.c - the part of backend.h that no backend owns: how prepared activations lie in one piece of memory, what a step
 * must be, and what a watcher may do where memory is the host's.
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

enum status step_check(const struct step *s, enum route route, struct err *err) {
    if (s->n_rows < 1 || s->n_rows > CHUNK_MAX)
        return err_set(err, STATUS_USAGE, "step: %d rows (1 to %d)", s->n_rows, CHUNK_MAX);
    if (s->n_seq != 1 && (s->n_seq != s->n_rows || s->n_seq > BATCH_MAX))
        return err_set(err, STATUS_USAGE, "step: %d sequences for %d rows (1, or one a row up to %d)",
                       s->n_seq, s->n_rows, BATCH_MAX);
    for (int r = 0; r < s->n_rows; r++) {
        const struct kv_cache *kv = s->kv[s->n_seq == 1 ? 0 : r];
        if (s->pos[r] < 0 || s->pos[r] >= kv->n_ctx)
            return err_set(err, STATUS_LIMIT, "step: row %d has position %d in a cache of %d", r,
                           (int)s->pos[r], kv->n_ctx);
        if (s->n_seq == 1 && s->pos[r] != s->pos[0] + r)
            return err_set(err, STATUS_USAGE, "step: row %d of a prompt has position %d, not %d", r,
                           (int)s->pos[r], (int)s->pos[0] + r);
        if (kv->dtype == KV_F32 && route != ROUTE_F32)
            return err_set(err, STATUS_UNSUPPORTED, "step: an f32 cache needs route f32");
    }
    return STATUS_OK;
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
