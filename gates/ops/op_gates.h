/* op_gates.h - the op gates, one per op of engine/ops.h; registry.c lists them.
 * Source: ours. Exercise: forkgate run --tier parity */
#ifndef FORKGATE_OP_GATES_H
#define FORKGATE_OP_GATES_H

#include "gates/gate.h"

extern const struct gate gate_op_embed, gate_op_rmsnorm, gate_op_act_prepare, gate_op_matmul, gate_op_rope,
    gate_op_kv_append, gate_op_attention, gate_op_swiglu, gate_op_add, gate_op_top2;

#endif
