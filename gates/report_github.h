/* report_github.h - a run as GitHub-style annotation lines, and as a Markdown job summary.
 * Not a log format: what a run prints for people stays as it is; these come beside it.
 * Idea: nothing foreign can start a line, end a cell or begin a command.
 * Source: GitHub's workflow-command and job-summary limits (10 errors a step, 1 MiB). Exercise: ctest -R unit.report_github */
#ifndef FORKGATE_REPORT_GITHUB_H
#define FORKGATE_REPORT_GITHUB_H

#include <stdio.h>

#include "gates/gate.h"
#include "gates/provenance.h"

#define REPORT_ANNOTATIONS   9                 /* and one that counts the rest */
#define REPORT_SUMMARY_LIMIT ((size_t)1 << 20) /* a longer summary is dropped as a whole by GitHub */

/* "::error title=FAIL stream.golden.f16::holmes.txt golden: .. rerun: ..": one line a gate that is not green. */
enum status report_github(FILE *out, const struct evidence *rows, size_t n, struct err *err);

/* Verdict, tiers, failures with their commands; about (may be NULL) at the end. Complete or not at all, at most
 * REPORT_SUMMARY_LIMIT bytes: failures that do not fit are counted. */
enum status report_write_markdown(const char *path, const struct evidence *rows, size_t n,
                                  const struct provenance *about, struct err *err);

#endif
