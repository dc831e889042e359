/* explain_report.c - see explain_report.h: the text. */
#include "gates/explain_report.h"

#include <math.h>
#include <string.h>

#define MARGIN_STEPS 6  /* steps listed before and including the fork */
#define BAR_FLOOR    8  /* the bar starts at 1e-8 of the row's largest magnitude */
#define BAR_PER      2  /* marks a decade */
#define LABEL        12 /* width of the left column */

/* ---- head ------------------------------------------------------------------------------------------------------ */

static void print_side(FILE *out, const char *mark, const char *name, const struct explain_side *s) {
    char geometry[96];
    geometry_format(&s->config.compute.geometry, geometry, sizeof geometry);
    fprintf(out, "%s %s  route %s  %s  kv %s  %s  chunk %d  threads %d  %s%s\n", mark, name,
            route_name(s->config.compute.route), arch_name(s->config.compute.arch),
            kv_dtype_name(s->config.kv), geometry, s->config.chunk, s->config.compute.n_threads,
            s->config.backend == BACKEND_CUDA ? "cuda" : "cpu", s->binary != NULL ? "" : "  (this binary)");
    if (s->binary != NULL) fprintf(out, "    binary %s\n", s->binary);
    for (int i = 0; s->binary != NULL && s->env != NULL && s->env[i] != NULL; i++)
        fprintf(out, "    with   %s\n", s->env[i]);
}

static void print_reproduced(FILE *out, const struct explain_result *e, int side, const char *name) {
    if (e->reproducible[side] == 0) return;
    fprintf(out, "%-*s%s: %d of %d recorded rows of logits come out again", LABEL,
            side == 0 ? "reproduced" : "", name, e->reproduced[side], e->reproducible[side]);
    if (e->reproduced_until[side] >= 0)
        fprintf(out, "; NOT from step %d on: the dump was made by another build or machine",
                e->reproduced_until[side]);
    fputc('\n', out);
}

static void print_bytes(FILE *out, uint64_t n) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)n;
    size_t u = 0;
    while (x >= 1024.0 && u + 1 < sizeof units / sizeof units[0]) x /= 1024.0, u++;
    fprintf(out, "%.3g %s", x, units[u]);
}

/* How the first differing op was found, and what that took. */
static void print_cost(FILE *out, const struct explain_request *r, const struct explain_result *e) {
    if (e->cost.screened == 0) return; /* traces of binaries that do not count */
    fprintf(out, "%-*s", LABEL, r->copies ? "copied" : "screened");
    print_bytes(out, e->cost.screened);
    fprintf(out, r->copies
                     ? " of tensors, compared by 64-bit checksums on the host; copied out: "
                     : " of tensors, by 64-bit checksums where they lie (a screen, no golden); copied out: ");
    print_bytes(out, e->cost.copied);
    fprintf(out, ", at most ");
    print_bytes(out, e->cost.held);
    fprintf(out, " at a time\n");
}

/* ---- where, inputs, how big ------------------------------------------------------------------------------------ */

static void print_where(FILE *out, const struct explain_result *e) {
    const struct tape_op *op = &e->first;
    if (e->first_step < 0) {
        fprintf(out, "%-*sno op differs in %d steps\n", LABEL, "where", e->n_steps);
        return;
    }
    fprintf(out, "%-*sstep %d%s, position %d: ", LABEL, "where", e->first_step,
            e->first_step == 0 ? " (the prompt)" : "", e->worst_pos);
    if (op->layer >= 0) fprintf(out, "layer %d ", op->layer);
    fprintf(out, "%s, tensor %s", op->op, op->tensor);
    if (op->kernel[0] != '\0') fprintf(out, ", kernel %s", op->kernel);
    if (strcmp(op->kernel, e->kernel_b) != 0) fprintf(out, " (B: %s)", e->not_run ? "not run" : e->kernel_b);
    fputc('\n', out);
    if (e->rows > 1)
        fprintf(out, "%-*s%d of its %d rows differ, from position %d on; position %d differs most\n", LABEL,
                "", e->rows_differing, e->rows, e->first_pos, e->worst_pos);
    if (e->rows_valued > 0 && e->rows_valued < e->rows)
        fprintf(out, "%-*s(most among the first %d rows: %d MiB of values are kept a side)\n", LABEL, "",
                e->rows_valued, (int)TAPE_ROW_MIB);
}

