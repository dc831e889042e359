/* test_tolerance_package.c - tier 4 as a whole over a made-up engine: 64 recorded streams, a recorded control, and a command
 * that hands out what a candidate would have said. Each way of being wrong turns one arm red, and nothing unusable is green.
 * Source: ours. Exercise: ctest -R unit.tolerance_package */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/model/tolerance_package.h"
#include "gates/side.h"
#include "tests/dump_maker.h"

#define STREAMS 64
#define TOKENS  24

TestSuite(tolerance_package, .timeout = 120);

static struct work_folder root;
static struct battery battery;
static char csv[WORK_PATH], base[WORK_PATH], control[WORK_PATH], forced[WORK_PATH], chosen[WORK_PATH];

/* ---- streams ------------------------------------------------------------------------------------------------------- */
/* What a made-up engine does to the base's streams. */
struct engine_habit {
    float noise;   /* added to and taken from the logits */
    int forks;     /* streams (from the first on) whose near-tie at token 11 goes the other way */
    int hard_swap; /* stream in which the hard argmax at token 5 moves; -1: none */
    int penalty;   /* stream that emits its second choice at token 7 all the same; -1: none */
    int near_ties; /* every so many tokens one near-tie */
};
static const struct engine_habit honest = {0.0f, 0, -1, -1, 12}, regrouped = {0.004f, 5, -1, -1, 12};

static struct dump_record record_of(const struct engine_habit *h, int stream, int i) {
    float top = 18.0f + 0.25f * (float)((stream + i) % 7), sign = (stream + i) % 2 == 0 ? 1.0f : -1.0f;
    int near = i % h->near_ties == h->near_ties - 1;
    int32_t first = 100 + (stream + i) % 800, second = 50;
    /* at a near-tie both logits move together: their order is what the swap below says */
    struct dump_record r = near ? greedy(first, top + sign * h->noise, second, top - 0.003f + sign * h->noise)
                                : greedy(first, top + sign * h->noise, second, top - 3.0f - sign * h->noise);
    int swap = (i == 11 && stream < h->forks) || (i == 5 && stream == h->hard_swap);
    if (swap) {
        r.id1 = second;
        r.id2 = first;
    }
    r.row.bytes[1] ^= (uint8_t)(swap ? 1 : 0);
    return r;
}

static const char *extra_key; /* a key that only these dumps have */
static int other_base;        /* forced dumps claim to follow something else */
static int no_hashes;         /* forced dumps carry no hash of their rows */

/* A forced dump names the stream it follows. */
static void follow_of(int stream, char out[HASH_TEXT_BYTES]) {
    char path[2 * WORK_PATH];
    struct err err = {""};
    dump *d = NULL;
    (void)snprintf(path, sizeof path, "%s/%s.fgd", base, battery.prompts[stream].name);
    cr_assert_eq(dump_open(path, &d, &err), STATUS_OK, "%s", err.message);
    struct dump_results r = dump_results(d);
    hash_format(&r.stream, out);
    if (other_base) out[0] = out[0] == '0' ? '1' : '0';
    dump_close(d);
}

static void make_streams(const char *dir, const struct engine_habit *h, int is_forced) {
    for (int s = 0; s < STREAMS; s++) {
        char path[2 * WORK_PATH], hash[HASH_TEXT_BYTES], follow[HASH_TEXT_BYTES] = "";
        struct hash128 of = hash_bytes(battery.prompts[s].bytes, battery.prompts[s].n);
        hash_format(&of, hash);
        const char *keys[] = {"n_vocab",
                              "1000",
                              "logits",
                              "f32",
                              "sampler",
                              "greedy",
                              "repeat_penalty",
                              "1",
                              "prompt.xxh3",
                              hash,
                              is_forced ? "follow" : extra_key,
                              is_forced ? follow : "4",
                              NULL};
        if (is_forced) follow_of(s, follow);
        (void)snprintf(path, sizeof path, "%s/%s.fgd", dir, battery.prompts[s].name);
        struct made m = make_begin(path, 0, keys);
        int left = 0;
        for (int i = 0; i < TOKENS && !left; i++) {
            struct dump_record r = record_of(h, s, i);
            int32_t base_token = record_of(&honest, s, i).id1;
            if (is_forced) r.token = base_token;
            if (is_forced && no_hashes) r.flags |= DUMP_NO_HASH;
            if (!is_forced) r.token = s == h->penalty && i == 7 ? r.id2 : r.id1;
            left = r.token != base_token;
            make_record(&m, r, " w", 2, NULL);
        }
        dump_close(make_end(&m));
    }
}

