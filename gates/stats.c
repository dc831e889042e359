/* stats.c - see stats.h. */
#include "gates/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BISECTIONS 60 /* 2^-60: below the spacing of the doubles that matter */

static double log_choose(uint64_t n, uint64_t k) {
    return lgamma((double)n + 1.0) - lgamma((double)k + 1.0) - lgamma((double)(n - k) + 1.0);
}

double stats_fisher_greater(uint64_t hits_a, uint64_t n_a, uint64_t hits_b, uint64_t n_b) {
    if (hits_a > n_a || hits_b > n_b || n_a + n_b == 0) return (double)NAN;
    uint64_t k = hits_a + hits_b, most = k < n_a ? k : n_a;
    double all = log_choose(n_a + n_b, k), sum = 0.0;
    for (uint64_t x = most + 1; x-- > hits_a;) { /* smallest terms first */
        if (k - x > n_b) break;
        sum += exp(log_choose(n_a, x) + log_choose(n_b, k - x) - all);
    }
    return sum < 1.0 ? sum : 1.0;
}

/* P(X >= hits) for X binomial(n, p), 0 < p < 1. */
static double tail_from(uint64_t hits, uint64_t n, double p) {
    double log_p = log(p), log_q = log1p(-p), sum = 0.0;
    for (uint64_t x = n + 1; x-- > hits;)
        sum += exp(log_choose(n, x) + (double)x * log_p + (double)(n - x) * log_q);
    return sum;
}

/* The rate at which P(X >= hits) is `target`; the tail grows with the rate. */
static double rate_of_tail(uint64_t hits, uint64_t n, double target) {
    double low = 0.0, high = 1.0;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = 0.5 * (low + high);
        if (tail_from(hits, n, middle) < target)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

struct stats_interval stats_clopper_pearson(uint64_t hits, uint64_t n, double confidence) {
    struct stats_interval out = {(double)NAN, (double)NAN};
    if (hits > n || !(confidence > 0.0 && confidence < 1.0)) return out;
    double rest = 0.5 * (1.0 - confidence);
    out.low = hits == 0 ? 0.0 : rate_of_tail(hits, n, rest);
    out.high = hits == n ? 1.0 : rate_of_tail(hits + 1, n, 1.0 - rest);
    return out;
}

struct stats_mean stats_mean_of(const double *x, size_t n) {
    struct stats_mean out = {n, (double)NAN, (double)NAN, (double)NAN};
    if (n == 0) return out;
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    out.mean = sum / (double)n;
    if (n < 2) return out;
    for (size_t i = 0; i < n; i++) squares += (x[i] - out.mean) * (x[i] - out.mean);
    out.sd = sqrt(squares / (double)(n - 1));
    out.se = out.sd / sqrt((double)n);
    return out;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stats_median(const double *x, size_t n) {
    double sorted[STATS_MEDIAN_MAX];
    if (n == 0 || n > STATS_MEDIAN_MAX) return (double)NAN;
    for (size_t i = 0; i < n; i++)
        if (isnan(x[i])) return (double)NAN;
    memcpy(sorted, x, n * sizeof *x);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}
