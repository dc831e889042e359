/* device_bench.c - times of the CUDA backend on a GPU: single ops at the 7B shape, and whole prefill and decode of a model.
 * Not a gate and not a comparison: one side, raw numbers; forkgate's own A/B decides whether a change is faster.
 * Idea: an op is called ITERATIONS times inside one captured graph, over weights rotated so that they come from memory and
 * not from the L2; a model is timed through the public session calls, its ops by events around the table's functions.
 * Source: ours. Exercise: device_bench ops f16|q8 > ops.csv; device_bench model FILE f16|q8 > model.csv */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../engine/cuda/context.h"
#include "../engine/engine.h"
#include "../engine/fmath.h"
#include "../engine/rng.h"
#include "device_bench.h"

static struct err bench_err;

_Noreturn static void bench_die(const char *what) {
    fprintf(stderr, "device_bench: %s\n", what);
    exit(2);
}
static void must(enum status s) {
    if (s != STATUS_OK) bench_die(bench_err.message);
}
static void must_cuda(cudaError_t e) {
    if (e != cudaSuccess) bench_die(cudaGetErrorString(e));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median_of(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}
static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- single ops ------------------------------------------------------------------------------------------------ */

enum { REPEATS = 7, COPIES_MAX = 32, N_HEAD = 28, N_KV = 4, HEAD_DIM = 128, CTX_MAX = 32768 };
#define ROTATE_BYTES ((size_t)256 << 20) /* several times the L2 */

struct ops {
    struct backend *b;
    struct cuda_context *c;
    float *x, *y, *z; /* wide buffers */
    struct act act[ACT_KINDS];
    struct weight w[COPIES_MAX];
    int copies;
    int64_t rows, n, k;
    struct step step;
    struct kv_cache kv;
    enum act_kind kind;
};

static enum status call_matmul(struct ops *o, int i) {
    const struct weight *w = &o->w[i % o->copies];
    return o->b->matmul(o->b, w, &o->act[w->act], o->rows, o->y, &bench_err);
}
static enum status call_attention(struct ops *o, int i) {
    return o->b->attention(o->b, &o->step, i % o->copies, N_HEAD, o->x, o->y, &bench_err);
}
static enum status call_rmsnorm(struct ops *o, int i) {
    (void)i;
    return o->b->rmsnorm(o->b, o->x, o->z, 1e-6f, o->rows, o->k, o->y, &bench_err);
}
static enum status call_act(struct ops *o, int i) {
    (void)i;
    return o->b->act_prepare(o->b, o->kind, o->x, o->rows, o->k, &o->act[o->kind], &bench_err);
}
static enum status call_swiglu(struct ops *o, int i) {
    (void)i;
    return o->b->swiglu(o->b, o->x, o->z, o->rows * o->k, o->y, &bench_err);
}
static enum status call_add(struct ops *o, int i) {
    (void)i;
    return o->b->add(o->b, o->y, o->z, o->rows * o->k, &bench_err);
}

/* Median time of one call, in microseconds. */
static double time_op(struct ops *o, enum status (*call)(struct ops *, int), int iterations) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t begin, end;
    double us[REPEATS];
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    must(call(o, 0)); /* grows scratch, asks for shared memory */
    must(o->b->sync(o->b, &bench_err));
    must_cuda(cudaStreamBeginCapture(o->c->stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < iterations; i++) {
        must(call(o, i));
        (void)o->b->kernel_counts(o->b, counts); /* launches what waits for a partner: one op a launch here */
    }
    must_cuda(cudaStreamEndCapture(o->c->stream, &graph));
    must_cuda(cudaGraphInstantiate(&exec, graph, 0));
    must_cuda(cudaEventCreate(&begin));
    must_cuda(cudaEventCreate(&end));
    for (int r = -2; r < REPEATS; r++) {
        float ms;
        must_cuda(cudaEventRecord(begin, o->c->stream));
        must_cuda(cudaGraphLaunch(exec, o->c->stream));
        must_cuda(cudaEventRecord(end, o->c->stream));
        must_cuda(cudaEventSynchronize(end));
        must_cuda(cudaEventElapsedTime(&ms, begin, end));
        if (r >= 0) us[r] = (double)ms * 1e3 / iterations;
    }
    must_cuda(cudaEventDestroy(begin));
    must_cuda(cudaEventDestroy(end));
    must_cuda(cudaGraphExecDestroy(exec));
    must_cuda(cudaGraphDestroy(graph));
    return median_of(us, REPEATS);
}

static void print_op(const char *name, const char *shape, double us, double bytes, double flop) {
    printf("%s,%s,%.2f,%.1f,%.2f\n", name, shape, us, bytes / us * 1e-3, flop / us * 1e-6);
    fflush(stdout);
}

/* Weights of random codes with small scales; the bytes repeat every megabyte, which no kernel can notice. */
static void make_weights(struct ops *o, enum dtype t, int64_t n, int64_t k) {
    const struct dtype_info *info = dtype_info((int)t);
    size_t bytes = (size_t)dtype_bytes(t, (uint64_t)(n * k)), period = (size_t)info->bytes * 8192;
    uint8_t *host = malloc(bytes + period);
    if (host == NULL) bench_die("out of host memory");
    if (t == DTYPE_F16)
        for (size_t i = 0; i < period / 2; i++) {
            uint16_t h = fm_f32_to_f16(rng_normal(1, i) * 0.05f);
            memcpy(host + 2 * i, &h, sizeof h);
        }
    else
        for (size_t i = 0; i < period; i++)
            host[i] = (uint8_t)(i % (size_t)info->bytes % 2 ? rng_u64(1, i) & 0x2f : rng_u64(1, i));
    for (size_t at = period; at < bytes; at += period) memcpy(host + at, host, period);
    o->copies = (int)(ROTATE_BYTES / bytes) + 1;
    if (o->copies > COPIES_MAX) o->copies = COPIES_MAX;
    if (t == DTYPE_F16 && o->copies > 8) o->copies = 8;
    for (int i = 0; i < o->copies; i++)
        must(o->b->weight_upload(o->b, WEIGHT_MATMUL, t, host, n, k, &o->w[i], &bench_err));
    free(host);
    o->n = n;
    o->k = k;
}

static void bench_matmul(struct ops *o, enum dtype t, int64_t rows, int64_t n, int64_t k, int iterations) {
    char name[64], shape[96];
    make_weights(o, t, n, k);
    o->rows = rows;
    o->kind = o->w[0].act;
    must(o->b->act_prepare(o->b, o->kind, o->x, rows, k, &o->act[o->kind], &bench_err));
    double us = time_op(o, call_matmul, iterations);
    (void)snprintf(name, sizeof name, "matmul_%s_%s", route_name(o->b->config.route),
                   dtype_info((int)t)->name);
    (void)snprintf(shape, sizeof shape, "rows=%lld n=%lld k=%lld", (long long)rows, (long long)n,
                   (long long)k);
    print_op(name, shape, us, (double)dtype_bytes(t, (uint64_t)(n * k)),
             2.0 * (double)rows * (double)n * (double)k);
    for (int i = 0; i < o->copies; i++) o->b->weight_free(o->b, &o->w[i]);
}

static void set_step(struct ops *o, int rows, int n_seq, int first) {
    static int32_t id[CHUNK_MAX], pos[CHUNK_MAX];
    static const struct kv_cache *kv[1];
    int replayed;
    for (int i = 0; i < rows; i++) pos[i] = first + i;
    kv[0] = &o->kv;
    struct step s = {rows, n_seq, id, pos, kv};
    o->step = s;
    must(o->b->step_begin(o->b, &s, &replayed, &bench_err));
}

static void bench_attention(struct ops *o, int rows, int first, int iterations) {
    char shape[96];
    double keys = (double)first + (rows + 1) / 2.0;
    set_step(o, rows, 1, first);
    o->rows = rows;
    o->copies = o->kv.n_layer;
    double us = time_op(o, call_attention, iterations);
    (void)snprintf(shape, sizeof shape, "rows=%d first=%d heads=28/4 hd=128", rows, first);
    print_op(rows == 1 ? "attention_decode" : "attention_prefill", shape, us,
             2.0 * 2.0 * (double)(first + rows) * N_KV * HEAD_DIM, 4.0 * keys * rows * N_HEAD * HEAD_DIM);
}

static void bench_row_ops(struct ops *o, int64_t rows) {
    char shape[64];
    static const struct {
        const char *name;
        enum status (*call)(struct ops *, int);
        int64_t k;
        double bytes; /* per element */
    } all[] = {{"rmsnorm", call_rmsnorm, 3584, 8},
               {"act_prepare", call_act, 3584, 6},
               {"add", call_add, 3584, 12},
               {"swiglu", call_swiglu, 18944, 12},
               {"act_prepare", call_act, 18944, 6}};
    o->rows = rows;
    o->kind = o->b->config.route == ROUTE_F16 ? ACT_F16 : ACT_Q8_256;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        o->k = all[i].k;
        double us = time_op(o, all[i].call, 20);
        (void)snprintf(shape, sizeof shape, "rows=%lld cols=%lld", (long long)rows, (long long)o->k);
        print_op(all[i].name, shape, us, all[i].bytes * (double)rows * (double)o->k, 0.0);
    }
}

