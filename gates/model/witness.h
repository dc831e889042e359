/* witness.h - what an engine does that no bit may show: rows of a step, steps that a captured graph did, threads it starts.
 * Not a trace (engine/trace.h): a watched step is never replayed; this one is.
 * Idea: --chunk, --no-graph and --threads never change bits, so agreement says nothing about whether they were read. Every
 * step goes through one function of the backend's table, and every thread has a number of its own in the system.
 * Source: ours. Exercise: ctest -R unit.witness */
#ifndef FORKGATE_WITNESS_H
#define FORKGATE_WITNESS_H

#include <stdint.h>

#include "engine/engine.h"

struct witness {
    int rows;          /* most that one step had of one sequence */
    uint64_t decodes;  /* steps of one row a sequence */
    uint64_t ripe;     /* those of them whose sequences are those of the two steps before: a graph is ready */
    uint64_t replayed; /* those that a captured graph did */
};

/* Watches every step of e until witness_close, which says what was seen. STATUS_USAGE: another engine is being watched. */
enum status witness_open(engine *e, struct err *err);
struct witness witness_close(void);

#define WITNESS_THREADS 256

struct witness_threads {
    int n;
    long id[WITNESS_THREADS];
};
/* The threads of this process now, those included that are about to end. */
struct witness_threads witness_threads(void);
/* How many there are now that were not there then. */
int witness_started(const struct witness_threads *then);

#endif
