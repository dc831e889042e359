/* tolerance.c - see tolerance.h. */
#include "gates/tolerance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/compare.h"

/* ---- arms ---------------------------------------------------------------------------------------------------- */
enum status tolerance_arm_new(const char *label, int n_series, struct tolerance_arm *out, struct err *err) {
    memset(out, 0, sizeof *out);
    (void)snprintf(out->label, sizeof out->label, "%s", label);
    out->series = calloc((size_t)n_series + 1, sizeof *out->series);
    if (out->series == NULL) return err_set(err, STATUS_NOMEM, "tolerance: %d streams", n_series);
    out->n = n_series;
    return STATUS_OK;
}

enum status tolerance_series_new(struct tolerance_arm *a, int i, const char *name, size_t n,
                                 struct err *err) {
    struct tolerance_series *s = &a->series[i];
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    free(s->points);
    s->n = 0;
    s->points = calloc(n + 1, sizeof *s->points);
    if (s->points == NULL) return err_set(err, STATUS_NOMEM, "tolerance: %zu positions", n);
    s->n = n;
    return STATUS_OK;
}

void tolerance_arm_free(struct tolerance_arm *a) {
    for (int i = 0; i < a->n; i++) free(a->series[i].points);
    free(a->series);
    memset(a, 0, sizeof *a);
}

/* ---- points from dumps --------------------------------------------------------------------------------------- */
/* The other side's logit of id. A record holds two: an id that is not among them lies at or below the second. */
static float logit_of(const struct dump_record *r, int32_t id, float base, int *bounded) {
    if (id == r->id1) return r->logit1;
    if (!(r->flags & DUMP_NO_TOP2) && id == r->id2) return r->logit2;
    (*bounded)++;
    if (r->flags & DUMP_NO_TOP2) return base; /* nothing is known: no change is claimed */
    return r->logit2 < base ? r->logit2 : base;
}

static void point_from(const struct dump_record *base, const struct dump_record *got,
                       struct tolerance_point *p) {
    memset(p, 0, sizeof *p);
    p->token = base->token;
    p->base_id1 = base->id1;
    p->base_id2 = base->flags & DUMP_NO_TOP2 ? -1 : base->id2;
    p->base1 = base->logit1;
    p->base2 = p->base_id2 < 0 ? -INFINITY : base->logit2;
    p->id1 = got->id1;
    p->got1 = logit_of(got, p->base_id1, p->base1, &p->bounded);
    p->got2 = p->base_id2 < 0 ? -INFINITY : logit_of(got, p->base_id2, p->base2, &p->bounded);
    p->invalid = !isfinite(got->logit1);
    p->differs = (base->flags | got->flags) & DUMP_NO_HASH ? -1 : !hash_equal(&base->row, &got->row);
    p->kl = (double)NAN;
}

