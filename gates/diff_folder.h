/* diff_folder.h - a comparison with its control looked up, and many of them: two folders paired by file name.
 * Not a verdict of its own: folder totals are the verdicts of the pairs.
 * Source: ours. Exercise: ctest -R cli.diff */
#ifndef FORKGATE_DIFF_FOLDER_H
#define FORKGATE_DIFF_FOLDER_H

#include "gates/diff.h"

struct diff_options {
    const char *control; /* folder of control pairs, or NULL */
    const char *budgets; /* golden/budgets.csv, or NULL; read when no folder is given and the streams fork */
};

/* As diff_files, then judges a fork with the control that applies. Where none does, or none can be read, the fork stays a
 * FORK and out->control.source says why; a control folder that is not there is STATUS_IO. */
enum status diff_with_control(const char *path_a, const char *path_b, const struct diff_options *options,
                              dump **a, dump **b, struct diff_result *out, struct err *err);

/* One call per name found in either folder, in name order. status: STATUS_OK, then a, b and r are set (close nothing);
 * otherwise err says what is wrong with this pair (one file missing, damaged). */
typedef void diff_visit(void *ctx, const char *path_a, const char *path_b, enum status status, const dump *a,
                        const dump *b, const struct diff_result *r, const struct err *err);
/* *.fgd files only. No name at all in both folders is STATUS_USAGE: nothing compared is not a pass. */
enum status diff_folders(const char *dir_a, const char *dir_b, const struct diff_options *options,
                         diff_visit *visit, void *ctx, struct err *err);

/* STATUS_IO when dir, the folder of --control, cannot be opened. NULL: none was given. */
enum status diff_control_folder(const char *dir, struct err *err);

#endif