static void print_inputs(FILE *out, const struct explain_result *e) {
    if (e->first_step < 0 || e->first_delta.op.cols == 0) return;
    fprintf(out, "%-*s%s: all %d op outputs before it in this step", LABEL, "inputs",
            e->cache_equal == 0 ? "NOT EQUAL" : "equal", e->first_index);
    if (e->cache_equal >= 0)
        fprintf(out, ", and cache rows 0..%d of layer %d%s", e->worst_pos, e->first.layer,
                e->cache_equal == 0 ? " which differ" : "");
    fprintf(out, "; every earlier step\n");
}

static void print_size(FILE *out, const struct explain_result *e) {
    const struct explain_delta *d = &e->first_delta;
    if (d->differing == 0) return;
    fprintf(out,
            "%-*s%llu of %lld values differ, by at most %.3g (%.2g of the row's largest) at [%zu]: A %.9g, B "
            "%.9g\n",
            LABEL, "how big", (unsigned long long)d->differing, (long long)d->op.cols, d->max_abs,
            d->max_abs / d->row_max, d->worst, (double)d->a, (double)d->b);
    fprintf(out, "%-*svalues by ULP distance", LABEL, "");
    for (int i = 0; i < ULP_BUCKETS; i++)
        if (d->hist.n[i] > 0)
            fprintf(out, "  %s: %llu", ulp_bucket_name((enum ulp_bucket)i), (unsigned long long)d->hist.n[i]);
    fputc('\n', out);
}

static void print_steps(FILE *out, const struct explain_result *e) {
    if (e->first_step < 0) return;
    fprintf(out, "%-*s", LABEL, "logits");
    if (e->first_logits < 0)
        fprintf(out, "equal at every step\n");
    else
        fprintf(out, "first differ at step %d\n", e->first_logits);
    fprintf(out, "%-*s", LABEL, "fork");
    if (e->fork < 0)
        fprintf(out, "none in %d steps\n", e->n_steps);
    else
        fprintf(out, "step %d of %d\n", e->fork, e->n_steps);
}

/* ---- growth ---------------------------------------------------------------------------------------------------- */

static void print_bar(FILE *out, double relative) {
    double decades = relative > 0.0 ? log10(relative) + BAR_FLOOR : 0.0;
    int marks = relative > 1.0 ? BAR_PER * BAR_FLOOR : (int)lrint(BAR_PER * decades);
    for (int i = 0; i < marks; i++) fputc('#', out);
}

static void print_delta(FILE *out, const struct explain_delta *d) {
    double relative = d->row_max > 0.0 ? d->max_abs / d->row_max : 0.0;
    char layer[8];
    (void)snprintf(layer, sizeof layer, "%d", d->op.layer);
    fprintf(out, "  %5s  %-12s %-20s %7llu/%-7lld %9.2e %9.2e  ", d->op.layer < 0 ? "-" : layer, d->op.op,
            d->op.tensor, (unsigned long long)d->differing, (long long)d->op.cols, d->max_abs, relative);
    print_bar(out, relative);
    fputc('\n', out);
}

static int is_first(const struct explain_result *e, const struct explain_delta *d) {
    return d->pos == e->worst_pos && d->op.layer == e->first.layer &&
           strcmp(d->op.tensor, e->first.tensor) == 0 && strcmp(d->op.op, e->first.op) == 0;
}

/* The rest of the first op's layer; of the others the residual stream and the head. */
static int shown(const struct explain_result *e, const struct explain_view *view,
                 const struct explain_delta *d) {
    if (view->all_ops || (d->pos == e->worst_pos && d->op.layer == e->first.layer)) return 1;
    return strcmp(d->op.tensor, "ffn_residual") == 0 || strcmp(d->op.tensor, "output_norm") == 0 ||
           strcmp(d->op.tensor, "logits") == 0;
}

static void print_growth_head(FILE *out, const struct explain_result *e, const struct explain_delta *d) {
    const char *what = d->pos == e->worst_pos ? " (the first op that differs)"
                       : d->step == e->fork   ? " (the fork)"
                                              : "";
    fprintf(out, "growth at step %d, position %d%s\n", d->step, d->pos, what);
    fprintf(out, "  layer  %-12s %-20s %15s %9s %9s  1e-8 .. 1 of the row's largest\n", "op", "tensor",
            "values differ", "max |d|", "/ largest");
}