static enum status refuse_other_tokens(const dump *base, const dump *forced, struct err *err) {
    uint64_t n = dump_count(base);
    if (dump_count(forced) != n)
        return err_set(err, STATUS_USAGE, "%s has %llu records, the stream it must follow %llu",
                       dump_name(forced), (unsigned long long)dump_count(forced), (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        const struct dump_record *a = dump_record_at(base, i), *b = dump_record_at(forced, i);
        if ((a->flags | b->flags) & (DUMP_NO_ID | DUMP_NO_TOP1))
            return err_set(err, STATUS_USAGE, "%s: record %llu lacks its token id or top-1 logit",
                           dump_name((a->flags & (DUMP_NO_ID | DUMP_NO_TOP1)) != 0 ? base : forced),
                           (unsigned long long)i);
        if (a->token != b->token)
            return err_set(err, STATUS_USAGE,
                           "%s is not forced along the base: token %llu is %d, the base says %d",
                           dump_name(forced), (unsigned long long)i, (int)b->token, (int)a->token);
    }
    return STATUS_OK;
}

enum status tolerance_series_from(const dump *base, const dump *forced, struct tolerance_arm *a, int i,
                                  const char *name, struct err *err) {
    RETURN_IF_ERROR(refuse_other_tokens(base, forced, err));
    RETURN_IF_ERROR(tolerance_series_new(a, i, name, (size_t)dump_count(base), err));
    for (size_t k = 0; k < a->series[i].n; k++)
        point_from(dump_record_at(base, k), dump_record_at(forced, k), &a->series[i].points[k]);
    return STATUS_OK;
}

/* ---- measures ------------------------------------------------------------------------------------------------ */
/* NaN when a value is; equal infinities (a masked second choice) have not changed. */
static double change_of(float from, float to) {
    if (isinf(from) && !(from < to) && !(from > to) && !isnan(to)) return 0.0;
    return fabs((double)to - (double)from);
}

/* Largest change of the two logits at one position; NaN for an invalid row. */
static double change_at(const struct tolerance_point *p) {
    if (p->invalid) return (double)NAN;
    double first = change_of(p->base1, p->got1), second = change_of(p->base2, p->got2);
    return isnan(first) || isnan(second) ? (double)NAN : fmax(first, second);
}

struct tolerance_delta tolerance_delta_of(const struct tolerance_arm *a) {
    struct tolerance_delta d = {0.0, -1, 0, 0, 0};
    for (int s = 0; s < a->n; s++) {
        for (size_t i = 0; i < a->series[s].n; i++) {
            double change = change_at(&a->series[s].points[i]);
            d.points++;
            d.bounded += (uint64_t)a->series[s].points[i].bounded;
            if (isnan(d.delta) || (d.series >= 0 && change <= d.delta)) continue;
            d.delta = change;
            d.series = s;
            d.point = i;
        }
    }
    return d;
}

double tolerance_margin(double delta) {
    if (!(delta >= 0.0)) return (double)NAN;
    return fmax(TOLERANCE_MARGIN_FLOOR, 2.0 * delta);
}

struct tolerance_argmax tolerance_argmax_of(const struct tolerance_arm *a, double margin) {
    struct tolerance_argmax m = {0, 0, 0, 0, 0, -1, 0};
    for (int s = 0; s < a->n; s++) {
        for (size_t i = 0; i < a->series[s].n; i++) {
            const struct tolerance_point *p = &a->series[s].points[i];
            int near = p->base_id2 >= 0 && (double)p->base1 - (double)p->base2 <= margin;
            int moved = p->id1 != p->base_id1;
            int wrong = p->invalid || (moved && !near);
            m.points++;
            m.hard += (uint64_t)!near;
            m.near_ties += (uint64_t)near;
            m.moved += (uint64_t)moved;
            m.wrong += (uint64_t)wrong;
            if (!wrong || m.series >= 0) continue;
            m.series = s;
            m.point = i;
        }
    }
    return m;
}

uint64_t tolerance_rows_differ(const struct tolerance_arm *a, uint64_t *unknown) {
    uint64_t differ = 0, blank = 0;
    for (int s = 0; s < a->n; s++) {
        for (size_t i = 0; i < a->series[s].n; i++) {
            differ += (uint64_t)(a->series[s].points[i].differs > 0);
            blank += (uint64_t)(a->series[s].points[i].differs < 0);
        }
    }
    if (unknown != NULL) *unknown = blank;
    return differ;
}

uint64_t tolerance_forked(const struct tolerance_arm *a) {
    uint64_t forked = 0;
    for (int s = 0; s < a->n; s++) {
        int leaves = 0;
        for (size_t i = 0; i < a->series[s].n && !leaves; i++)
            leaves = a->series[s].points[i].id1 != a->series[s].points[i].token;
        forked += (uint64_t)leaves;
    }
    return forked;
}

enum status tolerance_kl_of(const struct tolerance_arm *a, struct stats_mean *out, double *largest,
                            struct err *err) {
    size_t n = 0, room = 1;
    for (int s = 0; s < a->n; s++) room += a->series[s].n;
    double *values = malloc(room * sizeof *values), most = 0.0;
    if (values == NULL) return err_set(err, STATUS_NOMEM, "tolerance: %zu values", room);
    for (int s = 0; s < a->n; s++) {
        for (size_t i = 0; i < a->series[s].n; i++) {
            const struct tolerance_point *p = &a->series[s].points[i];
            if (isnan(p->kl) && !p->invalid) continue;
            values[n++] = p->kl;
            if (!isnan(most) && !(p->kl <= most)) most = p->kl; /* a NaN comes in and stays */
        }
    }
    *out = stats_mean_of(values, n);
    if (largest != NULL) *largest = most;
    free(values);
    return STATUS_OK;
}

enum verdict tolerance_judge_forced(const struct tolerance_arm *a, double delta, char *reason, size_t room) {
    double margin = tolerance_margin(delta);
    struct tolerance_argmax m = tolerance_argmax_of(a, margin);
    struct tolerance_delta d = tolerance_delta_of(a);
    (void)snprintf(reason, room, "%llu of %llu positions hard, none moved; largest logit change %.3g",
                   (unsigned long long)m.hard, (unsigned long long)m.points, d.delta);
    if (m.wrong > 0) {
        const struct tolerance_point *p = &a->series[m.series].points[m.point];
        (void)snprintf(reason, room, "%s step %zu: %s, the base chose %d by %.4g nats (hard above %.4g)",
                       a->series[m.series].name, m.point,
                       p->invalid ? "the row is not finite" : "another argmax", (int)p->base_id1,
                       (double)p->base1 - (double)p->base2, margin);
        return VERDICT_FAIL;
    }
    if (compare_judge(d.delta, 2.0 * delta) == VERDICT_PASS) return VERDICT_PASS;
    (void)snprintf(reason, room,
                   "%s step %zu: a logit changed by %.4g nats, twice the control's delta is %.4g",
                   d.series < 0 ? "no stream" : a->series[d.series].name, d.point, d.delta, 2.0 * delta);
    return VERDICT_FAIL;
}

/* ---- greedy streams ------------------------------------------------------------------------------------------ */
/* An imported dump may lack the key; the raw argmax of its records is judged all the same. */
static enum status need_declared(const dump *d, const char *key, const char *want, struct err *err) {
    const char *value = provenance_get(dump_provenance(d), key);
    if (value == NULL || strcmp(value, want) == 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s declares %s=%.60s: the tolerance tier needs %s", dump_name(d), key,
                   value, want);
}

/* The argmax of the stored row (lowest id of equals), or the recorded top-1 where no row is stored. */
static int32_t raw_argmax(const dump *d, uint64_t i) {
    int n = 0;
    const float *row = dump_logits(d, i, &n);
    if (row == NULL || n == 0) return dump_record_at(d, i)->id1;
    int32_t best = 0;
    for (int k = 1; k < n; k++)
        if (row[k] > row[best]) best = k;
    return best;
}

enum status tolerance_greedy(const dump *d, uint64_t *first_other, struct err *err) {
    *first_other = UINT64_MAX;
    RETURN_IF_ERROR(need_declared(d, "sampler", "greedy", err));
    RETURN_IF_ERROR(need_declared(d, "repeat_penalty", "1", err));
    for (uint64_t i = 0; i < dump_count(d); i++) {
        const struct dump_record *r = dump_record_at(d, i);
        if (r->flags & (DUMP_NO_ID | DUMP_NO_TOP1))
            return err_set(err, STATUS_USAGE, "%s: record %llu lacks its token id or top-1", dump_name(d),
                           (unsigned long long)i);
        if (*first_other == UINT64_MAX && r->token != raw_argmax(d, i)) *first_other = i;
    }
    return STATUS_OK;
}

enum verdict tolerance_judge_stream(const dump *base, const dump *got, const struct diff_control *control,
                                    struct diff_result *out, char *reason, size_t room) {
    uint64_t other = UINT64_MAX;
    struct err err = {""};
    memset(out, 0, sizeof *out);
    if (tolerance_greedy(got, &other, &err) != STATUS_OK ||
        diff_streams(base, got, control, out, &err) != STATUS_OK) {
        (void)snprintf(reason, room, "%s", err.message);
        return VERDICT_ERROR;
    }
    (void)snprintf(reason, room, "%s: %s", diff_verdict_name(out->verdict), out->reason);
    if (out->verdict == DIFF_NOT_COMPARABLE) return VERDICT_ERROR;
    if (other != UINT64_MAX && out->verdict != DIFF_INVALID) {
        (void)snprintf(
            reason, room,
            "token %llu is %d, the raw argmax is %d: something rewrites the choice (a hidden penalty)",
            (unsigned long long)other, (int)dump_record_at(got, other)->token, (int)raw_argmax(got, other));
        return VERDICT_FAIL;
    }
    if (out->tie_rules_differ) {
        (void)snprintf(reason, room,
                       "an exact tie was broken by another rule at token %llu: no regrouping does",
                       (unsigned long long)out->fork);
        return VERDICT_FAIL;
    }
    int explained =
        out->verdict == DIFF_IDENTICAL || out->verdict == DIFF_EXACT_TIE || out->verdict == DIFF_KNIFE_EDGE;
    return explained ? VERDICT_PASS : VERDICT_FAIL;
}
