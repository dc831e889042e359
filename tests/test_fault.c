/* test_fault.c - planted faults and injected failures: what the list says is on and nothing else; sites are reported once.
 * Linked with the build that has them (forkgate_core_faults). */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend.h"
#include "engine/fault.h"
#include "gates/mutants.h"

static void set(const char *list) {
    struct err err = {""};
    enum status s = fault_set(list, &err);
    cr_assert_eq(s, STATUS_OK, "%s", err.message);
}

Test(fault, exactly_what_is_named_is_on) {
    set(NULL);
    for (int i = 0; i < FAULTS; i++)
        cr_assert_eq(fault_on((enum fault)i), 0, "%s", fault_name((enum fault)i));
    for (int named = 0; named < FAULTS; named++) {
        set(fault_name((enum fault)named));
        for (int i = 0; i < FAULTS; i++) cr_assert_eq(fault_on((enum fault)i), i == named);
    }
    set("rt-tie,merge-order,fail:copy:3");
    cr_assert(FAULT(RT_TIE) && FAULT(MERGE_ORDER) && !FAULT(RT_NAN));
    set("");
    cr_assert(!FAULT(RT_TIE));
}

Test(fault, a_list_that_is_not_understood_turns_nothing_on) {
    static const char *const bad[] = {
        "merge-ordr",    "rt-tie,",       ",rt-tie",     "rt-tie,,rt-nan", "rt-tie, rt-nan",
        "RT_TIE",        "fail:",         "fail:alloc:", "fail:alloc:0",   "fail:alloc:-1",
        "fail:alloc: 1", "fail:alloc:2x", "fail:copy:",  "fail:call:",     "fail:call:0",
        "fail:calls:1",  "fail:launch:",  "fail:attr:",  "fail:lauch:add", "fail:allocs:1",
        "rt-ti",         "rt-tie rt-nan"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {""};
        char list[64];
        (void)snprintf(list, sizeof list, "rt-nan,%s", bad[i]);
        cr_assert_eq(fault_set(list, &err), STATUS_USAGE, "%s is taken", bad[i]);
        cr_assert(strstr(err.message, "FORKGATE_FAULT") != NULL, "%s", err.message);
        cr_assert(!FAULT(RT_NAN), "half of %s is on", bad[i]);
    }
}

Test(fault, the_environment_is_read_at_the_first_question_too) {
    cr_assert_eq(setenv("FORKGATE_FAULT", "rt-tie", 1), 0);
    cr_assert(FAULT(RT_TIE) && !FAULT(RT_NAN), "nobody called fault_start");
}

Test(fault, fault_start_reads_the_environment) {
    struct err err = {""};
    cr_assert_eq(setenv("FORKGATE_FAULT", "nonsense", 1), 0);
    cr_assert_eq(fault_start(&err), STATUS_USAGE);
    cr_assert(strstr(err.message, "nonsense") != NULL, "%s", err.message);
    cr_assert_eq(unsetenv("FORKGATE_FAULT"), 0);
    cr_assert_eq(fault_start(&err), STATUS_OK);
}

Test(fault, named_failures_are_for_that_name_and_kind) {
    set("fail:launch:swiglu,fail:attr:add");
    cr_assert(FAULT_FAILS_NAMED("launch", "swiglu") && FAULT_FAILS_NAMED("launch", "swiglu"), "every time");
    cr_assert(!FAULT_FAILS_NAMED("attr", "swiglu") && !FAULT_FAILS_NAMED("launch", "add"));
    cr_assert(!FAULT_FAILS_NAMED("launch", "swiglu2") && !FAULT_FAILS_NAMED("launch", "swigl"));
    cr_assert(FAULT_FAILS_NAMED("attr", "add"));
}

Test(fault, a_counted_failure_is_the_nth_and_only_that) {
    set("fail:alloc:3");
    int failed[5];
    for (int i = 0; i < 5; i++) failed[i] = FAULT_FAILS_COUNTED(FAULT_ALLOC, "");
    cr_assert(!failed[0] && !failed[1] && failed[2] && !failed[3] && !failed[4]);
    cr_assert(!FAULT_FAILS_COUNTED(FAULT_COPY, ""));
    set("fail:call:1");
    cr_assert(!FAULT_FAILS_COUNTED(FAULT_ALLOC, ""), "every kind counts for itself");
    cr_assert(FAULT_FAILS_COUNTED(FAULT_RUNTIME, "cudaGraphLaunch"));
    cr_assert(!FAULT_FAILS_COUNTED(FAULT_RUNTIME, "cudaGraphLaunch"));
}

