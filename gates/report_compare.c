/* report_compare.c - see report_compare.h. */
#include "gates/report_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gates/report.h"
#include "gates/report_sum.h"

#define SPEED_RATIO 1.25
#define SPEED_MS    100.0 /* shorter differences are the machine's */

const char *report_move_name(enum report_move m) {
    static const char *const names[REPORT_MOVES] = {"worse",    "vanished", "loosened", "shrank",
                                                    "bare",     "better",   "grew",     "tightened",
                                                    "appeared", "slower",   "faster"};
    return names[m];
}

int report_move_is_worse(enum report_move m) {
    return m <= REPORT_BARE;
}

/* ---- which check is which -------------------------------------------------------------------------------------- */
static int key_order(const struct evidence *a, const struct evidence *b) {
    int c = (int)a->tier - (int)b->tier;
    if (c == 0) c = strcmp(a->backend, b->backend);
    if (c == 0) c = strcmp(a->gate, b->gate);
    if (c == 0) c = strcmp(a->test_case, b->test_case);
    if (c == 0) c = strcmp(a->arm, b->arm);
    return c != 0 ? c : strcmp(a->metric, b->metric);
}

/* Rows of one key keep their order: the first is compared with the first. */
static int row_order(const void *x, const void *y) {
    const struct evidence *a = *(const struct evidence *const *)x, *b = *(const struct evidence *const *)y;
    int c = key_order(a, b);
    return c != 0 ? c : (a > b) - (a < b);
}

static const struct evidence **sorted(const struct evidence *rows, size_t n) {
    const struct evidence **out = calloc(n + 1, sizeof *out);
    if (out == NULL) return NULL;
    for (size_t i = 0; i < n; i++) out[i] = &rows[i];
    qsort(out, n, sizeof *out, row_order);
    return out;
}

/* ---- one check ------------------------------------------------------------------------------------------------- */
static void note(struct report_comparison *c, enum report_move move, const struct evidence *before,
                 const struct evidence *after, double from, double to) {
    struct report_change change = {move, before, after, from, to, 0};
    c->changes[c->n++] = change;
    c->worse += (size_t)report_move_is_worse(move);
}

/* What the check showed for itself before and does not any more: it may still run, but nobody can see that. */
static int evidence_is_gone(const struct evidence *a, const struct evidence *b) {
    return (a->kernels[0] != '\0' && b->kernels[0] == '\0') || (a->ref[0] != '\0' && b->ref[0] == '\0') ||
           (a->got[0] != '\0' && b->got[0] == '\0');
}

/* Both PASS. A bound that moved is told as that; its headroom would only repeat it. */
static int numbers_moved(struct report_comparison *c, const struct evidence *a, const struct evidence *b,
                         double ratchet) {
    double from = report_headroom(a), to = report_headroom(b);
    int bounded = !isnan(a->bound) && !isnan(b->bound);
    if ((bounded && b->bound > a->bound) || (isnan(b->bound) && !isnan(a->bound)))
        note(c, REPORT_LOOSENED, a, b, a->bound, b->bound);
    else if (evidence_is_gone(a, b))
        note(c, REPORT_BARE, a, b, (double)NAN, (double)NAN);
    else if (bounded && b->bound < a->bound)
        note(c, REPORT_TIGHTENED, a, b, a->bound, b->bound);
    else if (a->tier == TIER_PERF || !bounded || !(b->bound > 0))
        return 0;
    else if (to > from + ratchet)
        note(c, REPORT_SHRANK, a, b, from, to);
    else if (to < from - ratchet)
        note(c, REPORT_GREW, a, b, from, to);
    else
        return 0;
    return 1;
}

static void compare_check(struct report_comparison *c, const struct evidence *a, const struct evidence *b,
                          double ratchet) {
    double none = (double)NAN;
    if (b == NULL)
        note(c, REPORT_VANISHED, a, NULL, none, none);
    else if (a == NULL)
        note(c, b->verdict == VERDICT_PASS || b->verdict == VERDICT_SKIP ? REPORT_APPEARED : REPORT_WORSE,
             NULL, b, none, none);
    else if (a->verdict != b->verdict)
        note(c, b->verdict == VERDICT_PASS ? REPORT_BETTER : REPORT_WORSE, a, b, none, none);
    else if (a->verdict != VERDICT_PASS || !numbers_moved(c, a, b, ratchet))
        c->same++;
}

static void compare_checks(struct report_comparison *c, const struct evidence **a, size_t na,
                           const struct evidence **b, size_t nb, double ratchet) {
    for (size_t i = 0, k = 0; i < na || k < nb;) {
        int order = i == na ? 1 : k == nb ? -1 : key_order(a[i], b[k]);
        compare_check(c, order <= 0 ? a[i] : NULL, order >= 0 ? b[k] : NULL, ratchet);
        i += order <= 0;
        k += order >= 0;
    }
}

/* ---- a gate's time --------------------------------------------------------------------------------------------- */
static void compare_speed(struct report_comparison *c, const struct report_sum *a,
                          const struct report_sum *b) {
    for (size_t i = 0; i < a->n; i++) {
        for (size_t k = 0; k < b->n; k++) {
            const struct report_gate *x = &a->gates[i], *y = &b->gates[k];
            if (x->tier != y->tier || strcmp(x->id, y->id) != 0 || x->n != y->n) continue;
            if (strcmp(x->backend, y->backend) != 0) continue;
            if (fabs(y->ms - x->ms) < SPEED_MS) continue;
            if (y->ms > x->ms * SPEED_RATIO) note(c, REPORT_SLOWER, x->telling, y->telling, x->ms, y->ms);
            if (x->ms > y->ms * SPEED_RATIO) note(c, REPORT_FASTER, x->telling, y->telling, x->ms, y->ms);
        }
    }
}

