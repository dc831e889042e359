/* test_golden_refresh.c - a refresh changes what was named and nothing else, and killed at any write it leaves the old
 * or the new set, whole. Field case A16 (a) to (d). */
#include "golden_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "refuse_call.h"

static struct err err;

TestSuite(golden_refresh, .init = sample_folder, .fini = sample_folder_remove);

static void commit_base(void) {
    struct sample a = sample_plain("holmes.txt"), b = sample_plain("watson.txt");
    dump *dumps[2] = {sample_dump(&a), sample_dump(&b)};
    sample_commit((const dump *const *)dumps, 2, "first goldens");
    dump_close(dumps[0]);
    dump_close(dumps[1]);
}

/* Refreshes one stream; returns the status of plan or commit and leaves the plan's only item in *item. */
static enum status refresh(struct sample s, const char *name, const char *reason, struct refresh_item *item) {
    struct golden_set set;
    struct refresh_plan plan;
    struct refresh_name parsed;
    dump *d = sample_dump(&s);
    const dump *dumps[1] = {d};
    err.message[0] = '\0';
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    if (name != NULL) cr_assert_eq(refresh_name_parse(name, &parsed, &err), STATUS_OK, "%s", err.message);
    enum status status = refresh_plan_make(&set, dumps, 1, &parsed, name == NULL ? 0 : 1, &plan, &err);
    if (status == STATUS_OK) {
        if (item != NULL) *item = plan.items[0];
        status = refresh_commit(&plan, reason, &err);
        refresh_plan_free(&plan);
    }
    golden_free(&set);
    dump_close(d);
    return status;
}

static struct golden_entry entry_of(const char *name) {
    struct golden_set set;
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "%s", err.message);
    const struct golden_entry *e = golden_by_name(&set, name);
    cr_assert(e != NULL, "%s is gone", name);
    struct golden_entry copy = *e;
    dump *d;
    cr_assert_eq(golden_open(&set, e, &d, &err), STATUS_OK, "%s", err.message);
    dump_close(d);
    golden_free(&set);
    return copy;
}

static struct sample moved_at_63(void) {
    struct sample s = sample_plain("holmes.txt");
    s.moved = 63;
    s.shift = -12.5f;
    s.commit = "ba9876543210";
    return s;
}

Test(golden_refresh, a16a_a_named_record_may_change_and_old_and_new_are_recorded) {
    commit_base();
    struct golden_entry old = entry_of("sm_90-f16/holmes");
    struct refresh_item item;
    cr_assert_eq(refresh(moved_at_63(), "sm_90-f16/holmes:63-63", "scored the wrong token", &item), STATUS_OK,
                 "%s", err.message);
    cr_assert_eq(item.state, REFRESH_CHANGED);
    cr_assert(item.n_differ == 1 && item.first == 63 && item.last == 63, "one record");
    struct golden_entry new = entry_of("sm_90-f16/holmes");
    char old_hash[HASH_TEXT_BYTES];
    hash_format(&old.logits_hash, old_hash);
    cr_assert_str_eq(new.replaces, old_hash);
    cr_assert_str_eq(new.reason, "scored the wrong token");
    cr_assert(!hash_equal(&old.logits_hash, &new.logits_hash), "the golden did not move");
    cr_assert_str_eq(entry_of("sm_90-f16/watson").reason, "first goldens", "the other line is untouched");
}

Test(golden_refresh, a16b_another_record_that_moved_is_refused_and_named) {
    commit_base();
    struct golden_entry old = entry_of("sm_90-f16/holmes");
    struct sample s = sample_plain("holmes.txt");
    s.moved = 90;
    s.shift = 1e-6f;
    struct refresh_item item;
    cr_assert_eq(refresh(s, "sm_90-f16/holmes:63-63", "scored the wrong token", &item), STATUS_USAGE);
    cr_assert_eq(item.state, REFRESH_REFUSED);
    cr_assert_eq(item.outside, 90);
    cr_assert(strstr(err.message, "record 90") != NULL, "%s", err.message);
    struct golden_entry now = entry_of("sm_90-f16/holmes");
    cr_assert(hash_equal(&old.logits_hash, &now.logits_hash), "nothing was written");
}

Test(golden_refresh, a16c_without_a_reason_or_under_ci_nothing_moves) {
    commit_base();
    cr_assert_eq(refresh(moved_at_63(), "sm_90-f16/holmes", NULL, NULL), STATUS_USAGE, "no reason");
    cr_assert_eq(refresh(moved_at_63(), "sm_90-f16/holmes", " \n", NULL), STATUS_USAGE, "a blank reason");
    setenv("CI", "true", 1);
    cr_assert_eq(refresh(moved_at_63(), "sm_90-f16/holmes", "why", NULL), STATUS_USAGE, "CI");
    cr_assert(strstr(err.message, "CI") != NULL, "%s", err.message);
    unsetenv("CI");
    cr_assert_eq(entry_of("sm_90-f16/holmes").replaces[0], '\0', "still the first");
}

