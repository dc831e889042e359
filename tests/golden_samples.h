/* golden_samples.h - small streams made by hand, and a folder for goldens that goes away with the test. */
#ifndef FORKGATE_GOLDEN_SAMPLES_H
#define FORKGATE_GOLDEN_SAMPLES_H

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/golden_refresh.h"

struct sample {
    const char *prompt; /* "holmes.txt" */
    const char *route;  /* "f16" */
    int count;
    int moved; /* record whose logit moves by shift, -1 for none */
    float shift;
    int swapped;                    /* record whose token differs, -1 for none */
    const char *commit, *extra_key; /* provenance that may differ without harm */
    const char *budget;             /* n_requested */
    const char *dirty;
};

static inline struct sample sample_plain(const char *prompt) {
    struct sample s = {prompt, "f16", 128, -1, 0.0f, -1, "0123456789ab", NULL, "128", "0"};
    return s;
}

static inline void sample_provenance(const struct sample *s, struct provenance *p) {
    struct err err;
    struct hash128 h = hash_bytes(s->prompt, strlen(s->prompt));
    char prompt_hash[HASH_TEXT_BYTES];
    hash_format(&h, prompt_hash);
    provenance_init(p);
    const char *items[][2] = {{"tool", "forkgate 0.1.0"},
                              {"commit", s->commit},
                              {"dirty", s->dirty},
                              {"backend", "cpu"},
                              {"route", s->route},
                              {"arch", "sm_90"},
                              {"geometry", "fa_tq=64,fa_tkv=32,fa_chunk=256,fa_splits=8"},
                              {"kv", "f16"},
                              {"logits", "f32"},
                              {"model", "seedling"},
                              {"model.xxh3", "99aa06d3014798d86001c324468d497f"},
                              {"n_vocab", "4096"},
                              {"prompt", s->prompt},
                              {"prompt.xxh3", prompt_hash},
                              {"sampler", "greedy"},
                              {"repeat_penalty", "1"},
                              {"tie_rule", "lowest-id"},
                              {"ignore_eos", "0"},
                              {"n_requested", s->budget},
                              {"stop", "length"},
                              {"overflows", "0"}};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        cr_assert_eq(provenance_set(p, items[i][0], items[i][1], &err), STATUS_OK, "%s", err.message);
    if (s->extra_key != NULL) cr_assert_eq(provenance_set(p, s->extra_key, "1", &err), STATUS_OK);
}

static inline dump *sample_dump(const struct sample *s) {
    struct provenance p;
    struct err err;
    dump_writer *w = NULL;
    dump *d = NULL;
    sample_provenance(s, &p);
    cr_assert_eq(dump_writer_open(NULL, &p, 0, 0, &w, &err), STATUS_OK, "%s", err.message);
    for (int i = 0; i < s->count; i++) {
        float logit = 10.0f + (float)(i % 7) + (i == s->moved ? s->shift : 0.0f);
        int32_t token = 100 + i % 50 + (i == s->swapped ? 7 : 0);
        struct dump_record r = {0, token, token, logit, token + 1, logit - 1.0f, 12.5, 0, 0, 0, {{0}}};
        r.row = hash_bytes(&logit, sizeof logit);
        cr_assert_eq(dump_writer_add(w, &r, (const uint8_t *)"ab ", 3, NULL, NULL, &err), STATUS_OK, "%s",
                     err.message);
    }
    cr_assert_eq(dump_writer_finish(w, &p, &d, &err), STATUS_OK, "%s", err.message);
    provenance_free(&p);
    return d;
}

static char sample_dir[64];

static inline void sample_folder(void) {
    unsetenv("CI");
    (void)snprintf(sample_dir, sizeof sample_dir, "/tmp/forkgate-golden-XXXXXX");
    cr_assert(mkdtemp(sample_dir) != NULL, "no folder");
}

static inline void sample_folder_remove(void) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", sample_dir);
    if (strncmp(sample_dir, "/tmp/forkgate-golden-", 21) == 0 && system(command) != 0) abort();
}

/* Makes the folder's goldens from these dumps (which must all be new). */
static inline void sample_commit(const dump *const *dumps, size_t n, const char *reason) {
    struct golden_set set;
    struct refresh_plan plan;
    struct err err = {""};
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(refresh_plan_make(&set, dumps, n, NULL, 0, &plan, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(refresh_commit(&plan, reason, &err), STATUS_OK, "%s", err.message);
    refresh_plan_free(&plan);
    golden_free(&set);
}

#endif
