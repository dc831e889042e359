/* test_dump.c - a dump is complete and verified, or refused with the place; what was written is what is read. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/dump_samples.h"

TestSuite(dump, .init = make_folder, .fini = remove_folder);

Test(dump, what_is_written_is_what_is_read) {
    dump_writer *w = begin(file_path, 3, 5);
    add_records(w, 4000, 3, 5); /* stride 112: records straddle the blocks */
    dump *d = finish(w);
    cr_assert_eq(dump_count(d), 4000);
    for (uint64_t i = 0; i < 4000; i++) {
        const struct dump_record *r = dump_record_at(d, i);
        struct dump_record want = sample_record(i);
        cr_assert_eq(r->step, i);
        cr_assert_eq(r->token, want.token);
        cr_assert_eq(memcmp(&r->row, &want.row, sizeof want.row), 0);
        int n = 0;
        cr_assert_eq(dump_top_k(d, i, &n)[2].id, 2);
        cr_assert_eq(n, 3);
        cr_assert_eq(memcmp(&dump_logits(d, i, &n)[4], &(float){(float)(i % 3) + 0.5f}, 4), 0);
        cr_assert_eq(n, 5);
        char text[16];
        uint32_t length = 0;
        const uint8_t *bytes = dump_text(d, i, &length);
        cr_assert_eq((int)length, snprintf(text, sizeof text, "t%d ", (int)i));
        cr_assert_eq(memcmp(bytes, text, length), 0);
    }
    dump_close(d);
}

Test(dump, memory_and_file_make_the_same_bytes) {
    dump_writer *w = begin(file_path, 0, 0), *m = begin(NULL, 0, 0);
    add_records(w, 1500, 0, 0);
    add_records(m, 1500, 0, 0);
    dump *a = finish(w), *b = finish(m);
    struct hash128 ha = dump_content_hash(a), hb = dump_content_hash(b);
    cr_assert(hash_equal(&ha, &hb) == 1);
    dump_close(a);
    dump_close(b);
}

Test(dump, provenance_that_grows_moves_the_records) {
    struct provenance p = sample_provenance();
    struct err err = {""};
    char *big = malloc(200001);
    memset(big, 'x', 200000);
    big[200000] = '\0';
    for (int to_file = 0; to_file < 2; to_file++) {
        dump_writer *w = begin(to_file ? file_path : NULL, 0, 0);
        add_records(w, 3000, 0, 0);
        cr_assert_eq(provenance_set(&p, "note", big, &err), STATUS_OK);
        dump *d = NULL;
        cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK, "%s", err.message);
        cr_assert_str_eq(provenance_get(dump_provenance(d), "note"), big);
        cr_assert_eq(dump_record_at(d, 2999)->token, sample_record(2999).token);
        dump_close(d);
    }
    free(big);
    provenance_free(&p);
}

Test(dump, equal_content_is_equal_bytes_whenever_provenance_was_learnt) {
    for (int to_file = 0; to_file < 2; to_file++) {
        struct hash128 hashes[3];
        for (int late = 0; late < 3;
             late++) { /* 0: all known at once; 1: learnt at the end; 2: forgotten at the end */
            struct provenance first = sample_provenance(), last = sample_provenance();
            struct err err = {""};
            char big[3001];
            memset(big, 'x', 3000);
            big[3000] = '\0';
            cr_assert_eq(provenance_set(&last, "z", late == 2 ? "s" : big, &err), STATUS_OK);
            cr_assert_eq(provenance_set(&last, "z", big, &err), STATUS_OK);
            if (late != 1) cr_assert_eq(provenance_set(&first, "z", big, &err), STATUS_OK);
            if (late == 2) cr_assert_eq(provenance_set(&first, "y", big, &err), STATUS_OK);
            dump_writer *w = NULL;
            dump *d = NULL;
            cr_assert_eq(dump_writer_open(to_file ? file_path : NULL, &first, 0, 0, &w, &err), STATUS_OK);
            add_records(w, 3000, 0, 0);
            cr_assert_eq(dump_writer_finish(w, &last, &d, &err), STATUS_OK, "%s", err.message);
            hashes[late] = dump_content_hash(d);
            dump_close(d);
            provenance_free(&first);
            provenance_free(&last);
        }
        cr_assert(hash_equal(&hashes[0], &hashes[1]) == 1);
        cr_assert(hash_equal(&hashes[0], &hashes[2]) == 1);
    }
}

