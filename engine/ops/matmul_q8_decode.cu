/* matmul_q8_decode.cu - decode kernel of matmul on route q8 (MMVQ): 1 to GEMV_ROWS activation rows, one to three matrices
 * of one type that share them (q and k; gate and up).
 * Not an order of its own: integer sums are exact however lanes share them; the f32 chain over blocks runs in ascending
 * order in one thread per output, as in the prefill kernel and the twin.
 * Idea: a lane takes one unit (units.cuh) of two rows at a time, so a piece of the activations serves both and many bytes
 * are in flight; the lanes of a block of K add up their integers and leave the block's terms (scale product, integer) in
 * shared memory; when all are there, one thread per output folds them.
 * Source: ours; dp4a as in ggml's mmvq. Exercise: device_parity --op matmul --route q8 */
#include "../cuda/check.h"
#include "../cuda/reduce.cuh"
#include "../cuda/units.cuh"
#include "../cuda/probe.cuh"
#include "matmul_cuda.h"

#define MMVQ_PAIR  2   /* weight rows of a lane */
#define GEMV_UNITS 512 /* blocks of 32 that planted fault mv-bound covers */

struct mmvq_matrix {
    weight_planes w;
    const float *bias;
    float *y;
    int64_t n;
    int first; /* thread block that does its first rows */
};

struct mmvq_args {
    mmvq_matrix m[MATMUL_SHARED_MAX];
    int count;
    const int8_t *q;    /* [rows, k] */
    const float *d;     /* [rows, k/BLOCK] */
    const int16_t *sum; /* [rows, k/16] */
    int64_t k;
    int n_rows;   /* activation rows of the step */
    int rows;     /* weight rows per thread block, a multiple of MMVQ_PAIR */
    int segment;  /* blocks of K whose terms are held at once */
    int n_blocks; /* of a row */
};

/* Terms of a block: acc = fma(x, f, acc) for each. */
template <int T> struct mmvq_terms { static constexpr int COUNT = unit_of<T>::MIN ? 2 : 1; };

/* This thread block's share. */
struct mmvq_share {
    const mmvq_matrix *m;
    int64_t n0;
    float2 *terms; /* [activation row][weight row][block of the segment][COUNT] */
};

/* P and M of one unit against activation row a. */
template <int T>
__device__ __forceinline__ int2 mmvq_dot(const unit_of<T> &u, const int4 x[unit_of<T>::GROUPS],
                                         const int s[unit_of<T>::GROUPS]) {
    int2 pm = make_int2(0, 0);
#pragma unroll
    for (int i = 0; i < unit_of<T>::GROUPS; i += FAULT_TOLD(MM_SKIP) ? 2 : 1) {
        int dot = __dp4a((int)u.w[i][0], x[i].x, 0);
        dot = __dp4a((int)u.w[i][1], x[i].y, dot);
        dot = __dp4a((int)u.w[i][FAULT_TOLD(MM_KHALF) ? 0 : 2], x[i].z, dot);
        dot = __dp4a((int)u.w[i][FAULT_TOLD(MM_KHALF) ? 1 : 3], x[i].w, dot);
        pm.x += u.scale[i] * dot;
        if (T != DTYPE_Q8_0) pm.y += u.min[i] * s[i];
    }
    return pm;
}

/* Sums over the four lanes of a block. Lane l is left with P (l even) or M (l odd) of row l / 2; without a min term, even
 * lanes with P - M of row l / 2. */
template <bool MIN> __device__ __forceinline__ int mmvq_quad(int2 a, int2 b) {
    bool second = threadIdx.x & 2, odd = threadIdx.x & 1;
    if (!MIN) {
        int keep = second ? b.x - b.y : a.x - a.y, send = second ? a.x - a.y : b.x - b.y;
        keep += __shfl_xor_sync(WARP_ALL, send, 2);
        return keep + __shfl_xor_sync(WARP_ALL, keep, 1);
    }
    int p = second ? b.x : a.x, m = second ? b.y : a.y;
    p += __shfl_xor_sync(WARP_ALL, second ? a.x : b.x, 2);
    m += __shfl_xor_sync(WARP_ALL, second ? a.y : b.y, 2);
    return (odd ? m : p) + __shfl_xor_sync(WARP_ALL, odd ? p : m, 1);
}

template <int T> __device__ __forceinline__ float2 mmvq_term(float2 dm, float da, int value, int is_min) {
    if (is_min) return make_float2(unit_of<T>::K ? -(dm.y * da) : dm.y * da, (float)value);
    return make_float2(dm.x * da, (float)value);
}

