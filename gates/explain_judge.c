/* explain_judge.c - what kind of change the first differing op is. The rules, first match wins:
 *   1 a side that gave other checksums in a second run              NOT-REPEATABLE
 *   2 equal logits, another choice (top2 differs)                   SAMPLING
 *   3 the sides were asked for another route or KV dtype            ARITHMETIC
 *   4 an op of A that B did not run at all                          STALE
 *   5 attention, and the cache rows it may read are not equal       STALE (they were equal when they were appended)
 *   6 all differing values of B are NaN                             UNWRITTEN (or an invalid operation: it says so)
 *   7 every difference within what a reordering can do (bound_of)   REGROUPING, or WRONG-VALUE where the fork that
 *     follows lies too wide for one (fork_too_wide): then a later op is wrong as well
 *   8 all differing values of B are one constant, A's are not       UNWRITTEN
 *   9 B's differing values are an earlier content of the buffer
 *     (explain_stale.c)                                             STALE
 *  10 anything else                                                 WRONG-VALUE
 * Idea: the inputs of the first op are equal by construction, so the size and shape of its own difference decide.
 * Source: ours. Exercise: ctest -R unit.explain */
#include <math.h>
#include <string.h>

#include "gates/explain_parts.h"
#include "gates/metrics.h"

const char *explain_verdict_name(enum explain_verdict v) {
    static const char *const names[EXPLAIN_VERDICTS] = {"IDENTICAL",   "SAMPLING",       "REGROUPING",
                                                        "WRONG-VALUE", "UNWRITTEN",      "STALE",
                                                        "ARITHMETIC",  "NOT-REPEATABLE", "NOT-REPRODUCED"};
    return names[v];
}

int explain_exit_code(enum explain_verdict v) {
    if (v == EXPLAIN_IDENTICAL) return 0;
    return v == EXPLAIN_NOT_REPRODUCED ? 2 : 1;
}

/* ---- shapes of a difference ------------------------------------------------------------------------------------ */

static int find_pair(const struct explain_evidence *e, const struct explain_result *out,
                     struct explain_pair *p) {
    const struct tape_capture *a = tape_capture_at(&e->kept[0], out->worst_pos);
    const struct tape_capture *b = tape_capture_at(&e->kept[1], out->worst_pos);
    int i = a == NULL ? -1 : tape_find(&a->ops, &out->first, 0);
    int j = b == NULL ? -1 : tape_find(&b->ops, &out->first, 0);
    if (i < 0 || j < 0) return 0;
    p->a = explain_values(a, i);
    p->b = explain_values(b, j);
    p->n = (size_t)a->ops.op[i].cols;
    p->of_b = b;
    p->index_b = j;
    return 1;
}

/* All differing values of B are one value; *value is it. With all_nan they must be NaN, else A's must vary. */
static int one_constant(const struct explain_pair *p, int all_nan, float *value) {
    size_t n = 0, first = 0;
    int a_varies = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (explain_bits_equal(p->a[i], p->b[i])) continue;
        if (n++ == 0) first = i;
        if (!explain_bits_equal(p->b[i], p->b[first])) return 0;
        a_varies |= !explain_bits_equal(p->a[i], p->a[first]);
    }
    *value = n > 0 ? p->b[first] : 0.0f;
    if (all_nan) return n > 0 && isnan(*value);
    return (n > 1 && a_varies) || (n == 1 && fpclassify(*value) == FP_ZERO);
}

/* ---- how much a reordering can do -------------------------------------------------------------------------------- */

/* Row length of the latest prepared input before op i: the K of a matrix product; 0 for f32, which truncates nothing. */
static int64_t input_length(const struct tape_capture *c, int i) {
    for (int j = i - 1; j >= 0; j--)
        if (tape_is_input(&c->ops.op[j]))
            return strstr(c->ops.op[j].tensor, ".f32") != NULL ? 0 : c->ops.op[j].cols;
    return 0;
}

/* Attention, with the largest |v| it may read: each side rounds its p to f16, 2^-12 of p each, and sum(p)/l = 1. Where p
 * stays f32 (route f32): 2^-20. */
static double attention_bound(const struct explain_request *r, const struct tape_capture *b, int i) {
    double p_rounding = r->a->config.compute.route == ROUTE_F32 ? 0x1p-20 : 0x1p-11;
    for (int j = i - 1; j >= 0; j--)
        if (strcmp(b->ops.op[j].op, "kv_read") == 0) return p_rounding * (double)explain_values(b, j)[0];
    return 0.0;
}

/* The rest in f32 steps at the row's largest |a|. A product over K truncates once per TC_K terms, each side, by a step of
 * the partial sum, which is seldom larger than 8 times the row's largest: 64 + K. rmsnorm is a tree over its lanes; the
 * element-wise ops have one to eight roundings to differ in; what copies, quantises or stores has none. */
