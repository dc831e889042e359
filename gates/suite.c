/* suite.c - CLAIM: the unit tests of this build tree pass, all of them ran, and there are no fewer than committed.
 * Needs: the build tree (its path is baked in at configure time) and ctest; SKIP with the reason where one is absent.
 * Never retried. Refused inside itself (FORKGATE_IN_SUITE). Arms: suite (failures), count (golden/suite.csv).
 * Exercise: forkgate run --tier suite */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gates/compare.h"
#include "gates/model/model_gates.h"
#include "gates/suite.h"

#ifndef FORKGATE_BUILD_DIR
#define FORKGATE_BUILD_DIR ""
#endif

extern char **environ;

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
static enum status run_ctest(const char *junit, struct err *err) {
    char jobs[16];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    (void)snprintf(jobs, sizeof jobs, "%ld", cores < 1 ? 1 : cores > 16 ? 16 : cores);
    char text[][512] = {"ctest",
                        "--test-dir",
                        "",
                        "-L",
                        "^unit$",
                        "--no-tests=error",
                        "-j",
                        "",
                        "--output-junit",
                        "",
                        "--test-output-size-passed",
                        "1048576",
                        "--test-output-size-failed",
                        "1048576"};
    (void)snprintf(text[2], sizeof text[2], "%s", FORKGATE_BUILD_DIR);
    (void)snprintf(text[7], sizeof text[7], "%s", jobs);
    (void)snprintf(text[9], sizeof text[9], "%s", junit);
    char *argv[sizeof text / sizeof text[0] + 1] = {NULL};
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) argv[i] = text[i];
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return err_set(err, STATUS_NOMEM, "suite: out of memory");
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    (void)setenv("FORKGATE_IN_SUITE", "1", 1);
    pid_t pid;
    int status = 0, failed = posix_spawnp(&pid, "ctest", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return err_set(err, STATUS_IO, "suite: ctest: %s", strerror(failed));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? STATUS_OK : err_set(err, STATUS_IO, "suite: ctest was killed");
}

static enum status slurp(const char *path, char **out, size_t *n, struct err *err) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return err_set(err, STATUS_FORMAT, "suite: ctest left no report (%s)", strerror(errno));
    size_t room = 0, got;
    *out = NULL;
    *n = 0;
    do {
        char *grown = realloc(*out, (room += 1u << 20) + 1);
        if (grown == NULL) {
            (void)fclose(f);
            free(*out);
            return err_set(err, STATUS_NOMEM, "suite: out of memory");
        }
        *out = grown;
        got = fread(*out + *n, 1, room - *n, f);
        *n += got;
    } while (got > 0);
    (*out)[*n] = '\0';
    (void)fclose(f);
    return STATUS_OK;
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

static enum status run(const struct gate_context *ctx, struct err *err) {
    char marker[4096], junit[] = "/tmp/forkgate-suite-XXXXXX", *xml = NULL;
    size_t n = 0;
    if (getenv("FORKGATE_IN_SUITE") != NULL)
        return err_set(err, STATUS_USAGE,
                       "refused: this run is itself part of the suite (FORKGATE_IN_SUITE is set)");
    (void)snprintf(marker, sizeof marker, "%s/CTestTestfile.cmake", FORKGATE_BUILD_DIR);
    if (FORKGATE_BUILD_DIR[0] == '\0' || access(marker, F_OK) != 0) {
        skip(ctx, "the build tree with the unit tests is not on this machine");
        return STATUS_OK;
    }
    int fd = mkstemp(junit);
    if (fd < 0) return err_set(err, STATUS_IO, "suite: %s", strerror(errno));
    (void)close(fd);
    enum status s = run_ctest(junit, err);
    if (s == STATUS_OK) s = slurp(junit, &xml, &n, err);
    (void)unlink(junit);
    if (s == STATUS_OK) s = judge_report(ctx, xml, n, err);
    free(xml);
    return s;
}

const struct gate gate_suite = {
    "suite.unit", TIER_SUITE, "the unit tests pass, all ran, and there are no fewer than committed", 0, 0,
    1200,         run};
