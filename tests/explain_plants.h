/* explain_plants.h - faults put between an engine and its ops, so that `explain` has something to find.
 * Not the catalogue's own plants: those live in the ops; these damage what an op left, through the backend's table. */
#ifndef FORKGATE_EXPLAIN_PLANTS_H
#define FORKGATE_EXPLAIN_PLANTS_H

#include "engine/engine.h"
#include "gates/explain.h"

enum plant {
    PLANT_NONE,
    PLANT_TAIL_ZERO,   /* attention of layer 2 leaves the end of its rows zero */
    PLANT_TAIL_NAN,    /* the same, NaN */
    PLANT_ROW_COPY,    /* attention of layer 0: row 5 is row 4 */
    PLANT_ROPE_SKIP,   /* no rotation at all */
    PLANT_STALE_ACT,   /* inputs prepared again only when the buffer changes: ffn_norm gets attn's codes */
    PLANT_NORM_TAIL,   /* from layer 1 on the end of a normalised row is not written */
    PLANT_MM_HALF,     /* products of n_ff columns are half */
    PLANT_KV_SCALE,    /* keys are stored 1 % larger */
    PLANT_KV_CLOBBER,  /* a decode step of layer 1 also overwrites cache row 1 */
    PLANT_ADD_ULP,     /* one element of a residual is one step off */
    PLANT_ADD_PERCENT, /* one is 1 % off */
    PLANT_TOP2_SWAP,   /* the second best wins */
    PLANT_LAST_ROW,    /* attention of layer 0 doubles the last row of a prompt */
    PLANT_V_HALF,      /* keys and values are half */
    PLANT_NOISE,       /* attention of layer 3 differs a little on every call */
    PLANT_WAITS        /* no fault: calls say that they wait for a partner, as a device's do */
};

/* Puts the plant into the engine's op table; one engine at a time. */
void plant_into(engine *e, enum plant plant);

struct plant_case {
    enum plant plant;
    char name[16];
    enum explain_verdict verdict;
    int layer;
    char op[16], tensor[24];
};
#define PLANT_CASES 13
extern const struct plant_case plant_cases[PLANT_CASES];

#endif
