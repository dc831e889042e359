/* registry.c - the list of gates, one line each, in the order they run: tiers in order.
 * Source: ours. Exercise: forkgate run --list */
#include "gates/model/model_gates.h"
#include "gates/ops/op_gates.h"

/* clang-format off */
const struct gate *const gate_registry[] = {
    &gate_op_add,
    &gate_op_embed,
    &gate_op_rmsnorm,
    &gate_op_rope,
    &gate_op_swiglu,
    &gate_op_top2,
    &gate_op_act_prepare,
    &gate_op_kv_append,
    &gate_op_matmul,
    &gate_op_attention,
    &gate_model_rope,
    &gate_reference_f32,
    &gate_reference_f16,
    &gate_reference_q8,
    &gate_peer_seedling,
    &gate_peer_smollm2,
    &gate_suite,
    &gate_stream_golden_f16,
    &gate_stream_golden_q8,
    &gate_stream_launch_f16,
    &gate_stream_launch_q8,
    &gate_stream_chunk_f16,
    &gate_stream_chunk_q8,
    &gate_stream_batch_f16,
    &gate_stream_batch_q8,
    &gate_stream_mixed_q8,
    &gate_stream_cache_f16,
    &gate_stream_cache_q8,
    &gate_stream_repeat_f16,
    &gate_stream_repeat_q8,
    &gate_tolerance_op,
    &gate_tolerance_stream_f16,
    &gate_tolerance_stream_q8,
    &gate_perf_prefill,
    NULL,
};
