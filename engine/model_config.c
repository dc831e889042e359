/* model_config.c - reads and checks what a GGUF says about the shape of its model (see model.h).
 * Not the weights (model.c).
 * Idea: every key under the architecture's own prefix is either used, known to change nothing, or refused by name: a
 * key we do not know may change the computation, and a model computed without it would be wrong without a sign.
 * Source: GGUF key names and defaults of llama, qwen2, qwen3. Exercise: ctest -R unit.model */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_LAYERS 1024
#define MAX_WIDTH  (1 << 20)
#define MAX_HEADS  4096
#define MAX_CTX    (1 << 22)
#define MAX_VOCAB  (1 << 24)
#define NAME_BYTES 128

struct reader {
    const gguf *g;
    const char *arch;
    struct err *err;
};

static const struct arch_row {
    const char *name;
    enum model_arch arch;
    enum rope_kind rope;
} archs[] = {
    {"llama", MODEL_LLAMA, ROPE_INTERLEAVED},
    {"qwen2", MODEL_QWEN2, ROPE_HALF_SPLIT},
    {"qwen3", MODEL_QWEN3, ROPE_HALF_SPLIT},
};

/* Keys below "<arch>." that need no refusal. neutral: accepted only with value a or b, at which they change nothing. */
static const struct known_key {
    const char *suffix;
    int neutral;
    double a, b;
} known_keys[] = {
    {"block_count", 0, 0, 0},
    {"embedding_length", 0, 0, 0},
    {"feed_forward_length", 0, 0, 0},
    {"context_length", 0, 0, 0},
    {"vocab_size", 0, 0, 0}, /* the tensors say it */
    {"attention.head_count", 0, 0, 0},
    {"attention.head_count_kv", 0, 0, 0},
    {"attention.key_length", 0, 0, 0},
    {"attention.value_length", 0, 0, 0},
    {"attention.layer_norm_rms_epsilon", 0, 0, 0},
    {"attention.layer_norm_epsilon", 0, 0, 0}, /* of a norm these architectures do not have */
    {"rope.dimension_count", 0, 0, 0},
    {"rope.freq_base", 0, 0, 0},
    {"rope.scale_linear", 0, 0, 0},
    {"rope.scaling.type", 0, 0, 0},
    {"rope.scaling.factor", 0, 0, 0},
    {"rope.scaling.finetuned", 0, 0, 0},               /* a note */
    {"rope.scaling.original_context_length", 0, 0, 0}, /* read by yarn only */
    {"rope.scaling.attn_factor", 1, 0, 1},
    {"expert_count", 1, 0, 0},
    {"expert_used_count", 1, 0, 0},
    {"attention.sliding_window", 1, 0, 0},
    {"attention.scale", 1, 0, 0},
    {"attention.clamp_kqv", 1, 0, 0},
    {"attention.max_alibi_bias", 1, 0, 0},
    {"attention.causal", 1, 1, 1},
    {"attn_logit_softcapping", 1, 0, 0},
    {"final_logit_softcapping", 1, 0, 0},
    {"logit_scale", 1, 0, 1},
    {"embedding_scale", 1, 0, 1},
    {"residual_scale", 1, 0, 1},
    {"use_parallel_residual", 1, 0, 0},
    {"pooling_type", 1, 0, 0},
};

static const char *key_name(const struct reader *r, const char *suffix, char out[NAME_BYTES]) {
    (void)snprintf(out, NAME_BYTES, "%s.%s", r->arch, suffix);
    return out;
}

static int has_key(const struct reader *r, const char *suffix) {
    char name[NAME_BYTES];
    return gguf_key_find(r->g, key_name(r, suffix, name)) >= 0;
}

