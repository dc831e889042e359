/* test_make_model.c - quantisers, GGUF writer and make-model: valid, deterministic, refused where it must be.
 * Source: ours. Exercise: ctest -R unit.make_model */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/fmath.h"
#include "engine/make_model.h"
#include "engine/make_plan.h"
#include "engine/quantise.h"
#include "engine/rng.h"
#include "engine/vocab.h"
#include "tests/gguf_bytes.h"
#include "tests/stub_backend.h"

#define SEEDLING FORKGATE_SOURCE_DIR "/fixtures/models/seedling-f16.gguf"

/* ---- quantisers -------------------------------------------------------------------------------------------- */

static const struct {
    enum dtype t;
    double nmse; /* bound on normal data: about 1.5 times what was measured */
} quants[] = {{DTYPE_F32, 0},       {DTYPE_F16, 1e-7},    {DTYPE_BF16, 5e-6}, {DTYPE_Q8_0, 5e-5},
              {DTYPE_Q4_0, 1.2e-2}, {DTYPE_Q4_1, 1e-2},   {DTYPE_Q5_0, 3e-3}, {DTYPE_Q5_1, 2.4e-3},
              {DTYPE_Q4_K, 1e-2},   {DTYPE_Q5_K, 2.4e-3}, {DTYPE_Q6_K, 6e-4}};
#define N_QUANTS (sizeof quants / sizeof quants[0])
enum { N = 4096 };

static double nmse(const float *a, const float *b) {
    double num = 0, den = 0;
    for (int i = 0; i < N; i++) {
        double d = (double)a[i] - (double)b[i];
        num += d * d;
        den += (double)a[i] * (double)a[i];
    }
    return num / den;
}

Test(make_model, quantised_values_come_back_close_at_every_scale) {
    static const double scales[] = {1.0, 0.02, 1e-3, 300.0, -1.0};
    static float x[N], y[N];
    static uint8_t coded[N * 4];
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        for (uint64_t i = 0; i < N; i++) x[i] = rng_normal(7, i) * (float)scales[s];
        for (size_t q = 0; q < N_QUANTS; q++) {
            struct err err = {""};
            cr_assert_eq(quantise(quants[q].t, x, coded, N, &err), STATUS_OK, "%s", err.message);
            dtype_dequantise(quants[q].t, coded, y, N);
            double e = nmse(x, y), bound = quants[q].nmse * (scales[s] == 1e-3 ? 1.5 : 1.0);
            cr_expect(e <= bound, "%s at scale %g: nmse %g", dtype_info((int)quants[q].t)->name, scales[s],
                      e);
        }
    }
}

Test(make_model, zero_stays_zero_and_two_levels_are_kept) {
    static float x[N], y[N];
    static uint8_t coded[N * 4];
    for (size_t q = 0; q < N_QUANTS; q++) {
        const char *name = dtype_info((int)quants[q].t)->name;
        struct err err = {""};
        memset(x, 0, sizeof x);
        cr_assert_eq(quantise(quants[q].t, x, coded, N, &err), STATUS_OK);
        dtype_dequantise(quants[q].t, coded, y, N);
        for (int i = 0; i < N; i++) cr_assert(y[i] == 0.0f, "%s: zero became %g", name, (double)y[i]);
        /* Two levels per block: every type has a code for both; what is left is the rounding of the scale. */
        for (int i = 0; i < N; i++) x[i] = (float)(i % 3 == 0 ? -8 : 0) * 0.25f;
        cr_assert_eq(quantise(quants[q].t, x, coded, N, &err), STATUS_OK);
        dtype_dequantise(quants[q].t, coded, y, N);
        for (int i = 0; i < N; i++)
            cr_assert(fabsf(x[i] - y[i]) <= 2e-3f, "%s: %g became %g", name, (double)x[i], (double)y[i]);
    }
}

Test(make_model, values_that_cannot_be_stored_are_refused) {
    static float x[N];
    static uint8_t coded[N * 4];
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e38f};
    for (size_t q = 0; q < N_QUANTS; q++) {
        for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
            int fits = b == 3 && (quants[q].t == DTYPE_F32 || quants[q].t == DTYPE_BF16);
            for (int at = 0; at < N; at += 1365) { /* first, middle, last */
                for (uint64_t i = 0; i < N; i++) x[i] = rng_normal(1, i);
                x[at] = bad[b];
                struct err err = {""};
                enum status s = quantise(quants[q].t, x, coded, N, &err);
                cr_assert_eq(s, fits ? STATUS_OK : STATUS_INVALID, "%s took %g at %d",
                             dtype_info((int)quants[q].t)->name, (double)bad[b], at);
            }
        }
    }
}

