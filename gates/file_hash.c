/* file_hash.c - see file_hash.h. */
#include "gates/file_hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE ((size_t)1 << 20)

enum status file_hash(const char *path, struct hash128 *out, struct err *err) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* a device need not end, nor a pipe begin */
        return err_set(err, STATUS_IO, "%s: not a regular file", path);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    hash_stream *h = hash_open();
    uint8_t *buffer = malloc(PIECE);
    enum status s = h != NULL && buffer != NULL ? STATUS_OK : err_set(err, STATUS_NOMEM, "out of memory");
    for (size_t n = PIECE; s == STATUS_OK && n == PIECE;) {
        n = fread(buffer, 1, PIECE, f);
        hash_update(h, buffer, n);
    }
    if (s == STATUS_OK && ferror(f)) s = err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    if (s == STATUS_OK) *out = hash_peek(h);
    hash_close(h);
    free(buffer);
    (void)fclose(f);
    return s;
}
