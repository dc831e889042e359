/* test_explain.c - the op that moved first is named, and the kind of difference is called by its name. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/explain_rig.h"

static int is_named(const struct plant_case *p, const struct explain_result *r) {
    int hit = r->verdict == p->verdict && r->first.layer == p->layer && strcmp(r->first.op, p->op) == 0 &&
              strcmp(r->first.tensor, p->tensor) == 0;
    fprintf(stderr, "%-12s %-16s layer %2d %-12s %-16s %s\n", p->name, explain_verdict_name(r->verdict),
            r->first.layer, r->first.op, r->first.tensor, hit ? "hit" : "MISS");
    if (!hit) fprintf(stderr, "    %s\n", r->conclusion);
    return hit;
}

/* Every plant is named by op and by kind; and summing rows where they lie says what summing copies of all of them says, to the
 * last number. */
Test(explain, every_plant_is_named_and_the_screen_finds_what_copying_everything_finds) {
    struct engine_config c = config_of(ROUTE_Q8);
    int hits = 0;
    dump *base = stream_of(&c, short_prompt, 4, 0.0f);
    for (int i = 0; i < PLANT_CASES; i++) {
        const struct plant_case *p = &plant_cases[i];
        struct explain_result x = explain_by(&c, &c, p->plant, base, NULL, short_prompt, 0);
        struct explain_result y = explain_by(&c, &c, p->plant, base, NULL, short_prompt, 1);
        hits += is_named(p, &x);
        cr_assert_eq(x.verdict, y.verdict, "%s: %s, %s", p->name, x.conclusion, y.conclusion);
        cr_assert_eq(x.first.layer, y.first.layer, "%s", p->name);
        cr_assert_str_eq(x.first.op, y.first.op, "%s", p->name);
        cr_assert_str_eq(x.first.tensor, y.first.tensor, "%s", p->name);
        cr_assert(x.first_step == y.first_step && x.worst_pos == y.worst_pos, "%s", p->name);
        if (p->plant != PLANT_NOISE) {
            cr_assert_eq(x.n_deltas, y.n_deltas, "%s", p->name);
            cr_assert_eq(x.cost.screened, y.cost.screened, "%s", p->name);
            for (int side = 0; side < 2; side++)
                for (int s = 0; s < x.n_steps; s++)
                    cr_assert_eq(x.screen[side].steps[s].sum, y.screen[side].steps[s].sum, "%s", p->name);
            for (int d = 0; d < x.n_deltas; d++)
                cr_assert_eq(x.deltas[d].differing, y.deltas[d].differing, "%s delta %d", p->name, d);
        }
        cr_assert(y.cost.copied >= y.cost.screened, "copying everything copies everything");
        cr_assert(x.cost.copied < x.cost.screened / 3, "%s: %llu of %llu bytes copied", p->name,
                  (unsigned long long)x.cost.copied, (unsigned long long)x.cost.screened);
        explain_free(&x);
        explain_free(&y);
    }
    cr_assert_eq(hits, PLANT_CASES, "%d of %d plants named", hits, PLANT_CASES);
    dump_close(base);
}

Test(explain, another_tile_is_a_regrouping_of_the_first_attention_past_its_keys) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    b.compute.geometry.fa_tkv = 16;
    const char *prompts[2] = {short_prompt, long_prompt};
    for (int i = 0; i < 2; i++) {
        dump *base = stream_of(&a, prompts[i], 14, 0.0f);
        struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, prompts[i]);
        cr_assert_eq(r.verdict, EXPLAIN_REGROUPING, "%s", r.conclusion);
        cr_assert_str_eq(r.first.op, "attention");
        cr_assert_str_eq(r.first.kernel, "attention_f16");
        cr_assert_eq(r.first.layer, 0);
        cr_assert(r.first_pos >= 16, "position %d has no second tile", r.first_pos);
        cr_assert(r.worst_pos >= r.first_pos);
        cr_assert_eq(r.first_step == 0, i == 1, "step %d", r.first_step);
        cr_assert_eq(r.cache_equal, 1);
        cr_assert(r.first_delta.max_abs > 0.0 && r.first_delta.max_abs <= r.bound, "moved by %g of %g",
                  r.first_delta.max_abs, r.bound);
        cr_assert_eq(r.reproduced[0], 14, "%d rows reproduced: watching changed the path", r.reproduced[0]);
        explain_free(&r);
        dump_close(base);
    }
}

/* A legal regrouping of every row must not excuse the one row that is wrong. */
Test(explain, the_row_that_differs_most_is_the_one_that_is_judged) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    b.compute.geometry.fa_tkv = 16;
    dump *base = stream_of(&a, long_prompt, 2, 0.0f);
    struct explain_result r = explain(&a, &b, PLANT_LAST_ROW, base, NULL, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_WRONG_VALUE, "%s", r.conclusion);
    cr_assert(r.rows_differing > 1 && r.first_pos < r.worst_pos, "%d rows from %d on, worst %d",
              r.rows_differing, r.first_pos, r.worst_pos);
    cr_assert_eq(r.worst_pos, r.rows - 1);
    cr_assert_eq(r.first_delta.pos, r.worst_pos);
    explain_free(&r);
    dump_close(base);
}

