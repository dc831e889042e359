/* device_bench.h - the per-op half of device_bench: events around every function of a CUDA backend's op table.
 * Source: ours. Exercise: device_bench model FILE f16 */
#ifndef FORKGATE_DEVICE_BENCH_H
#define FORKGATE_DEVICE_BENCH_H

#include "../engine/engine.h"

/* One prefill of n random tokens from position 0, or n decode steps, with every op timed; prints op, total and share. */
void bench_ops_of_prefill(engine *e, session *s, int n_vocab, int n);
void bench_ops_of_decode(engine *e, session *s, int n);

#endif
