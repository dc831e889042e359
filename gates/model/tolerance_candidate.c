/* tolerance_candidate.c - the candidate judged: forced along the base's tokens, and by itself.
 * Source: DESIGN of forkgate, section 5 "Tier 4" points 2 and 3. Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gates/model/tolerance_parts.h"

/* ---- forced ---------------------------------------------------------------------------------------------------- */
static void hard_row(const struct package *p) {
    double margin = tolerance_margin(p->delta);
    struct tolerance_argmax m = tolerance_argmax_of(&p->forced, margin);
    char where[160] = "";
    if (m.series >= 0) {
        const struct tolerance_point *w = &p->forced.series[m.series].points[m.point];
        (void)snprintf(where, sizeof where, "; first: %s step %zu, %d by %.4g nats became %d%s",
                       p->forced.series[m.series].name, m.point, (int)w->base_id1,
                       (double)w->base1 - (double)w->base2, (int)w->id1,
                       w->invalid ? " (the row is not finite)" : "");
    }
    struct finding f = tolerance_finding("forced", "hard argmax", "moved", (double)m.wrong, 0,
                                         tolerance_judged((double)m.wrong, 0, VERDICT_FAIL));
    tolerance_row(p, &f,
                  "%llu of %llu positions are hard (margin > max(%.3g, 2 x %.4g) = %.4g); %llu moved%s",
                  (unsigned long long)m.hard, (unsigned long long)m.points, TOLERANCE_MARGIN_FLOOR, p->delta,
                  margin, (unsigned long long)m.wrong, where);
    if (m.hard > 0) return;
    tolerance_note(p, "forced", VERDICT_INCONCLUSIVE, "no position is hard: the argmax was never tested");
}

static void drift_row(const struct package *p) {
    struct tolerance_delta d = tolerance_delta_of(&p->forced);
    struct finding f = tolerance_finding("forced", "drift", "max_abs", d.delta, 2 * p->delta,
                                         tolerance_judged(d.delta, 2 * p->delta, VERDICT_FAIL));
    tolerance_row(p, &f, "largest change of the base's two logits, nats, at %s step %zu; bound 2 x delta",
                  d.series < 0 ? "-" : p->forced.series[d.series].name, d.point);
}

/* Under a margin of twice delta an argmax that moves at a near-tie is excused, one by one. Not their number: a candidate that
 * moves more of them than the controls do is no regrouping. */
static void top_row(const struct package *p) {
    double margin = tolerance_margin(p->delta);
    struct tolerance_argmax m = tolerance_argmax_of(&p->forced, margin);
    struct tolerance_rate control = {0, 0};
    for (int k = 0; k < p->n_control; k++) {
        struct tolerance_argmax c = tolerance_argmax_of(&p->benign[k], margin);
        control.hits += c.moved;
        control.trials += c.points;
    }
    struct stats_interval t = stats_clopper_pearson(m.points - m.moved, m.points, 0.95);
    double q = stats_fisher_greater(m.moved, m.points, control.hits, control.trials);
    struct finding f =
        tolerance_finding("forced", "same top", TOLERANCE_METRIC_RATE, 1 - q, 1 - TOLERANCE_FISHER,
                          tolerance_judged(1 - q, 1 - TOLERANCE_FISHER, VERDICT_FAIL));
    tolerance_row(
        p, &f,
        "another top-1 at %llu of %llu positions, control at %llu of %llu: one-sided Fisher p = %.4g "
        "(fails below %g); same at %.4f %% (95 %%: %.4f to %.4f)",
        (unsigned long long)m.moved, (unsigned long long)m.points, (unsigned long long)control.hits,
        (unsigned long long)control.trials, q, TOLERANCE_FISHER,
        100 * (double)(m.points - m.moved) / (double)m.points, 100 * t.low, 100 * t.high);
}

/* KL grows with the square of the noise: TOLERANCE_KL_RATIO times the control's is twice its noise. */
static enum status kl_row(const struct package *p, struct err *err) {
    struct stats_mean own, control;
    double most = 0;
    RETURN_IF_ERROR(tolerance_kl_of(&p->forced, &own, &most, err));
    RETURN_IF_ERROR(tolerance_kl_of(&p->benign[0], &control, NULL, err));
    if (own.n == 0 || control.n == 0) {
        tolerance_note(
            p, "forced", VERDICT_SKIP,
            "KL needs whole rows of base and candidate in this process; a side is another program");
        return STATUS_OK;
    }
    double bound = TOLERANCE_KL_RATIO * (control.mean + 3 * control.se);
    struct finding f = tolerance_finding("forced", "KL", "mean", own.mean, bound,
                                         tolerance_judged(own.mean, bound, VERDICT_FAIL));
    tolerance_row(
        p, &f,
        "KL(base || candidate) %.3g +- %.2g nats (largest %.3g, %zu rows); control %.3g +- %.2g; bound "
        "%g x (control + 3 SE)",
        own.mean, own.se, most, own.n, control.mean, control.se, TOLERANCE_KL_RATIO);
    return STATUS_OK;
}

