/* tolerance_rig.h - tier 4 over a made-up engine: 64 recorded streams, a recorded control, and a command that hands out what a
 * candidate would have said. Not for the product. Source: ours. */
#ifndef FORKGATE_TESTS_TOLERANCE_RIG_H
#define FORKGATE_TESTS_TOLERANCE_RIG_H

#include <stdlib.h>

#include "gates/model/tolerance_package.h"
#include "gates/repro.h"
#include "gates/side.h"
#include "tests/dump_maker.h"

#define STREAMS 64 /* the fewest that decide */
#define FEW     8  /* enough where nothing is to be decided */
#define TOKENS  24

static struct work_folder root;
static struct battery battery;
static char csv[WORK_PATH], base[WORK_PATH], control[WORK_PATH], forced[WORK_PATH], chosen[WORK_PATH];

/* What a made-up engine does to the base's streams. */
struct engine_habit {
    float noise;   /* added to and taken from the logits */
    int forks;     /* streams (from the first on) whose near-tie at token 11 goes the other way */
    int hard_swap; /* stream in which the hard argmax at token 5 moves; -1: none */
    int penalty;   /* stream that emits its second choice at token 7 all the same; -1: none */
    int near_ties; /* every so many tokens one near-tie */
};
static const struct engine_habit honest = {0.0f, 0, -1, -1, 12}, regrouped = {0.004f, 5, -1, -1, 12};

static int one_token; /* every row prefers the same one */

static inline struct dump_record record_of(const struct engine_habit *h, int stream, int i) {
    float top = 18.0f + 0.25f * (float)((stream + i) % 7), sign = (stream + i) % 2 == 0 ? 1.0f : -1.0f;
    int near = i % h->near_ties == h->near_ties - 1;
    int32_t first = 100 + (one_token ? 0 : (stream + i) % 800), second = 50;
    /* at a near-tie both logits move together: their order is what the swap below says */
    struct dump_record r = near ? greedy(first, top + sign * h->noise, second, top - 0.003f + sign * h->noise)
                                : greedy(first, top + sign * h->noise, second, top - 3.0f - sign * h->noise);
    if ((i == 11 && stream < h->forks) || (i == 5 && stream == h->hard_swap)) {
        r.id1 = second;
        r.id2 = first;
        r.row.bytes[1] ^= 1;
    }
    return r;
}

static const char *extra_key; /* a key that only these dumps have */
static int other_base;        /* forced dumps claim to follow something else */
static int no_hashes;         /* forced dumps carry no hash of their rows */

/* A forced dump names the stream it follows. */
static inline void follow_of(int stream, char out[HASH_TEXT_BYTES]) {
    char path[2 * WORK_PATH];
    struct err err = {""};
    dump *d = NULL;
    (void)snprintf(path, sizeof path, "%s/%s.fgd", base, battery.prompts[stream].name);
    cr_assert_eq(dump_open(path, &d, &err), STATUS_OK, "%s", err.message);
    struct dump_results r = dump_results(d);
    hash_format(&r.stream, out);
    if (other_base) out[0] = out[0] == '0' ? '1' : '0';
    dump_close(d);
}

static inline void make_streams(const char *dir, const struct engine_habit *h, int is_forced) {
    for (int s = 0; s < battery.n; s++) {
        char path[2 * WORK_PATH], hash[HASH_TEXT_BYTES], follow[HASH_TEXT_BYTES] = "";
        struct hash128 of = hash_bytes(battery.prompts[s].bytes, battery.prompts[s].n);
        hash_format(&of, hash);
        const char *key = is_forced ? "follow" : extra_key, *value = is_forced ? follow : "4";
        const char *keys[] = {
            "n_vocab", "1000",        "logits", "f32", "sampler", "greedy", "repeat_penalty",
            "1",       "prompt.xxh3", hash,     key,   value,     NULL};
        if (is_forced) follow_of(s, follow);
        (void)snprintf(path, sizeof path, "%s/%s.fgd", dir, battery.prompts[s].name);
        struct made m = make_begin(path, 0, keys);
        int left = 0;
        for (int i = 0; i < TOKENS && !left; i++) {
            struct dump_record r = record_of(h, s, i);
            int32_t base_token = record_of(&honest, s, i).id1;
            if (is_forced) r.token = base_token;
            if (is_forced && no_hashes) r.flags |= DUMP_NO_HASH;
            if (!is_forced) r.token = s == h->penalty && i == 7 ? r.id2 : r.id1;
            left = r.token != base_token;
            make_record(&m, r, " w", 2, NULL);
        }
        dump_close(make_end(&m));
    }
}

