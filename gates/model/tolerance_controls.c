/* tolerance_controls.c - what must hold before a candidate may be judged: a named cause, a base that is not the candidate, a
 * base that repeats itself in a fresh process, and regroupings that moved something and say how much.
 * Source: DESIGN of forkgate, section 5 "control groups". Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/model/tolerance_parts.h"
#include "gates/tolerance_score.h"

enum status tolerance_stage_guard(struct package *p, struct err *err) {
    char a[256], b[256];
    int same = 0;
    side_describe(&p->base, a, sizeof a);
    side_describe(&p->candidate, b, sizeof b);
    if (p->ctx->cause == NULL || p->ctx->cause[0] == '\0') {
        tolerance_note(p, "cause", VERDICT_INCONCLUSIVE,
                       "bits are given up for a named reason or not at all: give --class fa --cause TEXT");
        p->stop = 1;
        return STATUS_OK;
    }
    RETURN_IF_ERROR(side_same(&p->base, &p->candidate, p->ctx->self, &same, err));
    if (same) {
        tolerance_note(
            p, "base", VERDICT_INCONCLUSIVE,
            "base and candidate are one program with one set of options (%s): self-comparison proves "
            "nothing; give --base BINARY or the candidate's options",
            a);
        p->stop = 1;
        return STATUS_OK;
    }
    tolerance_note(p, "base", VERDICT_PASS, "base: %.90s%s | candidate: %.90s | cause: %.60s", a,
                   p->base_is_recorded ? " (recorded streams)" : "", b, p->ctx->cause);
    return STATUS_OK;
}

/* ---- the base's streams ---------------------------------------------------------------------------------------- */
static int base_unusable(struct package *p, int i) {
    struct err err = {""};
    const char *why = NULL;
    uint64_t other = UINT64_MAX;
    const dump *d = p->streams[i];
    if (tolerance_greedy(d, &other, &err) != STATUS_OK) why = err.message;
    if (why == NULL && other != UINT64_MAX)
        why = "a token is not the raw argmax of its row: a penalty hides in the base";
    if (why == NULL && dump_first_invalid(d, &why) == UINT64_MAX) return 0;
    tolerance_note(p, "base", VERDICT_INCONCLUSIVE, "%s: %.200s", p->battery.prompts[i].name, why);
    p->stop = 1;
    return 1;
}

enum status tolerance_stage_streams(struct package *p, struct err *err) {
    struct sampler_config greedy = sampler_greedy();
    uint64_t tokens = 0;
    tolerance_progress(p, "tolerance: base streams, token", 0, 0);
    if (!p->base_is_recorded)
        RETURN_IF_ERROR(side_generate(&p->base, &p->work, &greedy, p->n_tokens, "base", p->base_dir, err));
    for (int i = 0; i < p->battery.n; i++) {
        RETURN_IF_ERROR(side_open_dump(&p->base, p->base_dir, &p->battery.prompts[i], &p->streams[i], err));
        tokens += dump_count(p->streams[i]);
        if (base_unusable(p, i)) return STATUS_OK;
    }
    struct finding f =
        tolerance_finding("base", "greedy, penalty-free", "streams", p->battery.n, (double)NAN, VERDICT_PASS);
    tolerance_row(p, &f, "%d streams, %llu tokens%s", p->battery.n, (unsigned long long)tokens,
                  p->base_is_recorded ? ", recorded" : "");
    return STATUS_OK;
}

/* ---- controls -------------------------------------------------------------------------------------------------- */
static void delta_row(struct package *p, int k) {
    struct tolerance_delta d = tolerance_delta_of(&p->benign[k]);
    uint64_t differ = tolerance_rows_differ(&p->benign[k], NULL);
    int usable =
        d.delta > 0.0 && differ > 0; /* a regrouping that moves nothing was not applied; NaN is not > 0 */
    struct finding f = tolerance_finding("benign", p->benign[k].label, "delta", d.delta, (double)NAN,
                                         usable ? VERDICT_PASS : VERDICT_INCONCLUSIVE);
    tolerance_row(p, &f,
                  "largest logit change %.4g nats at %s step %zu; %llu of %llu rows differ, %llu logits "
                  "known from below%s",
                  d.delta, d.series < 0 ? "-" : p->benign[k].series[d.series].name, d.point,
                  (unsigned long long)differ, (unsigned long long)d.points, (unsigned long long)d.bounded,
                  usable ? "" : ": the control moved nothing or is not finite, so it is no control");
    if (!usable)
        p->stop = 1;
    else if (!(d.delta <= p->delta))
        p->delta = d.delta;
}

static void near_tie_row(struct package *p) {
    struct tolerance_argmax m = tolerance_argmax_of(&p->benign[0], tolerance_margin(p->delta));
    double share = m.points == 0 ? (double)NAN : (double)m.near_ties / (double)m.points;
    struct finding f =
        tolerance_finding("benign", "how much the gate can see", "near_tie_share", share, TOLERANCE_NEAR_TIES,
                          tolerance_judged(share, TOLERANCE_NEAR_TIES, VERDICT_INCONCLUSIVE));
    tolerance_row(p, &f,
                  "%llu of %llu positions have a margin within max(%.3g, 2 x delta) = %.4g nats; delta %.4g",
                  (unsigned long long)m.near_ties, (unsigned long long)m.points, TOLERANCE_MARGIN_FLOOR,
                  tolerance_margin(p->delta), p->delta);
    if (f.verdict != VERDICT_PASS) p->stop = 1;
}

enum status tolerance_stage_controls(struct package *p, struct err *err) {
    (void)err;
    if (p->n_control == 0) {
        tolerance_note(p, "benign", VERDICT_INCONCLUSIVE,
                       "no control: the base is %s; give --base BINARY so that it can be regrouped",
                       p->base.kind == SIDE_DUMPS ? "dumps without a control-* folder that follows them"
                                                  : "a command");
        p->stop = 1;
        return STATUS_OK;
    }
    for (int k = 0; k < p->n_control; k++) delta_row(p, k);
    if (!p->stop) near_tie_row(p);
    return STATUS_OK;
}
