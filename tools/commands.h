/* commands.h - every command of the binary; one line here and one in commands.c. */
#ifndef FORKGATE_COMMANDS_H
#define FORKGATE_COMMANDS_H

#include "tools/cli.h"

extern const struct command cmd_generate;
extern const struct command cmd_ab;
extern const struct command cmd_bench;
extern const struct command cmd_replay;
extern const struct command cmd_run;
extern const struct command cmd_golden;
extern const struct command cmd_mutants;
extern const struct command cmd_report;
extern const struct command cmd_diff;
extern const struct command cmd_explain;
extern const struct command cmd_bisect;
extern const struct command cmd_trace;
extern const struct command cmd_import;
extern const struct command cmd_inspect;
extern const struct command cmd_make_model;
extern const struct command cmd_occupancy;

#endif
