/* par.h - a fixed pool of threads that split an index range.
 * Not a scheduler: ranges are cut statically; no op's arithmetic may depend on the cut (bits never depend on threads).
 * Source: ours. Exercise: ctest -R unit.par */
#ifndef FORKGATE_PAR_H
#define FORKGATE_PAR_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PAR_THREADS_MAX 64

typedef struct par par;

enum status par_open(int n_threads, par **out, struct err *err); /* the caller's thread counts as one */
void par_close(par *p);                                          /* NULL is legal */
int par_threads(const par *p);

/* Calls fn(ctx, begin, end, thread) on disjoint ranges that cover [0, n); ranges start at multiples of grain (>= 1).
 * Returns when all are done. p == NULL runs in the caller. */
typedef void par_fn(void *ctx, int64_t begin, int64_t end, int thread);
void par_for(par *p, int64_t n, int64_t grain, par_fn *fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
