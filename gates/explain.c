/* explain.c - see explain.h: the search for the first step, op and row, and the runs it takes. */
#include "gates/explain.h"

#include <stdlib.h>
#include <string.h>

#include "gates/explain_parts.h"

/* ---- one run of one side --------------------------------------------------------------------------------------- */

struct run_progress {
    const struct explain_request *r;
    const char *what;
};

static void pass_on(void *ctx, uint64_t done, uint64_t total) {
    const struct run_progress *p = ctx;
    if (p->r->progress != NULL) p->r->progress(p->r->progress_ctx, p->what, done, total);
}

static int32_t *forced_tokens(const struct explain_request *r, int n_steps) {
    int32_t *ids = malloc((size_t)n_steps * sizeof *ids);
    for (int i = 0; ids != NULL && i + 1 < n_steps; i++) ids[i] = dump_record_at(r->base, (uint64_t)i)->token;
    return ids;
}

static void add_cost(struct tape_cost *sum, const struct tape_cost *run) {
    sum->screened += run->screened;
    sum->copied += run->copied;
    if (run->held > sum->held) sum->held = run->held;
}

/* Both sides, one after the other. */
static enum status run_both(const struct explain_request *r, const char *what, struct tape_plan *plan,
                            struct tape out[2], struct tape_cost *cost, struct err *err) {
    struct run_progress p = {r, what};
    int32_t *forced = forced_tokens(r, plan->n_steps);
    if (forced == NULL) return err_set(err, STATUS_NOMEM, "explain: out of memory");
    plan->prompt = r->prompt;
    plan->n_prompt = r->n_prompt;
    plan->forced = forced;
    plan->copies = r->copies;
    plan->progress = pass_on;
    plan->progress_ctx = &p;
    enum status s = explain_side_run(r->a, plan, &out[0], err);
    if (s != STATUS_OK) s = err_prefix(err, s, "side A");
    if (s == STATUS_OK) {
        s = explain_side_run(r->b, plan, &out[1], err);
        if (s != STATUS_OK) s = err_prefix(err, s, "side B");
    }
    for (int side = 0; side < 2; side++) add_cost(cost, &out[side].cost);
    free(forced);
    return s;
}

static struct tape_plan plan_of(int n_steps, int ops_step) {
    struct tape_plan p;
    memset(&p, 0, sizeof p);
    p.n_steps = n_steps;
    p.ops_step = ops_step;
    return p;
}

/* ---- where the streams and the steps part ---------------------------------------------------------------------- */

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* Steps worth running, and the fork of two dumps (-1: none). A fork's own row is the last that both sides can make. */
static int steps_to_run(const struct explain_request *r, int *fork) {
    int n = (int)dump_count(r->base);
    *fork = -1;
    if (r->other != NULL) {
        n = min_int(n, (int)dump_count(r->other));
        for (int i = 0; i < n && *fork < 0; i++)
            if (dump_record_at(r->base, (uint64_t)i)->token != dump_record_at(r->other, (uint64_t)i)->token)
                *fork = i;
        if (*fork >= 0) n = *fork + 1;
    }
    if (r->n_steps > 0 && r->n_steps < n) n = r->n_steps;
    if (*fork >= n) *fork = -1;
    return n;
}

static int same_top(const struct top2 *a, const struct top2 *b) {
    return a->id1 == b->id1 && a->id2 == b->id2 && memcmp(&a->logit1, &b->logit1, sizeof a->logit1) == 0 &&
           memcmp(&a->logit2, &b->logit2, sizeof a->logit2) == 0;
}

static void compare_steps(const struct explain_request *r, struct explain_result *out) {
    const struct tape *a = &out->screen[0], *b = &out->screen[1];
    out->first_step = out->first_logits = -1;
    for (int i = 0; i < out->n_steps; i++) {
        const struct tape_step *x = &a->steps[i], *y = &b->steps[i];
        int rows_equal = hash_equal(&x->row, &y->row);
        if (!rows_equal && out->first_logits < 0) out->first_logits = i;
        if (out->first_step < 0 && (x->sum != y->sum || (rows_equal && !same_top(&x->top, &y->top))))
            out->first_step = i;
        if (r->other == NULL && out->fork < 0 && x->top.id1 != y->top.id1) out->fork = i;
    }
}