static enum status read_int(const struct reader *r, const char *suffix, int min, int max, int *out) {
    char name[NAME_BYTES];
    uint32_t v = 0;
    RETURN_IF_ERROR(gguf_get_u32(r->g, key_name(r, suffix, name), &v, r->err));
    if (v < (uint32_t)min || v > (uint32_t)max)
        return err_set(r->err, STATUS_FORMAT, "key '%s': %" PRIu32 " is outside %d to %d", name, v, min, max);
    *out = (int)v;
    return STATUS_OK;
}

/* fallback stands when the key is absent. */
static enum status read_int_or(const struct reader *r, const char *suffix, int min, int max, int fallback,
                               int *out) {
    *out = fallback;
    return has_key(r, suffix) ? read_int(r, suffix, min, max, out) : STATUS_OK;
}

static enum status read_float_or(const struct reader *r, const char *suffix, double fallback, double *out) {
    *out = fallback;
    if (!has_key(r, suffix)) return STATUS_OK;
    char name[NAME_BYTES];
    float v = 0;
    RETURN_IF_ERROR(gguf_get_f32(r->g, key_name(r, suffix, name), &v, r->err));
    if (!isfinite(v)) return err_set(r->err, STATUS_FORMAT, "key '%s': not a finite number", name);
    *out = (double)v;
    return STATUS_OK;
}

/* ---- refusals ---------------------------------------------------------------------------------------------- */

static int text_is(struct gguf_string s, const char *text) {
    return s.length == strlen(text) && memcmp(s.data, text, (size_t)s.length) == 0;
}

/* 1 when key i holds a number equal to one of the neutral values. */
static int is_neutral(const gguf *g, const char *name, const struct known_key *k) {
    uint32_t u = 0;
    float f = 0;
    int b = 0;
    double v = 0;
    if (gguf_get_u32(g, name, &u, NULL) == STATUS_OK)
        v = (double)u;
    else if (gguf_get_f32(g, name, &f, NULL) == STATUS_OK)
        v = (double)f;
    else if (gguf_get_bool(g, name, &b, NULL) == STATUS_OK)
        v = (double)b;
    else
        return 0;
    return (v >= k->a && v <= k->a) || (v >= k->b && v <= k->b);
}

static enum status check_key(const struct reader *r, uint64_t i) {
    struct gguf_string key = gguf_key_name(r->g, i);
    size_t prefix = strlen(r->arch);
    if (key.length <= prefix || memcmp(key.data, r->arch, prefix) != 0 || key.data[prefix] != '.')
        return STATUS_OK;
    struct gguf_string suffix = {key.data + prefix + 1, key.length - prefix - 1};
    for (size_t k = 0; k < sizeof known_keys / sizeof known_keys[0]; k++) {
        if (!text_is(suffix, known_keys[k].suffix)) continue;
        if (!known_keys[k].neutral) return STATUS_OK;
        char name[NAME_BYTES], value[64];
        if (is_neutral(r->g, key_name(r, known_keys[k].suffix, name), &known_keys[k])) return STATUS_OK;
        return err_set(r->err, STATUS_UNSUPPORTED, "key '%s' = %s changes the computation and is not handled",
                       name, gguf_value_text(r->g, i, value, sizeof value));
    }
    return err_set(r->err, STATUS_UNSUPPORTED, "key '%.*s' is not known and may change the computation",
                   key.length < 80 ? (int)key.length : 80, key.data);
}

static enum status check_keys(const struct reader *r) {
    for (uint64_t i = 0; i < gguf_key_count(r->g); i++) RETURN_IF_ERROR(check_key(r, i));
    uint32_t parts = 0;
    if (gguf_get_u32(r->g, "split.count", &parts, NULL) == STATUS_OK && parts > 1)
        return err_set(r->err, STATUS_UNSUPPORTED,
                       "key 'split.count' = %" PRIu32 ": models split over several files are not handled",
                       parts);
    struct gguf_string type = {"", 0};
    if (gguf_get_string(r->g, "general.type", &type, NULL) == STATUS_OK && !text_is(type, "model"))
        return err_set(r->err, STATUS_UNSUPPORTED, "key 'general.type' = '%.*s' is not a model",
                       type.length < 32 ? (int)type.length : 32, type.data);
    return STATUS_OK;
}