static void set_up(void) {
    struct err err = {""};
    cr_assert_eq(work_folder_make("forkgate-test-package", &root, &err), STATUS_OK, "%s", err.message);
    battery.prompts = calloc(STREAMS, sizeof *battery.prompts);
    cr_assert(battery.prompts != NULL);
    battery.n = STREAMS;
    for (int i = 0; i < STREAMS; i++) {
        (void)snprintf(battery.prompts[i].name, sizeof battery.prompts[i].name, "p%02d", i);
        battery.prompts[i].bytes = strdup(battery.prompts[i].name);
        battery.prompts[i].n = strlen(battery.prompts[i].name);
    }
    cr_assert_eq(work_folder_battery(&root, &battery, "battery", csv, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(work_folder_sub(&root, "base", base, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "control-other", control, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "forced", forced, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "chosen", chosen, &err), STATUS_OK);
    make_streams(base, &honest, 0);
    make_streams(control, &regrouped, 1);
}

static void tear_down(void) {
    battery_close(&battery);
    work_folder_remove(&root);
}

static void make_candidate(struct engine_habit h) {
    make_streams(forced, &h, 1);
    make_streams(chosen, &h, 0);
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */
struct rows {
    struct evidence row[128];
    int n;
    enum status status;
    struct err err;
};

static void keep(void *sink, const struct evidence *row) {
    struct rows *r = sink;
    cr_assert(r->n < 128, "too many rows");
    r->row[r->n++] = *row;
}

static struct rows *run_with(const char *base_spec, const char *command, const char *cause,
                             const char *list) {
    static struct rows r;
    struct gate_context ctx;
    struct tolerance_plan plan;
    memset(&r, 0, sizeof r);
    memset(&ctx, 0, sizeof ctx);
    memset(&plan, 0, sizeof plan);
    ctx.config = engine_config_default();
    ctx.model_path = "no-model";
    ctx.source_dir = root.root;
    ctx.self = "/bin/sh";
    ctx.base = base_spec;
    ctx.engine_cmd = command;
    ctx.cause = cause;
    ctx.emit = keep;
    ctx.sink = &r;
    plan.gate = "tolerance.test";
    plan.route = ROUTE_F16;
    plan.battery = list;
    plan.n_tokens = TOKENS;
    plan.n_fresh = 2;
    r.status = tolerance_package_run(&ctx, &plan, &r.err);
    return &r;
}

/* The candidate's command: forced answers when there is something to follow, its own otherwise. */
static const char *copier(void) {
    static char command[8 * WORK_PATH];
    (void)snprintf(command, sizeof command,
                   "if test -n '{follow}'; then from=%s; else from=%s; fi; cp $from/$(basename {prompt}).fgd "
                   "{out} # {n}",
                   forced, chosen);
    return command;
}

static struct rows *run_candidate(void) {
    return run_with(base, copier(), "a test", csv);
}

static int count(const struct rows *r, enum verdict v) {
    int n = 0;
    for (int i = 0; i < r->n; i++) n += r->row[i].verdict == v;
    return n;
}

static const struct evidence *find(const struct rows *r, const char *arm, const char *metric) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->row[i].arm, arm) == 0 && strcmp(r->row[i].metric, metric) == 0) return &r->row[i];
    cr_assert(0, "no row %s/%s among %d (%s)", arm, metric, r->n, r->err.message);
    return NULL;
}

