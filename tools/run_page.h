/* run_page.h - the HTML file of `forkgate run --html`: its rows, the first stream that left its golden, the fault matrix.
 * Source: ours. Exercise: ctest -R cli.run_reports */
#ifndef FORKGATE_RUN_PAGE_H
#define FORKGATE_RUN_PAGE_H

#include "gates/gate.h"
#include "gates/provenance.h"

/* ctx->keep: where the gates left the streams (NULL: nowhere). The fault matrix is the recorded one of the same backend,
 * reports/mutants_BACKEND.csv, when there is one. */
enum status run_page_write(const char *path, const struct evidence *rows, size_t n,
                           const struct provenance *about, const struct gate_context *ctx, struct err *err);

#endif
