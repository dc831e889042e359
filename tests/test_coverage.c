/* test_coverage.c - the map kernel x gate: counted from rows, missing kernels are red, partial runs are not asked. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/coverage.h"

static const struct gate op = {.id = "op.add", .tier = TIER_PARITY};
static const struct gate model = {.id = "stream.golden.f16", .tier = TIER_IDENTITY};
static const struct kernel_count kernels[] = {{"add", 0}, {"add_wide", 0}, {"top2", 0}};

static const struct gate peer = {.id = "model.peer.other", .tier = TIER_PARITY};
static const struct gate launch = {.id = "stream.launch.f16", .tier = TIER_IDENTITY};

static struct gate_result result(const struct gate *g, const char *first, const char *second) {
    struct gate_result r = {.gate = g, .verdict = VERDICT_PASS, .n_rows = 2};
    r.rows = calloc(2, sizeof *r.rows);
    (void)snprintf(r.rows[0].kernels, sizeof r.rows[0].kernels, "%s", first);
    (void)snprintf(r.rows[1].kernels, sizeof r.rows[1].kernels, "%s", second);
    return r;
}

static struct coverage covered(const char *by_op, const char *by_model) {
    struct coverage c;
    struct gate_result a = result(&op, by_op, ""), b = result(&model, "", by_model);
    coverage_start(&c, kernels, 3);
    coverage_add(&c, &a);
    coverage_add(&c, &b);
    free(a.rows);
    free(b.rows);
    return c;
}

Test(coverage, whole_words_of_the_rows_count) {
    struct coverage c = covered("add", "add top2 something_else");
    cr_assert(coverage_gates_of(&c, 0) == 2 && coverage_gates_of(&c, 1) == 0 &&
              coverage_gates_of(&c, 2) == 1);
    cr_assert_eq(coverage_missing(&c), 1, "add does not stand for add_wide");
    c = covered("add_wide", "add_wid top");
    cr_assert(coverage_gates_of(&c, 0) == 0 && coverage_gates_of(&c, 1) == 1 &&
              coverage_gates_of(&c, 2) == 0);
}

Test(coverage, a15_a_kernel_that_no_gate_ran_turns_the_run_red) {
    struct run_result r = {.n = 0};
    struct engine_config config = {.backend = BACKEND_CPU};
    struct err err = {""};
    struct coverage c = covered("add add_wide", "top2");
    r.counts[VERDICT_PASS] = 2;
    cr_assert_eq(coverage_judge(&c, &config, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert(r.n == 1 && r.gates[0].verdict == VERDICT_PASS && verdict_exit_code(r.counts) == 0);
    c = covered("add", "top2");
    cr_assert_eq(coverage_judge(&c, &config, &r, &err), STATUS_OK, "%s", err.message);
    cr_assert(r.n == 2 && r.gates[1].verdict == VERDICT_FAIL && verdict_exit_code(r.counts) == 1);
    cr_assert(strstr(r.gates[1].rows[0].note, "never ran: add_wide") != NULL, "%s", r.gates[1].rows[0].note);
    cr_assert(strstr(r.gates[1].rows[0].note, "skipped") == NULL, "%s", r.gates[1].rows[0].note);
    struct gate_result absent = {.gate = &peer, .verdict = VERDICT_SKIP};
    coverage_add(&c, &absent);
    cr_assert_eq(coverage_judge(&c, &config, &r, &err), STATUS_OK);
    cr_assert(strstr(r.gates[2].rows[0].note, "add_wide; skipped gates: model.peer.other") != NULL, "%s",
              r.gates[2].rows[0].note);
    struct coverage none;
    coverage_start(&none, kernels, 0);
    cr_assert_eq(coverage_judge(&none, &config, &r, &err), STATUS_OK);
    cr_assert_eq(r.gates[3].verdict, VERDICT_FAIL, "a backend without kernels has run nothing");
    runner_free(&r);
}

Test(coverage, only_a_complete_run_is_asked) {
    struct gate_result gates[] = {{.gate = &op, .verdict = VERDICT_PASS},
                                  {.gate = &peer, .verdict = VERDICT_PASS},
                                  {.gate = &model, .verdict = VERDICT_PASS},
                                  {.gate = &launch, .verdict = VERDICT_PASS}};
    struct run_result r = {.gates = gates, .n = 4};
    struct runner_options o;
    memset(&o, 0, sizeof o);
    o.tiers[TIER_PARITY] = 1;
    cr_assert(!coverage_is_complete(&o, &r), "identity was not selected");
    o.tiers[TIER_IDENTITY] = 1;
    cr_assert(coverage_is_complete(&o, &r));
    o.context.only = "op.add";
    cr_assert(!coverage_is_complete(&o, &r));
    o.context.only = NULL;
    gates[1].verdict = VERDICT_SKIP;
    cr_assert(coverage_is_complete(&o, &r), "a model that is not there excuses no kernel");
    gates[2].verdict = VERDICT_SKIP;
    cr_assert(coverage_is_complete(&o, &r), "nor do goldens that the class leaves to another tier");
    gates[3].verdict = VERDICT_SKIP;
    cr_assert(!coverage_is_complete(&o, &r), "a tier behind a red one did not run");
}

Test(coverage, the_cpu_backend_names_its_kernels) {
    struct coverage c;
    struct run_result r = {.n = 0};
    struct engine_config config = engine_config_default();
    struct err err = {""};
    cr_assert_eq(coverage_of_run(&r, &config, &c, &err), STATUS_OK, "%s", err.message);
    cr_assert(c.n_kernels >= 20 && coverage_missing(&c) == c.n_kernels, "%d kernels", c.n_kernels);
}

Test(coverage, the_map_names_what_ran_and_what_never_did) {
    struct coverage c = covered("add", "add top2");
    for (int verbose = 0; verbose < 2; verbose++) {
        char text[600];
        FILE *f = tmpfile();
        cr_assert(f != NULL);
        coverage_print(f, &c, verbose);
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        cr_assert(strncmp(text, "coverage: 2 of 3 kernels ran\n", 29) == 0, "%s", text);
        cr_assert(strstr(text, "NOT RUN by any gate\n") != NULL, "%s", text);
        cr_assert_eq(strstr(text, " op.add stream.golden.f16\n") != NULL, verbose, "%s", text);
        const char *last = strstr(text, "top2 ");
        cr_assert_eq(last != NULL, verbose, "%s", text);
        cr_assert(last == NULL || strstr(last, "op.add") == NULL, "%s", text);
    }
}
