/* test_diff_control.c - delta comes from benign pairs or the calibrated row, never from the candidate itself. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/diff.h"
#include "tests/dump_maker.h"

static char folder[] = "/tmp/forkgate-test-control-XXXXXX";
static char path[128];

static const char *in_folder(const char *name) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static void make_folder(void) {
    cr_assert(mkdtemp(folder) != NULL);
}
static void remove_folder(void) {
    static const char *const names[] = {"x.fgd", "y16.fgd", "y64.fgd", "q8.fgd", "budgets.csv", "junk.fgd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) (void)unlink(in_folder(names[i]));
    if (rmdir(folder) != 0) abort();
}
TestSuite(control, .init = make_folder, .fini = remove_folder);

/* Ten tokens whose top-1 logit is moved by `shift` at step 4. follow: stream hash, or NULL. */
static dump *stream(const char *file, const char *geometry, const char *route, const char *follow,
                    float shift) {
    const char *keys[] = {"model.xxh3", "m1",       "prompt.xxh3",
                          "p1",         "geometry", geometry,
                          "route",      route,      follow == NULL ? NULL : "follow",
                          follow,       NULL};
    struct made m = make_begin(file, 0, keys);
    for (int i = 0; i < 10; i++)
        make_record(&m, greedy(i, 20.0f + (i == 4 ? shift : 0.0f), 90, 12.0f), "t", 1, NULL);
    return make_end(&m);
}

#define BASE "fa_tq=64,fa_tkv=32,fa_chunk=256,fa_splits=8"
#define T16  "fa_tq=64,fa_tkv=16,fa_chunk=256,fa_splits=8"
#define T64  "fa_tq=64,fa_tkv=64,fa_chunk=256,fa_splits=8"
#define T8   "fa_tq=64,fa_tkv=8,fa_chunk=256,fa_splits=8" /* of no control: every pair applies */

static enum status control_of(const char *dir, struct diff_control *c, int *pairs, struct err *err) {
    dump *a = stream(NULL, BASE, "f16", NULL, 0.0f), *b = stream(NULL, T8, "f16", NULL, 0.0f);
    enum status s = diff_control_for(dir, a, b, c, pairs, err);
    dump_close(a);
    dump_close(b);
    return s;
}

static void fill_folder(void) {
    dump *x = stream(in_folder("x.fgd"), BASE, "f16", NULL, 0.0f);
    char hash[HASH_TEXT_BYTES];
    struct dump_results r = dump_results(x);
    hash_format(&r.stream, hash);
    dump_close(x);
    dump_close(stream(in_folder("y16.fgd"), T16, "f16", hash, 0.75f));
    dump_close(stream(in_folder("y64.fgd"), T64, "f16", hash, -0.25f));
    dump_close(stream(in_folder("q8.fgd"), T64, "q8", hash, 9.0f)); /* another route: no pair */
}