/* Does this run give the rows that the dump recorded? */
static void compare_with_dump(const dump *d, const struct tape *t, int side, struct explain_result *out) {
    out->reproduced_until[side] = -1;
    for (int i = 0; d != NULL && i < out->n_steps; i++) {
        const struct dump_record *rec = dump_record_at(d, (uint64_t)i);
        if ((rec->flags & DUMP_NO_HASH) != 0) continue;
        out->reproducible[side]++;
        int equal = hash_equal(&rec->row, &t->steps[i].row);
        out->reproduced[side] += equal;
        if (!equal && out->reproduced_until[side] < 0) out->reproduced_until[side] = i;
    }
}

/* ---- the first op and its first row ------------------------------------------------------------------------------ */

static void found(const struct tape_op *a, const char *kernel_b, struct explain_result *out) {
    out->first = *a;
    (void)snprintf(out->kernel_b, sizeof out->kernel_b, "%s", kernel_b);
}

/* An op that B has not is a finding when both sides run the same route; otherwise it is an input prepared in a form that
 * only A's route needs. STATUS_SHAPE when no op differs although the step does. */
static enum status find_op(const struct explain_request *r, const struct tape_ops *a,
                           const struct tape_ops *b, struct explain_result *out, struct err *err) {
    int cursor = 0, same_route = r->a->config.compute.route == r->b->config.compute.route;
    out->first_index = 0;
    for (int i = 0; i < a->n; i++) {
        int j = tape_find(b, &a->op[i], cursor);
        if (j < 0 && !same_route) continue;
        if (j < 0) {
            out->not_run = 1;
            found(&a->op[i], "", out);
            return STATUS_OK;
        }
        cursor = j + 1;
        if (a->op[i].cols != b->op[j].cols)
            return err_set(err, STATUS_SHAPE, "explain: %s has %lld columns on side A, %lld on side B",
                           a->op[i].tensor, (long long)a->op[i].cols, (long long)b->op[j].cols);
        if (a->op[i].sum != b->op[j].sum) {
            found(&a->op[i], b->op[j].kernel, out);
            return STATUS_OK;
        }
        out->first_index++;
    }
    return err_set(err, STATUS_SHAPE, "explain: step %d differs, yet every op the two sides share is equal",
                   out->first_step);
}

static double row_badness(const struct tape rows[2], size_t i) {
    const struct tape_row *x = &rows[0].rows[i], *y = &rows[1].rows[i];
    struct explain_delta d;
    memset(&d, 0, sizeof d);
    if (x->cols == 0 || x->cols != y->cols) return 0.0;
    explain_measure_values(rows[0].row_values + x->at, rows[1].row_values + y->at, (size_t)x->cols, &d);
    return explain_badness(&d);
}

/* The lowest row that differs, and the one that differs most. */
static void find_row(const struct tape rows[2], struct explain_result *out) {
    size_t n = rows[0].n_rows < rows[1].n_rows ? rows[0].n_rows : rows[1].n_rows;
    double worst = -1.0;
    out->rows = (int)n;
    out->rows_differing = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tape_row *x = &rows[0].rows[i], *y = &rows[1].rows[i];
        out->rows_valued += x->cols > 0;
        if (x->pos == y->pos && x->sum == y->sum) continue;
        if (out->rows_differing++ == 0) out->first_pos = x->pos;
        double badness = row_badness(rows, i);
        if (badness > worst) out->worst_pos = x->pos;
        if (badness > worst) worst = badness;
    }
}

