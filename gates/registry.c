/* registry.c - the list of gates, one line each, in the order they run: tiers in order, cheap gates first.
 * Source: ours. Exercise: forkgate run --list */
#include "gates/model/model_gates.h"
#include "gates/ops/op_gates.h"

const struct gate *const gate_registry[] = {
    &gate_op_add,  &gate_op_embed,       &gate_op_rmsnorm,   &gate_op_rope,   &gate_op_swiglu,
    &gate_op_top2, &gate_op_act_prepare, &gate_op_kv_append, &gate_op_matmul, &gate_op_attention,
    NULL,
};
