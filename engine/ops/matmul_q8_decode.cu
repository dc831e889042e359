/* matmul_q8_decode.cu - decode kernel of matmul on route q8 (MMVQ): 1 to GEMV_ROWS activation rows.
 * Not an order of its own: integer sums are exact however lanes share them; the f32 chain over blocks runs in ascending
 * order in one thread per output, as in the prefill kernel and the twin.
 * Idea: all threads turn (row, block) pairs into terms (scale product, integer sum) in shared memory; while they go on
 * with the next segment of K, one thread per output folds the terms of the last.
 * Source: ours; dp4a as in ggml's mmvq. Exercise: device_parity --op matmul --route q8 */
#include "../cuda/check.h"
#include "../cuda/reduce.cuh"
#include "../cuda/units.cuh"
#include "matmul_cuda.h"

struct mmvq_args {
    weight_planes w;
    const int8_t *q;    /* [rows, k] */
    const float *d;     /* [rows, k/BLOCK] */
    const int16_t *sum; /* [rows, k/16] */
    const float *bias;
    float *y;
    int64_t n, k;
    int n_rows;   /* activation rows of the step */
    int rows;     /* weight rows per block */
    int segment;  /* blocks of K per staging buffer */
    int n_blocks; /* of a row */
};

/* One term of the chain: acc = fma(x, f, acc), and for types with a min acc = fma(y, g, acc). */
struct mmvq_term {
    float x, f;
};
struct mmvq_term_min {
    float x, f, y, g;
};
template <int T> struct mmvq_term_of { using type = mmvq_term; };
template <> struct mmvq_term_of<DTYPE_Q4_1> { using type = mmvq_term_min; };
template <> struct mmvq_term_of<DTYPE_Q5_1> { using type = mmvq_term_min; };
template <> struct mmvq_term_of<DTYPE_Q4_K> { using type = mmvq_term_min; };
template <> struct mmvq_term_of<DTYPE_Q5_K> { using type = mmvq_term_min; };

/* P and M of one unit against activation row a. */
template <int T>
__device__ __forceinline__ int2 mmvq_dot(const mmvq_args &g, const unit_of<T> &u, int a, int64_t k0, int q) {
    int2 pm = make_int2(0, 0);
#pragma unroll
    for (int i = 0; i < unit_of<T>::GROUPS; i++) {
        int64_t at = a * g.k + k0 + unit_at<T>(q, i);
        int4 x = __ldg((const int4 *)(const void *)(g.q + at));
        int dot = __dp4a((int)u.w[i][0], x.x, 0);
        dot = __dp4a((int)u.w[i][1], x.y, dot);
        dot = __dp4a((int)u.w[i][2], x.z, dot);
        dot = __dp4a((int)u.w[i][3], x.w, dot);
        pm.x += u.scale[i] * dot;
        if (T != DTYPE_Q8_0) pm.y += u.min[i] * __ldg(g.sum + at / ACT_SUM_GROUP);
    }
    return pm;
}

template <int T>
__device__ __forceinline__ void mmvq_store(const mmvq_args &g, typename mmvq_term_of<T>::type *out, int2 pm,
                                           int a, int64_t block, int b) {
    float2 dm = block_scales<T>(g.w, block);
    float da = __ldg(g.d + (int64_t)a * g.n_blocks + b);
    if constexpr (unit_of<T>::MIN) {
        *out = {dm.x * da, (float)pm.x, unit_of<T>::K ? -(dm.y * da) : dm.y * da, (float)pm.y};
    } else {
        *out = {dm.x * da, (float)(pm.x - pm.y)};
    }
}

/* Terms of blocks b0 .. b0+len of all rows of this thread block; item j of a row is unit j % PER_BLOCK of block j / .. */
template <int T, int NR>
__device__ __forceinline__ void mmvq_fill(const mmvq_args &g, typename mmvq_term_of<T>::type *terms,
                                          int64_t n0, int b0, int len) {
    constexpr int PER = unit_of<T>::PER_BLOCK;
    int items = len * PER, total = items * g.rows, r = 0, j = threadIdx.x;
    for (int done = 0; done < total; done += MMVQ_THREADS, j += MMVQ_THREADS) {
        while (j >= items) {
            j -= items;
            r++;
        }
        bool live = r < g.rows && n0 + r < g.n;
        int b = j / PER, q = j % PER;
        int64_t block = (n0 + r) * g.n_blocks + b0 + b, k0 = (int64_t)(b0 + b) * unit_of<T>::BLOCK;
        unit_of<T> u;
        if (live) unit_load<T>(u, g.w, block, q);
#pragma unroll
        for (int a = 0; a < NR; a++) {
            int2 pm = live && a < g.n_rows ? mmvq_dot<T>(g, u, a, k0, q) : make_int2(0, 0);
#pragma unroll
            for (int s = 1; s < PER; s *= 2) { /* the units of a block sit in neighbouring lanes */
                pm.x += __shfl_xor_sync(WARP_ALL, pm.x, s);
                pm.y += __shfl_xor_sync(WARP_ALL, pm.y, s);
            }
            if (live && a < g.n_rows && q == 0)
                mmvq_store<T>(g, terms + ((int64_t)b * g.rows + r) * NR + a, pm, a, block, b0 + b);
        }
    }
}

