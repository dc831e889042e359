/* commands.c - the command table, in --help order. */
#include "tools/commands.h"

const struct command *const commands[] = {
    &cmd_run,
    &cmd_golden,
    &cmd_mutants,
    &cmd_report,
    &cmd_generate,
    &cmd_replay,
    &cmd_diff,
    &cmd_explain,
    &cmd_bisect,
    &cmd_trace,
    &cmd_ab,
    &cmd_bench,
    &cmd_inspect,
    &cmd_import,
    &cmd_make_model,
    &cmd_occupancy,
    NULL,
};
