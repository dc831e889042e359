/* test_budget.c - budgets are found by key, refused without a reason, and never defaulted. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gates/budget.h"

#define HEADER "op,dtype,metric,bound,model,route,change,derivation,device,date\n"

static struct budgets budgets;
static struct err err;

static enum status load(const char *rows) {
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/forkgate-budget-%ld.csv", (long)getpid());
    FILE *f = fopen(path, "w");
    cr_assert(f != NULL, "cannot write %s", path);
    fprintf(f, "%s%s", HEADER, rows);
    fclose(f);
    err.message[0] = '\0';
    enum status s = budgets_load(path, &budgets, &err);
    remove(path);
    return s;
}

Test(budget, the_own_dtype_wins_over_the_star_and_a_missing_row_is_an_error) {
    cr_assert_eq(
        load(
            "matmul,*,max_scaled,1e-3,,,,why,derived,2026\nmatmul,f16,max_scaled,1e-6,,,,why,derived,2026\n"),
        STATUS_OK, "%s", err.message);
    double bound;
    cr_assert_eq(budgets_bound(&budgets, "matmul", "f16", "max_scaled", &bound, &err), STATUS_OK);
    cr_assert(bound == 1e-6, "%g", bound);
    cr_assert_eq(budgets_bound(&budgets, "matmul", "q4_k", "max_scaled", &bound, &err), STATUS_OK);
    cr_assert(bound == 1e-3, "%g", bound);
    cr_assert_eq(budgets_bound(&budgets, "matmul", "f16", "rms_scaled", &bound, &err), STATUS_INVALID);
    cr_assert(strstr(err.message, "rms_scaled") != NULL, "%s", err.message);
    budgets_free(&budgets);
}

Test(budget, a_calibrated_row_needs_its_model_route_and_change) {
    cr_assert_eq(load("stream,*,delta,0.02,seedling,f16,fa_tkv,battery,cpu,2026\n"), STATUS_OK, "%s",
                 err.message);
    cr_assert(budgets_find(&budgets, "stream", "f16", "delta") == NULL, "calibrated rows are not op budgets");
    cr_assert(budgets_calibrated(&budgets, "stream", "delta", "seedling", "f16", "fa_tkv") != NULL,
              "exact key");
    cr_assert(budgets_calibrated(&budgets, "stream", "delta", "seedling", "q8", "fa_tkv") == NULL,
              "other route");
    budgets_free(&budgets);
}

Test(budget, bad_rows_are_refused_with_their_record) {
    static const char *const rows[] = {"a,*,m,nan,,,,why,d,2026\n", "a,*,m,inf,,,,why,d,2026\n",
                                       "a,*,m,-1,,,,why,d,2026\n",  "a,*,m,1,,,,,d,2026\n",
                                       "a,*,m,,,,,why,d,2026\n",    ",*,m,1,,,,why,d,2026\n",
                                       "a,*,m,1,,,,why,d\n",        "a,*,m,1,,,,w,d,2\na,*,m,2,,,,w,d,2\n"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(load(rows[i]), STATUS_FORMAT, "accepted: %zu", i);
        cr_assert(strstr(err.message, "record") != NULL, "row %zu: %s", i, err.message);
    }
}

Test(budget, the_committed_file_loads) {
    cr_assert_eq(budgets_load(FORKGATE_SOURCE_DIR "/golden/budgets.csv", &budgets, &err), STATUS_OK, "%s",
                 err.message);
    double bound;
    cr_assert_eq(budgets_bound(&budgets, "attention", "f16", "max_scaled", &bound, &err), STATUS_OK);
    cr_assert(bound <= 0x1p-12, "the attention budget may not grow: %g", bound);
    cr_assert_eq(budgets_bound(&budgets, "matmul", "f16", "max_scaled", &bound, &err), STATUS_OK);
    cr_assert(bound <= 0x1p-20, "the f16 product budget may not grow: %g", bound);
    budgets_free(&budgets);
}