static void verdict_is(const struct rows *r, const char *arm, const char *metric, enum verdict want) {
    const struct evidence *e = find(r, arm, metric);
    cr_assert_eq(e->verdict, want, "%s/%s is %s: %s", arm, metric, verdict_name(e->verdict), e->note);
    cr_assert(strlen(e->note) > 10 && strstr(e->repro, "--class fa") != NULL, "a row explains itself: %s",
              e->repro);
}

/* Stopped before any judgement: one INCONCLUSIVE row with these words, none green after it. */
static void inconclusive(const struct rows *r, const char *words) {
    cr_assert_eq(r->status, STATUS_OK, "%s", r->err.message);
    cr_assert(count(r, VERDICT_INCONCLUSIVE) >= 1 && count(r, VERDICT_FAIL) == 0, "%d rows", r->n);
    int found = 0;
    for (int i = 0; i < r->n; i++)
        found += r->row[i].verdict == VERDICT_INCONCLUSIVE && strstr(r->row[i].note, words) != NULL;
    cr_assert(found > 0, "no INCONCLUSIVE row says '%s'; the last says: %s", words, r->row[r->n - 1].note);
}

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

Test(tolerance_package, a_hidden_penalty_is_red, .init = set_up, .fini = tear_down) {
    struct engine_habit h = regrouped;
    h.penalty = 30;
    make_candidate(h);
    struct rows *r = run_candidate();
    verdict_is(r, "forced", "moved", VERDICT_PASS);
    verdict_is(r, "greedy", "unexplained", VERDICT_FAIL);
}

/* Field case A05: a build that gives two answers to one prompt regroups nothing. */
Test(tolerance_package, case_a05_a_candidate_that_does_not_repeat_itself_is_red, .init = set_up,
     .fini = tear_down) {
    char command[8 * WORK_PATH];
    make_candidate(regrouped);
    (void)snprintf(
        command, sizeof command,
        "b=$(basename {prompt}); from=%s; if test -n '{follow}'; then from=%s; "
        "elif test -e %s/$b.seen; then from=%s; else touch %s/$b.seen; fi; cp $from/$b.fgd {out} # {n}",
        chosen, forced, root.root, base, root.root);
    struct rows *r = run_with(base, command, "a test", csv);
    verdict_is(r, "a/a", "rows", VERDICT_FAIL);
    cr_assert(strstr(find(r, "a/a", "rows")->note, "not reproducible on one build") != NULL, "said");
}

