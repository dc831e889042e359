/* ab.h - is B faster than A, really? Interleaved rounds in alternating order, an A/A arm beside them, a bar named before.
 * Not a benchmark of either: only ratios of rounds measured minutes apart at most are compared.
 * Idea: every round measures A, A again and B; the order turns with the round, so a clock that drifts meets all three. When
 * A and A again disagree, or their rounds scatter while those of B lie among them, the machine is not quiet enough and there is no
 * decision.
 * Source: DESIGN of forkgate, section 5 "perf". Exercise: forkgate ab ; ctest -R unit.ab */
#ifndef FORKGATE_AB_H
#define FORKGATE_AB_H

#include "gates/bench.h"

#define AB_ROUNDS_MAX 64
#define AB_ROUNDS_MIN 3

enum ab_arm { AB_A, AB_AA, AB_B, AB_ARMS };

struct ab_sample {
    struct bench_round round;
    char clock[24]; /* bench_clock just before */
};
/* Measures one round of one side. */
typedef enum status ab_measure(void *ctx, struct ab_sample *out, struct err *err);

struct ab_plan {
    ab_measure *measure[2]; /* of A and of B */
    void *ctx[2];
    int rounds; /* AB_ROUNDS_MIN .. AB_ROUNDS_MAX */
    void (*on_round)(void *sink, int round, enum ab_arm arm, const struct ab_sample *s); /* may be NULL */
    void *sink;
};

struct ab_result {
    int rounds;
    struct ab_sample samples[AB_ARMS][AB_ROUNDS_MAX];
    int same_logits; /* B's rows are A's, bit for bit */
};

/* Runs all rounds. STATUS_INVALID when a side's logits change from round to round, or A's and A again's differ. */
enum status ab_run(const struct ab_plan *plan, struct ab_result *out, struct err *err);

enum ab_verdict {
    AB_HEADLINE, /* the bar is reached and the slowest B beats the fastest A: may be quoted */
    AB_FASTER,   /* the bar is reached in the median; single rounds overlap */
    AB_MISSED,   /* not slower than the bar allows, but the bar is not reached */
    AB_SLOWER,   /* slower by as much as the bar asks for */
    AB_NO_DECISION, /* A against A is not flat, its rounds scatter by more than the bar, or a number is missing */
    AB_VERDICTS
};

struct ab_decision {
    enum ab_verdict verdict;
    double median[AB_ARMS]; /* tokens a second */
    double gain;            /* median B / median A - 1, A and A again pooled */
    double flatness;        /* |median A again / median A - 1| */
    double flat_bound;      /* half the bar */
    double spread;          /* of the rounds of A and A again: (upper - lower quartile) / median */
    int separated;          /* min B > max of A and A again */
    char reason[320];
};

/* decode: 0 judges prefill, 1 decode. bar: the gain to reach, as 0.015; named before measuring. 0 < bar < 10. */
struct ab_decision ab_decide(const struct ab_result *r, int decode, double bar);

const char *ab_verdict_name(enum ab_verdict v);
const char *ab_arm_name(enum ab_arm arm); /* "A", "A'", "B" */

/* Every round as CSV: round, order, arm, prefill and decode tokens a second, clock, logits. */
enum status ab_write_csv(const char *path, const struct ab_result *r, struct err *err);

/* ---- sides ---- */
/* ab_measure over an engine of this process. ctx: bench* */
enum status ab_measure_bench(void *ctx, struct ab_sample *out, struct err *err);

/* ab_measure over another binary: `BINARY bench` in a process of its own, one round after its own warm-up. */
struct ab_binary {
    const char *path, *model, *prompt_file;
    struct engine_config config;
    int n_decode;
    double warm_s;
};
enum status ab_measure_binary(void *ctx, struct ab_sample *out, struct err *err);

#endif
