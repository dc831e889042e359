/* launch_rows.h - rows about the launch itself: was it the kernel for this shape, and does it fit as it should?
 * Private to gates/ops. Source: ours. Exercise: forkgate run --backend cuda --tier parity */
#ifndef FORKGATE_LAUNCH_ROWS_H
#define FORKGATE_LAUNCH_ROWS_H

#include "gates/ops/op_bench.h"

/* After a run on b->subject; nothing on the CPU. Arms: "served-by" (the kernel that this shape is for counted itself),
 * "occupancy" (it asked for the shared memory of its instance, and as many blocks fit as that allows). */
enum status launch_rows(struct op_bench *b, const struct op_io *io, struct err *err);

#endif
