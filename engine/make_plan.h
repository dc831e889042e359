/* make_plan.h - what a synthetic model is made of: shape, list of tensors, storage type of each, vocabulary.
 * Not the writing (make_model.c). Shared by make_*.c only.
 * Idea: a plan is a flat list of tensors with the statistics of their weights, so one loop can write any model.
 * Source: shapes as published with each model; the type mix is llama.cpp's. Exercise: ctest -R unit.make_model */
#ifndef FORKGATE_MAKE_PLAN_H
#define FORKGATE_MAKE_PLAN_H

#include "gguf_write.h"
#include "model.h"

#define PLAN_NAME_BYTES 48

struct make_shape {
    const char *name;
    const char *arch;
    int n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab, n_ctx;
    float rope_base, rms_eps;
    int tied;
    int rope_factors; /* llama 3.1's rope_freqs.weight */
    const char *pre;  /* pre-tokenizer of the synthetic vocabulary */
};

struct plan_tensor {
    char name[PLAN_NAME_BYTES];
    enum dtype dtype;
    int n_dims;
    uint64_t dims[2];
    float mean, deviation; /* of the weights */
    int rope_factors;      /* not random: llama 3.1's factors */
};

struct plan {
    struct plan_tensor *tensors;
    int n;
};

/* NULL when there is no such shape. */
const struct make_shape *make_shape_find(const char *name);

/* What a quant name asks for: a mix, or one type for every matrix. STATUS_USAGE naming the choices. */
struct quant_choice {
    int mixed; /* q4_k_m */
    enum dtype dtype;
    uint32_t file_type; /* general.file_type */
};
enum status quant_choose(const char *name, struct quant_choice *out, struct err *err);

/* Storage type of matrix `name` with rows of k. layer: -1 outside the layers. lm_head: it makes the logits. Rows that
 * are no multiple of 256 fall back: q4_K to q5_0, q5_K to q5_1, q6_K to q8_0. */
enum dtype quant_type_for(const struct quant_choice *q, const char *name, int layer, int n_layer, int lm_head,
                          uint64_t k);

/* free(out->tensors). */
enum status plan_make(const struct make_shape *shape, const struct quant_choice *q, struct plan *out,
                      struct err *err);

/* Puts every key of a synthetic model, tokenizer included. */
enum status plan_put_keys(gguf_writer *w, const struct make_shape *shape, const struct quant_choice *q,
                          struct err *err);

/* Puts a byte-level vocabulary of n ids: 256 byte tokens, a few merges, <|endoftext|>, then unused padding. */
enum status vocab_put(gguf_writer *w, int n, const char *pre, struct err *err);

/* Llama 3.1's factor of pair i of half pairs. */
float plan_rope_factor(float rope_base, int i, int half);

#endif
