/* tolerance_contrast.c - two looks that do not depend on greedy choices: the same random draws on both sides, and a fixed text
 * scored by both. Each is judged against what the benign control does.
 * Source: DESIGN of forkgate, section 5 "sampling contrast", NLL. Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/model/tolerance_parts.h"
#include "gates/slurp.h"
#include "gates/tolerance_score.h"

#define CONTRAST_TEMPERATURE 0.8f
#define CONTRAST_SEED        7
#define CONTRAST_TOKENS      96  /* of each stream: nearly all have forked by then */
#define NLL_RATIO            2.0 /* of the control's mean absolute change per token: twice its noise */

/* ---- sampling -------------------------------------------------------------------------------------------------- */
/* Streams that left the base's, and the positions at which they could have: up to and with the fork. At this temperature
 * most streams fork, so the rate per position is what can be compared. */
static enum status count_forks(struct package *p, const struct side *s, const char *base, const char *dir,
                               struct tolerance_rate *out, struct err *err) {
    out->hits = out->trials = 0;
    for (int i = 0; i < p->battery.n; i++) {
        dump *a = NULL, *b = NULL;
        RETURN_IF_ERROR(side_open_dump(&p->base, base, &p->battery.prompts[i], &a, err));
        enum status status = side_open_dump(s, dir, &p->battery.prompts[i], &b, err);
        uint64_t n = dump_count(a), at = 0;
        while (status == STATUS_OK && at < n && at < dump_count(b) &&
               dump_record_at(a, at)->token == dump_record_at(b, at)->token)
            at++;
        out->hits += status == STATUS_OK && at < n;
        out->trials += at < n ? at + 1 : n;
        dump_close(a);
        dump_close(b);
        RETURN_IF_ERROR(status);
    }
    return STATUS_OK;
}

enum status tolerance_stage_sampling(struct package *p, struct err *err) {
    struct sampler_config draws = sampler_greedy();
    struct side *const sides[3] = {&p->base, &p->candidate, &p->control[0]};
    static const char *const names[3] = {"drawn-base", "drawn-candidate", "drawn-control"};
    char dirs[3][WORK_PATH];
    struct tolerance_rate own, control;
    /* another chunk length shows only where the context is longer than a chunk */
    int chunks = p->base.config.compute.geometry.fa_chunk != p->candidate.config.compute.geometry.fa_chunk;
    int n_tokens = chunks ? p->n_tokens : CONTRAST_TOKENS;
    draws.temperature = CONTRAST_TEMPERATURE;
    draws.seed = CONTRAST_SEED;
    if (p->ctx->small_battery) return STATUS_OK;
    for (int k = 0; k < 3; k++) {
        if (side_takes_options(sides[k])) continue;
        tolerance_note(p, "sampling", VERDICT_SKIP,
                       "temperature %.1f seed %d needs sides that take options: dumps and commands do not",
                       (double)CONTRAST_TEMPERATURE, CONTRAST_SEED);
        return STATUS_OK;
    }
    for (int k = 0; k < 3; k++) {
        tolerance_progress(p, "tolerance: sampled streams, token", 0, 0);
        RETURN_IF_ERROR(side_generate(sides[k], &p->work, &draws, n_tokens, names[k], dirs[k], err));
    }
    RETURN_IF_ERROR(count_forks(p, &p->candidate, dirs[0], dirs[1], &own, err));
    RETURN_IF_ERROR(count_forks(p, &p->control[0], dirs[0], dirs[2], &control, err));
    tolerance_rate_row(p, "sampling", "positions", CONTRAST_SEED, &own, &control);
    return STATUS_OK;
}

/* ---- fixed text ------------------------------------------------------------------------------------------------ */
static enum status read_text(const struct package *p, const char *name, struct battery_prompt *out,
                             struct err *err) {
    char path[WORK_PATH];
    (void)snprintf(path, sizeof path, "%.400s/fixtures/prompts/%.60s", p->ctx->source_dir, name);
    (void)snprintf(out->name, sizeof out->name, "%.60s", name);
    RETURN_IF_ERROR(slurp_file(path, &out->bytes, &out->n, err));
    return out->n > 0 ? STATUS_OK : err_set(err, STATUS_FORMAT, "%s: empty", path);
}