/* ---- writer ------------------------------------------------------------------------------------------------ */

Test(make_model, writer_and_reader_agree) {
    char *file = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&file, &n);
    struct err err = {""};
    gguf_writer *w = NULL;
    cr_assert(f != NULL && gguf_writer_open(f, &w, &err) == STATUS_OK);
    static const struct gguf_string words[] = {{"a", 1}, {"", 0}, {"b c", 3}};
    static const int32_t ints[] = {-1, 0, INT32_MAX};
    gguf_put_u32(w, "u", 4000000000u);
    gguf_put_f32(w, "f", -0.5f);
    gguf_put_bool(w, "b", 1);
    gguf_put_string(w, "s", "text");
    gguf_put_strings(w, "ss", words, 3);
    gguf_put_i32s(w, "is", ints, 3);
    static const uint64_t row[1] = {5}, matrix[2] = {32, 3};
    struct gguf_string one = {"one", 3}, two = {"two", 3};
    gguf_put_tensor(w, one, DTYPE_F32, 1, row);
    gguf_put_tensor(w, two, DTYPE_Q8_0, 2, matrix);
    static const uint8_t data[102] = {1, 2, 3};
    cr_assert_eq(gguf_write_data(w, data, 20, &err), STATUS_OK);
    cr_assert_eq(gguf_write_data(w, data, 100, &err), STATUS_OK);
    cr_assert_eq(gguf_write_data(w, data, 2, &err), STATUS_OK);
    cr_assert_eq(gguf_writer_close(w, &err), STATUS_OK, "%s", err.message);
    cr_assert(fclose(f) == 0);
    gguf *g = NULL;
    cr_assert_eq(gguf_parse(file, n, &g, &err), STATUS_OK, "%s", err.message);
    static const char *const texts[] = {
        "4000000000", "-0.5", "true", "text", "string[3] a, , b c", "int32[3] -1, 0, 2147483647"};
    for (uint64_t i = 0; i < 6; i++) {
        char text[64];
        cr_expect_str_eq(gguf_value_text(g, i, text, sizeof text), texts[i]);
    }
    cr_expect_eq(gguf_tensor_find(g, "two")->bytes, 102);
    cr_expect(memcmp(gguf_tensor_find(g, "two")->data, data, 100) == 0);
    cr_expect_eq(n % 32, 0, "the last tensor is not padded");
    gguf_close(g);
    free(file);
}

Test(make_model, writer_refuses_what_does_not_add_up) {
    static const uint64_t row[1] = {4};
    static const uint8_t data[32];
    struct gguf_string name = {"t", 1};
    for (int fault = 0; fault < 3; fault++) {
        char *file = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&file, &n);
        struct err err = {""};
        gguf_writer *w = NULL;
        cr_assert(f != NULL && gguf_writer_open(f, &w, &err) == STATUS_OK);
        gguf_put_tensor(w, name, DTYPE_F32, 1, row);
        if (fault == 0) cr_expect_eq(gguf_write_data(w, data, 17, &err), STATUS_USAGE, "too much data");
        if (fault == 1) (void)gguf_write_data(w, data, 15, &err);
        if (fault == 2) gguf_put_u32(w, "late", 1);
        cr_expect_eq(gguf_writer_close(w, &err), STATUS_USAGE, "fault %d went unseen", fault);
        (void)fclose(f);
        free(file);
    }
    FILE *full = fopen("/dev/full", "wb");
    if (full == NULL) return; /* not on every system */
    struct err err = {""};
    gguf_writer *w = NULL;
    cr_assert_eq(gguf_writer_open(full, &w, &err), STATUS_OK);
    cr_expect_eq(gguf_writer_close(w, &err), STATUS_IO, "a full disk went unseen");
    (void)fclose(full);
}

/* ---- make_model -------------------------------------------------------------------------------------------- */

static char scratch[] = "/tmp/forkgate-test-XXXXXX";
static char out_path[64], part_path[64];

