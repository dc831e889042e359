/* test_vocab.c - ids against those recorded from llama.cpp, bytes against the text, refusals by name.
 * The recorded data and how it was made: fixtures/tokens/README.md. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/vocab.h"
#include "tests/csv_rows.h"
#include "tests/gguf_writer.h"

#define FIXTURE(name) FORKGATE_SOURCE_DIR "/fixtures/" name

struct opened {
    gguf *g;
    vocab *v;
};

static struct opened open_file(const char *path) {
    struct opened o;
    struct err err = {""};
    cr_assert_eq(gguf_open(path, &o.g, &err), STATUS_OK, "%s: %s", path, err.message);
    cr_assert_eq(vocab_open(o.g, &o.v, &err), STATUS_OK, "%s: %s", path, err.message);
    return o;
}

static struct opened open_named(const char *name) {
    char path[512];
    if (strcmp(name, "seedling") == 0)
        snprintf(path, sizeof path, "%s", FIXTURE("models/seedling-q8_0.gguf"));
    else
        snprintf(path, sizeof path, "%s/%s.gguf", FIXTURE("tokens"), name);
    return open_file(path);
}

static void close_all(struct opened *o) {
    vocab_close(o->v);
    gguf_close(o->g);
}

static size_t unhex(const char *hex, char *out) {
    size_t n = 0;
    for (; hex[0] != '\0'; hex += 2) {
        unsigned byte = 0;
        cr_assert_eq(sscanf(hex, "%2x", &byte), 1, "bad hex");
        out[n++] = (char)byte;
    }
    return n;
}

/* The bytes of ids, one after the other; malloc'ed. */
static char *join_bytes(const vocab *v, const int32_t *ids, size_t n, size_t *length) {
    char *out = NULL;
    *length = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *bytes;
        size_t k;
        vocab_bytes(v, ids[i], &bytes, &k);
        out = realloc(out, *length + k + 1);
        memcpy(out + *length, bytes, k);
        *length += k;
    }
    return out;
}

/* Encodes without BOS and specials and compares the bytes; SPM puts one space before a text that is not empty. */
static int round_trips(const vocab *v, const char *text, size_t length) {
    int32_t *ids;
    size_t n, got;
    struct err err = {""};
    cr_assert_eq(vocab_encode(v, text, length, 0, 0, &ids, &n, &err), STATUS_OK, "%s", err.message);
    char *bytes = join_bytes(v, ids, n, &got);
    size_t lead = strcmp(vocab_pre_name(v), "spm") == 0 && length > 0;
    int same = got == length + lead && (lead == 0 || bytes[0] == ' ') &&
               (length == 0 || memcmp(bytes + lead, text, length) == 0);
    free(bytes);
    free(ids);
    return same;
}

/* "1 2 3" against ids. */
static int ids_equal(const char *want, const int32_t *ids, size_t n) {
    size_t i = 0;
    while (*want != '\0') {
        char *end;
        long id = strtol(want, &end, 10);
        if (end == want || i == n || ids[i] != id) return 0;
        i++;
        want = end;
    }
    return i == n;
}

static void check_recorded(const char *name) {
    struct opened o = open_named(name);
    char path[512];
    snprintf(path, sizeof path, "%s/%s.csv", FIXTURE("tokens"), name);
    struct csv_rows texts = csv_rows_read(FIXTURE("tokens/corpus.csv")), ids = csv_rows_read(path);
    cr_assert_eq(texts.n, ids.n, "%s: %zu texts, %zu recorded", name, texts.n, ids.n);
    char *text = malloc(1 << 16);
    size_t compared = 0;
    for (size_t i = 1; i < texts.n; i++) {
        int add_bos = atoi(csv_cell(&texts, i, 2)), special = atoi(csv_cell(&texts, i, 3));
        size_t length = unhex(csv_cell(&texts, i, 4), text), n;
        const char *want = csv_cell(&ids, i, 1);
        int32_t *got;
        struct err err = {""};
        enum status s = vocab_encode(o.v, text, length, add_bos, special, &got, &n, &err);
        if (strcmp(want, "refused") == 0) {
            cr_assert_eq(s, STATUS_INVALID, "%s text %zu was not refused", name, i - 1);
            cr_assert(strstr(err.message, "has no token for byte 0x") != NULL, "message: %s", err.message);
            continue;
        }
        cr_assert_eq(s, STATUS_OK, "%s text %zu: %s", name, i - 1, err.message);
        cr_assert(ids_equal(want, got, n), "%s text %zu (%s): ids differ", name, i - 1,
                  csv_cell(&texts, i, 1));
        cr_assert(special || round_trips(o.v, text, length), "%s text %zu: bytes differ", name, i - 1);
        free(got);
        compared++;
    }
    cr_assert(compared > 800, "%s: only %zu texts compared", name, compared);
    free(text);
    csv_rows_free(&texts);
    csv_rows_free(&ids);
    close_all(&o);
}

