/* manual.h - the man page and the bash completion, made from the option tables that parse the command line.
 * Not a second description: an option that is parsed is described and completed, or the test fails.
 * Source: ours. Exercise: ctest -R cli.manual */
#ifndef FORKGATE_MANUAL_H
#define FORKGATE_MANUAL_H

#include <stdio.h>

void manual_print_man(FILE *out);  /* forkgate.1, roff */
void manual_print_bash(FILE *out); /* for /usr/share/bash-completion/completions/forkgate */

#endif
