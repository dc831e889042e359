/* op_arms.h - the common arms of an op gate. Private to gates/ops.
 * Source: ours. Exercise: forkgate run --tier parity */
#ifndef FORKGATE_OP_ARMS_H
#define FORKGATE_OP_ARMS_H

#include "gates/ops/op_bench.h"

/* All arms of one case, in the order sentinels, launches, repeat, census, metrics, twin, own arms, negative. */
enum status op_arms_case(struct op_bench *b, struct op_io *io, struct err *err);

/* A row without numbers for this case: SKIP or ERROR with its reason. */
void op_arms_note(const struct op_bench *b, const struct op_io *io, enum verdict v, const char *note);

#endif
