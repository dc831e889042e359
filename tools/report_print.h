/* report_print.h - what `forkgate report compare` shows. Not a comparison (gates/report_compare.h).
 * Idea: one line per gate and kind of change, the worse ones first, and a few of its checks under it.
 * Source: ours. Exercise: ctest -R cli.report */
#ifndef FORKGATE_REPORT_PRINT_H
#define FORKGATE_REPORT_PRINT_H

#include "gates/report_compare.h"

/* To standard output, as wide as its terminal. n: checks of each report. */
void report_print_compared(const struct report_comparison *c, const char *before, size_t n_before,
                           const char *after, size_t n_after);

#endif
