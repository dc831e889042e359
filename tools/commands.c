/* commands.c - the command table, in --help order. */
#include "tools/commands.h"

const struct command *const commands[] = {
    &cmd_generate,
    &cmd_replay,
    NULL,
};
