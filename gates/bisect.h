/* bisect.h - the first of a list of builds whose stream is not the golden's any more.
 * Not a cure for a list in no order: it assumes that once a build differs, all later ones do, and checks both ends.
 * Idea: a build that cannot be judged (it crashes, refuses, hangs, was never built) is neither good nor bad: it is stepped
 * round, and if the answer hides among such builds the report says so instead of guessing.
 * Source: `git bisect`, whose 125 is our UNTESTABLE. Exercise: ctest -R unit.bisect ; forkgate bisect --help */
#ifndef FORKGATE_BISECT_H
#define FORKGATE_BISECT_H

#include "engine/engine.h"
#include "gates/dump.h"

enum bisect_outcome { BISECT_UNKNOWN, BISECT_GOOD, BISECT_BAD, BISECT_UNTESTABLE };
const char *bisect_outcome_name(enum bisect_outcome o); /* "good" */

struct bisect_item {
    const char *binary;
    struct hash128 hash; /* of the binary's bytes: a rebuilt one is tested again; zero: not there */
    enum bisect_outcome outcome;
    int step;         /* BAD: first record that differs */
    char reason[256]; /* one phrase */
    int reused;       /* known from the state file */
};

/* ---- the search, over any test ---- */

enum bisect_end {
    BISECT_FOUND,      /* first_bad differs, last_good does not, nothing lies between them */
    BISECT_AMONG,      /* it is one of last_good + 1 .. first_bad; those between cannot be tested */
    BISECT_NONE_BAD,   /* the last build that can be tested is good */
    BISECT_ALL_BAD,    /* the first build that can be tested is bad already */
    BISECT_NONE_TESTED /* no build can be tested */
};

struct bisect_result {
    enum bisect_end end;
    int first_bad, last_good; /* indices; -1: none */
    int tests;                /* asked of the test function */
};

/* Decides item i: GOOD, BAD or UNTESTABLE; called at most once for each. Anything but STATUS_OK ends the search. */
typedef enum status bisect_test(void *ctx, int i, enum bisect_outcome *out, struct err *err);

/* Tests both ends first, then halves; at most 2 + log2(n) tests where all builds can be tested. n >= 1. */
enum status bisect_search(int n, bisect_test *test, void *ctx, struct bisect_result *out, struct err *err);

/* ---- binaries ---- */

struct bisect_request {
    struct bisect_item *items; /* [n] binary set, the rest zero */
    int n;
    const dump *golden;
    const char *model;                  /* path */
    const char *prompt_file;            /* path, or NULL */
    const char *prompt_text;            /* when prompt_file is NULL */
    int n_tokens;                       /* 0: as many as the golden asked for */
    const struct engine_config *config; /* what the golden was made with, or was told to be */
    int stream_only;                    /* tokens and bytes count, row hashes do not */
    int runs;                           /* a build is good when so many runs in a row are; 1 .. */
    double timeout_s;                   /* of one run; 0: none */
    const char *state;                  /* file to resume from and to keep, or NULL */
    void (*tested)(void *ctx, int i, const struct bisect_item *item); /* may be NULL */
    void *tested_ctx;
};

/* Runs `BINARY generate` on the golden's prompt, options and sampler and compares record by record. STATUS_USAGE when the
 * state file belongs to another golden or another question, or the golden lacks row hashes that are asked for. */
enum status bisect_run(const struct bisect_request *r, struct bisect_result *out, struct err *err);

/* One build judged, without the state file. */
enum status bisect_judge(const struct bisect_request *r, struct bisect_item *item, struct err *err);

/* The state file: CSV, one row per judged binary, under a note that names the question. A missing file is an empty one. */
enum status bisect_state_load(const struct bisect_request *r, struct err *err);
enum status bisect_state_save(const struct bisect_request *r, struct err *err);

#endif
