/* tolerance_score.c - see tolerance_score.h. */
#include "gates/tolerance_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------------------------ */
/* log(sum exp) in double; NaN when the row holds NaN or +Inf. */
static double log_sum(const float *row, int n) {
    double most = (double)-INFINITY, sum = 0.0;
    for (int i = 0; i < n; i++) {
        if (isnan(row[i]) || (isinf(row[i]) && row[i] > 0)) return (double)NAN;
        if ((double)row[i] > most) most = (double)row[i];
    }
    if (isinf(most)) return (double)NAN;
    for (int i = 0; i < n; i++) sum += exp((double)row[i] - most);
    return most + log(sum);
}

/* With log-sums already known. */
static double row_kl(const float *base, double base_sum, const float *other, double other_sum, int n) {
    double shift = other_sum - base_sum, kl = 0.0;
    if (isnan(shift)) return (double)NAN;
    for (int i = 0; i < n; i++) {
        double p = exp((double)base[i] - base_sum);
        if (p > 0.0) kl += p * ((double)base[i] - (double)other[i] + shift);
    }
    return kl;
}

double tolerance_row_kl(const float *base, const float *other, int n_vocab) {
    return row_kl(base, log_sum(base, n_vocab), other, log_sum(other, n_vocab), n_vocab);
}

/* ---- one pass -------------------------------------------------------------------------------------------------- */
struct pass {
    const dump *follow;
    int n_vocab;
    size_t at, n;                   /* next row, rows */
    float *rows;                    /* [n, n_vocab] of the base */
    double *sums;                   /* [n] log-sums of the base's rows */
    struct tolerance_point *points; /* [n]; NULL: this is the base's own pass */
    uint64_t wrong;
};

static void keep_row(struct pass *p, const float *logits) {
    const struct dump_record *r = dump_record_at(p->follow, p->at);
    struct hash128 h = hash_logits(logits, (size_t)p->n_vocab);
    memcpy(p->rows + p->at * (size_t)p->n_vocab, logits, (size_t)p->n_vocab * sizeof *logits);
    p->sums[p->at] = log_sum(logits, p->n_vocab);
    p->wrong += (r->flags & DUMP_NO_HASH) != 0 || !hash_equal(&h, &r->row);
}

static void compare_row(struct pass *p, const float *logits, const struct top2 *top) {
    const struct dump_record *r = dump_record_at(p->follow, p->at);
    const float *base = p->rows + p->at * (size_t)p->n_vocab;
    struct tolerance_point *out = &p->points[p->at];
    out->token = r->token;
    out->base_id1 = r->id1;
    out->base_id2 = r->flags & DUMP_NO_TOP2 ? -1 : r->id2;
    out->base1 = r->logit1;
    out->base2 = out->base_id2 < 0 ? -INFINITY : r->logit2;
    out->id1 = top->id1;
    out->got1 = logits[out->base_id1];
    out->got2 = out->base_id2 < 0 ? -INFINITY : logits[out->base_id2];
    out->invalid = top->first_bad >= 0;
    out->differs = memcmp(base, logits, (size_t)p->n_vocab * sizeof *logits) != 0;
    out->kl = row_kl(base, p->sums[p->at], logits, log_sum(logits, p->n_vocab), p->n_vocab);
}

static enum status take_row(void *ctx, int pos, const float *logits, const struct top2 *top,
                            struct err *err) {
    struct pass *p = ctx;
    (void)pos;
    if (p->at == p->n) return err_set(err, STATUS_SHAPE, "score: more rows than tokens");
    if (p->points == NULL)
        keep_row(p, logits);
    else
        compare_row(p, logits, top);
    p->at++;
    return STATUS_OK;
}

/* The prompt's last token and the followed tokens but their last: row i is what token i was chosen from. */
static enum status forced_ids(const struct pass *p, int32_t last, int32_t **out, struct err *err) {
    int32_t *ids = malloc((p->n + 1) * sizeof *ids);
    *out = ids;
    if (ids == NULL) return err_set(err, STATUS_NOMEM, "score: out of memory");
    ids[0] = last;
    for (size_t i = 1; i < p->n; i++) ids[i] = dump_record_at(p->follow, i - 1)->token;
    return STATUS_OK;
}

static enum status force_session(session *s, const int32_t *prompt, size_t n, struct pass *p,
                                 struct err *err) {
    int32_t *ids = NULL;
    if (n > 1) RETURN_IF_ERROR(session_prefill(s, prompt, n - 1, err));
    RETURN_IF_ERROR(forced_ids(p, prompt[n - 1], &ids, err));
    p->at = 0;
    enum status status = session_score(s, ids, p->n, take_row, p, err);
    free(ids);
    RETURN_IF_ERROR(status);
    if (session_overflows(s) == 0) return STATUS_OK;
    return err_set(err, STATUS_INVALID, "%llu values overflowed f16",
                   (unsigned long long)session_overflows(s));
}