template <int T, int NR>
__device__ __forceinline__ float mmvq_chain(const mmvq_args &g, const typename mmvq_term_of<T>::type *terms,
                                            int len, float acc) {
    int stride = g.rows * NR;
#pragma unroll 4
    for (int b = 0; b < len; b++) {
        typename mmvq_term_of<T>::type t = terms[b * stride + threadIdx.x];
        acc = __fmaf_rn(t.x, t.f, acc);
        if constexpr (unit_of<T>::MIN) acc = __fmaf_rn(t.y, t.g, acc);
    }
    return acc;
}

template <int T, int NR> __global__ void __launch_bounds__(MMVQ_THREADS) mmvq_kernel(mmvq_args g) {
    using term = typename mmvq_term_of<T>::type;
    __shared__ __align__(16) uint8_t staging[2][MMVQ_STAGE_BYTES];
    int64_t n0 = (int64_t)blockIdx.x * g.rows;
    int r = threadIdx.x / NR, a = threadIdx.x % NR;
    bool owner = r < g.rows && n0 + r < g.n && a < g.n_rows;
    float acc = 0.0f;
    for (int b0 = 0, i = 0; b0 < g.n_blocks; b0 += g.segment, i ^= 1) {
        int len = min(g.segment, g.n_blocks - b0);
        term *terms = (term *)(void *)staging[i];
        mmvq_fill<T, NR>(g, terms, n0, b0, len);
        __syncthreads(); /* terms complete; and the other buffer was folded before this thread got here */
        if (owner) acc = mmvq_chain<T, NR>(g, terms, len, acc);
    }
    if (owner) g.y[a * g.n + n0 + r] = g.bias != NULL ? acc + g.bias[n0 + r] : acc;
}

/* Fewest weight rows per block that still leave several blocks for every SM. */
static int mmvq_rows(const struct cuda_context *c, int64_t n) {
    int rows = MMVQ_ROWS_MAX;
    while (rows > 4 && n < (int64_t)rows * 4 * c->n_sm) rows /= 2;
    return rows;
}

template <int T, int NR>
static enum status mmvq_launch(struct cuda_context *c, enum kernel_id id, mmvq_args g, struct err *err) {
    g.segment = MMVQ_STAGE_BYTES / (int)(g.rows * NR * sizeof(typename mmvq_term_of<T>::type));
    return cuda_start(c, id, mmvq_kernel<T, NR>, dim3(ceil_div(g.n, g.rows)), dim3(MMVQ_THREADS), 0, err, g);
}

template <int T>
static enum status mmvq_rows_dispatch(struct cuda_context *c, enum kernel_id id, const mmvq_args &g,
                                      struct err *err) {
    static_assert(MMVQ_ROWS_MAX * GEMV_ROWS <= MMVQ_THREADS, "one thread folds each output");
    if (g.n_rows == 1) return mmvq_launch<T, 1>(c, id, g, err);
    if (g.n_rows == 2) return mmvq_launch<T, 2>(c, id, g, err);
    if (g.n_rows <= 4) return mmvq_launch<T, 4>(c, id, g, err);
    return mmvq_launch<T, GEMV_ROWS>(c, id, g, err);
}

enum status matmul_q8_decode(struct cuda_context *c, const struct weight *w, const struct act *a,
                             int64_t rows, float *y, struct err *err) {
    int block = act_block(w->act), n_blocks = (int)(w->k / block);
    mmvq_args g = {planes_locate(w->dtype, w->data, (size_t)(w->n * n_blocks)),
                   a->q,
                   a->d,
                   a->sum,
                   w->bias,
                   y,
                   w->n,
                   w->k,
                   (int)rows,
                   mmvq_rows(c, w->n),
                   0,
                   n_blocks};
    switch (w->dtype) {
    case DTYPE_Q8_0:
        return mmvq_rows_dispatch<DTYPE_Q8_0>(c, KERNEL_MMVQ_Q8_0, g, err);
    case DTYPE_Q4_0:
        return mmvq_rows_dispatch<DTYPE_Q4_0>(c, KERNEL_MMVQ_Q4_0, g, err);
    case DTYPE_Q4_1:
        return mmvq_rows_dispatch<DTYPE_Q4_1>(c, KERNEL_MMVQ_Q4_1, g, err);
    case DTYPE_Q5_0:
        return mmvq_rows_dispatch<DTYPE_Q5_0>(c, KERNEL_MMVQ_Q5_0, g, err);
    case DTYPE_Q5_1:
        return mmvq_rows_dispatch<DTYPE_Q5_1>(c, KERNEL_MMVQ_Q5_1, g, err);
    case DTYPE_Q4_K:
        return mmvq_rows_dispatch<DTYPE_Q4_K>(c, KERNEL_MMVQ_Q4_K, g, err);
    case DTYPE_Q5_K:
        return mmvq_rows_dispatch<DTYPE_Q5_K>(c, KERNEL_MMVQ_Q5_K, g, err);
    case DTYPE_Q6_K:
        return mmvq_rows_dispatch<DTYPE_Q6_K>(c, KERNEL_MMVQ_Q6_K, g, err);
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        break;
    }
    return err_set(err, STATUS_UNSUPPORTED, "route q8 does not multiply %s weights",
                   dtype_info((int)w->dtype)->name);
}
