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

#include "gates/file_out.h"
#include "gates/golden_refresh.h"

#define MANIFEST_TEMP "manifest.csv" FILE_OUT_TEMP

void (*refresh_step_hook)(int step);
static int steps_done;

/* Every touch of the disk goes through here, so that a test can end the process between any two. */
static void step(void) {
    steps_done++;
    if (refresh_step_hook != NULL) refresh_step_hook(steps_done);
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

static void sweep(const char *folder, const char *file) {
    char path[4600];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    step();
    (void)unlink(path); /* an orphan that stays is no harm */
}

static void sweep_folder(const struct golden_set *s, const char *name) {
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%s/%s", s->dir, name);
    DIR *d = opendir(folder);
    if (d == NULL) return;
    for (struct dirent *f; (f = readdir(d)) != NULL;) {
        int whole = ends_with(f->d_name, ".fgd"), part = strstr(f->d_name, ".fgd" FILE_OUT_TEMP) != NULL;
        if (part || (whole && !named(s, name, f->d_name))) sweep(folder, f->d_name);
    }
    (void)closedir(d);
}

/* Was this folder ARCH-ROUTE run? Nothing is known of what lies in another. */
static int was_run(const struct refresh_plan *p, const char *folder) {
    size_t n = strlen(folder);
    for (size_t i = 0; i < p->n; i++)
        if (strncmp(p->items[i].entry.file, folder, n) == 0 && p->items[i].entry.file[n] == '/') return 1;
    return 0;
}

/* Dumps that the manifest on disk does not name, in the folders that were run, and what killed refreshes left. An empty
 * manifest names no dump: beside it all of them would be orphans, so none is. */
static void sweep_orphans(const struct refresh_plan *p) {
    const struct golden_set *s = p->set;
    DIR *d = opendir(s->dir);
    if (d == NULL) return;
    for (struct dirent *f; (f = readdir(d)) != NULL;)
        if (s->n > 0 && was_run(p, f->d_name))
            sweep_folder(s, f->d_name);
        else if (strncmp(f->d_name, MANIFEST_TEMP, strlen(MANIFEST_TEMP)) == 0)
            sweep(s->dir, f->d_name);
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
    for (size_t i = 0; i < p->n; i++) {
        const struct refresh_item *item = &p->items[i];
        if (item->state != REFRESH_REFUSED) continue;
        if (item->old == NULL)
            return err_set(err, STATUS_USAGE, "%s is new, which is outside the named set", item->entry.name);
        if (item->n_differ == 0)
            return err_set(err, STATUS_USAGE, "%s changed as a whole, which is outside the named set: %s",
                           item->entry.name, item->summary);
        return err_set(err, STATUS_USAGE, "%s changed at record %llu, which is outside the named set",
                       item->entry.name, (unsigned long long)item->outside);
    }
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
    int why = errno;
    (void)close(*fd);
    if (why == EACCES || why == EAGAIN)
        return err_set(err, STATUS_LIMIT, "%s: another refresh is running", path);
    return err_set(err, STATUS_IO, "%s: locking it: %s", path, strerror(why));
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
    return file_out_whole(path, bytes, n, err);
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

static enum status put_manifest(const struct golden_set *set, struct err *err) {
    char path[2304], *text = NULL;
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/manifest.csv", set->dir);
    enum status s = golden_format(set, &text, &n, err);
    if (s == STATUS_OK) s = file_out_whole(path, text, n, err);
    free(text);
    return s;
}

static int has_manifest(const struct golden_set *s) {
    static const struct hash128 none;
    return !hash_equal(&s->manifest, &none);
}

static enum status commit_locked(const struct refresh_plan *p, const char *reason, struct err *err) {
    struct golden_set next;
    RETURN_IF_ERROR(check_unmoved(p->set, err));
    if (!has_manifest(p->set)) RETURN_IF_ERROR(put_manifest(p->set, err)); /* the empty set: golden_load */
    sweep_orphans(p);
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].state == REFRESH_CHANGED || p->items[i].state == REFRESH_NEW)
            RETURN_IF_ERROR(put_dump(p->set, &p->items[i], err));
    RETURN_IF_ERROR(next_set(p, reason, &next, err));
    enum status s = put_manifest(&next, err);
    free(next.entries);
    return s;
}

enum status refresh_commit(const struct refresh_plan *p, const char *reason, struct err *err) {
    int lock;
    steps_done = 0;
    RETURN_IF_ERROR(may_commit(p, reason, err));
    RETURN_IF_ERROR(take_lock(p->set->dir, &lock, err));
    file_out_step_hook = step;
    enum status s = commit_locked(p, reason, err);
    file_out_step_hook = NULL;
    (void)close(lock);
    return s;
}
