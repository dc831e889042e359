/* test_mutants.c - the matrix judged: holes, blind gates, false alarms, what was never reached; the catalogue's refusals;
 * and children that pass, fail, hang or crash. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/mutants.h"
#include "gates/table.h"

static const struct gate parity = {.id = "op.add", .tier = TIER_PARITY, .timeout_s = 5};
static const struct gate other = {.id = "op.embed", .tier = TIER_PARITY, .timeout_s = 5};
static const struct gate identity = {.id = "stream.golden.f16", .tier = TIER_IDENTITY, .timeout_s = 5};
static const struct gate tolerance = {.id = "tolerance.op", .tier = TIER_TOLERANCE, .timeout_s = 5};

/* ---- judging ----------------------------------------------------------------------------------------------------- */
static struct mutant plant(const char *id, enum mutant_class c, enum mutant_size size) {
    struct mutant m = {.class_of = c, .size = size, .legal = c == MUTANT_FA};
    (void)snprintf(m.id, sizeof m.id, "%s", id);
    return m;
}

static enum mutant_verdict judged(enum mutant_class c, enum mutant_cell at_parity,
                                  enum mutant_cell at_identity, enum mutant_cell at_tolerance) {
    struct mutant m = plant("x", c, MUTANT_SMALL);
    struct mutant_trial t[] = {
        {&parity, at_parity, "", 0}, {&identity, at_identity, "", 0}, {&tolerance, at_tolerance, "", 0}};
    struct mutant_result r = {&m, t, 3};
    return mutant_judge(&r);
}

Test(mutants, a_plant_must_fall_to_a_tier_that_binds_its_class) {
    cr_assert_eq(judged(MUTANT_ANY, CELL_KILLED, CELL_SURVIVED, CELL_SURVIVED), MUTANT_OK);
    cr_assert_eq(judged(MUTANT_ANY, CELL_SURVIVED, CELL_SURVIVED, CELL_KILLED), MUTANT_OK);
    cr_assert_eq(judged(MUTANT_ANY, CELL_SURVIVED, CELL_SURVIVED, CELL_SURVIVED), MUTANT_HOLE);
    cr_assert_eq(judged(MUTANT_ANY, CELL_SURVIVED, CELL_KILLED, CELL_NOT_RUN), MUTANT_HOLE,
                 "bytes alone do not bind a change of class fa");
    cr_assert_eq(judged(MUTANT_BITWISE, CELL_SURVIVED, CELL_KILLED, CELL_NOT_RUN), MUTANT_OK);
    cr_assert_eq(judged(MUTANT_BITWISE, CELL_NOT_RUN, CELL_SURVIVED, CELL_NOT_RUN), MUTANT_HOLE);
}

Test(mutants, unreached_and_unjudged_are_neither_kill_nor_hole) {
    cr_assert_eq(judged(MUTANT_ANY, CELL_NOT_REACHED, CELL_NOT_REACHED, CELL_NOT_RUN), MUTANT_UNREACHED);
    cr_assert_eq(judged(MUTANT_ANY, CELL_NOT_REACHED, CELL_SURVIVED, CELL_NOT_RUN), MUTANT_HOLE);
    cr_assert_eq(judged(MUTANT_ANY, CELL_ERROR, CELL_SURVIVED, CELL_NOT_RUN), MUTANT_UNJUDGED);
    cr_assert_eq(judged(MUTANT_ANY, CELL_ERROR, CELL_SURVIVED, CELL_KILLED), MUTANT_OK);
}

/* A small battery leaves tolerance INCONCLUSIVE by itself: neither a kill nor a broken control. */
Test(mutants, a_row_left_open_by_few_streams_says_nothing_about_the_fault) {
    struct evidence e = {.tier = TIER_TOLERANCE, .metric = "1-p", .verdict = VERDICT_INCONCLUSIVE};
    cr_assert_eq(mutant_row_open(&e), 1);
    e.verdict = VERDICT_FAIL;
    cr_assert_eq(mutant_row_open(&e), 0);
    e = (struct evidence){.tier = TIER_TOLERANCE, .metric = "rows_moved", .verdict = VERDICT_INCONCLUSIVE};
    cr_assert_eq(mutant_row_open(&e), 1);
    e = (struct evidence){.tier = TIER_TOLERANCE, .metric = "delta", .verdict = VERDICT_INCONCLUSIVE};
    cr_assert_eq(mutant_row_open(&e), 0, "an unusable control");
    e = (struct evidence){.tier = TIER_PARITY, .metric = "1-p", .verdict = VERDICT_INCONCLUSIVE};
    cr_assert_eq(mutant_row_open(&e), 0);
}

