/* rope.cu - kernel of rope: one rotated pair per thread, from the table made on the host.
 * Not a place for sin or cos: the table is the same bytes on both backends.
 * Source: Su et al. 2021. Exercise: device_parity --op rope */
#include "../cuda/check.h"

__global__ void __launch_bounds__(ELEMENT_THREADS)
    rope_kernel(const int32_t *pos, const float *cos_table, const float *sin_table, rope_shape s) {
    int pair = blockIdx.x * ELEMENT_THREADS + threadIdx.x, r = blockIdx.y;
    if (pair >= s.n_head * s.half) return;
    int head = pair / s.half, i = pair % s.half;
    float c = cos_table[(int64_t)pos[r] * s.half + i], n = sin_table[(int64_t)pos[r] * s.half + i];
    float *h = s.x + ((int64_t)r * s.n_head + head) * s.head_dim;
    int ia = s.interleaved ? 2 * i : i, ib = s.interleaved ? 2 * i + 1 : i + s.half;
    float a = h[ia], b = h[ib];
    h[ia] = a * c - b * n;
    h[ib] = a * n + b * c;
}

extern "C" enum status rope_launch(struct cuda_context *c, const struct rope_call *r, struct err *err) {
    for (int i = 0; i < r->parts; i++) {
        const rope_shape &s = r->part[i];
        dim3 grid(ceil_div((int64_t)s.n_head * s.half, ELEMENT_THREADS), (unsigned)r->n_rows);
        RETURN_IF_ERROR(cuda_start(c, KERNEL_ROPE, rope_kernel, grid, dim3(ELEMENT_THREADS), 0, err, c->pos,
                                   r->cos, r->sin, s));
    }
    return STATUS_OK;
}

/* Waits: the keys' rotation joins the queries', and kv_append both. */
extern "C" enum status rope_cuda(struct backend *self, const struct step *s, const struct rope_table *t,
                                 int n_head, int head_dim, float *x, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    struct rope_call *r = &c->pending.rope;
    bool joins = c->pending.kind == PENDING_ROPE && r->parts == 1 && r->n_rows == s->n_rows &&
                 r->cos == t->cos && r->part[0].head_dim == head_dim && r->part[0].half == t->n_rot / 2 &&
                 r->part[0].x != x;
    if (!joins) {
        RETURN_IF_ERROR(cuda_settle(c, err));
        r->parts = 0;
        r->n_rows = s->n_rows;
        r->cos = t->cos;
        r->sin = t->sin;
    }
    int interleaved = t->kind == ROPE_INTERLEAVED || FAULT(ROPE_PAIRS);
    r->part[r->parts++] = {x, n_head, head_dim, t->n_rot / 2, interleaved};
    c->pending.kind = PENDING_ROPE;
    return STATUS_OK;
}
