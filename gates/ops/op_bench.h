/* op_bench.h - what every op gate of tier 1 shares: backends, guarded buffers, the arms and their order of judgement.
 * Not an op: a gate_<op>.c says how to make a case's inputs and truth and how to run the op once.
 * Idea: the same arms around every op: the case runs twice with differently poisoned outputs (sentinels, unwritten
 * elements, run-to-run bits, launches), then meets the oracle by a pointwise and a global metric, then the twin bit for
 * bit where the subject is a device; at the end the harness damages a result and must see it (else BLIND).
 * Source: ours. Exercise: forkgate run --tier parity */
#ifndef FORKGATE_OP_BENCH_H
#define FORKGATE_OP_BENCH_H

#include "engine/backend.h"
#include "gates/budget.h"
#include "gates/cases.h"
#include "gates/compare.h"
#include "gates/gate.h"
#include "gates/oracle/oracle.h"
#include "gates/poison.h"

#define BENCH_BUFFERS  64
#define BENCH_HOST     96
#define BENCH_BACKENDS 12

struct op_bench;

/* One case made concrete. Arrays come from bench_host and live until the next case. */
struct op_io {
    const struct op_case *c;
    struct compare_shape shape; /* of the outputs, seen as floats */
    size_t n;                   /* their number */
    double *truth, *scale;      /* [n] */
    int any_bits;       /* outputs hold ids, or NaN and Inf of the case's own making: no census of NaN */
    int exact;          /* the contract leaves no freedom: got must be (float)truth, bit for bit */
    enum route route;   /* which backend runs it */
    const char *budget; /* dtype key of its budget rows; NULL: the case's dtype */
    struct geometry geometry;
    uint64_t overflows; /* what overflow_take must report after one run */
    void *state;        /* the op's own inputs */
};

struct op_subject {
    const char *gate; /* "op.rmsnorm" */
    const char *op;   /* in op_cases.csv and budgets.csv */
    /* Fills io (shape, n, truth, scale, exact, route, state). */
    enum status (*make)(struct op_bench *b, struct op_io *io, struct err *err);
    /* Runs the op once on b->subject with outputs from bench_output, and reads them back into got[io->n]. */
    enum status (*run)(struct op_bench *b, struct op_io *io, float *got, struct err *err);
    /* The op's own arms beside the common ones; NULL when it has none. */
    enum status (*arms)(struct op_bench *b, struct op_io *io, const float *got, struct err *err);
};

struct op_bench {
    const struct gate_context *ctx;
    const struct op_subject *op;
    struct backend *subject; /* that run must use; between runs the candidate's, of this case's geometry */
    struct budgets budgets;
    struct {
        struct backend *backend;
        enum route route;
        struct geometry geometry;
        int is_twin;
    } open[BENCH_BACKENDS];
    int n_open;
    struct guarded buffers[BENCH_BUFFERS]; /* of the current run */
    int is_output[BENCH_BUFFERS];
    int n_buffers;
    void *host[BENCH_HOST]; /* of the current case */
    int n_host;
    int salt; /* poison of the current run */
    char kernels[512];
    const char *ran_on; /* name of the backend that ran them; NULL before the first run */
    char ref[40],
        got[40]; /* hashes of the case's truth and of the subject's first outputs; "" before there are any */
    size_t n_cases;
    int negative_done; /* the harness damaged a result once and looked whether that is seen */
};

/* Runs all cases of the op that ctx selects and emits their rows; the whole of a gate's run function. */
enum status op_bench_run(const struct op_subject *op, const struct gate_context *ctx, struct err *err);

/* ---- for make, run and arms ---- */
/* Zeroed host memory until the next case. */
enum status bench_host(struct op_bench *b, size_t count, size_t size, void **out, struct err *err);
enum status bench_doubles(struct op_bench *b, size_t n, double **out, struct err *err);
enum status bench_floats(struct op_bench *b, size_t n, float **out, struct err *err);
/* Allocates io->truth and io->scale for io->n. */
enum status bench_truth(struct op_bench *b, struct op_io *io, struct err *err);
/* Backend memory between guards, until the end of the run: an input; an output full of poison, every byte of which the op
 * must write; scratch full of poison, of which it need not. An op in place has no output: its values are its inputs. */
enum status bench_input(struct op_bench *b, const void *host, size_t bytes, void **out, struct err *err);
enum status bench_output(struct op_bench *b, size_t bytes, void **out, struct err *err);
enum status bench_scratch(struct op_bench *b, size_t bytes, void **out, struct err *err);
enum status bench_read(struct op_bench *b, void *host, const void *data, size_t bytes, struct err *err);

/* A backend of the candidate's kind (or, is_twin, the CPU twin) for this route and geometry; the bench closes it. */
enum status bench_backend(struct op_bench *b, enum route route, const struct geometry *g, int is_twin,
                          struct backend **out, struct err *err);

/* One complete run of io on `subject`: poison, run, guards, launches, overflow count; buffers are released. damaged counts
 * guard bytes; the first problem of another kind is an error. */
struct bench_run {
    size_t damaged;
    char where[64];
    uint64_t launches, overflows;
    uint8_t *left; /* [n_left] poison_left of the outputs, one behind the other; until the next case */
    size_t n_left;
};
enum status bench_run_once(struct op_bench *b, struct op_io *io, struct backend *subject, int salt,
                           float *got, struct bench_run *report, struct err *err);

/* Emits one row of this case, judged by value <= bound. */
void bench_row(struct op_bench *b, const struct op_io *io, const char *arm, const char *metric, double value,
               double bound, const char *note);
/* A row for "these bits are equal to those": value is the number of elements that differ. */
void bench_row_bits(struct op_bench *b, const struct op_io *io, const char *arm, const float *want,
                    const float *got, size_t n);

#endif
