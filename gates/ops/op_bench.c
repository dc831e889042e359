/* op_bench.c - see op_bench.h: memory, backends, one run. The arms and their judgement are in op_arms.c. */
#include "gates/ops/op_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/ops/op_arms.h"
#include "gates/runner.h"

/* ---- memory -------------------------------------------------------------------------------------------------- */
enum status bench_host(struct op_bench *b, size_t count, size_t size, void **out, struct err *err) {
    *out = NULL;
    if (b->n_host == BENCH_HOST) return err_set(err, STATUS_LIMIT, "bench: more than %d arrays", BENCH_HOST);
    void *p = calloc(count + 1, size);
    if (p == NULL) return err_set(err, STATUS_NOMEM, "bench: %zu x %zu bytes", count, size);
    b->host[b->n_host++] = p;
    *out = p;
    return STATUS_OK;
}

enum status bench_doubles(struct op_bench *b, size_t n, double **out, struct err *err) {
    void *p;
    RETURN_IF_ERROR(bench_host(b, n, sizeof **out, &p, err));
    *out = p;
    return STATUS_OK;
}

enum status bench_floats(struct op_bench *b, size_t n, float **out, struct err *err) {
    void *p;
    RETURN_IF_ERROR(bench_host(b, n, sizeof **out, &p, err));
    *out = p;
    return STATUS_OK;
}

enum status bench_truth(struct op_bench *b, struct op_io *io, struct err *err) {
    RETURN_IF_ERROR(bench_doubles(b, io->n, &io->truth, err));
    return bench_doubles(b, io->n, &io->scale, err);
}

static void drop_host(struct op_bench *b) {
    for (int i = 0; i < b->n_host; i++) free(b->host[i]);
    b->n_host = 0;
}

static struct guarded *new_buffer(struct op_bench *b) {
    if (b->n_buffers == BENCH_BUFFERS) return NULL;
    struct guarded *g = &b->buffers[b->n_buffers];
    memset(g, 0, sizeof *g);
    b->is_output[b->n_buffers] = 0;
    return g;
}

enum status bench_input(struct op_bench *b, const void *host, size_t bytes, void **out, struct err *err) {
    struct guarded *g = new_buffer(b);
    if (g == NULL) return err_set(err, STATUS_LIMIT, "bench: more than %d buffers", BENCH_BUFFERS);
    RETURN_IF_ERROR(poison_alloc_copy(b->subject, host, bytes, g, err));
    b->n_buffers++;
    *out = g->data;
    return STATUS_OK;
}

enum status bench_scratch(struct op_bench *b, size_t bytes, void **out, struct err *err) {
    struct guarded *g = new_buffer(b);
    if (g == NULL) return err_set(err, STATUS_LIMIT, "bench: more than %d buffers", BENCH_BUFFERS);
    RETURN_IF_ERROR(poison_alloc(b->subject, bytes, g, err));
    b->n_buffers++;
    *out = g->data;
    return b->salt == 0 ? STATUS_OK : poison_fill(g, b->salt, err);
}

enum status bench_output(struct op_bench *b, size_t bytes, void **out, struct err *err) {
    RETURN_IF_ERROR(bench_scratch(b, bytes, out, err));
    b->is_output[b->n_buffers - 1] = 1;
    return STATUS_OK;
}

enum status bench_read(struct op_bench *b, void *host, const void *data, size_t bytes, struct err *err) {
    return b->subject->copy_out(b->subject, host, data, bytes, err);
}

static void drop_buffers(struct op_bench *b) {
    for (int i = 0; i < b->n_buffers; i++) poison_free(&b->buffers[i]);
    b->n_buffers = 0;
}

/* ---- backends ------------------------------------------------------------------------------------------------ */
static int same_geometry(const struct geometry *a, const struct geometry *b) {
    return a->fa_tq == b->fa_tq && a->fa_tkv == b->fa_tkv && a->fa_chunk == b->fa_chunk &&
           a->fa_splits == b->fa_splits;
}