static void open_ops(struct ops *o, enum route route, const char *geometry) {
    struct backend_config c;
    size_t wide = (size_t)CHUNK_MAX * 18944;
    memset(&c, 0, sizeof c);
    memset(o, 0, sizeof *o);
    c.route = route;
    c.arch = ARCH_SM90;
    c.geometry = geometry_default(ARCH_SM90);
    must(geometry_parse(geometry, &c.geometry, &bench_err));
    c.n_threads = 1;
    must(backend_cuda_open(&c, &o->b, &bench_err));
    o->c = cuda_context_of(o->b);
    float *host = malloc(wide * sizeof *host);
    if (host == NULL) bench_die("out of host memory");
    for (size_t i = 0; i < wide; i++) host[i] = i < 1u << 20 ? rng_normal(3, i) : host[i - (1u << 20)];
    float **buffers[] = {&o->x, &o->y, &o->z};
    for (int i = 0; i < 3; i++) {
        void *p;
        must(o->b->alloc(o->b, wide * sizeof *host, &p, &bench_err));
        must(o->b->copy_in(o->b, p, host, wide * sizeof *host, &bench_err));
        *buffers[i] = p;
    }
    for (int kind = ACT_F16; kind < ACT_KINDS; kind++) {
        void *p;
        must(o->b->alloc(o->b, act_carve((enum act_kind)kind, CHUNK_MAX, 18944, NULL, NULL), &p, &bench_err));
        (void)act_carve((enum act_kind)kind, CHUNK_MAX, 18944, p, &o->act[kind]);
    }
    struct kv_cache kv = {KV_F16, 8, CTX_MAX, N_KV, HEAD_DIM, NULL, NULL};
    size_t elements = (size_t)kv.n_layer * CTX_MAX * N_KV * HEAD_DIM;
    uint16_t *rows = (uint16_t *)(void *)host;
    for (size_t i = 0; i < elements; i++)
        rows[i] = i < 1u << 20 ? fm_f32_to_f16(rng_normal(5, i)) : rows[i - (1u << 20)];
    void **planes[] = {&kv.k, &kv.v};
    for (int i = 0; i < 2; i++) {
        must(o->b->alloc(o->b, elements * 2, planes[i], &bench_err));
        must(o->b->copy_in(o->b, *planes[i], rows, elements * 2, &bench_err));
    }
    o->kv = kv;
    free(host);
}