/* ---- parts of the configuration ---------------------------------------------------------------------------- */

static enum status read_arch(struct reader *r, struct model_config *c) {
    struct gguf_string name = {"", 0};
    RETURN_IF_ERROR(gguf_get_string(r->g, "general.architecture", &name, r->err));
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (!text_is(name, archs[i].name)) continue;
        r->arch = archs[i].name;
        c->arch = archs[i].arch;
        c->rope_kind = archs[i].rope;
        return STATUS_OK;
    }
    return err_set(r->err, STATUS_UNSUPPORTED,
                   "architecture '%.*s' is not handled (llama, qwen2 and qwen3 are)",
                   name.length < 64 ? (int)name.length : 64, name.data);
}

static enum status read_heads(const struct reader *r, struct model_config *c) {
    RETURN_IF_ERROR(read_int(r, "attention.head_count", 0, MAX_HEADS, &c->n_head));
    RETURN_IF_ERROR(read_int_or(r, "attention.head_count_kv", 0, MAX_HEADS, c->n_head, &c->n_kv_head));
    if (c->n_head < 1 || c->n_kv_head < 1 || c->n_head % c->n_kv_head != 0)
        return err_set(r->err, STATUS_SHAPE, "%d query heads cannot be shared evenly by %d KV heads",
                       c->n_head, c->n_kv_head);
    int value_length = 0, both = has_key(r, "attention.key_length") && has_key(r, "attention.value_length");
    if (!both && c->n_embd % c->n_head != 0)
        return err_set(r->err, STATUS_SHAPE, "embedding length %d is not a multiple of %d heads", c->n_embd,
                       c->n_head);
    int fallback = c->n_embd / c->n_head;
    RETURN_IF_ERROR(read_int_or(r, "attention.key_length", 1, MAX_WIDTH, fallback, &c->head_dim));
    RETURN_IF_ERROR(read_int_or(r, "attention.value_length", 1, MAX_WIDTH, fallback, &value_length));
    if (c->head_dim != value_length)
        return err_set(r->err, STATUS_UNSUPPORTED, "key length %d and value length %d differ", c->head_dim,
                       value_length);
    if (c->head_dim % TC_K != 0 || c->head_dim > FA_HEAD_DIM_MAX)
        return err_set(r->err, STATUS_UNSUPPORTED, "head dimension %d is not a multiple of %d up to %d",
                       c->head_dim, TC_K, FA_HEAD_DIM_MAX);
    return STATUS_OK;
}

static enum status read_rope(const struct reader *r, struct model_config *c) {
    RETURN_IF_ERROR(read_int_or(r, "rope.dimension_count", 1, MAX_WIDTH, c->head_dim, &c->n_rot));
    if (c->n_rot % 2 != 0 || c->n_rot > c->head_dim)
        return err_set(r->err, STATUS_SHAPE, "%d rotated dimensions do not fit a head of %d", c->n_rot,
                       c->head_dim);
    RETURN_IF_ERROR(read_float_or(r, "rope.freq_base", 10000.0, &c->rope_base));
    if (!(c->rope_base >= 1.0))
        return err_set(r->err, STATUS_FORMAT, "key '%s.rope.freq_base': %g is below 1", r->arch,
                       c->rope_base);
    double factor = 0.0;
    RETURN_IF_ERROR(read_float_or(r, "rope.scale_linear", 0.0, &factor)); /* the old name */
    RETURN_IF_ERROR(read_float_or(r, "rope.scaling.factor", factor, &factor));
    if (!(factor >= 0.0))
        return err_set(r->err, STATUS_FORMAT, "key '%s.rope.scaling.factor': %g is negative", r->arch,
                       factor);
    int linear = 1; /* what a factor means when no type is given */
    if (has_key(r, "rope.scaling.type")) {
        char name[NAME_BYTES];
        struct gguf_string type = {"", 0};
        RETURN_IF_ERROR(gguf_get_string(r->g, key_name(r, "rope.scaling.type", name), &type, r->err));
        linear = text_is(type, "linear");
        if (!linear && !text_is(type, "none"))
            return err_set(r->err, STATUS_UNSUPPORTED,
                           "key '%s': scaling '%.*s' is not handled (none, linear)", name,
                           type.length < 32 ? (int)type.length : 32, type.data);
    }
    c->rope_linear = linear && factor > 0.0 ? factor : 1.0;
    return STATUS_OK;
}