static enum status locate(const struct explain_request *r, struct explain_evidence *e,
                          struct explain_result *out, struct err *err) {
    struct tape again[2];
    char key[TAPE_KEY];
    memset(again, 0, sizeof again);
    int step = out->first_step;
    out->first_pos = out->worst_pos = out->screen[0].steps[step].pos;
    out->rows = out->rows_differing = 1;
    if (step == 0) RETURN_IF_ERROR(find_op(r, &out->screen[0].ops, &out->screen[1].ops, out, err));
    struct tape_plan plan = plan_of(step + 1, step);
    if (step == 0 && out->not_run) return STATUS_OK; /* of no row in particular */
    if (step == 0) {
        tape_op_key(&out->first, key);
        plan.rows_of = key;
        RETURN_IF_ERROR(run_both(r, "rows of the first op", &plan, e->rows, &out->cost, err));
        find_row(e->rows, out);
        return STATUS_OK;
    }
    enum status s = run_both(r, "ops of the first step", &plan, again, &out->cost, err);
    if (s == STATUS_OK) s = find_op(r, &again[0].ops, &again[1].ops, out, err);
    tape_free(&again[0]);
    tape_free(&again[1]);
    return s;
}

/* ---- values of chosen rows --------------------------------------------------------------------------------------- */

static int step_of(const struct explain_request *r, int pos) {
    return pos < (int)r->n_prompt ? 0 : pos - (int)r->n_prompt + 1;
}

static void want(struct tape_plan *p, const struct explain_request *r, int pos) {
    if (pos < 0) return;
    for (int i = 0; i < p->n_captures; i++)
        if (p->captures[i] == pos) return;
    p->captures[p->n_captures++] = pos;
    if (step_of(r, pos) + 1 > p->n_steps) p->n_steps = step_of(r, pos) + 1;
}

/* The first op where it differs most; the row that used its buffers before; the first logits that differ; the fork, or the end. */
static struct tape_plan capture_plan(const struct explain_request *r, struct explain_evidence *e,
                                     const struct explain_result *out) {
    struct tape_plan p = plan_of(1, -1);
    const struct tape_step *steps = out->screen[0].steps;
    int chunk = r->b->config.chunk;
    e->before = out->first_step == 0 ? out->worst_pos - chunk : out->worst_pos - 1;
    want(&p, r, out->worst_pos);
    want(&p, r, e->before);
    if (out->first_logits >= 0) want(&p, r, steps[out->first_logits].pos);
    want(&p, r, steps[out->fork >= 0 ? out->fork : out->n_steps - 1].pos);
    return p;
}

static void check_repeats(const struct explain_result *out, struct explain_evidence *e) {
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < e->kept[side].n_steps; i++)
            if (e->kept[side].steps[i].sum != out->screen[side].steps[i].sum) e->unstable[side] = 1;
}

static enum status measure_capture(const struct tape_capture *a, const struct tape_capture *b, int step,
                                   struct explain_result *out, struct err *err) {
    int cursor = 0;
    for (int i = 0; i < a->ops.n; i++) {
        int j = tape_find(&b->ops, &a->ops.op[i], cursor);
        if (j < 0) continue;
        cursor = j + 1;
        if (strcmp(a->ops.op[i].op, "kv_read") == 0) continue;
        RETURN_IF_ERROR(explain_measure(a, i, b, j, step, &out->deltas[out->n_deltas++], err));
    }
    return STATUS_OK;
}

static enum status measure(const struct explain_request *r, const struct explain_evidence *e,
                           struct explain_result *out, struct err *err) {
    const struct tape *a = &e->kept[0], *b = &e->kept[1];
    int room = 0;
    for (int i = 0; i < a->n_captures; i++) room += a->captures[i].ops.n;
    out->deltas = calloc((size_t)room + 1, sizeof *out->deltas);
    if (out->deltas == NULL) return err_set(err, STATUS_NOMEM, "explain: out of memory");
    for (int i = 0; i < a->n_captures; i++) {
        const struct tape_capture *x = &a->captures[i], *y = tape_capture_at(b, x->pos);
        if (y == NULL || x->pos == e->before) continue; /* `before` is evidence, not growth */
        RETURN_IF_ERROR(measure_capture(x, y, step_of(r, x->pos), out, err));
    }
    for (int i = 0; i < out->n_deltas; i++) {
        const struct explain_delta *d = &out->deltas[i];
        if (d->pos == out->worst_pos && d->op.layer == out->first.layer &&
            strcmp(d->op.op, out->first.op) == 0 && strcmp(d->op.tensor, out->first.tensor) == 0)
            out->first_delta = *d;
    }
    return STATUS_OK;
}

