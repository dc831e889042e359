/* sampler.c - see sampler.h. */
#include "sampler.h"

#include <math.h>

#include "fault.h"
#include "fmath.h"
#include "rng.h"

struct sampler_config sampler_greedy(void) {
    struct sampler_config c = {1.0f, 0.0f, 0};
    return c;
}

enum status sampler_check(const struct sampler_config *c, struct err *err) {
    if (!(c->repeat_penalty > 0.0f && c->repeat_penalty <= 100.0f))
        return err_set(err, STATUS_USAGE, "sampler: repeat penalty %g must be in (0, 100]",
                       (double)c->repeat_penalty);
    if (!(c->temperature >= 0.0f && c->temperature <= 100.0f))
        return err_set(err, STATUS_USAGE, "sampler: temperature %g must be in [0, 100]",
                       (double)c->temperature);
    return STATUS_OK;
}

static int penalty_is_on(const struct sampler_config *c) {
    return c->repeat_penalty < 1.0f || c->repeat_penalty > 1.0f;
}

static int temperature_is_on(const struct sampler_config *c) {
    return c->temperature > 0.0f;
}

/* The declared tie rule: the lowest id of the largest logit. */
static int32_t argmax(const float *logits, int n_vocab) {
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static int32_t draw(const struct sampler_config *c, float *scratch, int n_vocab, uint64_t step) {
    float max = scratch[argmax(scratch, n_vocab)];
    double total = 0.0;
    for (int i = 0; i < n_vocab; i++) {
        scratch[i] = fm_expf((scratch[i] - max) / c->temperature);
        total += (double)scratch[i];
    }
    double target = (double)(rng_u64(c->seed, step) >> 11) * 0x1p-53 * total;
    double running = 0.0;
    int32_t last = 0; /* rounding may leave target == total: then the last id with any weight */
    for (int32_t i = 0; i < n_vocab; i++) {
        if (!(scratch[i] > 0.0f)) continue;
        running += (double)scratch[i];
        last = i;
        if (running > target) break;
    }
    return last;
}

enum status sampler_next(const struct sampler_config *c, const float *logits, int n_vocab,
                         const struct top2 *raw, const uint8_t *seen, float *scratch, uint64_t step,
                         int32_t *token, struct err *err) {
    *token = -1;
    if (raw->first_bad >= 0)
        return err_set(err, STATUS_INVALID, "logits: non-finite at id %d (%d NaN, %d +Inf in the row)",
                       raw->first_bad, raw->n_nan, raw->n_inf);
    if (raw->id1 < 0 || !isfinite(raw->logit1))
        return err_set(err, STATUS_INVALID, "logits: no finite value in the row");
    struct sampler_config hidden = *c;
    if (!penalty_is_on(c) && FAULT(RT_HIDDENPENALTY)) hidden.repeat_penalty = 1.1f, c = &hidden;
    if (!penalty_is_on(c) && !temperature_is_on(c)) {
        *token = raw->id1;
        return STATUS_OK;
    }
    for (int i = 0; i < n_vocab; i++) {
        float l = logits[i];
        if (seen != NULL && seen[i]) l = l > 0.0f ? l / c->repeat_penalty : l * c->repeat_penalty;
        scratch[i] = l;
    }
    *token = temperature_is_on(c) ? draw(c, scratch, n_vocab, step) : argmax(scratch, n_vocab);
    return STATUS_OK;
}