static inline void set_up_streams(int n) {
    struct err err = {""};
    cr_assert_eq(work_folder_make("forkgate-test-package", &root, &err), STATUS_OK, "%s", err.message);
    battery.prompts = calloc((size_t)n, sizeof *battery.prompts);
    cr_assert(battery.prompts != NULL);
    battery.n = n;
    for (int i = 0; i < n; i++) {
        (void)snprintf(battery.prompts[i].name, sizeof battery.prompts[i].name, "p%02d", i);
        battery.prompts[i].bytes = strdup(battery.prompts[i].name);
        battery.prompts[i].n = strlen(battery.prompts[i].name);
    }
    cr_assert_eq(work_folder_battery(&root, &battery, "battery", csv, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(work_folder_sub(&root, "base", base, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "control-other", control, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "forced", forced, &err), STATUS_OK);
    cr_assert_eq(work_folder_sub(&root, "chosen", chosen, &err), STATUS_OK);
    make_streams(base, &honest, 0);
    make_streams(control, &regrouped, 1);
}

static inline void set_up(void) {
    set_up_streams(STREAMS);
}

static inline void set_up_few(void) {
    set_up_streams(FEW);
}

static inline void tear_down(void) {
    battery_close(&battery);
    work_folder_remove(&root);
}

static inline void make_candidate(struct engine_habit h) {
    make_streams(forced, &h, 1);
    make_streams(chosen, &h, 0);
}

struct rows {
    const struct gate_context *ctx;
    struct evidence row[128];
    int n;
    enum status status;
    struct err err;
};

static inline void keep(void *sink, const struct evidence *row) {
    struct rows *r = sink;
    cr_assert(r->n < 128, "too many rows");
    cr_assert(!evidence_contradicts(row), "%s %s: %s with %g, bound %g", row->arm, row->metric,
              verdict_name(row->verdict), row->value, row->bound);
    struct evidence *kept = &r->row[r->n++];
    *kept = *row;
    repro_complete(r->ctx, kept->repro, sizeof kept->repro); /* as the runner does */
}

static inline struct rows *run_with(const char *base_spec, const char *command, const char *cause,
                                    const char *list) {
    static struct rows r;
    struct gate_context ctx = {.config = engine_config_default(),
                               .model_path = "no-model",
                               .source_dir = root.root,
                               .self = "/bin/sh",
                               .base = base_spec,
                               .engine_cmd = command,
                               .cause = cause,
                               .emit = keep,
                               .sink = &r};
    struct tolerance_plan plan = {
        .gate = "tolerance.test", .route = ROUTE_F16, .battery = list, .n_tokens = TOKENS, .n_fresh = 2};
    memset(&r, 0, sizeof r);
    r.ctx = &ctx;
    r.status = tolerance_package_run(&ctx, &plan, &r.err);
    return &r;
}

/* In a command: the prompt's name is $b. The shell finds it itself: one process more for each of 64 streams takes a second. */
#define PROMPT_NAME "b={prompt}; b=${b##*/}; "

/* The candidate's command: forced answers when there is something to follow, its own otherwise. */
static inline const char *copier(void) {
    static char command[8 * WORK_PATH];
    (void)snprintf(command, sizeof command,
                   PROMPT_NAME "if test -n '{follow}'; then from=%s; else from=%s; fi; "
                               "exec cp $from/$b.fgd {out} # {n}",
                   forced, chosen);
    return command;
}

static inline struct rows *run_candidate(void) {
    return run_with(base, copier(), "a test", csv);
}

static inline int count(const struct rows *r, enum verdict v) {
    int n = 0;
    for (int i = 0; i < r->n; i++) n += r->row[i].verdict == v;
    return n;
}

static inline const struct evidence *find(const struct rows *r, const char *arm, const char *metric) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->row[i].arm, arm) == 0 && strcmp(r->row[i].metric, metric) == 0) return &r->row[i];
    cr_assert(0, "no row %s/%s among %d (%s)", arm, metric, r->n, r->err.message);
    return NULL;
}

static inline void verdict_is(const struct rows *r, const char *arm, const char *metric, enum verdict want) {
    const struct evidence *e = find(r, arm, metric);
    cr_assert_eq(e->verdict, want, "%s/%s is %s: %s", arm, metric, verdict_name(e->verdict), e->note);
    cr_assert(strlen(e->note) > 10 && strstr(e->repro, "--class fa") != NULL, "a row explains itself: %s",
              e->repro);
}

/* Stopped before any judgement: one INCONCLUSIVE row with these words, none green after it. */
static inline void inconclusive(const struct rows *r, const char *words) {
    cr_assert_eq(r->status, STATUS_OK, "%s", r->err.message);
    cr_assert(count(r, VERDICT_INCONCLUSIVE) >= 1 && count(r, VERDICT_FAIL) == 0, "%d rows", r->n);
    int found = 0;
    for (int i = 0; i < r->n; i++)
        found += r->row[i].verdict == VERDICT_INCONCLUSIVE && strstr(r->row[i].note, words) != NULL;
    cr_assert(found > 0, "no INCONCLUSIVE row says '%s'; the last says: %s", words, r->row[r->n - 1].note);
}

#endif