/* What the attention of this layer could read of the cache: equal on both sides? */
static void compare_cache(const struct explain_evidence *e, struct explain_result *out) {
    const struct tape_capture *a = tape_capture_at(&e->kept[0], out->worst_pos);
    const struct tape_capture *b = tape_capture_at(&e->kept[1], out->worst_pos);
    struct tape_op like;
    out->cache_equal = -1;
    if (a == NULL || b == NULL || strcmp(out->first.op, "attention") != 0) return;
    memset(&like, 0, sizeof like);
    like.layer = out->first.layer;
    (void)snprintf(like.op, sizeof like.op, "kv_read");
    (void)snprintf(like.tensor, sizeof like.tensor, "kv");
    int i = tape_find(&a->ops, &like, 0), j = tape_find(&b->ops, &like, 0);
    if (i >= 0 && j >= 0) out->cache_equal = a->ops.op[i].sum == b->ops.op[j].sum;
}

static enum status explain_difference(const struct explain_request *r, struct explain_evidence *e,
                                      struct explain_result *out, struct err *err) {
    const struct tape_step *x = &out->screen[0].steps[out->first_step],
                           *y = &out->screen[1].steps[out->first_step];
    if (x->sum == y->sum) { /* equal logits, another choice: no tensor differs */
        (void)snprintf(out->first.op, sizeof out->first.op, "top2");
        (void)snprintf(out->first.tensor, sizeof out->first.tensor, "top2");
        out->first.layer = -1;
        out->first_pos = out->worst_pos = x->pos;
        out->cache_equal = -1;
        explain_judge(r, e, out);
        return STATUS_OK;
    }
    RETURN_IF_ERROR(locate(r, e, out, err));
    struct tape_plan plan = capture_plan(r, e, out);
    RETURN_IF_ERROR(run_both(r, "values of the chosen rows", &plan, e->kept, &out->cost, err));
    check_repeats(out, e);
    RETURN_IF_ERROR(measure(r, e, out, err));
    compare_cache(e, out);
    explain_judge(r, e, out);
    return STATUS_OK;
}

static enum status check_request(const struct explain_request *r, struct err *err) {
    const dump *both[2] = {r->base, r->other};
    for (int i = 0; i < 2; i++) {
        if (both[i] == NULL) continue;
        if (dump_count(both[i]) == 0)
            return err_set(err, STATUS_USAGE, "%s: an empty stream", dump_name(both[i]));
        if (dump_first_without_id(both[i]) != UINT64_MAX)
            return err_set(err, STATUS_USAGE, "%s: token %llu has no id, so it cannot be forced",
                           dump_name(both[i]), (unsigned long long)dump_first_without_id(both[i]));
    }
    return STATUS_OK;
}

enum status explain_run(const struct explain_request *r, struct explain_result *out, struct err *err) {
    struct explain_evidence e;
    memset(out, 0, sizeof *out);
    memset(&e, 0, sizeof e);
    RETURN_IF_ERROR(check_request(r, err));
    out->n_steps = steps_to_run(r, &out->fork);
    struct tape_plan plan = plan_of(out->n_steps, 0);
    RETURN_IF_ERROR(run_both(r, "screening", &plan, out->screen, &out->cost, err));
    compare_steps(r, out);
    compare_with_dump(r->base, &out->screen[0], 0, out);
    compare_with_dump(r->other, &out->screen[1], 1, out);
    enum status s = STATUS_OK;
    if (out->first_step < 0)
        explain_judge_equal(r, out);
    else
        s = explain_difference(r, &e, out, err);
    for (int side = 0; side < 2; side++) {
        tape_free(&e.rows[side]);
        tape_free(&e.kept[side]);
    }
    return s;
}

void explain_free(struct explain_result *r) {
    free(r->deltas);
    r->deltas = NULL;
    tape_free(&r->screen[0]);
    tape_free(&r->screen[1]);
}
