/* golden_commit.c - the transaction: dumps first, then one rename of the manifest. See golden_refresh.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/golden_refresh.h"

#define CHUNK 65536 /* bytes of a write; each is a step of its own */

void (*refresh_step_hook)(int step);
static int steps_done;

/* Every touch of the disk goes through here, so that a test can end the process between any two. */
static void step(void) {
    steps_done++;
    if (refresh_step_hook != NULL) refresh_step_hook(steps_done);
}

/* ---- files --------------------------------------------------------------------------------------------------- */
static enum status write_chunks(int fd, const uint8_t *bytes, size_t n, const char *path, struct err *err) {
    while (n > 0) {
        size_t part = n < CHUNK ? n : CHUNK;
        step();
        ssize_t w = write(fd, bytes, part);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return err_set(err, STATUS_IO, "%s: %s", path, w < 0 ? strerror(errno) : "disk full");
        bytes += w;
        n -= (size_t)w;
    }
    step();
    return fsync(fd) == 0 ? STATUS_OK : err_set(err, STATUS_IO, "%s: fsync: %s", path, strerror(errno));
}

static enum status sync_folder(const char *path, struct err *err) {
    char folder[2304];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) *slash = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return err_set(err, STATUS_IO, "%s: %s", folder, strerror(errno));
    step();
    int bad = fsync(fd);
    (void)close(fd);
    return bad == 0 ? STATUS_OK : err_set(err, STATUS_IO, "%s: fsync: %s", folder, strerror(errno));
}

/* Writes beside path, syncs, renames, syncs the folder. */
static enum status put_file(const char *path, const void *bytes, size_t n, struct err *err) {
    char part[2400];
    (void)snprintf(part, sizeof part, "%s.part", path);
    step();
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return err_set(err, STATUS_IO, "%s: %s", part, strerror(errno));
    enum status s = write_chunks(fd, bytes, n, part, err);
    if (close(fd) != 0 && s == STATUS_OK) s = err_set(err, STATUS_IO, "%s: %s", part, strerror(errno));
    if (s == STATUS_OK) {
        step();
        if (rename(part, path) != 0) s = err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    if (s != STATUS_OK) {
        (void)unlink(part);
        return s;
    }
    return sync_folder(path, err);
}

/* ---- orphans ------------------------------------------------------------------------------------------------- */
static int named(const struct golden_set *s, const char *folder, const char *file) {
    char relative[600];
    (void)snprintf(relative, sizeof relative, "%s/%s", folder, file);
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->entries[i].file, relative) == 0) return 1;
    return 0;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static void sweep_folder(const struct golden_set *s, const char *folder) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, folder);
    DIR *d = opendir(path);
    if (d == NULL) return;
    for (struct dirent *f; (f = readdir(d)) != NULL;) {
        if (!ends_with(f->d_name, ".fgd") && !ends_with(f->d_name, ".fgd.part")) continue;
        if (named(s, folder, f->d_name)) continue;
        (void)snprintf(path, sizeof path, "%s/%s/%s", s->dir, folder, f->d_name);
        step();
        (void)unlink(path); /* an orphan that stays is no harm */
    }
    (void)closedir(d);
}

/* Dumps that the manifest on disk does not name, in every folder ARCH-ROUTE. */
static void sweep_orphans(const struct golden_set *s) {
    DIR *d = opendir(s->dir);
    if (d == NULL) return;
    for (struct dirent *f; (f = readdir(d)) != NULL;)
        if (strncmp(f->d_name, "sm_", 3) == 0) sweep_folder(s, f->d_name);
    (void)closedir(d);
}

/* ---- the transaction ----------------------------------------------------------------------------------------- */
enum status refresh_permitted(const char *reason, struct err *err) {
    const size_t room = sizeof((struct golden_entry *)0)->reason;
    const char *ci = getenv("CI");
    if (ci != NULL && ci[0] != '\0' && strcmp(ci, "0") != 0 && strcasecmp(ci, "false") != 0)
        return err_set(err, STATUS_USAGE, "CI=%s: goldens are never refreshed by a CI run", ci);
    if (reason == NULL || strspn(reason, " \t\r\n") == strlen(reason))
        return err_set(err, STATUS_USAGE, "a refresh needs --reason");
    if (strlen(reason) >= room)
        return err_set(err, STATUS_USAGE, "the reason is longer than %zu bytes", room - 1);
    return STATUS_OK;
}

