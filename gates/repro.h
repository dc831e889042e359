/* repro.h - the command that repeats a check: what the gate says (`forkgate run --only ..`) and the candidate's options.
 * Not a log of what was typed: a row of a long run names the part that repeats this row.
 * Idea: one place knows which options change what a gate sees; a command that would not be whole is not given.
 * Source: ours. Exercise: ctest -R cli.run_repro */
#ifndef FORKGATE_REPRO_H
#define FORKGATE_REPRO_H

#include "gates/gate.h"

/* Adds to "forkgate run .." what is not the default (model, backend, arch, geometry, KV type, chunk, graphs, battery, class
 * and cause) and, for tiers tolerance and perf, route, base and engine, quoted for a shell. Any other text stays. A command
 * longer than room is replaced by one sentence in a shell comment. */
void repro_complete(const struct gate_context *ctx, char *repro, size_t room);

/* From the rows of a run: the command that judges the same candidate whole, "forkgate run" with its options. */
void repro_landing(const struct evidence *rows, size_t n, char *out, size_t room);

/* Is " OPTION" a word of this command? */
int repro_has(const char *repro, const char *option);

#endif
