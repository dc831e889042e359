/* test_tolerance.c - what tier 4 must allow and what it must not: field cases A03, A12, A18, and the harness's own plants.
 * Source: ours. Exercise: ctest -R unit.tolerance */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "gates/tolerance_damage.h"
#include "tests/dump_maker.h"

static const char *const keys[] = {"n_vocab", "1000",           "logits", "f32", "sampler",
                                   "greedy",  "repeat_penalty", "1",      NULL};

TestSuite(tolerance, .timeout = 60);

/* A stream of n tokens: hard positions with margin 3, and a near-tie of 0.004 at every fifth. */
static struct dump_record base_record(int i) {
    float top = 18.0f + 0.25f * (float)(i % 7);
    return greedy(100 + i, top, 50, i % 5 == 4 ? top - 0.004f : top - 3.0f);
}

static dump *base_stream(int n) {
    struct made m = make_begin(NULL, 0, keys);
    for (int i = 0; i < n; i++) make_record(&m, base_record(i), " w", 2, NULL);
    return make_end(&m);
}

/* The same tokens forced through a side that moves both logits by +-noise; at `swap` its first and second change places. */
static dump *forced_stream(int n, float noise, int swap) {
    struct made m = make_begin(NULL, 0, keys);
    for (int i = 0; i < n; i++) {
        struct dump_record r = base_record(i);
        float sign = i % 2 == 0 ? 1.0f : -1.0f;
        r.logit1 += sign * noise;
        r.logit2 -= sign * noise;
        if (i == swap) {
            int32_t id = r.id1;
            r.id1 = r.id2;
            r.id2 = id;
        }
        make_record(&m, r, " w", 2, NULL);
    }
    return make_end(&m);
}

static struct tolerance_arm arm_of(dump *base, dump *forced) {
    struct tolerance_arm a;
    struct err err = {""};
    cr_assert_eq(tolerance_arm_new("test", 1, &a, &err), STATUS_OK);
    cr_assert_eq(tolerance_series_from(base, forced, &a, 0, "s", &err), STATUS_OK, "%s", err.message);
    dump_close(base);
    dump_close(forced);
    return a;
}

static enum verdict judge(struct tolerance_arm a, double delta, char reason[512]) {
    enum verdict v = tolerance_judge_forced(&a, delta, reason, 512);
    tolerance_arm_free(&a);
    return v;
}

Test(tolerance, delta_is_the_largest_change_of_either_logit) {
    struct tolerance_arm a = arm_of(base_stream(20), forced_stream(20, 0.001f, -1));
    struct tolerance_delta d = tolerance_delta_of(&a);
    cr_assert(fabs(d.delta - 0.001) < 1e-5, "delta %.9g", d.delta);
    cr_assert_eq(d.points, 20);
    cr_assert_eq(d.bounded, 0);
    tolerance_arm_free(&a);
    a = arm_of(base_stream(20), base_stream(20));
    cr_assert(tolerance_delta_of(&a).delta <= 0.0, "a side equal to the base changes nothing");
    tolerance_arm_free(&a);
}

Test(tolerance, an_id_that_left_the_top_two_is_known_from_below) {
    struct made m = make_begin(NULL, 0, keys), f = make_begin(NULL, 0, keys);
    make_record(&m, greedy(1, 20.0f, 2, 19.0f), "x", 1, NULL);
    struct dump_record r = greedy(1, 20.0f, 3, 18.5f); /* 2 fell below 18.5: by half a nat or more */
    make_record(&f, r, "x", 1, NULL);
    struct tolerance_arm a = arm_of(make_end(&m), make_end(&f));
    struct tolerance_delta d = tolerance_delta_of(&a);
    cr_assert(fabs(d.delta - 0.5) < 1e-6 && d.bounded == 1, "delta %.9g bounded %d", d.delta, (int)d.bounded);
    tolerance_arm_free(&a);
}

