/* gate_reference.c - CLAIM: the engine computes the model that the file describes: route f32 (f32 cache) chooses the
 * float64 reference's token at every step and its first logits agree to 2e-4; routes f16 and q8, forced along the
 * reference, choose the same token wherever its gap exceeds their bound. Needs: the embedded model (SKIP for another).
 * Arms: ids, forced, first-20, free (f32), a/a, negative. Exercise: forkgate run --only model.reference.f32 --battery full */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/budget.h"
#include "gates/model/again.h"
#include "gates/model/model_gates.h"
#include "gates/model/reference.h"
#include "gates/model/streams.h"

/* What forcing one prompt showed. */
struct tally {
    const struct reference_prompt *ref;
    size_t at;                  /* steps seen */
    size_t flipped;             /* steps whose argmax is not the reference's */
    double largest_flipped_gap; /* of the reference, at those steps */
    double largest_error;       /* |logit - reference| of its top-1 and top-2 */
    double first_error;         /* the same over the first step's 20 logits */
    double gaps_below;          /* steps whose reference gap is at or below the bound */
    double bound;
    int not_finite;
    int n_vocab;
    struct hash128 rows; /* of all logits, chained */
};

static double worse(double a, double b) {
    return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
}

static enum status see_row(void *ctx, int pos, const float *logits, const struct top2 *top, struct err *err) {
    struct tally *t = ctx;
    (void)pos;
    (void)err;
    if (t->at >= t->ref->n_steps) return STATUS_OK;
    again_add(&t->rows, logits, (size_t)t->n_vocab);
    const struct reference_step *s = &t->ref->steps[t->at];
    double gap = s->logit1 - s->logit2;
    if (top->n_nan + top->n_inf > 0) t->not_finite++;
    t->largest_error = worse(t->largest_error, fabs((double)logits[s->top1] - s->logit1));
    t->largest_error = worse(t->largest_error, fabs((double)logits[s->top2] - s->logit2));
    if (gap <= t->bound) t->gaps_below++;
    if (top->id1 != s->top1) {
        t->flipped++;
        t->largest_flipped_gap = fmax(t->largest_flipped_gap, gap);
    }
    for (int i = 0; t->at == 0 && i < t->ref->n_first; i++)
        t->first_error =
            worse(t->first_error, fabs((double)logits[t->ref->first_id[i]] - t->ref->first_logit[i]));
    t->at++;
    return STATUS_OK;
}

static struct tally tally_start(engine *e, const struct reference_prompt *p, double bound) {
    struct engine_info info;
    struct tally t;
    engine_describe(e, &info);
    memset(&t, 0, sizeof t);
    t.ref = p;
    t.bound = bound;
    t.n_vocab = info.n_vocab;
    return t;
}

/* Prompt (but its last token) by prefill, then the last token and the reference's own tokens, scored. */
static enum status force(engine *e, struct tally *t, struct err *err) {
    const struct reference_prompt *p = t->ref;
    session *s = NULL;
    int32_t *ids = malloc(p->n_steps * sizeof *ids);
    if (ids == NULL) return err_set(err, STATUS_NOMEM, "reference: out of memory");
    ids[0] = p->ids[p->n_ids - 1];
    for (size_t i = 1; i < p->n_steps; i++) ids[i] = p->steps[i - 1].top1;
    enum status status = session_create(e, &s, err);
    if (status == STATUS_OK && p->n_ids > 1) status = session_prefill(s, p->ids, p->n_ids - 1, err);
    if (status == STATUS_OK) status = session_score(s, ids, p->n_steps, see_row, t, err);
    session_close(s);
    free(ids);
    return status;
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */
static void number_row(const struct stream_arm *a, const char *arm, const char *prompt, const char *metric,
                       double value, double bound, const char *note) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.test_case, sizeof row.test_case, "%s", prompt);
    (void)snprintf(row.arm, sizeof row.arm, "%s", arm);
    (void)snprintf(row.metric, sizeof row.metric, "%s", metric);
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --only %s", a->gate);
    (void)snprintf(row.note, sizeof row.note, "%s", note);
    streams_note_kernels(a->engine, row.kernels, sizeof row.kernels);
    row.value = value;
    row.bound = bound;
    row.verdict = isfinite(value) && value <= bound ? VERDICT_PASS : VERDICT_FAIL;
    a->ctx->emit(a->ctx->sink, &row);
}

