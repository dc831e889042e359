/* model.h - what a model is: its configuration and every weight, found, shape-checked and uploaded.
 * Not a loader of formats (gguf.h) and not the computation (forward.h).
 * Idea: after model_load returns OK nothing downstream checks a shape again.
 * Source: GGUF key and tensor names of llama, qwen2, qwen3. Exercise: ctest -R unit.model */
#ifndef FORKGATE_MODEL_H
#define FORKGATE_MODEL_H

#include "backend.h"
#include "gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

enum model_arch { MODEL_LLAMA, MODEL_QWEN2, MODEL_QWEN3 };

struct model_config {
    enum model_arch arch;
    int n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff;
    int n_ctx;        /* trained context length */
    int n_vocab;      /* tokenizer's vocabulary; the logits that count */
    int n_vocab_rows; /* rows of the output matrix, >= n_vocab (padding rows never win) */
    float rms_eps;
    enum rope_kind rope_kind;
    int n_rot; /* rotated dims per head */
    double rope_base;
    double rope_linear; /* linear scaling factor, 1 when none */
    int tied;           /* output matrix is token_embd */
    char name[64];      /* general.name, printable, possibly empty */
};

struct model_layer {
    struct weight attn_norm;            /* [n_embd] */
    struct weight wq, wk, wv;           /* [n_head*head_dim | n_kv_head*head_dim, n_embd] (+bias) */
    struct weight q_norm, k_norm;       /* [head_dim], qwen3; data == NULL when absent */
    struct weight wo;                   /* [n_embd, n_head*head_dim] (+bias) */
    struct weight ffn_norm;             /* [n_embd] */
    struct weight w_gate, w_up, w_down; /* [n_ff, n_embd], [n_ff, n_embd], [n_embd, n_ff] */
    struct weight bq, bk, bv, bo;       /* vectors behind the bias pointers; data == NULL when absent */
};

struct model {
    struct model_config config;
    struct backend *backend;    /* borrowed */
    struct weight token_embd;   /* WEIGHT_EMBED */
    struct weight output_norm;  /* [n_embd] */
    struct weight output;       /* [n_vocab_rows, n_embd] for matmul */
    struct rope_table rope;     /* covers n_ctx positions */
    struct model_layer *layers; /* [n_layer] */
};

/* Reads and checks the configuration only (no weights): used by inspect and hostile-file tests. n_vocab is taken from
 * tokenizer.ggml.tokens. Head counts that do not divide are refused naming both. */
enum status model_read_config(const gguf *g, struct model_config *out, struct err *err);

/* Finds, checks and uploads every tensor. n_ctx > 0 lowers the positions covered by the RoPE table. Optional tensor
 * rope_freqs.weight (llama 3 factors) divides the frequencies. Tensors the architecture does not know are refused. */
enum status model_load(const gguf *g, struct backend *backend, int n_ctx, struct model **out,
                       struct err *err);
void model_free(struct model *m);

#ifdef __cplusplus
}
#endif
#endif