static enum status may_commit(const struct refresh_plan *p, const char *reason, struct err *err) {
    RETURN_IF_ERROR(refresh_permitted(reason, err));
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].state == REFRESH_REFUSED)
            return err_set(err, STATUS_USAGE, "%s changed at record %llu, which is outside the named set",
                           p->items[i].entry.name, (unsigned long long)p->items[i].outside);
    if (p->counts[REFRESH_CHANGED] + p->counts[REFRESH_NEW] == 0)
        return err_set(err, STATUS_USAGE, "nothing changed: no golden to refresh");
    return STATUS_OK;
}

/* The lock lives as long as the descriptor: a killed refresh leaves none behind. */
static enum status take_lock(const char *dir, int *fd, struct err *err) {
    char path[2304];
    (void)snprintf(path, sizeof path, "%s/.lock", dir);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*fd < 0) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fcntl(*fd, F_SETLK, &lock) == 0) return STATUS_OK;
    (void)close(*fd);
    return err_set(err, STATUS_LIMIT, "%s: another refresh is running", path);
}

enum status refresh_can_write(const char *dir, struct err *err) {
    int lock;
    RETURN_IF_ERROR(take_lock(dir, &lock, err));
    (void)close(lock);
    return STATUS_OK;
}

static enum status check_unmoved(const struct golden_set *s, struct err *err) {
    struct golden_set now;
    RETURN_IF_ERROR(golden_load(s->dir, &now, err));
    int same = hash_equal(&now.manifest, &s->manifest);
    golden_free(&now);
    return same ? STATUS_OK : err_set(err, STATUS_LIMIT, "%s/manifest.csv changed since it was read", s->dir);
}

static enum status put_dump(const struct golden_set *s, const struct refresh_item *item, struct err *err) {
    char path[2304];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/%.*s", s->dir, (int)strcspn(item->entry.file, "/"),
                   item->entry.file);
    step();
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, item->entry.file);
    const void *bytes = dump_bytes(item->candidate, &n);
    return put_file(path, bytes, n, err);
}

/* The set as it will be: changed entries replaced, new ones added. */
static enum status next_set(const struct refresh_plan *p, const char *reason, struct golden_set *out,
                            struct err *err) {
    *out = *p->set;
    out->entries = calloc(p->set->n + p->n + 1, sizeof *out->entries);
    if (out->entries == NULL) return err_set(err, STATUS_NOMEM, "golden: manifest");
    if (p->set->n > 0) memcpy(out->entries, p->set->entries, p->set->n * sizeof *out->entries);
    for (size_t i = 0; i < p->n; i++) {
        const struct refresh_item *item = &p->items[i];
        if (item->state == REFRESH_SAME) continue;
        struct golden_entry *slot =
            item->old == NULL ? &out->entries[out->n++] : &out->entries[item->old - p->set->entries];
        *slot = item->entry;
        if (item->old != NULL) hash_format(&item->old->logits_hash, slot->replaces);
        (void)snprintf(slot->reason, sizeof slot->reason, "%s", reason);
    }
    return STATUS_OK;
}

static enum status put_manifest(const struct refresh_plan *p, const char *reason, struct err *err) {
    struct golden_set next;
    char path[2304], *text = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(next_set(p, reason, &next, err));
    enum status s = golden_format(&next, &text, &n, err);
    free(next.entries);
    (void)snprintf(path, sizeof path, "%s/manifest.csv", p->set->dir);
    if (s == STATUS_OK) s = put_file(path, text, n, err);
    free(text);
    return s;
}

enum status refresh_commit(const struct refresh_plan *p, const char *reason, struct err *err) {
    int lock;
    steps_done = 0;
    RETURN_IF_ERROR(may_commit(p, reason, err));
    RETURN_IF_ERROR(take_lock(p->set->dir, &lock, err));
    enum status s = check_unmoved(p->set, err);
    if (s == STATUS_OK) sweep_orphans(p->set);
    for (size_t i = 0; i < p->n && s == STATUS_OK; i++)
        if (p->items[i].state == REFRESH_CHANGED || p->items[i].state == REFRESH_NEW)
            s = put_dump(p->set, &p->items[i], err);
    if (s == STATUS_OK) s = put_manifest(p, reason, err);
    (void)close(lock);
    return s;
}
