/* make_plan.c - shapes, tensor lists and storage types of the models make-model knows (see make_plan.h).
 * Not the writing (make_model.c) and not the vocabulary (make_vocab.c).
 * Idea: weights are near normal with a deviation that keeps every activation of the order of 1, and logits of a few
 * units.
 * Source: published configurations; llama.cpp's q4_k_m rules. Exercise: ctest -R unit.make_model */
#include "make_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fmath.h"
#include "make_model.h"

#define LOGIT_DEVIATION 2.5 /* of the synthetic model's logits, roughly */
#define QK_GAIN         1.5 /* queries and keys: attention that prefers some positions */

static const struct make_shape shapes[] = {
    {"tiny", "qwen2", 2, 256, 4, 2, 64, 512, 320, 512, 10000.0f, 1e-6f, 1, 0, "gpt-2"},
    {"seedling-like", "qwen2", 8, 256, 2, 1, 128, 768, 4096, 2048, 10000.0f, 1e-6f, 1, 0, "gpt-2"},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6f, 1e-6f, 1, 0, "qwen2"},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 128, 8960, 151936, 32768, 1e6f, 1e-6f, 1, 0, "qwen2"},
    {"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e6f, 1e-6f, 0, 0, "qwen2"},
    {"qwen2.5-14b", "qwen2", 48, 5120, 40, 8, 128, 13824, 152064, 32768, 1e6f, 1e-6f, 0, 0, "qwen2"},
    {"llama-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 5e5f, 1e-5f, 0, 1, "llama-bpe"},
};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

const char *make_model_shapes(void) {
    return "tiny, seedling-like, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-7b, qwen2.5-14b, llama-8b";
}

const struct make_shape *make_shape_find(const char *name) {
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    return NULL;
}

/* ---- storage types ----------------------------------------------------------------------------------------- */

/* general.file_type as llama.cpp numbers it; a file of one K type is its "S" or only variant. */
static uint32_t file_type_of(enum dtype t) {
    switch (t) {
    case DTYPE_F32:
        return 0;
    case DTYPE_F16:
        return 1;
    case DTYPE_Q4_0:
        return 2;
    case DTYPE_Q4_1:
        return 3;
    case DTYPE_Q8_0:
        return 7;
    case DTYPE_Q5_0:
        return 8;
    case DTYPE_Q5_1:
        return 9;
    case DTYPE_Q4_K:
        return 14;
    case DTYPE_Q5_K:
        return 16;
    case DTYPE_Q6_K:
        return 18;
    case DTYPE_BF16:
        return 32;
    }
    return 0;
}

enum status quant_choose(const char *name, struct quant_choice *out, struct err *err) {
    memset(out, 0, sizeof *out);
    if (name != NULL && strcmp(name, "q4_k_m") == 0) {
        out->mixed = 1;
        out->dtype = DTYPE_Q4_K;
        out->file_type = 15;
        return STATUS_OK;
    }
    int code = name == NULL ? -1 : dtype_from_name(name);
    if (code < 0)
        return err_set(err, STATUS_USAGE,
                       "quant '%s' is not one of q4_k_m, f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, "
                       "q5_k, q6_k",
                       name == NULL ? "" : name);
    out->dtype = (enum dtype)code;
    out->file_type = file_type_of(out->dtype);
    return STATUS_OK;
}

/* llama.cpp's choice of layers that get more bits: the first and last eighth and every third between. */
static int wants_more_bits(int layer, int n_layer) {
    return layer < n_layer / 8 || layer >= 7 * n_layer / 8 || (layer - n_layer / 8) % 3 == 2;
}

enum dtype quant_type_for(const struct quant_choice *q, const char *name, int layer, int n_layer, int lm_head,
                          uint64_t k) {
    enum dtype t = q->dtype;
    if (q->mixed && lm_head) t = DTYPE_Q6_K;
    if (q->mixed && layer >= 0 && wants_more_bits(layer, n_layer) &&
        (strcmp(name, "attn_v.weight") == 0 || strcmp(name, "ffn_down.weight") == 0))
        t = DTYPE_Q6_K;
    if (k % QK_32 != 0 && dtype_info((int)t)->is_quantised) return DTYPE_F16;
    if (k % QK_256 == 0) return t;
    if (t == DTYPE_Q4_K) return DTYPE_Q5_0;
    if (t == DTYPE_Q5_K) return DTYPE_Q5_1;
    return t == DTYPE_Q6_K ? DTYPE_Q8_0 : t;
}

/* ---- tensors ----------------------------------------------------------------------------------------------- */

static struct plan_tensor *append(struct plan *p, int n_dims, uint64_t k, uint64_t n, float mean,
                                  double deviation) {
    struct plan_tensor *t = &p->tensors[p->n++];
    t->dtype = DTYPE_F32;
    t->n_dims = n_dims;
    t->dims[0] = k;
    t->dims[1] = n;
    t->mean = mean;
    t->deviation = (float)deviation;
    return t;
}

static void add_vector(struct plan *p, int layer, const char *name, int k, float mean, double deviation) {
    struct plan_tensor *t = append(p, 1, (uint64_t)k, 1, mean, deviation);
    if (layer < 0)
        (void)snprintf(t->name, sizeof t->name, "%s", name);
    else
        (void)snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
}

struct maker {
    const struct make_shape *shape;
    const struct quant_choice *quant;
    struct plan *plan;
};

static void add_matrix(const struct maker *m, int layer, const char *name, int k, int n, double deviation) {
    struct plan_tensor *t = append(m->plan, 2, (uint64_t)k, (uint64_t)n, 0.0f, deviation);
    int lm_head = strcmp(name, m->shape->tied ? "token_embd.weight" : "output.weight") == 0;
    t->dtype = quant_type_for(m->quant, name, layer, m->shape->n_layer, lm_head, t->dims[0]);
    if (layer < 0)
        (void)snprintf(t->name, sizeof t->name, "%s", name);
    else
        (void)snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
}

static void add_layer(const struct maker *m, int layer) {
    const struct make_shape *s = m->shape;
    struct plan *p = m->plan;
    int q_rows = s->n_head * s->head_dim, kv_rows = s->n_kv_head * s->head_dim;
    double in_embd = 1.0 / sqrt((double)s->n_embd);
    add_vector(p, layer, "attn_norm.weight", s->n_embd, 1.0f, 0.1);
    add_matrix(m, layer, "attn_q.weight", s->n_embd, q_rows, QK_GAIN * in_embd);
    add_matrix(m, layer, "attn_k.weight", s->n_embd, kv_rows, QK_GAIN * in_embd);
    add_matrix(m, layer, "attn_v.weight", s->n_embd, kv_rows, in_embd);
    if (strcmp(s->arch, "qwen2") == 0) {
        add_vector(p, layer, "attn_q.bias", q_rows, 0.0f, 0.1);
        add_vector(p, layer, "attn_k.bias", kv_rows, 0.0f, 0.1);
        add_vector(p, layer, "attn_v.bias", kv_rows, 0.0f, 0.1);
    }
    if (strcmp(s->arch, "qwen3") == 0) {
        add_vector(p, layer, "attn_q_norm.weight", s->head_dim, (float)QK_GAIN, 0.1);
        add_vector(p, layer, "attn_k_norm.weight", s->head_dim, (float)QK_GAIN, 0.1);
    }
    add_matrix(m, layer, "attn_output.weight", q_rows, s->n_embd, 1.0 / sqrt((double)q_rows));
    add_vector(p, layer, "ffn_norm.weight", s->n_embd, 1.0f, 0.1);
    add_matrix(m, layer, "ffn_gate.weight", s->n_embd, s->n_ff, in_embd);
    add_matrix(m, layer, "ffn_up.weight", s->n_embd, s->n_ff, in_embd);
    add_matrix(m, layer, "ffn_down.weight", s->n_ff, s->n_embd, 1.0 / sqrt((double)s->n_ff));
}

enum status plan_make(const struct make_shape *shape, const struct quant_choice *q, struct plan *out,
                      struct err *err) {
    out->n = 0;
    out->tensors = calloc((size_t)(4 + 14 * shape->n_layer), sizeof *out->tensors);
    if (out->tensors == NULL) return err_set(err, STATUS_NOMEM, "no memory for the tensor list");
    struct maker m = {shape, q, out};
    double embd = LOGIT_DEVIATION / sqrt((double)shape->n_embd);
    add_matrix(&m, -1, "token_embd.weight", shape->n_embd, shape->n_vocab, embd);
    /* A tied model would repeat its input for ever: signs at random part the output from the token's own row. */
    add_vector(out, -1, "output_norm.weight", shape->n_embd, shape->tied ? 0.0f : 1.0f,
               shape->tied ? 1.0 : 0.1);
    if (!shape->tied) add_matrix(&m, -1, "output.weight", shape->n_embd, shape->n_vocab, embd);
    if (shape->rope_factors) {
        add_vector(out, -1, "rope_freqs.weight", shape->head_dim / 2, 0.0f, 0.0);
        out->tensors[out->n - 1].rope_factors = 1;
    }
    for (int i = 0; i < shape->n_layer; i++) add_layer(&m, i);
    return STATUS_OK;
}

/* Wavelengths below 2048 are kept, those above 8192 slowed by 8, linear in between (factor 8, low 1, high 4, 8192). */
float plan_rope_factor(float rope_base, int i, int half) {
    double wavelength = 0x1.921fb54442d18p+2 * fm_pow((double)rope_base, (double)i / half);
    if (wavelength < 8192.0 / 4.0) return 1.0f;
    if (wavelength > 8192.0 / 1.0) return 8.0f;
    double smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
    return (float)(1.0 / ((1.0 - smooth) / 8.0 + smooth));
}

/* ---- keys -------------------------------------------------------------------------------------------------- */

static const char *arch_key(const struct make_shape *s, const char *suffix, char out[64]) {
    (void)snprintf(out, 64, "%s.%s", s->arch, suffix);
    return out;
}

enum status plan_put_keys(gguf_writer *w, const struct make_shape *s, const struct quant_choice *q,
                          struct err *err) {
    char key[64], name[64];
    (void)snprintf(name, sizeof name, "synthetic %s %s", s->arch, s->name);
    gguf_put_string(w, "general.architecture", s->arch);
    gguf_put_string(w, "general.name", name);
    gguf_put_u32(w, "general.file_type", q->file_type);
    gguf_put_u32(w, "general.quantization_version", 2);
    gguf_put_u32(w, arch_key(s, "block_count", key), (uint32_t)s->n_layer);
    gguf_put_u32(w, arch_key(s, "context_length", key), (uint32_t)s->n_ctx);
    gguf_put_u32(w, arch_key(s, "embedding_length", key), (uint32_t)s->n_embd);
    gguf_put_u32(w, arch_key(s, "feed_forward_length", key), (uint32_t)s->n_ff);
    gguf_put_u32(w, arch_key(s, "attention.head_count", key), (uint32_t)s->n_head);
    gguf_put_u32(w, arch_key(s, "attention.head_count_kv", key), (uint32_t)s->n_kv_head);
    gguf_put_u32(w, arch_key(s, "attention.key_length", key), (uint32_t)s->head_dim);
    gguf_put_u32(w, arch_key(s, "attention.value_length", key), (uint32_t)s->head_dim);
    gguf_put_f32(w, arch_key(s, "attention.layer_norm_rms_epsilon", key), s->rms_eps);
    gguf_put_u32(w, arch_key(s, "rope.dimension_count", key), (uint32_t)s->head_dim);
    gguf_put_f32(w, arch_key(s, "rope.freq_base", key), s->rope_base);
    gguf_put_u32(w, arch_key(s, "vocab_size", key), (uint32_t)s->n_vocab);
    return vocab_put(w, s->n_vocab, s->pre, err);
}
