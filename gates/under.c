/* under.c - see under.h. */
#include "gates/under.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/child_process.h"
#include "gates/report.h"
#include "gates/slurp.h"

#define PROGRAM    "compute-sanitizer"
#define MARK       "========= "
#define SLOWER     19 /* a gate's time-out is multiplied by less than `run` allows it */
#define EXIT_FOUND 86 /* asked of the tool, so that its own finding is no exit code of forkgate's */

static const char *const tools[] = {"memcheck", "racecheck", "initcheck", "synccheck"};

int under_is_tool(const char *name) {
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
        if (strcmp(tools[i], name) == 0) return 1;
    return 0;
}

/* ---- what the tool said ---------------------------------------------------------------------------------------- */
static int is_summary(const char *line, size_t n, unsigned long *errors) {
    static const char *const heads[] = {"ERROR SUMMARY: ", "RACECHECK SUMMARY: "};
    char own[128];
    (void)snprintf(own, sizeof own, "%.*s", (int)(n < 127 ? n : 127), line);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const char *at = strstr(own, heads[i]);
        char *end = NULL;
        if (at == NULL) continue;
        at += strlen(heads[i]);
        *errors = strtoul(at, &end, 10);
        return end != at;
    }
    return 0;
}

int under_count(const char *text, unsigned long *errors, char *first, size_t room) {
    int summaries = 0;
    *errors = 0;
    first[0] = '\0';
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        unsigned long own = 0;
        if (strncmp(line, MARK, sizeof MARK - 1) == 0) {
            const char *said = line + sizeof MARK - 1;
            size_t length = n - (sizeof MARK - 1);
            if (is_summary(said, length, &own)) {
                summaries++;
                *errors += own;
            } else if (first[0] == '\0' && length > 0 && strncmp(said, "COMPUTE-SANITIZER", 17) != 0) {
                (void)snprintf(first, room, "%.*s", (int)(length < 200 ? length : 200), said);
            }
        }
        line += n + (line[n] == '\n');
    }
    return summaries;
}

/* ---- running it ------------------------------------------------------------------------------------------------ */
static int find_program(char *out, size_t room) {
    const char *path = getenv("PATH");
    for (const char *p = path == NULL ? "" : path; *p != '\0';) {
        size_t n = strcspn(p, ":");
        int length = snprintf(out, room, "%.*s/" PROGRAM, (int)n, p);
        if (n > 0 && length > 0 && (size_t)length < room && access(out, X_OK) == 0) return 1;
        p += n + (p[n] == ':');
    }
    return 0;
}

static void command_line(const struct gate *g, const struct gate_context *ctx, const char *program,
                         const char *csv, struct child_args *a) {
    const struct engine_config *c = &ctx->config;
    char geometry[96];
    geometry_format(&c->compute.geometry, geometry, sizeof geometry);
    memset(a, 0, sizeof *a);
    child_add(a, program);
    child_add_pair(a, "--tool", ctx->under);
    child_add_pair(a, "--target-processes", "all"); /* the gate is a child of the child */
    child_add_number(a, "--error-exitcode", EXIT_FOUND);
    child_add(a, ctx->self);
    child_add(a, "run");
    child_add_pair(a, "--tier", tier_name(g->tier));
    child_add_pair(a, "--only", ctx->only != NULL ? ctx->only : g->id);
    child_add_pair(a, "--csv", csv);
    child_add_number(a, "--jobs", 1);
    child_add_pair(a, "--battery", ctx->full_battery ? "full" : ctx->small_battery ? "small" : "quick");
    child_add_pair(a, "-m", ctx->model_path);
    child_add_pair(a, "--backend", "cuda");
    child_add_pair(a, "--arch", arch_name(c->compute.arch));
    child_add_pair(a, "--kv", kv_dtype_name(c->kv));
    child_add_pair(a, "--geometry", geometry);
    child_add_number(a, "--chunk", c->chunk);
    if (!c->compute.graphs) child_add(a, "--no-graph");
}

/* ---- judging --------------------------------------------------------------------------------------------------- */
struct seen {
    unsigned long errors;
    int summaries, launched, red;
    int skipped; /* the gate has rows, and each is a SKIP: run exits 2, having judged nothing */
    char first[256];
    struct child_end end;
};