/* The oldest goes, but never the one that the case's arms still run on. */
static void drop_oldest(struct op_bench *b) {
    int i = b->open[0].backend == b->subject;
    b->open[i].backend->close(b->open[i].backend);
    b->n_open--;
    memmove(&b->open[i], &b->open[i + 1], sizeof b->open[0] * (size_t)(b->n_open - i));
}

enum status bench_backend(struct op_bench *b, enum route route, const struct geometry *g, int is_twin,
                          struct backend **out, struct err *err) {
    for (int i = 0; i < b->n_open; i++) {
        if (b->open[i].route != route || b->open[i].is_twin != is_twin) continue;
        if (!same_geometry(&b->open[i].geometry, g)) continue;
        *out = b->open[i].backend;
        return STATUS_OK;
    }
    if (b->n_open == BENCH_BACKENDS) drop_oldest(b);
    struct backend_config config = b->ctx->config.compute;
    config.route = route;
    config.geometry = *g;
    config.graphs = 0;
    int cpu = is_twin || b->ctx->config.backend == BACKEND_CPU;
    RETURN_IF_ERROR(cpu ? backend_cpu_open(&config, out, err) : backend_cuda_open(&config, out, err));
    b->open[b->n_open].backend = *out;
    b->open[b->n_open].route = route;
    b->open[b->n_open].geometry = *g;
    b->open[b->n_open].is_twin = is_twin;
    b->n_open++;
    return STATUS_OK;
}

/* ---- one run ------------------------------------------------------------------------------------------------- */
static uint64_t total_calls(struct backend *be, uint64_t calls[BACKEND_KERNELS_MAX]) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    int n = be->kernel_counts(be, counts);
    uint64_t total = 0;
    for (int i = 0; i < n; i++) total += calls[i] = counts[i].calls;
    return total;
}

/* Names of the kernels whose counters moved since `before`. */
static void note_kernels(struct op_bench *b, const uint64_t before[BACKEND_KERNELS_MAX]) {
    struct kernel_count counts[BACKEND_KERNELS_MAX];
    int n = b->subject->kernel_counts(b->subject, counts);
    size_t used = 0;
    b->kernels[0] = '\0';
    for (int i = 0; i < n && used < sizeof b->kernels; i++)
        if (counts[i].calls > before[i])
            used += (size_t)snprintf(b->kernels + used, sizeof b->kernels - used, "%s%s", used > 0 ? " " : "",
                                     counts[i].name);
}

static enum status check_guards(struct op_bench *b, struct bench_run *report, struct err *err) {
    for (int i = 0; i < b->n_buffers; i++) {
        size_t damaged;
        char where[64];
        RETURN_IF_ERROR(poison_check(&b->buffers[i], &damaged, where, err));
        if (damaged > 0 && report->damaged == 0)
            (void)snprintf(report->where, sizeof report->where, "buffer %d, %.40s", i, where);
        report->damaged += damaged;
    }
    return STATUS_OK;
}

static enum status read_left(struct op_bench *b, struct bench_run *report, struct err *err) {
    void *left;
    for (int i = 0; i < b->n_buffers; i++) report->n_left += b->is_output[i] ? b->buffers[i].bytes : 0;
    RETURN_IF_ERROR(bench_host(b, report->n_left, 1, &left, err));
    report->left = left;
    size_t at = 0;
    for (int i = 0; i < b->n_buffers; i++) {
        if (!b->is_output[i]) continue;
        RETURN_IF_ERROR(poison_left(&b->buffers[i], b->salt, report->left + at, err));
        at += b->buffers[i].bytes;
    }
    return STATUS_OK;
}

