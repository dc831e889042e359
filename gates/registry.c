/* registry.c - the list of gates, one line each, in the order they run: tiers in order. Below it the arms that each owes, so
 * that one emptied of what it compares is not green by its controls.
 * Source: ours. Exercise: forkgate run --list */
#include <string.h>

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
    &gate_stream_ladder_f16,
    &gate_stream_ladder_q8,
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

#define OP_ARMS     "guards launched repeat overflows census oracle negative"
#define CHUNK_ARMS  "prefill-decode chunk-1 chunk-7 chunk-64 launched negative"
#define CACHE_ARMS  "rewind rewind-other pair tail launched negative"
#define REPEAT_ARMS "run-to-run reopened fresh-process launched negative"
#define LAUNCH_ARMS "fa_tq fa_splits heeded observer observer-tap full-dump no-dump launched negative"

static const struct {
    const char *gate, *arms;
} owed[] = {
    {"op.add", OP_ARMS " exact"},
    {"op.embed", OP_ARMS " exact poison"},
    {"op.rmsnorm", OP_ARMS " poison"},
    {"op.rope", OP_ARMS},
    {"op.swiglu", OP_ARMS " poison"},
    {"op.top2", OP_ARMS " exact poison"},
    {"op.act_prepare", OP_ARMS " exact poison"},
    {"op.kv_append", OP_ARMS " exact"},
    {"op.matmul", OP_ARMS " exact poison row-alone tc-model"},
    {"op.attention", OP_ARMS " exact poison row-alone plain-2x tail-zero tail-inf tail-large fa_tq fa_splits"},
    {"model.rope", "q k a/a negative"},
    {"model.reference.f32", "ids forced first-20 free a/a negative"},
    {"model.reference.f16", "ids forced a/a negative"},
    {"model.reference.q8", "ids forced a/a negative"},
    {"model.peer.seedling", "ids fork a/a negative"},
    {"model.peer.smollm2", "ids fork a/a negative"},
    {"suite.unit", "suite count"},
    {"stream.golden.f16", "greedy launched negative"},
    {"stream.golden.q8", "greedy launched negative"},
    {"stream.launch.f16", LAUNCH_ARMS},
    {"stream.launch.q8", LAUNCH_ARMS},
    {"stream.chunk.f16", CHUNK_ARMS},
    {"stream.chunk.q8", CHUNK_ARMS},
    {"stream.ladder.f16", "ladder dispatched launched negative"},
    {"stream.ladder.q8", "ladder dispatched launched negative"},
    {"stream.batch.f16", "batch-slots launched negative"},
    {"stream.batch.q8", "batch-slots launched negative"},
    {"stream.mixed.q8", "prefill-decode chunk-1 batch launched negative"},
    {"stream.cache.f16", CACHE_ARMS},
    {"stream.cache.q8", CACHE_ARMS},
    {"stream.repeat.f16", REPEAT_ARMS},
    {"stream.repeat.q8", REPEAT_ARMS},
    {"tolerance.op", "oracle plain-2x launched negative"},
    {"tolerance.stream.f16", "a/a base benign forced fork greedy negative"},
    {"tolerance.stream.q8", "run"},
    {"perf.prefill", "a/a perf"},
};
/* clang-format on */

const char *gate_arms_owed(const char *id) {
    for (size_t i = 0; i < sizeof owed / sizeof owed[0]; i++)
        if (strcmp(owed[i].gate, id) == 0) return owed[i].arms;
    return "";
}
