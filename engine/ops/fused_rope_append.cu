/* fused_rope_append.cu - rope of q and k and kv_append (f16 cache) in one launch: a thread per pair or element.
 * Not another rotation: rope.cu's four products, one difference, one sum; k is also written back, as rope would.
 * Source: ours. Exercise: device_parity --op step */
#include "../cuda/check.h"
#include "../cuda/mma.cuh"
#include "../cuda/reduce.cuh"

struct rope_append_args {
    rope_shape q, k;
    const float *v, *cos, *sin;
    const int32_t *pos;
    kv_view kv;
    int layer;
    unsigned long long *overflow;
};

/* Rotates pair `pair` of row r; returns where its two elements are and what they became. */
struct rope_pair {
    int64_t ia, ib; /* within the row */
    float a, b;
};
__device__ __forceinline__ rope_pair rope_rotate(const rope_shape &s, const rope_append_args &g, int r,
                                                 int pair) {
    int head = pair / s.half, i = pair % s.half;
    float c = g.cos[(int64_t)g.pos[r] * s.half + i], n = g.sin[(int64_t)g.pos[r] * s.half + i];
    float *x = s.x + (int64_t)r * s.n_head * s.head_dim;
    rope_pair p;
    p.ia = head * s.head_dim + (s.interleaved ? 2 * i : i);
    p.ib = head * s.head_dim + (s.interleaved ? 2 * i + 1 : i + s.half);
    float a = x[p.ia], b = x[p.ib];
    p.a = x[p.ia] = a * c - b * n;
    p.b = x[p.ib] = a * n + b * c;
    return p;
}

/* One element into a cache row; returns whether it overflowed f16. */
__device__ __forceinline__ unsigned rope_keep(uint16_t *row, int64_t i, float x) {
    uint16_t h = f16_bits(x);
    row[i] = h;
    return f16_overflows(h);
}

__global__ void __launch_bounds__(ELEMENT_THREADS)
    rope_append_kernel(const __grid_constant__ rope_append_args g) {
    int r = blockIdx.y, seq = g.kv.per_row && !FAULT_TOLD(KV_SLOT) ? r : 0,
        i = blockIdx.x * ELEMENT_THREADS + threadIdx.x;
    int q_pairs = g.q.n_head * g.q.half, k_pairs = g.k.n_head * g.k.half, rest = g.k.head_dim - 2 * g.k.half;
    int width = g.k.n_head * g.k.head_dim;
    int64_t at = ((int64_t)g.layer * g.kv.n_ctx + g.pos[r]) * width;
    uint16_t *k_row = (uint16_t *)g.kv.k[seq] + at, *v_row = (uint16_t *)g.kv.v[seq] + at;
    unsigned over = 0;
    if (i < q_pairs) {
        (void)rope_rotate(g.q, g, r, i);
    } else if ((i -= q_pairs) < k_pairs) {
        rope_pair p = rope_rotate(g.k, g, r, i);
        over = rope_keep(k_row, p.ia, p.a) + rope_keep(k_row, p.ib, p.b);
    } else if ((i -= k_pairs) < width) {
        over = rope_keep(v_row, i, g.v[(int64_t)r * width + i]);
    } else if ((i -= width) < g.k.n_head * rest) { /* dims that are not rotated */
        int64_t c = (int64_t)(i / rest) * g.k.head_dim + 2 * g.k.half + i % rest;
        over = rope_keep(k_row, c, g.k.x[(int64_t)r * width + c]);
    }
    warp_count(over, g.overflow);
}

extern "C" enum status fused_rope_append(struct cuda_context *c, const struct rope_call *r, int layer,
                                         const float *v, struct err *err) {
    rope_append_args g = {r->part[0], r->part[1], v, r->cos, r->sin, c->pos, c->kv, layer, c->overflow};
    int64_t items = (int64_t)g.q.n_head * g.q.half + (int64_t)g.k.n_head * (g.k.half + g.k.head_dim) +
                    (int64_t)g.k.n_head * (g.k.head_dim - 2 * g.k.half);
    return cuda_start(c, KERNEL_ROPE_APPEND, rope_append_kernel,
                      dim3(ceil_div(items, ELEMENT_THREADS), (unsigned)r->n_rows), dim3(ELEMENT_THREADS), 0,
                      err, g);
}
