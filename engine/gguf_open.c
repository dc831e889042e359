/* gguf_open.c - maps a GGUF file read-only and parses it; frees either kind of handle (see gguf.h).
 * Not a reader: pages come in when somebody looks at a tensor. A file that shrinks while it is mapped is outside
 * what can be defended against here.
 * Source: POSIX mmap. Exercise: ctest -R unit.gguf */
#include "gguf_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status map_file(const char *path, void **map, uint64_t *length, struct err *err) {
    /* O_NONBLOCK: opening a FIFO must be refused below, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    enum status s = STATUS_OK;
    if (fstat(fd, &st) != 0) {
        s = err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        s = err_set(err, STATUS_IO, "%s: is a directory", path);
    } else if (!S_ISREG(st.st_mode)) {
        s = err_set(err, STATUS_IO, "%s: is not a regular file", path);
    } else if (st.st_size <= 0) {
        s = err_set(err, STATUS_FORMAT, "%s: not a GGUF file: it is empty", path);
    } else if ((uint64_t)st.st_size > SIZE_MAX) {
        s = err_set(err, STATUS_IO, "%s: too large to map", path);
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            s = err_set(err, STATUS_IO, "%s: cannot map: %s", path, strerror(errno));
        } else {
            *map = p;
            *length = (uint64_t)st.st_size;
        }
    }
    (void)close(fd);
    return s;
}

enum status gguf_open(const char *path, gguf **out, struct err *err) {
    *out = NULL;
    void *map = NULL;
    uint64_t length = 0;
    RETURN_IF_ERROR(map_file(path, &map, &length, err));
    enum status s = gguf_parse(map, length, out, err);
    if (s != STATUS_OK) {
        (void)munmap(map, (size_t)length);
        return err_prefix(err, s, "%s", path);
    }
    (*out)->map = map;
    return STATUS_OK;
}

void gguf_close(gguf *g) {
    if (g == NULL) return;
    for (uint64_t i = 0; i < g->n_keys; i++) free(g->keys[i].string_at);
    free(g->keys);
    free(g->keys_by_name);
    free(g->tensors);
    free(g->tensors_by_name);
    if (g->map != NULL) (void)munmap(g->map, (size_t)g->length);
    free(g);
}