Test(golden_refresh, a16d_the_entry_carries_the_commit_that_made_it) {
    commit_base();
    cr_assert_str_eq(entry_of("sm_90-f16/holmes").commit, "0123456789ab");
}

Test(golden_refresh, unnamed_changes_unknown_names_and_no_change_are_refused) {
    commit_base();
    cr_assert_eq(refresh(moved_at_63(), NULL, "why", NULL), STATUS_USAGE, "no name at all");
    cr_assert_eq(refresh(moved_at_63(), "sm_90-f16/watson", "why", NULL), STATUS_USAGE, "another name");
    cr_assert(strstr(err.message, "watson") != NULL, "%s", err.message);
    cr_assert_eq(refresh(sample_plain("holmes.txt"), "sm_90-f16/*", "why", NULL), STATUS_USAGE,
                 "nothing changed");
    cr_assert_eq(refresh(moved_at_63(), "sm_90-f16/hol*", "why", NULL), STATUS_OK, "%s", err.message);
}

Test(golden_refresh, other_provenance_alone_is_no_change) {
    commit_base();
    struct sample s = sample_plain("holmes.txt");
    s.commit = "ffffffffffff";
    s.extra_key = "threads";
    struct refresh_item item;
    cr_assert_eq(refresh(s, "sm_90-f16/holmes", "why", &item), STATUS_USAGE);
    cr_assert_eq(item.state, REFRESH_SAME);
    cr_assert_str_eq(entry_of("sm_90-f16/holmes").commit, "0123456789ab");
}

Test(golden_refresh, a_longer_or_shorter_stream_is_a_change_of_the_records_beyond) {
    commit_base();
    struct sample s = sample_plain("holmes.txt");
    s.count = 100;
    struct refresh_item item;
    cr_assert_eq(refresh(s, "sm_90-f16/holmes:0-99", "why", &item), STATUS_USAGE);
    cr_assert_eq(item.outside, 100);
    cr_assert_eq(refresh(s, "sm_90-f16/holmes:100-127", "why", &item), STATUS_OK, "%s", err.message);
}

/* The same records, asked for with another budget, would be another line of the manifest. */
Test(golden_refresh, another_budget_changes_the_stream_as_a_whole) {
    commit_base();
    struct sample s = sample_plain("holmes.txt");
    struct refresh_item item;
    s.budget = "256";
    static const char *const too_little[] = {NULL, "sm_90-f16/holmes:0-127", "sm_90-f16/holmes:5"};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(refresh(s, too_little[i], "why", &item), STATUS_USAGE, "name %d", i);
        cr_assert_eq(item.state, REFRESH_REFUSED);
        cr_assert(strstr(err.message, "outside the named set") != NULL, "%s", err.message);
    }
    cr_assert_eq(entry_of("sm_90-f16/holmes").n_requested, 128);
    cr_assert_eq(refresh(s, "sm_90-f16/holmes", "why", &item), STATUS_OK, "%s", err.message);
    cr_assert_eq(item.state, REFRESH_CHANGED);
    cr_assert(strstr(item.summary, "128 tokens and is 256") != NULL, "%s", item.summary);
    cr_assert_eq(entry_of("sm_90-f16/holmes").n_requested, 256);
}

Test(golden_refresh, names_parse_strictly) {
    struct refresh_name n;
    cr_assert_eq(refresh_name_parse("a:5", &n, &err), STATUS_OK);
    cr_assert(n.first == 5 && n.last == 5, "one record");
    cr_assert_eq(refresh_name_parse("a:5-9", &n, &err), STATUS_OK);
    cr_assert(n.first == 5 && n.last == 9, "a range");
    static const char *const bad[] = {"", ":1", "a:", "a:x", "a:9-5", "a:1-", "a:1-2x", "a:-1", "a:1--2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(refresh_name_parse(bad[i], &n, &err), STATUS_USAGE, "accepted: %s", bad[i]);
}

Test(golden_refresh, a_build_that_does_not_repeat_itself_is_refused) {
    struct sample a = sample_plain("holmes.txt"), b = a;
    b.moved = 41;
    b.shift = 1e-6f;
    dump *x = sample_dump(&a), *y = sample_dump(&b), *z = sample_dump(&a);
    const dump *first[1] = {x}, *other[1] = {y}, *same[1] = {z};
    cr_assert_eq(refresh_check_repeat(first, same, 1, &err), STATUS_OK, "%s", err.message);
    cr_assert_eq(refresh_check_repeat(first, other, 1, &err), STATUS_INVALID);
    cr_assert(strstr(err.message, "record 41") != NULL, "%s", err.message);
    dump_close(x);
    dump_close(y);
    dump_close(z);
}

Test(golden_refresh, a_plan_from_an_older_manifest_is_refused) {
    commit_base();
    struct golden_set set;
    struct refresh_plan plan;
    struct refresh_name name;
    struct sample s = moved_at_63();
    dump *d = sample_dump(&s);
    const dump *dumps[1] = {d};
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK);
    cr_assert_eq(refresh_name_parse("sm_90-f16/holmes", &name, &err), STATUS_OK);
    cr_assert_eq(refresh_plan_make(&set, dumps, 1, &name, 1, &plan, &err), STATUS_OK);
    struct sample third = sample_plain("night.txt");
    dump *other = sample_dump(&third);
    const dump *others[1] = {other};
    sample_commit(others, 1, "somebody else");
    cr_assert_eq(refresh_commit(&plan, "why", &err), STATUS_LIMIT);
    refresh_plan_free(&plan);
    golden_free(&set);
    dump_close(d);
    dump_close(other);
}