static void run_ops(enum route route, const char *geometry) {
    static const int64_t shapes[][2] = {{3584, 3584}, {512, 3584}, {18944, 3584}, {3584, 18944}};
    struct ops o;
    open_ops(&o, route, geometry);
    printf("op,shape,us,GBps,TFLOPps\n");
    if (route == ROUTE_F16) {
        for (int i = 0; i < 4; i++) bench_matmul(&o, DTYPE_F16, 3325, shapes[i][0], shapes[i][1], 8);
        for (int i = 0; i < 4; i++) bench_matmul(&o, DTYPE_F16, 512, shapes[i][0], shapes[i][1], 16);
        for (int i = 0; i < 4; i++) bench_matmul(&o, DTYPE_F16, 1, shapes[i][0], shapes[i][1], 24);
        bench_matmul(&o, DTYPE_F16, 1, 152064, 3584, 8);
        bench_attention(&o, 3325, 0, 8);
        bench_attention(&o, 512, 2813, 8);
        bench_attention(&o, 4096, 12288, 4);
        bench_row_ops(&o, 3325);
        bench_row_ops(&o, 1);
    } else {
        static const enum dtype types[] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q8_0};
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < 4; i++) bench_matmul(&o, types[t], 1, shapes[i][0], shapes[i][1], 64);
        bench_matmul(&o, DTYPE_Q6_K, 1, 152064, 3584, 8);
        bench_matmul(&o, DTYPE_Q4_K, 8, 18944, 3584, 64);
        for (int i = 0; i < 4; i++) bench_matmul(&o, DTYPE_Q4_K, 3325, shapes[i][0], shapes[i][1], 4);
        bench_matmul(&o, DTYPE_Q6_K, 3325, 3584, 18944, 4);
        static const int contexts[] = {40, 2047, 3324, 8191, 32767};
        for (int i = 0; i < 5; i++) bench_attention(&o, 1, contexts[i], 64);
        bench_row_ops(&o, 1);
    }
    o.b->close(o.b);
}