/* Terms of block b0 + b for this lane's pair of rows and activation row a. */
template <int T>
__device__ __forceinline__ void mmvq_store(const mmvq_args &g, const mmvq_share &s,
                                           const int64_t block[MMVQ_PAIR], int2 p0, int2 p1, int a, int r,
                                           int b0, int b, bool live) {
    constexpr int COUNT = mmvq_terms<T>::COUNT;
    float da = __ldg(g.d + (int64_t)a * g.n_blocks + b0 + b);
    float2 *to = s.terms + ((int64_t)(a * g.rows + r) * g.segment + b) * COUNT;
    if constexpr (unit_of<T>::K) {
        int value = mmvq_quad<unit_of<T>::MIN>(p0, p1), row = threadIdx.x >> 1 & 1, odd = threadIdx.x & 1;
        float2 dm = block_scales<T>(s.m->w, row ? block[1] : block[0]);
        if (live && (COUNT == 2 || !odd))
            to[row * g.segment * COUNT + odd] = mmvq_term<T>(dm, da, value, odd);
    } else {
#pragma unroll
        for (int row = 0; row < MMVQ_PAIR; row++) {
            int2 pm = row == 0 ? p0 : p1;
            float2 dm = block_scales<T>(s.m->w, block[row]), *at = to + row * g.segment * COUNT;
            if (!live) continue;
            at[0] = mmvq_term<T>(dm, da, COUNT == 2 ? pm.x : pm.x - pm.y, 0);
            if (COUNT == 2) at[COUNT - 1] = mmvq_term<T>(dm, da, pm.y, 1);
        }
    }
}

/* Terms of blocks b0 .. b0+len of all rows of this thread block: item j of a pair is unit j % PER of block j / PER. */
template <int T>
__device__ __forceinline__ void mmvq_fill(const mmvq_args &g, const mmvq_share &s, int b0, int len) {
    constexpr int PER = unit_of<T>::PER_BLOCK;
    int items = len * PER, total = items * (g.rows / MMVQ_PAIR), r = 0, j = threadIdx.x;
    for (int done = 0; done < total; done += MMVQ_THREADS, j += MMVQ_THREADS) {
        while (j >= items && r < g.rows) {
            j -= items;
            r += MMVQ_PAIR;
        }
        bool live = r < g.rows;
        int b = live ? j / PER : 0, q = j % PER, row = live ? r : 0;
        int64_t block[MMVQ_PAIR], k0 = (int64_t)(b0 + b) * unit_of<T>::BLOCK * (FAULT_TOLD(MM_CHUNK) ? 2 : 1);
        unit_of<T> u[MMVQ_PAIR];
#pragma unroll
        for (int i = 0; i < MMVQ_PAIR; i++) { /* rows beyond the last repeat it; nobody folds them */
            block[i] = min(s.n0 + row + i, s.m->n - 1) * g.n_blocks + b0 + b;
            unit_load<T>(u[i], s.m->w, block[i], q);
        }
        for (int a = 0; a < g.n_rows; a++) {
            int4 x[unit_of<T>::GROUPS];
            int sum[unit_of<T>::GROUPS];
#pragma unroll
            for (int i = 0; i < unit_of<T>::GROUPS; i++) {
                int64_t at = codes_at(a, g.n_rows, g.k) + k0 + unit_at<T>(q, i);
                x[i] = __ldg((const int4 *)(const void *)(g.q + at));
                sum[i] = T == DTYPE_Q8_0 ? 0 : __ldg(g.sum + at / ACT_SUM_GROUP);
            }
            mmvq_store<T>(g, s, block, mmvq_dot<T>(u[0], x, sum), mmvq_dot<T>(u[1], x, sum), a, row, b0, b,
                          live);
        }
    }
}

/* The chain of output `at` over a segment. */
template <int T>
__device__ __forceinline__ float mmvq_chain(const mmvq_args &g, const mmvq_share &s, int at, int len,
                                            float acc) {
    const float2 *t = s.terms + (int64_t)at * g.segment * mmvq_terms<T>::COUNT;
#pragma unroll 8
    for (int i = 0; i < len * mmvq_terms<T>::COUNT; i++) acc = __fmaf_rn(t[i].x, t[i].y, acc);
    return acc;
}

/* Blocks of K to fold: all of a row. */
template <int T> __device__ __forceinline__ int mmvq_blocks(const mmvq_args &g) {
    if (FAULT_TOLD(MV_BOUND)) return min(g.n_blocks, GEMV_UNITS * QK_32 / unit_of<T>::BLOCK);
    return g.n_blocks;
}

template <int T>
__global__ void __launch_bounds__(MMVQ_THREADS) mmvq_kernel(const __grid_constant__ mmvq_args g) {
    PROBE_BLOCK();
    extern __shared__ __align__(16) float2 mmvq_smem[];
    int i = 0;
    while (i + 1 < g.count && (int)blockIdx.x >= g.m[i + 1].first) i++;
    mmvq_share s = {&g.m[i], (int64_t)(blockIdx.x - g.m[i].first) * g.rows, mmvq_smem};
    int r = threadIdx.x % g.rows, a = threadIdx.x / g.rows;
    bool owner = a < g.n_rows && s.n0 + r < s.m->n;
    float acc = 0.0f;
    for (int b0 = 0; b0 < mmvq_blocks<T>(g); b0 += g.segment) {
        int len = min(g.segment, mmvq_blocks<T>(g) - b0);
        if (b0 > 0) __syncthreads(); /* the terms before are folded */
        mmvq_fill<T>(g, s, b0, len);
        __syncthreads();
        if (owner) acc = mmvq_chain<T>(g, s, threadIdx.x, len, acc);
    }
    if (owner)
        s.m->y[FAULT_TOLD(MM_TNT) ? (s.n0 + r) * g.n_rows + a : a * s.m->n + s.n0 + r] =
            s.m->bias != NULL ? acc + s.m->bias[s.n0 + r] : acc;
}