Test(dump, results_say_what_and_on_which_rails) {
    dump_writer *w[3];
    dump *d[3];
    struct err err;
    for (int k = 0; k < 3; k++) {
        w[k] = begin(NULL, 0, 0);
        struct dump_record r = sample_record(1);
        if (k == 1) r.row.bytes[0] ^= 1;
        if (k == 2) r.token = 5;
        cr_assert_eq(dump_writer_add(w[k], &r, (const uint8_t *)"ab", 2, NULL, NULL, &err), STATUS_OK);
        d[k] = finish(w[k]);
    }
    struct dump_results r0 = dump_results(d[0]), r1 = dump_results(d[1]), r2 = dump_results(d[2]);
    cr_assert(hash_equal(&r0.stream, &r1.stream) == 1);
    cr_assert(hash_equal(&r0.logits, &r1.logits) == 0);
    cr_assert(hash_equal(&r0.stream, &r2.stream) == 0);
    cr_assert(hash_equal(&r0.logits, &r2.logits) == 1);
    for (int k = 0; k < 3; k++) dump_close(d[k]);
}

/* ---- the writer never loses what was there ---- */

Test(dump, a_full_disk_is_an_error_and_the_old_dump_stays) {
    dump_writer *w = begin(file_path, 0, 0);
    add_records(w, 10, 0, 0);
    dump_close(finish(w));
    size_t n_before = 0, n_after = 0;
    uint8_t *before = file_bytes(&n_before);
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {100000, 100000};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct err err = {""};
    enum status s = STATUS_OK;
    w = begin(file_path, 0, 0);
    for (uint64_t i = 0; i < 3000 && s == STATUS_OK; i++) {
        struct dump_record r = sample_record(i);
        s = dump_writer_add(w, &r, (const uint8_t *)"abc", 3, NULL, NULL, &err);
    }
    cr_assert_eq(s, STATUS_IO);
    cr_assert(strstr(err.message, file_path) != NULL && strstr(err.message, "writing") != NULL);
    dump_writer_abandon(w);
    uint8_t *after = file_bytes(&n_after);
    cr_assert_eq(n_before, n_after);
    cr_assert_eq(memcmp(before, after, n_before), 0);
    free(before);
    free(after);
}

Test(dump, finish_on_a_full_disk_removes_its_temporary_file) {
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {1000, 1000};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    dump_writer *w = begin(file_path, 0, 0);
    add_records(w, 100, 0, 0);
    struct provenance p = sample_provenance();
    struct err err = {""};
    cr_assert_eq(dump_writer_finish(w, &p, NULL, &err), STATUS_IO);
    cr_assert_eq(access(file_path, F_OK), -1);
    provenance_free(&p);
} /* remove_folder aborts when a temporary file is left */

Test(dump, a_device_or_a_missing_folder_is_refused_before_writing) {
    struct provenance p = sample_provenance();
    struct err err = {""};
    dump_writer *w = NULL;
    cr_assert_eq(dump_writer_open("/dev/full", &p, 0, 0, &w, &err), STATUS_USAGE);
    cr_assert_eq(dump_writer_open("/nonexistent/a.fgd", &p, 0, 0, &w, &err), STATUS_IO);
    cr_assert_eq(dump_writer_open(NULL, &p, 65, 0, &w, &err), STATUS_USAGE);
    cr_assert(w == NULL);
    provenance_free(&p);
}

Test(dump, abandon_leaves_nothing) {
    dump_writer *w = begin(file_path, 0, 0);
    add_records(w, 5000, 0, 0);
    dump_writer_abandon(w);
    cr_assert_eq(access(file_path, F_OK), -1);
}

/* ---- records that cannot be judged ---- */