Test(mutants, a_legal_change_is_red_in_identity_and_green_elsewhere) {
    cr_assert_eq(judged(MUTANT_FA, CELL_SURVIVED, CELL_KILLED, CELL_SURVIVED), MUTANT_OK);
    cr_assert_eq(judged(MUTANT_FA, CELL_SURVIVED, CELL_KILLED, CELL_NOT_RUN), MUTANT_OK);
    cr_assert_eq(judged(MUTANT_FA, CELL_KILLED, CELL_KILLED, CELL_SURVIVED), MUTANT_FALSE_ALARM);
    cr_assert_eq(judged(MUTANT_FA, CELL_SURVIVED, CELL_KILLED, CELL_KILLED), MUTANT_FALSE_ALARM);
    cr_assert_eq(judged(MUTANT_FA, CELL_SURVIVED, CELL_SURVIVED, CELL_SURVIVED), MUTANT_HOLE,
                 "bytes did not see it");
    cr_assert_eq(judged(MUTANT_FA, CELL_ERROR, CELL_KILLED, CELL_SURVIVED), MUTANT_UNJUDGED);
}

Test(mutants, a_gate_that_kills_nothing_it_reached_is_blind) {
    struct mutant small = plant("small", MUTANT_ANY, MUTANT_SMALL),
                  ulp = plant("ulp", MUTANT_ANY, MUTANT_ULP);
    struct mutant_trial first[] = {{&parity, CELL_KILLED, "", 0}, {&other, CELL_SURVIVED, "", 0}};
    struct mutant_trial second[] = {{&parity, CELL_KILLED, "", 0}, {&identity, CELL_NOT_REACHED, "", 0}};
    struct mutant_result results[] = {{&small, first, 2}, {&ulp, second, 2}};
    struct mutants_judgement j;
    mutants_judge(results, 2, 1, &j);
    cr_assert(j.killed == 2 && j.holes == 0 && j.n_gates == 3);
    cr_assert_eq(j.n_blind, 1, "op.embed is blind, the unreached gate is not");
    cr_assert_eq(mutants_exit_code(&j), 1);
    cr_assert(j.gates[0].reached == 2 && j.gates[0].killed == 2 && j.gates[0].smallest == &ulp,
              "detection floor");
    mutants_judge(results, 2, 0, &j);
    cr_assert(j.n_blind == 0 && mutants_exit_code(&j) == 0, "a run that stops early cannot say so");
}

Test(mutants, exit_codes) {
    struct mutants_judgement j = {.killed = 3};
    cr_assert_eq(mutants_exit_code(&j), 0);
    j.unreached = 9;
    cr_assert_eq(mutants_exit_code(&j), 0);
    j.unjudged = 1;
    cr_assert_eq(mutants_exit_code(&j), 2);
    j.false_alarms = 1;
    cr_assert_eq(mutants_exit_code(&j), 1);
    struct mutants_judgement hole = {.killed = 3, .holes = 1}, nothing = {.unreached = 3};
    cr_assert_eq(mutants_exit_code(&hole), 1);
    cr_assert_eq(mutants_exit_code(&nothing), 2, "nothing killed is not green");
}

/* ---- the catalogue ----------------------------------------------------------------------------------------------- */
#define HEADER "id,where,op,legal,class,size,expect,gates,options,description\n"

static char folder[64], path[96], script[96];

static void setup(void) {
    (void)snprintf(folder, sizeof folder, "/tmp/forkgate-test-mutants-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/m.csv", folder);
    (void)snprintf(script, sizeof script, "%s/forkgate-faults", folder);
}

