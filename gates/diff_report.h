/* diff_report.h - `forkgate diff` as people read it (like git diff) and as one CSV row per comparison.
 * Not a judgement: everything printed is in struct diff_result or in the two dumps.
 * Idea: where, what, how close, how far drifted, verdict with its control, next command; the last line stands alone.
 * Source: DESIGN of forkgate, section 6. Exercise: ctest -R unit.diff_report ; ctest -R cli.diff */
#ifndef FORKGATE_DIFF_REPORT_H
#define FORKGATE_DIFF_REPORT_H

#include <stdio.h>

#include "gates/diff.h"
#include "gates/table.h"

struct diff_view {
    int colour;       /* ANSI colours; the words stay the same */
    int utf8;         /* valid UTF-8 as it is; otherwise ASCII with \xNN */
    int width;        /* columns; long values are cut, never the verdict */
    const char *next; /* the next command, or NULL */
};

/* The whole report of one comparison, without the closing line. */
void diff_report_text(FILE *out, const dump *a, const dump *b, const struct diff_result *r,
                      const struct diff_view *view);

/* "KNIFE-EDGE  fork at 41 of 256  gap 0.031 / 0.006  drift 0.022 at 40": one comparison among many. */
void diff_report_line(FILE *out, const char *name, const struct diff_result *r, const struct diff_view *view);

/* What was asked beside the two dumps: a row tells the exit code of that, and repeats it. */
struct diff_asked {
    const char *control; /* the folder of --control, or NULL */
    int bits;            /* --bits: the same rails too */
};

/* CSV: one row per comparison, all numbers of diff_result, both results of both sides (empty where they were not looked
 * at), and the command to repeat it. */
enum status diff_csv_open(const char *path, enum table_eol eol, table_writer **out, struct err *err);
void diff_csv_row(table_writer *w, const dump *a, const dump *b, const struct diff_result *r,
                  const struct diff_asked *asked);
/* A pair that could not be opened: the verdict is INVALID, the reason is the error. */
void diff_csv_damage(table_writer *w, const char *path_a, const char *path_b, const struct err *err,
                     const struct diff_asked *asked);

#endif
