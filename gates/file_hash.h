/* file_hash.h - XXH3-128 of a file's bytes: a model, a binary.
 * Source: ours. Exercise: ctest -R unit.bisect */
#ifndef FORKGATE_FILE_HASH_H
#define FORKGATE_FILE_HASH_H

#include "engine/status.h"
#include "gates/hash.h"

/* STATUS_IO names the file and the system's reason. Reads it once, in pieces. */
enum status file_hash(const char *path, struct hash128 *out, struct err *err);

#endif
