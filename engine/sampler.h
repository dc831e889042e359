/* sampler.h - the next token from a row of logits: greedy by rule, or drawn by a counter-based generator.
 * Not a zoo of samplers: greedy, repetition penalty and temperature are what a gate needs.
 * Idea: the draw at step i is a function of (seed, i) alone, so two builds see the same draws whatever happened before.
 * Source: Keskar et al. 2019 (repetition penalty, once per distinct id); Salmon et al. 2011 for counter-based draws.
 * Exercise: ctest -R unit.sampler */
#ifndef FORKGATE_SAMPLER_H
#define FORKGATE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "ops.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sampler_config {
    float repeat_penalty; /* 1: off. Once per distinct id of prompt and output: l > 0 ? l / p : l * p */
    float temperature;    /* 0: greedy */
    uint64_t seed;        /* used when temperature > 0 */
};

struct sampler_config sampler_greedy(void);

/* STATUS_USAGE naming the field: penalty not in (0, 100], temperature not in [0, 100]. */
enum status sampler_check(const struct sampler_config *c, struct err *err);

/* top1 without penalty and temperature; otherwise the rule above over logits[0..n_vocab).
 * seen: [n_vocab] bytes, non-zero for every distinct id of prompt and output so far (NULL when penalty is 1).
 * scratch: [n_vocab] floats (NULL when greedy without penalty). step: index of the draw.
 * numerics  p_i = exp((l_i - max) / T) in f32 (fm_expf), summed in double in id order; the token is the first id whose
 *           running sum exceeds u * total, u = 53 bits of rng_u64(seed, step) * 2^-53.
 * STATUS_INVALID when the row's census is not clean: a NaN or +Inf never becomes a token. */
enum status sampler_next(const struct sampler_config *c, const float *logits, int n_vocab,
                         const struct top2 *raw, const uint8_t *seen, float *scratch, uint64_t step,
                         int32_t *token, struct err *err);

/* logsumexp of a row, natural log: max + log(sum exp(l - max)); terms fm_expf in f32, summed in double over
 * LOGSUMEXP_LANES strided lanes, then a halving tree. -Inf logits contribute nothing; max is the row's largest logit.
 * Scalar and AVX2 code give the same bits (logsumexp.c). */
#define LOGSUMEXP_LANES 8
double sampler_logsumexp(const float *logits, int n_vocab, float max);
/* The same with the code path named, for the test that compares the two. */
double sampler_logsumexp_with(const float *logits, int n_vocab, float max, int use_avx2);

#ifdef __cplusplus
}
#endif
#endif
