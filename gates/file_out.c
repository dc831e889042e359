/* file_out.c - see file_out.h. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "gates/file_out.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_ATTEMPTS 100 /* names left behind by killed processes with the same id are passed over */

#define PIECE 65536 /* bytes of a write */

void (*file_out_step_hook)(void);

static void step(void) {
    if (file_out_step_hook != NULL) file_out_step_hook();
}

static enum status io_error(const struct file_out *f, const char *doing, struct err *err) {
    return err_set(err, STATUS_IO, "%s: %s: %s", f->path, doing, strerror(errno));
}

static char *copy_text(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    if (copy != NULL) memcpy(copy, text, n);
    return copy;
}

int file_out_descriptor_of(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdin") == 0) return STDIN_FILENO;
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (strncmp(path, folders[i], strlen(folders[i])) != 0) continue;
        const char *number = path + strlen(folders[i]);
        if (number[0] != '\0' && strlen(number) < 6 && strspn(number, "0123456789") == strlen(number))
            return (int)strtol(number, NULL, 10);
    }
    return -1;
}

enum status file_out_open(struct file_out *f, const char *path, struct err *err) {
    struct stat st;
    f->fd = -1;
    f->path = f->temp = NULL;
    if (path[0] == '\0') return err_set(err, STATUS_USAGE, "an empty name of a file to write");
    if (strcmp(path, "-") == 0) /* elsewhere that is standard output, and nobody means a file of that name */
        return err_set(err, STATUS_USAGE, "-: not a name of a file (./- is one, /dev/stdout takes CSV)");
    if (file_out_descriptor_of(path) >= 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return err_set(err, STATUS_USAGE, "%s: exists and is not a regular file", path);
    size_t room = strlen(path) + 48;
    f->path = copy_text(path);
    f->temp = malloc(room);
    if (f->path == NULL || f->temp == NULL) {
        file_out_abandon(f);
        return err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    }
    for (int i = 0; i < TEMP_ATTEMPTS && f->fd < 0; i++) {
        (void)snprintf(f->temp, room, "%s" FILE_OUT_TEMP "%ld-%d", path, (long)getpid(), i);
        step();
        f->fd = open(f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd >= 0) return STATUS_OK;
    enum status s = io_error(f, "creating a temporary file beside it", err);
    free(f->temp);
    f->temp = NULL;
    file_out_abandon(f);
    return s;
}

enum status file_out_write(struct file_out *f, unsigned long long offset, const void *bytes, unsigned long n,
                           struct err *err) {
    const char *from = bytes;
    while (n > 0) {
        step();
        ssize_t put = pwrite(f->fd, from, n < PIECE ? n : PIECE, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return io_error(f, "writing", err);
        from += put;
        offset += (unsigned long long)put;
        n -= (unsigned long)put;
    }
    return STATUS_OK;
}

/* The rename itself must reach the disk. EINVAL: a file system whose folders cannot be synced keeps them by itself. */
static enum status sync_folder(const struct file_out *f, struct err *err) {
    char *copy = copy_text(f->path);
    if (copy == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", f->path);
    int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    enum status s = STATUS_OK;
    if (folder < 0 || (fsync(folder) != 0 && errno != EINVAL))
        s = io_error(f, "is written, but its folder cannot be synced", err);
    if (folder >= 0) (void)close(folder);
    return s;
}

/* Below the folder for temporary files, which no restart keeps: waiting for the disk there would prove nothing. */
static int is_temporary(const char *path) {
    const char *named = getenv("TMPDIR");
    char *folder = realpath(named != NULL && named[0] != '\0' ? named : "/tmp", NULL);
    char *file = realpath(path, NULL);
    size_t n = folder != NULL ? strlen(folder) : 0;
    int below = file != NULL && n > 1 && strncmp(file, folder, n) == 0 && file[n] == '/';
    free(folder);
    free(file);
    return below;
}

enum status file_out_publish(struct file_out *f, struct err *err) {
    const int durable = !is_temporary(f->temp);
    step();
    if (durable && fsync(f->fd) != 0) return io_error(f, "fsync", err);
    int closed = close(f->fd);
    f->fd = -1;
    if (closed != 0) return io_error(f, "closing", err);
    step();
    if (rename(f->temp, f->path) != 0) return io_error(f, "renaming the finished file", err);
    free(f->temp);
    f->temp = NULL;
    step();
    return durable ? sync_folder(f, err) : STATUS_OK;
}

void file_out_abandon(struct file_out *f) {
    if (f->fd >= 0) (void)close(f->fd);
    if (f->temp != NULL) (void)unlink(f->temp);
    free(f->path);
    free(f->temp);
    f->fd = -1;
    f->path = f->temp = NULL;
}

enum status file_out_whole(const char *path, const void *bytes, unsigned long n, struct err *err) {
    struct file_out f = {-1, NULL, NULL};
    enum status s = file_out_open(&f, path, err);
    if (s == STATUS_OK) s = file_out_write(&f, 0, bytes, n, err);
    if (s == STATUS_OK) s = file_out_publish(&f, err);
    file_out_abandon(&f);
    return s;
}

/* ---- before a long piece of work -------------------------------------------------------------------------------- */
enum status file_out_check(const char *path, int streams, struct err *err) {
    struct stat st;
    struct file_out f = {-1, NULL, NULL};
    if (streams && stat(path, &st) == 0 && !S_ISDIR(st.st_mode) &&
        (!S_ISREG(st.st_mode) || file_out_descriptor_of(path) >= 0))
        return STATUS_OK;
    enum status s = file_out_open(&f, path, err);
    file_out_abandon(&f);
    return s;
}

/* Where a path leads: the file itself, or, where there is none yet, the name in its folder. */
int file_out_is_one(const char *a, const char *b) {
    struct stat x, y;
    int there = stat(a, &x) == 0;
    if (there != (stat(b, &y) == 0)) return 0;
    if (there) return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    const char *ends[2] = {strrchr(a, '/'), strrchr(b, '/')};
    char folders[2][4096];
    for (int i = 0; i < 2; i++) {
        const char *path = i == 0 ? a : b;
        size_t n = ends[i] == NULL ? 0 : (size_t)(ends[i] - path) + 1;
        if (n + 2 > sizeof folders[i]) return 0;
        memcpy(folders[i], path, n);
        memcpy(folders[i] + n, ".", 2);
        ends[i] = path + n;
    }
    return strcmp(ends[0], ends[1]) == 0 && stat(folders[0], &x) == 0 && stat(folders[1], &y) == 0 &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A folder that is read is read for its dumps. */
static int is_dump_in(const char *folder, const char *out) {
    struct stat st;
    char path[4096];
    const char *slash = strrchr(out, '/'), *name = slash == NULL ? out : slash + 1;
    size_t n = strlen(name);
    if (n < 4 || strcmp(name + n - 4, ".fgd") != 0 || stat(out, &st) != 0) return 0;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && file_out_is_one(path, out);
}

enum status file_out_spares(const char *out, const char *const *inputs, int n, struct err *err) {
    for (int i = 0; i < n && out != NULL; i++)
        if (inputs[i] != NULL && (file_out_is_one(inputs[i], out) || is_dump_in(inputs[i], out)))
            return err_set(err, STATUS_USAGE, "%s: the output would replace the input", out);
    return STATUS_OK;
}
