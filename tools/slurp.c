/* slurp.c - see slurp.h. */
#include "tools/slurp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLURP_LIMIT ((size_t)64 << 20)

static enum status slurp_stream(FILE *f, const char *path, char **out, size_t *n, struct err *err) {
    size_t room = 4096, used = 0;
    char *text = malloc(room + 1);
    while (text != NULL) {
        used += fread(text + used, 1, room - used, f);
        if (ferror(f) || used < room) break;
        if (room >= SLURP_LIMIT) {
            free(text);
            return err_set(err, STATUS_LIMIT, "%s: larger than %zu MiB", path, SLURP_LIMIT >> 20);
        }
        room *= 2;
        char *more = realloc(text, room + 1);
        if (more == NULL) free(text);
        text = more;
    }
    if (text == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    if (ferror(f)) {
        free(text);
        return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    text[used] = '\0';
    *out = text;
    *n = used;
    return STATUS_OK;
}

enum status slurp_file(const char *path, char **out, size_t *n, struct err *err) {
    *out = NULL;
    *n = 0;
    FILE *f = fopen(path, "rb");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    enum status s = slurp_stream(f, path, out, n, err);
    (void)fclose(f);
    return s;
}
