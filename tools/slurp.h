/* slurp.h - read a whole small file (a prompt, a list). Source: ours. */
#ifndef FORKGATE_SLURP_H
#define FORKGATE_SLURP_H

#include <stddef.h>

#include "engine/status.h"

/* *out is malloc'ed and NUL-terminated (the NUL is not counted). STATUS_IO names the file; limit: 64 MiB. */
enum status slurp_file(const char *path, char **out, size_t *n, struct err *err);

#endif
