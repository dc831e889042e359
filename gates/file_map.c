/* file_map.c - see file_map.h. */
#include "gates/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status name_it(struct file_map *m, const char *name, struct err *err) {
    m->name = strdup(name);
    if (m->name != NULL) return STATUS_OK;
    file_map_close(m);
    return err_set(err, STATUS_NOMEM, "%s: out of memory", name);
}

enum status file_map_open(const char *path, const char *name, struct file_map *m, struct err *err) {
    memset(m, 0, sizeof *m);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(err, STATUS_IO, "%s: %s", name, strerror(errno));
    struct stat st;
    int usable = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    size_t n = usable ? (size_t)st.st_size : 0;
    void *map = n > 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int saved = errno;
    (void)close(fd);
    if (!usable) return err_set(err, STATUS_IO, "%s: not a regular file", name);
    if (map == MAP_FAILED)
        return err_set(err, STATUS_IO, "%s: mapping %zu bytes: %s", name, n, strerror(saved));
    m->bytes = m->map = map;
    m->size = n;
    return name_it(m, name, err);
}

enum status file_map_memory(const void *bytes, size_t n, const char *name, uint8_t *owned, struct file_map *m,
                            struct err *err) {
    memset(m, 0, sizeof *m);
    m->bytes = bytes;
    m->size = n;
    m->owned = owned;
    return name_it(m, name, err);
}

int file_map_starts(const char *path, const char *text) {
    struct file_map file;
    size_t n = strlen(text);
    if (file_map_open(path, path, &file, NULL) != STATUS_OK) return 0;
    int starts = file.size >= n && memcmp(file.bytes, text, n) == 0;
    file_map_close(&file);
    return starts;
}

void file_map_close(struct file_map *m) {
    if (m->map != NULL) (void)munmap(m->map, m->size);
    free(m->owned);
    free(m->name);
    memset(m, 0, sizeof *m);
}
