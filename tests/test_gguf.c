/* test_gguf.c - what the reader accepts, what it refuses and how: one row per hostile file, and the typed reads.
 * Damage to whole files, scale and sparse files: test_gguf_damage.c.
 * Source: ours; the rows follow published proofs against other readers. Exercise: ctest -R unit.gguf */
#include <criterion/criterion.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/gguf_bytes.h"

#define TWO_63 (UINT64_C(1) << 63)

static const uint64_t one_row[4] = {32, 1, 1, 1};

/* Parses b (and frees it): the status must be the one named, the message one line with `text` in it. */
static void expect(struct bytes b, enum status want, const char *text, const char *what) {
    void *copy = NULL;
    gguf *g = NULL;
    struct err err = {""};
    enum status s = parse_exact(b.p, b.n, &copy, &g, &err);
    cr_expect_eq(s, want, "%s: status %s, message: %s", what, status_name(s), err.message);
    cr_expect((s == STATUS_OK) == (g != NULL), "%s: handle and status disagree", what);
    cr_expect(strstr(err.message, text) != NULL, "%s: the message lacks %s: %s", what, text, err.message);
    cr_expect(strchr(err.message, '\n') == NULL, "%s: more than one line", what);
    if (g != NULL) (void)read_everything(g);
    gguf_close(g);
    free(copy);
    free(b.p);
}

static struct bytes one_tensor(const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                               uint64_t offset, size_t data) {
    struct bytes b = start_gguf(1, 0);
    put_tensor(&b, name, n_dims, dims, type, offset);
    put_data(&b, 32, data);
    return b;
}

Test(gguf, a20_first_tensor_at_offset_zero_loads) {
    expect(one_tensor("t", 1, one_row, DTYPE_F32, 0, 128), STATUS_OK, "", "one tensor");
    expect(start_gguf(0, 0), STATUS_OK, "", "no keys and no tensors");
    struct bytes b = one_tensor("t", 1, one_row, DTYPE_F32, 0, 128);
    b.p[4] = 2;
    expect(b, STATUS_OK, "", "version 2");
}

Test(gguf, a20_bad_headers_are_refused) {
    struct bytes b = {NULL, 0, 0};
    expect(b, STATUS_FORMAT, "only 0 bytes", "empty file");
    put_raw(&b, "GGU", 3);
    expect(b, STATUS_FORMAT, "only 3 bytes", "three bytes");
    b = start_gguf(0, 0);
    memcpy(b.p, "GGML", 4);
    expect(b, STATUS_FORMAT, "magic is 47 47 4d 4c", "wrong magic");
    for (size_t cut = 4; cut < 24; cut++) {
        b = start_gguf(0, 0);
        b.n = cut;
        expect(b, STATUS_FORMAT, "inside its header", "header cut");
    }
    static const struct {
        uint32_t version;
        const char *text;
    } versions[] = {{0, "version 0"}, {1, "version 1"}, {4, "version 4"}, {0x03000000, "big-endian"}};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        b = start_gguf(0, 0);
        for (int k = 0; k < 4; k++) b.p[4 + k] = (uint8_t)(versions[i].version >> (8 * k));
        expect(b, STATUS_UNSUPPORTED, versions[i].text, "version");
    }
    expect(start_gguf(TWO_63, 0), STATUS_FORMAT, "tensor count 9223372036854775808", "n_tensors 2^63");
    expect(start_gguf(0, TWO_63), STATUS_FORMAT, "key count 9223372036854775808", "n_kv 2^63");
    expect(start_gguf(1, 0), STATUS_FORMAT, "tensor count 1 does not fit", "a tensor and no bytes");
}