/* A side that recorded its top-1 only: no change is claimed, and each logit that nothing is known of is counted. */
Test(tolerance, logits_that_were_not_recorded_are_counted_as_unknown) {
    for (int other = 0; other < 2; other++) {
        struct made m = make_begin(NULL, 0, keys), f = make_begin(NULL, 0, keys);
        make_record(&m, greedy(1, 20.0f, 2, 19.0f), "x", 1, NULL);
        struct dump_record r = greedy(1, 20.0f, -1, 0.0f);
        if (other) r.id1 = 3;
        r.flags |= DUMP_NO_TOP2;
        make_record(&f, r, "x", 1, NULL);
        struct tolerance_arm a = arm_of(make_end(&m), make_end(&f));
        struct tolerance_delta d = tolerance_delta_of(&a);
        cr_assert(d.delta <= 0.0 && d.bounded == (uint64_t)(1 + other), "delta %.9g, %d unknown", d.delta,
                  (int)d.bounded);
        tolerance_arm_free(&a);
    }
}

/* A vocabulary of one, or a mask that leaves one: the second is absent or -Inf on both sides, and has not changed. */
Test(tolerance, a_missing_second_choice_does_not_change) {
    struct made m = make_begin(NULL, 0, keys), f = make_begin(NULL, 0, keys);
    struct dump_record r = greedy(1, 20.0f, -1, 0.0f);
    r.flags |= DUMP_NO_TOP2;
    make_record(&m, r, "x", 1, NULL);
    make_record(&f, r, "x", 1, NULL);
    struct tolerance_arm a = arm_of(make_end(&m), make_end(&f));
    cr_assert(tolerance_delta_of(&a).delta <= 0.0, "delta %g", tolerance_delta_of(&a).delta);
    cr_assert_eq(tolerance_argmax_of(&a, 0.1).hard, 1, "nothing competes: a hard position");
    tolerance_arm_free(&a);
}

Test(tolerance, margin_is_declared_and_never_excuses_nan) {
    cr_assert(tolerance_margin(0.01) <= 0.1 && tolerance_margin(0.01) >= 0.1, "the floor");
    cr_assert(fabs(tolerance_margin(0.2) - 0.4) < 1e-12, "twice delta");
    cr_assert(isnan(tolerance_margin((double)NAN)) && isnan(tolerance_margin(-1.0)), "no control, no margin");
    char reason[512];
    cr_assert_eq(judge(arm_of(base_stream(20), forced_stream(20, 0.0f, 4)), (double)NAN, reason),
                 VERDICT_FAIL, "without a delta every position is hard, a moved near-tie too");
}

Test(tolerance, a_near_tie_may_move_a_hard_argmax_may_not) {
    char reason[512];
    struct tolerance_arm a = arm_of(base_stream(20), forced_stream(20, 0.004f, 4));
    struct tolerance_argmax m = tolerance_argmax_of(&a, 0.1);
    cr_assert_eq(m.hard, 16);
    cr_assert_eq(m.near_ties, 4);
    cr_assert_eq(m.moved, 1);
    cr_assert_eq(m.wrong, 0);
    cr_assert_eq(tolerance_forked(&a), 1, "greedy would have forked there");
    cr_assert_eq(judge(a, 0.005, reason), VERDICT_PASS, "%s", reason);
    a = arm_of(base_stream(20), forced_stream(20, 0.001f, 7));
    m = tolerance_argmax_of(&a, 0.1);
    cr_assert_eq(m.wrong, 1);
    cr_assert_eq(m.point, 7);
    cr_assert_eq(judge(a, 0.001, reason), VERDICT_FAIL);
    cr_assert(strstr(reason, "step 7") != NULL, "the place is named: %s", reason);
}

Test(tolerance, drift_beyond_twice_the_control_is_no_regrouping) {
    char reason[512];
    cr_assert_eq(judge(arm_of(base_stream(20), forced_stream(20, 0.0019f, -1)), 0.001, reason), VERDICT_PASS,
                 "%s", reason);
    cr_assert_eq(judge(arm_of(base_stream(20), forced_stream(20, 0.0022f, -1)), 0.001, reason), VERDICT_FAIL);
    cr_assert(strstr(reason, "twice the control") != NULL, "%s", reason);
}