/* As many weight rows per thread block as still leave MMVQ_RESIDENT of them for every SM. */
static int mmvq_rows(const struct cuda_context *c, int64_t n) {
    int rows = MMVQ_ROWS_MAX;
    while (rows > MMVQ_PAIR && n < (int64_t)rows * MMVQ_RESIDENT * c->n_sm) rows /= 2;
    return rows;
}

template <int T>
static enum status mmvq_launch(struct cuda_context *c, enum kernel_id id, mmvq_args g, struct err *err) {
    static_assert(MMVQ_ROWS_MAX * GEMV_ROWS <= MMVQ_THREADS, "one thread folds each output");
    int per_block = g.rows * g.n_rows * (int)sizeof(float2) * mmvq_terms<T>::COUNT, blocks = 0;
    g.segment = MMVQ_TERM_BYTES / per_block < g.n_blocks ? MMVQ_TERM_BYTES / per_block : g.n_blocks;
    for (int i = 0; i < g.count; i++) {
        g.m[i].first = blocks;
        blocks += (int)ceil_div(g.m[i].n, g.rows);
    }
    c->calls[id] += (uint64_t)g.count - 1; /* the launch itself counts one product */
    return cuda_start(c, id, mmvq_kernel<T>, dim3((unsigned)blocks), dim3(MMVQ_THREADS),
                      (size_t)g.segment * (size_t)per_block, err, g);
}

static enum status mmvq_dispatch(struct cuda_context *c, enum dtype t, const mmvq_args &g, struct err *err) {
    switch (t) {
    case DTYPE_Q8_0:
        return mmvq_launch<DTYPE_Q8_0>(c, KERNEL_MMVQ_Q8_0, g, err);
    case DTYPE_Q4_0:
        return mmvq_launch<DTYPE_Q4_0>(c, KERNEL_MMVQ_Q4_0, g, err);
    case DTYPE_Q4_1:
        return mmvq_launch<DTYPE_Q4_1>(c, KERNEL_MMVQ_Q4_1, g, err);
    case DTYPE_Q5_0:
        return mmvq_launch<DTYPE_Q5_0>(c, KERNEL_MMVQ_Q5_0, g, err);
    case DTYPE_Q5_1:
        return mmvq_launch<DTYPE_Q5_1>(c, KERNEL_MMVQ_Q5_1, g, err);
    case DTYPE_Q4_K:
        return mmvq_launch<DTYPE_Q4_K>(c, KERNEL_MMVQ_Q4_K, g, err);
    case DTYPE_Q5_K:
        return mmvq_launch<DTYPE_Q5_K>(c, KERNEL_MMVQ_Q5_K, g, err);
    case DTYPE_Q6_K:
        return mmvq_launch<DTYPE_Q6_K>(c, KERNEL_MMVQ_Q6_K, g, err);
    case DTYPE_F32:
    case DTYPE_F16:
    case DTYPE_BF16:
        break;
    }
    return err_set(err, STATUS_UNSUPPORTED, "route q8 does not multiply %s weights",
                   dtype_info((int)t)->name);
}

enum status matmul_q8_decode(struct cuda_context *c, const struct product *p, int count, const struct act *a,
                             int64_t rows, struct err *err) {
    mmvq_args g = {};
    int64_t n = 0;
    int block = act_block(p[0].w.act);
    g.count = count;
    g.q = a->q;
    g.d = a->d;
    g.sum = a->sum;
    g.k = p[0].w.k;
    g.n_rows = (int)rows;
    g.n_blocks = (int)(g.k / block);
    for (int i = 0; i < count; i++) {
        const struct weight *w = &p[i].w;
        g.m[i] = {planes_locate(w->dtype, w->data, (size_t)(w->n * g.n_blocks)), w->bias, p[i].y, w->n, 0};
        n += w->n;
    }
    g.rows = mmvq_rows(c, n);
    UNIT_SITES(p[0].w.dtype, rows, g.k);
    FAULT_SITES((g.k > GEMV_UNITS * QK_32 ? FAULT_BIT(MV_BOUND) : 0) |
                (g.n_blocks > 1 ? FAULT_BIT(MM_CHUNK) : 0));
    return mmvq_dispatch(c, p[0].w.dtype, g, err);
}
