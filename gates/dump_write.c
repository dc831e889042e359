/* dump_write.c - the writing half of dump.h: records stream out block by block, the header is written last.
 * Not a log: until finish has renamed the temporary file, nothing exists at the path.
 * Idea: one positioned-write sink over a file or over memory, so both make the same bytes.
 * Source: ours. Exercise: ctest -R unit.dump */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/dump_format.h"
#include "gates/file_out.h"

#define LATE_BYTES 128 /* what provenance usually learns at the end; a wrong guess moves the records once */

struct growing { /* bytes in memory */
    uint8_t *bytes;
    size_t n, room;
};

struct dump_writer {
    struct file_out file; /* fd -1: into memory */
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

static enum status sink_write(dump_writer *w, uint64_t at, const void *bytes, size_t n, struct err *err) {
    if (w->file.fd < 0) {
        size_t end = (size_t)at + n;
        RETURN_IF_ERROR(reserve(&w->whole, end, err));
        if (end > w->whole.n) {
            memset(w->whole.bytes + w->whole.n, 0, end - w->whole.n);
            w->whole.n = end;
        }
        if (n > 0) memcpy(w->whole.bytes + at, bytes, n);
        return STATUS_OK;
    }
    return file_out_write(&w->file, at, bytes, n, err);
}

static enum status sink_read(dump_writer *w, uint64_t at, uint8_t *to, size_t n, struct err *err) {
    if (w->file.fd < 0) {
        memcpy(to, w->whole.bytes + at, n);
        return STATUS_OK;
    }
    while (n > 0) {
        ssize_t got = pread(w->file.fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return err_set(err, STATUS_IO, "%s: reading back: %s", w->file.path, strerror(errno));
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return STATUS_OK;
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
    w->file.fd = -1;
    memcpy(w->header.magic, DUMP_MAGIC, DUMP_MARK_BYTES);
    w->header.version = DUMP_VERSION;
    w->header.n_top_k = (uint32_t)n_top_k;
    w->header.n_logits = (uint32_t)n_logits;
    w->header.stride = dump_stride_of(w->header.n_top_k, w->header.n_logits);
    w->header.records_offset = dump_records_offset(text_bytes + LATE_BYTES);
    w->stream = hash_open();
    w->logits = hash_open();
    enum status s = STATUS_OK;
    if (w->stream == NULL || w->logits == NULL) s = err_set(err, STATUS_NOMEM, "dump: out of memory");
    struct hash128 header_hash = {{0}};
    if (s == STATUS_OK) s = grow(&w->table, &header_hash, sizeof header_hash, err); /* filled in by finish */
    if (s == STATUS_OK && path != NULL) s = file_out_open(&w->file, path, err);
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

static enum status move_block(dump_writer *w, uint64_t from, uint64_t to, uint64_t at, struct err *err) {
    uint64_t left = w->written - at;
    size_t part = left < DUMP_BLOCK ? (size_t)left : DUMP_BLOCK;
    RETURN_IF_ERROR(sink_read(w, from + at, w->block, part, err));
    return sink_write(w, to + at, w->block, part, err);
}

/* The final provenance needs more or less room than was guessed: moves the records, so that equal dumps are equal bytes.
 * A block is never overwritten before it was read. */
static enum status move_records(dump_writer *w, uint64_t to, struct err *err) {
    uint64_t from = w->header.records_offset, blocks = (w->written + DUMP_BLOCK - 1) / DUMP_BLOCK;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t block = to < from ? i : blocks - 1 - i;
        RETURN_IF_ERROR(move_block(w, from, to, block * DUMP_BLOCK, err));
    }
    w->header.records_offset = to;
    return STATUS_OK;
}

static enum status write_header(dump_writer *w, const struct provenance *final, struct err *err) {
    char *text = NULL;
    size_t n = 0;
    RETURN_IF_ERROR(provenance_text(final, &text, &n, err));
    enum status s = STATUS_OK;
    uint64_t offset = dump_records_offset(n);
    if (offset != w->header.records_offset) s = move_records(w, offset, err);
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

/* Moving records down leaves bytes of the old place behind the new end. */
static enum status cut_to_size(dump_writer *w, struct err *err) {
    uint64_t end =
        w->header.records_offset + w->written + w->text.n + w->table.n + sizeof(struct dump_footer);
    if (w->file.fd < 0)
        w->whole.n = (size_t)end;
    else if (ftruncate(w->file.fd, (off_t)end) != 0)
        return err_set(err, STATUS_IO, "%s: setting its size: %s", w->file.path, strerror(errno));
    return STATUS_OK;
}

/* Read back before it stands at its path: what cannot be verified never replaces what was there. */
static enum status publish(dump_writer *w, dump **out, struct err *err) {
    enum status s = out != NULL ? dump_open_as(w->file.temp, w->file.path, out, err) : STATUS_OK;
    if (s == STATUS_OK) s = file_out_publish(&w->file, err);
    if (s == STATUS_OK || out == NULL) return s;
    dump_close(*out);
    *out = NULL;
    return s;
}

enum status dump_writer_finish(dump_writer *w, const struct provenance *final, dump **out, struct err *err) {
    if (out != NULL) *out = NULL;
    enum status s = flush_block(w, err);
    if (s == STATUS_OK) s = write_header(w, final, err);
    if (s == STATUS_OK) s = write_tail(w, err);
    if (s == STATUS_OK) s = cut_to_size(w, err);
    if (s == STATUS_OK && w->file.fd >= 0) {
        s = publish(w, out, err);
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
    file_out_abandon(&w->file);
    free(w->whole.bytes);
    free(w->text.bytes);
    free(w->table.bytes);
    hash_close(w->stream);
    hash_close(w->logits);
    free(w);
}
