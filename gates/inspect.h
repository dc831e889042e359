/* inspect.h - any .fgd, .fgt or .gguf as CSV, so that people, spreadsheets and `git diff` can read it.
 * Not a summary: every record, every value, every key is printed.
 * Idea: a dump's columns are those of import.h, so what is printed can be read back.
 * Source: ours. Exercise: ctest -R unit.import ; ctest -R cli.inspect */
#ifndef FORKGATE_INSPECT_H
#define FORKGATE_INSPECT_H

#include <stdio.h>

#include "gates/table.h"

/* Verifies the file first: a damaged one prints nothing. provenance: "# key=value" lines before the header (dumps and
 * tensors). Tensors: index and value, dequantised. GGUF: keys and tensors with their XXH3-128.
 * STATUS_UNSUPPORTED when the first bytes are none of the three formats. */
enum status inspect_file(const char *path, int provenance, enum table_eol eol, FILE *out, struct err *err);

#endif
