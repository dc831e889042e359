/* test_dump_damage.c - a dump that was cut, extended or changed is refused, with the first bad block and its place.
 * Source: ours. Exercise: ctest -R unit.dump_damage */
#include <criterion/criterion.h>

#include "tests/dump_samples.h"

TestSuite(dump_damage, .init = make_folder, .fini = remove_folder);

/* The bytes of a whole dump of n_records; *records: where they begin in it (NULL: not asked). */
static uint8_t *whole_dump(uint64_t n_records, int top_k, int n_logits, size_t *n, uint64_t *records) {
    dump_writer *w = begin(file_path, top_k, n_logits);
    add_records(w, n_records, top_k, n_logits);
    dump_close(finish(w));
    uint8_t *bytes = file_bytes(n);
    if (records != NULL) memcpy(records, bytes + 48, sizeof *records);
    return bytes;
}

static void refused(const uint8_t *bytes, size_t n, const char *what, size_t at, struct err *err) {
    dump *d = NULL;
    enum status s = dump_open_memory(bytes, n, "x.fgd", &d, err);
    cr_assert_eq(s, STATUS_FORMAT, "%s at %zu: status %d", what, at, (int)s);
    cr_assert(d == NULL);
    cr_assert_eq(strncmp(err->message, "x.fgd: ", 7), 0, "%s at %zu: no file name", what, at);
}

Test(dump_damage, cut_at_every_byte_extended_or_one_byte_changed_is_refused, .timeout = 60) {
    size_t n = 0;
    uint8_t *bytes = whole_dump(40, 2, 3, &n, NULL);
    struct err err = {""};
    for (size_t cut = 0; cut < n; cut++) refused(bytes, cut, "cut", cut, &err);
    for (size_t at = 0; at < n; at++) {
        for (int bit = 0; bit < 8; bit += 7) {
            bytes[at] ^= (uint8_t)(1 << bit);
            refused(bytes, n, "flip", at, &err);
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    }
    uint8_t *longer = malloc(2 * n);
    memcpy(longer, bytes, n);
    memset(longer + n, 0, n);
    for (size_t extra = 1; extra <= n; extra = extra < 200 ? extra + 1 : extra * 2)
        refused(longer, n + extra, "extended", extra, &err);
    memcpy(longer + n, bytes, n); /* glued to itself: the last footer is whole, the size is not its own */
    refused(longer, 2 * n, "doubled", n, &err);
    free(longer);
    free(bytes);
}

Test(dump_damage, the_first_bad_block_is_named_with_its_offset_and_records) {
    size_t n = 0;
    uint64_t records = 0;
    uint8_t *bytes = whole_dump(3000, 0, 0, &n, &records);
    struct err err = {""};
    char want[160];
    bytes[records + 1024 * 64 + 77] ^= 16;
    refused(bytes, n, "flip", 0, &err);
    (void)snprintf(want, sizeof want,
                   "x.fgd: first bad block: 2 (byte offset %u, records 1024..2047): hash differs",
                   (unsigned)records + 65536);
    cr_assert_str_eq(err.message, want);
    bytes[records + 1024 * 64 + 77] ^= 16;
    free(bytes);
}

static void says(uint8_t *bytes, size_t n, size_t at, const char *part) {
    struct err err = {""};
    bytes[at] ^= 4;
    refused(bytes, n, part, at, &err);
    cr_assert(strstr(err.message, part) != NULL, "byte %zu: %s lacks %s", at, err.message, part);
    bytes[at] ^= 4;
}

Test(dump_damage, damage_is_told_by_the_part_it_is_in) {
    size_t n = 0;
    uint8_t *bytes = whole_dump(3000, 0, 0, &n, NULL);
    struct err err = {""};
    says(bytes, n, 3, "not a forkgate dump");
    says(bytes, n, 70, "block: 0, the header (byte offset 0)");
    says(bytes, n, n - 96 - 16, "the block table (byte offset");
    says(bytes, n, n - 96 - 16 * 5 - 1, "token bytes");
    says(bytes, n, n - 20, "first bad block: footer (byte offset");
    bytes[n] = 0; /* file_bytes reads into a larger buffer */
    refused(bytes, n + 1, "extended", n, &err);
    cr_assert(strstr(err.message, "1 bytes follow the end of the dump at byte offset") != NULL, "%s",
              err.message);
    refused(bytes, n - 1, "cut", n, &err);
    cr_assert(strstr(err.message, "inside the footer (3000 records precede it)") != NULL, "%s", err.message);
    free(bytes);
}

/* Field case A17: a golden of 100 records, cut or glued in six ways. */
Test(dump_damage, case_a17_golden_cut_in_the_middle_of_a_record) {
    size_t n = 0;
    uint64_t records = 0;
    uint8_t *bytes = whole_dump(100, 0, 0, &n, &records);
    struct err err = {""};
    char place[96];

    refused(bytes, records + 99 * 64 + 17, "last record cut after 17 bytes", 0, &err); /* (a) */
    (void)snprintf(place, sizeof place, "byte offset %u", (unsigned)records + 99 * 64 + 17);
    cr_assert(strstr(err.message, place) != NULL && strstr(err.message, "record 99") != NULL);

    uint8_t *glued = malloc(n); /* (b) record 40 cut after 20 bytes, 41 glued on */
    size_t hole = 44, at = records + 40 * 64 + 20;
    memcpy(glued, bytes, at);
    memcpy(glued + at, bytes + at + hole, n - at - hole);
    refused(glued, n - hole, "glued", 0, &err);
    (void)snprintf(place, sizeof place, "record 41 at byte offset %u", (unsigned)records + 41 * 64);
    cr_assert(strstr(err.message, place) != NULL, "message lacks the glued record");
    free(glued);

    refused(bytes, records + 97 * 64, "97 whole records", 0, &err); /* (c) */
    cr_assert(strstr(err.message, "record 97 of 100") != NULL);
    refused(bytes, 0, "empty", 0, &err); /* (d) */
    cr_assert(strstr(err.message, "0 bytes") != NULL);
    refused(bytes, records, "header only", 0, &err); /* (e) */
    cr_assert(strstr(err.message, "record 0 of 100") != NULL);
    bytes[records + 30 * 64 + 13] ^= 1; /* (g) inside a logit */
    refused(bytes, n, "flip", 0, &err);
    cr_assert(strstr(err.message, "records 0..99") != NULL);
    free(bytes);
}

Test(dump_damage, what_is_not_a_dump_is_refused_by_name) {
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(dump_open("/nonexistent/x.fgd", &d, &err), STATUS_IO);
    cr_assert(strstr(err.message, "/nonexistent/x.fgd") != NULL);
    cr_assert_eq(dump_open(folder, &d, &err), STATUS_IO);
    FILE *f = fopen(file_path, "wb");
    cr_assert(f != NULL && fputs("GGUF and more", f) >= 0);
    (void)fclose(f);
    cr_assert_eq(dump_open(file_path, &d, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "not a forkgate dump") != NULL);
}