/* Two engines that agree on NaN agree on nothing. */
Test(tolerance, an_invalid_row_fails_even_at_a_near_tie) {
    struct made m = make_begin(NULL, 0, keys);
    for (int i = 0; i < 10; i++) {
        struct dump_record r = base_record(i);
        if (i == 4) r.logit1 = NAN;
        make_record(&m, r, " w", 2, NULL);
    }
    struct tolerance_arm a = arm_of(base_stream(10), make_end(&m));
    char reason[512];
    cr_assert(isnan(tolerance_delta_of(&a).delta), "a control with NaN has no delta");
    a.series[0].points[4].invalid = 0; /* the same from a row whose second logit alone is NaN */
    a.series[0].points[4].got1 = a.series[0].points[4].base1;
    a.series[0].points[4].got2 = NAN;
    cr_assert(isnan(tolerance_delta_of(&a).delta), "the second logit counts");
    cr_assert_eq(judge(a, 1.0, reason), VERDICT_FAIL);
}

/* Field case A03: past a fork nothing may be compared; a fork at token 0 is a fork like any other. */
Test(tolerance, case_a03_streams_past_a_fork_are_refused) {
    struct made m = make_begin(NULL, 0, keys);
    make_record(&m, greedy(27, 18.0f, 1, 17.9f), " z", 2, NULL);
    make_record(&m, greedy(28, 5.0f, 1, 1.0f), " z", 2, NULL);
    dump *base = base_stream(2), *other = make_end(&m), *early = base_stream(1);
    struct tolerance_arm a;
    struct err err = {""};
    cr_assert_eq(tolerance_arm_new("test", 1, &a, &err), STATUS_OK);
    cr_assert_eq(tolerance_series_from(base, other, &a, 0, "s", &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "token 0 is 27") != NULL, "%s", err.message);
    cr_assert_eq(tolerance_series_from(base, early, &a, 0, "s", &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "1 records") != NULL, "%s", err.message);
    tolerance_arm_free(&a);
    dump_close(base);
    dump_close(other);
    dump_close(early);
}

static enum verdict judge_stream(dump *base, dump *got, double delta, char reason[512]) {
    struct diff_control control = {delta, "test"};
    struct diff_result r;
    enum verdict v = tolerance_judge_stream(base, got, &control, &r, reason, 512);
    dump_close(base);
    dump_close(got);
    return v;
}

static dump *greedy_fork(int at, float gap) {
    struct made m = make_begin(NULL, 0, keys);
    for (int i = 0; i < at; i++) make_record(&m, base_record(i), " w", 2, NULL);
    struct dump_record r = base_record(at);
    int32_t other = r.id1;
    float top = r.logit1;
    make_record(&m, greedy(50, top, other, top - gap), " v", 2, NULL);
    return make_end(&m);
}

Test(tolerance, a_fork_needs_an_explanation) {
    char reason[512];
    cr_assert_eq(judge_stream(base_stream(10), greedy_fork(4, 0.003f), 0.01, reason), VERDICT_PASS, "%s",
                 reason);
    cr_assert_eq(judge_stream(base_stream(10), greedy_fork(4, 0.003f), 0.001, reason), VERDICT_FAIL);
    cr_assert_eq(judge_stream(base_stream(10), greedy_fork(3, 3.0f), 0.01, reason), VERDICT_FAIL);
    cr_assert_eq(judge_stream(base_stream(10), base_stream(10), 0.0, reason), VERDICT_PASS, "%s", reason);
    cr_assert_eq(judge_stream(base_stream(10), base_stream(9), 0.01, reason), VERDICT_FAIL, "a lost token");
}

