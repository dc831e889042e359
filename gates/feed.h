/* feed.h - bytes of a file of any size, read through small windows that know their line and offset.
 * Not a parser: feed_scan.h finds the documents, jansson reads them.
 * Idea: a cursor is a place in the file with a window of its own, so that the parallel arrays of one huge document are read
 * side by side in bounded memory.
 * Source: ours. Exercise: ctest -R unit.import_json ; fuzz_import */
#ifndef FORKGATE_FEED_H
#define FORKGATE_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "engine/status.h"

#define FEED_WINDOW (256u << 10) /* bytes a cursor holds at most */

/* A regular file, or bytes in memory. What cannot be read twice (a pipe) is copied to an unlinked temporary file first. */
struct feed_source {
    const char *name; /* for messages; the caller keeps it */
    int fd;           /* -1: memory */
    const uint8_t *memory;
    uint64_t size; /* bytes there are */
};

struct feed_place {
    uint64_t offset, line; /* byte from 0, physical line from 1 */
};

struct feed_cursor {
    const struct feed_source *source;
    const uint8_t *at, *end; /* unread part of the window */
    const uint8_t *start;    /* of the window */
    uint64_t base, line;     /* offset of start; line of at */
    uint8_t *window;         /* NULL: the bytes are borrowed */
    uint64_t room;           /* bytes of the next read, grows to FEED_WINDOW */
};

enum status feed_source_open(const char *path, struct feed_source *out, struct err *err);
void feed_source_memory(const void *bytes, size_t n, const char *name, struct feed_source *out);
void feed_source_close(struct feed_source *s);

void feed_cursor_open(struct feed_cursor *c, const struct feed_source *s, struct feed_place from);
/* As open, but reads what host already holds when [from, to) lies in its window; host must then stay where it is. */
void feed_cursor_borrow(struct feed_cursor *c, const struct feed_cursor *host, struct feed_place from,
                        uint64_t to);
void feed_cursor_close(struct feed_cursor *c);

/* The next byte without taking it, or -1: at the end, or, with the place still before it, when reading fails. */
int feed_cursor_fill(struct feed_cursor *c);
static inline int feed_cursor_peek(struct feed_cursor *c) {
    return c->at < c->end ? *c->at : feed_cursor_fill(c);
}
static inline void feed_cursor_take(struct feed_cursor *c) {
    c->line += *c->at++ == '\n';
}
struct feed_place feed_cursor_place(const struct feed_cursor *c);

/* Moves the window so that what was read is dropped and the next document lies in one piece where it can. */
void feed_cursor_settle(struct feed_cursor *c);

/* STATUS_FORMAT "NAME: line L, byte B: message". */
enum status feed_refuse(const struct feed_source *s, struct feed_place at, struct err *err,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
