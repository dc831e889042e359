/* reference.h - the recorded float64 reference of the embedded model: prompts, greedy steps, first-step logits.
 * Not made by forkgate: an independent float64 program over the dequantised weights (fixtures/reference).
 * Source: ours. Exercise: forkgate run --only model.reference.f32 */
#ifndef FORKGATE_REFERENCE_H
#define FORKGATE_REFERENCE_H

#include "gates/hash.h"
#include "gates/table.h"

#define REFERENCE_TOP 20

struct reference_step {
    int32_t top1, top2;
    double logit1, logit2;
};

struct reference_prompt {
    char name[64];
    int32_t *ids; /* [n_ids] of the prompt */
    size_t n_ids;
    struct reference_step *steps; /* [n_steps] */
    size_t n_steps;
    int32_t first_id[REFERENCE_TOP]; /* the largest logits of step 0 */
    double first_logit[REFERENCE_TOP];
    int n_first;
};

struct reference {
    struct reference_prompt *prompts;
    size_t n;
    struct hash128 model; /* the model file that it was computed from */
};

/* Reads fixtures/reference/seedling_q8_0_{prompts,steps,first20}.csv and the model's hash from fixtures/MANIFEST.csv.
 * STATUS_FORMAT when steps or ids are missing, out of order or more than announced. */
enum status reference_load(const char *source_dir, struct reference *out, struct err *err);
void reference_free(struct reference *r);

#endif
