/* test_vendor_dump.c - the copy that other engines vendor writes what forkgate reads, byte for byte, and the other way. */
#include <criterion/criterion.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/dump.h"
#include "tools/vendor-dump/fgd.h"

#define N       3000 /* records: several blocks of records and of text */
#define N_VOCAB 5

static char folder[] = "/tmp/forkgate-test-vendor-XXXXXX";
static char ours[128], theirs[128];

static void make_folder(void) {
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(ours, sizeof ours, "%s/ours.fgd", folder);
    (void)snprintf(theirs, sizeof theirs, "%s/theirs.fgd", folder);
}
static void remove_folder(void) {
    (void)unlink(ours);
    (void)unlink(theirs);
    if (rmdir(folder) != 0) abort();
}
TestSuite(vendor_dump, .init = make_folder, .fini = remove_folder);

static void row_of(int i, float row[N_VOCAB]) {
    for (int v = 0; v < N_VOCAB; v++) row[v] = (float)(v == i % N_VOCAB ? 9 : -v) + (float)i / 1024.0f;
}

static uint32_t text_of(int i, uint8_t text[64]) {
    uint32_t n = (uint32_t)(i % 60);
    for (uint32_t k = 0; k < n; k++) text[k] = (uint8_t)(i + (int)k);
    return n;
}

static struct dump_record record_of(int i) {
    struct dump_record r;
    memset(&r, 0, sizeof r);
    r.token = r.id1 = i % N_VOCAB;
    r.id2 = (i + 1) % N_VOCAB;
    r.logit1 = 9.0f + (float)i / 1024.0f;
    r.logit2 = -1.5f;
    r.logsumexp = 9.5;
    r.flags = i == 7 ? DUMP_NO_TOP2 | DUMP_NO_HASH : i == 8 ? DUMP_NO_ID : i == N - 1 ? DUMP_END : 0;
    if (i == 8) r.id1 = r.id2 = -1;
    return r;
}

