/* test_file_out.c - a published file is complete and synced, or the caller is told; what could not be read back replaces
 * nothing. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dump_maker.h"
#include "gates/file_out.h"
#include "refuse_call.h"

static char folder[] = "/tmp/forkgate-test-file-out-XXXXXX";
static char path[64];

/* Nothing lies below the folder for temporary files when there is none: every file is synced. */
static void make_folder(void) {
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert_eq(setenv("TMPDIR", "/nonexistent", 1), 0);
    (void)snprintf(path, sizeof path, "%s/file", folder);
    cr_assert_eq(file_out_whole(path, "old", 3, NULL), STATUS_OK);
}
static void remove_folder(void) {
    (void)unlink(path);
    if (rmdir(folder) != 0) abort(); /* a temporary file was left */
}
TestSuite(file_out, .init = make_folder, .fini = remove_folder);

static void holds(const char *want) {
    char got[8] = "";
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL && fread(got, 1, sizeof got - 1, f) == strlen(want) && fclose(f) == 0);
    cr_assert_str_eq(got, want);
}

Test(file_out, a_folder_that_cannot_be_opened_cannot_be_synced) {
    struct err err = {""};
    if (!refuse_call(SYS_openat, 2, O_RDONLY | O_DIRECTORY | O_CLOEXEC, EACCES)) cr_skip_test("no seccomp");
    cr_assert_eq(file_out_whole(path, "new", 3, &err), STATUS_IO);
    cr_assert(strstr(err.message, path) != NULL && strstr(err.message, "is written, but") != NULL, "%s",
              err.message);
    holds("new");
}

/* The fifth step is the folder's: open, write, sync, rename, folder. */
static int steps, refusal, refused;
static void refuse_folder_sync(void) {
    if (++steps == 5) refused = refuse_call(SYS_fsync, REFUSE_ANY, 0, refusal);
}

static enum status put_with(int error, struct err *err) {
    refusal = error;
    file_out_step_hook = refuse_folder_sync;
    enum status s = file_out_whole(path, "new", 3, err);
    file_out_step_hook = NULL;
    cr_assert_eq(steps, 5);
    if (!refused) cr_skip_test("no seccomp");
    return s;
}

Test(file_out, a_folder_whose_sync_fails_is_told) {
    struct err err = {""};
    cr_assert_eq(put_with(EIO, &err), STATUS_IO);
    cr_assert(strstr(err.message, "its folder cannot be synced: Input/output error") != NULL, "%s",
              err.message);
    holds("new");
}

Test(file_out, a_file_system_that_syncs_no_folders_is_no_failure) {
    struct err err = {""};
    cr_assert_eq(put_with(EINVAL, &err), STATUS_OK, "%s", err.message);
    holds("new");
}

Test(file_out, a_file_whose_sync_fails_replaces_nothing) {
    struct err err = {""};
    if (!refuse_call(SYS_fsync, REFUSE_ANY, 0, EIO)) cr_skip_test("no seccomp");
    cr_assert_eq(file_out_whole(path, "new", 3, &err), STATUS_IO);
    holds("old");
}

/* A byte of the provenance goes bad in every step after it was written. */
static void damage(void) {
    char temp[128];
    (void)snprintf(temp, sizeof temp, "%s" FILE_OUT_TEMP "%ld-0", path, (long)getpid());
    int fd = open(temp, O_WRONLY);
    if (fd < 0) return; /* not there yet */
    cr_assert_eq(pwrite(fd, "\x7f", 1, 70), 1);
    (void)close(fd);
}

Test(file_out, an_empty_name_is_no_file) {
    struct err err = {""};
    cr_assert_eq(file_out_check("", 1, &err), STATUS_USAGE);
    cr_assert_eq(file_out_whole("", "new", 3, &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "an empty name") != NULL, "%s", err.message);
}

