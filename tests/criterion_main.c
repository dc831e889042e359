/* criterion_main.c - the main of every unit test binary.
 * Not a framework: Criterion 2.4.1 with its silent greens closed: a test without a time limit gets one, an unknown
 * option, an empty filter and an all-skipped run are not success (exit 5: nothing executed; 2: bad usage).
 * Source: Criterion's documented runner API. Exercise: any test binary. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <criterion/internal/ordered-set.h>
#include <criterion/options.h>

#include <stdio.h>
#include <string.h>

#define DEFAULT_TIMEOUT_S 120.0
#define EXIT_NOTHING_RAN  5

static size_t tests_executed;

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    tests_executed = stats->nb_tests - stats->tests_skipped;
    size_t failed = stats->tests_failed;
    fprintf(stderr, "%zu passed, %zu failed, %zu skipped\n", tests_executed - failed, failed,
            stats->tests_skipped);
}

static int option_known(const char *arg) {
    static const char *const known[] = {"--filter", "--verbose", "--color=", "-j",          "-q",
                                        "--list",   "--help",    "--xml=",   "--fail-fast", "--timeout"};
    if (arg[0] != '-') return 1; /* a value of --filter */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(arg, known[i], strlen(known[i])) == 0) return 1;
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!option_known(argv[i])) {
            fprintf(stderr, "unrecognized option '%s'\n", argv[i]);
            return 2;
        }
    }
    struct criterion_test_set *set = criterion_initialize();
    FOREACH_SET(struct criterion_suite_set * suite, set->suites) {
        if (suite->tests == NULL) continue;
        FOREACH_SET(struct criterion_test * test, suite->tests) {
            if (test->data->timeout <= 0) test->data->timeout = DEFAULT_TIMEOUT_S;
        }
    }
    int status = 0;
    int run = criterion_handle_args(argc, argv, true);
    if (run) {
        status = criterion_run_all_tests(set) ? 0 : 1;
        if (status == 0 && tests_executed == 0) status = EXIT_NOTHING_RAN;
    }
    criterion_finalize(set);
    return status;
}
