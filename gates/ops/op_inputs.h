/* op_inputs.h - inputs that several op gates share: weights of every storage type, steps, caches.
 * Source: ours. Exercise: forkgate run --tier parity */
#ifndef FORKGATE_OP_INPUTS_H
#define FORKGATE_OP_INPUTS_H

#include "gates/ops/op_bench.h"

/* Blocks of any dtype for n*k elements: random codes, scales that follow the case's family. FAMILY_EXACT gives scale 1,
 * small integer codes and integer mins; FAMILY_HUGE stays below the f16 maximum so that route f16 accepts it. */
enum status op_weights(struct op_bench *b, const struct op_case *c, enum dtype t, int64_t n, int64_t k,
                       int stream, void **out, size_t *bytes, struct err *err);

/* A step over host arrays owned by the bench: n_rows rows at pos0, pos0+1, .. (n_seq 1) or one row for each of n_rows
 * sequences at the given positions; caches: [n_seq] structs that outlive the step. */
struct op_step {
    struct step step;
    int32_t *id, *pos;              /* [n_rows] */
    const struct kv_cache **caches; /* [n_seq] */
};
enum status op_step_new(struct op_bench *b, int n_rows, int n_seq, int32_t pos0, struct op_step *out,
                        struct err *err);

/* A cache of zero layers' worth of data for ops that need a step but no cache; positions up to n_ctx. */
struct kv_cache op_cache_dummy(int n_ctx);

/* begin and end around one op; begin must not report a replay. */
enum status op_step_begin(struct op_bench *b, const struct op_step *s, struct err *err);
enum status op_step_end(struct op_bench *b, const struct op_step *s, struct err *err);

/* f16 bits to f32 for output arrays that are f16. */
void op_widen_f16(const uint16_t *bits, size_t n, float *out);

extern const struct fill_range op_range_f32; /* huge 1e30, subnormal below 2^-126 */
extern const struct fill_range op_range_f16; /* huge 60000, subnormal below 2^-14 */

#endif