static int has_gate(const struct report_sum *s, const struct evidence *row) {
    for (size_t i = 0; i < s->n; i++)
        if (s->gates[i].tier == row->tier && strcmp(s->gates[i].id, row->gate) == 0 &&
            strcmp(s->gates[i].backend, row->backend) == 0)
            return 1;
    return 0;
}

static void find_whole_gates(struct report_comparison *c, const struct report_sum *old,
                             const struct report_sum *new) {
    for (size_t i = 0; i < c->n; i++) {
        struct report_change *x = &c->changes[i];
        if (x->move == REPORT_VANISHED) x->whole_gate = !has_gate(new, x->before);
        if (x->move == REPORT_APPEARED) x->whole_gate = !has_gate(old, x->after);
    }
}

/* By move; within one, in the order of the reports. */
static int change_order(const void *x, const void *y) {
    const struct report_change *a = x, *b = y;
    if (a->move != b->move) return (int)a->move - (int)b->move;
    const struct evidence *p = a->after != NULL && b->after != NULL ? a->after : a->before;
    const struct evidence *q = a->after != NULL && b->after != NULL ? b->after : b->before;
    if (p == NULL || q == NULL) return (p == NULL) - (q == NULL);
    return (p > q) - (p < q);
}

static enum status compare_all(struct report_comparison *c, const struct evidence *before, size_t na,
                               const struct evidence *after, size_t nb, double ratchet, struct err *err) {
    struct report_sum old, new;
    const struct evidence **a = sorted(before, na), **b = sorted(after, nb);
    enum status s = STATUS_OK;
    if (a != NULL && b != NULL)
        compare_checks(c, a, na, b, nb, ratchet);
    else
        s = err_set(err, STATUS_NOMEM, "report: %zu and %zu rows", na, nb);
    free(a);
    free(b);
    RETURN_IF_ERROR(s);
    RETURN_IF_ERROR(report_sum_rows(before, na, &old, err));
    s = report_sum_rows(after, nb, &new, err);
    if (s == STATUS_OK) compare_speed(c, &old, &new);
    if (s == STATUS_OK) find_whole_gates(c, &old, &new);
    if (s == STATUS_OK) report_sum_free(&new);
    report_sum_free(&old);
    return s;
}

enum status report_compare(const struct evidence *before, size_t n_before, const struct evidence *after,
                           size_t n_after, double ratchet, struct report_comparison *out, struct err *err) {
    memset(out, 0, sizeof *out);
    out->changes = calloc(2 * (n_before + n_after) + 1, sizeof *out->changes);
    if (out->changes == NULL) return err_set(err, STATUS_NOMEM, "report: %zu rows", n_before + n_after);
    enum status s = compare_all(out, before, n_before, after, n_after, ratchet, err);
    if (s == STATUS_OK)
        qsort(out->changes, out->n, sizeof *out->changes, change_order);
    else
        report_compare_free(out);
    return s;
}

void report_compare_free(struct report_comparison *c) {
    free(c->changes);
    memset(c, 0, sizeof *c);
}

/* ---- CSV ------------------------------------------------------------------------------------------------------- */
static void put_side(table_writer *w, const struct evidence *e, double ms) {
    if (e == NULL) {
        for (int i = 0; i < 5; i++) table_put_empty(w);
        return;
    }
    table_put_text(w, verdict_name(e->verdict));
    table_put_f64(w, e->value);
    table_put_f64(w, e->bound);
    table_put_f64(w, report_headroom(e));
    table_put_f64(w, ms);
}

enum status report_compare_csv(const char *path, enum table_eol eol, const struct report_comparison *c,
                               struct err *err) {
    static const char *const columns[] = {
        "change",     "is_worse",     "tier",       "gate",        "case",          "arm",
        "metric",     "verdict_from", "value_from", "bound_from",  "headroom_from", "ms_from",
        "verdict_to", "value_to",     "bound_to",   "headroom_to", "ms_to"};
    table_writer *w = NULL;
    RETURN_IF_ERROR(
        table_writer_open(path, NULL, eol, columns, (int)(sizeof columns / sizeof columns[0]), &w, err));
    for (size_t i = 0; i < c->n; i++) {
        const struct report_change *x = &c->changes[i];
        const struct evidence *e = x->after != NULL ? x->after : x->before;
        int speed = x->move == REPORT_SLOWER || x->move == REPORT_FASTER;
        table_put_text(w, report_move_name(x->move));
        table_put_u64(w, (uint64_t)report_move_is_worse(x->move));
        table_put_text(w, tier_name(e->tier));
        table_put_text(w, e->gate);
        table_put_escaped(w, speed ? "" : e->test_case, speed ? 0 : strlen(e->test_case));
        table_put_text(w, speed ? "" : e->arm);
        table_put_text(w, speed ? "ms" : e->metric);
        put_side(w, x->before, speed ? x->from : x->before == NULL ? 0.0 : x->before->ms);
        put_side(w, x->after, speed ? x->to : x->after == NULL ? 0.0 : x->after->ms);
        table_end_row(w);
    }
    return table_writer_finish(w, err);
}
