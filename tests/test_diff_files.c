/* test_diff_files.c - long streams in files: hashes of equal blocks may skip nothing that matters; damage is refused.
 * Source: ours. Exercise: ctest -R unit.diff_files */
#include <criterion/criterion.h>

#include <stdlib.h>

#include "tests/diff_pairs.h"

/* ---- long streams: the hashes may skip nothing that matters ---- */

static struct dump_record long_record(int i) {
    return greedy(i % 900, 20.0f, 950, 15.0f + 0.001f * (float)(i % 7));
}

static dump *long_stream(const char *path, int n, int change_at, int kind) {
    struct made m = make_begin(path, 0, plain_keys);
    for (int i = 0; i < n; i++) {
        struct dump_record r = long_record(i);
        if (i == change_at && kind == 0) r.token = r.id1 = 901;
        if (i == change_at && kind == 1) {
            if (i % 2 == 1)
                r.logit1 += 0.5f;
            else
                r.logit2 += 0.5f;
            r.row.bytes[3] ^= 1;
        }
        if (i == change_at && kind == 2) r.flags |= DUMP_END;
        make_record(&m, r, "ab", 2, NULL);
    }
    return make_end(&m);
}

Test(diff_files, a_change_anywhere_in_ten_blocks_is_found, .timeout = 60) {
    char pa[64], pb[64];
    char folder[] = "/tmp/forkgate-test-diff-XXXXXX";
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(pa, sizeof pa, "%s/a.fgd", folder);
    (void)snprintf(pb, sizeof pb, "%s/b.fgd", folder);
    enum { N = 10000 };
    dump_close(long_stream(pa, N, -1, 0));
    const int places[] = {0, 1, 1023, 1024, 1025, 5000, 9215, 9216, 9999};
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        for (int kind = 0; kind < 2; kind++) {
            dump_close(long_stream(pb, N, places[k], kind));
            dump *a = NULL, *b = NULL;
            struct diff_result together, apart;
            struct err err = {""};
            cr_assert_eq(diff_files(pa, pb, NULL, &a, &b, &together, &err), STATUS_OK, "%s", err.message);
            apart = compare(a, b, NULL);
            cr_assert_eq(memcmp(&together, &apart, offsetof(struct diff_result, reason)), 0,
                         "one pass and two agree");
            cr_assert_eq(together.fork, kind == 0 ? (uint64_t)places[k] : UINT64_MAX);
            if (kind == 1) cr_assert_eq(together.first_hash_diff, (uint64_t)places[k]);
            if (kind == 1) cr_assert(near(together.drift, 0.5) && together.drift_at == (uint64_t)places[k]);
            dump_close(a);
            dump_close(b);
        }
    }
    (void)remove(pa);
    (void)remove(pb);
    (void)remove(folder);
}

/* One of many shapes: an end, a missing id, an invalid record, another length, whole rows, top-k's stride. */
static void write_shape(const char *path, int shape, int side) {
    enum { N = 4000 };
    const char *keys[] = {"n_vocab", "1000", shape == 5 ? "ignore_eos" : "note", "1", NULL};
    struct made m = make_begin(path, shape == 6 || (shape == 7 && side) ? 3 : 0, keys);
    float row[3] = {0, 1, 2};
    int n = shape == 4 && side ? N - 1500 : N;
    for (int i = 0; i < n; i++) {
        struct dump_record r = long_record(i);
        if ((shape == 1 || shape == 5) && (i == 1500 || i == 2500)) r.flags = DUMP_END;
        if (shape == 2 && i >= 2100) r.flags = DUMP_NO_ID;
        if (shape == 3 && i == 2047) r.id1 = 5000;
        if (side && i == 3000 && shape != 4) r.logit1 += 0.25f;
        if (side && i == 3500 && shape != 4) r.token = r.id1 = 901;
        make_record(&m, r, i % 3 ? "ab" : "c", i % 3 ? 2 : 1, row);
    }
    dump_close(make_end(&m));
}

Test(diff_files, one_pass_over_two_files_says_what_two_opened_dumps_say, .timeout = 60) {
    char folder[] = "/tmp/forkgate-test-diff-XXXXXX", pa[64], pb[64];
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(pa, sizeof pa, "%s/a.fgd", folder);
    (void)snprintf(pb, sizeof pb, "%s/b.fgd", folder);
    for (int shape = 0; shape < 8; shape++) {
        write_shape(pa, shape, 0);
        write_shape(pb, shape, 1);
        for (int swap = 0; swap < 2; swap++) {
            dump *a = NULL, *b = NULL, *c = NULL, *d = NULL;
            struct diff_result together;
            struct err err = {""};
            const char *x = swap ? pb : pa, *y = swap ? pa : pb;
            cr_assert_eq(diff_files(x, y, NULL, &a, &b, &together, &err), STATUS_OK, "%s", err.message);
            cr_assert_eq(dump_open(x, &c, &err), STATUS_OK, "%s", err.message);
            cr_assert_eq(dump_open(y, &d, &err), STATUS_OK, "%s", err.message);
            struct diff_result apart = compare(c, d, NULL);
            cr_assert_eq(memcmp(&together, &apart, sizeof apart), 0, "shape %d: %s, %s", shape,
                         together.reason, apart.reason);
            cr_assert_eq(dump_first_end(a), dump_first_end(c));
            cr_assert_eq(dump_first_without_id(b), dump_first_without_id(d));
            const char *why = NULL;
            cr_assert_eq(dump_first_invalid(b, &why), dump_first_invalid(d, &why), "shape %d", shape);
            dump_close(a);
            dump_close(b);
            dump_close(c);
            dump_close(d);
        }
    }
    (void)remove(pa);
    (void)remove(pb);
    (void)remove(folder);
}

Test(diff_files, an_end_inside_an_equal_block_hides_a_later_difference) {
    dump *a = long_stream(NULL, 5000, 700, 2), *b = long_stream(NULL, 6000, 700, 2);
    struct diff_result r = compare_and_close(a, b, NULL);
    verdict_is(r, DIFF_IDENTICAL);
    cr_assert_eq(r.compared, 701);
    cr_assert_eq(r.ignored_tail, 4299 + 5299);
}

Test(diff_files, damage_on_either_side_is_refused_with_its_file) {
    char folder[] = "/tmp/forkgate-test-diff-XXXXXX", pa[64], pb[64];
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(pa, sizeof pa, "%s/a.fgd", folder);
    (void)snprintf(pb, sizeof pb, "%s/b.fgd", folder);
    dump_close(long_stream(pa, 3000, -1, 0));
    dump_close(long_stream(pb, 3000, 2, 0)); /* forks early: the rest must be verified all the same */
    FILE *f = fopen(pb, "r+b");
    cr_assert(f != NULL && fseek(f, 150000, SEEK_SET) == 0 && fputc('!', f) == '!');
    (void)fclose(f);
    dump *a = NULL, *b = NULL;
    struct diff_result r;
    struct err err = {""};
    cr_assert_eq(diff_files(pa, pb, NULL, &a, &b, &r, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "b.fgd: first bad block: 3") != NULL && a == NULL && b == NULL);
    cr_assert_eq(diff_files(pb, pa, NULL, &a, &b, &r, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "b.fgd") != NULL);
    cr_assert_eq(diff_files(pa, "/nonexistent.fgd", NULL, &a, &b, &r, &err), STATUS_IO);
    (void)remove(pa);
    (void)remove(pb);
    (void)remove(folder);
}
