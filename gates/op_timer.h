/* op_timer.h - where a step's time goes: every op of a backend's table behind a shim that measures it.
 * Not a trace: no data is copied and no order changes; but a device is synchronised after every op, so the sum is more than
 * a step takes without it.
 * Idea: the table of ops is the seam; forward.c does not know.
 * Source: ours. Exercise: forkgate bench --ops ; ctest -R unit.ab */
#ifndef FORKGATE_OP_TIMER_H
#define FORKGATE_OP_TIMER_H

#include "engine/engine.h"

enum timed_op {
    TIMED_EMBED,
    TIMED_RMSNORM,
    TIMED_ACT_PREPARE,
    TIMED_MATMUL,
    TIMED_ROPE,
    TIMED_KV_APPEND,
    TIMED_ATTENTION,
    TIMED_SWIGLU,
    TIMED_ADD,
    TIMED_TOP2,
    TIMED_OPS
};

struct op_times {
    uint64_t calls[TIMED_OPS];
    double seconds[TIMED_OPS];
};

const char *op_timer_name(enum timed_op op);

/* Puts the shims into the engine's backend table. One engine of the process at a time: STATUS_USAGE when another is attached.
 * Captured graphs would bypass them: open the engine with graphs off. */
enum status op_timer_attach(engine *e, struct err *err);
/* What was measured since attach or the last take; starts again from zero. */
struct op_times op_timer_take(void);
/* Puts the table back as it was. Must come before engine_close. */
void op_timer_detach(void);

/* Seconds of a clock that never jumps. */
double op_timer_now(void);

#endif
