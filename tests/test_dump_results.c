/* test_dump_results.c - the results in a footer are those of the records, or the dump is refused. */
#include <stddef.h>
#include <unistd.h>

#include "dump_maker.h"
#include "gates/diff.h"
#include "gates/dump_format.h"

static char path_a[] = "/tmp/forkgate-test-results-a-XXXXXX",
            path_b[] = "/tmp/forkgate-test-results-b-XXXXXX";

static void make_files(void) {
    int a = mkstemp(path_a), b = mkstemp(path_b);
    cr_assert(a >= 0 && b >= 0);
    (void)close(a);
    (void)close(b);
}
static void remove_files(void) {
    (void)unlink(path_a);
    (void)unlink(path_b);
}
TestSuite(dump_results, .init = make_files, .fini = remove_files);

enum { RECORDS = 3000 }; /* more than a piece of either kind */

static void write_stream(const char *path) {
    static char text[40000]; /* one token text is longer than a piece */
    static const char *const keys[] = {"n_vocab", "1000", NULL};
    struct made m = make_begin(path, 0, keys);
    memset(text, 'x', sizeof text);
    for (int i = 0; i < RECORDS; i++)
        make_record(&m, greedy(i % 1000, 12.0f, 7, 10.0f), text, i == 17 ? sizeof text : (uint32_t)i % 9,
                    NULL);
    dump_close(make_end(&m));
}

/* Changes a byte of the footer and makes the footer's own hash right again. */
static void forge(const char *path, size_t field) {
    struct dump_footer f;
    FILE *file = fopen(path, "r+b");
    cr_assert(file != NULL && fseek(file, -(long)sizeof f, SEEK_END) == 0);
    cr_assert(fread(&f, sizeof f, 1, file) == 1);
    uint8_t bytes[sizeof f];
    memcpy(bytes, &f, sizeof f);
    bytes[field] ^= 1;
    memcpy(&f, bytes, sizeof f);
    f.self = dump_footer_self(&f);
    cr_assert(fseek(file, -(long)sizeof f, SEEK_END) == 0);
    cr_assert(fwrite(&f, sizeof f, 1, file) == 1 && fclose(file) == 0);
}

static const struct {
    size_t field;
    const char *name;
} results[] = {{offsetof(struct dump_footer, stream), "stream"},
               {offsetof(struct dump_footer, logits), "logits"}};

Test(dump_results, a_result_that_the_records_do_not_have_is_refused) {
    for (int k = 0; k < 2; k++) {
        struct err err = {""};
        dump *d = NULL;
        write_stream(path_a);
        cr_assert_eq(dump_open(path_a, &d, &err), STATUS_OK, "%s", err.message);
        dump_close(d);
        forge(path_a, results[k].field);
        cr_assert_eq(dump_open(path_a, &d, &err), STATUS_FORMAT, "%s", results[k].name);
        cr_assert(d == NULL);
        cr_assert(strstr(err.message, results[k].name) != NULL, "%s", err.message);
        cr_assert_eq(strncmp(err.message, path_a, strlen(path_a)), 0, "%s", err.message);
    }
}

Test(dump_results, a_comparison_refuses_them_as_dump_open_does) {
    for (int k = 0; k < 2; k++) {
        for (int side = 0; side < 2; side++) {
            const char *forged = side == 0 ? path_a : path_b;
            struct diff_result r;
            struct err err = {""};
            dump *a = NULL, *b = NULL;
            write_stream(path_a);
            write_stream(path_b);
            cr_assert_eq(diff_files(path_a, path_b, NULL, &a, &b, &r, &err), STATUS_OK, "%s", err.message);
            cr_assert(!r.results_unchecked_a && !r.results_unchecked_b);
            dump_close(a);
            dump_close(b);
            forge(forged, results[k].field);
            cr_assert_eq(diff_files(path_a, path_b, NULL, &a, &b, &r, &err), STATUS_FORMAT, "%s",
                         results[k].name);
            cr_assert(a == NULL && b == NULL);
            cr_assert(strstr(err.message, forged) != NULL, "%s", err.message);
        }
    }
}
