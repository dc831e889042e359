/* test_provenance.c - ordered key=value text that round-trips, and refusals of anything else. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/provenance.h"

Test(provenance, set_replaces_in_place_and_keeps_order) {
    struct provenance p;
    struct err err;
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "b", "1", &err), STATUS_OK);
    cr_assert_eq(provenance_set(&p, "a.x_2", "two", &err), STATUS_OK);
    cr_assert_eq(provenance_setf(&p, &err, "b", "%d-%s", 7, "seven"), STATUS_OK);
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(provenance_format(&p, &text, &n, &err), STATUS_OK);
    cr_assert_str_eq(text, "b=7-seven\na.x_2=two\n");
    cr_assert_eq(n, strlen(text));
    cr_assert_str_eq(provenance_get(&p, "b"), "7-seven");
    cr_assert(provenance_get(&p, "a.x") == NULL, "a prefix is not the key");
    free(text);
    provenance_free(&p);
}

Test(provenance, any_value_round_trips) {
    static const char *const values[] = {"",    "=",      "a=b",           "line\nbreak", "back\\slash",
                                         "\\n", "\\\n\\", "\x01\xff tab\t"};
    struct provenance p, q;
    struct err err = {""};
    provenance_init(&p);
    for (int i = 0; i < 8; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        cr_assert_eq(provenance_set(&p, key, values[i], &err), STATUS_OK);
    }
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(provenance_format(&p, &text, &n, &err), STATUS_OK);
    cr_assert_eq(provenance_parse(text, n, &q, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(q.n, 8);
    for (int i = 0; i < 8; i++) cr_assert_str_eq(q.items[i].value, values[i]);
    free(text);
    provenance_free(&p);
    provenance_free(&q);
}

Test(provenance, what_is_not_key_value_text_is_refused_with_its_line) {
    static const char *const bad[] = {"a=1\nnothing\n", "a=1\n=2\n", "a=1\nB=2\n", "a=1\na=2\n",
                                      "a=1\nb=\\x\n",   "a=1\nb=\\", "a=1\n\n",    "a=1\na b=2\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct provenance p;
        struct err err = {""};
        cr_assert_eq(provenance_parse(bad[i], strlen(bad[i]), &p, &err), STATUS_FORMAT, "case %zu", i);
        cr_assert(strstr(err.message, "line 2") != NULL, "case %zu", i);
        cr_assert_eq(p.n, 0);
    }
    struct provenance p;
    cr_assert_eq(provenance_parse("a=1\nb=x\0y\n", 10, &p, NULL), STATUS_FORMAT, "NUL");
    cr_assert_eq(provenance_parse("", 0, &p, NULL), STATUS_OK);
    provenance_init(&p);
    cr_assert_eq(provenance_set(&p, "Bad Key", "1", NULL), STATUS_USAGE);
    cr_assert_eq(provenance_set(&p, "", "1", NULL), STATUS_USAGE);
}

Test(provenance, too_many_keys_are_a_limit_not_a_slow_parse) {
    char *text = malloc(2000 * 16);
    size_t n = 0;
    for (int i = 0; i < 2000; i++) n += (size_t)sprintf(text + n, "k%d=v\n", i);
    struct provenance p;
    struct err err;
    cr_assert_eq(provenance_parse(text, n, &p, &err), STATUS_LIMIT);
    free(text);
}

/* The same program with the same options, said by what it wrote: threads and SIMD are the machine's own, everything else counts,
 * and of a dirty tree, or without git, one commit can name two programs. */
Test(provenance, one_build_is_told_from_two) {
    static const char *const base[][2] = {{"tool", "forkgate 0.1.0"},
                                          {"commit", "0123456789ab"},
                                          {"dirty", "0"},
                                          {"backend", "cpu"},
                                          {"route", "f16"},
                                          {"arch", "sm_90"},
                                          {"geometry", "fa_tq=64"},
                                          {"kv", "f16"},
                                          {"chunk", "512"},
                                          {"graphs", "0"},
                                          {"threads", "2"},
                                          {"simd", "auto"},
                                          {"device", "cpu"},
                                          {"compiler", "gcc 12"},
                                          {"flags", "-O2"}};
    struct err err = {""};
    const size_t n = sizeof base / sizeof base[0];
    for (size_t changed = 0; changed <= n + 1; changed++) { /* n: none; n + 1: a key that only one side has */
        struct provenance a, b;
        provenance_init(&a);
        provenance_init(&b);
        for (size_t i = 0; i < n; i++) {
            cr_assert_eq(provenance_set(&a, base[i][0], base[i][1], &err), STATUS_OK);
            cr_assert_eq(provenance_set(&b, base[i][0], i == changed ? "1" : base[i][1], &err), STATUS_OK);
        }
        if (changed == n + 1) cr_assert_eq(provenance_set(&b, "faults", "norm-tail", &err), STATUS_OK);
        const char *key = changed < n ? base[changed][0] : "";
        int own = changed == n || strcmp(key, "threads") == 0 || strcmp(key, "simd") == 0;
        cr_assert_eq(provenance_one_build(&a, &b), own, "changed: %s", key);
        cr_assert_eq(provenance_one_build(&b, &a), own, "changed on the other side: %s", key);
        provenance_free(&a);
        provenance_free(&b);
    }
}

Test(provenance, a_commit_does_not_name_a_dirty_build) {
    static const char *const commits[][2] = {{"0123456789ab", "1"}, {"unknown", "0"}, {"unknown", "1"}};
    struct err err = {""};
    for (size_t i = 0; i < sizeof commits / sizeof commits[0]; i++) {
        struct provenance p[2];
        for (int k = 0; k < 2; k++) {
            provenance_init(&p[k]);
            cr_assert_eq(provenance_set(&p[k], "commit", commits[i][0], &err), STATUS_OK);
            cr_assert_eq(provenance_set(&p[k], "dirty", commits[i][1], &err), STATUS_OK);
        }
        cr_assert_eq(provenance_one_build(&p[0], &p[1]), 0, "neither says which program it was");
        cr_assert_eq(provenance_set(&p[0], "build", "1a", &err), STATUS_OK);
        cr_assert_eq(provenance_one_build(&p[0], &p[1]), 0, "one does not");
        cr_assert_eq(provenance_one_build(&p[1], &p[0]), 0, "one does not");
        cr_assert_eq(provenance_set(&p[1], "build", "2b", &err), STATUS_OK);
        cr_assert_eq(provenance_one_build(&p[0], &p[1]), 0, "two programs");
        cr_assert_eq(provenance_set(&p[1], "build", "1a", &err), STATUS_OK);
        cr_assert_eq(provenance_one_build(&p[0], &p[1]), 1, "one program");
        cr_assert_eq(provenance_set(&p[1], "dirty", commits[i][1][0] == '1' ? "0" : "1", &err), STATUS_OK);
        cr_assert_eq(provenance_one_build(&p[0], &p[1]), 0, "of another tree");
        for (int k = 0; k < 2; k++) provenance_free(&p[k]);
    }
}