/* A change of class fa moves bits. Where none moved nothing was judged: the base is the candidate under another name, its
 * option was ignored, or what it hands back is what it was given to follow. Rows without a hash go by their top two. */
static void effect_row(const struct package *p) {
    uint64_t unknown = 0, differ = tolerance_rows_differ(&p->forced, &unknown);
    struct tolerance_delta d = tolerance_delta_of(&p->forced);
    struct tolerance_argmax m = tolerance_argmax_of(&p->forced, tolerance_margin(p->delta));
    if (differ > 0 || (unknown > 0 && (m.moved > 0 || !(d.delta <= 0.0)))) return;
    struct finding f = tolerance_finding("forced", "rows that moved", TOLERANCE_METRIC_MOVED, 0, (double)NAN,
                                         VERDICT_INCONCLUSIVE);
    tolerance_row(
        p, &f,
        "base and candidate are equal in every row: the base may be the candidate, or the option was "
        "ignored; --class bitwise would do");
}

enum status tolerance_stage_forced(struct package *p, struct err *err) {
    if (p->forced.n == 0) {
        tolerance_note(p, "forced", VERDICT_INCONCLUSIVE,
                       "the candidate cannot be forced along the base's tokens (no {follow} in its command)");
        return STATUS_OK;
    }
    effect_row(p);
    hard_row(p);
    drift_row(p);
    top_row(p);
    return kl_row(p, err);
}

/* ---- by itself --------------------------------------------------------------------------------------------------- */
struct tally {
    uint64_t forked, explained, wrong, disagree;
};

/* Where the forced side leaves the base's tokens; the length when it never does. */
static uint64_t forced_fork(const struct tolerance_series *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->points[i].id1 != s->points[i].token) return i;
    return s->n;
}

static void stream_row(const struct package *p, int i, const dump *got, const struct diff_result *r,
                       enum verdict v, const char *reason) {
    double gap = !(r->gap_a < r->gap_b) ? r->gap_a : r->gap_b;
    struct finding f = tolerance_finding("fork", p->battery.prompts[i].name, "gap", gap, 2 * p->delta, v);
    /* a narrow fork that fails all the same fails by its reason: drift before it, a penalty, another tie rule */
    if (v != VERDICT_PASS && gap <= f.bound) f.bound = (double)NAN;
    f.ref = p->streams[i];
    f.got = got;
    tolerance_row(p, &f, "token %lld of %llu: %.200s", r->fork == UINT64_MAX ? -1LL : (long long)r->fork,
                  (unsigned long long)r->count_a, reason);
}

static enum status judge_one(struct package *p, const char *dir, int i, struct tally *t, struct err *err) {
    struct diff_control control = {p->delta, "benign arm of this run"};
    struct diff_result r;
    char reason[640];
    dump *d = NULL;
    RETURN_IF_ERROR(side_open_dump(&p->candidate, dir, &p->battery.prompts[i], &d, err));
    enum verdict v = tolerance_judge_stream(p->streams[i], d, &control, &r, reason, sizeof reason);
    int left = r.verdict != DIFF_IDENTICAL;
    t->forked += (uint64_t)left;
    t->explained += (uint64_t)(left && v == VERDICT_PASS);
    t->wrong += (uint64_t)(v != VERDICT_PASS);
    if (left || v != VERDICT_PASS) stream_row(p, i, d, &r, v, reason);
    if (p->forced.n > 0 && v == VERDICT_PASS) {
        uint64_t own = left ? r.fork : dump_count(p->streams[i]);
        t->disagree += own != forced_fork(&p->forced.series[i]);
    }
    dump_close(d);
    return STATUS_OK;
}

