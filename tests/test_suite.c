/* test_suite.c - ctest's report is read strictly: crashes, empty runs and shrinking counts are never green. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gates/suite.h"

#define HEAD "<?xml version=\"1.0\"?>\n<testsuite name=\"x\" tests=\"2\">\n"
#define CASE(name, status, out)                                                                              \
    "\t<testcase name=\"" name "\" classname=\"" name "\" time=\"0.1\" status=\"" status                     \
    "\">\n\t\t<system-out>" out "</system-out>\n\t</testcase>\n"
#define TAIL "</testsuite>\n"

static struct suite suite;
static struct err err;

static enum status parse(const char *xml) {
    return suite_parse(xml, strlen(xml), &suite, &err);
}

Test(suite, counts_come_from_the_closing_line_of_each_module) {
    cr_assert_eq(parse(HEAD CASE("unit.dump", "run",
                                 "noise 3 passed, 0 failed, 0 skipped\n12 passed, 0 failed, 1 skipped\n")
                           CASE("unit.par", "fail", "2 passed, 1 failed, 0 skipped") TAIL),
                 STATUS_OK, "%s", err.message);
    cr_assert_eq(suite.n, 2);
    cr_assert_str_eq(suite.modules[0].name, "unit.dump");
    cr_assert(suite.modules[0].passed == 12 && suite.modules[0].skipped == 1 && !suite.modules[0].failed_exit,
              "dump");
    cr_assert(suite.modules[1].failed == 1 && suite.modules[1].failed_exit, "par");
    suite_free(&suite);
}

Test(suite, a_crash_leaves_no_count_and_a_disabled_test_did_not_run) {
    cr_assert_eq(parse(HEAD CASE("unit.a", "fail", "Segmentation fault") CASE("unit.b", "notrun", "") TAIL),
                 STATUS_OK);
    cr_assert(!suite.modules[0].counted && suite.modules[0].failed_exit, "the crash");
    cr_assert(!suite.modules[1].ran, "not run");
    suite_free(&suite);
}

Test(suite, no_report_half_a_report_and_no_test_are_refused) {
    static const char *const bad[] = {"", "no xml", HEAD TAIL,
                                      HEAD CASE("unit.a", "run", "1 passed, 0 failed, 0 skipped"),
                                      HEAD "<testcase name=\"x\">" TAIL};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(parse(bad[i]), STATUS_FORMAT, "accepted %zu", i);
        suite_free(&suite);
    }
}

Test(suite, committed_counts_are_joined_and_a_missing_module_shows) {
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/forkgate-suite-test-%ld.csv", (long)getpid());
    FILE *f = fopen(path, "w");
    fprintf(f, "module,tests\nunit.dump,14\nunit.gone,3\n");
    fclose(f);
    cr_assert_eq(parse(HEAD CASE("unit.dump", "run", "12 passed, 0 failed, 0 skipped") TAIL), STATUS_OK);
    cr_assert_eq(suite_commit_counts(path, &suite, &err), STATUS_OK, "%s", err.message);
    remove(path);
    cr_assert_eq(suite.n, 2);
    cr_assert_eq(suite.modules[0].committed, 14);
    cr_assert(strcmp(suite.modules[1].name, "unit.gone") == 0 && !suite.modules[1].ran, "the missing module");
    suite_free(&suite);
}