Test(file_out, an_input_is_spared_by_whatever_name) {
    char same[96], link_to[96], dump_path[96], other[96];
    struct err err = {""};
    const char *const inputs[] = {NULL, path, folder, "/nonexistent"};
    (void)snprintf(same, sizeof same, "%s/./file", folder);
    (void)snprintf(link_to, sizeof link_to, "%s/link", folder);
    (void)snprintf(dump_path, sizeof dump_path, "%s/a.fgd", folder);
    (void)snprintf(other, sizeof other, "%s/b.fgd", folder);
    cr_assert_eq(symlink(path, link_to), 0);
    cr_assert_eq(file_out_whole(dump_path, "d", 1, &err), STATUS_OK, "%s", err.message);
    const char *const taken[] = {path, same, link_to, dump_path, folder};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        cr_assert_eq(file_out_spares(taken[i], inputs, 4, &err), STATUS_USAGE, "%s", taken[i]);
        cr_assert(strstr(err.message, "would replace the input") != NULL, "%s", err.message);
    }
    const char *const free_ones[] = {NULL, other, "/nonexistent/a.fgd"};
    for (size_t i = 0; i < sizeof free_ones / sizeof free_ones[0]; i++)
        cr_assert_eq(file_out_spares(free_ones[i], inputs, 4, &err), STATUS_OK, "%s", err.message);
    (void)unlink(link_to);
    (void)unlink(dump_path);
}

Test(file_out, a_dump_that_does_not_verify_replaces_nothing) {
    static const char *const keys[] = {"tool", "test", NULL};
    struct err err = {""};
    dump *d = NULL;
    struct made m = make_begin(path, 0, keys);
    make_record(&m, greedy(3, 2.0f, 4, 1.0f), "a", 1, NULL);
    file_out_step_hook = damage;
    enum status s = dump_writer_finish(m.w, &m.p, &d, &err);
    file_out_step_hook = NULL;
    cr_assert_eq(s, STATUS_FORMAT, "%s", err.message);
    cr_assert(d == NULL);
    cr_assert_eq(strncmp(err.message, path, strlen(path)), 0, "%s", err.message);
    cr_assert(strstr(err.message, FILE_OUT_TEMP) == NULL, "%s", err.message);
    holds("old");
    provenance_free(&m.p);
}

Test(file_out, a_dump_is_called_by_its_own_name) {
    struct made m = make_begin(path, 0, NULL);
    make_record(&m, greedy(3, 2.0f, 4, 1.0f), "a", 1, NULL);
    dump *d = make_end(&m);
    cr_assert_str_eq(dump_name(d), path);
    dump_close(d);
}

/* As root, a table for /dev/stdout replaced that link by a file for everybody where standard output was a file. */
Test(file_out, a_name_of_an_open_file_is_never_replaced) {
    struct file_out f;
    struct err err = {""};
    cr_assert(file_out_descriptor_of("/dev/stdout") == 1 && file_out_descriptor_of("/dev/stdin") == 0);
    cr_assert(file_out_descriptor_of("/dev/fd/63") == 63 && file_out_descriptor_of("/proc/self/fd/2") == 2);
    cr_assert(file_out_descriptor_of("/dev/fd/") == -1 && file_out_descriptor_of("/dev/fd/1x") == -1);
    cr_assert(file_out_descriptor_of("/dev/null") == -1 && file_out_descriptor_of("dev/stdout") == -1);
    int fd = open(path, O_RDWR | O_CREAT, 0600); /* a regular file, under another name */
    char name[32];
    cr_assert(fd >= 0);
    (void)snprintf(name, sizeof name, "/dev/fd/%d", fd);
    cr_assert_eq(file_out_open(&f, name, &err), STATUS_USAGE);
    cr_assert(strstr(err.message, "not a regular file") != NULL, "%s", err.message);
    cr_assert(file_out_check(name, 0, &err) == STATUS_USAGE && file_out_check(name, 1, &err) == STATUS_OK);
    (void)close(fd);
    cr_assert_eq(file_out_open(&f, "-", &err), STATUS_USAGE, "not a file called -");
}
