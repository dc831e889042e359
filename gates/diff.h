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
    DIFF_LENGTH, /* equal as far as both go; one stream ended */
    DIFF_INVALID, /* NaN, Inf, id outside the vocabulary, values that contradict each other (dump_first_invalid) */
    DIFF_NOT_COMPARABLE /* model, prompt, vocabulary, sampler or tie rule differ; nothing there to be compared */
};

/* The noise a benign change makes, measured elsewhere: never from the pair under judgement. */
struct diff_control {
    double delta; /* nats; < 0: no control */
    char source
        [256]; /* "control/ (64 streams, fa_tkv=64)" or the budgets.csv row; without a control: why there is none,
                       * or empty */
};

struct diff_result {
    enum diff_verdict verdict;
    uint64_t count_a, count_b;
    uint64_t compared;     /* records whose tokens were compared and found equal: the shared prefix */
    uint64_t fork;         /* record index of the first difference; UINT64_MAX when none */
    uint64_t fork_b;       /* the same in B: differs from fork only when compared by bytes */
    uint64_t text_offset;  /* byte offset of the fork in the text of A */
    double gap_a, gap_b;   /* top1 - top2 on each side at the fork, nats; NaN when unknown */
    double ulps_a, ulps_b; /* the same in ULPs of the logits' dtype (or -1 when unknown) */
    double ulp_a, ulp_b;   /* that ULP, nats (or -1) */
    double
        drift; /* largest change of top-1/top-2 logits of equal ids, over every row computed from the shared prefix
                   * (the fork's own row is one), nats */
    uint64_t drift_at; /* UINT64_MAX when no logit could be compared */
    int drift_at_least; /* of that change only a lower bound is known: a side did not record the id, which is therefore below
                         * its recorded top two */
    uint64_t
        first_hash_diff; /* first step whose row hash differs; UINT64_MAX when none; hashes may differ unforked */
    uint64_t rows_hashed; /* rows whose hash both sides carry, up to the fork: 0 means nothing is known */
    uint64_t full_rows,
        full_differing;       /* rows stored in full on both sides; values of them that differ in bits */
    int lengths_differ;       /* one stream (or, compared by bytes, one text) goes on where the other ends */
    int by_bytes;             /* a side has no token ids: identity is by bytes */
    uint64_t texts_differ_at; /* same ids, other bytes: first such record; UINT64_MAX when none */
    int bytes_equal;          /* different ids, but the concatenated bytes agree over the common length */
    int tie_rules_differ;     /* an exact tie, and one side took the higher id */
    int raw_argmax_agrees; /* the fork is post-processing (penalty, sampling): raw top-1 equal on both sides */
    int ended_by_eos_a, ended_by_eos_b;
    uint64_t ignored_tail; /* records after a common EOS that were not compared */
    int control_asked;     /* a FORK that a control could excuse, had there been one that applies */
    int results_unchecked_a,
        results_unchecked_b; /* too long for a look at its footer's results (diff_files) */
    struct diff_control control;
    char reason[512]; /* one sentence: why this verdict */
};

/* Are the compared rows of logits the same bits? UNKNOWN where a row lacks its hash on a side and is not stored whole, and
 * nothing else tells a difference. */
enum diff_rails { DIFF_RAILS_SAME, DIFF_RAILS_DIFFER, DIFF_RAILS_UNKNOWN };
enum diff_rails diff_rails(const struct diff_result *r);

/* Never fails but for memory: damage was refused by dump_open. control may be NULL. */
enum status diff_streams(const dump *a, const dump *b, const struct diff_control *control,
                         struct diff_result *out, struct err *err);

/* A footer's results are checked for streams of up to this many records, which is beyond any context; the check costs as
 * much as the comparison. */
#define DIFF_RESULTS_CHECKED (1u << 20)

/* Opens, verifies and compares in one pass over both files (a block is hashed, checked and compared while it is in
 * cache). Refuses what dump_open refuses; the results in the footer of a stream of more than DIFF_RESULTS_CHECKED records
 * are not looked at, no verdict comes of them, and out says so. The caller closes *a and *b; both are NULL on failure. */
enum status diff_files(const char *path_a, const char *path_b, const struct diff_control *control, dump **a,
                       dump **b, struct diff_result *out, struct err *err);

/* What a difference of a provenance key means to a comparison; x, y: its values, NULL when absent. "" for a key that may
 * differ; "must match" (model, prompt, vocabulary, sampler, tie rule), or what is made of a side that does not say. */
const char *diff_key_note(const char *key, const char *x, const char *y);

const char *diff_verdict_name(enum diff_verdict v); /* "KNIFE-EDGE" */
int diff_exit_code(enum diff_verdict v); /* 0 IDENTICAL, 2 INVALID and NOT-COMPARABLE, 1 the rest */
/* The same where the rails are asked for too: IDENTICAL is 1 where they differ, 2 where they are not known. */
int diff_exit_code_bits(const struct diff_result *r);

/* ---- controls ---- */

/* delta for one comparison from a control folder: pairs (X.fgd, Y.fgd) where Y's `follow` names X's stream hash, Y's tokens
 * are X's, and their geometry differs. delta = largest |change| of X's top-1 and top-2 logits (same ids; logits against
 * logits, logprobs against logprobs) over all positions of all pairs that apply: X is of a's build (commit, compiler, flags,
 * device, driver), model and route, and Y does not run the geometry of a or b that X does not run, because a candidate must
 * not excuse itself. *n_pairs == 0 leaves out->delta < 0 and says so in source. */
enum status diff_control_for(const char *dir, const dump *a, const dump *b, struct diff_control *out,
                             int *n_pairs, struct err *err);

/* delta from the calibrated row of golden/budgets.csv for op=logits, metric=delta, this model (model.xxh3), route and
 * change (diff_change). No such row, or no file: out->delta < 0, STATUS_OK. A damaged file is an error. */
enum status diff_control_from_budgets(const char *path, const dump *a, const dump *b,
                                      struct diff_control *out, struct err *err);

/* What differs between the builds of two streams, as budgets.csv names it: "fa_tkv", "fa_chunk", "fa_tkv+fa_chunk", or
 * "code" when the bit-carrying geometry is the same. */
const char *diff_change(const dump *a, const dump *b);

#endif
