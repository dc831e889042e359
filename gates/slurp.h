/* slurp.h - read a whole file into memory (a prompt, a table, a report). Source: ours. */
#ifndef FORKGATE_SLURP_H
#define FORKGATE_SLURP_H

#include <stddef.h>

#include "engine/status.h"

/* *out is malloc'ed and NUL-terminated (the NUL is not counted). STATUS_IO names the file and the system's reason.
 * slurp_file: STATUS_LIMIT above 64 MiB, so that /dev/zero is no prompt. slurp_any: of a regular file as much as memory holds,
 * of anything else 256 MiB. */
enum status slurp_file(const char *path, char **out, size_t *n, struct err *err);
enum status slurp_any(const char *path, char **out, size_t *n, struct err *err);

#endif