Test(gguf, a20_bad_keys_are_refused) {
    struct bytes b = start_gguf(0, 1);
    put_int(&b, TWO_63, 8);
    put_data(&b, 1, 32);
    expect(b, STATUS_FORMAT, "name length 9223372036854775808", "key name of 2^63");
    b = start_gguf(0, 1);
    put_key(&b, "", GGUF_U32, 1, 4);
    expect(b, STATUS_FORMAT, "key 0: empty name", "empty key");
    b = start_gguf(0, 1);
    put_str(&b, "k");
    put_int(&b, GGUF_STRING, 4);
    put_int(&b, TWO_63, 8);
    expect(b, STATUS_FORMAT, "string is longer than the bytes left (9223372036854775808)", "string of 2^63");
    b = start_gguf(0, 1);
    put_key(&b, "k", 13, 0, 8);
    expect(b, STATUS_FORMAT, "unknown value type (13)", "type 13");
    b = start_gguf(0, 1);
    put_key(&b, "k", GGUF_BOOL, 2, 1);
    expect(b, STATUS_FORMAT, "neither 0 nor 1 (2)", "a bool of 2");
    b = start_gguf(0, 1);
    put_key_array(&b, "k", GGUF_ARRAY, 1);
    expect(b, STATUS_FORMAT, "arrays of arrays", "nested array");
    b = start_gguf(0, 1);
    put_key_array(&b, "k", GGUF_F64 + 1, 1);
    expect(b, STATUS_FORMAT, "unknown array element type (13)", "array of type 13");
    for (uint32_t t = GGUF_U8; t <= GGUF_F64; t++) {
        if (t == GGUF_ARRAY) continue;
        b = start_gguf(0, 1);
        put_key_array(&b, "k", t, TWO_63 / 2);
        put_data(&b, 1, 64);
        expect(b, STATUS_FORMAT, "array is longer than the bytes left", "array of 2^62");
    }
    b = start_gguf(0, 1);
    put_key_array(&b, "k", GGUF_STRING, 2);
    put_str(&b, "abc");
    put_int(&b, 5, 8);
    expect(b, STATUS_FORMAT, "ends past the end of the file, at index (1)", "second string cut");
    b = start_gguf(0, 3);
    put_key(&b, "same", GGUF_U32, 1, 4);
    put_key(&b, "other", GGUF_U32, 1, 4);
    put_key(&b, "same", GGUF_U32, 2, 4);
    expect(b, STATUS_FORMAT, "duplicate key 'same'", "duplicate keys");
    b = start_gguf(0, 1);
    put_int(&b, 3, 8);
    put_raw(&b, "a\0b", 3);
    put_int(&b, GGUF_U32, 4);
    put_int(&b, 1, 4);
    expect(b, STATUS_FORMAT, "NUL byte", "NUL in a key");
}

Test(gguf, a20_alignment_is_honoured_or_refused) {
    static const uint32_t bad[] = {0, 1, 3, 4, 24, 1u << 30, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bytes b = start_gguf(0, 1);
        put_key(&b, "general.alignment", GGUF_U32, bad[i], 4);
        char text[32];
        (void)snprintf(text, sizeof text, "1048576 (%u)", bad[i]);
        expect(b, STATUS_FORMAT, text, "bad alignment");
    }
    struct bytes b = start_gguf(0, 1);
    put_key(&b, "general.alignment", GGUF_I32, 32, 4);
    expect(b, STATUS_FORMAT, "must be a uint32", "alignment as int32");
    static const uint32_t good[] = {8, 16, 32, 64, 4096};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        b = start_gguf(2, 1);
        put_key(&b, "general.alignment", GGUF_U32, good[i], 4);
        uint64_t second = good[i] > 128 ? good[i] : 128;
        put_tensor(&b, "a", 1, one_row, DTYPE_F32, 0);
        put_tensor(&b, "b", 1, one_row, DTYPE_F32, second);
        put_data(&b, good[i], (size_t)second + 128);
        expect(b, STATUS_OK, "", "good alignment");
    }
    expect(one_tensor("t", 1, one_row, DTYPE_F32, 8, 256), STATUS_FORMAT,
           "not a multiple of the alignment (8)", "offset 8 with alignment 32");
}