static double step_bound(const struct tape_capture *b, int i, const char *op) {
    static const struct {
        const char *op;
        double steps;
    } steps[] = {{"rmsnorm", 16.0}, {"swiglu", 8.0}, {"rope", 4.0}, {"add", 1.0}};
    if (strcmp(op, "matmul") == 0) return 64.0 + (double)input_length(b, i);
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++)
        if (strcmp(steps[k].op, op) == 0) return steps[k].steps;
    return 0.0;
}

static double bound_of(const struct explain_request *r, const struct explain_result *out,
                       const struct explain_pair *p) {
    double step = metrics_ulp_size(out->first_delta.row_max, 23, -126);
    double bound = step_bound(p->of_b, p->index_b, out->first.op) * step;
    if (strcmp(out->first.op, "attention") == 0) bound = attention_bound(r, p->of_b, p->index_b);
    return bound;
}

/* A regrouping forks where the margin is as small as what it has grown to. Without a control nobody knows how much that
 * is, and the drift of the two sides must not excuse itself: the floor of tier 4's hard choices then. Not on q8, where
 * int8 codes make tenths of a logit of an ULP. */
#define HARD_MARGIN 0.1

static double margin_at(const struct explain_result *out, int side, int step) {
    const struct top2 *t = &out->screen[side].steps[step].top;
    return (double)t->logit1 - (double)t->logit2;
}

