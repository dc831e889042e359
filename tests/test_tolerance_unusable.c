/* test_tolerance_unusable.c - tier 4 as a whole: what cannot be judged (no cause, no control, the same build, a base that does
 * not repeat itself) is INCONCLUSIVE, never green. Source: ours. Exercise: ctest -R unit.tolerance_unusable */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tolerance_rig.h"

TestSuite(tolerance_unusable, .timeout = 120);

Test(tolerance_unusable, without_a_cause_nothing_is_judged, .init = set_up_few, .fini = tear_down) {
    make_candidate(regrouped);
    inconclusive(run_with(base, copier(), NULL, csv), "--cause");
}

Test(tolerance_unusable, a_base_that_is_the_candidate_proves_nothing, .init = set_up_few, .fini = tear_down) {
    make_candidate(regrouped);
    inconclusive(run_with(copier(), copier(), "a test", csv), "self-comparison proves nothing");
}

/* The same program under another name, an option that is ignored, an answer that is the question. */
Test(tolerance_unusable, a_candidate_that_moved_no_bit_is_no_regrouping, .init = set_up_few,
     .fini = tear_down) {
    char command[8 * WORK_PATH];
    make_candidate(honest);
    inconclusive(run_candidate(), "equal in every row");
    make_candidate(regrouped);
    (void)snprintf(command, sizeof command,
                   PROMPT_NAME
                   "if test -n '{follow}'; then cp {follow} {out}; else cp %s/$b.fgd {out}; fi # {n}",
                   chosen);
    inconclusive(run_with(base, command, "a test", csv), "equal in every row");
    no_hashes = 1;
    make_candidate(honest);
    inconclusive(run_candidate(), "equal in every row");
}

Test(tolerance_unusable, a_candidate_without_hashes_whose_top_two_moved_is_judged, .init = set_up,
     .fini = tear_down) {
    no_hashes = 1;
    make_candidate(regrouped);
    cr_assert_eq(count(run_candidate(), VERDICT_INCONCLUSIVE), 0, "the top two moved");
}

Test(tolerance_unusable, a_base_that_does_not_repeat_itself_judges_nothing, .init = set_up_few,
     .fini = tear_down) {
    char command[8 * WORK_PATH];
    make_candidate(regrouped);
    /* the first answer to a prompt is the base's, every later one the control's */
    (void)snprintf(command, sizeof command,
                   PROMPT_NAME "if test -e %s/$b.seen; then cp %s/$b.fgd {out}; else cp "
                               "%s/$b.fgd {out}; fi; "
                               "touch %s/$b.seen # {n} {follow}",
                   root.root, control, base, root.root);
    struct rows *r = run_with(command, copier(), "a test", csv);
    inconclusive(r, "not reproducible");
    cr_assert_str_eq(r->row[r->n - 1].arm, "a/a", "nothing is judged after it");
}

Test(tolerance_unusable, without_a_control_nothing_is_judged, .init = set_up_few, .fini = tear_down) {
    char elsewhere[WORK_PATH];
    struct err err = {""};
    make_candidate(regrouped);
    cr_assert_eq(work_folder_sub(&root, "alone", elsewhere, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "alone/base", elsewhere, &err), STATUS_OK);
    make_streams(elsewhere, &honest, 0);
    inconclusive(run_with(elsewhere, copier(), "a test", csv), "no control");
}

/* A control of other streams says nothing about these. */
Test(tolerance_unusable, a_control_that_follows_another_base_is_left_out, .init = set_up_few,
     .fini = tear_down) {
    make_candidate(regrouped);
    other_base = 1;
    make_streams(control, &regrouped, 1);
    inconclusive(run_candidate(), "no control");
}

/* Made in an order that neither a file system's own nor its reverse turns into that of the names. */
Test(tolerance_unusable, the_controls_are_the_first_by_name, .init = set_up_few, .fini = tear_down) {
    static const char *const names[] = {"control-b", "control-z", "control-y", "control-a"};
    char dir[WORK_PATH];
    struct err err = {""};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(work_folder_sub(&root, names[i], dir, &err), STATUS_OK, "%s", err.message);
        make_streams(dir, &regrouped, 1);
    }
    make_candidate(regrouped);
    struct rows *r = run_candidate();
    int benign = 0;
    for (int i = 0; i < r->n; i++) {
        if (strcmp(r->row[i].metric, "delta") != 0) continue;
        benign++;
        cr_assert(strstr(r->row[i].test_case, benign == 1 ? "control-a" : "control-b") != NULL, "%s",
                  r->row[i].test_case);
    }
    cr_assert_eq(benign, 2);
}

/* A plant that no stream has a place for was not missed: it was never tried. */
Test(tolerance_unusable, a_plant_without_a_place_is_inconclusive, .init = set_up_few, .fini = tear_down) {
    one_token = 1;
    make_streams(base, &honest, 0);
    make_streams(control, &regrouped, 1);
    make_candidate(regrouped);
    struct rows *r = run_candidate();
    inconclusive(r, "stale-tail: no stream has a place for it");
    cr_assert_eq(count(r, VERDICT_BLIND), 0);
}

Test(tolerance_unusable, a_control_that_moved_nothing_is_no_control, .init = set_up_few, .fini = tear_down) {
    make_candidate(regrouped);
    make_streams(control, &honest, 1);
    inconclusive(run_candidate(), "is no control");
}

Test(tolerance_unusable, a_base_with_a_hidden_penalty_is_unusable, .init = set_up_few, .fini = tear_down) {
    struct engine_habit h = honest;
    make_candidate(regrouped);
    h.penalty = 3;
    make_streams(base, &h, 0);
    inconclusive(run_candidate(), "penalty hides in the base");
}

Test(tolerance_unusable, too_many_near_ties_leave_nothing_to_see, .init = set_up_few, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.near_ties = 3;
    make_candidate(h);
    struct engine_habit b = honest;
    b.near_ties = 3;
    make_streams(base, &b, 0);
    make_streams(control, &h, 1);
    struct rows *r = run_candidate();
    inconclusive(r, "positions have a margin within");
}

Test(tolerance_unusable, an_engine_that_cannot_be_forced_is_not_green, .init = set_up_few,
     .fini = tear_down) {
    char command[2 * WORK_PATH];
    make_candidate(regrouped);
    (void)snprintf(command, sizeof command, PROMPT_NAME "exec cp %s/$b.fgd {out} # {n}", chosen);
    inconclusive(run_with(base, command, "a test", csv), "cannot be forced");
}

Test(tolerance_unusable, fewer_than_64_streams_decide_nothing, .init = set_up, .fini = tear_down) {
    char few[WORK_PATH];
    struct err err = {""};
    struct battery part = battery;
    part.n = 63;
    make_candidate(regrouped);
    cr_assert_eq(work_folder_battery(&root, &part, "few", few, &err), STATUS_OK, "%s", err.message);
    inconclusive(run_with(base, copier(), "a test", few), "fewer than 64 streams");
}