/* One captured position from delta i on; returns where the next one starts. */
static int print_position(FILE *out, const struct explain_result *e, const struct explain_view *view, int i) {
    int pos = e->deltas[i].pos, reached = pos != e->worst_pos, equal = 0;
    print_growth_head(out, e, &e->deltas[i]);
    for (; i < e->n_deltas && e->deltas[i].pos == pos; i++) {
        const struct explain_delta *d = &e->deltas[i];
        reached |= is_first(e, d);
        if (!reached) continue;
        equal += d->differing == 0;
        if (d->differing > 0 && shown(e, view, d)) print_delta(out, d);
    }
    if (equal > 0 && pos == e->worst_pos)
        fprintf(out, "  %5d  later ops of this row are equal again: a rounding swallowed it there\n", equal);
    else if (equal > 0)
        fprintf(out, "  %5d  ops of this row are equal on both sides\n", equal);
    return i;
}

static void print_growth(FILE *out, const struct explain_result *e, const struct explain_view *view) {
    for (int i = 0; i < e->n_deltas;) i = print_position(out, e, view, i);
}

/* ---- the quantiser as amplifier -------------------------------------------------------------------------------- */

static int is_codes(const struct explain_delta *d) {
    return tape_is_input(&d->op) && strstr(d->op.tensor, ".q8_") != NULL;
}

static double relative_of(const struct explain_delta *d) {
    return d->row_max > 0.0 ? d->max_abs / d->row_max : 0.0;
}

/* The op whose output these codes quantise, searched backwards in the same step and layer. */
static const struct explain_delta *input_of(const struct explain_result *e, int i) {
    size_t n = strcspn(e->deltas[i].op.tensor, ".");
    for (int j = i - 1; j >= 0 && e->deltas[j].pos == e->deltas[i].pos; j--)
        if (strlen(e->deltas[j].op.tensor) == n &&
            strncmp(e->deltas[j].op.tensor, e->deltas[i].op.tensor, n) == 0)
            return &e->deltas[j];
    return NULL;
}

static const struct explain_delta *product_of(const struct explain_result *e, int i) {
    for (int j = i + 1; j < e->n_deltas && e->deltas[j].pos == e->deltas[i].pos; j++)
        if (strcmp(e->deltas[j].op.op, "matmul") == 0) return &e->deltas[j];
    return NULL;
}

static const struct explain_delta *logits_at(const struct explain_result *e, int pos) {
    for (int i = 0; i < e->n_deltas; i++)
        if (e->deltas[i].pos == pos && strcmp(e->deltas[i].op.tensor, "logits") == 0) return &e->deltas[i];
    return NULL;
}

static void print_flip(FILE *out, const struct explain_result *e, int i) {
    const struct explain_delta *d = &e->deltas[i], *in = input_of(e, i), *y = product_of(e, i);
    fprintf(
        out,
        "%-*sstep %d, layer %d, act_prepare %s: %llu of %lld int8 codes flipped (%.2g %%), by at most %.0f\n",
        LABEL, "", d->step, d->op.layer, d->op.tensor, (unsigned long long)d->differing,
        (long long)d->op.cols, 100.0 * (double)d->differing / (double)d->op.cols, d->max_abs);
    if (in == NULL || y == NULL || !(relative_of(in) > 0.0)) return;
    fprintf(out, "%-*s%s moved by %.2g of its largest; %s, the product of the codes, by %.2g: x %.3g\n",
            LABEL, "", in->op.tensor, relative_of(in), y->op.tensor, relative_of(y),
            relative_of(y) / relative_of(in));
}