Test(gguf, a20_bad_tensors_are_refused) {
    static const uint64_t wraps[4] = {4, 1073741823, 1073741825,
                                      1}; /* 2^64 - 16 bytes, 0 after padding to 32 */
    static const uint64_t wraps_count[4] = {UINT64_C(1) << 32, UINT64_C(1) << 32, 1, 1};
    static const uint64_t huge[4] = {TWO_63, 2, 1, 1};
    static const uint64_t wraps_to_4[4] = {4, (UINT64_C(1) << 62) + 1, 1, 1};
    static const uint64_t zero[4] = {32, 0, 1, 1};
    static const uint64_t odd[4] = {31, 1, 1, 1};
    expect(one_tensor("t", 4, wraps, DTYPE_F32, 0, 256), STATUS_FORMAT, "1073741823, 1073741825, 1] of f32",
           "bytes wrap");
    expect(one_tensor("t", 2, wraps_count, DTYPE_Q8_0, 0, 256), STATUS_FORMAT, "larger than the file",
           "element count wraps");
    expect(one_tensor("t", 2, wraps_to_4, DTYPE_F32, 0, 256), STATUS_FORMAT, "larger than the file",
           "2^64 + 4 elements");
    expect(one_tensor("t", 2, huge, DTYPE_F16, 0, 256), STATUS_FORMAT, "larger than the file",
           "2^64 elements");
    expect(one_tensor("t", 2, zero, DTYPE_F32, 0, 256), STATUS_FORMAT, "a dimension is 0, index (1)",
           "dim 0");
    expect(one_tensor("t", 1, odd, DTYPE_Q8_0, 0, 256), STATUS_FORMAT, "row length 31 is not a multiple",
           "row of 31 in blocks of 32");
    expect(one_tensor("t", 1, one_row, DTYPE_Q4_K, 0, 256), STATUS_FORMAT, "q4_k's block of 256",
           "row of 32 in blocks of 256");
    expect(one_tensor("t", 0, one_row, DTYPE_F32, 0, 256), STATUS_FORMAT, "n_dims must be 1 to 4 (0)",
           "n_dims 0");
    struct bytes b = start_gguf(1, 0);
    static const uint64_t five[5] = {1, 1, 1, 1, 1};
    put_tensor(&b, "t", 5, five, DTYPE_F32, 0);
    expect(b, STATUS_FORMAT, "n_dims must be 1 to 4 (5)", "n_dims 5");
    b = start_gguf(1, 0);
    put_str(&b, "t");
    put_int(&b, UINT32_MAX, 4);
    put_data(&b, 1, 64);
    expect(b, STATUS_FORMAT, "n_dims must be 1 to 4 (4294967295)", "n_dims 2^32-1");
    expect(one_tensor("t", 1, one_row, 16, 0, 256), STATUS_UNSUPPORTED, "type iq2_xxs (16)", "foreign type");
    expect(one_tensor("t", 1, one_row, 99, 0, 256), STATUS_UNSUPPORTED, "type unknown (99)", "type 99");
    expect(one_tensor("t", 1, one_row, UINT32_MAX, 0, 256), STATUS_FORMAT, "unknown tensor type",
           "type 2^32-1");
    expect(one_tensor("", 1, one_row, DTYPE_F32, 0, 256), STATUS_FORMAT, "tensor 0: empty name", "no name");
    static const char long_name[] = "a name of more than sixty-four bytes is refused, as the format says";
    expect(one_tensor(long_name, 1, one_row, DTYPE_F32, 0, 256), STATUS_FORMAT, "more than the limit (64)",
           "long name");
    expect(one_tensor("t", 1, one_row, DTYPE_F32, 1024, 128), STATUS_FORMAT, "past the end",
           "offset past the end");
    expect(one_tensor("t", 1, one_row, DTYPE_F32, UINT64_MAX - 31, 128), STATUS_FORMAT, "past the end",
           "offset 2^64-32");
    expect(one_tensor("t", 1, one_row, DTYPE_F32, 32, 128), STATUS_FORMAT,
           "offset 32 and 128 bytes end past the end of the data section (128 bytes)", "tail outside");
    expect(one_tensor("t", 1, one_row, DTYPE_F32, 0, 127), STATUS_FORMAT, "128 bytes end past the end",
           "cut inside the data");
    b = start_gguf(1, 0);
    static const uint64_t eight[1] = {8};
    put_tensor(&b, "t", 1, eight, DTYPE_F32, 0);
    expect(b, STATUS_FORMAT, "before its data section", "cut inside the padding");
}

