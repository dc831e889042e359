/* explain_tape.h - what one teacher-forced run leaves behind for `explain`: a checksum per step, per op, per row, and the
 * values of chosen rows.
 * Not a recording of tensors: a long prefill leaves a few numbers; only the rows that a plan asks for are kept.
 * Idea: sums over rows do not depend on how a prompt was cut into chunks, so two runs compare whatever their chunking.
 * Source: ours. Exercise: ctest -R unit.explain
 *
 * A step is what produces one row of logits: step 0 is the whole prompt, step i the decode of token i-1. Position p
 * belongs to step 0 when p < n_prompt, else to step p - n_prompt + 1. */
#ifndef FORKGATE_EXPLAIN_TAPE_H
#define FORKGATE_EXPLAIN_TAPE_H

#include <stdio.h>

#include "engine/engine.h"
#include "gates/hash.h"
#include "gates/provenance.h"

#define TAPE_CAPTURES 4

/* What to run and what to keep. */
struct tape_plan {
    const int32_t *prompt; /* [n_prompt] */
    size_t n_prompt;
    const int32_t *forced; /* [n_steps - 1] at least: token i is fed at step i + 1 */
    int n_steps;           /* >= 1 */
    int ops_step;          /* keep the op sums of this step; -1: of none */
    const char *rows_of;   /* keep the rows of this op (tape_op_key) in step ops_step; NULL: of none */
    int n_captures;        /* keep every op's row at these positions */
    int captures[TAPE_CAPTURES];
    int copies; /* sum copies of all rows on the host, not the rows where they lie: slow, and the same numbers */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* steps; may be NULL */
    void *progress_ctx;
};

struct tape_step {
    int pos;            /* last position of the step */
    uint64_t sum;       /* over every op and row of the step; of the head's rows only the last */
    struct hash128 row; /* hash_logits, as a dump has it */
    struct top2 top;
};

#define TAPE_NAME 40
struct tape_op {
    int layer;              /* -1: embed and head */
    char op[TAPE_NAME];     /* "attention" */
    char tensor[TAPE_NAME]; /* "attn"; act_prepare: "attn_norm.f32", ".f16", or ".q8_32" and .d, .sum */
    char kernel[TAPE_NAME]; /* what the launch census says ran; empty where it cannot tell */
    int64_t rows, cols;
    int buffer; /* equal numbers on one side: the same memory; -1: not known */
    uint64_t sum;
    size_t at; /* captures: first value */
};

struct tape_row {
    int pos;
    uint64_t sum;
    int64_t cols; /* values kept of it: all of its columns, or 0 past TAPE_ROW_VALUES */
    size_t at;    /* the first of them in row_values */
};
#define TAPE_ROW_VALUES ((size_t)1 << 24) /* values that all rows of plan->rows_of may take: 64 MiB a side */
#define TAPE_ROW_MIB    (TAPE_ROW_VALUES * 4 >> 20)

struct tape_ops {
    struct tape_op *op; /* [n], in the order they ran */
    int n, room;
};

/* One row of every op of one step. Attention is preceded by an entry "kv_read": the sum of all cache rows it may read,
 * and as its one value the largest |v| among them. */
struct tape_capture {
    int pos;
    struct tape_ops ops;
    float *values; /* [n_values] */
    size_t n_values, room;
};

/* What watching took. */
struct tape_cost {
    uint64_t screened; /* bytes that were summed */
    uint64_t copied;   /* bytes that were copied to the host */
    uint64_t held;     /* most bytes of host memory at a time */
};

struct tape {
    struct tape_cost cost;
    struct tape_step *steps; /* [n_steps] */
    int n_steps;
    struct tape_ops ops;   /* of plan->ops_step */
    struct tape_row *rows; /* [n_rows], of plan->rows_of, in the order they ran */
    size_t n_rows, rows_room;
    float *row_values; /* [n_row_values] */
    size_t n_row_values, row_values_room;
    int n_captures;
    struct tape_capture captures[TAPE_CAPTURES];
};

/* Runs the plan on an open engine and fills *out (tape_free it, also after a failure). Two runs of the same plan on
 * engines that differ in threads, chunk or fa_tq give equal tapes but for the kernel names. */
enum status tape_record(engine *e, const struct tape_plan *plan, struct tape *out, struct err *err);
void tape_free(struct tape *t);

/* "3/attention/attn"; TAPE_KEY bytes are enough. */
#define TAPE_KEY 96
void tape_op_key(const struct tape_op *op, char out[TAPE_KEY]);
/* The op of the same layer, name and tensor, searched from index `from` on, then from the start; -1 when absent. */
int tape_find(const struct tape_ops *ops, const struct tape_op *like, int from);
/* 1 for what a product multiplies (codes or f16 values), 0 for the scales and sums beside codes and for other ops. */
int tape_is_input(const struct tape_op *op);
const struct tape_capture *tape_capture_at(const struct tape *t, int pos); /* NULL when absent */

/* ---- building (recorder and reader) ---- */
enum status tape_add_op(struct tape_ops *ops, const struct tape_op *op, struct err *err);
/* x: the row's cols values; NULL when they are to be filled in later, or not at all (cols 0). */
enum status tape_add_row(struct tape *t, int pos, uint64_t sum, const float *x, int64_t cols,
                         struct err *err);
int tape_row_fits(const struct tape *t, int64_t cols); /* 0: past TAPE_ROW_VALUES */
enum status tape_add_values(struct tape_capture *c, const float *x, size_t n, struct err *err);

/* ---- between processes: CSV on a stream, captured values in one tensor file ---- */
/* who: provenance of the tensor file; NULL: it has none. The tensor is [rows, cols] where only rows of one op are kept. */
enum status tape_write(const struct tape *t, FILE *out, const char *values_path, const struct provenance *who,
                       struct err *err);
/* bytes: what the child wrote. values_path is read when the plan had captures. */
enum status tape_read(const void *bytes, size_t n, const char *name, const char *values_path,
                      struct tape *out, struct err *err);

#endif
