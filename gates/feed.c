/* feed.c - see feed.h. */
#include "gates/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_READ (16u << 10)

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static enum status io_error(const char *name, struct err *err) {
    return err_set(err, STATUS_IO, "%s: %s", name, strerror(errno));
}

/* A pipe becomes a file without a name: arrays that follow each other are read side by side, so bytes are read twice. */
static enum status spool(struct feed_source *s, struct err *err) {
    char block[16384];
    FILE *copy = tmpfile();
    if (copy == NULL) return io_error(s->name, err);
    ssize_t n = 0;
    while ((n = read(s->fd, block, sizeof block)) > 0)
        if (fwrite(block, 1, (size_t)n, copy) != (size_t)n) break;
    int fd = n == 0 && fflush(copy) == 0 ? dup(fileno(copy)) : -1;
    enum status status = fd < 0 ? io_error(s->name, err) : STATUS_OK;
    (void)fclose(copy);
    (void)close(s->fd);
    s->fd = fd;
    return status;
}

enum status feed_source_open(const char *path, struct feed_source *out, struct err *err) {
    struct stat st;
    memset(out, 0, sizeof *out);
    out->name = path;
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0) return io_error(path, err);
    enum status s = fstat(out->fd, &st) != 0 ? io_error(path, err) : STATUS_OK;
    if (s == STATUS_OK && S_ISDIR(st.st_mode)) s = err_set(err, STATUS_IO, "%s: is a folder", path);
    if (s == STATUS_OK && !S_ISREG(st.st_mode)) s = spool(out, err);
    if (s == STATUS_OK && fstat(out->fd, &st) != 0) s = io_error(path, err);
    if (s == STATUS_OK)
        out->size = (uint64_t)st.st_size;
    else
        feed_source_close(out);
    return s;
}

void feed_source_memory(const void *bytes, size_t n, const char *name, struct feed_source *out) {
    memset(out, 0, sizeof *out);
    out->name = name;
    out->fd = -1;
    out->memory = bytes;
    out->size = n;
}

void feed_source_close(struct feed_source *s) {
    if (s->fd >= 0) (void)close(s->fd);
    s->fd = -1;
}

/* ---- cursors ----------------------------------------------------------------------------------------------------- */

void feed_cursor_open(struct feed_cursor *c, const struct feed_source *s, struct feed_place from) {
    memset(c, 0, sizeof *c);
    c->source = s;
    c->base = from.offset;
    c->line = from.line;
    c->room = FIRST_READ;
    if (s->fd >= 0) return;
    c->start = c->at = s->memory + from.offset;
    c->end = s->memory + s->size;
}

void feed_cursor_borrow(struct feed_cursor *c, const struct feed_cursor *host, struct feed_place from,
                        uint64_t to) {
    uint64_t held = host->base + (uint64_t)(host->end - host->start);
    feed_cursor_open(c, host->source, from);
    if (host->source->fd < 0 || host->start == NULL || from.offset < host->base || to > held) return;
    c->start = c->at = host->start + (from.offset - host->base);
    c->end = host->end;
}

void feed_cursor_close(struct feed_cursor *c) {
    free(c->window);
    memset(c, 0, sizeof *c);
}

struct feed_place feed_cursor_place(const struct feed_cursor *c) {
    struct feed_place p = {c->base, c->line};
    if (c->start != NULL) p.offset += (uint64_t)(c->at - c->start);
    return p;
}

/* Reads on at the offset of c->at; what was unread stays in front. */
static int read_on(struct feed_cursor *c, size_t kept) {
    if (c->window == NULL) c->window = malloc(FEED_WINDOW);
    if (c->window == NULL) return -1;
    uint64_t from = feed_cursor_place(c).offset;
    if (kept > 0) memmove(c->window, c->at, kept);
    size_t room = FEED_WINDOW - kept < c->room ? FEED_WINDOW - kept : (size_t)c->room;
    ssize_t n = pread(c->source->fd, c->window + kept, room, (off_t)(from + kept));
    c->base = from;
    c->start = c->at = c->window;
    c->end = c->window + kept + (n > 0 ? (size_t)n : 0);
    c->room = FEED_WINDOW;
    return n > 0 ? c->at[0] : -1;
}

int feed_cursor_fill(struct feed_cursor *c) {
    if (c->source->fd < 0) return -1;
    return feed_cursor_place(c).offset < c->source->size ? read_on(c, 0) : -1;
}

void feed_cursor_settle(struct feed_cursor *c) {
    size_t left = (size_t)(c->end - c->at);
    if (c->source->fd < 0 || left > FEED_WINDOW / 4) return;
    if (feed_cursor_place(c).offset + left < c->source->size) (void)read_on(c, left);
}

enum status feed_refuse(const struct feed_source *s, struct feed_place at, struct err *err,
                        const char *format, ...) {
    char what[ERR_MESSAGE_BYTES - 256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return err_set(err, STATUS_FORMAT, "%s: line %" PRIu64 ", byte %" PRIu64 ": %s", s->name, at.line,
                   at.offset, what);
}
