/* model_impl.h - what model.c and model_rope.c share.
 * Not an interface: everybody else includes model.h.
 * Idea: a model is handed out as the first member of its owner, which keeps what must be freed but not seen.
 * Source: ours. Exercise: ctest -R unit.model */
#ifndef FORKGATE_MODEL_IMPL_H
#define FORKGATE_MODEL_IMPL_H

#include "model.h"

struct model_owner {
    struct model model;   /* first: a struct model * from model_load is a struct model_owner * */
    void *rope_memory[2]; /* cos and sin of model.rope, backend memory */
};

/* Fills m->model.rope for positions 0 .. n_pos-1. factors: rope_freqs.weight (f32, [n_rot/2]) or NULL. */
enum status model_make_rope(struct model_owner *m, const struct gguf_tensor *factors, int n_pos,
                            struct err *err);

#endif