static uint64_t invalid_at(struct dump_record r, uint64_t place, const char **reason) {
    dump_writer *w = begin(NULL, 0, 0);
    add_records(w, place, 0, 0);
    struct err err;
    cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)"x", 1, NULL, NULL, &err), STATUS_OK);
    add_records(w, 3, 0, 0);
    dump *d = finish(w);
    uint64_t at = dump_first_invalid(d, reason);
    dump_close(d);
    return at;
}

Test(dump, nan_inf_and_foreign_ids_are_found_wherever_they_are) {
    const uint64_t places[] = {0, 12, 1023, 1024, 2500};
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
        for (int what = 0; what < 11; what++) {
            struct dump_record r = sample_record(0);
            uint64_t want = places[k];
            if (what == 0) r.logit1 = (float)NAN;
            if (what == 1) r.logit1 = (float)INFINITY;
            if (what == 2) r.logit1 = -(float)INFINITY;
            if (what == 3) r.logit2 = (float)NAN;
            if (what == 4) r.token = 1000;
            if (what == 5) r.token = -1;
            if (what == 6) r.id1 = 1000;
            if (what == 7) r.id2 = -7;
            if (what == 8) r.logsumexp = (double)NAN;
            if (what == 9) r.logit2 = r.logit1 + 1.0f;
            if (what == 10) r.logit2 = -(float)INFINITY; /* all -Inf but one is legal */
            if (what == 10) want = UINT64_MAX;
            const char *reason = NULL;
            cr_assert_eq(invalid_at(r, places[k], &reason), want, "kind %d at %d", what, (int)places[k]);
            cr_assert((reason != NULL) == (want != UINT64_MAX));
        }
    }
}

Test(dump, absent_fields_are_not_invalid) {
    struct dump_record r;
    memset(&r, 0, sizeof r);
    r.flags = DUMP_NO_ID | DUMP_NO_TOP1 | DUMP_NO_TOP2 | DUMP_NO_LSE | DUMP_NO_HASH;
    r.id1 = -1;
    const char *reason = NULL;
    cr_assert_eq(invalid_at(r, 1, &reason), UINT64_MAX);
}

Test(dump, overflows_in_the_provenance_make_the_stream_invalid) {
    dump_writer *w = begin(NULL, 0, 0);
    add_records(w, 2, 0, 0);
    struct provenance p = sample_provenance();
    struct err err;
    cr_assert_eq(provenance_set(&p, "overflows", "3", &err), STATUS_OK);
    dump *d = NULL;
    cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK);
    const char *reason = NULL;
    cr_assert_eq(dump_first_invalid(d, &reason), 0);
    dump_close(d);
    provenance_free(&p);
}

Test(dump, block_hashes_prove_equal_ranges_and_never_more) {
    for (uint64_t change = 0; change < 5000; change += 613) {
        dump_writer *w = begin(NULL, 0, 0), *v = begin(NULL, 0, 0);
        add_records(w, 5000, 0, 0);
        struct err err;
        for (uint64_t i = 0; i < 5000; i++) {
            struct dump_record r = sample_record(i);
            if (i == change) r.logit1 += 0.001f;
            char text[16];
            int length = snprintf(text, sizeof text, "t%d ", (int)i);
            cr_assert_eq(dump_writer_add(v, &r, (const uint8_t *)text, (uint32_t)length, NULL, NULL, &err),
                         STATUS_OK);
        }
        dump *a = finish(w), *b = finish(v);
        uint64_t end = 0;
        int proven = dump_records_equal(a, b, 0, 5000, &end);
        cr_assert_eq(proven, change >= 1024);
        if (proven) cr_assert_eq(end, change / 1024 * 1024);
        cr_assert_eq(dump_records_equal(a, b, change / 1024 * 1024, UINT64_MAX, &end), 0);
        cr_assert(dump_texts_equal(a, b) == 1);
        if (proven)
            cr_assert(dump_records_equal(a, b, 3, 700, &end) == 1 && end == 700, "no further than asked");
        dump_close(a);
        dump_close(b);
    }
}
