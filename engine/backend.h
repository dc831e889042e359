/* backend.h - a backend is a table of ops plus memory functions; engine/forward.c is written once over it.
 * Not a graph and not a scheduler: calls run in order (on one stream on a device).
 * Idea: pointers named "backend memory" are host pointers on the CPU and device pointers on CUDA; only the functions
 * below may follow them. Every op counts itself by kernel name, so a gate can prove what ran.
 * Source: ours. Exercise: ctest -R unit.backend */
#ifndef FORKGATE_BACKEND_H
#define FORKGATE_BACKEND_H

#include <stddef.h>

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum simd { SIMD_AUTO = 0, SIMD_SCALAR = 1, SIMD_AVX2 = 2 }; /* never carries bits; CPU only */

struct backend_config {
    enum route route;
    enum arch arch; /* whose tensor-core model; CUDA: must be the device's own */
    struct geometry geometry;
    int n_threads;  /* CPU: 1 .. 64 */
    enum simd simd; /* CPU */
    int graphs;     /* CUDA: replay decode steps as captured graphs */
};

/* One line of the launch census: how often a kernel (or twin) ran since the backend was opened. */
struct kernel_count {
    const char *name; /* "attention_prefill", "matmul_f16", ... stable, used in coverage maps */
    uint64_t calls;
};

/* One kind of launch: a kernel's code with its block size and shared memory. */
struct kernel_launch {
    const char *kernel;
    int threads, registers; /* of a block; of a thread, as loaded */
    size_t shared, dynamic; /* bytes: static, dynamic */
    int queried;            /* resident blocks a multiprocessor, as the driver says */
    int measured;           /* the most seen alive at once on one; 0: not an instrumented build */
};

/* How attention was laid out, the most of each since open. The only witness that fa_tq and fa_splits were heeded: they may
 * not change a bit. */
struct attention_use {
    int tile_rows, rows; /* query rows of a tile; rows that one call had of one sequence, to cut into tiles */
    int splits, chunks;  /* blocks that shared the chunks of a row; chunks there were to share */
};

struct row_span; /* checksum.h */
struct row_sum;

#define BACKEND_KERNELS_MAX  96
#define BACKEND_LAUNCHES_MAX 256

enum weight_use {
    WEIGHT_MATMUL, /* packed for matmul on the backend's route */
    WEIGHT_EMBED,  /* rows dequantised by embed, in the file's own type */
    WEIGHT_VECTOR  /* norm weight, bias: dequantised to a plain f32 vector in ->data */
};

/* One copy of a fetch: bytes of backend memory into host memory. */
struct fetch {
    void *host;
    const void *src;
    size_t bytes;
};
#define FETCHES_MAX (2 * BATCH_MAX)

/* One of the calls that time_calls times; i counts them. */
typedef enum status backend_call(void *ctx, int i, struct err *err);

/* What a device does at most, in a loop of nothing else: bytes read a second; bytes read plus bytes written of a copy;
 * multiplications plus additions of wgmma on f16; of mma.sync on int8. */
enum ceiling { CEILING_READ, CEILING_COPY, CEILING_F16, CEILING_S8, CEILINGS };

/* Every function returns a status and leaves one sentence in err. `self` owns its device, stream, threads and all
 * memory it allocated; close releases everything still held. */
struct backend {
    const char *name; /* "cpu" or "cuda" */
    struct backend_config config;
    void *impl; /* private */
    uint64_t
        memory_calls; /* allocations and frees so far, of backend and of host memory: a step makes none */

    /* ---- life and memory ---- */
    void (*close)(struct backend *self);
    enum status (*alloc)(struct backend *self, size_t bytes, void **out,
                         struct err *err); /* 256-byte aligned */
    void (*free)(struct backend *self, void *p);
    enum status (*copy_in)(struct backend *self, void *dst, const void *host, size_t bytes, struct err *err);
    enum status (*copy_out)(struct backend *self, void *host, const void *src, size_t bytes, struct err *err);
    /* What a step leaves for the host, in one wait: n <= FETCHES_MAX copies, and overflow_take. */
    enum status (*fetch)(struct backend *self, const struct fetch *f, int n, uint64_t *overflows,
                         struct err *err);
    /* Host memory that copies reach fastest (page-locked for a device); host_free ignores NULL. */
    enum status (*host_alloc)(struct backend *self, size_t bytes, void **out, struct err *err);
    void (*host_free)(struct backend *self, void *p);
    enum status (*fill)(struct backend *self, void *dst, int byte, size_t bytes, struct err *err);
    enum status (*sync)(struct backend *self, struct err *err);
    /* src: n rows of k elements in the file's layout. Sets every field of *out but bias. */
    enum status (*weight_upload)(struct backend *self, enum weight_use use, enum dtype dtype, const void *src,
                                 int64_t n, int64_t k, struct weight *out, struct err *err);
    void (*weight_free)(struct backend *self, struct weight *w);

