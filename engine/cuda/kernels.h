/* kernels.h - the stable name of every kernel, as counted, injected and shown in coverage maps.
 * Not one name per template instance: instances of one kernel at another geometry share it; weight types do not.
 * Idea: one list; the enum, the names and the counters cannot drift apart.
 * Source: ours. Exercise: forkgate run --tier parity (coverage) */
#ifndef FORKGATE_KERNELS_H
#define FORKGATE_KERNELS_H

#define CUDA_KERNEL_LIST(X)                                                                                  \
    X(KERNEL_EMBED, "embed")                                                                                 \
    X(KERNEL_RMSNORM_ROW, "rmsnorm_row")                                                                     \
    X(KERNEL_RMSNORM_WARP, "rmsnorm_warp")                                                                   \
    X(KERNEL_ACT_F16, "act_f16")                                                                             \
    X(KERNEL_ACT_Q8_32, "act_q8_32")                                                                         \
    X(KERNEL_ACT_Q8_256, "act_q8_256")                                                                       \
    X(KERNEL_ROPE, "rope")                                                                                   \
    X(KERNEL_KV_F16, "kv_append_f16")                                                                        \
    X(KERNEL_KV_Q8_0, "kv_append_q8_0")                                                                      \
    X(KERNEL_SWIGLU, "swiglu")                                                                               \
    X(KERNEL_ADD, "add")                                                                                     \
    X(KERNEL_NORM_ACT, "rmsnorm_act")                                                                        \
    X(KERNEL_SWIGLU_ACT, "swiglu_act")                                                                       \
    X(KERNEL_ROPE_APPEND, "rope_kv_append")                                                                  \
    X(KERNEL_FA_MERGE_ACT, "fa_merge_act")                                                                   \
    X(KERNEL_TOP2_PART, "top2_part")                                                                         \
    X(KERNEL_TOP2_MERGE, "top2_merge")                                                                       \
    X(KERNEL_GEMM_F16, "gemm_f16")                                                                           \
    X(KERNEL_GEMM_F16_HOPPER, "gemm_f16_wgmma")                                                              \
    X(KERNEL_GEMV_F16, "gemv_f16")                                                                           \
    X(KERNEL_MMVQ_Q8_0, "mmvq_q8_0")                                                                         \
    X(KERNEL_MMVQ_Q4_0, "mmvq_q4_0")                                                                         \
    X(KERNEL_MMVQ_Q4_1, "mmvq_q4_1")                                                                         \
    X(KERNEL_MMVQ_Q5_0, "mmvq_q5_0")                                                                         \
    X(KERNEL_MMVQ_Q5_1, "mmvq_q5_1")                                                                         \
    X(KERNEL_MMVQ_Q4_K, "mmvq_q4_k")                                                                         \
    X(KERNEL_MMVQ_Q5_K, "mmvq_q5_k")                                                                         \
    X(KERNEL_MMVQ_Q6_K, "mmvq_q6_k")                                                                         \
    X(KERNEL_MMQ_Q8_0, "mmq_q8_0")                                                                           \
    X(KERNEL_MMQ_Q4_0, "mmq_q4_0")                                                                           \
    X(KERNEL_MMQ_Q4_1, "mmq_q4_1")                                                                           \
    X(KERNEL_MMQ_Q5_0, "mmq_q5_0")                                                                           \
    X(KERNEL_MMQ_Q5_1, "mmq_q5_1")                                                                           \
    X(KERNEL_MMQ_Q4_K, "mmq_q4_k")                                                                           \
    X(KERNEL_MMQ_Q5_K, "mmq_q5_k")                                                                           \
    X(KERNEL_MMQ_Q6_K, "mmq_q6_k")                                                                           \
    X(KERNEL_FA_PREFILL, "fa_prefill_f16kv")                                                                 \
    X(KERNEL_FA_PREFILL_HOPPER, "fa_prefill_wgmma")                                                          \
    X(KERNEL_FA_PREFILL_Q8, "fa_prefill_q8kv")                                                               \
    X(KERNEL_FA_DECODE, "fa_decode_f16kv")                                                                   \
    X(KERNEL_FA_DECODE_Q8, "fa_decode_q8kv")                                                                 \
    X(KERNEL_FA_MERGE, "fa_merge")                                                                           \
    X(KERNEL_WEIGHT_F16, "weight_f16")                                                                       \
    X(KERNEL_WEIGHT_VECTOR, "weight_vector")                                                                 \
    X(KERNEL_WEIGHT_PLANES, "weight_planes")                                                                 \
    X(KERNEL_CHECKSUM, "row_checksum")

#define CUDA_KERNEL_ENUM(id, name) id,
enum kernel_id { CUDA_KERNEL_LIST(CUDA_KERNEL_ENUM) CUDA_KERNEL_COUNT };
#undef CUDA_KERNEL_ENUM

#endif
