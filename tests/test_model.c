/* test_model.c - the fixture model loads whole, what a model file says is checked, and everything is given back.
 * Not the reader's own refusals: test_gguf.c.
 * Source: ours. Exercise: ctest -R unit.model */
#include <criterion/criterion.h>

#include <math.h>

#include "engine/model.h"
#include "tests/model_bytes.h"
#include "tests/stub_backend.h"

#define SEEDLING FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"

Test(model, seedling_loads_and_is_given_back) {
    gguf *g = NULL;
    struct err err = {""};
    cr_assert_eq(gguf_open(SEEDLING, &g, &err), STATUS_OK, "open: %s", err.message);
    struct stub stub;
    stub_open(&stub);
    struct model *m = NULL;
    cr_assert_eq(model_load(g, &stub.backend, 600, &m, &err), STATUS_OK, "load: %s", err.message);
    const struct model_config *c = &m->config;
    cr_assert_eq(c->arch, MODEL_QWEN2);
    cr_assert_eq(c->n_layer, 8);
    cr_assert_eq(c->n_embd, 256);
    cr_assert_eq(c->n_head, 2);
    cr_assert_eq(c->n_kv_head, 1);
    cr_assert_eq(c->head_dim, 128);
    cr_assert_eq(c->n_ff, 768);
    cr_assert_eq(c->n_ctx, 2048);
    cr_assert_eq(c->n_vocab, 4096);
    cr_assert_eq(c->n_vocab_rows, 4096);
    cr_assert_eq(c->n_rot, 128);
    cr_assert_eq(c->tied, 1);
    cr_assert_eq(c->rope_kind, ROPE_HALF_SPLIT);
    cr_assert_str_eq(c->name, "seedling-7m");
    cr_assert_eq(m->rope.n_pos, 600);
    for (int p = 0; p < 600; p += p < 500 ? 51 : 1) /* the table is made 256 rows at a time */
        for (int i = 0; i < 64; i += 7) {
            double theta = p * pow(10000.0, -2.0 * i / 128);
            cr_assert_float_eq(m->rope.cos[p * 64 + i], cos(theta), 1e-7, "cos at %d, %d", p, i);
            cr_assert_float_eq(m->rope.sin[p * 64 + i], sin(theta), 1e-7, "sin at %d, %d", p, i);
        }
    cr_assert(m->layers[7].wq.bias == m->layers[7].bq.data && m->layers[7].wq.bias != NULL);
    cr_assert(m->layers[7].wo.bias == NULL && m->layers[7].q_norm.data == NULL);
    model_free(m);
    gguf_close(g);
    cr_assert_eq(stub.alive, 0, "%d things were not freed", stub.alive);
}

/* ---- a small model, changed in one place ------------------------------------------------------------------- */

/* Loads m at n_ctx on a stub; the model is freed again and every byte must come back. */
static enum status load(const struct small_model *m, int n_ctx, struct model_config *config,
                        struct err *err) {
    struct bytes b = small_model_bytes(m);
    gguf *g = NULL;
    cr_assert_eq(gguf_parse(b.p, b.n, &g, err), STATUS_OK, "parse: %s", err->message);
    struct stub stub;
    stub_open(&stub);
    struct model *model = NULL;
    enum status s = model_load(g, &stub.backend, n_ctx, &model, err);
    cr_assert_eq(s == STATUS_OK, model != NULL);
    if (model != NULL && config != NULL) *config = model->config;
    cr_assert(s == STATUS_OK || stub.uploads == 0, "something was uploaded before the refusal");
    model_free(model);
    cr_assert_eq(stub.alive, 0, "%d things were not freed", stub.alive);
    gguf_close(g);
    free(b.p);
    return s;
}

static void expect(const struct small_model *m, enum status want, const char *text) {
    struct err err = {""};
    enum status s = load(m, 0, NULL, &err);
    cr_expect_eq(s, want, "wanted %s, got %s: %s", text, status_name(s), err.message);
    cr_expect(strstr(err.message, text) != NULL, "the message lacks %s: %s", text, err.message);
}