static void teardown(void) {
    (void)unlink(path);
    (void)unlink(script);
    (void)rmdir(folder);
}

static void write_file(const char *name, const char *text, mode_t mode) {
    FILE *f = fopen(name, "w");
    cr_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(name, mode) == 0);
}

static enum status load(const char *rows, struct mutant **m, size_t *n, struct err *err) {
    char text[1024];
    (void)snprintf(text, sizeof text, HEADER "%s", rows);
    write_file(path, text, 0644);
    return mutants_load(path, m, n, err);
}

Test(mutants, rows_are_read, .init = setup, .fini = teardown) {
    struct mutant *m = NULL;
    size_t n = 0;
    struct err err = {""};
    enum status s = load("a,both,add,0,any,ulp,parity identity,op.add stream.golden.f16,,x\n"
                         "b,both,attention,1,fa,ulp,identity,op.attention,--geometry fa_tkv=16,y\n",
                         &m, &n, &err);
    cr_assert_eq(s, STATUS_OK, "%s", err.message);
    cr_assert(n == 2 && m[0].n_gates == 2 && strcmp(m[0].gates[1], "stream.golden.f16") == 0);
    cr_assert(m[0].expect[TIER_PARITY] && m[0].expect[TIER_IDENTITY] && !m[0].expect[TIER_TOLERANCE]);
    cr_assert(m[1].legal && m[1].class_of == MUTANT_FA && strcmp(m[1].options, "--geometry fa_tkv=16") == 0);
    free(m);
}

Test(mutants, bad_rows_are_refused_by_name, .init = setup, .fini = teardown) {
    static const struct {
        const char *rows, *says;
    } bad[] = {
        {"", "no fault"},
        {"a,nowhere,add,0,any,ulp,parity,op.add,,x\n", "where: no 'nowhere'"},
        {"a,both,add,2,any,ulp,parity,op.add,,x\n", "legal: no '2'"},
        {"a,both,add,0,every,ulp,parity,op.add,,x\n", "class: no 'every'"},
        {"a,both,add,0,any,tiny,parity,op.add,,x\n", "size: no 'tiny'"},
        {"a,both,add,0,any,ulp,parityy,op.add,,x\n", "expect: no tier 'parityy'"},
        {"a,both,add,0,any,ulp,,op.add,,x\n", "expect: empty"},
        {"a,both,add,0,any,ulp,parity,,,x\n", "gates: empty"},
        {"a,both,add,0,any,ulp,parity,op.add  op.b,,x\n", "is no list"},
        {",both,add,0,any,ulp,parity,op.add,,x\n", "must not be empty"},
        {"a,both,add,1,any,ulp,parity,op.add,,x\n", "go together"},
        {"a,both,add,0,any,ulp,parity,op.add,--route q8,x\n", "go together"},
        {"an-identifier-that-goes-on-for-ever,both,add,0,any,ulp,parity,op.add,,x\n", "too long"},
        {"a,both,add,0,any,ulp,parity,op.add,,x\na,both,add,0,any,ulp,parity,op.add,,x\n", "id 'a' twice"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mutant *m = NULL;
        size_t n = 0;
        struct err err = {""};
        cr_assert_eq(load(bad[i].rows, &m, &n, &err), STATUS_FORMAT, "row %zu is taken", i);
        cr_assert(m == NULL && strstr(err.message, bad[i].says) != NULL, "row %zu: %s", i, err.message);
    }
}

/* ---- children ---------------------------------------------------------------------------------------------------- */
static const struct gate *const registry[] = {&parity, &identity, NULL};

/* A stand-in for forkgate-faults: `body` decides by $FORKGATE_FAULT and $5, the gate. */
static struct mutant_result *run_with(const char *body, struct mutant *m, size_t n_mutants, int quick,
                                      double timeout, size_t *n) {
    char text[1024];
    struct mutants_options o = {.faults = script,
                                .model_path = "model",
                                .source_dir = "/nowhere",
                                .quick = quick,
                                .registry = registry,
                                .timeout_s = timeout};
    struct mutant_result *results = NULL;
    struct err err = {""};
    (void)snprintf(text, sizeof text,
                   "#!/bin/sh\nreach() { echo \"$FORKGATE_FAULT $$\" >>\"$FORKGATE_FAULT_LOG\"; }\n%s\n",
                   body);
    write_file(script, text, 0755);
    o.config.compute.arch = ARCH_SM90;
    o.config.compute.n_threads = 1;
    o.tiers[TIER_PARITY] = o.tiers[TIER_IDENTITY] = 1;
    cr_assert_eq(mutants_run(&o, m, n_mutants, &results, n, &err), STATUS_OK, "%s", err.message);
    return results;
}

static struct mutant with_gates(const char *id) {
    struct mutant m = plant(id, MUTANT_ANY, MUTANT_SMALL);
    m.where = MUTANT_BOTH;
    m.n_gates = 2;
    (void)snprintf(m.gates[0], sizeof m.gates[0], "op.add");
    (void)snprintf(m.gates[1], sizeof m.gates[1], "stream.golden.f16");
    return m;
}

Test(mutants, a_child_kills_survives_or_does_not_reach, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("killed"), with_gates("survives"), with_gates("idle")};
    size_t n = 0;
    struct mutant_result *r = run_with("case $FORKGATE_FAULT in\n"
                                       "killed) reach; [ $5 = op.add ] && exit 1;;\n"
                                       "survives) reach;;\n"
                                       "esac\nexit 0",
                                       m, 3, 0, 0, &n);
    cr_assert_eq(n, 3);
    cr_assert(r[0].n == 2 && r[0].trials[0].cell == CELL_KILLED && r[0].trials[1].cell == CELL_SURVIVED);
    cr_assert(r[1].trials[0].cell == CELL_SURVIVED && mutant_judge(&r[1]) == MUTANT_HOLE);
    cr_assert(r[2].trials[1].cell == CELL_NOT_REACHED && mutant_judge(&r[2]) == MUTANT_UNREACHED);
    mutants_free(r, n);
}