Test(vocab, gpt2_ids_equal_the_recorded_ones) {
    check_recorded("gpt-2");
}
Test(vocab, qwen2_ids_equal_the_recorded_ones) {
    check_recorded("qwen2");
}
Test(vocab, llama_bpe_ids_equal_the_recorded_ones) {
    check_recorded("llama-bpe");
}
Test(vocab, llama_spm_ids_equal_the_recorded_ones) {
    check_recorded("llama-spm");
}
Test(vocab, smollm_ids_equal_the_recorded_ones) {
    check_recorded("smollm");
}
Test(vocab, seedling_ids_equal_the_recorded_ones) {
    check_recorded("seedling");
}

/* One hash over (length, bytes) of every token of a vocabulary, as llama.cpp spells them. */
Test(vocab, bytes_of_every_token_equal_the_recorded_ones) {
    struct csv_rows rows = csv_rows_read(FIXTURE("tokens/vocabularies.csv"));
    cr_assert_eq(rows.n, 7, "rows: %zu", rows.n);
    for (size_t r = 1; r < rows.n; r++) {
        struct opened o = open_named(csv_cell(&rows, r, 0));
        cr_assert_eq(vocab_size(o.v), atoi(csv_cell(&rows, r, 1)), "%s: size", csv_cell(&rows, r, 0));
        XXH3_state_t *state = XXH3_createState();
        XXH3_128bits_reset(state);
        for (int32_t id = 0; id < vocab_size(o.v); id++) {
            const uint8_t *bytes;
            size_t length;
            vocab_bytes(o.v, id, &bytes, &length);
            uint8_t n[4] = {(uint8_t)length, (uint8_t)(length >> 8), 0, 0};
            XXH3_128bits_update(state, n, sizeof n);
            XXH3_128bits_update(state, bytes, length);
        }
        XXH128_hash_t h = XXH3_128bits_digest(state);
        XXH3_freeState(state);
        char hex[40];
        snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)h.high64,
                 (unsigned long long)h.low64);
        cr_assert_str_eq(hex, csv_cell(&rows, r, 4), "%s: a token has other bytes", csv_cell(&rows, r, 0));
        close_all(&o);
    }
    csv_rows_free(&rows);
}

Test(vocab, prompts_have_the_ids_of_the_float64_reference) {
    struct opened o = open_named("seedling");
    struct csv_rows rows = csv_rows_read(FIXTURE("reference/seedling_q8_0_prompts.csv"));
    cr_assert_eq(rows.n, 11, "rows: %zu", rows.n);
    static char text[1 << 16];
    for (size_t r = 1; r < rows.n; r++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", FIXTURE("prompts"), csv_cell(&rows, r, 0));
        FILE *f = fopen(path, "rb");
        cr_assert(f != NULL, "cannot open %s", path);
        size_t length = fread(text, 1, sizeof text, f), n;
        fclose(f);
        int32_t *ids;
        struct err err = {""};
        cr_assert_eq(vocab_encode(o.v, text, length, 1, 1, &ids, &n, &err), STATUS_OK, "%s", err.message);
        cr_assert_eq(n, (size_t)atoi(csv_cell(&rows, r, 1)), "%s: %zu ids", csv_cell(&rows, r, 0), n);
        cr_assert(ids_equal(csv_cell(&rows, r, 4), ids, n), "%s: ids differ", csv_cell(&rows, r, 0));
        free(ids);
    }
    csv_rows_free(&rows);
    close_all(&o);
}

Test(vocab, every_token_of_the_embedded_model_round_trips) {
    struct opened o = open_named("seedling");
    for (int32_t id = 0; id < vocab_size(o.v); id++) {
        const uint8_t *bytes;
        size_t length;
        vocab_bytes(o.v, id, &bytes, &length);
        cr_assert(length > 0, "token %d is empty", (int)id);
        cr_assert(round_trips(o.v, (const char *)bytes, length), "token %d", (int)id);
    }
    close_all(&o);
}

