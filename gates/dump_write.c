/* dump_write.c - the writing half of dump.h: records stream out block by block, the header is written last.
 * Not a log: until finish has renamed the temporary file, nothing exists at the path.
 * Idea: one positioned-write sink over a file or over memory, so both make the same bytes.
 * Source: ours. Exercise: ctest -R unit.dump */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gates/dump_format.h"

#define HEADER_SLACK                                                                                         \
    256 /* room for what provenance learns at the end; more than that moves the records once */
#define TEMP_ATTEMPTS 100

struct growing { /* bytes in memory */
    uint8_t *bytes;
    size_t n, room;
};

struct dump_writer {
    int fd;               /* -1: into memory */
    char *path, *temp;    /* NULL in memory */
    struct growing whole; /* the file itself, in memory */
    struct growing text, table;
    uint8_t block[DUMP_BLOCK];
    size_t block_used;
    struct dump_header header;
    uint64_t written; /* bytes of records sent to the sink */
    hash_stream *stream, *logits;
};

static enum status reserve(struct growing *g, size_t n, struct err *err) {
    if (n <= g->room) return STATUS_OK;
    size_t room = g->room == 0 ? 4096 : g->room;
    while (room < n) room *= 2;
    uint8_t *bytes = realloc(g->bytes, room);
    if (bytes == NULL) return err_set(err, STATUS_NOMEM, "dump: no memory for %zu bytes", room);
    g->bytes = bytes;
    g->room = room;
    return STATUS_OK;
}

static enum status grow(struct growing *g, const void *bytes, size_t n, struct err *err) {
    RETURN_IF_ERROR(reserve(g, g->n + n, err));
    if (n > 0) memcpy(g->bytes + g->n, bytes, n);
    g->n += n;
    return STATUS_OK;
}

static enum status io_error(const dump_writer *w, const char *doing, struct err *err) {
    return err_set(err, STATUS_IO, "%s: %s: %s", w->path, doing, strerror(errno));
}