static void open_scratch(void) {
    cr_assert(mkdtemp(scratch) != NULL);
    (void)snprintf(out_path, sizeof out_path, "%s/m.gguf", scratch);
    (void)snprintf(part_path, sizeof part_path, "%s/m.gguf.part", scratch);
}

static void close_scratch(void) {
    (void)unlink(out_path);
    (void)unlink(part_path);
    (void)rmdir(scratch);
}

static gguf *make(const struct make_model_request *base) {
    struct make_model_request r = *base;
    r.out = out_path;
    struct err err = {""};
    cr_assert_eq(make_model(&r, &err), STATUS_OK, "%s", err.message);
    cr_assert(access(part_path, F_OK) != 0, "the partial file is still there");
    gguf *g = NULL;
    cr_assert_eq(gguf_open(out_path, &g, &err), STATUS_OK, "%s", err.message);
    return g;
}

static uint64_t hash_of(const gguf *g) {
    return XXH3_64bits(gguf_file_data(g), gguf_file_bytes(g));
}

TestSuite(make_file, .init = open_scratch, .fini = close_scratch);

Test(make_file, tiny_models_load_and_their_vocabulary_round_trips) {
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (size_t a = 0; a < 3; a++) {
        struct make_model_request r = {.arch = archs[a], .quant = "q4_k_m", .seed = 5};
        gguf *g = make(&r);
        struct stub stub;
        stub_open(&stub);
        struct model *m = NULL;
        struct err err = {""};
        cr_assert_eq(model_load(g, &stub.backend, 16, &m, &err), STATUS_OK, "%s: %s", archs[a], err.message);
        cr_expect_eq(m->layers[1].w_down.dtype, DTYPE_Q6_K);
        cr_expect_eq(m->layers[0].w_down.dtype, DTYPE_Q4_K);
        cr_expect_eq(m->output.dtype, DTYPE_Q6_K, "a tied matrix makes the logits");
        model_free(m);
        const struct gguf_tensor *factors = gguf_tensor_find(g, "rope_freqs.weight");
        cr_assert_eq(factors != NULL, a == 0, "%s", archs[a]);
        for (int i = 0; factors != NULL && i < 32; i++) {
            float f;
            memcpy(&f, (const char *)factors->data + 4 * i, 4);
            cr_expect(f == plan_rope_factor(1e4f, i, 32) && f >= 1.0f && f <= 8.0f, "factor %d: %g", i,
                      (double)f);
        }
        vocab *v = NULL;
        cr_assert_eq(vocab_open(g, &v, &err), STATUS_OK, "%s", err.message);
        cr_expect_eq(vocab_size(v), 320);
        static const char text[] = "the rain in \xc3\x84 \x01\xff\n";
        int32_t *ids = NULL;
        size_t n = 0, at = 0;
        cr_assert_eq(vocab_encode(v, text, sizeof text - 1, 1, 0, &ids, &n, &err), STATUS_OK);
        for (size_t i = 0; i < n; i++) {
            const uint8_t *bytes = NULL;
            size_t length = 0;
            vocab_bytes(v, ids[i], &bytes, &length);
            cr_assert(at + length < sizeof text && memcmp(text + at, bytes, length) == 0, "token %zu", i);
            at += length;
        }
        cr_expect(at == sizeof text - 1 && n < at, "no merge was used");
        free(ids);
        vocab_close(v);
        gguf_close(g);
    }
}

/* The bytes are part of the contract: a seed names a model. A new hash here needs a reason. */
Test(make_file, same_request_gives_the_same_bytes_everywhere) {
    static const struct {
        char quant[8];
        uint64_t seed, hash;
    } rows[] = {{"q4_k_m", 1, 0x2e156377e5b877a3},
                {"q4_k_m", 2, 0xde079552a800115b},
                {"f16", 1, 0x22509a4c3d44f455},
                {"q8_0", 1, 0x5d87605b1c2a2fd7},
                {"q5_1", 1, 0x254760def63d6349}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct make_model_request r = {.shape = "tiny", .quant = rows[i].quant, .seed = rows[i].seed};
        gguf *g = make(&r);
        cr_expect_eq(hash_of(g), rows[i].hash, "%s seed %d: 0x%016llx", rows[i].quant, (int)rows[i].seed,
                     (unsigned long long)hash_of(g));
        gguf_close(g);
    }
}

