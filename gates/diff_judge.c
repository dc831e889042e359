/* diff_judge.c - what a fork means: how close the two choices were on each side, and whether that explains it.
 * Not a tolerance: the noise allowed comes from a control measured elsewhere, or there is none.
 * Idea: a near-tie excuses a fork only when each side held both choices as its candidates.
 * Source: DESIGN of forkgate, section 5. Exercise: ctest -R unit.diff */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gates/diff_parts.h"

struct side {
    const dump *d;
    const struct dump_record *r;
    uint64_t at;
    int known;         /* both choices have a logit here */
    double gap;        /* own choice - other side's choice; NaN when unknown */
    int tie;           /* both choices share the top logit */
    double ulp;        /* -1 when the dtype is unknown */
    const char *dtype; /* "bf16", or NULL */
};

double diff_ulp(const dump *d, double x) {
    static const struct {
        const char *name;
        int fraction_bits, least_exponent;
    } types[] = {{"f32", 23, -149}, {"bf16", 7, -133}, {"f16", 10, -24}};
    const char *name = provenance_get(dump_provenance(d), "logits");
    for (size_t i = 0; name != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        int exponent = 0;
        (void)frexp(x, &exponent); /* |x| in [2^(e-1), 2^e) */
        int unit = exponent - 1 - types[i].fraction_bits;
        return ldexp(1.0, x < 0.0 || x > 0.0
                              ? (unit > types[i].least_exponent ? unit : types[i].least_exponent)
                              : types[i].least_exponent);
    }
    return -1.0;
}

/* NaN when one is: what is unknown is not small. */
static double larger(double x, double y) {
    return isnan(x) || x > y ? x : y;
}

static struct side look(const dump *d, uint64_t at, int32_t other) {
    struct side s;
    memset(&s, 0, sizeof s);
    s.d = d;
    s.at = at;
    s.r = dump_record_at(d, at);
    s.gap = (double)NAN;
    float own_logit = 0.0f, other_logit = 0.0f;
    s.known = diff_logit_of(d, at, s.r->token, &own_logit) && diff_logit_of(d, at, other, &other_logit);
    if (s.known) {
        s.gap = (double)own_logit - (double)other_logit;
        s.tie = own_logit <= other_logit && own_logit >= other_logit &&
                !((s.r->flags & DUMP_NO_TOP1) == 0 && own_logit < s.r->logit1);
    }
    s.ulp = -1.0;
    if (!(s.r->flags & DUMP_NO_TOP1)) {
        double top = fabs((double)s.r->logit1);
        s.ulp = diff_ulp(d, s.r->flags & DUMP_NO_TOP2 ? top : larger(top, fabs((double)s.r->logit2)));
    }
    s.dtype = s.ulp > 0.0 ? provenance_get(dump_provenance(d), "logits") : NULL;
    return s;
}

/* top-1 - top-2 as stored, and the same in ULPs. */
static void stored_gap(const struct side *s, double *gap, double *ulps) {
    *gap = (double)NAN;
    *ulps = -1.0;
    if (s->r->flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) return;
    *gap = (double)s->r->logit1 - (double)s->r->logit2;
    if (s->ulp > 0.0 && isfinite(*gap)) *ulps = *gap / s->ulp;
}

static int within(double value, double bound) {
    return value <= bound;
} /* NaN is never within */

/* A tie on one side explains the fork when the other side is as close as the coarser of the two dtypes can tell. */
static int exact_tie(const struct side *a, const struct side *b) {
    if (!a->tie && !b->tie) return 0;
    const struct side *open = a->tie ? b : a;
    double step = a->ulp > 0.0 && b->ulp > 0.0 ? larger(a->ulp, b->ulp) : 0.0;
    return open->known && within(fabs(open->gap), step);
}

static int took_higher(const struct side *s, int32_t other) {
    return s->tie && s->r->token > other;
}

static int is_raw_top(const struct side *s) {
    return (s->r->flags & DUMP_NO_TOP1) || s->r->token == s->r->id1;
}

