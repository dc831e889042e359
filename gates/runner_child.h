/* runner_child.h - the two ends of the pipe between a gate's child process and the runner. Private to runner*.c.
 * Idea: frames carry a kind and a size, so that a half-written row of a crashing child is never taken for a row.
 * Source: ours. Exercise: ctest -R unit.verdicts */
#ifndef FORKGATE_RUNNER_CHILD_H
#define FORKGATE_RUNNER_CHILD_H

#include <sys/types.h>

#include "gates/runner.h"

enum frame_kind { FRAME_ROW = 0x464f5752, FRAME_DONE = 0x464e4f44 };

struct frame_done {
    enum status status; /* of gate->run */
    struct err err;
};

/* One running gate, seen from the runner. */
struct runner_child {
    pid_t pid; /* 0: slot free */
    int fd;    /* read end, non-blocking; -1 when at its end */
    size_t index;
    const struct gate_context *ctx; /* borrowed: for the command of a row about the child's end */
    double started, deadline;       /* seconds, monotonic clock */
    double last_row; /* when the row before arrived: a row without a time of its own gets the difference */
    uint8_t *buffer; /* bytes not yet parsed */
    size_t used, room;
    int done; /* the DONE frame arrived */
    int lost; /* no memory to read on: the child is ended */
    struct frame_done result;
};

double runner_clock(void); /* seconds, monotonic */

enum status runner_child_start(struct runner_child *c, const struct gate *g, const struct gate_context *ctx,
                               double timeout_s, struct err *err);
/* Reads what is there and appends whole rows to r. Returns 0 at the end of the pipe. */
int runner_child_read(struct runner_child *c, struct gate_result *r);
/* Reaps the child (killing its group first when it overran its deadline), adds an ERROR row when it crashed, was killed,
 * exited early or left nothing, and frees the slot. */
void runner_child_finish(struct runner_child *c, struct gate_result *r, int timed_out);

/* Why rows that say PASS are no verdict, or NULL: agreement is claimed only where something was compared, only within the
 * bound, and, of a whole gate, only beside its controls and with every arm that it owes (struct gate). */
const char *runner_rows_trouble(const struct gate_result *r, int whole, char *note, size_t room);

/* Appends a row. Where memory is refused the row is lost, and r->lost makes the gate an ERROR. */
void runner_add_row(struct gate_result *r, const struct evidence *row);
void runner_add_note(struct gate_result *r, enum verdict v, const char *note);
/* Sets r->verdict from the rows: the worst of them, at least ERROR when one was lost; SKIP where nothing passed but the
 * controls around what was skipped. */
void runner_fold(struct gate_result *r);

#endif