/* A lock that is held is another refresh; a file system without locks is not. */
Test(golden_refresh, a_lock_that_is_held_is_told_from_one_that_cannot_be_had) {
    char path[128];
    struct flock lock;
    commit_base();
    (void)snprintf(path, sizeof path, "%s/.lock", sample_dir);
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    int go[2];
    cr_assert_eq(pipe(go), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(path, O_RDWR);
        char locked = fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0;
        (void)!write(go[1], &locked, 1);
        (void)pause();
        _exit(0);
    }
    char locked = 0;
    cr_assert(read(go[0], &locked, 1) == 1 && locked == 1);
    enum status held = refresh_can_write(sample_dir, &err);
    (void)kill(holder, SIGKILL);
    cr_assert_eq(waitpid(holder, NULL, 0), holder);
    cr_assert_eq(held, STATUS_LIMIT);
    cr_assert(strstr(err.message, "another refresh is running") != NULL, "%s", err.message);
    cr_assert_eq(refresh_can_write(sample_dir, &err), STATUS_OK, "%s", err.message);
    if (!refuse_call(SYS_fcntl, 1, F_SETLK, ENOLCK)) cr_skip_test("no seccomp here");
    cr_assert_eq(refresh_can_write(sample_dir, &err), STATUS_IO);
    cr_assert(strstr(err.message, ".lock: locking it: No locks available") != NULL, "%s", err.message);
}

/* ---- killed at every step ------------------------------------------------------------------------------------- */
static int end_at;
static void end_here(int step) {
    if (step == end_at) raise(SIGKILL);
}

