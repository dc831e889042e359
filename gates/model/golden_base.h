/* golden_base.h - the streams that a candidate is held against where --base names them: another build, dumps, an engine.
 * Source: DESIGN of forkgate, section 7. Exercise: forkgate run --tier identity --base OTHER/forkgate */
#ifndef FORKGATE_GOLDEN_BASE_H
#define FORKGATE_GOLDEN_BASE_H

#include "gates/model/streams.h"
#include "gates/side.h"

struct golden_base {
    struct side side;
    struct work_folder folder; /* of what a program left; gone with golden_base_close */
    char dir[WORK_PATH];       /* where its dumps are */
    struct battery battery;    /* the prompts, borrowed from the streams, without ".txt" */
    char what[160];            /* the base in one phrase */
};

/* Runs the base on all prompts at the architecture's default geometry, as far as the longest goes. STATUS_USAGE where it is
 * the candidate itself: a comparison with itself proves nothing. */
enum status golden_base_open(const struct gate_context *ctx, const struct engine_config *candidate,
                             const struct streams *s, struct golden_base *out, struct err *err);
/* The base's stream of prompt i. */
enum status golden_base_stream(const struct golden_base *b, int i, dump **out, struct err *err);
void golden_base_close(struct golden_base *b);

#endif
