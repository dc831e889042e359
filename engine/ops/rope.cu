/* rope.cu - kernel of rope: one rotated pair per thread, from the table made on the host.
 * Not a place for sin or cos: the table is the same bytes on both backends.
 * Source: Su et al. 2021. Exercise: device_parity --op rope */
#include "../cuda/check.h"

struct rope_shape {
    int n_head, head_dim, half; /* half = n_rot / 2 pairs per head */
    int interleaved;
};

__global__ void __launch_bounds__(ELEMENT_THREADS)
    rope_kernel(float *x, const int32_t *pos, const float *cos_table, const float *sin_table, rope_shape s) {
    int pair = blockIdx.x * ELEMENT_THREADS + threadIdx.x, r = blockIdx.y;
    if (pair >= s.n_head * s.half) return;
    int head = pair / s.half, i = pair % s.half;
    float c = cos_table[(int64_t)pos[r] * s.half + i], n = sin_table[(int64_t)pos[r] * s.half + i];
    float *h = x + ((int64_t)r * s.n_head + head) * s.head_dim;
    int ia = s.interleaved ? 2 * i : i, ib = s.interleaved ? 2 * i + 1 : i + s.half;
    float a = h[ia], b = h[ib];
    h[ia] = a * c - b * n;
    h[ib] = a * n + b * c;
}

extern "C" enum status rope_cuda(struct backend *self, const struct step *s, const struct rope_table *t,
                                 int n_head, int head_dim, float *x, struct err *err) {
    struct cuda_context *c = cuda_context_of(self);
    rope_shape shape = {n_head, head_dim, t->n_rot / 2, t->kind == ROPE_INTERLEAVED};
    dim3 grid(ceil_div((int64_t)n_head * shape.half, ELEMENT_THREADS), (unsigned)s->n_rows);
    return cuda_start(c, KERNEL_ROPE, rope_kernel, grid, dim3(ELEMENT_THREADS), 0, err, x, c->pos, t->cos,
                      t->sin, shape);
}
