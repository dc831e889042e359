/* under.h - a gate of the parity tier under a tool of compute-sanitizer: its device child is started by the tool, and the
 * tool's own count of errors becomes a row beside the gate's.
 * Not a sanitizer, and never a pass by absence: no tool, a tool that refuses, no summary, no device: ERROR.
 * Idea: the child is this same binary with the same options; its rows come back as CSV, so a gate is judged as ever.
 * Source: compute-sanitizer's closing lines. Exercise: ctest -R cli.under */
#ifndef FORKGATE_UNDER_H
#define FORKGATE_UNDER_H

#include "gates/gate.h"

/* memcheck, racecheck, initcheck, synccheck. */
int under_is_tool(const char *name);

/* Runs gate g (by ctx->self) under ctx->under and emits its rows and the tool's. An error means that nothing was judged. */
enum status under_run(const struct gate *g, const struct gate_context *ctx, struct err *err);

/* Sums the errors of every "ERROR SUMMARY: N errors" and the hazards of every "RACECHECK SUMMARY: N hazards" in a tool's
 * output; returns how many such lines there are. first: the first line that reports one, cut to room. */
int under_count(const char *text, unsigned long *errors, char *first, size_t room);

#endif
