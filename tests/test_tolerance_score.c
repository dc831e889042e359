/* test_tolerance_score.c - whole rows compared: KL against values computed elsewhere, and two engines forced together
 * against the dumps that the same engines write.
 * Source: ours. Exercise: ctest -R unit.tolerance_score */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/tolerance_score.h"

#define MODEL  FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"
#define TOKENS 10

TestSuite(tolerance_score, .timeout = 60);

static char text[] = "It was a dark night, and the sea";
static struct battery_prompt prompt = {"night", text, sizeof text - 1};

/* ---- KL ---- */
Test(tolerance_score, kl_against_values_computed_elsewhere) {
    const float a[4] = {1.0f, 2.0f, 0.5f, -1.0f}, b[4] = {1.25f, 1.75f, 0.5f, -2.0f};
    double kl = tolerance_row_kl(a, b, 4), back = tolerance_row_kl(b, a, 4);
    cr_assert(fabs(kl - 0.032002751017281436) < 1e-14, "KL(a || b) = %.17g", kl);
    cr_assert(fabs(back - 0.031057551492052218) < 1e-14, "KL(b || a) = %.17g: it is not symmetric", back);
    cr_assert(fabs(tolerance_row_kl(a, a, 4)) < 1e-15, "a row against itself");
    const float shifted[4] = {11.0f, 12.0f, 10.5f, 9.0f};
    cr_assert(fabs(tolerance_row_kl(a, shifted, 4)) < 1e-14, "a constant does not change a distribution");
}

Test(tolerance_score, kl_of_masks_and_broken_rows) {
    const float inf = INFINITY, masked[3] = {1.0f, 2.0f, -inf}, other[3] = {1.5f, 2.0f, -inf};
    const float open[3] = {1.0f, 2.0f, 0.0f}, nan[3] = {1.0f, NAN, 0.0f}, high[3] = {1.0f, inf, 0.0f};
    cr_assert(tolerance_row_kl(masked, other, 3) > 0 && isfinite(tolerance_row_kl(masked, other, 3)),
              "both mask it");
    cr_assert(isinf(tolerance_row_kl(open, masked, 3)), "what the base allows and the other forbids");
    cr_assert(isnan(tolerance_row_kl(nan, open, 3)) && isnan(tolerance_row_kl(open, nan, 3)), "NaN stays");
    cr_assert(isnan(tolerance_row_kl(high, open, 3)) && isnan(tolerance_row_kl(open, high, 3)),
              "+Inf is no logit");
}

/* ---- engines ---- */
static engine *open_engine(int fa_tkv) {
    struct engine_config c = engine_config_default();
    struct err err = {""};
    engine *e = NULL;
    c.compute.geometry.fa_tkv = fa_tkv;
    cr_assert_eq(engine_open(MODEL, &c, &e, &err), STATUS_OK, "%s", err.message);
    return e;
}

static dump *stream_of(engine *e, const dump *follow) {
    struct generate_request r;
    struct err err = {""};
    dump *d = NULL;
    memset(&r, 0, sizeof r);
    r.prompt_name = prompt.name;
    r.prompt = prompt.bytes;
    r.prompt_bytes = prompt.n;
    r.n = TOKENS;
    r.sampler = sampler_greedy();
    r.follow = follow;
    enum status s =
        follow != NULL ? generate_score(e, &r, &d, &err) : generate_run(e, &r, 1, 1, NULL, NULL, &d, &err);
    cr_assert_eq(s, STATUS_OK, "%s", err.message);
    return d;
}

