/* tolerance_score.h - engines of this process forced along one stream together: every row of logits is compared whole.
 * Not a dump: rows live for one stream and are gone; what remains is a point per position.
 * Idea: KL and the exact change of any logit need whole rows, and 64 streams of them would be gigabytes on a big model.
 * Source: ours. Exercise: ctest -R unit.tolerance_score */
#ifndef FORKGATE_TOLERANCE_SCORE_H
#define FORKGATE_TOLERANCE_SCORE_H

#include "gates/battery.h"
#include "gates/tolerance.h"

#define TOLERANCE_ENGINES 4

struct tolerance_score {
    engine *base;
    engine *others[TOLERANCE_ENGINES];
    struct tolerance_arm *arms[TOLERANCE_ENGINES]; /* of each other engine; series i is filled */
    int n_others;
    uint64_t base_rows,
        base_wrong; /* out, summed: rows of the base engine; those that are not the followed dump's */
};

/* Forces prompt p and the tokens of `follow` (a stream of the base) through all engines; fills series i of every arm.
 * numerics  KL(base || other) = sum p (log p - log q) in double, exp and log of the C library; a row with NaN gives NaN. */
enum status tolerance_score_stream(struct tolerance_score *s, const struct battery_prompt *p,
                                   const dump *follow, int i, struct err *err);

/* KL of two rows of logits, nats; NaN when either holds NaN or +Inf. -Inf in both is fine. */
double tolerance_row_kl(const float *base, const float *other, int n_vocab);

/* Negative log-likelihood of every token of a text but its first, each given all before it: *nll (malloc'ed) [*n], nats, from
 * one chunked prefill. The text must fit the context. */
enum status tolerance_text_nll(engine *e, const struct battery_prompt *text, double **nll, size_t *n,
                               struct err *err);

#endif