/* Where no kernel ran the gate's own PASS rows are of the host, and stand for nothing here. */
static enum status forward_rows(const struct gate *g, const struct gate_context *ctx, const char *csv,
                                struct seen *seen, struct err *err) {
    struct evidence *rows = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(report_read_csv(csv, &rows, &n, err));
    seen->skipped = n > 0;
    for (size_t i = 0; i < n; i++) {
        seen->launched |= rows[i].kernels[0] != '\0';
        seen->skipped &= rows[i].verdict == VERDICT_SKIP;
    }
    for (size_t i = 0; i < n; i++) {
        int red = rows[i].verdict != VERDICT_PASS && rows[i].verdict != VERDICT_SKIP;
        int own = strcmp(rows[i].gate, g->id) == 0;
        seen->red |= red;
        if (red || (own && (seen->launched || seen->skipped))) ctx->emit(ctx->sink, &rows[i]);
    }
    free(rows);
    return STATUS_OK;
}

static void tool_row(const struct gate *g, const struct gate_context *ctx, const struct seen *seen) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    int nothing = seen->errors == 0 && !seen->launched;
    (void)snprintf(row.arm, sizeof row.arm, "%s", ctx->under);
    (void)snprintf(row.metric, sizeof row.metric, "errors");
    (void)snprintf(row.grade, sizeof row.grade, "measured");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --backend cuda --under %s --only %s",
                   ctx->under, g->id);
    row.value = nothing ? (double)NAN : (double)seen->errors;
    row.bound = nothing ? (double)NAN : 0;
    row.verdict = nothing ? VERDICT_SKIP : seen->errors == 0 ? VERDICT_PASS : VERDICT_FAIL;
    if (nothing)
        (void)snprintf(row.note, sizeof row.note, "no kernel of this gate ran: nothing to look at");
    else if (seen->errors > 0)
        (void)snprintf(row.note, sizeof row.note, "%lu errors, first: %.250s", seen->errors, seen->first);
    else
        (void)snprintf(row.note, sizeof row.note, "%d process%s looked at", seen->summaries,
                       seen->summaries == 1 ? "" : "es");
    ctx->emit(ctx->sink, &row);
}

static enum status judge(const struct gate *g, const struct gate_context *ctx, const char *csv,
                         struct seen *seen, struct err *err) {
    char how[320];
    child_end_text(&seen->end, how);
    if (seen->summaries == 0)
        return err_set(err, STATUS_DEVICE, PROGRAM " --tool %s refused (%.120s)%s%.200s", ctx->under, how,
                       seen->first[0] != '\0' ? ": " : "", seen->first);
    struct err trouble = {""};
    enum status s = forward_rows(g, ctx, csv, seen, &trouble);
    if (s == STATUS_OK || seen->errors > 0) tool_row(g, ctx, seen);
    if (s != STATUS_OK)
        return err_set(err, s, "under %s the gate left no evidence (%.120s): %.200s", ctx->under, how,
                       trouble.message);
    int nothing_judged = seen->end.exit_code == 2 && seen->skipped;
    if (seen->end.exit_code != 0 && seen->errors == 0 && !seen->red && !nothing_judged)
        return err_set(err, STATUS_DEVICE, "under %s: %.200s, yet no red row and no error", ctx->under, how);
    return STATUS_OK;
}

static enum status run_in(const struct gate *g, const struct gate_context *ctx, const char *program,
                          const char *folder, struct err *err) {
    char csv[300], out[300], errors[300], *text = NULL;
    size_t n = 0;
    struct child_args args;
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    (void)snprintf(csv, sizeof csv, "%s/rows.csv", folder);
    (void)snprintf(out, sizeof out, "%s/out", folder);
    (void)snprintf(errors, sizeof errors, "%s/err", folder);
    command_line(g, ctx, program, csv, &args);
    struct child_request request = {&args, NULL, out, errors, g->timeout_s * SLOWER};
    enum status s = child_run(&request, &seen.end, err);
    child_args_free(&args);
    RETURN_IF_ERROR(s);
    RETURN_IF_ERROR(slurp_any(out, &text, &n, err));
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0') text[i] = ' '; /* what comes after it was said too */
    seen.summaries = under_count(text, &seen.errors, seen.first, sizeof seen.first);
    free(text);
    return judge(g, ctx, csv, &seen, err);
}

enum status under_run(const struct gate *g, const struct gate_context *ctx, struct err *err) {
    char program[4096], folder[256];
    if (ctx->config.backend != BACKEND_CUDA)
        return err_set(err, STATUS_USAGE, "--under %s looks at device kernels: it needs --backend cuda",
                       ctx->under);
    if (!find_program(program, sizeof program))
        return err_set(err, STATUS_IO, PROGRAM " is not on PATH: nothing was looked at");
    RETURN_IF_ERROR(child_folder_make("forkgate-under", folder, err));
    enum status s = run_in(g, ctx, program, folder, err);
    child_folder_remove(folder);
    return s;
}