Test(make_file, weights_do_not_depend_on_the_storage_type) {
    struct make_model_request r = {.shape = "tiny", .quant = "f32", .seed = 3};
    gguf *a = make(&r);
    (void)unlink(out_path); /* a stays mapped */
    r.quant = "f16";
    gguf *b = make(&r);
    const struct gguf_tensor *x = gguf_tensor_find(a, "blk.1.ffn_down.weight");
    const struct gguf_tensor *y = gguf_tensor_find(b, "blk.1.ffn_down.weight");
    double sum = 0, squares = 0;
    size_t n = (size_t)(x->bytes / 4);
    for (size_t i = 0; i < n; i++) {
        float f;
        uint16_t h;
        memcpy(&f, (const char *)x->data + 4 * i, 4);
        memcpy(&h, (const char *)y->data + 2 * i, 2);
        cr_assert_eq(fm_f32_to_f16(f), h, "element %zu", i);
        sum += (double)f;
        squares += (double)f * (double)f;
    }
    cr_expect_float_eq(sum / (double)n, 0.0, 1e-3);
    cr_expect_float_eq(sqrt(squares / (double)n * 512), 1.0, 0.02, "deviation is 1 / sqrt(n_ff)");
    gguf_close(a);
    gguf_close(b);
}

Test(make_file, seedling_is_requantised_with_mixed_types) {
    struct make_model_request r = {.from = SEEDLING, .quant = "q4_k_m"};
    gguf *g = make(&r), *source = NULL;
    struct err err = {""};
    cr_assert_eq(gguf_open(SEEDLING, &source, &err), STATUS_OK);
    cr_assert_eq(gguf_tensor_count(g), gguf_tensor_count(source));
    for (uint64_t i = 0; i < gguf_key_count(source); i++) {
        char name[64], a[128], b[128];
        struct gguf_string s = gguf_key_name(source, i);
        (void)snprintf(name, sizeof name, "%.*s", (int)s.length, s.data);
        if (strcmp(name, "general.file_type") == 0) continue;
        int64_t k = gguf_key_find(g, name);
        cr_assert(k >= 0, "key %s is lost", name);
        cr_expect_str_eq(gguf_value_text(source, i, a, sizeof a),
                         gguf_value_text(g, (uint64_t)k, b, sizeof b));
    }
    int count[DTYPE_BF16 + 1] = {0};
    for (uint64_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i), *s = gguf_tensor_at(source, i);
        count[t->dtype]++;
        size_t n = (size_t)(t->dims[0] * t->dims[1]);
        float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
        cr_assert(x != NULL && y != NULL);
        dtype_dequantise(s->dtype, s->data, x, n);
        dtype_dequantise(t->dtype, t->data, y, n);
        double num = 0, den = 0;
        for (size_t e = 0; e < n; e++) {
            num += ((double)x[e] - (double)y[e]) * ((double)x[e] - (double)y[e]);
            den += (double)x[e] * (double)x[e];
        }
        double bound = t->dtype == DTYPE_F32 ? 0.0 : t->dtype == DTYPE_Q6_K ? 6e-4 : 1e-2;
        cr_expect(num <= bound * den, "%.*s: nmse %g", (int)t->name.length, t->name.data, num / den);
        free(x);
        free(y);
    }
    cr_expect(count[DTYPE_Q6_K] == 9 && count[DTYPE_Q4_K] == 48 && count[DTYPE_F32] == 41);
    gguf_close(source);
    gguf_close(g);
}

