/* tolerance.h - tier 4's judgement: two sides forced along the same tokens, compared position by position, and greedy
 * streams whose forks must be explained. Pure functions over dumps and points; no engine, no files.
 * Not a tolerance constant: every bound comes from a control that was measured elsewhere (delta), never from the pair.
 * Idea: along forced tokens every position may be compared, also after a fork; an argmax may change only where the base
 * itself was nearly undecided.
 * Source: DESIGN of forkgate, section 5 "Tier 4". Exercise: ctest -R unit.tolerance */
#ifndef FORKGATE_TOLERANCE_H
#define FORKGATE_TOLERANCE_H

#include "gates/diff.h"
#include "gates/gate.h"
#include "gates/stats.h"

#define TOLERANCE_STREAMS      64   /* fewer streams decide nothing about fork rates */
#define TOLERANCE_FISHER       0.01 /* one-sided p below which forks are more frequent than the control's */
#define TOLERANCE_MARGIN_FLOOR 0.1  /* nats: an argmax this clear never moves under a legal regrouping */
#define TOLERANCE_NEAR_TIES    0.2  /* share of near-ties beyond which the tier sees too little (route q8) */
#define TOLERANCE_KL_RATIO     4.0  /* KL grows with the square of the noise: twice the control's noise */

/* One forced position: what the base said, and what the other side says about the same two tokens. */
struct tolerance_point {
    int32_t token;              /* the base's stream goes on with this one */
    int32_t base_id1, base_id2; /* base_id2 is -1 where there is no second */
    int32_t id1;                /* the other side's own choice */
    float base1, base2;         /* the base's logits of its own two */
    float got1, got2;           /* the other side's logits of the same two ids */
    int bounded; /* of got1 and got2, how many are known from below only (not in a dump's record) */
    int invalid; /* the other side's row holds NaN or infinity */
    int differs; /* the two rows' bits: 1 differ, 0 equal, -1 not known */
    double kl;   /* KL(base || other), nats; NaN where whole rows were not compared */
};

struct tolerance_series {
    char name[64];
    struct tolerance_point *points; /* [n] */
    size_t n;
};

/* One side forced along the base's streams: the candidate, or a control. */
struct tolerance_arm {
    char label[96]; /* "fa_tkv=64, this build" */
    struct tolerance_series *series;
    int n;
};

enum status tolerance_arm_new(const char *label, int n_series, struct tolerance_arm *out, struct err *err);
/* Makes room for n points in series i. */
enum status tolerance_series_new(struct tolerance_arm *a, int i, const char *name, size_t n, struct err *err);
void tolerance_arm_free(struct tolerance_arm *a);

/* Points of a base stream and a dump forced along it. STATUS_USAGE when `forced` does not follow the same tokens: numbers
 * past a fork mean nothing. A dump that ends early is refused too. */
enum status tolerance_series_from(const dump *base, const dump *forced, struct tolerance_arm *a, int i,
                                  const char *name, struct err *err);

/* ---- what a control says ---- */
struct tolerance_delta {
    double delta; /* nats: largest change of the base's top-1 and top-2 logits; NaN when any row is invalid */
    int series;
    size_t point;
    uint64_t points, bounded;
};
struct tolerance_delta tolerance_delta_of(const struct tolerance_arm *a);

/* max(TOLERANCE_MARGIN_FLOOR, 2 * delta): above it the argmax is hard. NaN for a NaN or negative delta. */
double tolerance_margin(double delta);

/* ---- what a side says under a margin ---- */
struct tolerance_argmax {
    uint64_t points;
    uint64_t hard;      /* the base's margin exceeds the threshold */
    uint64_t near_ties; /* the rest */
    uint64_t moved;     /* another argmax than the base's, anywhere */
    uint64_t wrong;     /* another argmax, or an invalid row, at a hard position */
    int series;         /* the first wrong one; -1: none */
    size_t point;
};
/* A NaN margin makes every position hard: nothing is excused. */
struct tolerance_argmax tolerance_argmax_of(const struct tolerance_arm *a, double margin);

/* Positions whose rows differ in any bit; *unknown (may be NULL) counts those without both hashes. */
uint64_t tolerance_rows_differ(const struct tolerance_arm *a, uint64_t *unknown);

/* Streams in which the side would have left the base's tokens: by definition of forcing, its greedy forks. */
uint64_t tolerance_forked(const struct tolerance_arm *a);
/* Mean KL over positions; n == 0 when no rows were compared. *largest may be NULL. STATUS_NOMEM. */
enum status tolerance_kl_of(const struct tolerance_arm *a, struct stats_mean *out, double *largest,
                            struct err *err);

/* The forced side under a control's delta: PASS, or FAIL with one sentence. Hard argmax and drift (<= 2 * delta). */
enum verdict tolerance_judge_forced(const struct tolerance_arm *a, double delta, char *reason, size_t room);

/* ---- greedy streams ---- */
/* Is d the greedy, penalty-free stream it must be? STATUS_USAGE when its header declares a penalty or a temperature. The
 * header alone proves nothing: *first_other is the first record whose token is not the raw argmax of its own row (of the
 * stored row, or of the recorded top-1; UINT64_MAX: none). STATUS_USAGE when records lack ids or top-1. */
enum status tolerance_greedy(const dump *d, uint64_t *first_other, struct err *err);

/* A greedy candidate stream against the base's: PASS for IDENTICAL, EXACT-TIE and KNIFE-EDGE under delta; FAIL for FORK,
 * LENGTH, INVALID and for a token that is not its row's argmax; ERROR when not comparable. *out is the comparison. */
enum verdict tolerance_judge_stream(const dump *base, const dump *got, const struct diff_control *control,
                                    struct diff_result *out, char *reason, size_t room);

#endif