static void print_amplifier(FILE *out, const struct explain_request *r, const struct explain_result *e) {
    if (r->a->config.compute.route != ROUTE_Q8 || r->b->config.compute.route != ROUTE_Q8) return;
    int pos = -1, titled = 0;
    for (int i = 0; i < e->n_deltas; i++) {
        const struct explain_delta *d = &e->deltas[i];
        if (d->pos == pos || !is_codes(d) || d->differing == 0) continue;
        uint64_t flipped = 0, codes = 0;
        pos = d->pos;
        if (!titled++)
            fprintf(out, "%-*sthe quantiser turns a moved step into a moved code:\n", LABEL, "amplifier");
        print_flip(out, e, i);
        for (int j = 0; j < e->n_deltas; j++)
            if (e->deltas[j].pos == pos && is_codes(&e->deltas[j])) {
                flipped += e->deltas[j].differing;
                codes += (uint64_t)e->deltas[j].op.cols;
            }
        fprintf(out, "%-*s%llu of all %llu codes of that row's step are flipped (%.2g %%)\n", LABEL, "",
                (unsigned long long)flipped, (unsigned long long)codes,
                100.0 * (double)flipped / (double)codes);
    }
    const struct explain_delta *y = logits_at(e, e->worst_pos);
    if (titled && y != NULL && relative_of(&e->first_delta) > 0.0)
        fprintf(out, "%-*sfrom %s to the logits of that step: %.2g of the largest became %.2g, x %.3g\n",
                LABEL, "", e->first.tensor, relative_of(&e->first_delta), relative_of(y),
                relative_of(y) / relative_of(&e->first_delta));
    if (!titled && e->n_deltas > 0)
        fprintf(out, "%-*sno int8 code flipped at the steps looked at\n", LABEL, "amplifier");
}

/* ---- margins --------------------------------------------------------------------------------------------------- */

static double margin(const struct tape_step *s) {
    return s->top.id2 < 0 ? (double)INFINITY : (double)s->top.logit1 - (double)s->top.logit2;
}

static void print_margins(FILE *out, const struct explain_result *e) {
    const struct tape_step *a = e->screen[0].steps, *b = e->screen[1].steps;
    int last = e->fork >= 0 ? e->fork : e->n_steps - 1, least = 0;
    if (e->first_step < 0 && e->fork < 0) return;
    for (int i = 0; i < e->n_steps; i++)
        if (margin(&a[i]) < margin(&a[least])) least = i;
    fprintf(out, "%-*sargmax margin (top-1 minus top-2, nats); A's smallest is %.3g at step %d\n", LABEL,
            "margin", margin(&a[least]), least);
    fprintf(out, "   step   A top-1     margin   B top-1     margin   change of A's top-1\n");
    for (int i = last < MARGIN_STEPS ? 0 : last - MARGIN_STEPS + 1; i <= last; i++) {
        int same = a[i].top.id1 == b[i].top.id1;
        fprintf(out, "  %5d  %8d  %9.3g  %8d  %9.3g   ", i, a[i].top.id1, margin(&a[i]), b[i].top.id1,
                margin(&b[i]));
        if (same)
            fprintf(out, "%.3g", (double)b[i].top.logit1 - (double)a[i].top.logit1);
        else
            fprintf(out, "another choice");
        fprintf(out, "%s\n", i == e->fork ? "   <- fork" : "");
    }
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static void print_paragraph(FILE *out, const char *text, int width) {
    int column = LABEL;
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, " ");
        if (column > LABEL && column + 1 + (int)n > width) {
            fprintf(out, "\n%*s", LABEL, "");
            column = LABEL;
        } else if (column > LABEL) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)n, at);
        column += (int)n;
        at += n;
        at += strspn(at, " ");
    }
    fputc('\n', out);
}

void explain_report_text(FILE *out, const struct explain_request *r, const struct explain_result *e,
                         const struct explain_view *view) {
    print_side(out, "---", view->name[0], r->a);
    print_side(out, "+++", view->name[1], r->b);
    fprintf(out, "%-*s%zu tokens of prompt, %d steps compared\n", LABEL, "ran", r->n_prompt, e->n_steps);
    print_cost(out, r, e);
    print_reproduced(out, e, 0, view->name[0]);
    print_reproduced(out, e, 1, view->name[1]);
    print_where(out, e);
    print_inputs(out, e);
    print_size(out, e);
    print_steps(out, e);
    print_growth(out, e, view);
    print_amplifier(out, r, e);
    print_margins(out, e);
    fprintf(out, "%-*s%s\n%-*s", LABEL, "verdict", explain_verdict_name(e->verdict), LABEL, "");
    print_paragraph(out, e->conclusion, view->width < 60 ? 60 : view->width);
    if (view->next != NULL) fprintf(out, "%-*s%s\n", LABEL, "next", view->next);
}
