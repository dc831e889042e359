/* slurp.c - see slurp.h. */
#include "gates/slurp.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STREAM_MAX ((size_t)256 << 20)

static enum status slurp_stream(FILE *f, const char *path, size_t limit, char **out, size_t *n,
                                struct err *err) {
    size_t room = 4096, used = 0;
    char *text = malloc(room + 1);
    while (text != NULL) {
        used += fread(text + used, 1, room - used, f);
        if (ferror(f) || used < room) break;
        if (room >= limit) {
            free(text);
            return err_set(err, STATUS_LIMIT, "%s: larger than %zu MiB", path, limit >> 20);
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

static enum status slurp_up_to(const char *path, size_t limit, char **out, size_t *n, struct err *err) {
    *out = NULL;
    *n = 0;
    struct stat st;
    if (strcmp(path, "-") == 0)
        return err_set(err, STATUS_USAGE,
                       "-: not a name of a file (./- is one, /dev/stdin is standard input)");
    FILE *f = fopen(path, "rb");
    if (f == NULL) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    int endless = fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode); /* for all one knows */
    if (endless && limit > STREAM_MAX) limit = STREAM_MAX;
    enum status s = slurp_stream(f, path, limit, out, n, err);
    (void)fclose(f);
    return s;
}

enum status slurp_file(const char *path, char **out, size_t *n, struct err *err) {
    return slurp_up_to(path, (size_t)64 << 20, out, n, err);
}

enum status slurp_any(const char *path, char **out, size_t *n, struct err *err) {
    return slurp_up_to(path, SIZE_MAX / 4, out, n, err);
}
