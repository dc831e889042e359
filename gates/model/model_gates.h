/* model_gates.h - the gates that run whole models; registry.c lists them.
 * Source: ours. Exercise: forkgate run --tier identity */
#ifndef FORKGATE_MODEL_GATES_H
#define FORKGATE_MODEL_GATES_H

#include "gates/gate.h"

extern const struct gate gate_stream_golden_f16, gate_stream_golden_q8, gate_stream_repeat_f16,
    gate_stream_repeat_q8, gate_stream_chunk_f16, gate_stream_chunk_q8, gate_stream_batch_f16,
    gate_stream_batch_q8, gate_stream_launch_f16, gate_stream_launch_q8, gate_stream_cache_f16,
    gate_stream_cache_q8, gate_stream_mixed_q8, gate_stream_ladder_f16, gate_stream_ladder_q8;
extern const struct gate gate_model_rope, gate_reference_f32, gate_reference_f16, gate_reference_q8,
    gate_suite;
extern const struct gate gate_tolerance_op, gate_tolerance_stream_f16, gate_tolerance_stream_q8;
extern const struct gate gate_peer_seedling, gate_peer_smollm2;
extern const struct gate gate_perf_prefill;

#endif