    /* ---- a step: begin, ops, end. replayed != 0 after begin: a captured graph already did the whole step ---- */
    enum status (*step_begin)(struct backend *self, const struct step *s, int *replayed, struct err *err);
    enum status (*step_end)(struct backend *self, const struct step *s, struct err *err);
    enum status (*step_forget)(struct backend *self,
                               struct err *err); /* drop captured graphs (cache was freed) */
    /* What decode attention keeps between its launches, for up to BATCH_MAX rows of this shape: carved from memory at base
     * (NULL: only measure), which must outlive the steps. Returns the bytes. A larger step is refused: none allocates. */
    size_t (*attention_room)(struct backend *self, int n_head, int head_dim, int n_ctx, void *base);

    /* ---- ops (contracts in ops.h); rows of the current step unless a count is given ---- */
    enum status (*embed)(struct backend *self, const struct step *s, const struct weight *table, float *x,
                         struct err *err);
    enum status (*rmsnorm)(struct backend *self, const float *x, const float *w, float eps, int64_t rows,
                           int64_t cols, float *y, struct err *err);
    enum status (*act_prepare)(struct backend *self, enum act_kind kind, const float *x, int64_t rows,
                               int64_t k, struct act *out, struct err *err);
    enum status (*matmul)(struct backend *self, const struct weight *w, const struct act *a, int64_t rows,
                          float *y, struct err *err);
    enum status (*rope)(struct backend *self, const struct step *s, const struct rope_table *t, int n_head,
                        int head_dim, float *x, struct err *err);
    enum status (*kv_append)(struct backend *self, const struct step *s, int layer, const float *k,
                             const float *v, struct err *err);
    enum status (*attention)(struct backend *self, const struct step *s, int layer, int n_head,
                             const float *q, float *o, struct err *err);
    enum status (*swiglu)(struct backend *self, const float *g, const float *u, int64_t n, float *y,
                          struct err *err);
    enum status (*add)(struct backend *self, float *x, const float *t, int64_t n, struct err *err);
    /* out: [rows] struct top2 in backend memory; logits rows have stride `stride` floats */
    enum status (*top2)(struct backend *self, const float *logits, int64_t rows, int64_t n_vocab,
                        int64_t stride, struct top2 *out, struct err *err);

    /* ---- census ---- */
    /* Values that overflowed f16 or could not be quantised since the last call (reset to 0). */
    enum status (*overflow_take)(struct backend *self, uint64_t *count, struct err *err);
    int (*kernel_counts)(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX]);
    void (*attention_use)(struct backend *self, struct attention_use *out);
    /* Every kind of launch since open (STATUS_LIMIT: more than BACKEND_LAUNCHES_MAX). NULL where there is no device. */
    enum status (*launches)(struct backend *self, struct kernel_launch out[BACKEND_LAUNCHES_MAX], int *n,
                            struct err *err);

    /* ---- for benchmarks; NULL on the CPU ---- */
    /* Seconds of n calls captured as one graph, after a launch that does not count. */
    enum status (*time_calls)(struct backend *self, backend_call *call, void *ctx, int n, double *seconds,
                              struct err *err);
    /* 0 where the device cannot do it at all. */
    enum status (*ceiling)(struct backend *self, enum ceiling what, double *per_second, struct err *err);
    /* Bytes of device memory in use, by anyone. */
    enum status (*memory_used)(struct backend *self, size_t *bytes, struct err *err);

    /* ---- for watchers (trace.h): nothing here changes what runs, or in which launches ---- */
    /* How many of the latest calls wait for a partner and have written nothing yet, and the census so far: [*n] */
    int (*waiting)(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX], int *n);
    /* checksum_rows of rows in backend memory, summed where they lie; host: [rows->n] */
    enum status (*row_sums)(struct backend *self, const struct row_span *rows, struct row_sum *host,
                            struct err *err);
    /* copy_out that leaves waiting calls waiting */
    enum status (*peek)(struct backend *self, void *host, const void *src, size_t bytes, struct err *err);
};

enum status backend_cpu_open(const struct backend_config *config, struct backend **out, struct err *err);

/* STATUS_UNSUPPORTED with the reason where this build or machine has no CUDA device. */
enum status backend_cuda_open(const struct backend_config *config, struct backend **out, struct err *err);

/* One row of a device listing; used by --version, provenance and SKIP reasons. */
struct device_info {
    char name[128];         /* "NVIDIA H200" */
    int cc_major, cc_minor; /* compute capability */
    int n_sm;
    int driver, runtime; /* CUDA versions as 13000 */
    size_t memory_bytes;
};
/* STATUS_UNSUPPORTED and the reason in err ("built without CUDA", "no CUDA device: ...") where there is none. */
enum status backend_cuda_device(struct device_info *out, struct err *err);

/* Rows, sequences and positions that make no step: STATUS_USAGE, STATUS_LIMIT (past the cache) or STATUS_UNSUPPORTED. */
enum status step_check(const struct step *s, enum route route, struct err *err);

/* `waiting` and `row_sums` of a backend whose ops are done when they return and whose memory is the host's. */
int host_waiting(struct backend *self, struct kernel_count out[BACKEND_KERNELS_MAX], int *n);
enum status host_row_sums(struct backend *self, const struct row_span *rows, struct row_sum *host,
                          struct err *err);

/* Carves an act for (kind, rows, k) from memory at base (NULL: only measure). Returns the bytes it takes. */
size_t act_carve(enum act_kind kind, int64_t rows, int64_t k, void *base, struct act *out);

#ifdef __cplusplus
}
#endif
#endif