static enum status run_and_check(struct op_bench *b, struct op_io *io, float *got, struct bench_run *report,
                                 struct err *err) {
    uint64_t before[BACKEND_KERNELS_MAX] = {0}, after[BACKEND_KERNELS_MAX] = {0};
    uint64_t launches = total_calls(b->subject, before);
    RETURN_IF_ERROR(b->subject->overflow_take(b->subject, &report->overflows, err));
    RETURN_IF_ERROR(b->op->run(b, io, got, err));
    RETURN_IF_ERROR(b->subject->sync(b->subject, err));
    RETURN_IF_ERROR(b->subject->overflow_take(b->subject, &report->overflows, err));
    report->launches = total_calls(b->subject, after) - launches;
    note_kernels(b, before);
    b->ran_on = b->subject->name;
    RETURN_IF_ERROR(read_left(b, report, err));
    return check_guards(b, report, err);
}

enum status bench_run_once(struct op_bench *b, struct op_io *io, struct backend *subject, int salt,
                           float *got, struct bench_run *report, struct err *err) {
    struct backend *candidate = b->subject;
    memset(report, 0, sizeof *report);
    b->subject = subject;
    b->salt = salt;
    enum status s = run_and_check(b, io, got, report, err);
    drop_buffers(b);
    b->subject = candidate; /* a run of the twin must not make it the one that later arms run on */
    return s;
}

/* ---- all cases ----------------------------------------------------------------------------------------------- */
/* A case that this backend cannot run by design is said, not dropped. */
static int skipped(struct op_bench *b, const struct op_io *io) {
    if (b->ctx->config.backend != BACKEND_CUDA || io->route != ROUTE_F32) return 0;
    op_arms_note(b, io, VERDICT_SKIP, "route f32 runs on the CPU only");
    return 1;
}

/* Trouble in one case is that case's ERROR row; the others are judged all the same. */
static void run_case(struct op_bench *b, const struct op_case *c) {
    struct op_io io;
    struct err err = {""};
    memset(&io, 0, sizeof io);
    io.c = c;
    io.geometry = b->ctx->config.compute.geometry;
    b->kernels[0] = '\0';
    b->ref[0] = b->got[0] = '\0';
    enum status s = b->op->make(b, &io, &err);
    if (s == STATUS_OK && !skipped(b, &io)) s = op_arms_case(b, &io, &err);
    if (s != STATUS_OK) op_arms_note(b, &io, VERDICT_ERROR, err.message);
    drop_host(b);
    b->n_cases++;
}

static void run_cases(struct op_bench *b, const struct op_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct op_case *c = &cases[i];
        if (strcmp(c->op, b->op->op) != 0) continue;
        int named = b->ctx->only != NULL && strchr(b->ctx->only, '/') != NULL;
        if (!c->quick && !b->ctx->full_battery && !named) continue;
        if (!runner_selects_case(b->ctx->only, b->op->gate, c->text)) continue;
        run_case(b, c);
    }
}

enum status op_bench_run(const struct op_subject *op, const struct gate_context *ctx, struct err *err) {
    RETURN_IF_ERROR(compare_self_test(err));
    struct op_bench *b = calloc(1, sizeof *b);
    if (b == NULL) return err_set(err, STATUS_NOMEM, "bench: state");
    b->ctx = ctx;
    b->op = op;
    char path[4096];
    struct op_case *cases = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/fixtures/op_cases.csv", ctx->source_dir);
    enum status s = cases_load(path, &cases, &n, err);
    (void)snprintf(path, sizeof path, "%s/golden/budgets.csv", ctx->source_dir);
    if (s == STATUS_OK) s = budgets_load(path, &b->budgets, err);
    if (s == STATUS_OK) run_cases(b, cases, n);
    if (s == STATUS_OK && b->n_cases == 0)
        s = err_set(err, STATUS_USAGE, "no case of %s is selected", op->op);
    for (int i = 0; i < b->n_open; i++) b->open[i].backend->close(b->open[i].backend);
    budgets_free(&b->budgets);
    free(cases);
    free(b);
    return s;
}