/* ---- a model --------------------------------------------------------------------------------------------------- */

struct bench_model {
    engine *e;
    session *s;
    int n_vocab;
};

static void fill_ids(const struct bench_model *m, int32_t *ids, int n) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(42, (uint64_t)i) % (uint64_t)m->n_vocab);
}

static void time_prefill(struct bench_model *m, int n, int repeats) {
    int32_t ids[CHUNK_MAX];
    double s[16];
    fill_ids(m, ids, n);
    for (int r = -1; r < repeats; r++) {
        must(session_rewind(m->s, 0, &bench_err));
        double start = now_s();
        must(session_prefill(m->s, ids, (size_t)n, &bench_err));
        if (r >= 0) s[r] = now_s() - start;
    }
    double t = median_of(s, repeats);
    printf("prefill,tokens=%d,%.3f ms,%.1f tok/s\n", n, t * 1e3, n / t);
    fflush(stdout);
}

static void time_decode(struct bench_model *m, int context, int n) {
    double s[512], total = now_s();
    for (int i = 0; i < n; i++) {
        double start = now_s();
        must(session_decode(m->s, session_top2(m->s)->id1, &bench_err));
        s[i] = now_s() - start;
    }
    total = now_s() - total;
    double t = median_of(s, n);
    printf("decode,context=%d n=%d,%.3f ms median,%.1f tok/s\n", context, n, t * 1e3, n / total);
    fflush(stdout);
}

static void run_model(const char *path, enum route route, int chunk) {
    struct bench_model m;
    struct engine_config c = engine_config_default();
    struct engine_info info;
    size_t free_bytes, all_bytes;
    double start = now_s();
    c.backend = BACKEND_CUDA;
    c.compute.route = route;
    c.chunk = chunk;
    c.n_ctx = 8192;
    must(engine_open(path, &c, &m.e, &bench_err));
    engine_describe(m.e, &info);
    m.n_vocab = info.n_vocab;
    must(session_create(m.e, &m.s, &bench_err));
    must_cuda(cudaMemGetInfo(&free_bytes, &all_bytes));
    printf("what,shape,time,rate\n");
    printf("load,%s chunk=%d,%.2f s,%.2f GB of device memory in use\n", info.model_name, chunk,
           now_s() - start, (double)(all_bytes - free_bytes) * 1e-9);
    time_prefill(&m, 3325, 3);
    if (route == ROUTE_F16) time_prefill(&m, 512, 5);
    bench_ops_of_prefill(m.e, m.s, m.n_vocab, 3325);
    time_prefill(&m, 16, 1);
    time_decode(&m, 16, 128);
    time_prefill(&m, 2048, 1);
    time_decode(&m, 2048, 128);
    bench_ops_of_decode(m.e, m.s, 8);
    session_close(m.s);
    engine_close(m.e);
}

/* Attention alone, for a comparison of geometries. */
static void run_attention(const char *geometry) {
    struct ops o;
    open_ops(&o, ROUTE_F16, geometry);
    printf("op,shape,us,GBps,TFLOPps\n");
    bench_attention(&o, 3325, 0, 8);
    bench_attention(&o, 4096, 12288, 4);
    static const int contexts[] = {40, 2047, 8191, 32767};
    for (int i = 0; i < 4; i++) bench_attention(&o, 1, contexts[i], 64);
    o.b->close(o.b);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "", *last = argc > 3 ? argv[3] : NULL;
    if (strcmp(what, "ops") == 0 && argc >= 3 && route_from_name(argv[2]) >= 0)
        run_ops((enum route)route_from_name(argv[2]), last != NULL ? last : "fa_tkv=32");
    else if (strcmp(what, "attention") == 0 && argc == 3)
        run_attention(argv[2]);
    else if (strcmp(what, "model") == 0 && argc >= 4 && route_from_name(last) >= 0)
        run_model(argv[2], (enum route)route_from_name(last), argc > 4 ? atoi(argv[4]) : CHUNK_MAX);
    else {
        fprintf(stderr, "usage: device_bench ops f16|q8 [GEOMETRY]\n       device_bench attention GEOMETRY\n"
                        "       device_bench model FILE f16|q8 [CHUNK]\n");
        return 2;
    }
    return 0;
}
