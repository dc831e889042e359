/* test_side.c - sides that are commands or folders: what they answer, and every way in which a program can fail to.
 * Source: ours. Exercise: ctest -R unit.side */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/side.h"
#include "tests/dump_maker.h"

TestSuite(side, .timeout = 60);

static struct work_folder folder;
static char store[WORK_PATH]; /* dumps that the fake engines hand out */
static char text_a[] = "alpha", text_b[] = "beta";
static struct battery_prompt prompts[2] = {{"pa", text_a, 5}, {"pb", text_b, 4}};
static struct battery battery = {prompts, 2};
static struct side_work work_of_test;

static void make_stored(const char *name, const char *prompt, int n, const char *in) {
    char path[2 * WORK_PATH], hash[HASH_TEXT_BYTES];
    struct hash128 h = hash_bytes(prompt, strlen(prompt));
    hash_format(&h, hash);
    const char *keys[] = {"n_vocab",        "1000", "logits",      "f32", "sampler", "greedy",
                          "repeat_penalty", "1",    "prompt.xxh3", hash,  NULL};
    (void)snprintf(path, sizeof path, "%s/%s.fgd", in, name);
    struct made m = make_begin(path, 0, keys);
    make_plain(&m, n);
    dump_close(make_end(&m));
}

static void set_up(void) {
    struct err err = {""};
    cr_assert_eq(work_folder_make("forkgate-test-side", &folder, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(work_folder_sub(&folder, "store", store, &err), STATUS_OK, "%s", err.message);
    make_stored("pa", text_a, 6, store);
    make_stored("pb", text_b, 4, store);
    work_of_test.folder = &folder;
    work_of_test.battery = &battery;
}

static void tear_down(void) {
    work_folder_remove(&folder);
}

static struct side open_side(const char *format, const char *argument) {
    char spec[2048];
    struct side s;
    struct engine_config c = engine_config_default();
    struct err err = {""};
    (void)snprintf(spec, sizeof spec, "%s%s", format, argument);
    cr_assert_eq(side_open(spec, "no-model", &c, &s, &err), STATUS_OK, "%s", err.message);
    return s;
}

/* An engine that copies its answer from the store. */
static struct side copier(void) {
    char spec[2 * WORK_PATH];
    (void)snprintf(spec, sizeof spec, "test {n} -gt 0 && cp %s/$(basename {prompt}).fgd {out}", store);
    return open_side(spec, "");
}

static enum status generate(struct side *s, char dir[WORK_PATH], struct err *err) {
    struct sampler_config greedy_choice = sampler_greedy();
    return side_generate(s, &work_of_test, &greedy_choice, 6, "made", dir, err);
}

Test(side, a_text_is_known_by_what_it_is, .init = set_up, .fini = tear_down) {
    struct side s;
    struct engine_config c = engine_config_default();
    struct err err = {""};
    char plain[2 * WORK_PATH];
    cr_assert_eq(side_open(NULL, "m", &c, &s, &err), STATUS_OK);
    cr_assert(s.kind == SIDE_ENGINE && !!side_takes_options(&s) && !!side_can_follow(&s), "this build");
    cr_assert_eq(side_open("/bin/sh", "m", &c, &s, &err), STATUS_OK);
    cr_assert(s.kind == SIDE_BINARY && !!side_takes_options(&s), "a program");
    cr_assert_eq(side_open(store, "m", &c, &s, &err), STATUS_OK);
    cr_assert(s.kind == SIDE_DUMPS && !side_takes_options(&s) && !side_can_follow(&s), "a folder");
    cr_assert_eq(side_open("e {prompt} {n} {out}", "m", &c, &s, &err), STATUS_OK);
    cr_assert(s.kind == SIDE_COMMAND && !side_can_follow(&s), "a command that cannot be forced");
    cr_assert_eq(side_open("e {prompt} {n} {out} {follow}", "m", &c, &s, &err), STATUS_OK);
    cr_assert(!!side_can_follow(&s), "a command that can");
    cr_assert_eq(side_open("e {prompt} {out}", "m", &c, &s, &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "{n}") != NULL, "%s", err.message);
    cr_assert_eq(side_open("/nowhere/at/all", "m", &c, &s, &err), STATUS_USAGE);
    (void)snprintf(plain, sizeof plain, "%s/pa.fgd", store);
    cr_assert_eq(side_open(plain, "m", &c, &s, &err), STATUS_USAGE, "a single dump is no side");
}

Test(side, a_command_answers_every_prompt, .init = set_up, .fini = tear_down) {
    struct side s = copier();
    struct err err = {""};
    char dir[WORK_PATH];
    dump *d = NULL;
    cr_assert_eq(generate(&s, dir, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(side_open_dump(&s, dir, &prompts[0], &d, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(dump_count(d), 6);
    dump_close(d);
}

/* {follow} is the dump to force and {n} its length; both are empty or the budget when the engine chooses by itself. */
Test(side, a_command_is_told_what_to_follow, .init = set_up, .fini = tear_down) {
    char spec[4 * WORK_PATH], dir[WORK_PATH], line[256] = "";
    (void)snprintf(spec, sizeof spec,
                   "echo {n} $(basename {follow}) >> %s/log; cp %s/$(basename {prompt}).fgd {out}",
                   folder.root, store);
    struct side s = open_side(spec, "");
    struct err err = {""};
    cr_assert_eq(side_replay(&s, &work_of_test, store, "forced", dir, &err), STATUS_OK, "%s", err.message);
    (void)snprintf(spec, sizeof spec, "%s/log", folder.root);
    FILE *f = fopen(spec, "rb");
    cr_assert(f != NULL);
    cr_assert(fgets(line, sizeof line, f) != NULL);
    (void)fclose(f);
    cr_assert_str_eq(line, "6 pa.fgd\n", "%s", line);
}

static void refused(const char *command, enum status want, const char *words) {
    struct side s = open_side(command, " # {prompt} {n} {out}");
    struct err err = {""};
    char dir[WORK_PATH];
    s.timeout_s = 0.5;
    enum status got = generate(&s, dir, &err);
    cr_assert_eq(got, want, "%s: %s (%s)", command, status_name(got), err.message);
    cr_assert(strstr(err.message, words) != NULL, "%s: %s", command, err.message);
    cr_assert(strstr(err.message, "pa") != NULL, "the prompt is named: %s", err.message);
}

Test(side, a_program_that_fails_is_quoted, .init = set_up, .fini = tear_down) {
    refused("echo first >&2; echo out of memory on device 0 >&2; exit 3", STATUS_INVALID,
            "exit 3: out of memory on device 0");
    refused("kill -SEGV $$", STATUS_INVALID, "signal 11");
    refused("sleep 20", STATUS_INVALID, "timed out");
    refused("true", STATUS_INVALID, "left no dump");
    refused("no-such-engine-here", STATUS_INVALID, "exit 127");
}

Test(side, an_answer_that_is_no_dump_of_this_prompt_is_refused, .init = set_up, .fini = tear_down) {
    char command[2 * WORK_PATH];
    struct err err = {""};
    char dir[WORK_PATH];
    struct side s = open_side("echo not a dump > {out}; : {prompt} {n}", "");
    cr_assert_eq(generate(&s, dir, &err), STATUS_FORMAT, "%s", err.message);
    (void)snprintf(command, sizeof command, "head -c 700 %s/pa.fgd > {out}; : {prompt} {n}", store);
    s = open_side(command, "");
    cr_assert_eq(generate(&s, dir, &err), STATUS_FORMAT, "half a dump: %s", err.message);
    (void)snprintf(command, sizeof command, "cp %s/pa.fgd {out}; : {prompt} {n}", store);
    s = open_side(command, "");
    cr_assert_eq(generate(&s, dir, &err), STATUS_USAGE, "the same answer to every prompt");
    cr_assert(strstr(err.message, "another prompt than pb") != NULL, "%s", err.message);
}

Test(side, a_folder_answers_with_itself_and_must_be_complete, .init = set_up, .fini = tear_down) {
    struct side s = open_side(store, "");
    struct sampler_config warm = {1.0f, 0.8f, 7};
    struct err err = {""};
    char dir[WORK_PATH], gone[2 * WORK_PATH];
    cr_assert_eq(generate(&s, dir, &err), STATUS_OK, "%s", err.message);
    cr_assert_str_eq(dir, store, "%s", dir);
    cr_assert_eq(side_generate(&s, &work_of_test, &warm, 6, "made", dir, &err), STATUS_UNSUPPORTED);
    cr_assert_eq(side_replay(&s, &work_of_test, store, "forced", dir, &err), STATUS_UNSUPPORTED);
    (void)snprintf(gone, sizeof gone, "%s/pb.fgd", store);
    cr_assert_eq(unlink(gone), 0);
    cr_assert_eq(generate(&s, dir, &err), STATUS_IO, "%s", err.message);
}

Test(side, comparing_a_thing_with_itself_is_noticed, .init = set_up, .fini = tear_down) {
    struct side a = copier(), b = copier(), c = open_side(store, ""), d = open_side("/bin/sh", ""), e = d;
    struct err err = {""};
    int same = 0;
    cr_assert_eq(side_same(&a, &b, "/bin/sh", &same, &err), STATUS_OK);
    cr_assert_eq(same, 1, "one command");
    cr_assert_eq(side_same(&a, &c, "/bin/sh", &same, &err), STATUS_OK);
    cr_assert_eq(same, 0);
    cr_assert_eq(side_same(&d, &e, "/bin/ls", &same, &err), STATUS_OK);
    cr_assert_eq(same, 1, "one binary, one set of options");
    e.kind = SIDE_ENGINE; /* this build is the base's very binary, under another path */
    cr_assert_eq(side_same(&d, &e, "/bin/sh", &same, &err), STATUS_OK);
    cr_assert_eq(same, 1, "known by content, not by path");
    cr_assert_eq(side_same(&d, &e, "/bin/ls", &same, &err), STATUS_OK);
    cr_assert_eq(same, 0, "another build");
    e.config.compute.geometry.fa_tkv = 16;
    cr_assert_eq(side_same(&d, &e, "/bin/sh", &same, &err), STATUS_OK);
    cr_assert_eq(same, 0, "other options");
    e.config.compute.geometry.fa_tkv = d.config.compute.geometry.fa_tkv;
    e.config.compute.n_threads++;
    cr_assert_eq(side_same(&d, &e, "/bin/sh", &same, &err), STATUS_OK);
    cr_assert_eq(same, 1, "threads belong to the machine");
}

Test(side, a_work_folder_is_private_and_goes, .init = set_up, .fini = tear_down) {
    char csv[WORK_PATH], prompt_dir[2 * WORK_PATH], root[WORK_PATH];
    struct battery again;
    struct err err = {""};
    struct stat st;
    cr_assert_eq(work_folder_battery(&folder, &battery, "battery", csv, &err), STATUS_OK, "%s", err.message);
    (void)snprintf(prompt_dir, sizeof prompt_dir, "%s/fixtures/prompts", folder.root);
    cr_assert_eq(battery_open(csv, prompt_dir, &again, &err), STATUS_OK, "%s", err.message);
    cr_assert(again.n == 2 && again.prompts[1].n == 4 && memcmp(again.prompts[1].bytes, "beta", 4) == 0,
              "bytes");
    battery_close(&again);
    cr_assert_eq(stat(folder.root, &st), 0);
    cr_assert_eq((int)(st.st_mode & 0077), 0, "nobody else may read it");
    memcpy(root, folder.root, sizeof root);
    work_folder_remove(&folder);
    cr_assert(stat(root, &st) != 0, "gone with all that was in it");
}