Test(gguf, tensors_must_not_share_names_or_bytes) {
    struct bytes b = start_gguf(3, 0);
    put_tensor(&b, "same", 1, one_row, DTYPE_F32, 0);
    put_tensor(&b, "other", 1, one_row, DTYPE_F32, 128);
    put_tensor(&b, "same", 1, one_row, DTYPE_F32, 256);
    put_data(&b, 32, 384);
    expect(b, STATUS_FORMAT, "tensor 'same': duplicate name", "duplicate names");
    b = start_gguf(2, 0);
    put_tensor(&b, "b", 1, one_row, DTYPE_F32, 96);
    put_tensor(&b, "a", 1, one_row, DTYPE_F32, 0);
    put_data(&b, 32, 384);
    expect(b, STATUS_FORMAT, "tensors 'a' and 'b' overlap", "overlap");
    b = start_gguf(2, 0);
    put_tensor(&b, "b", 1, one_row, DTYPE_F32, 128);
    put_tensor(&b, "a", 1, one_row, DTYPE_F32, 0);
    put_data(&b, 32, 256);
    expect(b, STATUS_OK, "", "neighbours in any order");
}

Test(gguf, only_regular_files_are_opened) {
    char dir[] = "/tmp/forkgate-test-XXXXXX", path[64];
    cr_assert(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof path, "%s/file", dir);
    struct err err = {""};
    gguf *g = NULL;
    cr_expect_eq(gguf_open(path, &g, &err), STATUS_IO, "missing file: %s", err.message);
    cr_expect(strstr(err.message, path) != NULL, "the file is not named: %s", err.message);
    cr_expect_eq(gguf_open(dir, &g, &err), STATUS_IO);
    cr_expect(strstr(err.message, "is a directory") != NULL, "directory: %s", err.message);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(gguf_open(path, &g, &err), STATUS_IO);
    cr_expect(strstr(err.message, "not a regular file") != NULL, "fifo: %s", err.message);
    (void)unlink(path);
    FILE *f = fopen(path, "wb");
    cr_assert(f != NULL && fclose(f) == 0);
    cr_expect_eq(gguf_open(path, &g, &err), STATUS_FORMAT);
    cr_expect(strstr(err.message, "empty") != NULL && g == NULL, "empty file: %s", err.message);
    (void)unlink(path);
    (void)rmdir(dir);
}

/* ---- typed reads ------------------------------------------------------------------------------------------- */

static struct bytes many_types(void) {
    static const float quarter = 0.25f;
    static const double third = 1.0 / 3.0;
    struct bytes b = start_gguf(0, 15);
    put_key(&b, "u8", GGUF_U8, 255, 1);
    put_key(&b, "i8", GGUF_I8, 0xff, 1);
    put_key(&b, "u16", GGUF_U16, 65535, 2);
    put_key(&b, "i16", GGUF_I16, 0x8000, 2);
    put_key(&b, "u32", GGUF_U32, UINT32_MAX, 4);
    put_key(&b, "i32", GGUF_I32, 7, 4);
    put_key(&b, "u64", GGUF_U64, UINT64_MAX, 8);
    put_key(&b, "i64", GGUF_I64, UINT32_MAX, 8);
    put_key(&b, "big", GGUF_I64, UINT64_C(1) << 32, 8);
    put_key(&b, "yes", GGUF_BOOL, 1, 1);
    put_str(&b, "f32");
    put_int(&b, GGUF_F32, 4);
    put_raw(&b, &quarter, 4);
    put_str(&b, "f64");
    put_int(&b, GGUF_F64, 4);
    put_raw(&b, &third, 8);
    put_key_string(&b, "text", "a\tb\xc3\xa9");
    put_key_array(&b, "bytes", GGUF_I8, 5);
    put_raw(&b, "\xff\x01\x02\x03\x04", 5);
    put_key_array(&b, "words", GGUF_STRING, 2);
    put_str(&b, "");
    put_str(&b, "x,y");
    return b;
}