/* Field case A18: the margin rule holds for an end token as for any other. */
Test(tolerance, case_a18_ending_early_is_a_fork) {
    char reason[512];
    for (int clear = 0; clear < 2; clear++) {
        struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
        float gap = clear ? 4.0f : 0.003f;
        make_plain(&a, 12);
        make_plain(&b, 12);
        struct dump_record end = greedy(2, 18.0f, 7, 18.0f - gap);
        end.flags |= DUMP_END;
        make_record(&a, end, "", 0, NULL);
        make_record(&b, greedy(7, 18.0f, 2, 18.0f - gap), " x", 2, NULL);
        make_record(&b, greedy(8, 18.0f, 2, 12.0f), " y", 2, NULL);
        enum verdict v = judge_stream(make_end(&a), make_end(&b), 0.01, reason);
        cr_assert_eq(v, clear ? VERDICT_FAIL : VERDICT_PASS, "gap %g: %s", (double)gap, reason);
    }
}

/* Field case A12: a penalty that the header hides shows in the records; one that it declares is refused. */
Test(tolerance, case_a12_a_hidden_penalty_is_found_even_on_both_sides) {
    char reason[512];
    dump *sides[2];
    for (int k = 0; k < 2; k++) {
        struct made m = make_begin(NULL, 0, keys);
        make_plain(&m, 18);
        struct dump_record r = greedy(3, 20.0f, 4, 19.5f);
        r.token = 4; /* raw top-1 is 3 */
        make_record(&m, r, " x", 2, NULL);
        sides[k] = make_end(&m);
    }
    cr_assert_eq(judge_stream(sides[0], sides[1], 1.0, reason), VERDICT_FAIL, "identical, and both wrong");
    cr_assert(strstr(reason, "hidden penalty") != NULL, "%s", reason);
    const char *penalised[] = {"sampler", "greedy", "repeat_penalty", "1.1", NULL};
    struct made m = make_begin(NULL, 0, penalised);
    make_plain(&m, 3);
    struct made p = make_begin(NULL, 0, keys);
    make_plain(&p, 3);
    cr_assert_eq(judge_stream(make_end(&p), make_end(&m), 1.0, reason), VERDICT_ERROR);
    cr_assert(strstr(reason, "repeat_penalty=1.1") != NULL, "%s", reason);
}

Test(tolerance, the_raw_argmax_is_taken_from_the_stored_row_where_there_is_one) {
    const char *full[] = {"n_vocab", "4", "sampler", "greedy", "repeat_penalty", "1", NULL};
    const float row[4] = {1.0f, 3.5f, 3.5f, 2.0f};
    for (int32_t token = 1; token <= 2; token++) {
        struct made m = make_begin(NULL, 4, full);
        make_record(&m, greedy(token, 3.5f, 3 - token, 3.5f), "x", 1, row);
        dump *d = make_end(&m);
        uint64_t other = 0;
        struct err err = {""};
        cr_assert_eq(tolerance_greedy(d, &other, &err), STATUS_OK, "%s", err.message);
        cr_assert_eq(other, token == 1 ? UINT64_MAX : 0, "the lowest id of equals wins");
        dump_close(d);
    }
}

/* An exact tie that the sides break by different rules is no regrouping. */
Test(tolerance, another_tie_rule_is_not_excused) {
    char reason[512];
    struct made a = make_begin(NULL, 0, keys), b = make_begin(NULL, 0, keys);
    make_plain(&a, 3);
    make_plain(&b, 3);
    make_record(&a, greedy(4, 20.0f, 9, 20.0f), " x", 2, NULL);
    make_record(&b, greedy(9, 20.0f, 4, 20.0f), " y", 2, NULL);
    cr_assert_eq(judge_stream(make_end(&a), make_end(&b), 0.01, reason), VERDICT_FAIL);
    cr_assert(strstr(reason, "tie") != NULL, "%s", reason);
}

Test(tolerance, kl_needs_rows_and_keeps_nan) {
    struct tolerance_arm a = arm_of(base_stream(4), base_stream(4));
    struct stats_mean m;
    double largest = 0.0;
    struct err err = {""};
    cr_assert_eq(tolerance_kl_of(&a, &m, &largest, &err), STATUS_OK);
    cr_assert_eq(m.n, 0, "records hold no rows");
    for (size_t i = 0; i < 4; i++) a.series[0].points[i].kl = 1e-6 * (double)(i + 1);
    cr_assert_eq(tolerance_kl_of(&a, &m, &largest, &err), STATUS_OK);
    cr_assert(m.n == 4 && fabs(m.mean - 2.5e-6) < 1e-12 && fabs(largest - 4e-6) < 1e-12, "mean %g", m.mean);
    a.series[0].points[2].invalid = 1;
    a.series[0].points[2].kl = (double)NAN;
    cr_assert_eq(tolerance_kl_of(&a, &m, &largest, &err), STATUS_OK);
    cr_assert(isnan(m.mean) && isnan(largest), "an invalid row is not left out of a mean");
    tolerance_arm_free(&a);
}