/* Bytes that are not UTF-8 survive, in every family and in any company. */
Test(vocab, invalid_utf8_keeps_its_bytes) {
    static const char *const names[] = {"gpt-2", "qwen2", "llama-bpe", "llama-spm", "seedling"};
    static const char *const texts[] = {"\xff",
                                        "a\xff"
                                        "b",
                                        "\xc0\x80",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xe2\x96",
                                        "\xe2\x96 x",
                                        "\xf0\x9f\x98",
                                        "x\xf0\x9f",
                                        "\x80\x80\x80",
                                        "\xe4\xb8\xad\xe4",
                                        " \xfe \xfe\n",
                                        "\xe2\xe2\x96\x81",
                                        "ab\xc3(\xa9 it's",
                                        "\xef\xbf\xbd\xff",
                                        "\xc3\xa9\xc3",
                                        "1\xb2"
                                        "2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct opened o = open_named(names[i]);
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            cr_assert(round_trips(o.v, texts[t], strlen(texts[t])), "%s text %zu", names[i], t);
        char all[256];
        for (int b = 0; b < 256; b++) {
            all[b] = (char)b;
            cr_assert(round_trips(o.v, &all[b], 1), "%s byte %d", names[i], b);
        }
        cr_assert(round_trips(o.v, all, sizeof all), "%s all bytes", names[i]);
        close_all(&o);
    }
}

/* SentencePiece would read a written U+2581 as a space; here its bytes are spelled out. */
Test(vocab, spm_keeps_a_literal_space_mark) {
    struct opened o = open_named("llama-spm");
    cr_assert(round_trips(o.v,
                          "a\xe2\x96\x81"
                          "b \xe2\x96\x81\xe2\x96\x81 c",
                          13),
              "the mark became a space");
    close_all(&o);
}

/* The cost must not grow with the square of a long word or a long run of spaces. */
Test(vocab, a_quarter_megabyte_without_a_break_is_not_quadratic, .timeout = 30) {
    static const char *const names[] = {"gpt-2", "qwen2", "llama-bpe", "llama-spm"};
    enum { LENGTH = 1 << 18 };
    char *text = malloc(LENGTH);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct opened o = open_named(names[i]);
        static const char fill[] = {'a', ' ', '\n', '0', '='};
        for (size_t k = 0; k < sizeof fill; k++) {
            memset(text, fill[k], LENGTH);
            text[LENGTH - 1] = 'x';
            cr_assert(round_trips(o.v, text, LENGTH), "%s filled with %d", names[i], fill[k]);
        }
        close_all(&o);
    }
    free(text);
}

Test(vocab, special_ids_are_known) {
    static const struct {
        char name[16];
        char pre[16];
        int32_t bos, eos, end, special, plain;
    } rows[] = {{"gpt-2", "gpt-2", 50256, 50256, 50256, 50256, 0},
                {"qwen2", "qwen2", 151643, 151643, 151645, 151644, 151646},
                {"llama-bpe", "llama-bpe", 128000, 128001, 128009, 128006, 0},
                {"llama-spm", "spm", 1, 2, 2, 0, 3},
                {"smollm", "smollm", 1, 2, 0, 3, 17},
                {"seedling", "gpt-2", 0, 0, 0, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct opened o = open_named(rows[i].name);
        cr_assert_str_eq(vocab_pre_name(o.v), rows[i].pre, "%s", rows[i].name);
        cr_assert_eq(vocab_bos(o.v), rows[i].bos, "%s", rows[i].name);
        cr_assert_eq(vocab_eos(o.v), rows[i].eos, "%s", rows[i].name);
        cr_assert(vocab_is_end(o.v, rows[i].end), "%s", rows[i].name);
        cr_assert(vocab_is_end(o.v, rows[i].eos), "%s", rows[i].name);
        cr_assert(vocab_is_special(o.v, rows[i].special), "%s", rows[i].name);
        cr_assert(!vocab_is_special(o.v, rows[i].plain) && !vocab_is_end(o.v, rows[i].plain), "%s",
                  rows[i].name);
        cr_assert(!vocab_is_end(o.v, -1) && !vocab_is_end(o.v, vocab_size(o.v)), "%s", rows[i].name);
        close_all(&o);
    }
}

/* A GGUF with three letters, "ab", two user-defined tokens of which one begins the other, and a control token. */
struct recipe {
    char model[16], pre[16];
    int merges, types, scores, bos; /* types, scores: entries; bos: -1 no key */
    char merge[8];
    int want;
    char says[40];
};

static void build(struct gguf_writer *w, const struct recipe *r) {
    static const char *const tokens[] = {"a", "b", "c", "ab", "<u>", "<|c|>", "<u>!"};
    static const int32_t types[] = {1, 1, 1, 1, 4, 3, 4, 1};
    static const float scores[] = {0, 0, 0, -1, 0, 0, 0, 0};
    gguf_writer_init(w);
    if (r->model[0] != '\0') gguf_writer_string(w, "tokenizer.ggml.model", r->model);
    if (r->pre[0] != '\0') gguf_writer_string(w, "tokenizer.ggml.pre", r->pre);
    gguf_writer_strings(w, "tokenizer.ggml.tokens", tokens, 7);
    if (r->types > 0) gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, (uint64_t)r->types);
    if (r->scores > 0) gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, (uint64_t)r->scores);
    const char *const merges[] = {r->merge};
    if (r->merges) gguf_writer_strings(w, "tokenizer.ggml.merges", merges, 1);
    if (r->bos >= 0) gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)r->bos);
    gguf_writer_end(w);
}

