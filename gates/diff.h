/* diff.h - two streams in, one verdict out: where they fork, how close it was, how far they had drifted before.
 * Not a tolerance: without a control a fork is a FORK, and the report says so.
 * Idea: before the fork every number may be compared; at the fork two candidates are; after it nothing means anything.
 * Source: DESIGN of forkgate, section 5 "Stream comparisons". Exercise: ctest -R unit.diff */
#ifndef FORKGATE_DIFF_H
#define FORKGATE_DIFF_H

#include "gates/dump.h"

enum diff_verdict {
    DIFF_IDENTICAL,
    DIFF_EXACT_TIE,  /* the stored bits of top-1 and top-2 tie on a side that can explain both choices */
    DIFF_KNIFE_EDGE, /* larger gap <= 1 ULP of the logits' dtype, or <= 2*delta and prefix drift <= 2*delta */
    DIFF_FORK,
    DIFF_LENGTH,        /* equal as far as both go; one stream ended */
    DIFF_INVALID,       /* NaN, Inf, id outside the vocabulary */
    DIFF_NOT_COMPARABLE /* model, prompt, vocabulary, sampler or tie rule differ */
};

/* The noise a benign change makes, measured elsewhere: never from the pair under judgement. */
struct diff_control {
    double delta;     /* nats; < 0: no control */
    char source[256]; /* "control/ (64 streams, fa_tkv=64)" or the budgets.csv row */
};

struct diff_result {
    enum diff_verdict verdict;
    uint64_t count_a, count_b;
    uint64_t fork;         /* record index of the first difference; UINT64_MAX when none */
    uint64_t text_offset;  /* byte offset of the fork in the text of A */
    double gap_a, gap_b;   /* top1 - top2 on each side at the fork, nats; NaN when unknown */
    double ulps_a, ulps_b; /* the same in ULPs of the logits' dtype (or -1 when unknown) */
    double drift; /* largest change of top-1/top-2 logits of equal ids over the shared prefix, nats */
    uint64_t drift_at;
    uint64_t
        first_hash_diff; /* first step whose row hash differs; UINT64_MAX when none; hashes may differ unforked */
    int bytes_equal;     /* different ids, but the concatenated bytes agree over the common length */
    int tie_rules_differ;  /* an exact tie, and one side took the higher id */
    int raw_argmax_agrees; /* the fork is post-processing (penalty, sampling): raw top-1 equal on both sides */
    int ended_by_eos_a, ended_by_eos_b;
    uint64_t ignored_tail; /* records after a common EOS that were not compared */
    struct diff_control control;
    char reason[512]; /* one sentence: why this verdict */
};

/* Never fails but for memory: damage was refused by dump_open. control may be NULL. */
enum status diff_streams(const dump *a, const dump *b, const struct diff_control *control,
                         struct diff_result *out, struct err *err);

const char *diff_verdict_name(enum diff_verdict v); /* "KNIFE-EDGE" */
int diff_exit_code(enum diff_verdict v); /* 0 IDENTICAL, 2 INVALID and NOT-COMPARABLE, 1 the rest */

/* delta from a control folder: pairs (X.fgd, Y.fgd) where Y's `follow` names X's stream hash and their geometry differs.
 * delta = largest |change| of X's top-1 and top-2 logits (same ids) over all positions of all pairs. */
enum status diff_control_from_dir(const char *dir, struct diff_control *out, int *n_pairs, struct err *err);

#endif
