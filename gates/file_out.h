/* file_out.h - a file that appears at its path complete, or not at all.
 * Not a buffer: the caller writes through the descriptor.
 * Idea: a temporary file beside the path, fsync, rename, fsync of the folder; no fsync below $TMPDIR (default /tmp).
 * Source: ours. Exercise: ctest -R unit.dump ; ctest -R unit.table */
#ifndef FORKGATE_FILE_OUT_H
#define FORKGATE_FILE_OUT_H

#include "engine/status.h"

struct file_out {
    int fd; /* -1 when closed */
    char *path, *temp;
};

#define FILE_OUT_TEMP ".tmp-" /* in the name of what a killed process leaves: PATH.tmp-PID-N */

/* Called before every step that touches the disk (open, write of at most 64 KiB, sync, rename). For tests, which end the
 * process there. NULL: off. */
extern void (*file_out_step_hook)(void);

/* STATUS_USAGE when something that is not a regular file stands at path (a rename would replace a device), or a name of an open
 * file, and for "-". */
enum status file_out_open(struct file_out *f, const char *path, struct err *err);

/* Writes all n bytes at offset; STATUS_IO names the path and the system's reason (a full disk). */
enum status file_out_write(struct file_out *f, unsigned long long offset, const void *bytes, unsigned long n,
                           struct err *err);

/* After STATUS_OK the file is complete at its path, and survives a power cut unless it lies below the folder for temporary
 * files. On failure abandon it: nothing has changed at the path, unless the message says that the file is written and its
 * folder cannot be synced; then the new file is there, and may be gone after a power cut. */
enum status file_out_publish(struct file_out *f, struct err *err);

/* Closes and removes what was not published. Legal in any state after open, and on a zeroed struct with fd == -1. */
void file_out_abandon(struct file_out *f);

/* open, write, publish and clean up at once, for what was made in memory. */
enum status file_out_whole(const char *path, const void *bytes, unsigned long n, struct err *err);

/* Could path be written? For a look before work that takes long; leaves nothing. streams: a pipe or a device will do, for
 * text that is written as it comes. STATUS_IO, STATUS_USAGE. */
enum status file_out_check(const char *path, int streams, struct err *err);
/* The descriptor that path is the system's name for (/dev/stdout, /dev/fd/5, /proc/self/fd/1), or -1. Such a name is a link,
 * which a rename would replace for everybody, even where it leads to a regular file. */
int file_out_descriptor_of(const char *path);
/* Do both paths lead to one file, by whatever names, there already or not? */
int file_out_is_one(const char *a, const char *b);

/* STATUS_USAGE when writing out would replace one of n inputs, by whatever name: the file itself, a dump in a folder that
 * is an input, or that folder where out is one too. What was read may be the only copy. NULL, out or input: not given. */
enum status file_out_spares(const char *out, const char *const *inputs, int n, struct err *err);

#endif