Test(mutants, quick_stops_at_the_first_kill_that_binds, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("x")};
    size_t n = 0;
    struct mutant_result *r = run_with("[ -z \"$FORKGATE_FAULT\" ] && exit 0; reach; exit 1", m, 1, 1, 0, &n);
    cr_assert(r[0].n == 1 && mutant_judge(&r[0]) == MUTANT_OK);
    mutants_free(r, n);
}

/* The first plant takes longest, yet results come in the order of the file; a gate is tried without a fault once. */
static void note_order(void *sink, const struct mutant_result *r, size_t done, size_t total) {
    char *order = sink;
    cr_assert(done >= 1 && done <= total);
    (void)strcat(order, r->mutant->id);
}

Test(mutants, children_side_by_side_keep_the_order_of_the_file, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("a"), with_gates("b"), with_gates("c")};
    char text[1024], order[16] = "", controls[128];
    struct mutants_options o = {
        .faults = script, .model_path = "model", .source_dir = "/nowhere", .named = 1};
    struct mutant_result *r = NULL;
    struct err err = {""};
    size_t n = 0;
    (void)snprintf(controls, sizeof controls, "%s/controls", folder);
    (void)snprintf(text, sizeof text,
                   "#!/bin/sh\n"
                   "if [ -z \"$FORKGATE_FAULT\" ]; then echo $5 >>%s; exit 0; fi\n"
                   "[ $FORKGATE_FAULT = a ] && sleep 0.3\n"
                   "echo \"$FORKGATE_FAULT $$\" >>\"$FORKGATE_FAULT_LOG\"; exit 1\n",
                   controls);
    write_file(script, text, 0755);
    o.registry = registry;
    o.jobs = 4;
    o.config.compute.arch = ARCH_SM90;
    o.config.compute.n_threads = 1;
    o.tiers[TIER_PARITY] = o.tiers[TIER_IDENTITY] = 1;
    o.on_result = note_order;
    o.sink = order;
    cr_assert_eq(mutants_run(&o, m, 3, &r, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert_str_eq(order, "abc");
    for (size_t i = 0; i < n; i++)
        cr_assert(r[i].n == 2 && r[i].trials[0].cell == CELL_KILLED && r[i].trials[1].cell == CELL_KILLED &&
                      r[i].trials[0].gate == &parity,
                  "plant %zu", i);
    mutants_free(r, n);
    FILE *f = fopen(controls, "r");
    int lines = 0;
    cr_assert(f != NULL);
    for (int c = fgetc(f); c != EOF; c = fgetc(f)) lines += c == '\n';
    cr_assert(fclose(f) == 0 && unlink(controls) == 0);
    cr_assert_eq(lines, 2, "%d controls for two gates", lines);
}

Test(mutants, a_hang_and_a_crash_are_kills, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("hangs"), with_gates("crashes")};
    size_t n = 0;
    struct mutant_result *r = run_with("case $FORKGATE_FAULT in\n"
                                       "hangs) reach; sleep 60;;\n"
                                       "crashes) reach; kill -SEGV $$;;\n"
                                       "esac\nexit 0",
                                       m, 2, 1, 1.0, &n);
    cr_assert(r[0].trials[0].cell == CELL_KILLED && strcmp(r[0].trials[0].how, "timed out") == 0, "%s",
              r[0].trials[0].how);
    cr_assert(r[1].trials[0].cell == CELL_KILLED && strstr(r[1].trials[0].how, "signal 11") != NULL);
    mutants_free(r, n);
}

