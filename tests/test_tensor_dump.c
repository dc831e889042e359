/* test_tensor_dump.c - a tensor comes back with its shape, bits and provenance, or is refused. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/tensor_dump.h"

static char path[] = "/tmp/forkgate-test-tensor-XXXXXX";

static void make_path(void) {
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
}
static void remove_path(void) {
    (void)unlink(path);
}
TestSuite(tensor_dump, .init = make_path, .fini = remove_path);

static void write_tensor(struct tensor_shape s, const void *data, const char *who) {
    struct provenance p;
    struct err err = {""};
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "commit", who, &err), STATUS_OK);
    cr_assert_eq(tensor_dump_write(path, &s, data, &p, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
}

Test(tensor_dump, shape_values_and_provenance_come_back) {
    enum { N = 40000 };
    float *data = malloc(N * sizeof *data);
    for (int i = 0; i < N; i++) data[i] = 0.25f * (float)i;
    write_tensor((struct tensor_shape){DTYPE_F32, 2, {200, 200, 1, 1}}, data, "abc");
    tensor_dump *t = NULL;
    struct err err = {""};
    cr_assert_eq(tensor_dump_open(path, &t, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(tensor_dump_elements(t), N);
    cr_assert_eq(memcmp(tensor_dump_data(t), data, N * sizeof *data), 0);
    cr_assert_str_eq(provenance_get(tensor_dump_provenance(t), "commit"), "abc");
    float some[3];
    tensor_dump_values(t, 101, 3, some);
    cr_assert_eq(memcmp(some, data + 101, sizeof some), 0);
    struct hash128 h = tensor_dump_hash(t);
    tensor_dump_close(t);
    write_tensor((struct tensor_shape){DTYPE_F32, 2, {200, 200, 1, 1}}, data, "somebody else");
    cr_assert_eq(tensor_dump_open(path, &t, &err), STATUS_OK);
    struct hash128 same = tensor_dump_hash(t);
    cr_assert(hash_equal(&h, &same) == 1, "the hash is of the tensor, not of who made it");
    tensor_dump_close(t);
    write_tensor((struct tensor_shape){DTYPE_F32, 2, {100, 400, 1, 1}}, data, "abc");
    cr_assert_eq(tensor_dump_open(path, &t, &err), STATUS_OK);
    struct hash128 other = tensor_dump_hash(t);
    cr_assert(hash_equal(&h, &other) == 0, "field case A19 h: [200,200] is not [100,400]");
    tensor_dump_close(t);
    free(data);
}

static uint8_t *file_bytes(size_t *n) {
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    cr_assert(f != NULL && bytes != NULL);
    *n = fread(bytes, 1, 1 << 20, f);
    (void)fclose(f);
    return bytes;
}

static void refused(const uint8_t *bytes, size_t n, size_t at) {
    tensor_dump *t = NULL;
    struct err err = {""};
    enum status s = tensor_dump_open_memory(bytes, n, "x.fgt", &t, &err);
    cr_assert(s != STATUS_OK && t == NULL, "accepted with %zu bytes, changed at %zu", n, at);
    cr_assert(strncmp(err.message, "x.fgt: ", 7) == 0);
}

Test(tensor_dump, cut_extended_or_changed_anywhere_is_refused) {
    struct block_q8_0 blocks[6];
    memset(blocks, 3, sizeof blocks);
    write_tensor((struct tensor_shape){DTYPE_Q8_0, 2, {64, 3, 1, 1}}, blocks, "abc");
    size_t n = 0;
    uint8_t *bytes = file_bytes(&n);
    tensor_dump *t = NULL;
    cr_assert_eq(tensor_dump_open_memory(bytes, n, "x", &t, NULL), STATUS_OK);
    tensor_dump_close(t);
    for (size_t cut = 0; cut < n; cut++) refused(bytes, cut, cut);
    for (size_t at = 0; at < n; at++) {
        bytes[at] ^= 0x20;
        refused(bytes, n, at);
        bytes[at] ^= 0x20;
    }
    memset(bytes + n, 0, 300);
    for (size_t extra = 1; extra < 300; extra++) refused(bytes, n + extra, extra);
    free(bytes);
}

Test(tensor_dump, a_bad_block_is_named_with_its_elements) {
    float *data = calloc(40000, sizeof *data);
    write_tensor((struct tensor_shape){DTYPE_F32, 1, {40000, 1, 1, 1}}, data, "abc");
    size_t n = 0;
    uint8_t *bytes = file_bytes(&n);
    tensor_dump *t = NULL;
    struct err err = {""};
    bytes[192 + 65536 + 8] ^= 1;
    cr_assert_eq(tensor_dump_open_memory(bytes, n, "x.fgt", &t, &err), STATUS_FORMAT);
    cr_assert_str_eq(err.message,
                     "x.fgt: first bad block: 2 (byte offset 65728, elements 16384..32767): hash differs");
    free(bytes);
    free(data);
}

Test(tensor_dump, cut_extended_and_edited_are_told_apart) {
    float data[40] = {1.0f};
    write_tensor((struct tensor_shape){DTYPE_F32, 1, {40, 1, 1, 1}}, data, "abc");
    size_t n = 0;
    uint8_t *bytes = file_bytes(&n);
    const struct {
        size_t size, flip;
        const char *says;
    } damage[] = {
        {n - 1, 0, "x.fgt: cut short at byte offset 447 of 448"},
        {200, 0, "x.fgt: cut short at byte offset 200 of 448"},
        {100, 0, "x.fgt: cut short at byte offset 100, inside the header"},
        {n + 3, 0, "x.fgt: 3 bytes follow the end of the tensor at byte offset 448"},
        {n, n - 1, "x.fgt: first bad block: footer (byte offset 384): it does not match its own hash"},
        {n, 300, "x.fgt: first bad block: 1 (byte offset 192, elements 0..39): hash differs"}};
    memset(bytes + n, 0, 8);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        tensor_dump *t = NULL;
        struct err err = {""};
        if (damage[i].flip > 0) bytes[damage[i].flip] ^= 1;
        cr_assert_eq(tensor_dump_open_memory(bytes, damage[i].size, "x.fgt", &t, &err), STATUS_FORMAT);
        cr_assert_str_eq(err.message, damage[i].says);
        if (damage[i].flip > 0) bytes[damage[i].flip] ^= 1;
    }
    free(bytes);
}

Test(tensor_dump, impossible_shapes_are_refused) {
    const struct tensor_shape bad[] = {
        {DTYPE_F32, 0, {1, 1, 1, 1}},         {DTYPE_F32, 5, {1, 1, 1, 1}},
        {DTYPE_F32, 2, {0, 4, 1, 1}},         {DTYPE_F32, 1, {4, 4, 1, 1}},
        {DTYPE_Q8_0, 1, {33, 1, 1, 1}},       {DTYPE_Q4_K, 2, {128, 2, 1, 1}},
        {(enum dtype)99, 1, {4, 1, 1, 1}},    {DTYPE_F32, 4, {4, 1073741823, 1073741825, 1}},
        {DTYPE_F32, 2, {UINT64_MAX, 2, 1, 1}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 0;
        struct err err = {""};
        cr_assert(tensor_shape_check(&bad[i], &bytes, &err) != STATUS_OK, "case %zu", i);
        cr_assert(strlen(err.message) > 0);
    }
}