/* The plants of the harness are at the detection floor and are seen; half of one is not. */
Test(tolerance, every_plant_of_the_harness_turns_the_tier_red) {
    for (int k = 0; k < DAMAGES; k++) {
        dump *base = base_stream(40), *damaged = NULL;
        char floor[128];
        int seen = 0;
        struct err err = {""};
        cr_assert_eq(damage_make(base, (enum damage)k, 0.01, &damaged, floor, sizeof floor, &err), STATUS_OK);
        cr_assert(damaged != NULL, "%s: %s", damage_name((enum damage)k), floor);
        cr_assert_eq(damage_is_seen(base, damaged, (enum damage)k, 0.01, &seen, &err), STATUS_OK, "%s",
                     err.message);
        cr_assert(seen == 1, "%s (%s) was not seen", damage_name((enum damage)k), floor);
        cr_assert_eq(damage_is_seen(base, base, (enum damage)k, 0.01, &seen, &err), STATUS_OK);
        cr_assert(seen == 0, "%s: an undamaged stream must stay green", damage_name((enum damage)k));
        dump_close(damaged);
        dump_close(base);
    }
}

/* The floor is found by trying: just above 2 delta is seen, just below is not, and both are said. */
Test(tolerance, the_detection_floor_lies_between_seen_and_not_seen) {
    dump *base = base_stream(40);
    char floor[160];
    int seen = 0;
    struct err err = {""};
    double above = 0, below = 0, top = 0;
    for (uint64_t i = 0; i < dump_count(base); i++) top = fmax(top, (double)dump_record_at(base, i)->logit1);
    cr_assert_eq(damage_floor(base, DAMAGE_SCALED_ROW, 0.01, &seen, floor, sizeof floor, &err), STATUS_OK);
    cr_assert(seen && sscanf(floor, "the logits of 1 row x %lf (x %lf", &above, &below) == 2, "%s", floor);
    cr_assert((above - 1) * top > 0.02 && (above - 1) * top < 0.022, "%s", floor);
    cr_assert((below - 1) * top <= 0.02 * (1 + 1e-5) && below < above, "%s", floor);
    /* the last factor that is tried is the 2 that the floor names where nothing is seen */
    cr_assert_eq(damage_floor(base, DAMAGE_SCALED_ROW, 0.48 * top, &seen, floor, sizeof floor, &err),
                 STATUS_OK);
    cr_assert(seen && sscanf(floor, "the logits of 1 row x %lf", &above) == 1 && above > 1.96, "%s", floor);
    cr_assert_eq(damage_floor(base, DAMAGE_SCALED_ROW, 1e6, &seen, floor, sizeof floor, &err), STATUS_OK);
    cr_assert(!seen && strcmp(floor, "the logits of 1 row x 2") == 0, "a gate that sees nothing: %s", floor);
    dump_close(base);
}

Test(tolerance, a_stream_of_near_ties_has_no_place_for_a_plant) {
    struct made m = make_begin(NULL, 0, keys);
    for (int i = 0; i < 5; i++) make_record(&m, base_record(4), " w", 2, NULL);
    dump *base = make_end(&m), *damaged = NULL;
    char floor[128];
    struct err err = {""};
    cr_assert_eq(damage_make(base, DAMAGE_SWAPPED_TOKEN, 0.01, &damaged, floor, sizeof floor, &err),
                 STATUS_OK);
    cr_assert(damaged == NULL && strstr(floor, "no place") != NULL, "%s", floor);
    dump_close(base);
}