static enum status ids_row(const struct stream_arm *a, const struct reference_prompt *p,
                           const struct stream_prompt *text, struct err *err) {
    int32_t *ids = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(engine_encode(a->engine, text->bytes, text->n, 1, &ids, &n, err));
    int same = n == p->n_ids && memcmp(ids, p->ids, n * sizeof *ids) == 0;
    free(ids);
    streams_count_row(a, "ids", p->name, same ? 0 : 1,
                      same ? "" : "the tokenizer gives other ids than the reference");
    return STATUS_OK;
}

static void tally_rows(const struct stream_arm *a, const struct tally *t, double first_bound) {
    char note[200];
    const char *prompt = t->ref->name;
    (void)snprintf(note, sizeof note,
                   "%zu steps, %zu argmax differ, largest logit error %.3g, %.0f gaps at or below %g", t->at,
                   t->flipped, t->largest_error, t->gaps_below, t->bound);
    double value = t->at == t->ref->n_steps && t->not_finite == 0 ? t->largest_flipped_gap : (double)NAN;
    if (a->route == ROUTE_F32) { /* every step, however small its gap */
        number_row(a, "forced", prompt, "argmax_differ", isnan(value) ? value : (double)t->flipped, 0, note);
        number_row(a, "first-20", prompt, "max_abs",
                   t->ref->n_first == REFERENCE_TOP ? t->first_error : (double)NAN, first_bound, "");
    } else {
        number_row(a, "forced", prompt, "flipped_gap", value, t->bound, note);
    }
}

/* Greedy, on its own: the tokens must be the reference's. */
static enum status free_rows(const struct stream_arm *a, const struct reference *ref, struct streams *s,
                             struct err *err) {
    dump *got[STREAMS_MAX];
    RETURN_IF_ERROR(streams_run(a->engine, s, BATCH_MAX, 0, got, err));
    for (int i = 0; i < s->n; i++) {
        const struct reference_prompt *p = &ref->prompts[i];
        uint64_t wrong = dump_count(got[i]) == p->n_steps ? 0 : 1;
        for (size_t k = 0; k < p->n_steps && k < dump_count(got[i]); k++)
            wrong += dump_record_at(got[i], k)->token != p->steps[k].top1;
        streams_count_row(a, "free", p->name, wrong, "tokens that are not the reference's");
    }
    streams_close(got, s->n);
    return STATUS_OK;
}

/* The first prompt, which is the shortest, on an engine of its own. */
static enum status again(const struct stream_arm *a, const struct tally *first, struct err *err) {
    struct engine_info info;
    struct stream_arm own = *a;
    engine_describe(a->engine, &info);
    RETURN_IF_ERROR(engine_open(a->ctx->model_path, &info.config, &own.engine, err));
    struct tally t = tally_start(own.engine, first->ref, first->bound);
    enum status status = force(own.engine, &t, err);
    if (status == STATUS_OK) again_row(&own, first->ref->name, &first->rows, &t.rows);
    engine_close(own.engine);
    return status;
}

/* A reference with one token changed must be noticed. */
static enum status negative_row(const struct stream_arm *a, const struct reference_prompt *p, double bound,
                                struct err *err) {
    struct reference_prompt copy = *p;
    struct reference_step *steps = malloc(p->n_steps * sizeof *steps);
    if (steps == NULL) return err_set(err, STATUS_NOMEM, "reference: out of memory");
    memcpy(steps, p->steps, p->n_steps * sizeof *steps);
    int32_t top1 = steps[p->n_steps - 1].top1;
    steps[p->n_steps - 1].top1 = steps[p->n_steps - 1].top2;
    steps[p->n_steps - 1].top2 = top1;
    copy.steps = steps;
    struct tally t = tally_start(a->engine, &copy, bound);
    enum status s = force(a->engine, &t, err);
    free(steps);
    if (s != STATUS_OK) return s;
    if (t.flipped == 0)
        streams_note_row(a, "negative", p->name, VERDICT_BLIND, "a changed reference token was not noticed");
    else
        streams_count_row(a, "negative", p->name, 0, "detection floor: one token of one step");
    return STATUS_OK;
}