static void summary_rows(struct package *p, const struct tally *t) {
    struct finding f = tolerance_finding("greedy", "forks explained", "unexplained", (double)t->wrong, 0,
                                         tolerance_judged((double)t->wrong, 0, VERDICT_FAIL));
    tolerance_row(p, &f, "%llu of %d streams left the base, %llu explained as near-ties (2 x delta = %.4g)",
                  (unsigned long long)t->forked, p->battery.n, (unsigned long long)t->explained,
                  2 * p->delta);
    if (p->forced.n == 0) return;
    /* forkgate itself may not prefill otherwise than it decodes; a foreign engine may, so there it is a number without a bound */
    int bounded = side_takes_options(&p->candidate);
    struct finding d = tolerance_finding(
        "greedy", "prefill against decode", "streams", (double)t->disagree, bounded ? 0 : (double)NAN,
        bounded ? tolerance_judged((double)t->disagree, 0, VERDICT_FAIL) : VERDICT_PASS);
    tolerance_row(p, &d, "%llu streams leave the base elsewhere when decoded than when forced%s",
                  (unsigned long long)t->disagree, bounded ? "" : " (another engine: not judged)");
}

void tolerance_rate_row(const struct package *p, const char *arm, const char *unit, uint64_t seed,
                        const struct tolerance_rate *own, const struct tolerance_rate *control) {
    double q = stats_fisher_greater(own->hits, own->trials, control->hits, control->trials);
    int few = p->battery.n < TOLERANCE_STREAMS;
    struct finding f = tolerance_finding(arm, "fork rate", TOLERANCE_METRIC_RATE, 1 - q, 1 - TOLERANCE_FISHER,
                                         tolerance_judged(1 - q, 1 - TOLERANCE_FISHER, VERDICT_FAIL));
    f.seed = seed;
    if (few) f.verdict = VERDICT_INCONCLUSIVE;
    tolerance_row(p, &f,
                  "%llu forks in %llu %s, control %llu in %llu: one-sided Fisher p = %.4g (fails below %g)%s",
                  (unsigned long long)own->hits, (unsigned long long)own->trials, unit,
                  (unsigned long long)control->hits, (unsigned long long)control->trials, q, TOLERANCE_FISHER,
                  few ? "; fewer than 64 streams decide nothing" : "");
}

/* What the two sides say about themselves and do not share: a launch parameter or a rank count is the first thing to read. */
static enum status provenance_row(const struct package *p, const char *dir, struct err *err) {
    dump *d = NULL;
    char list[256] = "nothing";
    size_t used = 0;
    RETURN_IF_ERROR(side_open_dump(&p->candidate, dir, &p->battery.prompts[0], &d, err));
    const struct provenance *a = dump_provenance(p->streams[0]), *b = dump_provenance(d);
    for (int side = 0; side < 2; side++) {
        const struct provenance *own = side == 0 ? a : b, *other = side == 0 ? b : a;
        for (int i = 0; i < own->n && used < sizeof list; i++) {
            const char *key = own->items[i].key, *value = provenance_get(other, key);
            if (value != NULL && (side == 1 || strcmp(value, own->items[i].value) == 0)) continue;
            if (strcmp(key, "stop") == 0 || strcmp(key, "follow") == 0) continue;
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", key);
        }
    }
    tolerance_note(p, "base", VERDICT_PASS, "provenance that differs between base and candidate: %s", list);
    dump_close(d);
    return STATUS_OK;
}

enum status tolerance_stage_greedy(struct package *p, struct err *err) {
    struct sampler_config greedy = sampler_greedy();
    struct tally t = {0, 0, 0, 0};
    char dir[WORK_PATH];
    struct tolerance_rate own, control = {0, 0};
    tolerance_progress(p, "tolerance: candidate streams, token", 0, 0);
    RETURN_IF_ERROR(side_generate(&p->candidate, &p->work, &greedy, p->n_tokens, "candidate", dir, err));
    RETURN_IF_ERROR(provenance_row(p, dir, err));
    RETURN_IF_ERROR(tolerance_candidate_again(p, dir, err));
    for (int i = 0; i < p->battery.n; i++) RETURN_IF_ERROR(judge_one(p, dir, i, &t, err));
    summary_rows(p, &t);
    own.hits = t.forked;
    own.trials = (uint64_t)p->battery.n;
    for (int k = 0; k < p->n_control; k++) {
        control.hits += tolerance_forked(&p->benign[k]);
        control.trials += (uint64_t)p->battery.n;
    }
    tolerance_rate_row(p, "greedy", "streams", 0, &own, &control);
    return STATUS_OK;
}
