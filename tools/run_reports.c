/* run_reports.c - see run_reports.h. */
#include "tools/run_reports.h"

#include <stdlib.h>
#include <string.h>

#include "gates/file_out.h"
#include "gates/report.h"
#include "gates/report_github.h"
#include "tools/report_page.h"
#include "tools/run_page.h"

void run_reports_default(struct run_reports *r) {
    const char *actions = getenv("GITHUB_ACTIONS");
    memset(r, 0, sizeof *r);
    r->github = actions != NULL && strcmp(actions, "true") == 0;
}

enum status run_reports_check(const struct run_reports *r, const struct gate_context *ctx, struct err *err) {
    const char *const read[] = {ctx->model_path, ctx->base, ctx->self, ctx->faults};
    const char *const paths[] = {r->csv, r->junit, r->html, r->summary};
    const int n = (int)(sizeof paths / sizeof paths[0]);
    for (int i = 0; i < n; i++) {
        if (paths[i] == NULL) continue;
        RETURN_IF_ERROR(file_out_check(paths[i], i == 0, err)); /* the CSV may go into a pipe */
        RETURN_IF_ERROR(file_out_spares(paths[i], read, (int)(sizeof read / sizeof read[0]), err));
        for (int k = 0; k < i; k++)
            if (paths[k] != NULL && file_out_is_one(paths[k], paths[i]))
                return err_set(err, STATUS_USAGE, "%s: two reports in one file", paths[i]);
    }
    return STATUS_OK;
}

enum status run_reports_keep(const struct run_reports *r, struct work_folder *out, struct gate_context *ctx,
                             struct err *err) {
    out->root[0] = '\0';
    if (r->html == NULL) return STATUS_OK;
    RETURN_IF_ERROR(work_folder_make("forkgate-run", out, err));
    ctx->keep = out->root;
    return STATUS_OK;
}

static enum status write_all(const struct run_reports *r, const struct evidence *rows, size_t n,
                             const struct provenance *about, const struct gate_context *ctx,
                             struct err *err) {
    if (r->csv != NULL) RETURN_IF_ERROR(report_write_csv(r->csv, NULL, TABLE_CRLF, rows, n, err));
    if (r->junit != NULL) RETURN_IF_ERROR(report_write_junit(r->junit, rows, n, err));
    if (r->html != NULL) RETURN_IF_ERROR(run_page_write(r->html, rows, n, about, ctx, err));
    if (r->summary != NULL) RETURN_IF_ERROR(report_write_markdown(r->summary, rows, n, about, err));
    return r->github ? report_github(stdout, rows, n, err) : STATUS_OK;
}

static enum status describe(const char *command, const struct gate_context *ctx, struct provenance *p,
                            struct err *err) {
    RETURN_IF_ERROR(report_page_about(command, ctx->model_path, &ctx->config, p, err));
    RETURN_IF_ERROR(provenance_set(p, "battery",
                                   ctx->full_battery    ? "full"
                                   : ctx->small_battery ? "small"
                                                        : "quick",
                                   err));
    if (ctx->only != NULL) RETURN_IF_ERROR(provenance_set(p, "only", ctx->only, err));
    if (ctx->cause != NULL) RETURN_IF_ERROR(provenance_set(p, "cause", ctx->cause, err));
    if (ctx->base != NULL) RETURN_IF_ERROR(provenance_set(p, "base", ctx->base, err));
    return STATUS_OK;
}

enum status run_reports_write(const struct run_reports *r, const struct evidence *rows, size_t n,
                              const char *command, const struct gate_context *ctx, struct err *err) {
    struct provenance about;
    provenance_init(&about);
    enum status s = describe(command, ctx, &about, err);
    if (s == STATUS_OK) s = write_all(r, rows, n, &about, ctx, err);
    provenance_free(&about);
    return s;
}