Test(model, each_architecture_loads) {
    static const struct {
        char name[8];
        enum model_arch arch;
        enum rope_kind rope;
    } rows[] = {{"llama", MODEL_LLAMA, ROPE_INTERLEAVED},
                {"qwen2", MODEL_QWEN2, ROPE_HALF_SPLIT},
                {"qwen3", MODEL_QWEN3, ROPE_HALF_SPLIT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct small_model m = small_model(rows[i].name);
        struct model_config c;
        struct err err = {""};
        cr_assert_eq(load(&m, 0, &c, &err), STATUS_OK, "%s: %s", rows[i].name, err.message);
        cr_expect(c.arch == rows[i].arch && c.rope_kind == rows[i].rope, "%s", rows[i].name);
        cr_expect(c.head_dim == 16 && c.n_rot == 16 && c.n_ctx == 128 && c.tied == 1 && c.n_vocab == 40);
        cr_expect(c.rope_base == 10000.0 && c.rope_linear == 1.0 && c.name[0] == '\0');
    }
    struct small_model m = small_model("gemma2");
    expect(&m, STATUS_UNSUPPORTED, "architecture 'gemma2' is not handled");
}

/* Field report: query heads not divisible by KV heads leave heads without a result, or read one that is not there. */
Test(model, a08_heads_that_do_not_divide_are_refused_naming_both) {
    static const int rows[][3] = {{33, 2, 0}, {3, 2, 0},  {5, 0, 0},  {2, 4, 0}, {0, 1, 0}, {0, 0, 0},
                                  {14, 2, 1}, {40, 8, 1}, {10, 2, 1}, {7, 1, 1}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct small_model m = small_model("llama");
        set_key(&m, "attention.head_count", GGUF_U32, (uint64_t)rows[i][0], NULL);
        set_key(&m, "attention.head_count_kv", GGUF_U32, (uint64_t)rows[i][1], NULL);
        set_key(&m, "attention.key_length", GGUF_U32, 16, NULL);
        set_key(&m, "attention.value_length", GGUF_U32, 16, NULL);
        struct bytes b = small_model_bytes(&m);
        gguf *g = NULL;
        struct err err = {""};
        struct model_config c;
        cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK);
        enum status s = model_read_config(g, &c, &err);
        cr_expect_eq(s, rows[i][2] ? STATUS_OK : STATUS_SHAPE, "(%d, %d): %s", rows[i][0], rows[i][1],
                     err.message);
        char both[64];
        (void)snprintf(both, sizeof both, "%d query heads cannot be shared evenly by %d KV", rows[i][0],
                       rows[i][1]);
        cr_expect(rows[i][2] || strstr(err.message, both) != NULL, "not both named: %s", err.message);
        gguf_close(g);
        free(b.p);
    }
}