/* ---- what was reached ------------------------------------------------------------------------------------------ */
static int lines_of(const char *path, const char *id) {
    char line[128];
    int n = 0;
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, (int)sizeof line, f) != NULL)
        n += strncmp(line, id, strlen(id)) == 0 && line[strlen(id)] == ' ';
    if (f != NULL) (void)fclose(f);
    return n;
}

static void *ask(void *unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++)
        if (!FAULT(RT_TIE)) return unused;
    return NULL;
}

Test(fault, a_site_is_reported_once_a_process_and_only_when_it_acts) {
    char path[] = "/tmp/forkgate-fault-XXXXXX";
    int fd = mkstemp(path);
    pthread_t threads[4];
    cr_assert(fd >= 0 && setenv("FORKGATE_FAULT_LOG", path, 1) == 0);
    set("rt-tie");
    cr_assert(!FAULT(RT_NAN));
    for (int i = 0; i < 4; i++) cr_assert_eq(pthread_create(&threads[i], NULL, ask, NULL), 0);
    for (int i = 0; i < 4; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0);
    cr_assert_eq(lines_of(path, "rt-tie"), 1, "%d lines", lines_of(path, "rt-tie"));
    cr_assert_eq(lines_of(path, "rt-nan"), 0, "an idle site is not reached");
    (void)close(fd);
    (void)unlink(path);
}

Test(fault, arrival_differs_from_call_to_call) {
    unsigned first = fault_arrival(), different = 0;
    for (int i = 0; i < 64; i++) different += fault_arrival() % 2 != first % 2;
    cr_assert(different > 8 && different < 56, "%u of 64", different);
}

/* ---- the CPU backend can be told to fail ----------------------------------------------------------------------- */
static struct backend *open_cpu(void) {
    struct backend *b = NULL;
    struct backend_config config = {
        .arch = ARCH_SM90, .geometry = geometry_default(ARCH_SM90), .n_threads = 1};
    cr_assert_eq(backend_cpu_open(&config, &b, NULL), STATUS_OK);
    return b;
}

Test(fault, a_refused_allocation_is_an_error_and_the_next_one_works) {
    struct backend *b = open_cpu();
    struct err err = {""};
    void *p = NULL, *q = NULL;
    set("fail:alloc:2");
    cr_assert_eq(b->alloc(b, 64, &p, &err), STATUS_OK);
    cr_assert_eq(b->alloc(b, 64, &q, &err), STATUS_NOMEM);
    cr_assert(q == NULL && strstr(err.message, "64 bytes refused") != NULL, "%s", err.message);
    cr_assert_eq(b->alloc(b, 64, &q, &err), STATUS_OK);
    b->close(b);
}

Test(fault, a_failed_copy_is_an_error) {
    struct backend *b = open_cpu();
    struct err err = {""};
    char from[4] = "abc", to[4] = "";
    set("fail:copy:1");
    cr_assert_eq(b->copy_in(b, to, from, 4, &err), STATUS_DEVICE);
    cr_assert(strstr(err.message, "copy of 4 bytes failed") != NULL, "%s", err.message);
    cr_assert_eq(b->copy_out(b, to, from, 4, &err), STATUS_OK);
    b->close(b);
}

/* ---- the catalogue ---------------------------------------------------------------------------------------------- */
Test(fault, the_catalogue_and_the_code_have_the_same_faults) {
    struct mutant *m = NULL;
    size_t n = 0, faults = 0;
    struct err err = {""};
    cr_assert_eq(mutants_load(FORKGATE_SOURCE_DIR "/fixtures/mutants.csv", &m, &n, &err), STATUS_OK, "%s",
                 err.message);
    for (size_t i = 0; i < n; i++) {
        int found = -1;
        for (int k = 0; k < FAULTS; k++)
            if (strcmp(fault_name((enum fault)k), m[i].id) == 0) found = k;
        cr_assert(m[i].legal != (found >= 0), "%s: %s", m[i].id,
                  m[i].legal ? "legal, yet in fault.h" : "not in fault.h");
        faults += !m[i].legal;
    }
    cr_assert_eq((int)faults, FAULTS, "%d faults in fault.h, %d in the catalogue", FAULTS, (int)faults);
    free(m);
}