Test(mutants, a_gate_that_is_red_without_the_fault_proves_nothing, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("x")};
    size_t n = 0;
    struct mutant_result *r = run_with("reach; exit 1", m, 1, 0, 0, &n);
    cr_assert(r[0].trials[0].cell == CELL_ERROR && mutant_judge(&r[0]) == MUTANT_UNJUDGED);
    cr_assert(strstr(r[0].trials[0].how, "without a fault") != NULL, "%s", r[0].trials[0].how);
    mutants_free(r, n);
}

Test(mutants, kernel_plants_are_not_reached_on_the_cpu, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("x")};
    size_t n = 0;
    m[0].where = MUTANT_KERNEL;
    struct mutant_result *r = run_with("exit 3", m, 1, 0, 0, &n); /* must not even be asked */
    cr_assert(r[0].n == 2 && r[0].trials[0].cell == CELL_NOT_REACHED &&
              mutant_judge(&r[0]) == MUTANT_UNREACHED);
    mutants_free(r, n);
}

Test(mutants, what_cannot_run_is_an_error, .init = setup, .fini = teardown) {
    struct mutant m[] = {with_gates("x")};
    struct mutants_options o = {
        .faults = "/nowhere/forkgate-faults", .registry = registry, .source_dir = "/"};
    struct mutant_result *r = NULL;
    size_t n = 0;
    struct err err = {""};
    cr_assert_eq(mutants_run(&o, m, 1, &r, &n, &err), STATUS_IO);
    cr_assert(r == NULL && strstr(err.message, "forkgate-faults") != NULL, "%s", err.message);
    o.only = "y";
    cr_assert_eq(mutants_run(&o, m, 1, &r, &n, &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "no fault 'y'") != NULL, "%s", err.message);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */
Test(mutants, the_csv_has_a_row_for_each_tier_that_ran, .init = setup, .fini = teardown) {
    struct mutant m = with_gates("x");
    struct mutant_trial t[] = {{&parity, CELL_SURVIVED, "", 3}, {&identity, CELL_KILLED, "golden a.txt", 4}};
    struct mutant_result r = {&m, t, 2};
    struct mutants_header h = {"forkgate mutants", "2026-11-30", "cpu", "sm_90", "abc", "cpu"};
    struct err err = {""};
    table *csv = NULL;
    cr_assert_eq(mutants_write_csv(path, &h, &r, 1, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(table_read(path, &csv, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(table_rows(csv), 2);
    cr_assert(strcmp(table_cell(csv, 0, table_find(csv, "cell"), NULL), "survived") == 0);
    cr_assert(strcmp(table_cell(csv, 1, table_find(csv, "killed_by"), NULL), "stream.golden.f16") == 0);
    cr_assert(strcmp(table_cell(csv, 1, table_find(csv, "how"), NULL), "golden a.txt") == 0);
    table_close(csv);
}