Test(model, keys_that_change_the_computation_are_refused_by_name) {
    static const struct {
        char suffix[40];
        uint32_t type;
        double bad, neutral;
    } rows[] = {{"expert_count", GGUF_U32, 8, 0},
                {"expert_used_count", GGUF_U32, 2, 0},
                {"attention.sliding_window", GGUF_U32, 4096, 0},
                {"attention.scale", GGUF_F32, 0.5, 0},
                {"attention.clamp_kqv", GGUF_F32, 8, 0},
                {"attention.max_alibi_bias", GGUF_F32, 8, 0},
                {"attention.causal", GGUF_BOOL, 0, 1},
                {"attn_logit_softcapping", GGUF_F32, 50, 0},
                {"final_logit_softcapping", GGUF_F32, 30, 0},
                {"logit_scale", GGUF_F32, 0.0625, 1},
                {"embedding_scale", GGUF_F32, 12, 1},
                {"residual_scale", GGUF_F32, 0.22, 1},
                {"rope.scaling.attn_factor", GGUF_F32, 1.25, 1},
                {"use_parallel_residual", GGUF_BOOL, 1, 0},
                {"pooling_type", GGUF_U32, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int neutral = 0; neutral < 2; neutral++) {
            struct small_model m = small_model("qwen2");
            double v = neutral ? rows[i].neutral : rows[i].bad;
            uint64_t bits = rows[i].type == GGUF_F32 ? f32_bits((float)v) : (uint64_t)v;
            set_key(&m, rows[i].suffix, rows[i].type, bits, NULL);
            expect(&m, neutral ? STATUS_OK : STATUS_UNSUPPORTED, neutral ? "" : rows[i].suffix);
        }
    }
    struct small_model m = small_model("llama");
    set_key(&m, "brand_new_trick", GGUF_U32, 0, NULL);
    expect(&m, STATUS_UNSUPPORTED, "key 'llama.brand_new_trick' is not known");
    m = small_model("llama");
    set_key(&m, "split.count", GGUF_U16, 2, NULL);
    expect(&m, STATUS_UNSUPPORTED, "split.count");
    m = small_model("llama");
    set_key(&m, "general.type", GGUF_STRING, 0, "adapter");
    expect(&m, STATUS_UNSUPPORTED, "'adapter' is not a model");
}

