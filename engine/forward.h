/* forward.h - the one forward pass, written once over a backend's op table.
 * Not a session: it holds no positions and no cache of its own; it knows rows, layers and buffers.
 * Idea: every buffer is carved from one arena when the engine opens; a step allocates nothing.
 * Source: ours. Exercise: ctest -R unit.session */
#ifndef FORKGATE_FORWARD_H
#define FORKGATE_FORWARD_H

#include "model.h"
#include "trace.h"

#define SCORE_ROWS 64 /* rows whose logits one step may produce (teacher forcing); decode needs BATCH_MAX */

struct workspace {
    int max_rows;     /* rows of one step */
    void *arena;      /* backend memory that everything below points into */
    float *x;         /* [max_rows, n_embd]               residual stream */
    float *h;         /* [max_rows, n_embd]               normalised input; projections' output */
    float *q;         /* [max_rows, n_head * head_dim] */
    float *k, *v;     /* [max_rows, n_kv_head * head_dim] */
    float *o;         /* [max_rows, n_head * head_dim]    attention output */
    float *gate, *up; /* [max_rows, n_ff]                 swiglu writes into gate */
    float *logits;    /* [SCORE_ROWS, n_vocab_rows] */
    struct top2 *top; /* [SCORE_ROWS] */
    void *room;       /* backend attention_room */
    struct act
        act[ACT_KINDS]; /* one per kind the model needs; contents live until the next input is prepared */
};

struct observer {
    trace_fn *fn;
    void *ctx;
    float *host; /* staging for the event's data */
    size_t host_floats;
    tap_fn *tap;
    void *tap_ctx;
};

/* n_ctx: positions of the longest cache that will be attended to. */
enum status workspace_open(const struct model *m, int max_rows, int n_ctx, struct workspace *out,
                           struct err *err);
void workspace_close(const struct model *m, struct workspace *w);

/* Runs all layers for the step's rows and the head for rows [head_row, n_rows), at most SCORE_ROWS of them: leaves
 * w->logits and w->top (row 0 is head_row). observer may be NULL. */
enum status forward_step(const struct model *m, struct workspace *w, const struct step *s, int head_row,
                         struct observer *observer, struct err *err);

#endif
