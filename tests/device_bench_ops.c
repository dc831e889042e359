/* device_bench_ops.c - see device_bench.h. The table's functions are swapped for ones that record an event before and
 * after the real one; graphs are off meanwhile. Times include the gap to the next launch, so they are upper bounds. */
#include "device_bench.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../engine/cuda/context.h"
#include "../engine/rng.h"

enum { MARKS_MAX = 16384, GROUPS_MAX = 64 };

static struct backend real;
static struct {
    cudaEvent_t begin, end;
    char name[64];
} mark[MARKS_MAX];
static int n_marks;

static void mark_begin(struct backend *b, const char *name) {
    if (n_marks == MARKS_MAX) return;
    (void)snprintf(mark[n_marks].name, sizeof mark[n_marks].name, "%s", name);
    (void)cudaEventCreate(&mark[n_marks].begin);
    (void)cudaEventCreate(&mark[n_marks].end);
    (void)cudaEventRecord(mark[n_marks].begin, cuda_context_of(b)->stream);
}
/* Counting launches a call that waits for a partner: here every op is timed alone. */
static enum status mark_end(struct backend *b, enum status s) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    (void)real.kernel_counts(b, counts);
    if (n_marks < MARKS_MAX) (void)cudaEventRecord(mark[n_marks++].end, cuda_context_of(b)->stream);
    return s;
}

static enum status timed_embed(struct backend *b, const struct step *s, const struct weight *t, float *x,
                               struct err *err) {
    mark_begin(b, "embed");
    return mark_end(b, real.embed(b, s, t, x, err));
}
static enum status timed_rmsnorm(struct backend *b, const float *x, const float *w, float eps, int64_t rows,
                                 int64_t cols, float *y, struct err *err) {
    mark_begin(b, "rmsnorm");
    return mark_end(b, real.rmsnorm(b, x, w, eps, rows, cols, y, err));
}
static enum status timed_act(struct backend *b, enum act_kind kind, const float *x, int64_t rows, int64_t k,
                             struct act *out, struct err *err) {
    char name[64];
    (void)snprintf(name, sizeof name, "act_prepare k=%lld", (long long)k);
    mark_begin(b, name);
    return mark_end(b, real.act_prepare(b, kind, x, rows, k, out, err));
}
static enum status timed_matmul(struct backend *b, const struct weight *w, const struct act *a, int64_t rows,
                                float *y, struct err *err) {
    char name[64];
    (void)snprintf(name, sizeof name, "matmul %s n=%lld k=%lld", dtype_info((int)w->dtype)->name,
                   (long long)w->n, (long long)w->k);
    mark_begin(b, name);
    return mark_end(b, real.matmul(b, w, a, rows, y, err));
}
static enum status timed_rope(struct backend *b, const struct step *s, const struct rope_table *t, int n_head,
                              int head_dim, float *x, struct err *err) {
    mark_begin(b, "rope");
    return mark_end(b, real.rope(b, s, t, n_head, head_dim, x, err));
}
static enum status timed_kv(struct backend *b, const struct step *s, int layer, const float *k,
                            const float *v, struct err *err) {
    mark_begin(b, "kv_append");
    return mark_end(b, real.kv_append(b, s, layer, k, v, err));
}
static enum status timed_attention(struct backend *b, const struct step *s, int layer, int n_head,
                                   const float *q, float *o, struct err *err) {
    mark_begin(b, "attention");
    return mark_end(b, real.attention(b, s, layer, n_head, q, o, err));
}
static enum status timed_swiglu(struct backend *b, const float *g, const float *u, int64_t n, float *y,
                                struct err *err) {
    mark_begin(b, "swiglu");
    return mark_end(b, real.swiglu(b, g, u, n, y, err));
}
static enum status timed_add(struct backend *b, float *x, const float *t, int64_t n, struct err *err) {
    mark_begin(b, "add");
    return mark_end(b, real.add(b, x, t, n, err));
}
static enum status timed_top2(struct backend *b, const float *logits, int64_t rows, int64_t n_vocab,
                              int64_t stride, struct top2 *out, struct err *err) {
    mark_begin(b, "top2");
    return mark_end(b, real.top2(b, logits, rows, n_vocab, stride, out, err));
}

static void shims_on(struct backend *b) {
    real = *b;
    b->config.graphs = 0;
    b->embed = timed_embed;
    b->rmsnorm = timed_rmsnorm;
    b->act_prepare = timed_act;
    b->matmul = timed_matmul;
    b->rope = timed_rope;
    b->kv_append = timed_kv;
    b->attention = timed_attention;
    b->swiglu = timed_swiglu;
    b->add = timed_add;
    b->top2 = timed_top2;
    n_marks = 0;
}

static void shims_off(struct backend *b, const char *what, int steps) {
    static struct {
        char name[64];
        double ms;
        int calls;
    } group[GROUPS_MAX];
    int n_groups = 0;
    double total = 0;
    *b = real;
    memset(group, 0, sizeof group);
    for (int i = 0; i < n_marks; i++) {
        float ms = 0;
        int g = 0;
        (void)cudaEventElapsedTime(&ms, mark[i].begin, mark[i].end);
        (void)cudaEventDestroy(mark[i].begin);
        (void)cudaEventDestroy(mark[i].end);
        while (g < n_groups && strcmp(group[g].name, mark[i].name) != 0) g++;
        if (g == GROUPS_MAX) continue;
        if (g == n_groups) memcpy(group[n_groups++].name, mark[i].name, sizeof mark[i].name);
        group[g].ms += (double)ms;
        group[g].calls++;
        total += (double)ms;
    }
    for (int g = 0; g < n_groups; g++)
        printf("%s_op,%s calls=%d,%.3f ms,%.1f %%\n", what, group[g].name, group[g].calls / steps,
               group[g].ms / steps, 100.0 * group[g].ms / total);
    printf("%s_op,all,%.3f ms,100 %%\n", what, total / steps);
    fflush(stdout);
}

static void stop(const struct err *err) {
    fprintf(stderr, "device_bench: %s\n", err->message);
    exit(2);
}

void bench_ops_of_prefill(engine *e, session *s, int n_vocab, int n) {
    struct backend *b = engine_backend(e);
    struct err err;
    int32_t ids[CHUNK_MAX];
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(42, (uint64_t)i) % (uint64_t)n_vocab);
    if (session_rewind(s, 0, &err) != STATUS_OK) stop(&err);
    shims_on(b);
    if (session_prefill(s, ids, (size_t)n, &err) != STATUS_OK) stop(&err);
    shims_off(b, "prefill", 1);
}

void bench_ops_of_decode(engine *e, session *s, int n) {
    struct backend *b = engine_backend(e);
    struct err err;
    shims_on(b);
    for (int i = 0; i < n; i++)
        if (session_decode(s, session_top2(s)->id1, &err) != STATUS_OK) stop(&err);
    shims_off(b, "decode", n);
}
