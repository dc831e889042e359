/* tensor_report.h - the comparison of two tensors as people read it and as one CSV row.
 * Not a judgement: everything printed is in struct tensor_diff or in the two files.
 * Idea: what it is, census, how many, first, worst, how far, the control, the verdict; the last line stands alone.
 * Source: DESIGN of forkgate, section 6. Exercise: ctest -R unit.tensor_diff ; ctest -R cli.tensors */
#ifndef FORKGATE_TENSOR_REPORT_H
#define FORKGATE_TENSOR_REPORT_H

#include "gates/diff_report.h"
#include "gates/tensor_diff.h"

/* The whole report, without the closing line. */
void tensor_report_text(FILE *out, const tensor_dump *a, const tensor_dump *b, const struct tensor_diff *r,
                        const struct diff_view *view);

/* One row: every number of struct tensor_diff, both hashes, and the command to repeat it. control: the folder, or NULL. */
enum status tensor_csv_open(const char *path, enum table_eol eol, table_writer **out, struct err *err);
void tensor_csv_row(table_writer *w, const tensor_dump *a, const tensor_dump *b, const struct tensor_diff *r,
                    const char *control);
/* A pair that could not be judged: the verdict is INVALID, the reason is the error. */
void tensor_csv_damage(table_writer *w, const char *path_a, const char *path_b, const struct err *err,
                       const char *control);

#endif
