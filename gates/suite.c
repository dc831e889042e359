/* suite.c - CLAIM: the unit tests of this build tree pass, all of them ran, and there are no fewer than committed.
 * Needs: the build tree (its path is baked in at configure time), SKIP with the reason where it is absent; and ctest, ERROR
 * where it is absent.
 * Never retried. Refused inside itself (FORKGATE_IN_SUITE). Arms: suite (failures), count (golden/suite.csv).
 * Exercise: forkgate run --tier suite */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/child_process.h"
#include "gates/compare.h"
#include "gates/model/model_gates.h"
#include "gates/slurp.h"
#include "gates/suite.h"

#define GATE_TIMEOUT_S  1200
#define CTEST_TIMEOUT_S 1190.0 /* before the runner ends this gate, so that ctest's own children end too */
#define ENV_NOT_STARTED 126    /* env(1): 126 and 127 are its own */

#ifndef FORKGATE_BUILD_DIR
#define FORKGATE_BUILD_DIR ""
#endif

static void row_of(const struct gate_context *ctx, const char *test_case, const char *arm, const char *metric,
                   double value, enum verdict v, const char *note) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    (void)snprintf(row.test_case, sizeof row.test_case, "%s", test_case);
    (void)snprintf(row.arm, sizeof row.arm, "%s", arm);
    (void)snprintf(row.metric, sizeof row.metric, "%s", metric);
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "ctest --test-dir %s -R '^%s$' --output-on-failure",
                   FORKGATE_BUILD_DIR, test_case[0] != '\0' ? test_case : "unit.*");
    (void)snprintf(row.note, sizeof row.note, "%s", note);
    row.value = value;
    row.bound = isnan(value) ? value : 0.0;
    row.verdict = v;
    ctx->emit(ctx->sink, &row);
}

static void skip(const struct gate_context *ctx, const char *why) {
    row_of(ctx, "", "suite", "none", (double)NAN, VERDICT_SKIP, why);
}

/* ---- running ctest ------------------------------------------------------------------------------------------- */
static enum status run_ctest(const char *junit, const char *errors, struct err *err) {
    static const char *const env[] = {"FORKGATE_IN_SUITE=1", NULL};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct child_args args = {{NULL}, 0, 0};
    struct child_end end;
    child_add_pair(&args, "/usr/bin/env", "ctest");
    child_add_pair(&args, "--test-dir", FORKGATE_BUILD_DIR);
    child_add_pair(&args, "-L", "^unit$");
    child_add(&args, "--no-tests=error");
    child_add_number(&args, "-j", cores < 1 ? 1 : cores > 16 ? 16 : cores);
    child_add_pair(&args, "--output-junit", junit);
    child_add_pair(&args, "--test-output-size-passed", "1048576");
    child_add_pair(&args, "--test-output-size-failed", "1048576");
    struct child_request r = {&args, env, NULL, errors, CTEST_TIMEOUT_S};
    enum status s = child_run(&r, &end, err);
    child_args_free(&args);
    if (s != STATUS_OK) return err_prefix(err, s, "suite");
    if (end.exit_code >= 0 && end.exit_code < ENV_NOT_STARTED)
        return STATUS_OK; /* the report says what failed */
    char how[320];
    child_end_text(&end, how);
    return err_set(err, STATUS_IO, "suite: ctest: %s", how);
}

/* ---- judging ------------------------------------------------------------------------------------------------- */
static void judge_module(const struct gate_context *ctx, const struct suite_module *m) {
    char note[200];
    long executed = m->passed + m->failed;
    int bad = !m->ran || m->failed_exit || !m->counted || executed == 0;
    long failures = m->failed > 0 ? m->failed : bad ? 1 : 0;
    (void)snprintf(note, sizeof note, "%ld passed, %ld failed, %ld skipped%s", m->passed, m->failed,
                   m->skipped,
                   !m->ran                            ? "; not run"
                   : !m->counted                      ? "; crashed or printed no count"
                   : executed == 0                    ? "; nothing executed"
                   : m->failed_exit && m->failed == 0 ? "; ended badly"
                                                      : "");
    row_of(ctx, m->name, "suite", "failed", (double)failures, compare_judge((double)failures, 0), note);
    if (m->committed < 0) return;
    double missing = m->committed > executed ? (double)(m->committed - executed) : 0;
    (void)snprintf(note, sizeof note, "executed %ld, committed %ld", executed, m->committed);
    row_of(ctx, m->name, "count", "missing", missing, compare_judge(missing, 0), note);
}

static enum status judge_report(const struct gate_context *ctx, const char *xml, size_t n, struct err *err) {
    struct suite s;
    char path[4096];
    enum status status = suite_parse(xml, n, &s, err);
    (void)snprintf(path, sizeof path, "%s/golden/suite.csv", ctx->source_dir);
    if (status == STATUS_OK) status = suite_commit_counts(path, &s, err);
    for (size_t i = 0; status == STATUS_OK && i < s.n; i++) judge_module(ctx, &s.modules[i]);
    suite_free(&s);
    return status;
}

static enum status run_in(const struct gate_context *ctx, const char *folder, struct err *err) {
    char junit[300], errors[300], *xml = NULL;
    size_t n = 0;
    (void)snprintf(junit, sizeof junit, "%s/junit.xml", folder);
    (void)snprintf(errors, sizeof errors, "%s/errors.txt", folder);
    RETURN_IF_ERROR(run_ctest(junit, errors, err));
    if (access(junit, F_OK) != 0) return err_set(err, STATUS_FORMAT, "suite: ctest left no report");
    RETURN_IF_ERROR(slurp_any(junit, &xml, &n, err));
    enum status s = judge_report(ctx, xml, n, err);
    free(xml);
    return s;
}

static enum status run(const struct gate_context *ctx, struct err *err) {
    char marker[4096], folder[256];
    if (getenv("FORKGATE_IN_SUITE") != NULL)
        return err_set(err, STATUS_USAGE,
                       "refused: this run is itself part of the suite (FORKGATE_IN_SUITE is set)");
    (void)snprintf(marker, sizeof marker, "%s/CTestTestfile.cmake", FORKGATE_BUILD_DIR);
    if (FORKGATE_BUILD_DIR[0] == '\0' || access(marker, F_OK) != 0) {
        skip(ctx, "the build tree with the unit tests is not on this machine");
        return STATUS_OK;
    }
    RETURN_IF_ERROR(child_folder_make("forkgate-suite", folder, err));
    enum status s = run_in(ctx, folder, err);
    child_folder_remove(folder);
    return s;
}

const struct gate gate_suite = {
    "suite.unit",   TIER_SUITE, "the unit tests pass, all ran, and there are no fewer than committed", 0, 0,
    GATE_TIMEOUT_S, run};