static void say(struct diff_result *r, enum diff_verdict v, const char *reason) {
    r->verdict = v;
    (void)snprintf(r->reason, sizeof r->reason, "%s", reason);
}

static void judge_by_control(const struct side *a, const struct side *b, struct diff_result *r) {
    double gap = larger(fabs(a->gap), fabs(b->gap)), bound = 2.0 * r->control.delta;
    const char *least = r->drift_at_least ? "at least " : "";
    if (r->control.delta < 0.0) {
        int told = r->control.source[0] != '\0';
        r->verdict = DIFF_FORK;
        r->control_asked = 1;
        (void)snprintf(
            r->reason, sizeof r->reason,
            "larger gap %.3g is more than 1 ULP of the logits, and no control says what a benign change may "
            "move (%s)",
            gap, told ? "none that was given applies" : "pass --control DIR");
        return;
    }
    int close = within(gap, bound), calm = r->drift_at != UINT64_MAX && within(r->drift, bound);
    r->verdict = close && calm ? DIFF_KNIFE_EDGE : DIFF_FORK;
    (void)snprintf(r->reason, sizeof r->reason, "larger gap %.3g %s 2 x delta = %.3g, drift %s%.3g %s", gap,
                   close ? "is within" : "exceeds", bound, least, r->drift,
                   calm ? "is within it" : "exceeds it");
}

static void judge_candidates(const struct side *a, const struct side *b, struct diff_result *r) {
    if (!a->known || !b->known) {
        const char *who = a->known ? "B" : "A", *whose = a->known ? "A" : "B";
        r->verdict = DIFF_FORK;
        (void)snprintf(
            r->reason, sizeof r->reason,
            "%s's choice is not among the recorded candidates of %s: more than a near-tie moved, or the dump "
            "holds too few logits to tell",
            whose, who);
        return;
    }
    if (a->ulp > 0.0 && b->ulp > 0.0 && within(fabs(a->gap), a->ulp) && within(fabs(b->gap), b->ulp)) {
        r->verdict = DIFF_KNIFE_EDGE;
        (void)snprintf(r->reason, sizeof r->reason,
                       "gaps %.3g and %.3g are at most 1 ULP of the logits (%s: %.3g)", a->gap, b->gap,
                       a->dtype, larger(a->ulp, b->ulp));
        return;
    }
    judge_by_control(a, b, r);
}

void diff_judge_fork(const dump *a, const dump *b, struct diff_result *r) {
    int32_t token_a = dump_record_at(a, r->fork)->token, token_b = dump_record_at(b, r->fork_b)->token;
    struct side sa = look(a, r->fork, token_b), sb = look(b, r->fork_b, token_a);
    r->ulp_a = sa.ulp;
    r->ulp_b = sb.ulp;
    stored_gap(&sa, &r->gap_a, &r->ulps_a);
    stored_gap(&sb, &r->gap_b, &r->ulps_b);
    if (r->by_bytes) {
        say(r, DIFF_FORK, "compared by bytes: without token ids no gap between the two choices is known");
        return;
    }
    int top1_known = !((sa.r->flags | sb.r->flags) & DUMP_NO_TOP1);
    if (exact_tie(&sa, &sb)) {
        r->tie_rules_differ = took_higher(&sa, token_b) || took_higher(&sb, token_a);
        say(r, DIFF_EXACT_TIE,
            r->tie_rules_differ ? "the stored logits of both choices tie; the sides use different tie rules"
                                : "the stored logits of both choices tie");
        return;
    }
    r->raw_argmax_agrees = top1_known && sa.r->id1 == sb.r->id1;
    if (r->raw_argmax_agrees)
        say(r, DIFF_FORK, "post-processing: raw argmax agrees (penalty, sampling or token choice differs)");
    else if (!is_raw_top(&sa) || !is_raw_top(&sb))
        say(r, DIFF_FORK, "post-processing: a side did not emit its raw argmax");
    else
        judge_candidates(&sa, &sb, r);
}
