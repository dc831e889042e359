/* model_bytes.h - a very small model file, built by hand, with one key or tensor changed, dropped or added.
 * Two layers, width 32, two query heads and one KV head of 16, FFN 64, 40 tokens; weights are zero.
 * Source: ours. Exercise: ctest -R unit.model */
#ifndef FORKGATE_MODEL_BYTES_H
#define FORKGATE_MODEL_BYTES_H

#include <stdio.h>

#include "tests/gguf_bytes.h"

struct key_row {
    char name[48];
    uint32_t type;
    uint64_t value;   /* scalars, as bits */
    const char *text; /* strings */
};

struct tensor_row {
    char name[48];
    uint64_t k, n; /* n == 0: one-dimensional */
    enum dtype dtype;
};

#define MODEL_ROWS_MAX 64

struct small_model {
    const char *arch;
    struct key_row keys[MODEL_ROWS_MAX];
    int n_keys;
    struct tensor_row tensors[MODEL_ROWS_MAX];
    int n_tensors;
    int n_tokens;
};

/* out = head + dot + tail, which must fit: a name cut short would test something else. */
static inline void join_name(char out[48], const char *head, const char *dot, const char *tail) {
    size_t a = strlen(head), b = strlen(dot), c = strlen(tail);
    if (a + b + c >= 48) abort();
    memcpy(out, head, a);
    memcpy(out + a, dot, b);
    memcpy(out + a + b, tail, c + 1);
}

/* A name that starts with "general." or "split." stands as it is, any other goes below the architecture's. */
static inline void set_key(struct small_model *m, const char *name, uint32_t type, uint64_t value,
                           const char *text) {
    struct key_row row = {"", type, value, text};
    int plain = strncmp(name, "general.", 8) == 0 || strncmp(name, "split.", 6) == 0;
    join_name(row.name, plain ? "" : m->arch, plain ? "" : ".", name);
    int i = 0;
    while (i < m->n_keys && strcmp(m->keys[i].name, row.name) != 0) i++;
    if (i == m->n_keys) m->n_keys++;
    m->keys[i] = row;
}

static inline uint64_t f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline struct tensor_row *find_row(struct small_model *m, const char *name) {
    for (int i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    abort();
}

static inline void add_row(struct small_model *m, const char *name, uint64_t k, uint64_t n) {
    struct tensor_row row = {"", k, n, DTYPE_F32};
    join_name(row.name, name, "", "");
    m->tensors[m->n_tensors++] = row;
}

static inline void drop_row(struct small_model *m, const char *name) {
    struct tensor_row *row = find_row(m, name);
    *row = m->tensors[--m->n_tensors];
}

static inline void add_layer_row(struct small_model *m, int layer, const char *suffix, uint64_t k,
                                 uint64_t n) {
    char name[48];
    (void)snprintf(name, sizeof name, "blk.%d.%s", layer, suffix);
    add_row(m, name, k, n);
}

static inline struct small_model small_model(const char *arch) {
    struct small_model m;
    memset(&m, 0, sizeof m);
    m.arch = arch;
    m.n_tokens = 40;
    set_key(&m, "general.architecture", GGUF_STRING, 0, arch);
    set_key(&m, "block_count", GGUF_U32, 2, NULL);
    set_key(&m, "embedding_length", GGUF_U32, 32, NULL);
    set_key(&m, "feed_forward_length", GGUF_U32, 64, NULL);
    set_key(&m, "context_length", GGUF_U32, 128, NULL);
    set_key(&m, "attention.head_count", GGUF_U32, 2, NULL);
    set_key(&m, "attention.head_count_kv", GGUF_U32, 1, NULL);
    set_key(&m, "attention.layer_norm_rms_epsilon", GGUF_F32, f32_bits(1e-5f), NULL);
    add_row(&m, "token_embd.weight", 32, 40);
    add_row(&m, "output_norm.weight", 32, 0);
    for (int i = 0; i < 2; i++) {
        add_layer_row(&m, i, "attn_norm.weight", 32, 0);
        add_layer_row(&m, i, "attn_q.weight", 32, 32);
        add_layer_row(&m, i, "attn_k.weight", 32, 16);
        add_layer_row(&m, i, "attn_v.weight", 32, 16);
        add_layer_row(&m, i, "attn_output.weight", 32, 32);
        add_layer_row(&m, i, "ffn_norm.weight", 32, 0);
        add_layer_row(&m, i, "ffn_gate.weight", 32, 64);
        add_layer_row(&m, i, "ffn_up.weight", 32, 64);
        add_layer_row(&m, i, "ffn_down.weight", 64, 32);
        if (strcmp(arch, "qwen3") != 0) continue;
        add_layer_row(&m, i, "attn_q_norm.weight", 16, 0);
        add_layer_row(&m, i, "attn_k_norm.weight", 16, 0);
    }
    return m;
}

static inline struct bytes small_model_bytes(const struct small_model *m) {
    static const int scalar[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    struct bytes b = start_gguf((uint64_t)m->n_tensors, (uint64_t)m->n_keys + 1);
    for (int i = 0; i < m->n_keys; i++) {
        const struct key_row *k = &m->keys[i];
        if (k->type == GGUF_STRING)
            put_key_string(&b, k->name, k->text);
        else
            put_key(&b, k->name, k->type, k->value, scalar[k->type]);
    }
    put_key_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)m->n_tokens);
    for (int i = 0; i < m->n_tokens; i++) put_str(&b, "t");
    uint64_t offset = 0;
    for (int i = 0; i < m->n_tensors; i++) {
        const struct tensor_row *t = &m->tensors[i];
        uint64_t dims[2] = {t->k, t->n};
        put_tensor(&b, t->name, t->n == 0 ? 1 : 2, dims, t->dtype, offset);
        offset += (dtype_bytes(t->dtype, t->k * (t->n == 0 ? 1 : t->n)) + 31) / 32 * 32;
    }
    put_data(&b, 32, (size_t)offset);
    return b;
}

#endif