Test(vocab, what_is_not_handled_is_refused_by_name) {
    static const struct recipe rows[] = {
        {"bert", "gpt-2", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'bert'"},
        {"t5", "gpt-2", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'t5'"},
        {"rwkv", "", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'rwkv'"},
        {"", "gpt-2", 1, 7, 0, -1, "a b", STATUS_FORMAT, "tokenizer.ggml.model"},
        {"gpt2", "tekken", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'tekken'"},
        {"gpt2", "gpt-20", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'gpt-20'"},
        {"gpt2", "", 1, 7, 0, -1, "a b", STATUS_UNSUPPORTED, "'(none)'"},
        {"gpt2", "gpt-2", 0, 7, 0, -1, "a b", STATUS_FORMAT, "tokenizer.ggml.merges"},
        {"gpt2", "gpt-2", 1, 7, 0, -1, "a c", STATUS_FORMAT, "merges[0] 'a c'"},
        {"gpt2", "gpt-2", 1, 7, 0, -1, "ab", STATUS_FORMAT, "merges[0] 'ab'"},
        {"gpt2", "gpt-2", 1, 7, 0, -1, "", STATUS_FORMAT, "merges[0]"},
        {"gpt2", "gpt-2", 1, 6, 0, -1, "a b", STATUS_FORMAT, "token_type has 6"},
        {"gpt2", "gpt-2", 1, 8, 0, -1, "a b", STATUS_FORMAT, "token_type has 8"},
        {"gpt2", "gpt-2", 1, 7, 0, 7, "a b", STATUS_FORMAT, "bos_token_id is 7"},
        {"gpt2", "llama-bpe", 1, 7, 0, -1, "a b", STATUS_FORMAT, "wants a BOS token"},
        {"llama", "", 0, 7, 7, 0, "", STATUS_UNSUPPORTED, "byte token <0x00>"},
        {"gpt2", "gpt-2", 1, 7, 0, 5, "a b", STATUS_OK, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_writer w;
        build(&w, &rows[i]);
        gguf *g = NULL;
        vocab *v = NULL;
        struct err err = {""};
        cr_assert_eq(gguf_parse(w.data, w.length, &g, &err), STATUS_OK, "row %zu: %s", i, err.message);
        cr_assert_eq((int)vocab_open(g, &v, &err), rows[i].want, "row %zu: %s", i, err.message);
        cr_assert(strstr(err.message, rows[i].says) != NULL, "row %zu says: %s", i, err.message);
        cr_assert_eq(v == NULL, rows[i].want != STATUS_OK, "row %zu", i);
        vocab_close(v);
        gguf_close(g);
        gguf_writer_free(&w);
    }
}

Test(vocab, user_defined_tokens_count_always_and_control_tokens_on_demand) {
    static const struct recipe recipe = {"gpt2", "gpt-2", 1, 7, 0, 5, "a b", STATUS_OK, ""};
    struct gguf_writer w;
    build(&w, &recipe);
    gguf *g;
    vocab *v;
    struct err err = {""};
    cr_assert_eq(gguf_parse(w.data, w.length, &g, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(vocab_open(g, &v, &err), STATUS_OK, "%s", err.message);
    int32_t *ids;
    size_t n;
    cr_assert_eq(vocab_encode(v, "ab<u>c<|c|>a", 12, 0, 1, &ids, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert(ids_equal("3 4 2 5 0", ids, n), "specials on");
    free(ids);
    cr_assert_eq(vocab_encode(v, "b<u><u>!", 8, 0, 0, &ids, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert(ids_equal("1 4 6", ids, n), "user-defined tokens with specials off, the longest first");
    free(ids);
    cr_assert_eq(vocab_encode(v, "ba<|c|>", 7, 0, 0, &ids, &n, &err), STATUS_INVALID,
                 "the control token was found");
    cr_assert_str_eq(err.message, "the vocabulary has no token for byte 0x3c (at offset 2)");
    cr_assert(ids == NULL && n == 0, "ids after a refusal");
    cr_assert_eq(vocab_encode(v, "", 0, 1, 1, &ids, &n, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(n, 0, "an empty text has %zu ids", n);
    free(ids);
    vocab_close(v);
    gguf_close(g);
    gguf_writer_free(&w);
}
