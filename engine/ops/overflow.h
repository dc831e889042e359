/* overflow.h - the counter behind the contract's *overflow.
 * Not for results: a count is order-free, so threads may add in any order.
 * Source: ours. Exercise: ctest -R unit.ops */
#ifndef FORKGATE_OVERFLOW_H
#define FORKGATE_OVERFLOW_H

#include <stdatomic.h>

#include "twins.h"

/* Adds n to *t->overflow; safe from several threads. */
static inline void overflow_add(const struct twin_ctx *t, uint64_t n) {
    if (n != 0) atomic_fetch_add_explicit((_Atomic uint64_t *)t->overflow, n, memory_order_relaxed);
}

#endif