/* The same token twice gives the same value row twice, on both sides: no sign of a stale buffer. */
Test(explain, a_repeated_token_is_not_taken_for_a_stale_row) {
    static const char again[] = " and and and and";
    struct engine_config c = config_of(ROUTE_F16);
    dump *base = stream_of(&c, again, 2, 0.0f);
    struct explain_result r = explain(&c, &c, PLANT_V_HALF, base, NULL, again);
    cr_assert_str_eq(r.first.tensor, "k", "%s", r.first.tensor);
    cr_assert_eq(r.verdict, EXPLAIN_WRONG_VALUE, "%s", r.conclusion);
    explain_free(&r);
    dump_close(base);
}

/* The same ULP on q8: the quantiser turns it into whole codes. */
Test(explain, on_q8_the_quantiser_shows_as_the_amplifier) {
    struct engine_config a = config_of(ROUTE_Q8), b = a;
    char *text = NULL;
    size_t bytes = 0;
    b.compute.geometry.fa_tkv = 16;
    dump *base = stream_of(&a, long_prompt, 4, 0.0f);
    struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_REGROUPING, "%s", r.conclusion);
    cr_assert_str_eq(r.first.op, "attention");
    double flipped = 0.0, logits = 0.0;
    for (int i = 0; i < r.n_deltas; i++) {
        const struct explain_delta *d = &r.deltas[i];
        size_t n = strlen(d->op.tensor);
        if (strcmp(d->op.op, "act_prepare") == 0 && strcmp(d->op.tensor + n - 6, ".q8_32") == 0)
            flipped += (double)d->differing;
        if (strcmp(d->op.tensor, "logits") == 0) logits = d->max_abs / d->row_max;
    }
    cr_assert(flipped > 100.0, "%g codes flipped", flipped);
    cr_assert(logits > 4.0 * r.first_delta.max_abs / r.first_delta.row_max, "logits moved by %g", logits);
    struct explain_side sides[2];
    memset(sides, 0, sizeof sides);
    sides[0].config = a;
    sides[1].config = b;
    struct explain_request q = {&sides[0], &sides[1], NULL, 30, base, NULL, 0, 0, NULL, NULL};
    struct explain_view view = {{"A", "B"}, 0, 100, NULL};
    FILE *out = open_memstream(&text, &bytes);
    explain_report_text(out, &q, &r, &view);
    (void)fclose(out);
    cr_assert(strstr(text, "int8 codes flipped") != NULL, "no amplifier in the report");
    cr_assert(strstr(text, "verdict     REGROUPING") != NULL);
    free(text);
    explain_free(&r);
    dump_close(base);
}

Test(explain, threads_chunks_query_tiles_and_splits_change_no_op) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    dump *base = stream_of(&a, long_prompt, 3, 0.0f);
    b.compute.n_threads = 3;
    b.compute.geometry.fa_tq = 128;
    b.compute.geometry.fa_splits = 3;
    b.chunk = 7;
    struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_IDENTICAL, "%s", r.conclusion);
    cr_assert_eq(r.first_step, -1);
    cr_assert_eq(explain_exit_code(r.verdict), 0);
    explain_free(&r);
    dump_close(base);
}

Test(explain, other_routes_and_caches_are_other_arithmetic) {
    struct engine_config a = config_of(ROUTE_F16), b = config_of(ROUTE_Q8), c = a;
    dump *base = stream_of(&a, short_prompt, 2, 0.0f);
    struct explain_result r = explain(&a, &b, PLANT_NONE, base, NULL, short_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_ARITHMETIC, "%s", r.conclusion);
    cr_assert_str_eq(r.first.op, "matmul");
    cr_assert_str_eq(r.first.tensor, "q");
    explain_free(&r);
    c.kv = KV_Q8_0;
    r = explain(&a, &c, PLANT_NONE, base, NULL, short_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_ARITHMETIC, "%s", r.conclusion);
    cr_assert_str_eq(r.first.tensor, "k_cache");
    explain_free(&r);
    dump_close(base);
}

Test(explain, two_streams_of_one_engine_differ_by_sampling_only) {
    struct engine_config c = config_of(ROUTE_F16);
    dump *base = stream_of(&c, short_prompt, 8, 0.0f), *other = stream_of(&c, short_prompt, 8, 3.0f);
    struct explain_result r = explain(&c, &c, PLANT_NONE, base, other, short_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_SAMPLING, "%s", r.conclusion);
    cr_assert(r.fork >= 0 && r.n_steps == r.fork + 1, "fork %d of %d steps", r.fork, r.n_steps);
    cr_assert_eq(r.reproduced[1], r.n_steps);
    explain_free(&r);
    dump_close(base);
    dump_close(other);
}

Test(explain, dumps_that_no_rebuilt_side_reproduces_are_said_to_be_so) {
    struct engine_config a = config_of(ROUTE_F16), b = a;
    b.compute.geometry.fa_tkv = 16;
    dump *base = stream_of(&a, long_prompt, 3, 0.0f), *other = stream_of(&b, long_prompt, 3, 0.0f);
    struct explain_result r = explain(&a, &a, PLANT_NONE, base, other, long_prompt);
    cr_assert_eq(r.verdict, EXPLAIN_NOT_REPRODUCED, "%s", r.conclusion);
    cr_assert_eq(explain_exit_code(r.verdict), 2);
    cr_assert_eq(r.reproduced_until[1], 0);
    cr_assert_eq(r.reproduced_until[0], -1);
    explain_free(&r);
    dump_close(base);
    dump_close(other);
}
