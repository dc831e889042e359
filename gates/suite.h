/* suite.h - reads what ctest wrote about the unit tests, and what the tree has committed about their number.
 * Not a runner of tests: ctest is. Source: ours. Exercise: ctest -R unit.suite */
#ifndef FORKGATE_SUITE_H
#define FORKGATE_SUITE_H

#include <stddef.h>

#include "engine/status.h"

struct suite_module {
    char name[64];        /* "unit.dump" */
    int ran, failed_exit; /* ctest ran it; it did not end well (a crash, a time-out, a red pattern) */
    int counted;          /* its closing line "N passed, N failed, N skipped" was found */
    long passed, failed, skipped;
    long committed; /* tests that golden/suite.csv says it had; -1: not listed */
};

struct suite {
    struct suite_module *modules;
    size_t n;
};

/* From ctest's JUnit file. STATUS_FORMAT when it is no such file or holds no test. */
enum status suite_parse(const char *xml, size_t n, struct suite *out, struct err *err);
/* Adds the committed counts of a CSV (module,tests); a listed module that did not run is appended with ran = 0. */
enum status suite_commit_counts(const char *path, struct suite *s, struct err *err);
void suite_free(struct suite *s);

#endif