/* ---- the gate ------------------------------------------------------------------------------------------------ */
static enum status load_bounds(const struct stream_arm *a, double *gap, double *first, struct err *err) {
    struct budgets b;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/golden/budgets.csv", a->ctx->source_dir);
    RETURN_IF_ERROR(budgets_load(path, &b, err));
    enum status s = budgets_bound(&b, "reference", route_name(a->route), "flipped_gap", gap, err);
    if (s == STATUS_OK) s = budgets_bound(&b, "reference", "f32", "first_max_abs", first, err);
    budgets_free(&b);
    return s;
}

static enum status judge(const struct stream_arm *a, struct reference *ref, struct err *err) {
    double gap, first;
    struct streams s;
    RETURN_IF_ERROR(load_bounds(a, &gap, &first, err));
    RETURN_IF_ERROR(streams_load(a->ctx->source_dir, a->ctx->full_battery, &s, err));
    if (!a->ctx->full_battery) streams_limit(&s, 1000, 0);
    enum status status = STATUS_OK;
    for (int i = 0; i < s.n && status == STATUS_OK;
         i++) { /* ref->prompts takes the battery's order and length */
        size_t k = (size_t)i;
        while (k < ref->n && strcmp(ref->prompts[k].name, s.prompts[i].name) != 0) k++;
        if (k == ref->n)
            return err_set(err, STATUS_FORMAT, "the reference has no prompt %s", s.prompts[i].name);
        struct reference_prompt p = ref->prompts[k];
        ref->prompts[k] = ref->prompts[i];
        ref->prompts[i] = p;
        s.prompts[i].tokens = (int)p.n_steps;
        struct tally t = tally_start(a->engine, &ref->prompts[i], gap);
        status = ids_row(a, &ref->prompts[i], &s.prompts[i], err);
        if (status == STATUS_OK) status = force(a->engine, &t, err);
        if (status == STATUS_OK) tally_rows(a, &t, first);
        if (status == STATUS_OK && i == 0) status = again(a, &t, err);
    }
    if (status == STATUS_OK && a->route == ROUTE_F32) status = free_rows(a, ref, &s, err);
    if (status == STATUS_OK) status = negative_row(a, &ref->prompts[0], gap, err);
    streams_free(&s);
    return status;
}

static enum status run_route(const struct gate_context *ctx, enum route route, const char *id,
                             struct err *err) {
    struct reference ref;
    struct stream_arm a = {ctx, id, route, NULL, NULL};
    struct engine_config config = streams_config(ctx, route);
    config.kv = route == ROUTE_F32 ? KV_F32 : KV_F16;
    if (route == ROUTE_F32) config.backend = BACKEND_CPU; /* the accurate route has no device kernels */
    RETURN_IF_ERROR(reference_load(ctx->source_dir, &ref, err));
    enum status s = engine_open(ctx->model_path, &config, &a.engine, err);
    if (s == STATUS_OK) {
        uint64_t bytes = 0;
        const void *data = engine_model_data(a.engine, &bytes);
        struct hash128 h = hash_bytes(data, (size_t)bytes);
        if (hash_equal(&h, &ref.model))
            s = judge(&a, &ref, err);
        else
            streams_note_row(&a, "forced", "", VERDICT_SKIP,
                             "the reference was computed from seedling-q8_0.gguf only");
    }
    engine_close(a.engine);
    reference_free(&ref);
    return s;
}

static enum status run_f32(const struct gate_context *ctx, struct err *err) {
    return run_route(ctx, ROUTE_F32, "model.reference.f32", err);
}
static enum status run_f16(const struct gate_context *ctx, struct err *err) {
    return run_route(ctx, ROUTE_F16, "model.reference.f16", err);
}
static enum status run_q8(const struct gate_context *ctx, struct err *err) {
    return run_route(ctx, ROUTE_Q8, "model.reference.q8", err);
}

const struct gate gate_reference_f32 = {"model.reference.f32",
                                        TIER_PARITY,
                                        "every greedy step of route f32 is the float64 reference's",
                                        1,
                                        0,
                                        300,
                                        run_f32};
const struct gate gate_reference_f16 = {"model.reference.f16",
                                        TIER_PARITY,
                                        "route f16 differs from the float64 reference at knife edges only",
                                        1,
                                        0,
                                        300,
                                        run_f16};
const struct gate gate_reference_q8 = {"model.reference.q8",
                                       TIER_PARITY,
                                       "route q8 differs from the float64 reference at small gaps only",
                                       1,
                                       0,
                                       300,
                                       run_q8};