static enum status sink_write(dump_writer *w, uint64_t at, const void *bytes, size_t n, struct err *err) {
    if (w->fd < 0) {
        size_t end = (size_t)at + n;
        RETURN_IF_ERROR(reserve(&w->whole, end, err));
        if (end > w->whole.n) {
            memset(w->whole.bytes + w->whole.n, 0, end - w->whole.n);
            w->whole.n = end;
        }
        if (n > 0) memcpy(w->whole.bytes + at, bytes, n);
        return STATUS_OK;
    }
    const uint8_t *from = bytes;
    while (n > 0) {
        ssize_t put = pwrite(w->fd, from, n, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return io_error(w, "writing", err);
        from += put;
        at += (uint64_t)put;
        n -= (size_t)put;
    }
    return STATUS_OK;
}

static enum status sink_read(dump_writer *w, uint64_t at, uint8_t *to, size_t n, struct err *err) {
    if (w->fd < 0) {
        memcpy(to, w->whole.bytes + at, n);
        return STATUS_OK;
    }
    while (n > 0) {
        ssize_t got = pread(w->fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return io_error(w, "reading back", err);
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return STATUS_OK;
}

/* A temporary name beside path: the rename stays inside one file system. */
static enum status open_temp(dump_writer *w, const char *path, struct err *err) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(err, STATUS_USAGE, "%s: exists and is not a regular file", path);
    size_t room = strlen(path) + 48;
    w->path = malloc(room);
    w->temp = malloc(room);
    if (w->path == NULL || w->temp == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    (void)snprintf(w->path, room, "%s", path);
    for (int i = 0; i < TEMP_ATTEMPTS; i++) {
        (void)snprintf(w->temp, room, "%s.tmp-%ld-%d", path, (long)getpid(), i);
        w->fd = open(w->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0) return STATUS_OK;
        if (errno != EEXIST) break;
    }
    enum status s =
        err_set(err, STATUS_IO, "%s: creating a temporary file beside it: %s", path, strerror(errno));
    free(w->temp);
    w->temp = NULL;
    return s;
}

static enum status check_sizes(int n_top_k, int n_logits, struct err *err) {
    if (n_top_k < 0 || n_top_k > (int)DUMP_TOP_K_MAX)
        return err_set(err, STATUS_USAGE, "dump: top-k %d (0 to %u)", n_top_k, DUMP_TOP_K_MAX);
    if (n_logits < 0 || n_logits > (int)DUMP_LOGITS_MAX)
        return err_set(err, STATUS_USAGE, "dump: %d logits a record (0 to %u)", n_logits, DUMP_LOGITS_MAX);
    return STATUS_OK;
}

static enum status provenance_text(const struct provenance *p, char **text, size_t *n, struct err *err) {
    RETURN_IF_ERROR(provenance_format(p, text, n, err));
    if (*n <= DUMP_HEADER_MAX) return STATUS_OK;
    free(*text);
    return err_set(err, STATUS_LIMIT, "dump: %zu bytes of provenance (at most %u)", *n, DUMP_HEADER_MAX);
}

enum status dump_writer_open(const char *path, const struct provenance *p, int n_top_k, int n_logits,
                             dump_writer **out, struct err *err) {
    *out = NULL;
    RETURN_IF_ERROR(check_sizes(n_top_k, n_logits, err));
    char *text = NULL;
    size_t text_bytes = 0;
    RETURN_IF_ERROR(provenance_text(p, &text, &text_bytes, err));
    free(text);
    dump_writer *w = calloc(1, sizeof *w);
    if (w == NULL) return err_set(err, STATUS_NOMEM, "dump: out of memory");
    w->fd = -1;
    memcpy(w->header.magic, DUMP_MAGIC, DUMP_MARK_BYTES);
    w->header.version = DUMP_VERSION;
    w->header.n_top_k = (uint32_t)n_top_k;
    w->header.n_logits = (uint32_t)n_logits;
    w->header.stride = dump_stride_of(w->header.n_top_k, w->header.n_logits);
    w->header.records_offset = dump_align(sizeof w->header + text_bytes + HEADER_SLACK);
    w->stream = hash_open();
    w->logits = hash_open();
    enum status s = STATUS_OK;
    if (w->stream == NULL || w->logits == NULL) s = err_set(err, STATUS_NOMEM, "dump: out of memory");
    struct hash128 header_hash = {{0}};
    if (s == STATUS_OK) s = grow(&w->table, &header_hash, sizeof header_hash, err); /* filled in by finish */
    if (s == STATUS_OK && path != NULL) s = open_temp(w, path, err);
    if (s != STATUS_OK) {
        dump_writer_abandon(w);
        return s;
    }
    *out = w;
    return STATUS_OK;
}

static enum status flush_block(dump_writer *w, struct err *err) {
    if (w->block_used == 0) return STATUS_OK;
    struct hash128 h = hash_bytes(w->block, w->block_used);
    RETURN_IF_ERROR(grow(&w->table, &h, sizeof h, err));
    RETURN_IF_ERROR(sink_write(w, w->header.records_offset + w->written, w->block, w->block_used, err));
    w->written += w->block_used;
    w->block_used = 0;
    return STATUS_OK;
}

static enum status put(dump_writer *w, const void *bytes, size_t n, struct err *err) {
    const uint8_t *from = bytes;
    while (n > 0) {
        size_t room = DUMP_BLOCK - w->block_used, part = n < room ? n : room;
        memcpy(w->block + w->block_used, from, part);
        w->block_used += part;
        from += part;
        n -= part;
        if (w->block_used == DUMP_BLOCK) RETURN_IF_ERROR(flush_block(w, err));
    }
    return STATUS_OK;
}

/* Absent fields are stored as zero, so that equal results are equal bytes. */
static struct dump_record canonical_record(const dump_writer *w, const struct dump_record *r,
                                           uint32_t text_bytes) {
    struct dump_record c = *r;
    c.step = (uint32_t)w->header.count;
    c.text_bytes = text_bytes;
    c.text_offset = w->text.n;
    if (c.flags & DUMP_NO_ID) c.token = -1;
    if (c.flags & DUMP_NO_TOP1) c.logit1 = 0.0f;
    if (c.flags & DUMP_NO_TOP2) {
        c.id2 = -1;
        c.logit2 = 0.0f;
    }
    if (c.flags & DUMP_NO_LSE) c.logsumexp = 0.0;
    if (c.flags & DUMP_NO_HASH) memset(&c.row, 0, sizeof c.row);
    return c;
}

enum status dump_writer_add(dump_writer *w, const struct dump_record *r, const uint8_t *text,
                            uint32_t text_bytes, const struct dump_top *top, const float *logits,
                            struct err *err) {
    static const uint8_t zeros[8];
    if (w->header.count == UINT32_MAX) return err_set(err, STATUS_LIMIT, "dump: more than 2^32-1 records");
    if (r->flags & ~DUMP_FLAGS_KNOWN) return err_set(err, STATUS_USAGE, "dump: unknown flags 0x%x", r->flags);
    struct dump_record c = canonical_record(w, r, text_bytes);
    size_t top_bytes = w->header.n_top_k * sizeof *top, logit_bytes = w->header.n_logits * sizeof *logits;
    RETURN_IF_ERROR(put(w, &c, sizeof c, err));
    if (top_bytes > 0) RETURN_IF_ERROR(put(w, top, top_bytes, err));
    if (logit_bytes > 0) RETURN_IF_ERROR(put(w, logits, logit_bytes, err));
    RETURN_IF_ERROR(put(w, zeros, w->header.stride - sizeof c - top_bytes - logit_bytes, err));
    RETURN_IF_ERROR(grow(&w->text, text, text_bytes, err));
    hash_update(w->stream, &c.token, sizeof c.token);
    hash_update(w->stream, &c.text_bytes, sizeof c.text_bytes);
    hash_update(w->stream, text, text_bytes);
    hash_update(w->logits, &c.row, sizeof c.row);
    w->header.count++;
    return STATUS_OK;
}

/* The final provenance may have outgrown its room: moves the records, last block first. */
static enum status move_records(dump_writer *w, uint64_t to, struct err *err) {
    uint64_t from = w->header.records_offset;
    for (uint64_t left = w->written; left > 0;) {
        size_t part = left % DUMP_BLOCK != 0 ? (size_t)(left % DUMP_BLOCK) : DUMP_BLOCK;
        left -= part;
        RETURN_IF_ERROR(sink_read(w, from + left, w->block, part, err));
        RETURN_IF_ERROR(sink_write(w, to + left, w->block, part, err));
    }
    w->header.records_offset = to;
    return STATUS_OK;
}

static enum status write_header(dump_writer *w, const struct provenance *final, struct err *err) {
    char *text = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(provenance_text(final, &text, &n, err));
    enum status s = STATUS_OK;
    uint64_t needed = dump_align(sizeof w->header + n);
    if (needed > w->header.records_offset) s = move_records(w, needed, err);
    size_t size = (size_t)w->header.records_offset;
    uint8_t *bytes = calloc(1, size);
    if (bytes == NULL && s == STATUS_OK) s = err_set(err, STATUS_NOMEM, "dump: out of memory");
    if (bytes != NULL && s == STATUS_OK) {
        w->header.header_bytes = n;
        w->header.text_bytes = w->text.n;
        memcpy(bytes, &w->header, sizeof w->header);
        memcpy(bytes + sizeof w->header, text, n);
        struct hash128 h = hash_bytes(bytes, size);
        memcpy(w->table.bytes, &h, sizeof h);
        s = sink_write(w, 0, bytes, size, err);
    }
    free(bytes);
    free(text);
    return s;
}

static enum status write_tail(dump_writer *w, struct err *err) {
    for (size_t at = 0; at < w->text.n; at += DUMP_BLOCK) {
        size_t part = w->text.n - at < DUMP_BLOCK ? w->text.n - at : DUMP_BLOCK;
        struct hash128 h = hash_bytes(w->text.bytes + at, part);
        RETURN_IF_ERROR(grow(&w->table, &h, sizeof h, err));
    }
    uint64_t at = w->header.records_offset + w->written;
    RETURN_IF_ERROR(sink_write(w, at, w->text.bytes, w->text.n, err));
    at += w->text.n;
    RETURN_IF_ERROR(sink_write(w, at, w->table.bytes, w->table.n, err));
    at += w->table.n;
    struct dump_footer f;
    memset(&f, 0, sizeof f);
    memcpy(f.mark, DUMP_FOOTER_MARK, DUMP_MARK_BYTES);
    f.count = w->header.count;
    f.text_bytes = w->text.n;
    f.n_blocks = w->table.n / sizeof(struct hash128);
    f.table = hash_bytes(w->table.bytes, w->table.n);
    f.stream = hash_peek(w->stream);
    f.logits = hash_peek(w->logits);
    f.self = dump_footer_self(&f);
    return sink_write(w, at, &f, sizeof f, err);
}

/* fsync, close, rename, fsync of the folder: after this returns OK the dump survives a power cut. */
static enum status publish(dump_writer *w, struct err *err) {
    if (fsync(w->fd) != 0) return io_error(w, "fsync", err);
    int closed = close(w->fd);
    w->fd = -1;
    if (closed != 0) return io_error(w, "closing", err);
    if (rename(w->temp, w->path) != 0) return io_error(w, "renaming the finished file", err);
    free(w->temp);
    w->temp = NULL;
    char *copy = malloc(strlen(w->path) + 1);
    if (copy == NULL) return STATUS_OK;
    memcpy(copy, w->path, strlen(w->path) + 1);
    int folder = open(dirname(copy), O_RDONLY | O_CLOEXEC);
    free(copy);
    if (folder < 0)
        return STATUS_OK; /* a folder that cannot be opened cannot be synced; the rename is done */
    (void)fsync(folder);
    (void)close(folder);
    return STATUS_OK;
}

enum status dump_writer_finish(dump_writer *w, const struct provenance *final, dump **out, struct err *err) {
    if (out != NULL) *out = NULL;
    enum status s = flush_block(w, err);
    if (s == STATUS_OK) s = write_header(w, final, err);
    if (s == STATUS_OK) s = write_tail(w, err);
    if (s == STATUS_OK && w->path != NULL) {
        s = publish(w, err);
        if (s == STATUS_OK && out != NULL) s = dump_open(w->path, out, err);
    } else if (s == STATUS_OK && out != NULL) {
        uint8_t *bytes = w->whole.bytes;
        w->whole.bytes = NULL;
        s = dump_open_owned(bytes, w->whole.n, "(memory)", out, err);
    }
    dump_writer_abandon(w);
    return s;
}

void dump_writer_abandon(dump_writer *w) {
    if (w == NULL) return;
    if (w->fd >= 0) (void)close(w->fd);
    if (w->temp != NULL) (void)unlink(w->temp);
    free(w->path);
    free(w->temp);
    free(w->whole.bytes);
    free(w->text.bytes);
    free(w->table.bytes);
    hash_close(w->stream);
    hash_close(w->logits);
    free(w);
}
