/* bench_kernels.h - the time of single ops of a device at the shape of a 7B model, each beside what the device can do.
 * Not a comparison of two builds (ab.h) and not a step of a model (bench.h).
 * Idea: an op is called many times in one captured graph, over weights rotated so that they come from memory and not from
 * the L2; a round times every op once, so repeats lie far apart; ceilings are measured in the same process, every round.
 * Source: the shapes of Qwen2.5-7B. Exercise: forkgate bench --kernels --backend cuda */
#ifndef FORKGATE_BENCH_KERNELS_H
#define FORKGATE_BENCH_KERNELS_H

#include "engine/backend.h"

#define KERNEL_ROUNDS_MAX 32
#define KERNEL_TIMES_MAX  96

/* One op at one shape. */
struct kernel_time {
    char op[32], shape[80];
    enum route route;
    int calls; /* of a graph */
    double bytes,
        operations; /* of one call: read from memory at least, multiplications plus additions; 0: not counted */
    enum ceiling product;              /* which ceiling its operations meet: CEILING_F16 or CEILING_S8 */
    double seconds[KERNEL_ROUNDS_MAX]; /* of one call */
};

struct kernel_times {
    int rounds, n;
    double ceiling[CEILINGS][KERNEL_ROUNDS_MAX]; /* a second */
    struct kernel_time time[KERNEL_TIMES_MAX];
};

/* The share of a ceiling that an op reaches, by the medians: the larger of memory's (CEILING_READ) and its products'. */
double kernel_share(const struct kernel_times *t, const struct kernel_time *k, enum ceiling *of);
const char *ceiling_name(enum ceiling c); /* "read", "copy", "wgmma f16", "mma s8" */

/* Times every op of both routes on a CUDA device. progress may be NULL. STATUS_UNSUPPORTED without a device. */
enum status bench_kernels(const struct backend_config *config, int rounds, struct kernel_times *out,
                          void (*progress)(int done, int all), struct err *err);

/* A row for every op and every ceiling: medians, extremes, rates, share. */
enum status bench_kernels_csv(const char *path, const struct kernel_times *t, struct err *err);

#endif