static int fork_too_wide(const struct explain_request *r, const struct explain_result *out, double *margin) {
    *margin = 0.0;
    if (out->fork < 0 || out->fork >= out->n_steps || r->a->config.compute.route == ROUTE_Q8) return 0;
    *margin = fmax(margin_at(out, 0, out->fork), margin_at(out, 1, out->fork));
    return *margin > HARD_MARGIN;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void where(const struct explain_result *out, char text[160]) {
    if (out->first.layer >= 0)
        (void)snprintf(text, 160, "%s (%s) of layer %d", out->first.op, out->first.tensor, out->first.layer);
    else
        (void)snprintf(text, 160, "%s (%s)", out->first.op, out->first.tensor);
}

#define CONCLUDE(v, ...)                                                                                     \
    do {                                                                                                     \
        out->verdict = (v);                                                                                  \
        (void)snprintf(out->conclusion, sizeof out->conclusion, __VA_ARGS__);                                \
    } while (0)

/* The screen saw a difference that the copied values do not show. 0: they show it. */
static int judge_vanished(struct explain_result *out, int met_again, const char *op) {
    if (met_again && out->first_delta.differing > 0) return 0;
    if (!met_again)
        CONCLUDE(EXPLAIN_NOT_REPEATABLE, "%s differed while screening and was not met again.", op);
    else
        CONCLUDE(EXPLAIN_NOT_REPEATABLE,
                 "%s differed while screening, yet the values that were copied afterwards are equal: run it "
                 "again with --copy-all.",
                 op);
    return 1;
}

/* Rule 7: no further apart than another order of the same sums may bring them. */
static void judge_regrouped(const struct explain_request *r, struct explain_result *out, const char *op) {
    const struct explain_delta *d = &out->first_delta;
    double margin;
    if (fork_too_wide(r, out, &margin))
        CONCLUDE(EXPLAIN_WRONG_VALUE,
                 "%s is regrouped (it moves by at most %.3g of %.3g), and that is not all: the fork lies at "
                 "a margin of "
                 "%.3g nats, and no regrouping is known to move a choice above %.3g. A later op is wrong as "
                 "well. Give "
                 "both sides the same geometry to see it first.",
                 op, d->max_abs, d->row_max, margin, HARD_MARGIN);
    else
        CONCLUDE(
            EXPLAIN_REGROUPING,
            "Regrouping from %s on: its inputs are equal and its output moves by at most %.3g, where the "
            "same sum "
            "in another order may move by %.3g (the row's largest magnitude is %.3g). Nothing before it "
            "differs; "
            "what comes after it was judged by the fork alone, which for a regrouping lies where the margin "
            "is as "
            "small as what it has grown to.",
            op, d->max_abs, out->bound, d->row_max);
}

/* Rules 8 to 10: too far apart for that. */
static void judge_wrong(const struct explain_evidence *e, struct explain_result *out,
                        const struct explain_pair *p, const char *op) {
    const struct explain_delta *d = &out->first_delta;
    float value = 0.0f;
    char what[160];
    if (one_constant(p, 0, &value))
        CONCLUDE(EXPLAIN_UNWRITTEN,
                 "An unwritten region in %s: its inputs are equal, and all %llu values that differ are %.9g "
                 "on side B "
                 "where side A has values. Look at the guard of the last tile and at launch errors.",
                 op, (unsigned long long)d->differing, (double)value);
    else if (explain_stale(e, out, p, what, sizeof what))
        CONCLUDE(EXPLAIN_STALE,
                 "A stale buffer in %s: its inputs are equal, and the %llu values that differ are, bit for "
                 "bit, %s. "
                 "Something was not computed, or was looked up under a key that outlived it.",
                 op, (unsigned long long)d->differing, what);
    else
        CONCLUDE(EXPLAIN_WRONG_VALUE,
                 "A value wrong from %s on: its inputs are equal, yet its output moves by %.3g where the "
                 "row's largest "
                 "magnitude is %.3g, and no reordering of this op moves it by more than %.3g. %llu of %lld "
                 "values of "
                 "the row differ.",
                 op, d->max_abs, d->row_max, out->bound, (unsigned long long)d->differing,
                 (long long)d->op.cols);
}

static void judge_values(const struct explain_request *r, const struct explain_evidence *e,
                         struct explain_result *out, const char *op) {
    struct explain_pair p;
    float value = 0.0f;
    if (judge_vanished(out, find_pair(e, out, &p), op)) return;
    out->bound = bound_of(r, out, &p);
    if (one_constant(&p, 1, &value))
        CONCLUDE(
            EXPLAIN_UNWRITTEN,
            "An unwritten region, or an invalid operation (inf - inf, 0 * NaN), in %s: its inputs are equal, "
            "and all %llu values that differ are NaN on side B. Look at the guards of the last tile and at "
            "fully masked ones; memcheck and initcheck tell the two apart.",
            op, (unsigned long long)out->first_delta.differing);
    else if (out->first_delta.max_abs <= out->bound)
        judge_regrouped(r, out, op);
    else
        judge_wrong(e, out, &p, op);
}

void explain_judge(const struct explain_request *r, const struct explain_evidence *e,
                   struct explain_result *out) {
    char op[160];
    const struct engine_config *a = &r->a->config, *b = &r->b->config;
    where(out, op);
    if (e->unstable[0] || e->unstable[1])
        CONCLUDE(EXPLAIN_NOT_REPEATABLE,
                 "Side %s differs from itself between two runs of the same tokens: a race, or a sum whose "
                 "order is not "
                 "fixed. No comparison means anything before that is settled; the first difference was seen "
                 "in %s.",
                 e->unstable[0] ? "A" : "B", op);
    else if (strcmp(out->first.op, "top2") == 0)
        CONCLUDE(EXPLAIN_SAMPLING,
                 "Every logit is equal; the two sides choose differently among them (top2).");
    else if (a->compute.route != b->compute.route || a->kv != b->kv)
        CONCLUDE(EXPLAIN_ARITHMETIC,
                 "Other arithmetic was asked for: route %s, KV %s against route %s, KV %s. %s is the first "
                 "op where "
                 "that shows; nothing can be said about either build. Compare the same route and KV dtype.",
                 route_name(a->compute.route), kv_dtype_name(a->kv), route_name(b->compute.route),
                 kv_dtype_name(b->kv), op);
    else if (out->not_run)
        CONCLUDE(EXPLAIN_STALE,
                 "%s did not run on side B: whatever reads its buffer gets what an earlier op left there. "
                 "Look at who "
                 "decides that it is still good.",
                 op);
    else if (out->cache_equal == 0)
        CONCLUDE(EXPLAIN_STALE,
                 "A stale or overwritten cache, read by %s: every row was equal when it was appended, yet "
                 "the rows "
                 "that this attention may read are not. Look at who writes the cache between the two.",
                 op);
    else
        judge_values(r, e, out, op);
}

/* ---- no op differs ----------------------------------------------------------------------------------------------- */

void explain_judge_equal(const struct explain_request *r, struct explain_result *out) {
    int dumps_agree = 1, known = 0;
    for (int i = 0; r->other != NULL && i < out->n_steps; i++) {
        const struct dump_record *x = dump_record_at(r->base, (uint64_t)i),
                                 *y = dump_record_at(r->other, (uint64_t)i);
        if (((x->flags | y->flags) & DUMP_NO_HASH) != 0) continue;
        known++;
        dumps_agree &= hash_equal(&x->row, &y->row);
    }
    if (!dumps_agree)
        CONCLUDE(EXPLAIN_NOT_REPRODUCED, "The two dumps hold different logits, but both sides as this binary "
                                         "rebuilds them agree in every op: "
                                         "what differs is in the builds or the machines, not in the options. "
                                         "Name the binaries that made the "
                                         "dumps (--binary-a, --binary-b).");
    else if (r->other != NULL && out->fork >= 0)
        CONCLUDE(
            EXPLAIN_SAMPLING,
            "Sampling only: all %d steps up to the fork give the same logits on both sides%s, and the tokens "
            "differ. Look at penalties, temperature, seed and the tie rule; no kernel is involved.",
            out->n_steps, known > 0 ? ", in the dumps and here" : "");
    else
        CONCLUDE(EXPLAIN_IDENTICAL, "Every op of all %d steps gave the same bits on both sides.",
                 out->n_steps);
}
