/* tolerance_damage.h - the harness's own plants: known damage to a stream, each of which the tolerance tier must call red.
 * Not a fault in the engine (forkgate-faults has those); this works for any engine's dumps.
 * Idea: the damage is made just large enough for the margin and delta in force, so that it is the detection floor; a gate
 * that calls it green is BLIND.
 * Source: DESIGN of forkgate, section 5 "negative". Exercise: ctest -R unit.tolerance */
#ifndef FORKGATE_TOLERANCE_DAMAGE_H
#define FORKGATE_TOLERANCE_DAMAGE_H

#include "gates/tolerance.h"

enum damage {
    DAMAGE_SCALED_ROW, /* the logits of one row times (1 + x), 2 delta < x * |top-1 logit| */
    DAMAGE_STALE_TAIL, /* from one row on, every row is the row before it */
    DAMAGE_SWAPPED_TOKEN, /* one token is the second choice at the clearest margin's other end: the smallest hard one */
    DAMAGES
};

const char *damage_name(enum damage d); /* "scaled-row" */

/* A damaged copy of the base stream d (in memory; dump_close it). delta as in force; the margin of a hard position is
 * tolerance_margin(delta). floor: one phrase, what was
 * done ("1 row x 1.0031", "2 rows stale", "1 token at margin 0.104"). *out is NULL when the stream has no place for this
 * damage (no hard position). */
enum status damage_make(const dump *d, enum damage damage, double delta, dump **out, char *floor, size_t room,
                        struct err *err);

/* Does the tier see it? Forced damage goes through tolerance_judge_forced, a swapped token through tolerance_judge_stream. 1
 * when the verdict is FAIL. */
enum status damage_is_seen(const dump *base, const dump *damaged, enum damage damage, double delta, int *seen,
                           struct err *err);

/* The two in one, with the floor found and not only computed: a scaled row is tried with factors from 1 + 2^-22 on, each
 * twice as far from 1, and then between the last that is not seen and the first that is. floor: "the logits of 1 row x 1.0017
 * (x 1.0016 is not seen)". *seen is 0, with no place said in floor, where d has none for this damage. */
enum status damage_floor(const dump *d, enum damage damage, double delta, int *seen, char *floor, size_t room,
                         struct err *err);

#endif
