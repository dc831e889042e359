/* test_tolerance_package.c - tier 4 as a whole: a legal regrouping is green, and each way of being wrong turns one arm red.
 * Source: ours. Exercise: ctest -R unit.tolerance_package */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tolerance_rig.h"

TestSuite(tolerance_package, .timeout = 120);

/* ---- the legal change ---------------------------------------------------------------------------------------------- */
Test(tolerance_package, a_regrouping_is_green, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.noise = 0.005f;
    h.forks = 7;
    make_candidate(h);
    struct rows *r = run_candidate();
    cr_assert_eq(r->status, STATUS_OK, "%s", r->err.message);
    for (int i = 0; i < r->n; i++)
        cr_assert(r->row[i].verdict == VERDICT_PASS || r->row[i].verdict == VERDICT_SKIP, "%s/%s %s: %s",
                  r->row[i].arm, r->row[i].metric, verdict_name(r->row[i].verdict), r->row[i].note);
    cr_assert(fabs(find(r, "benign", "delta")->value - 0.007) < 1e-4, "noise, and 0.003 at a fork: %g",
              find(r, "benign", "delta")->value);
    verdict_is(r, "forced", "moved", VERDICT_PASS);
    verdict_is(r, "forced", "max_abs", VERDICT_PASS);
    verdict_is(r, "greedy", "unexplained", VERDICT_PASS);
    verdict_is(r, "greedy", "1-p", VERDICT_PASS);
    verdict_is(r, "fork", "gap", VERDICT_PASS);
    cr_assert(strstr(find(r, "greedy", "unexplained")->note, "7 of 64") != NULL, "forks are counted");
    int negatives = 0;
    for (int i = 0; i < r->n; i++)
        negatives += strcmp(r->row[i].arm, "negative") == 0 && r->row[i].verdict == VERDICT_PASS;
    cr_assert_eq(negatives, 3, "every plant of the harness was seen");
}

/* ---- faults -------------------------------------------------------------------------------------------------------- */
Test(tolerance_package, a_hard_argmax_that_moves_is_red, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.hard_swap = 40;
    make_candidate(h);
    struct rows *r = run_candidate();
    verdict_is(r, "forced", "moved", VERDICT_FAIL);
    cr_assert(strstr(find(r, "forced", "moved")->note, "p40 step 5") != NULL, "the place is named");
    verdict_is(r, "greedy", "unexplained", VERDICT_FAIL);
}

Test(tolerance_package, more_noise_than_twice_the_controls_is_red, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.noise = 0.012f;
    make_candidate(h);
    verdict_is(run_candidate(), "forced", "max_abs", VERDICT_FAIL);
    h.noise = 0.03f; /* forks as narrow as before, after a drift that no control shows */
    make_candidate(h);
    struct rows *r = run_candidate();
    for (int i = 0; i < r->n; i++)
        cr_assert(r->row[i].verdict != VERDICT_FAIL || !(r->row[i].value <= r->row[i].bound),
                  "%s/%s: the verdict contradicts its numbers", r->row[i].arm, r->row[i].metric);
}

Test(tolerance_package, too_many_explained_forks_are_red, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.forks = 20;
    make_candidate(h);
    struct rows *r = run_candidate();
    verdict_is(r, "greedy", "unexplained", VERDICT_PASS);
    verdict_is(r, "greedy", "1-p", VERDICT_FAIL);
}

/* Each of them is excused as a near-tie; that they are so many is not. */
Test(tolerance_package, too_many_near_ties_that_move_when_forced_are_red, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.forks = 20;
    make_streams(forced, &h, 1);
    make_streams(chosen, &regrouped, 0);
    struct rows *r = run_candidate();
    verdict_is(r, "forced", "moved", VERDICT_PASS);
    verdict_is(r, "forced", "1-p", VERDICT_FAIL);
    verdict_is(r, "greedy", "1-p", VERDICT_PASS);
    cr_assert(strstr(find(r, "forced", "1-p")->note, "at 20 of 1536 positions, control at 5 of 1536") != NULL,
              "%s", find(r, "forced", "1-p")->note);
}

/* Another engine may prefill in other shapes than it decodes: said with its number, held to no bound. */
Test(tolerance_package, another_engine_whose_prefill_is_not_its_decode_is_judged, .init = set_up,
     .fini = tear_down) {
    struct engine_habit h = regrouped;
    make_streams(forced, &h, 1);
    h.forks = 7;
    make_streams(chosen, &h, 0);
    struct rows *r = run_candidate();
    cr_assert_eq(r->status, STATUS_OK, "%s", r->err.message);
    cr_assert(count(r, VERDICT_FAIL) == 0 && count(r, VERDICT_ERROR) == 0);
    const struct evidence *e = find(r, "greedy", "streams");
    cr_assert(e->verdict == VERDICT_PASS && fabs(e->value - 2) < 0.5 && isnan(e->bound), "%g of %g", e->value,
              e->bound);
}

Test(tolerance_package, a_hidden_penalty_is_red, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.penalty = 30;
    make_candidate(h);
    struct rows *r = run_candidate();
    verdict_is(r, "forced", "moved", VERDICT_PASS);
    verdict_is(r, "greedy", "unexplained", VERDICT_FAIL);
}

/* Field case A05: a build that gives two answers to one prompt regroups nothing. */
Test(tolerance_package, case_a05_a_candidate_that_does_not_repeat_itself_is_red, .init = set_up_few,
     .fini = tear_down) {
    char command[8 * WORK_PATH];
    make_candidate(regrouped);
    (void)snprintf(
        command, sizeof command,
        PROMPT_NAME
        "from=%s; if test -n '{follow}'; then from=%s; "
        "elif test -e %s/$b.seen; then from=%s; else touch %s/$b.seen; fi; cp $from/$b.fgd {out} # {n}",
        chosen, forced, root.root, base, root.root);
    struct rows *r = run_with(base, command, "a test", csv);
    verdict_is(r, "a/a", "rows", VERDICT_FAIL);
    cr_assert(strstr(find(r, "a/a", "rows")->note, "not reproducible on one build") != NULL, "said");
}

/* Field cases A04 and A06: what differs in the launch is named. */
Test(tolerance_package, case_a06_other_provenance_is_named, .init = set_up_few, .fini = tear_down) {
    make_candidate(regrouped);
    extra_key = "ranks";
    make_streams(chosen, &regrouped, 0);
    struct rows *r = run_candidate();
    int named = 0;
    for (int i = 0; i < r->n; i++)
        named += strstr(r->row[i].note, "provenance that differs") != NULL &&
                 strstr(r->row[i].note, "ranks") != NULL;
    cr_assert_eq(named, 1, "the rank count is not named");
}

Test(tolerance_package, a_program_that_fails_is_an_error, .init = set_up_few, .fini = tear_down) {
    struct rows *r =
        run_with(base, "echo lost the device >&2; exit 9 # {prompt} {n} {out} {follow}", "a test", csv);
    cr_assert(r->status != STATUS_OK && strstr(r->err.message, "lost the device") != NULL, "%s",
              r->err.message);
}