static void write_ours(int with_rows) {
    struct provenance p;
    struct err err = {""};
    dump_writer *w = NULL;
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "sampler", "greedy", &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(provenance_set(&p, "prompt", "two\nlines \\ and a backslash", &err), STATUS_OK, "%s",
                 err.message);
    cr_assert_eq(dump_writer_open(ours, &p, with_rows ? 2 : 0, with_rows ? N_VOCAB : 0, &w, &err), STATUS_OK,
                 "%s", err.message);
    for (int i = 0; i < N; i++) {
        float row[N_VOCAB];
        uint8_t text[64];
        struct dump_record r = record_of(i);
        row_of(i, row);
        if (i == 9) row[2] = (float)NAN;
        r.row = hash_logits(row, N_VOCAB);
        struct dump_top top[2] = {{r.id1, r.logit1}, {r.id2, r.logit2}};
        cr_assert_eq(dump_writer_add(w, &r, text, text_of(i, text), top, row, &err), STATUS_OK, "%s",
                     err.message);
    }
    cr_assert_eq(dump_writer_finish(w, &p, NULL, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
}

static void write_theirs(int with_rows) {
    fgd_writer *w = fgd_open(with_rows ? 2 : 0, with_rows ? N_VOCAB : 0);
    cr_assert(w != NULL);
    cr_assert_eq(fgd_set(w, "sampler", "greedy"), 0, "set");
    cr_assert_eq(fgd_set(w, "prompt", "two\nlines \\ and a backslash"), 0, "set");
    for (int i = 0; i < N; i++) {
        float row[N_VOCAB];
        uint8_t text[64];
        struct dump_record r = record_of(i);
        struct fgd_record v;
        row_of(i, row);
        if (i == 9) row[2] = (float)NAN;
        memcpy(&v, &r, sizeof v);
        fgd_hash_row(row, N_VOCAB, v.row);
        struct fgd_top top[2] = {{r.id1, r.logit1}, {r.id2, r.logit2}};
        cr_assert_eq(fgd_add(w, &v, text, text_of(i, text), top, row), 0, "add");
    }
    cr_assert_eq(fgd_finish(w, theirs), 0, "finish");
}

static uint8_t *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    static uint8_t bytes[1 << 20];
    cr_assert(f != NULL, "open");
    *n = fread(bytes, 1, sizeof bytes, f);
    (void)fclose(f);
    uint8_t *copy = malloc(*n);
    memcpy(copy, bytes, *n);
    return copy;
}

static void same_bytes(void) {
    size_t n = 0, m = 0;
    uint8_t *a = slurp(ours, &n), *b = slurp(theirs, &m);
    cr_assert_eq(n, m, "%zu and %zu bytes", n, m);
    for (size_t i = 0; i < n; i++) cr_assert_eq(a[i], b[i], "byte %zu differs", i);
    free(a);
    free(b);
}

Test(vendor_dump, writes_the_same_bytes) {
    write_ours(0);
    write_theirs(0);
    same_bytes();
    write_ours(1);
    write_theirs(1);
    same_bytes();
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(dump_open(theirs, &d, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_count(d), (uint64_t)N, "records");
    dump_close(d);
}

Test(vendor_dump, reads_what_forkgate_writes) {
    struct fgd_file f;
    struct err err = {""};
    dump *d = NULL;
    write_ours(1);
    cr_assert_eq(dump_open(ours, &d, &err), STATUS_OK, "%s", err.message);
    const char *trouble = fgd_read(ours, &f);
    cr_assert(trouble == NULL, "%s", trouble);
    cr_assert_eq(f.count, (uint64_t)N, "records");
    struct dump_results r = dump_results(d);
    cr_assert(memcmp(f.stream, r.stream.bytes, 16) == 0 && memcmp(f.logits, r.logits.bytes, 16) == 0,
              "results");
    for (int i = 0; i < N; i++) {
        int n = 0;
        cr_assert(memcmp(fgd_at(&f, (uint64_t)i), dump_record_at(d, (uint64_t)i), 64) == 0, "record %d", i);
        cr_assert_eq(fgd_top_k(&f, (uint64_t)i)[1].id, dump_top_k(d, (uint64_t)i, &n)[1].id, "top-2 of %d",
                     i);
        cr_assert(memcmp(fgd_logits(&f, (uint64_t)i), dump_logits(d, (uint64_t)i, &n), N_VOCAB * 4) == 0,
                  "row %d", i);
    }
    dump_close(d);
    fgd_close(&f);
}

/* Every byte matters: a dump with any one of them changed, or cut anywhere, is refused. */
Test(vendor_dump, a_damaged_dump_is_refused) {
    size_t n = 0;
    struct fgd_file f;
    write_ours(0);
    uint8_t *bytes = slurp(ours, &n);
    for (size_t at = 0; at < n; at += at < 2048 || at + 200 > n ? 1 : 4099) {
        bytes[at] ^= 1;
        FILE *out = fopen(theirs, "wb");
        (void)fwrite(bytes, 1, n, out);
        (void)fclose(out);
        bytes[at] ^= 1;
        cr_assert(fgd_read(theirs, &f) != NULL, "byte %zu was changed and nobody noticed", at);
    }
    for (size_t cut = 0; cut < n; cut += 5003) {
        FILE *out = fopen(theirs, "wb");
        (void)fwrite(bytes, 1, cut, out);
        (void)fclose(out);
        cr_assert(fgd_read(theirs, &f) != NULL, "cut at %zu and nobody noticed", cut);
    }
    free(bytes);
    cr_assert(fgd_read("/nonexistent", &f) != NULL, "no file");
}

Test(vendor_dump, an_empty_stream_is_a_dump) {
    struct fgd_file f;
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(fgd_finish(fgd_open(0, 0), theirs), 0, "finish");
    cr_assert_eq(dump_open(theirs, &d, &err), STATUS_OK, "%s", err.message);
    cr_assert(fgd_read(theirs, &f) == NULL, "read");
    dump_close(d);
    fgd_close(&f);
    cr_assert_neq(fgd_finish(fgd_open(0, 0), "/nonexistent/x.fgd"), 0, "a folder that is not there");
}

/* A rename would put a file where the device was. */
Test(vendor_dump, only_a_file_is_replaced) {
    struct stat st;
    cr_assert_eq(mkfifo(theirs, 0600), 0);
    errno = 0;
    cr_assert_neq(fgd_finish(fgd_open(0, 0), theirs), 0, "a pipe was taken");
    cr_assert_eq(errno, EINVAL);
    cr_assert(stat(theirs, &st) == 0 && S_ISFIFO(st.st_mode), "the pipe is gone");
    cr_assert_neq(fgd_finish(fgd_open(0, 0), folder), 0, "a folder was taken");
    cr_assert_eq(errno, EISDIR);
    cr_assert_neq(fgd_finish(fgd_open(0, 0), "/dev/null/x"), 0, "no folder");
    cr_assert_eq(unlink(theirs), 0);
    cr_assert_eq(fgd_finish(fgd_open(0, 0), theirs), 0, "a new file");
    cr_assert_eq(fgd_finish(fgd_open(0, 0), theirs), 0, "over an old one");
}

Test(vendor_dump, keys_are_those_that_forkgate_reads_each_once) {
    fgd_writer *w = fgd_open(0, 0);
    struct err err = {""};
    dump *d = NULL;
    static const char *const odd[] = {"", "Key", "a b", "a=b", "a\nb", "\xc3\xa9"};
    cr_assert_eq(fgd_set(w, "a.key_2", "one\ntwo=3"), 0);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        cr_assert_eq(fgd_set(w, odd[i], "x"), -1, "odd key %d is taken", (int)i);
    cr_assert_eq(fgd_set(w, "a.key_2", "one"), -1, "a key twice");
    cr_assert_eq(fgd_set(w, "a.key", "x"), 0, "the beginning of a key is another key");
    cr_assert_eq(fgd_set(w, "two", "x"), 0, "a word of a value is no key");
    cr_assert_eq(fgd_finish(w, theirs), 0);
    cr_assert_eq(dump_open(theirs, &d, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_provenance(d)->n, 3);
    cr_assert_str_eq(provenance_get(dump_provenance(d), "a.key_2"), "one\ntwo=3");
    dump_close(d);
}