static enum status read_vocab(const struct reader *r, struct model_config *c) {
    uint64_t n = 0;
    RETURN_IF_ERROR(gguf_array_length(r->g, "tokenizer.ggml.tokens", GGUF_STRING, &n, r->err));
    if (n < 1 || n > MAX_VOCAB)
        return err_set(r->err, STATUS_FORMAT, "key 'tokenizer.ggml.tokens': %" PRIu64 " tokens", n);
    c->n_vocab = (int)n;
    const struct gguf_tensor *embd = gguf_tensor_find(r->g, "token_embd.weight");
    const struct gguf_tensor *output = gguf_tensor_find(r->g, "output.weight");
    c->tied = embd != NULL && output == NULL;
    const struct gguf_tensor *rows = output != NULL ? output : embd;
    if (rows == NULL) return STATUS_OK; /* a header without tensors: model_load will miss them by name */
    if (rows->dims[1] < n || rows->dims[1] > MAX_VOCAB)
        return err_set(r->err, STATUS_SHAPE, "tensor '%s': %" PRIu64 " rows for a vocabulary of %" PRIu64,
                       output != NULL ? "output.weight" : "token_embd.weight", rows->dims[1], n);
    c->n_vocab_rows = (int)rows->dims[1];
    return STATUS_OK;
}

static void read_name(const struct reader *r, struct model_config *c) {
    struct gguf_string name = {"", 0};
    if (gguf_get_string(r->g, "general.name", &name, NULL) != STATUS_OK) return;
    size_t n = name.length < sizeof c->name - 1 ? (size_t)name.length : sizeof c->name - 1;
    for (size_t i = 0; i < n; i++)
        c->name[i] = name.data[i] >= 0x20 && name.data[i] < 0x7f ? name.data[i] : '?';
}

enum status model_read_config(const gguf *g, struct model_config *out, struct err *err) {
    memset(out, 0, sizeof *out);
    struct reader r = {g, "", err};
    RETURN_IF_ERROR(read_arch(&r, out));
    RETURN_IF_ERROR(check_keys(&r));
    RETURN_IF_ERROR(read_int(&r, "block_count", 1, MAX_LAYERS, &out->n_layer));
    RETURN_IF_ERROR(read_int(&r, "embedding_length", 1, MAX_WIDTH, &out->n_embd));
    RETURN_IF_ERROR(read_int(&r, "feed_forward_length", 1, MAX_WIDTH, &out->n_ff));
    RETURN_IF_ERROR(read_int(&r, "context_length", 1, MAX_CTX, &out->n_ctx));
    RETURN_IF_ERROR(read_heads(&r, out));
    double eps = 0.0;
    RETURN_IF_ERROR(read_float_or(&r, "attention.layer_norm_rms_epsilon", 0.0, &eps));
    if (!(eps > 0.0 && eps < 1.0))
        return err_set(err, STATUS_FORMAT,
                       "key '%s.attention.layer_norm_rms_epsilon': missing or outside (0, 1)", r.arch);
    out->rms_eps = (float)eps;
    RETURN_IF_ERROR(read_rope(&r, out));
    RETURN_IF_ERROR(read_vocab(&r, out));
    read_name(&r, out);
    return STATUS_OK;
}
