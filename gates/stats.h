/* stats.h - the few statistics that verdicts rest on: counts compared exactly, shares with an interval, means with an error.
 * Not a statistics package: every function here decides or qualifies a row of the tolerance or perf tier.
 * Idea: small counts are judged by exact tests (Fisher, Clopper-Pearson), so that no normal approximation decides a merge.
 * Source: Fisher 1935; Clopper and Pearson 1934. Exercise: ctest -R unit.stats */
#ifndef FORKGATE_STATS_H
#define FORKGATE_STATS_H

#include <stddef.h>
#include <stdint.h>

/* One-sided Fisher exact test: given hits_a of n_a and hits_b of n_b, the probability that a has this many hits or more
 * when both have one rate: sum over x >= hits_a of C(n_a,x) C(n_b,k-x) / C(n_a+n_b,k), k = hits_a + hits_b.
 * Terms exp(lgamma sums), relative error below 1e-10 for counts up to 1e6. NaN when hits exceed n, or both n are 0. */
double stats_fisher_greater(uint64_t hits_a, uint64_t n_a, uint64_t hits_b, uint64_t n_b);

struct stats_interval {
    double low, high;
};
/* Exact binomial interval for `hits` of n: every rate it leaves out would make this count, or one further out, less likely
 * than (1 - confidence)/2. By bisection to 1e-12. [0, 1] for n == 0; NaN when hits > n or confidence is outside (0, 1). */
struct stats_interval stats_clopper_pearson(uint64_t hits, uint64_t n, double confidence);

struct stats_mean {
    size_t n;
    double mean;
    double sd; /* with n - 1; NaN for n < 2 */
    double se; /* sd / sqrt(n) */
};
/* Two passes, in order. A NaN anywhere makes all of it NaN; n == 0 too. */
struct stats_mean stats_mean_of(const double *x, size_t n);

/* Middle value, or the mean of the two middle values. NaN for n == 0 or a NaN anywhere. STATS_MEDIAN_MAX values at most:
 * NaN beyond. */
#define STATS_MEDIAN_MAX 4096
double stats_median(const double *x, size_t n);

#endif