/* One refresh of both streams in a child that ends at the given step; returns its exit status. */
static int refresh_until(int at_step) {
    pid_t pid = fork();
    if (pid == 0) {
        struct golden_set set;
        struct refresh_plan plan;
        struct refresh_name name;
        struct sample a = moved_at_63(), b = sample_plain("watson.txt");
        b.swapped = 5;
        dump *dumps[2] = {sample_dump(&a), sample_dump(&b)};
        end_at = at_step;
        refresh_step_hook = end_here;
        int bad =
            golden_load(sample_dir, &set, &err) != STATUS_OK ||
            refresh_name_parse("*", &name, &err) != STATUS_OK ||
            refresh_plan_make(&set, (const dump *const *)dumps, 2, &name, 1, &plan, &err) != STATUS_OK ||
            refresh_commit(&plan, "new rounding", &err) != STATUS_OK;
        _exit(bad ? 1 : 0);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

Test(golden_refresh, killed_at_any_step_the_old_or_the_new_set_is_whole, .timeout = 60) {
    int killed = 0, saw_old = 0, saw_new = 0;
    for (int at = 1;; at++) {
        commit_base();
        int status = refresh_until(at);
        struct golden_entry holmes = entry_of("sm_90-f16/holmes"), watson = entry_of("sm_90-f16/watson");
        int new = strcmp(holmes.reason, "new rounding") == 0;
        cr_assert_eq(strcmp(watson.reason, "new rounding") == 0, new, "a mixture after step %d", at);
        saw_old += !new;
        saw_new += new;
        if (WIFEXITED(status)) {
            cr_assert_eq(WEXITSTATUS(status), 0, "the whole refresh failed");
            break;
        }
        killed++;
        if (!new) { /* the next refresh must work, whatever was left behind */
            cr_assert_eq(refresh(moved_at_63(), "*", "again", NULL), STATUS_OK, "after step %d: %s", at,
                         err.message);
            cr_assert_str_eq(entry_of("sm_90-f16/holmes").reason, "again");
        }
        sample_folder_remove();
        sample_folder();
    }
    cr_assert(killed >= 12 && saw_old >= 10 && saw_new >= 2, "%d kills, %d old, %d new", killed, saw_old,
              saw_new);
}

/* Without a manifest everything would be new, and what was there an orphan. */
Test(golden_refresh, dumps_without_a_manifest_are_damage_and_stay) {
    commit_base();
    char manifest[128], dump_path[256];
    struct golden_set set;
    (void)snprintf(manifest, sizeof manifest, "%s/manifest.csv", sample_dir);
    (void)snprintf(dump_path, sizeof dump_path, "%s/%s", sample_dir, entry_of("sm_90-f16/watson").file);
    cr_assert_eq(remove(manifest), 0);
    cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_FORMAT);
    cr_assert(strstr(err.message, "manifest.csv is gone, and sm_90-f16 holds dumps") != NULL, "%s",
              err.message);
    cr_assert_eq(access(dump_path, F_OK), 0);
}

/* An empty manifest, as a first refresh leaves it when it is killed, names nothing; a refresh of one route says nothing of
 * the other's folder. */
Test(golden_refresh, only_what_was_run_is_swept_and_nothing_beside_an_empty_manifest) {
    char stray[2][128], manifest[128];
    static const char *const folders[2] = {"sm_90-f16", "sm_90-q8"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(stray[i], sizeof stray[i], "%s/%s", sample_dir, folders[i]);
        cr_assert_eq(mkdir(stray[i], 0755), 0);
        (void)snprintf(stray[i], sizeof stray[i], "%s/%s/deadbeef.fgd", sample_dir, folders[i]);
        fclose(fopen(stray[i], "w"));
    }
    (void)snprintf(manifest, sizeof manifest, "%s/manifest.csv", sample_dir);
    struct golden_set empty = {"", NULL, 0, {{0}}};
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(golden_format(&empty, &text, &n, &err), STATUS_OK, "%s", err.message);
    FILE *f = fopen(manifest, "wb");
    fwrite(text, 1, n, f);
    fclose(f);
    free(text);
    commit_base();
    for (int i = 0; i < 2; i++)
        cr_assert_eq(access(stray[i], F_OK), 0, "swept beside an empty manifest: %d", i);
    cr_assert_eq(refresh(moved_at_63(), "*", "why", NULL), STATUS_OK, "%s", err.message);
    cr_assert_neq(access(stray[0], F_OK), 0, "an orphan of what was run");
    cr_assert_eq(access(stray[1], F_OK), 0, "swept in the folder of a route that was not run");
}

Test(golden_refresh, a_first_refresh_killed_at_any_step_can_be_made_again, .timeout = 60) {
    int killed = 0, again = 0;
    for (int at = 1;; at++) {
        int status = refresh_until(at);
        if (WIFEXITED(status)) {
            cr_assert_eq(WEXITSTATUS(status), 0, "the whole refresh failed");
            break;
        }
        killed++;
        struct golden_set set;
        cr_assert_eq(golden_load(sample_dir, &set, &err), STATUS_OK, "after step %d: %s", at, err.message);
        cr_assert(set.n == 0 || set.n == 2, "%zu goldens after step %d", set.n, at);
        if (set.n == 0) {
            again++;
            cr_assert_eq(refresh_until(INT_MAX), 0, "after step %d", at);
        }
        golden_free(&set);
        sample_folder_remove();
        sample_folder();
    }
    cr_assert(killed >= 12 && again >= 10, "%d kills, %d times again", killed, again);
}

Test(golden_refresh, orphans_go_with_the_next_refresh) {
    commit_base();
    char old_path[256], stray[256], half[256];
    (void)snprintf(old_path, sizeof old_path, "%s/%s", sample_dir, entry_of("sm_90-f16/holmes").file);
    (void)snprintf(stray, sizeof stray, "%s/sm_90-f16/deadbeef.fgd.tmp-1-0", sample_dir);
    fclose(fopen(stray, "w"));
    (void)snprintf(half, sizeof half, "%s/manifest.csv.tmp-1-0", sample_dir);
    fclose(fopen(half, "w"));
    cr_assert_eq(refresh(moved_at_63(), "*", "first change", NULL), STATUS_OK, "%s", err.message);
    cr_assert_eq(access(old_path, F_OK), 0, "the replaced dump stays until the next refresh");
    cr_assert_neq(access(stray, F_OK), 0, "what no line names is gone");
    cr_assert_neq(access(half, F_OK), 0, "and half a manifest is");
    struct sample s = moved_at_63();
    s.swapped = 3;
    cr_assert_eq(refresh(s, "*", "second change", NULL), STATUS_OK, "%s", err.message);
    cr_assert_neq(access(old_path, F_OK), 0, "now it is gone");
}