Test(gguf, typed_reads_convert_only_what_fits) {
    struct bytes b = many_types();
    gguf *g = NULL;
    struct err err = {""};
    cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK, "%s", err.message);
    static const struct {
        char name[8];
        int ok;
        uint32_t value;
    } ints[] = {{"u8", 1, 255}, {"i8", 0, 0},   {"u16", 1, 65535},      {"i16", 0, 0}, {"u32", 1, UINT32_MAX},
                {"i32", 1, 7},  {"u64", 0, 0},  {"i64", 1, UINT32_MAX}, {"big", 0, 0}, {"yes", 0, 0},
                {"f32", 0, 0},  {"text", 0, 0}, {"bytes", 0, 0},        {"none", 0, 0}};
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        uint32_t v = 0;
        enum status s = gguf_get_u32(g, ints[i].name, &v, &err);
        cr_expect_eq(s, ints[i].ok ? STATUS_OK : STATUS_FORMAT, "key %s", ints[i].name);
        cr_expect_eq(v, ints[i].value, "key %s: %u", ints[i].name, v);
        if (s != STATUS_OK) cr_expect(strstr(err.message, ints[i].name) != NULL, "unnamed: %s", err.message);
    }
    float f = 0;
    int flag = 0;
    uint64_t n = 0;
    struct gguf_string s;
    cr_expect(gguf_get_f32(g, "f32", &f, &err) == STATUS_OK && f == 0.25f);
    cr_expect(gguf_get_f32(g, "f64", &f, &err) == STATUS_OK && f == (float)(1.0 / 3.0));
    cr_expect_eq(gguf_get_f32(g, "i32", &f, &err), STATUS_FORMAT);
    cr_expect(gguf_get_bool(g, "yes", &flag, &err) == STATUS_OK && flag == 1);
    cr_expect_eq(gguf_get_bool(g, "u8", &flag, &err), STATUS_FORMAT);
    cr_expect(gguf_get_string(g, "text", &s, &err) == STATUS_OK && s.length == 5);
    cr_expect_eq(gguf_get_string(g, "words", &s, &err), STATUS_FORMAT);
    cr_expect_eq(gguf_array_length(g, "bytes", GGUF_I32, &n, &err), STATUS_FORMAT, "narrower than expected");
    cr_expect(strstr(err.message, "int8, not int32") != NULL, "message: %s", err.message);
    cr_expect_eq(gguf_array_length(g, "u8", GGUF_U8, &n, &err), STATUS_FORMAT);
    cr_expect(gguf_array_length(g, "bytes", GGUF_I8, &n, &err) == STATUS_OK && n == 5);
    cr_expect_eq(gguf_array_int(g, gguf_key_find(g, "bytes"), 0), -1);
    cr_expect_eq(gguf_array_int(g, gguf_key_find(g, "bytes"), 4), 4);
    s = gguf_array_string(g, gguf_key_find(g, "words"), 1);
    cr_expect(s.length == 3 && memcmp(s.data, "x,y", 3) == 0);
    gguf_close(g);
    free(b.p);
}

Test(gguf, values_print_as_text_within_any_buffer) {
    struct bytes b = many_types();
    gguf *g = NULL;
    struct err err = {""};
    cr_assert_eq(gguf_parse(b.p, b.n, &g, &err), STATUS_OK, "%s", err.message);
    static const struct {
        char name[8], text[40];
    } rows[] = {{"i8", "-1"},
                {"u64", "18446744073709551615"},
                {"f32", "0.25"},
                {"f64", "0.33333333333333331"},
                {"yes", "true"},
                {"text", "a\\x09b\xc3\xa9"},
                {"bytes", "int8[5] -1, 1, 2, 3, ..."},
                {"words", "string[2] , x,y"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char out[64];
        uint64_t key = (uint64_t)gguf_key_find(g, rows[i].name);
        cr_expect_str_eq(gguf_value_text(g, key, out, sizeof out), rows[i].text, "key %s", rows[i].name);
        for (size_t size = 1; size < sizeof out; size++) {
            char *exact = malloc(size);
            cr_expect(strlen(gguf_value_text(g, key, exact, size)) < size);
            cr_expect((uint8_t)exact[strlen(exact) - (exact[0] != 0)] != 0xc3, "half a character is left");
            free(exact);
        }
    }
    gguf_close(g);
    free(b.p);
}
