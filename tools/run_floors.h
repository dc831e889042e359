/* run_floors.h - the detection floors of a run, at its end. Source: ours. Exercise: forkgate run --tier parity */
#ifndef FORKGATE_RUN_FLOORS_H
#define FORKGATE_RUN_FLOORS_H

#include <stdio.h>

#include "gates/runner.h"

/* The smallest damage that each gate was seen to call red, one line for all gates of the same floor. Tier 4 says its floors
 * below each gate. Nothing where no gate has one: a negative arm that saw nothing is BLIND, and no floor. */
void run_floors_print(FILE *out, const struct run_result *r);

#endif