Test(model, numbers_out_of_range_are_refused_by_name) {
    static const struct {
        char suffix[40];
        uint32_t type;
        uint64_t value;
        enum status status;
    } rows[] = {{"block_count", GGUF_U32, 0, STATUS_FORMAT},
                {"block_count", GGUF_U32, 1u << 31, STATUS_FORMAT},
                {"block_count", GGUF_I32, UINT32_MAX, STATUS_FORMAT},
                {"block_count", GGUF_F32, 0x40000000, STATUS_FORMAT},
                {"embedding_length", GGUF_U32, 0, STATUS_FORMAT},
                {"feed_forward_length", GGUF_U64, UINT64_C(1) << 63, STATUS_FORMAT},
                {"context_length", GGUF_U32, 0, STATUS_FORMAT},
                {"attention.layer_norm_rms_epsilon", GGUF_F32, 0, STATUS_FORMAT},
                {"attention.layer_norm_rms_epsilon", GGUF_F32, 0x7fc00000, STATUS_FORMAT},
                {"attention.layer_norm_rms_epsilon", GGUF_F32, 0xbf800000, STATUS_FORMAT},
                {"rope.freq_base", GGUF_F32, 0, STATUS_FORMAT},
                {"rope.freq_base", GGUF_F32, 0x7f800000, STATUS_FORMAT},
                {"rope.scaling.factor", GGUF_F32, 0xc0000000, STATUS_FORMAT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct small_model m = small_model("llama");
        set_key(&m, rows[i].suffix, rows[i].type, rows[i].value, NULL);
        expect(&m, rows[i].status, rows[i].suffix);
    }
    static const struct {
        int key, value, rot;
        enum status status;
        char text[40];
    } heads[] = {{24, 24, 24, STATUS_UNSUPPORTED, "head dimension 24"},
                 {272, 272, 272, STATUS_UNSUPPORTED, "head dimension 272"},
                 {16, 32, 16, STATUS_UNSUPPORTED, "key length 16 and value length 32"},
                 {16, 16, 15, STATUS_SHAPE, "15 rotated dimensions"},
                 {16, 16, 32, STATUS_SHAPE, "32 rotated dimensions"},
                 {16, 16, 8, STATUS_OK, ""}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct small_model m = small_model("llama");
        set_key(&m, "attention.key_length", GGUF_U32, (uint64_t)heads[i].key, NULL);
        set_key(&m, "attention.value_length", GGUF_U32, (uint64_t)heads[i].value, NULL);
        set_key(&m, "rope.dimension_count", GGUF_U32, (uint64_t)heads[i].rot, NULL);
        expect(&m, heads[i].status, heads[i].text);
    }
}

Test(model, rope_scaling_is_linear_none_or_refused) {
    static const struct {
        const char *type;
        float factor;
        double linear; /* 0: refused */
    } rows[] = {{"linear", 4, 4}, {"linear", 0, 1}, {"none", 4, 1},
                {NULL, 2, 2},     {"yarn", 4, 0},   {"longrope", 4, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct small_model m = small_model("qwen2");
        if (rows[i].type != NULL) set_key(&m, "rope.scaling.type", GGUF_STRING, 0, rows[i].type);
        set_key(&m, "rope.scaling.factor", GGUF_F32, f32_bits(rows[i].factor), NULL);
        struct model_config c = {0};
        struct err err = {""};
        enum status s = load(&m, 0, &c, &err);
        cr_expect_eq(s, rows[i].linear > 0 ? STATUS_OK : STATUS_UNSUPPORTED, "row %zu: %s", i, err.message);
        cr_expect(c.rope_linear == rows[i].linear, "row %zu: factor %g", i, c.rope_linear);
        cr_expect(s == STATUS_OK || strstr(err.message, rows[i].type) != NULL, "unnamed: %s", err.message);
    }
}

Test(model, rope_factors_divide_the_frequencies) {
    struct small_model m = small_model("llama");
    add_row(&m, "rope_freqs.weight", 8, 0);
    expect(&m, STATUS_FORMAT, "factor 0 is not positive"); /* its data is zero */
    find_row(&m, "rope_freqs.weight")->k = 4;
    expect(&m, STATUS_SHAPE, "'rope_freqs.weight': length 4, expected 8");
    find_row(&m, "rope_freqs.weight")->k = 8;
    set_key(&m, "rope.scaling.factor", GGUF_F32, f32_bits(2.0f), NULL);
    struct bytes b = small_model_bytes(&m);
    static const float factors[8] = {1, 1, 2, 4, 8, 8, 8, 0.5f};
    gguf *g = NULL;
    struct err err = {""};
    cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK);
    size_t at = (size_t)((const uint8_t *)gguf_tensor_find(g, "rope_freqs.weight")->data - b.p);
    memcpy(b.p + at, factors, sizeof factors);
    struct stub stub;
    stub_open(&stub);
    struct model *model = NULL;
    cr_assert_eq(model_load(g, &stub.backend, 0, &model, &err), STATUS_OK, "%s", err.message);
    for (int p = 0; p < 128; p += 9)
        for (int i = 0; i < 8; i++) {
            double theta = p * pow(10000.0, -2.0 * i / 16) / 2.0 / (double)factors[i];
            cr_expect_float_eq(model->rope.cos[p * 8 + i], cos(theta), 1e-7, "cos at %d, %d", p, i);
            cr_expect_float_eq(model->rope.sin[p * 8 + i], sin(theta), 1e-7, "sin at %d, %d", p, i);
        }
    model_free(model);
    gguf_close(g);
    free(b.p);
    cr_assert_eq(stub.alive, 0);
}

Test(model, context_can_only_be_lowered) {
    struct small_model m = small_model("llama");
    struct err err = {""};
    cr_expect_eq(load(&m, 1, NULL, &err), STATUS_OK, "%s", err.message);
    cr_expect_eq(load(&m, 128, NULL, &err), STATUS_OK, "%s", err.message);
    cr_expect_eq(load(&m, 129, NULL, &err), STATUS_USAGE);
    cr_expect(strstr(err.message, "129") != NULL && strstr(err.message, "128") != NULL, "%s", err.message);
    cr_expect_eq(load(&m, -1, NULL, &err), STATUS_USAGE);
}

Test(model, missing_unknown_and_misshapen_tensors_are_refused_by_name) {
    struct small_model whole = small_model("qwen3");
    for (int i = 0; i < whole.n_tensors; i++) {
        struct small_model m = whole;
        char text[96];
        (void)snprintf(text, sizeof text, "'%.47s' is missing", whole.tensors[i].name);
        drop_row(&m, whole.tensors[i].name);
        expect(&m, STATUS_FORMAT, text);
        m = whole;
        (void)snprintf(text, sizeof text, "tensor '%.47s': ", whole.tensors[i].name);
        m.tensors[i].k *= 2;
        expect(&m, STATUS_SHAPE, text);
        m = whole;
        if (m.tensors[i].n == 0) continue;
        m.tensors[i].n -= 1;
        expect(&m, STATUS_SHAPE, text);
    }
    static const char extra[][40] = {"blk.0.ffn_gate_inp.weight", "blk.2.attn_norm.weight", "output.bias",
                                     "blk.1.attn_q_norm.weight"};
    for (size_t i = 0; i < sizeof extra / sizeof extra[0]; i++) {
        struct small_model m = small_model("llama"); /* q_norm is qwen3's alone */
        add_row(&m, extra[i], 32, 0);
        char text[96];
        (void)snprintf(text, sizeof text, "'%.39s' is not part", extra[i]);
        expect(&m, STATUS_UNSUPPORTED, text);
    }
}

Test(model, biases_are_in_every_layer_or_in_none) {
    struct small_model m = small_model("llama");
    add_row(&m, "blk.0.attn_q.bias", 32, 0);
    expect(&m, STATUS_FORMAT, "'blk.1.attn_q.bias' is missing, unlike 'blk.0.attn_q.bias'");
    add_row(&m, "blk.1.attn_q.bias", 32, 0);
    expect(&m, STATUS_OK, "");
    drop_row(&m, "blk.0.attn_q.bias");
    expect(&m, STATUS_FORMAT, "'blk.1.attn_q.bias' is present");
}

Test(model, output_matrix_may_be_untied_and_padded) {
    struct small_model m = small_model("llama");
    add_row(&m, "output.weight", 32, 48);
    find_row(&m, "token_embd.weight")->n = 48;
    struct model_config c;
    struct err err = {""};
    cr_assert_eq(load(&m, 0, &c, &err), STATUS_OK, "%s", err.message);
    cr_expect(c.tied == 0 && c.n_vocab == 40 && c.n_vocab_rows == 48);
    find_row(&m, "output.weight")->n = 39;
    expect(&m, STATUS_SHAPE, "'output.weight': 39 rows for a vocabulary of 40");
}

Test(model, refused_upload_names_the_tensor_and_frees_the_rest) {
    struct small_model m = small_model("qwen3");
    struct bytes b = small_model_bytes(&m);
    gguf *g = NULL;
    struct err err = {""};
    cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK);
    int refused = 0;
    for (int at = 1;; at++) {
        struct stub stub;
        stub_open(&stub);
        stub.fail_at = at;
        struct model *model = NULL;
        enum status s = model_load(g, &stub.backend, 0, &model, &err);
        if (s == STATUS_OK) {
            model_free(model);
            break;
        }
        refused++;
        cr_expect(s == STATUS_UNSUPPORTED && model == NULL && stub.alive == 0, "upload %d leaks", at);
        cr_expect(strstr(err.message, "tensor '") == err.message &&
                      strstr(err.message, "': stub refuses") != NULL,
                  "message: %s", err.message);
    }
    cr_expect_eq(refused, m.n_tensors + 1, "every tensor once, the tied one twice");
    gguf_close(g);
    free(b.p);
}

Test(model, name_is_made_printable) {
    struct small_model m = small_model("llama");
    set_key(&m, "general.name", GGUF_STRING, 0,
            "a\x01\xc3\xa9 name that is much longer than sixty-three bytes, all told, and goes on");
    struct model_config c;
    struct err err = {""};
    cr_assert_eq(load(&m, 0, &c, &err), STATUS_OK);
    cr_expect_eq(strlen(c.name), 63);
    cr_expect(strncmp(c.name, "a??? name", 9) == 0, "name: %s", c.name);
}