/* Field cases A04 and A06: what differs in the launch is named. */
Test(tolerance_package, case_a06_other_provenance_is_named, .init = set_up, .fini = tear_down) {
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

Test(tolerance_package, a_program_that_fails_is_an_error, .init = set_up, .fini = tear_down) {
    struct rows *r =
        run_with(base, "echo lost the device >&2; exit 9 # {prompt} {n} {out} {follow}", "a test", csv);
    cr_assert(r->status != STATUS_OK && strstr(r->err.message, "lost the device") != NULL, "%s",
              r->err.message);
}

/* ---- what cannot be judged ----------------------------------------------------------------------------------------- */
Test(tolerance_package, without_a_cause_nothing_is_judged, .init = set_up, .fini = tear_down) {
    make_candidate(regrouped);
    inconclusive(run_with(base, copier(), NULL, csv), "--cause");
}

Test(tolerance_package, a_base_that_is_the_candidate_proves_nothing, .init = set_up, .fini = tear_down) {
    make_candidate(regrouped);
    inconclusive(run_with(copier(), copier(), "a test", csv), "self-comparison proves nothing");
}

/* The same program under another name, an option that is ignored, an answer that is the question. */
Test(tolerance_package, a_candidate_that_moved_no_bit_is_no_regrouping, .init = set_up, .fini = tear_down) {
    char command[8 * WORK_PATH];
    make_candidate(honest);
    inconclusive(run_candidate(), "equal in every row");
    make_candidate(regrouped);
    (void)snprintf(
        command, sizeof command,
        "if test -n '{follow}'; then cp {follow} {out}; else cp %s/$(basename {prompt}).fgd {out}; fi # {n}",
        chosen);
    inconclusive(run_with(base, command, "a test", csv), "equal in every row");
    no_hashes = 1;
    make_candidate(honest);
    inconclusive(run_candidate(), "equal in every row");
    make_candidate(regrouped);
    cr_assert_eq(count(run_candidate(), VERDICT_INCONCLUSIVE), 0, "the top two moved");
}

Test(tolerance_package, a_base_that_does_not_repeat_itself_judges_nothing, .init = set_up,
     .fini = tear_down) {
    char command[8 * WORK_PATH];
    make_candidate(regrouped);
    /* the first answer to a prompt is the base's, every later one the control's */
    (void)snprintf(command, sizeof command,
                   "b=$(basename {prompt}); if test -e %s/$b.seen; then cp %s/$b.fgd {out}; else cp "
                   "%s/$b.fgd {out}; fi; "
                   "touch %s/$b.seen # {n} {follow}",
                   root.root, control, base, root.root);
    struct rows *r = run_with(command, copier(), "a test", csv);
    inconclusive(r, "not reproducible");
    cr_assert_str_eq(r->row[r->n - 1].arm, "a/a", "nothing is judged after it");
}

Test(tolerance_package, without_a_control_nothing_is_judged, .init = set_up, .fini = tear_down) {
    char elsewhere[WORK_PATH];
    struct err err = {""};
    make_candidate(regrouped);
    cr_assert_eq(work_folder_sub(&root, "alone", elsewhere, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "alone/base", elsewhere, &err), STATUS_OK);
    make_streams(elsewhere, &honest, 0);
    inconclusive(run_with(elsewhere, copier(), "a test", csv), "no control");
}

/* A control of other streams says nothing about these. */
Test(tolerance_package, a_control_that_follows_another_base_is_left_out, .init = set_up, .fini = tear_down) {
    make_candidate(regrouped);
    other_base = 1;
    make_streams(control, &regrouped, 1);
    inconclusive(run_candidate(), "no control");
}

Test(tolerance_package, a_control_that_moved_nothing_is_no_control, .init = set_up, .fini = tear_down) {
    make_candidate(regrouped);
    make_streams(control, &honest, 1);
    inconclusive(run_candidate(), "is no control");
}

Test(tolerance_package, a_base_with_a_hidden_penalty_is_unusable, .init = set_up, .fini = tear_down) {
    struct engine_habit h = honest;
    make_candidate(regrouped);
    h.penalty = 3;
    make_streams(base, &h, 0);
    inconclusive(run_candidate(), "penalty hides in the base");
}

Test(tolerance_package, too_many_near_ties_leave_nothing_to_see, .init = set_up, .fini = tear_down) {
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

Test(tolerance_package, an_engine_that_cannot_be_forced_is_not_green, .init = set_up, .fini = tear_down) {
    char command[2 * WORK_PATH];
    make_candidate(regrouped);
    (void)snprintf(command, sizeof command, "cp %s/$(basename {prompt}).fgd {out} # {n}", chosen);
    inconclusive(run_with(base, command, "a test", csv), "cannot be forced");
}

Test(tolerance_package, fewer_than_64_streams_decide_nothing, .init = set_up, .fini = tear_down) {
    char few[WORK_PATH];
    struct err err = {""};
    struct battery part = battery;
    part.n = 63;
    make_candidate(regrouped);
    cr_assert_eq(work_folder_battery(&root, &part, "few", few, &err), STATUS_OK, "%s", err.message);
    inconclusive(run_with(base, copier(), "a test", few), "fewer than 64 streams");
}
