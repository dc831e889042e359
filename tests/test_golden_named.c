/* test_golden_named.c - what a refresh may take in when names are given, and what a line says of the build that wrote it. */
#include "golden_samples.h"

static struct err err;

TestSuite(golden_named, .init = sample_folder, .fini = sample_folder_remove);

static void commit_base(void) {
    struct sample a = sample_plain("holmes.txt"), b = sample_plain("watson.txt");
    b.dirty = "1";
    dump *dumps[2] = {sample_dump(&a), sample_dump(&b)};
    sample_commit((const dump *const *)dumps, 2, "first goldens");
    dump_close(dumps[0]);
    dump_close(dumps[1]);
}

static void edit_commit(const char *from, const char *to) {
    char command[256];
    (void)snprintf(command, sizeof command, "sed -i 's/,%s,/,%s,/' '%s/manifest.csv'", from, to, sample_dir);
    cr_assert_eq(system(command), 0);
}

static enum status open_named(const char *name, struct golden_entry *out) {
    struct golden_set set;
    dump *d = NULL;
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    *out = *golden_by_name(&set, name);
    enum status s = golden_open(&set, golden_by_name(&set, name), &d, &err);
    dump_close(d);
    golden_free(&set);
    return s;
}

/* The commit of a build with local changes does not make its goldens again: the line says so, and cannot be made to hide it. */
Test(golden_named, a_build_with_local_changes_is_marked_in_the_line) {
    struct golden_entry e;
    char text[GOLDEN_COMMIT];
    commit_base();
    cr_assert_eq(open_named("sm_90-f16/watson", &e), STATUS_OK, "%s", err.message);
    golden_commit_text(&e, text);
    cr_assert_str_eq(text, "0123456789ab+");
    cr_assert_str_eq(e.commit, "0123456789ab", "the commit itself is told apart from the mark");
    cr_assert_eq(open_named("sm_90-f16/holmes", &e), STATUS_OK, "%s", err.message);
    golden_commit_text(&e, text);
    cr_assert_str_eq(text, "0123456789ab");
    edit_commit("0123456789ab+", "0123456789ab");
    cr_assert_eq(open_named("sm_90-f16/watson", &e), STATUS_FORMAT);
    cr_assert(strstr(err.message, "commit") != NULL, "%s", err.message);
}

Test(golden_named, with_names_given_a_new_stream_needs_its_name_too) {
    commit_base();
    struct sample a = sample_plain("holmes.txt"), b = sample_plain("moriarty.txt");
    a.moved = 63;
    a.shift = 1e-6f;
    dump *made[2] = {sample_dump(&a), sample_dump(&b)};
    const dump *dumps[2] = {made[0], made[1]};
    struct refresh_name names[2];
    struct refresh_plan plan;
    struct golden_set set;
    cr_assert_eq(refresh_name_parse("sm_90-f16/holmes", &names[0], &err), STATUS_OK);
    cr_assert_eq(refresh_name_parse("sm_90-f16/moriarty", &names[1], &err), STATUS_OK);
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(refresh_plan_make(&set, dumps, 2, names, 1, &plan, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(plan.items[1].state, REFRESH_REFUSED);
    cr_assert_eq(refresh_commit(&plan, "why", &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "moriarty is new") != NULL, "%s", err.message);
    refresh_plan_free(&plan);
    cr_assert_eq(refresh_plan_make(&set, dumps, 2, names, 2, &plan, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(plan.items[1].state, REFRESH_NEW);
    cr_assert_eq(refresh_commit(&plan, "why", &err), STATUS_OK, "%s", err.message);
    refresh_plan_free(&plan);
    golden_free(&set);
    dump_close(made[0]);
    dump_close(made[1]);
}
