/* report_html.h - a run, a fork, an explanation and a fault matrix as one HTML file that opens from disk.
 * Not a viewer: no script, nothing fetched, nothing decided here; every verdict comes from the rows and from diff.
 * Idea: verdict first, then what failed, then why; what is not in the report is said too.
 * Source: ours. Exercise: ctest -R unit.report_html ; ctest -R html_browser */
#ifndef FORKGATE_REPORT_HTML_H
#define FORKGATE_REPORT_HTML_H

#include "gates/diff.h"
#include "gates/gate.h"
#include "gates/table.h"

struct report_page {
    const struct evidence *rows; /* [n] of a run; NULL: none */
    size_t n;
    const struct provenance *about; /* of the run: tool, commit, backend, geometry, ..; NULL: none */
    const dump *a, *b;              /* two streams and their comparison; NULL: none */
    const struct diff_result *diff;
    int of_run;                     /* made by the run itself: a and b are a stream that left its golden */
    const char *fork_title;         /* what the two streams are; NULL: two streams that were given */
    const char *side_names[2];      /* "the golden", "this run"; NULL: the names of the dumps */
    const table *explain, *mutants; /* `forkgate explain --csv`, `forkgate mutants --csv`; NULL: none */
};

/* The whole page to path (complete or not at all), or to stream when path is NULL. STATUS_FORMAT: a table that is not what
 * its place asks for. STATUS_USAGE: nothing to report. */
enum status report_write_html(const char *path, FILE *stream, const struct report_page *p, struct err *err);

/* ---- the parts, one file each (report_html_*.c) ---- */
struct report_sum;
void html_failures(FILE *out, const struct report_sum *s, const struct evidence *rows, size_t n);
void html_coverage(FILE *out, const struct evidence *rows, size_t n);
void html_fork(FILE *out, const struct report_page *p);
enum status html_gaps(FILE *out, const struct report_page *p, struct err *err);
enum status html_growth(FILE *out, const table *t, struct err *err);
enum status html_faults(FILE *out, const table *t, struct err *err);

#endif
