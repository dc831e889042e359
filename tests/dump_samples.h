/* dump_samples.h - dumps of made-up records, in memory or in a folder of their own: what the tests of dumps share.
 * Not for the product. Source: ours. */
#ifndef FORKGATE_TESTS_DUMP_SAMPLES_H
#define FORKGATE_TESTS_DUMP_SAMPLES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "gates/dump.h"

static inline struct provenance sample_provenance(void) {
    struct provenance p;
    struct err err;
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "tool", "forkgate test", &err), STATUS_OK);
    cr_assert_eq(provenance_set(&p, "n_vocab", "1000", &err), STATUS_OK);
    return p;
}

static inline struct dump_record sample_record(uint64_t i) {
    struct dump_record r;
    memset(&r, 0, sizeof r);
    r.token = (int32_t)(i * 7 % 1000);
    r.id1 = r.token;
    r.logit1 = 10.0f + 0.5f * (float)(i % 5);
    r.id2 = (int32_t)((i * 7 + 3) % 1000);
    r.logit2 = r.logit1 - 0.25f;
    r.logsumexp = 11.5;
    r.row = hash_bytes(&i, sizeof i);
    return r;
}

static inline dump_writer *begin(const char *path, int top_k, int n_logits) {
    struct provenance p = sample_provenance();
    struct err err = {""};
    dump_writer *w = NULL;
    cr_assert_eq(dump_writer_open(path, &p, top_k, n_logits, &w, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    return w;
}

static inline void add_records(dump_writer *w, uint64_t n, int top_k, int n_logits) {
    struct dump_top top[64] = {{0, 0}};
    float row[16] = {0};
    struct err err = {""};
    for (uint64_t i = 0; i < n; i++) {
        struct dump_record r = sample_record(i);
        for (int k = 0; k < top_k; k++) top[k] = (struct dump_top){k, (float)i};
        for (int v = 0; v < n_logits; v++) row[v] = (float)(i % 3) + 0.125f * (float)v;
        char text[16];
        int length = snprintf(text, sizeof text, "t%d ", (int)i);
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)text, (uint32_t)length, top, row, &err),
                     STATUS_OK);
    }
}

static inline dump *finish(dump_writer *w) {
    struct provenance p = sample_provenance();
    struct err err = {""};
    dump *d = NULL;
    cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    return d;
}

static char folder[] = "/tmp/forkgate-test-dump-XXXXXX";
static char file_path[128];

static inline void make_folder(void) {
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(file_path, sizeof file_path, "%s/a.fgd", folder);
}
static inline void remove_folder(void) {
    (void)unlink(file_path);
    if (rmdir(folder) != 0) abort(); /* a temporary file was left behind */
}

static inline uint8_t *file_bytes(size_t *n) {
    FILE *f = fopen(file_path, "rb");
    cr_assert(f != NULL);
    uint8_t *bytes = malloc(1 << 22);
    *n = fread(bytes, 1, 1 << 22, f);
    (void)fclose(f);
    return bytes;
}

#endif
