/* test_vocab.c - ids against those recorded from llama.cpp, and bytes against the text.
 * The recorded data and how it was made: fixtures/tokens/README.md. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/vocab.h"
#include "gates/table.h"

#define TEXT_ROOM     (1 << 16)
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

static table *read_table(const char *path, int columns) {
    table *t;
    struct err err = {""};
    cr_assert_eq(table_read(path, &t, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(table_columns(t), columns, "%s has %d columns", path, table_columns(t));
    return t;
}

static const char *cell(const table *t, size_t row, int column) {
    return table_cell(t, row, column, NULL);
}

/* The bytes of ids, one after the other; malloc'ed. */
static char *join_bytes(const vocab *v, const int32_t *ids, size_t n, size_t *length) {
    const uint8_t *bytes;
    size_t k;
    *length = 0;
    for (size_t i = 0; i < n; i++) {
        vocab_bytes(v, ids[i], &bytes, &k);
        *length += k;
    }
    char *out = malloc(*length + 1), *at = out;
    for (size_t i = 0; i < n; i++) {
        vocab_bytes(v, ids[i], &bytes, &k);
        memcpy(at, bytes, k);
        at += k;
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
    table *texts = read_table(FIXTURE("tokens/corpus.csv"), 5), *ids = read_table(path, 2);
    cr_assert_eq(table_rows(texts), table_rows(ids), "%s: %zu recorded", name, table_rows(ids));
    uint8_t *text = malloc(TEXT_ROOM);
    size_t compared = 0;
    for (size_t i = 0; i < table_rows(texts); i++) {
        int add_bos = atoi(cell(texts, i, 2)), special = atoi(cell(texts, i, 3));
        size_t digits, n;
        const char *hex = table_cell(texts, i, 4, &digits);
        cr_assert(digits / 2 <= TEXT_ROOM && table_parse_hex(hex, digits, text), "text %zu is not hex", i);
        size_t length = digits / 2;
        const char *want = cell(ids, i, 1);
        int32_t *got;
        struct err err = {""};
        enum status s = vocab_encode(o.v, (const char *)text, length, add_bos, special, &got, &n, &err);
        if (strcmp(want, "refused") == 0) {
            cr_assert_eq(s, STATUS_INVALID, "%s text %zu was not refused", name, i);
            cr_assert(strstr(err.message, "has no token for byte 0x") != NULL, "message: %s", err.message);
            continue;
        }
        cr_assert_eq(s, STATUS_OK, "%s text %zu: %s", name, i, err.message);
        cr_assert(ids_equal(want, got, n), "%s text %zu (%s): ids differ", name, i, cell(texts, i, 1));
        cr_assert(special || round_trips(o.v, (const char *)text, length), "%s text %zu: bytes differ", name,
                  i);
        free(got);
        compared++;
    }
    cr_assert(compared > 800, "%s: only %zu texts compared", name, compared);
    free(text);
    table_close(texts);
    table_close(ids);
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
    table *rows = read_table(FIXTURE("tokens/vocabularies.csv"), 5);
    cr_assert_eq(table_rows(rows), 6, "rows: %zu", table_rows(rows));
    for (size_t r = 0; r < table_rows(rows); r++) {
        struct opened o = open_named(cell(rows, r, 0));
        cr_assert_eq(vocab_size(o.v), atoi(cell(rows, r, 1)), "%s: size", cell(rows, r, 0));
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
        cr_assert_str_eq(hex, cell(rows, r, 4), "%s: a token has other bytes", cell(rows, r, 0));
        close_all(&o);
    }
    table_close(rows);
}

Test(vocab, prompts_have_the_ids_of_the_float64_reference) {
    struct opened o = open_named("seedling");
    table *rows = read_table(FIXTURE("reference/seedling_q8_0_prompts.csv"), 6);
    cr_assert_eq(table_rows(rows), 10, "rows: %zu", table_rows(rows));
    static char text[TEXT_ROOM];
    for (size_t r = 0; r < table_rows(rows); r++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", FIXTURE("prompts"), cell(rows, r, 0));
        FILE *f = fopen(path, "rb");
        cr_assert(f != NULL, "cannot open %s", path);
        size_t length = fread(text, 1, sizeof text, f), n;
        fclose(f);
        int32_t *ids;
        struct err err = {""};
        cr_assert_eq(vocab_encode(o.v, text, length, 1, 1, &ids, &n, &err), STATUS_OK, "%s", err.message);
        cr_assert_eq(n, (size_t)atoi(cell(rows, r, 1)), "%s: %zu ids", cell(rows, r, 0), n);
        cr_assert(ids_equal(cell(rows, r, 4), ids, n), "%s: ids differ", cell(rows, r, 0));
        free(ids);
    }
    table_close(rows);
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
