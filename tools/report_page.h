/* report_page.h - `forkgate report html`: gathers what one HTML report is made of, and writes it.
 * Source: ours. Exercise: ctest -R cli.report_html */
#ifndef FORKGATE_REPORT_PAGE_H
#define FORKGATE_REPORT_PAGE_H

#include "engine/engine.h"
#include "gates/provenance.h"

struct report_page_args {
    const char *run;               /* CSV of a run, or NULL */
    const char *dump_a, *dump_b;   /* or NULL */
    const char *control;           /* folder of control pairs, or NULL */
    const char *explain, *mutants; /* CSVs, or NULL */
    const char *out;               /* NULL: standard output */
};

enum status report_page_write(const struct report_page_args *a, struct err *err);

/* tool, commit, date, command and the candidate's options: what a run says about itself in a report. config may be NULL. */
enum status report_page_about(const char *command, const char *model, const struct engine_config *config,
                              struct provenance *p, struct err *err);

#endif