static enum status force(engine *e, const struct battery_prompt *prompt, struct pass *p, struct err *err) {
    int32_t *ids = NULL;
    session *s = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(engine_encode(e, prompt->bytes, prompt->n, 1, &ids, &n, err));
    enum status status = n > 0 ? session_create(e, &s, err) : err_set(err, STATUS_USAGE, "no tokens");
    if (status == STATUS_OK) status = force_session(s, ids, n, p, err);
    session_close(s);
    free(ids);
    return status == STATUS_OK ? status : err_prefix(err, status, "prompt %s", prompt->name);
}

static enum status score_all(struct tolerance_score *s, const struct battery_prompt *prompt, struct pass *p,
                             int i, struct err *err) {
    RETURN_IF_ERROR(force(s->base, prompt, p, err));
    s->base_rows += p->n;
    s->base_wrong += p->wrong;
    for (int k = 0; k < s->n_others; k++) {
        RETURN_IF_ERROR(tolerance_series_new(s->arms[k], i, prompt->name, p->n, err));
        p->points = s->arms[k]->series[i].points;
        RETURN_IF_ERROR(force(s->others[k], prompt, p, err));
    }
    return STATUS_OK;
}

enum status tolerance_score_stream(struct tolerance_score *s, const struct battery_prompt *prompt,
                                   const dump *follow, int i, struct err *err) {
    struct engine_info info;
    struct pass p;
    memset(&p, 0, sizeof p);
    engine_describe(s->base, &info);
    p.follow = follow;
    p.n_vocab = info.n_vocab;
    p.n = (size_t)dump_count(follow);
    for (uint64_t k = 0; k < dump_count(follow); k++) {
        const struct dump_record *r = dump_record_at(follow, k);
        if (r->flags & (DUMP_NO_ID | DUMP_NO_TOP1) || r->id1 < 0 || r->id1 >= p.n_vocab ||
            (!(r->flags & DUMP_NO_TOP2) && r->id2 >= p.n_vocab) || r->token < 0 || r->token >= p.n_vocab)
            return err_set(err, STATUS_USAGE, "%s: record %llu has an id that this model does not",
                           dump_name(follow), (unsigned long long)k);
    }
    p.rows = malloc((p.n * (size_t)p.n_vocab + 1) * sizeof *p.rows);
    p.sums = malloc((p.n + 1) * sizeof *p.sums);
    enum status status = p.rows != NULL && p.sums != NULL
                             ? score_all(s, prompt, &p, i, err)
                             : err_set(err, STATUS_NOMEM, "score: %zu rows of %d logits", p.n, p.n_vocab);
    free(p.sums);
    free(p.rows);
    return status;
}

/* ---- text ------------------------------------------------------------------------------------------------------ */
struct text_pass {
    const int32_t *ids;
    int n_vocab;
    size_t at;
    double *nll;
};

static enum status text_row(void *ctx, int pos, const float *logits, const struct top2 *top,
                            struct err *err) {
    struct text_pass *p = ctx;
    (void)pos;
    (void)top;
    (void)err;
    double sum = log_sum(logits, p->n_vocab);
    p->nll[p->at] = sum - (double)logits[p->ids[p->at + 1]];
    p->at++;
    return STATUS_OK;
}

enum status tolerance_text_nll(engine *e, const struct battery_prompt *text, double **nll, size_t *n,
                               struct err *err) {
    struct engine_info info;
    struct text_pass p = {NULL, 0, 0, NULL};
    session *s = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    *nll = NULL;
    *n = 0;
    engine_describe(e, &info);
    p.n_vocab = info.n_vocab;
    RETURN_IF_ERROR(engine_encode(e, text->bytes, text->n, 1, &ids, &n_ids, err));
    p.ids = ids;
    enum status status = n_ids >= 2
                             ? session_create(e, &s, err)
                             : err_set(err, STATUS_USAGE, "text %s: fewer than two tokens", text->name);
    if (status == STATUS_OK) p.nll = malloc(n_ids * sizeof *p.nll);
    if (status == STATUS_OK && p.nll == NULL) status = err_set(err, STATUS_NOMEM, "text: out of memory");
    if (status == STATUS_OK) status = session_score(s, ids, n_ids - 1, text_row, &p, err);
    session_close(s);
    free(ids);
    if (status != STATUS_OK) {
        free(p.nll);
        return err_prefix(err, status, "text %s", text->name);
    }
    *nll = p.nll;
    *n = p.at;
    return STATUS_OK;
}
