/* file_map.h - the bytes of a whole file under a name, mapped, owned or lent: what a verified dump lies in.
 * Not a parser, and nothing is read: the bytes of a mapped file are read when somebody looks at them.
 * Source: ours. Exercise: ctest -R 'unit.(dump|tensor_dump)' ; ctest -R cli.errors */
#ifndef FORKGATE_FILE_MAP_H
#define FORKGATE_FILE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "engine/status.h"

struct file_map {
    char *name;           /* for messages */
    const uint8_t *bytes; /* [size] */
    size_t size;
    void *map;      /* munmap this, or NULL */
    uint8_t *owned; /* free this, or NULL */
};

/* Maps the regular file at path; messages call it name. STATUS_IO: it is not there, not a file (a pipe is not waited for), or
 * cannot be mapped. */
enum status file_map_open(const char *path, const char *name, struct file_map *m, struct err *err);

/* Bytes in memory. owned: malloc'ed, and freed with the map, also on failure; else the caller keeps them. */
enum status file_map_memory(const void *bytes, size_t n, const char *name, uint8_t *owned, struct file_map *m,
                            struct err *err);

/* 1 when the file at path starts with text; 0 also where it cannot be read. */
int file_map_starts(const char *path, const char *text);

void file_map_close(struct file_map *m); /* legal on a zeroed one, and twice */

#endif
