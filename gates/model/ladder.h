/* ladder.h - the context ladder: a rung at every row and key count where another kernel, tile or chunk takes over, and at
 * its neighbours; which kernels each rung is for, and the rows that say whether they ran and gave the same bits.
 * Not the walk (gate_ladder.c). Idea: rungs follow the symbols and the candidate's geometry, so a threshold that moves takes
 * its rungs along; the proof is what the kernels counted during exactly that rung.
 * Source: ours. Exercise: ctest -R unit.ladder */
#ifndef FORKGATE_LADDER_H
#define FORKGATE_LADDER_H

#include "gates/model/streams.h"

#define LADDER_RUNGS 32

/* One step of `rows` rows, the last of which sees `keys` keys; then one decode step, which sees keys + 1. */
struct rung {
    int rows, keys;
};

/* Rungs in the order of their first position. Rows: a prompt of that many tokens. Keys: a step behind a prefix, of the fewest
 * rows that are no decode; whole: the whole prompt as one step, of at most CHUNK_DEFAULT rows. Returns how many. */
int ladder_rungs(const struct geometry *g, int whole, struct rung out[LADDER_RUNGS]);

struct launches {
    int n;
    struct kernel_count kernel[BACKEND_KERNELS_MAX];
};
void launches_now(engine *e, struct launches *out);
/* out: what has been launched since `before`. */
void launches_since(engine *e, const struct launches *before, struct launches *out);
/* into += more */
void launches_add(struct launches *into, const struct launches *more);

/* What a rung left: the logits behind its step and behind its decode step, and what was launched for each. */
struct rung_made {
    struct hash128 row[2];
    int not_finite; /* rows with NaN or Inf */
    struct launches step, decode;
};

/* What the choice of a kernel depends on, beside the rows. */
struct ladder_shape {
    enum backend_kind backend;
    enum route route;
    enum kv_dtype kv;
    int n_layer, head_dim, wgmma;
};
struct ladder_shape ladder_shape_of(engine *e);

/* How many launches of a step of `rows` rows were not as they should: attention's kernel once a layer and no other of
 * attention; the product's kernel at least once a layer, and of other products only that of one row, once, for the head. On
 * the CPU one twin serves every shape: there it says how many steps there were. note: the kernels of both, with counts. */
uint64_t ladder_wrong(const struct ladder_shape *shape, int rows, const struct launches *l, char *note,
                      size_t room);

/* Rows "ladder" (the rung's logits against the same tokens another way) and "dispatched". */
void ladder_rows(const struct stream_arm *a, const struct ladder_shape *shape, const struct rung *r,
                 const struct rung_made *want, const struct rung_made *got);
/* Rows "negative": logits in which one bit was flipped, and one step more than the rung has, must be noticed. */
void ladder_negative_rows(const struct stream_arm *a, const struct ladder_shape *shape, const struct rung *r,
                          const struct rung_made *got, const struct hash128 *damaged);

#endif