Test(control, delta_is_the_largest_change_over_all_pairs) {
    fill_folder();
    struct diff_control c;
    struct err err = {""};
    int pairs = 0;
    cr_assert_eq(control_of(folder, &c, &pairs, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(pairs, 2);
    cr_assert(fabs(c.delta - 0.75) < 1e-12);
    cr_assert(strstr(c.source, "2 pairs: fa_tkv=16 fa_tkv=64") != NULL);
}

Test(control, the_candidates_own_geometry_does_not_count) {
    fill_folder();
    struct diff_control c;
    struct err err = {""};
    int pairs = 0;
    dump *a = stream(NULL, BASE, "f16", NULL, 0.0f), *b = stream(NULL, T16, "f16", NULL, 0.0f);
    cr_assert_eq(diff_control_for(folder, a, b, &c, &pairs, &err), STATUS_OK);
    cr_assert_eq(pairs, 1);
    cr_assert(fabs(c.delta - 0.25) < 1e-12);
    cr_assert_eq(diff_control_for(folder, b, a, &c, &pairs, &err), STATUS_OK,
                 "the order of the sides is no way around");
    cr_assert_eq(pairs, 1);
    dump *q8 = stream(NULL, BASE, "q8", NULL, 0.0f);
    cr_assert_eq(diff_control_for(folder, q8, q8, &c, &pairs, &err), STATUS_OK);
    cr_assert(pairs == 0 && c.delta < 0.0, "a control of another route says nothing");
    dump_close(a);
    dump_close(b);
    dump_close(q8);
}

Test(control, a_logit_that_the_replay_does_not_hold_bounds_delta_from_below) {
    dump *x = stream(in_folder("x.fgd"), BASE, "f16", NULL, 0.0f);
    char hash[HASH_TEXT_BYTES];
    struct dump_results results = dump_results(x);
    hash_format(&results.stream, hash);
    dump_close(x);
    const char *keys[] = {"model.xxh3", "m1",  "prompt.xxh3", "p1", "geometry", T64,
                          "route",      "f16", "follow",      hash, NULL};
    struct made m = make_begin(in_folder("y64.fgd"), 0, keys);
    for (int i = 0; i < 10; i++) {
        struct dump_record r = greedy(i, 20.0f, 90, 12.0f);
        if (i == 3) { /* the forced token fell below 18 */
            r.id1 = 70;
            r.logit1 = 19.0f;
            r.id2 = 71;
            r.logit2 = 18.0f;
        }
        make_record(&m, r, "t", 1, NULL);
    }
    dump_close(make_end(&m));
    struct diff_control c;
    struct err err = {""};
    int pairs = 0;
    cr_assert_eq(control_of(folder, &c, &pairs, &err), STATUS_OK, "%s", err.message);
    cr_assert(fabs(c.delta - 2.0) < 1e-12);
    cr_assert(strstr(c.source, "known from below") != NULL);
}

Test(control, an_empty_folder_says_nothing_and_a_damaged_one_is_an_error) {
    struct diff_control c;
    struct err err = {""};
    int pairs = 0;
    cr_assert_eq(control_of(folder, &c, &pairs, &err), STATUS_OK);
    cr_assert(pairs == 0 && c.delta < 0.0, "an empty folder says nothing");
    cr_assert_eq(control_of("/nonexistent", &c, &pairs, &err), STATUS_IO);
    dump_close(stream(in_folder("x.fgd"), BASE, "f16", NULL, 0.0f));
    cr_assert_eq(control_of(folder, &c, &pairs, &err), STATUS_OK, "%s", err.message);
    cr_assert(pairs == 0 && c.delta < 0.0, "a dump without a replay is no pair");
    FILE *f = fopen(in_folder("junk.fgd"), "wb");
    cr_assert(f != NULL && fputs("junk", f) >= 0);
    (void)fclose(f);
    cr_assert_eq(control_of(folder, &c, &pairs, &err), STATUS_FORMAT);
}

Test(control, calibrated_row_is_keyed_by_model_route_and_change) {
    FILE *f = fopen(in_folder("budgets.csv"), "wb");
    cr_assert(f != NULL);
    (void)fputs("op,dtype,metric,bound,model,route,change,derivation,device,date\n"
                "logits,f32,delta,0.125,m1,f16,fa_tkv,largest change over 64 prompts,cpu,2026-12-01\n",
                f);
    (void)fclose(f);
    dump *a = stream(NULL, BASE, "f16", NULL, 0.0f), *b = stream(NULL, T16, "f16", NULL, 0.0f);
    dump *q = stream(NULL, T16, "q8", NULL, 0.0f);
    struct diff_control c;
    struct err err = {""};
    cr_assert_eq(diff_control_from_budgets(path, a, b, &c, &err), STATUS_OK, "%s", err.message);
    cr_assert(fabs(c.delta - 0.125) < 1e-12);
    cr_assert(strstr(c.source, "budgets.csv") != NULL && strstr(c.source, "64 prompts") != NULL);
    cr_assert_eq(diff_control_from_budgets(path, a, a, &c, &err), STATUS_OK);
    cr_assert(c.delta < 0.0, "the same geometry is a code change, not the calibrated one");
    cr_assert_eq(diff_control_from_budgets(path, a, q, &c, &err), STATUS_OK);
    cr_assert(c.delta < 0.0, "two routes");
    cr_assert_eq(diff_control_from_budgets("/nonexistent.csv", a, b, &c, &err), STATUS_OK);
    cr_assert(c.delta < 0.0);
    cr_assert_str_eq(diff_change(a, b), "fa_tkv");
    cr_assert_str_eq(diff_change(a, a), "code");
    dump_close(a);
    dump_close(b);
    dump_close(q);
}

/* A build with a fault must not measure its own damage as noise: its replay is no control for the healthy base. */
Test(control, a_replay_by_another_build_is_no_control) {
    static const char *const keys[] = {"commit", "dirty", "faults", "kv", "arch", "sampler"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        dump *x = stream(in_folder("x.fgd"), BASE, "f16", NULL, 0.0f);
        char hash[HASH_TEXT_BYTES];
        struct dump_results r = dump_results(x);
        hash_format(&r.stream, hash);
        const char *other[] = {"model.xxh3", "m1",     "prompt.xxh3", "p1",    "geometry", T64, "route",
                               "f16",        "follow", hash,          keys[k], "other",    NULL};
        struct made m = make_begin(in_folder("y64.fgd"), 0, other);
        for (int i = 0; i < 10; i++) make_record(&m, greedy(i, 25.0f, 90, 12.0f), "t", 1, NULL);
        dump_close(make_end(&m));
        struct diff_control c;
        struct err err = {""};
        int n_pairs = -1;
        cr_assert_eq(diff_control_for(folder, x, x, &c, &n_pairs, &err), STATUS_OK, "%s", err.message);
        cr_assert_eq(n_pairs, 0, "a replay that differs in %s was taken as a control", keys[k]);
        dump_close(x);
    }
}