/* Two engines side by side say what each says alone, and one that is the base moves nothing. */
Test(tolerance_score, points_are_those_of_the_dumps) {
    engine *base = open_engine(32), *twin = open_engine(32), *other = open_engine(16);
    dump *d = stream_of(base, NULL), *forced = stream_of(other, d);
    struct tolerance_arm same, moved;
    struct tolerance_score s;
    struct err err = {""};
    cr_assert_eq(tolerance_arm_new("same", 1, &same, &err), STATUS_OK);
    cr_assert_eq(tolerance_arm_new("moved", 1, &moved, &err), STATUS_OK);
    memset(&s, 0, sizeof s);
    s.base = base;
    s.others[0] = twin;
    s.arms[0] = &same;
    s.others[1] = other;
    s.arms[1] = &moved;
    s.n_others = 2;
    cr_assert_eq(tolerance_score_stream(&s, &prompt, d, 0, &err), STATUS_OK, "%s", err.message);
    cr_assert(s.base_rows == dump_count(d) && s.base_wrong == 0, "%d rows are not the base's",
              (int)s.base_wrong);
    cr_assert_eq(tolerance_rows_differ(&same, NULL), 0);
    cr_assert(tolerance_rows_differ(&moved, NULL) > 0, "another tile moves rows");
    cr_assert_eq(same.series[0].n, dump_count(d));
    for (size_t i = 0; i < same.series[0].n; i++) {
        const struct tolerance_point *p = &same.series[0].points[i], *q = &moved.series[0].points[i];
        const struct dump_record *r = dump_record_at(d, i), *f = dump_record_at(forced, i);
        cr_assert(fabs(p->kl) < 1e-12 && isfinite(q->kl) && q->kl < 1e-3, "KL %g and %g", p->kl, q->kl);
        cr_assert(p->base_id1 == r->id1 && p->id1 == r->id1 && p->token == r->token, "ids of step %zu", i);
        cr_assert(memcmp(&p->got1, &r->logit1, 4) == 0 && memcmp(&p->got2, &r->logit2, 4) == 0,
                  "logits, same build");
        cr_assert_eq(q->id1, f->id1);
        if (f->id1 == r->id1)
            cr_assert(memcmp(&q->got1, &f->logit1, 4) == 0, "logits, other tile, step %zu", i);
    }
    tolerance_arm_free(&same);
    tolerance_arm_free(&moved);
    dump_close(forced);
    dump_close(d);
    engine_close(base);
    engine_close(twin);
    engine_close(other);
}

/* The dump says one thing, the engine that should have made it another: every row is counted. */
Test(tolerance_score, a_base_that_is_another_build_is_counted) {
    engine *base = open_engine(32), *other = open_engine(16);
    dump *d = stream_of(other, NULL);
    struct tolerance_score s;
    struct err err = {""};
    memset(&s, 0, sizeof s);
    s.base = base;
    cr_assert_eq(tolerance_score_stream(&s, &prompt, d, 0, &err), STATUS_OK, "%s", err.message);
    cr_assert(s.base_wrong > 0, "rows of another tile were taken for the base's");
    dump_close(d);
    engine_close(base);
    engine_close(other);
}

/* ---- fixed text ---- */
Test(tolerance_score, nll_is_the_logsumexp_less_the_logit) {
    engine *e = open_engine(32);
    dump *d = stream_of(e, NULL);
    struct err err = {""};
    double *nll = NULL;
    size_t n = 0;
    char whole[512] = "";
    (void)snprintf(whole, sizeof whole, "%s", text);
    for (uint64_t i = 0; i < dump_count(d); i++) {
        uint32_t bytes = 0;
        const uint8_t *t = dump_text(d, i, &bytes);
        strncat(whole, (const char *)t, bytes);
    }
    struct battery_prompt all = {"whole", whole, strlen(whole)};
    cr_assert_eq(tolerance_text_nll(e, &all, &nll, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert(n >= TOKENS, "%zu tokens", n);
    /* the text is what greedy said: its last token is the argmax of its row, if it is encoded as it was decoded */
    const struct dump_record *last = dump_record_at(d, dump_count(d) - 1);
    double want = last->logsumexp - (double)last->logit1;
    cr_assert(fabs(nll[n - 1] - want) < 1e-5, "%.9g, the record says %.9g", nll[n - 1], want);
    for (size_t i = 0; i < n; i++) cr_assert(isfinite(nll[i]) && nll[i] > 0, "token %zu: %g", i, nll[i]);
    free(nll);
    all.n = 1;
    whole[0] = 'I';
    cr_assert_eq(tolerance_text_nll(e, &all, &nll, &n, &err), STATUS_USAGE,
                 "one token has nothing before it");
    dump_close(d);
    engine_close(e);
}