/* llama.cpp's q4_k_m for 28 layers: these get q6_K for attn_v and ffn_down. */
Test(make_model, q4_k_m_mix_and_fall_backs) {
    static const char more[] = "1110010010010010010010011111";
    struct quant_choice q;
    cr_assert_eq(quant_choose("q4_k_m", &q, NULL), STATUS_OK);
    for (int i = 0; i < 28; i++) {
        enum dtype want = more[i] == '1' ? DTYPE_Q6_K : DTYPE_Q4_K;
        cr_expect_eq(quant_type_for(&q, "attn_v.weight", i, 28, 0, 3584), want, "attn_v %d", i);
        cr_expect_eq(quant_type_for(&q, "ffn_down.weight", i, 28, 0, 3584), want, "ffn_down %d", i);
        cr_expect_eq(quant_type_for(&q, "attn_q.weight", i, 28, 0, 3584), DTYPE_Q4_K);
    }
    cr_expect_eq(quant_type_for(&q, "output.weight", -1, 28, 1, 3584), DTYPE_Q6_K);
    cr_expect_eq(quant_type_for(&q, "token_embd.weight", -1, 28, 0, 3584), DTYPE_Q4_K);
    cr_expect_eq(quant_type_for(&q, "attn_q.weight", 0, 24, 0, 896), DTYPE_Q5_0);
    cr_expect_eq(quant_type_for(&q, "attn_v.weight", 0, 24, 0, 896), DTYPE_Q8_0);
    cr_expect_eq(quant_type_for(&q, "attn_q.weight", 0, 24, 0, 80), DTYPE_F16);
    cr_assert_eq(quant_choose("q5_k", &q, NULL), STATUS_OK);
    cr_expect_eq(quant_type_for(&q, "attn_q.weight", 0, 24, 0, 896), DTYPE_Q5_1);
}

Test(make_file, bad_requests_leave_no_file) {
    static char long_out[64] = "/nonexistent-directory/m.gguf";
    struct row {
        struct make_model_request r;
        enum status status;
        const char *text;
    } rows[] = {{{.quant = "q3_k"}, STATUS_USAGE, "quant 'q3_k' is not one of q4_k_m"},
                {{.quant = NULL}, STATUS_USAGE, "quant ''"},
                {{.quant = "f16", .shape = "huge"}, STATUS_USAGE, "shape 'huge' is not one of tiny"},
                {{.quant = "f16", .arch = "gemma"}, STATUS_USAGE, "architecture 'gemma'"},
                {{.quant = "f16", .from = SEEDLING, .shape = "tiny"}, STATUS_USAGE, "keeps its shape"},
                {{.quant = "f16", .from = "/nonexistent"}, STATUS_IO, "/nonexistent"},
                {{.quant = "q4_k", .from = FORKGATE_SOURCE_DIR "/fixtures/models/seedling-q8_0.gguf"},
                 STATUS_UNSUPPORTED,
                 "is q8_0 already"},
                {{.quant = "f16", .out = long_out}, STATUS_IO, "/nonexistent-directory"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {""};
        if (rows[i].r.out == NULL) rows[i].r.out = out_path;
        enum status s = make_model(&rows[i].r, &err);
        cr_expect_eq(s, rows[i].status, "%s: %s", rows[i].text, err.message);
        cr_expect(strstr(err.message, rows[i].text) != NULL, "message lacks %s: %s", rows[i].text,
                  err.message);
        cr_expect(access(out_path, F_OK) != 0 && access(part_path, F_OK) != 0, "%s: a file is left",
                  rows[i].text);
    }
}

Test(make_model, every_shape_is_consistent_and_listed) {
    static const char *const names[] = {"tiny",       "seedling-like", "qwen2.5-0.5b", "qwen2.5-1.5b",
                                        "qwen2.5-7b", "qwen2.5-14b",   "llama-8b"};
    static const double billions[] = {0.001264, 0.00735, 0.494, 1.544, 7.616, 14.770, 8.030};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct make_shape *s = make_shape_find(names[i]);
        cr_assert(s != NULL && strstr(make_model_shapes(), names[i]) != NULL, "%s", names[i]);
        struct quant_choice q;
        struct plan p;
        cr_assert(quant_choose("q8_0", &q, NULL) == STATUS_OK && plan_make(s, &q, &p, NULL) == STATUS_OK);
        double total = 0;
        for (int t = 0; t < p.n; t++) total += (double)(p.tensors[t].dims[0] * p.tensors[t].dims[1]);
        cr_expect_float_eq(total * 1e-9, billions[i], billions[i] * 0.005, "%s: %g parameters", names[i],
                           total);
        free(p.tensors);
    }
    /* Llama 3.1: the fast half is kept, the slow end is 8. */
    cr_expect(plan_rope_factor(5e5f, 0, 64) == 1.0f && plan_rope_factor(5e5f, 63, 64) == 8.0f);
    cr_expect_float_eq(plan_rope_factor(5e5f, 32, 64), 2.6945f, 1e-3f); /* wavelength 4443: smooth 0.28128 */
}
