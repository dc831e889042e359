/* diff_print.h - what every report of `forkgate diff` shares: colour, foreign text, the provenance that differs.
 * Not a report: diff_report.h (streams) and tensor_report.h (tensors) are.
 * Source: DESIGN of forkgate, section 6. Exercise: ctest -R unit.diff_report ; ctest -R 'cli.(diff|tensors)' */
#ifndef FORKGATE_DIFF_PRINT_H
#define FORKGATE_DIFF_PRINT_H

#include <stdio.h>

#include "gates/diff_report.h"

#define DIFF_CELL 512 /* room for one escaped text */

enum diff_colour { DIFF_PLAIN, DIFF_BOLD, DIFF_RED, DIFF_GREEN, DIFF_CYAN };

/* The escape sequence, or "" where there is no colour. */
const char *diff_ink(const struct diff_view *v, enum diff_colour c);

/* Foreign bytes as the view may show them; returns out. */
const char *diff_escaped(const void *bytes, size_t n, const struct diff_view *v, char out[DIFF_CELL]);

/* What a difference in this key means, or "". A value is NULL where a side does not say. */
typedef const char *diff_note(const char *key, const char *x, const char *y);

/* One line per key that differs between A and B, in their order; or that nothing does. */
void diff_print_provenance(FILE *out, const struct provenance *a, const struct provenance *b, diff_note *note,
                           const struct diff_view *v);

#endif
