/* explain.h - from "two builds gave two texts" to the op: which one moved first, were its inputs still equal, how did the
 * difference grow, and what kind of change is that.
 * Not a verdict on whether a change may land: tiers judge; this says where to look.
 * Idea: both sides are forced along the same tokens; checksums find the first step, then the first op, then the first row;
 * only the few rows worth reading are kept as values.
 * Source: DESIGN of forkgate, section 6. Exercise: ctest -R unit.explain ; forkgate explain --help */
#ifndef FORKGATE_EXPLAIN_H
#define FORKGATE_EXPLAIN_H

#include "gates/dump.h"
#include "gates/explain_side.h"
#include "gates/ulp.h"

enum explain_verdict {
    EXPLAIN_IDENTICAL,  /* every op of every step gave the same bits, and the streams agree */
    EXPLAIN_SAMPLING,   /* the same logits at every step, other tokens: what comes after the logits differs */
    EXPLAIN_REGROUPING, /* equal inputs, a rounding-sized difference: the same sum in another order */
    EXPLAIN_WRONG_VALUE,    /* equal inputs, a difference that no reordering makes */
    EXPLAIN_UNWRITTEN,      /* what differs is NaN, or one constant, where the other side has values */
    EXPLAIN_STALE,          /* what differs equals an earlier content of the buffer, or another row */
    EXPLAIN_ARITHMETIC,     /* route or KV dtype differ: other arithmetic was asked for */
    EXPLAIN_NOT_REPEATABLE, /* one side differs from itself when it is run again */
    EXPLAIN_NOT_REPRODUCED  /* the dumps differ, the two sides as rebuilt here do not */
};
#define EXPLAIN_VERDICTS 9

struct explain_request {
    struct explain_side *a, *b;
    const int32_t *prompt; /* [n_prompt] token ids */
    size_t n_prompt;
    const dump *base;  /* the stream whose tokens are forced; its row hashes are compared with A's */
    const dump *other; /* the stream of B, or NULL: then the fork is where B's raw argmax leaves A's */
    int n_steps;       /* at most so many steps; 0: to the fork, or to the end */
    int copies;        /* as in struct tape_plan: every tensor is copied to the host */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total); /* may be NULL */
    void *progress_ctx;
};

/* One op at one captured step: B against A. */
struct explain_delta {
    int step, pos;
    struct tape_op op; /* as side A ran it */
    char kernel_b[TAPE_NAME];
    uint64_t differing; /* elements whose bits differ (NaN is one class) */
    double max_abs;     /* NaN when a NaN is involved */
    double row_max;     /* largest finite |a| of the row */
    size_t worst;       /* element of max_abs, or the first NaN */
    float a, b;         /* the values there */
    uint32_t max_ulps;
    struct ulp_hist hist;
};

struct explain_result {
    enum explain_verdict verdict;
    char conclusion[1280]; /* one paragraph */
    int n_steps;           /* steps compared */
    int fork;              /* step; -1: none */
    int first_logits;      /* first step whose row of logits differs; -1: none */
    int first_step;        /* step of the first op that differs; -1: none */
    int first_pos;         /* the lowest row of it that differs */
    int worst_pos;         /* the row of it that differs most: the one that is judged */
    int rows, rows_differing;
    int first_index;      /* ops of the step that ran before it, all equal */
    struct tape_op first; /* rows: of the whole step */
    char kernel_b[TAPE_NAME];
    int not_run;                      /* side B has no such op in that step */
    double bound;                     /* largest |B - A| that a reordering of the first op explains */
    int cache_equal;                  /* attention: the cache rows it may read; -1: not an input */
    struct explain_delta first_delta; /* of the first op at worst_pos */
    struct explain_delta *deltas;     /* [n_deltas] every op of every captured step */
    int n_deltas;
    int reproduced[2],
        reproducible[2];     /* rows of logits that equal the dump's, of so many that it has hashes of */
    int reproduced_until[2]; /* first step that does not; -1: all do */
    int rows_valued;         /* rows of the first op whose values were kept (TAPE_ROW_VALUES) */
    struct tape_cost cost;   /* of all runs of both sides; held: the most that one of them held */
    struct tape screen[2];   /* every step of both sides */
};

/* Runs both sides (two or three times each) and explains. Every tensor is screened by checksums where it lies; what is
 * copied are the rows of the first op that differs (up to TAPE_ROW_VALUES) and one row of each op at TAPE_CAPTURES places. STATUS_SHAPE when the two
 * sides do not run the same ops over the same widths; STATUS_USAGE when the streams have no ids to force. */
enum status explain_run(const struct explain_request *r, struct explain_result *out, struct err *err);
void explain_free(struct explain_result *r);

const char *explain_verdict_name(enum explain_verdict v); /* "REGROUPING" */
int explain_exit_code(enum explain_verdict v);            /* 0 IDENTICAL, 2 NOT-REPRODUCED, else 1 */

#endif
