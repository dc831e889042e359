/* run_reports.h - the reports that `forkgate run` writes on request, beside what it prints.
 * Source: ours. Exercise: ctest -R cli.run_reports */
#ifndef FORKGATE_RUN_REPORTS_H
#define FORKGATE_RUN_REPORTS_H

#include "gates/gate.h"
#include "gates/work_folder.h"

struct run_reports {
    const char *csv, *junit, *html, *summary;
    int github; /* annotation lines on stdout */
};

/* GITHUB_ACTIONS=true asks for annotation lines until --format says otherwise. */
void run_reports_default(struct run_reports *r);

/* Can every file that was asked for be written? Looked at before the run, which may take long. STATUS_IO, STATUS_USAGE (two
 * reports in one file, by whatever names; in place of the model, the base or a program of the run; a folder; a device or a
 * pipe for anything but the CSV) name the path. */
enum status run_reports_check(const struct run_reports *r, const struct gate_context *ctx, struct err *err);

/* Where the gates leave what a report wants to show: a folder in ctx->keep, when one is wanted. The caller removes it. */
enum status run_reports_keep(const struct run_reports *r, struct work_folder *out, struct gate_context *ctx,
                             struct err *err);

/* about: what the run says of itself in the reports. */
enum status run_reports_write(const struct run_reports *r, const struct evidence *rows, size_t n,
                              const char *command, const struct gate_context *ctx, struct err *err);

#endif