/* Per-token NLL of all texts, one after the other. */
struct scored {
    double *nll;
    size_t n;
};

static enum status score_texts(const struct package *p, struct side *s, struct scored *out, struct err *err) {
    engine *e = NULL;
    memset(out, 0, sizeof *out);
    RETURN_IF_ERROR(side_engine(s, &e, err));
    for (int k = 0; k < TOLERANCE_TEXTS && p->plan->texts[k] != NULL; k++) {
        struct battery_prompt text = {"", NULL, 0};
        double *nll = NULL;
        size_t n = 0;
        enum status status = read_text(p, p->plan->texts[k], &text, err);
        if (status == STATUS_OK) status = tolerance_text_nll(e, &text, &nll, &n, err);
        double *all = status == STATUS_OK ? realloc(out->nll, (out->n + n) * sizeof *all) : NULL;
        if (status == STATUS_OK && all == NULL) status = err_set(err, STATUS_NOMEM, "text: out of memory");
        if (all != NULL) {
            memcpy(all + out->n, nll, n * sizeof *nll);
            out->nll = all;
            out->n += n;
        }
        free(nll);
        free(text.bytes);
        RETURN_IF_ERROR(status);
    }
    return STATUS_OK;
}

/* x - y per token, in place of x; also the mean of its absolute values. */
static struct stats_mean paired(struct scored *x, const struct scored *y, double *absolute) {
    double sum = 0;
    for (size_t i = 0; i < x->n; i++) {
        x->nll[i] -= y->nll[i];
        sum += fabs(x->nll[i]);
    }
    *absolute = sum / (double)x->n;
    return stats_mean_of(x->nll, x->n);
}

static void text_row(const struct package *p, struct scored s[3]) {
    double own_size = 0, control_size = 0, base = stats_mean_of(s[0].nll, s[0].n).mean;
    struct stats_mean own = paired(&s[1], &s[0], &own_size), control = paired(&s[2], &s[0], &control_size);
    double bound = NLL_RATIO * control_size;
    struct finding f = tolerance_finding("text", "fixed text", "nll", fabs(own.mean), bound,
                                         tolerance_judged(fabs(own.mean), bound, VERDICT_FAIL));
    tolerance_row(
        p, &f,
        "%zu tokens, base %.5f nats a token; candidate %+.3g +- %.2g, control %+.3g +- %.2g; bound %g x the "
        "control's mean absolute change",
        s[0].n, base, own.mean, own.se, control.mean, control.se, NLL_RATIO);
}

enum status tolerance_stage_text(struct package *p, struct err *err) {
    struct side *const sides[3] = {&p->base, &p->candidate, &p->control[0]};
    struct scored s[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    enum status status = STATUS_OK;
    if (p->plan->texts[0] == NULL || p->ctx->small_battery) return STATUS_OK;
    for (int k = 0; k < 3; k++) {
        if (sides[k]->kind == SIDE_ENGINE) continue;
        tolerance_note(p, "text", VERDICT_SKIP, "NLL of a fixed text needs all sides in this process");
        return STATUS_OK;
    }
    for (int k = 0; k < 3 && status == STATUS_OK; k++) {
        tolerance_progress(p, "tolerance: fixed text", (uint64_t)k, 3);
        status = score_texts(p, sides[k], &s[k], err);
    }
    if (status == STATUS_OK) text_row(p, s);
    if (status == STATUS_LIMIT)
        tolerance_note(p, "text", VERDICT_SKIP, "the fixed text does not fit this model: %.160s",
                       err->message);
    for (int k = 0; k < 3; k++) free(s[k].nll);
    return status == STATUS_LIMIT ? STATUS_OK : status;
}
