/* fgd.c - see fgd.h. One file, no globals; needs xxhash.h beside it or installed. */
#include "fgd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK       65536u
#define HEADER_UNIT 1024u

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "fgd.c writes memory as little-endian values"
#endif
_Static_assert(sizeof(struct fgd_record) == 64, "a record has no padding");

struct header {
    char magic[8];
    uint32_t version, stride, n_top_k, n_logits;
    uint64_t provenance_bytes, count, text_bytes, records_offset, zero;
};
struct footer {
    char mark[8];
    uint64_t count, text_bytes, n_blocks;
    uint8_t table[16], stream[16], logits[16], self[16];
};
struct bytes {
    uint8_t *p;
    size_t n, room;
};
struct fgd_writer {
    uint32_t n_top_k, n_logits, stride;
    uint64_t count;
    struct bytes provenance, records, text;
    XXH3_state_t *stream, *rows; /* apart: the type asks for 64-byte alignment, which calloc does not give */
};

static void canonical(XXH128_hash_t h, uint8_t out[16]) {
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, h);
    memcpy(out, c.digest, 16);
}

static void hash(const void *p, size_t n, uint8_t out[16]) {
    canonical(XXH3_128bits(n == 0 ? "" : p, n), out);
}

void fgd_hash_row(const float *logits, size_t n_vocab, uint8_t out[16]) {
    XXH3_state_t state;
    uint32_t part[1024];
    (void)XXH3_128bits_reset(&state);
    for (size_t done = 0; done < n_vocab;) {
        size_t n = n_vocab - done < 1024 ? n_vocab - done : 1024;
        memcpy(part, logits + done, n * sizeof part[0]);
        for (size_t i = 0; i < n; i++)
            if ((part[i] & 0x7fffffffu) > 0x7f800000u) part[i] = 0x7fc00000u;
        (void)XXH3_128bits_update(&state, part, n * sizeof part[0]);
        done += n;
    }
    canonical(XXH3_128bits_digest(&state), out);
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static int append(struct bytes *b, const void *p, size_t n) {
    if (b->n + n > b->room) {
        size_t room = b->room == 0 ? 4096 : b->room;
        while (room < b->n + n) room *= 2;
        uint8_t *grown = realloc(b->p, room);
        if (grown == NULL) return -1;
        b->p = grown;
        b->room = room;
    }
    if (n > 0) memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

static uint32_t stride_of(uint32_t n_top_k, uint32_t n_logits) {
    return (uint32_t)((sizeof(struct fgd_record) + n_top_k * sizeof(struct fgd_top) +
                       n_logits * sizeof(float) + 7) /
                      8 * 8);
}

static void close_writer(fgd_writer *w) {
    (void)XXH3_freeState(w->stream);
    (void)XXH3_freeState(w->rows);
    free(w->provenance.p);
    free(w->records.p);
    free(w->text.p);
    free(w);
}

fgd_writer *fgd_open(uint32_t n_top_k, uint32_t n_logits) {
    fgd_writer *w = n_top_k > 64 || n_logits > 1u << 24 ? NULL : calloc(1, sizeof *w);
    if (w == NULL) return NULL;
    w->n_top_k = n_top_k;
    w->n_logits = n_logits;
    w->stride = stride_of(n_top_k, n_logits);
    w->stream = XXH3_createState();
    w->rows = XXH3_createState();
    if (w->stream == NULL || w->rows == NULL) {
        close_writer(w);
        return NULL;
    }
    (void)XXH3_128bits_reset(w->stream);
    (void)XXH3_128bits_reset(w->rows);
    return w;
}

static int is_set(const struct bytes *lines, const char *key, size_t n) {
    for (size_t at = 0; at < lines->n;) {
        if (lines->n - at > n && memcmp(lines->p + at, key, n) == 0 && lines->p[at + n] == '=') return 1;
        while (lines->p[at++] != '\n') {
        }
    }
    return 0;
}

int fgd_set(fgd_writer *w, const char *key, const char *value) {
    size_t n = strlen(key);
    if (n == 0 || strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_.") != n ||
        is_set(&w->provenance, key, n))
        return -1;
    int bad = append(&w->provenance, key, strlen(key)) | append(&w->provenance, "=", 1);
    for (; *value != '\0' && !bad; value++) {
        const char *escape = *value == '\n' ? "\\n" : *value == '\\' ? "\\\\" : NULL;
        bad = escape != NULL ? append(&w->provenance, escape, 2) : append(&w->provenance, value, 1);
    }
    return bad | append(&w->provenance, "\n", 1);
}

/* Absent fields are stored as zero (ids as -1), so that equal results are equal bytes. */
static struct fgd_record canonical_record(const fgd_writer *w, const struct fgd_record *r, uint32_t n) {
    struct fgd_record c = *r;
    c.step = (uint32_t)w->count;
    c.text_bytes = n;
    c.text_offset = w->text.n;
    if (c.flags & FGD_NO_ID) c.token = -1;
    if (c.flags & FGD_NO_TOP1) c.logit1 = 0.0f;
    if (c.flags & FGD_NO_TOP2) c.id2 = -1;
    if (c.flags & FGD_NO_TOP2) c.logit2 = 0.0f;
    if (c.flags & FGD_NO_LSE) c.logsumexp = 0.0;
    if (c.flags & FGD_NO_HASH) memset(c.row, 0, sizeof c.row);
    return c;
}

int fgd_add(fgd_writer *w, const struct fgd_record *r, const void *text, uint32_t n,
            const struct fgd_top *top, const float *logits) {
    static const uint8_t zeros[8];
    struct fgd_record c = canonical_record(w, r, n);
    size_t top_bytes = w->n_top_k * sizeof *top, row_bytes = w->n_logits * sizeof *logits;
    if (append(&w->records, &c, sizeof c) != 0 || append(&w->records, top, top_bytes) != 0 ||
        append(&w->records, logits, row_bytes) != 0 ||
        append(&w->records, zeros, w->stride - sizeof c - top_bytes - row_bytes) != 0 ||
        append(&w->text, text, n) != 0)
        return -1;
    (void)XXH3_128bits_update(w->stream, &c.token, sizeof c.token);
    (void)XXH3_128bits_update(w->stream, &c.text_bytes, sizeof c.text_bytes);
    (void)XXH3_128bits_update(w->stream, n > 0 ? text : "", n);
    (void)XXH3_128bits_update(w->rows, c.row, sizeof c.row);
    w->count++;
    return 0;
}

static int hash_blocks(struct bytes *table, const uint8_t *p, size_t n) {
    uint8_t h[16];
    for (size_t at = 0; at < n; at += BLOCK) {
        hash(p + at, n - at < BLOCK ? n - at : BLOCK, h);
        if (append(table, h, sizeof h) != 0) return -1;
    }
    return 0;
}

/* The bytes in front of the records. */
static int make_header(const fgd_writer *w, struct bytes *out) {
    static const uint8_t zeros[HEADER_UNIT];
    struct header h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, "FGDUMP1\n", 8);
    h.version = 1;
    h.stride = w->stride;
    h.n_top_k = w->n_top_k;
    h.n_logits = w->n_logits;
    h.provenance_bytes = w->provenance.n;
    h.count = w->count;
    h.text_bytes = w->text.n;
    h.records_offset = (sizeof h + w->provenance.n + HEADER_UNIT - 1) / HEADER_UNIT * HEADER_UNIT;
    if (append(out, &h, sizeof h) != 0 || append(out, w->provenance.p, w->provenance.n) != 0) return -1;
    return append(out, zeros, (size_t)h.records_offset - out->n);
}

static int make_footer(const fgd_writer *w, struct bytes *table) {
    struct footer f;
    memset(&f, 0, sizeof f);
    memcpy(f.mark, "FGDEND1\n", 8);
    f.count = w->count;
    f.text_bytes = w->text.n;
    f.n_blocks = table->n / 16;
    hash(table->p, table->n, f.table);
    canonical(XXH3_128bits_digest(w->stream), f.stream);
    canonical(XXH3_128bits_digest(w->rows), f.logits);
    hash(&f, sizeof f - sizeof f.self, f.self);
    return append(table, &f, sizeof f);
}

static int write_all(const char *path, const struct bytes *const parts[4]) {
    FILE *f = fopen(path, "wb");
    int bad = f == NULL;
    for (int i = 0; i < 4 && !bad; i++)
        bad = parts[i]->n > 0 && fwrite(parts[i]->p, 1, parts[i]->n, f) != parts[i]->n;
    if (f != NULL && fclose(f) != 0) bad = 1;
    return bad ? -1 : 0;
}

/* 0 where path is a device, a pipe, a folder or the like: a rename would put a file in its place. Sets errno. */
static int is_free(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return 1;
    errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    return 0;
}

int fgd_finish(fgd_writer *w, const char *path) {
    struct bytes header = {NULL, 0, 0}, table = {NULL, 0, 0};
    uint8_t h[16];
    size_t n = strlen(path);
    char *temp = malloc(n + 5);
    int bad = temp == NULL || make_header(w, &header) != 0;
    if (!bad) {
        hash(header.p, header.n, h);
        bad = append(&table, h, sizeof h) != 0 || hash_blocks(&table, w->records.p, w->records.n) != 0 ||
              hash_blocks(&table, w->text.p, w->text.n) != 0 || make_footer(w, &table) != 0;
    }
    if (bad) errno = ENOMEM;
    bad = bad || !is_free(path);
    if (!bad) {
        const struct bytes *const parts[4] = {&header, &w->records, &w->text, &table};
        memcpy(temp, path, n);
        memcpy(temp + n, ".tmp", 5);
        bad = write_all(temp, parts) != 0 || rename(temp, path) != 0;
        if (bad) (void)remove(temp);
    }
    free(temp);
    free(header.p);
    free(table.p);
    close_writer(w);
    return bad ? -1 : 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static uint8_t *slurp(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    struct bytes b = {NULL, 0, 0};
    uint8_t part[16384];
    size_t n = 0;
    while (f != NULL && (n = fread(part, 1, sizeof part, f)) > 0 && append(&b, part, n) == 0) {
    }
    int bad = f == NULL || ferror(f) || n > 0;
    if (f != NULL) (void)fclose(f);
    if (bad) free(b.p);
    *size = b.n;
    return bad ? NULL : b.p;
}

static int same_hash(const void *p, size_t n, const uint8_t want[16]) {
    uint8_t h[16];
    hash(p, n, h);
    return memcmp(h, want, 16) == 0;
}

static const char *verify_blocks(const struct fgd_file *f, uint64_t records_offset, const uint8_t *table) {
    const struct {
        const uint8_t *p;
        uint64_t n;
    } parts[2] = {{f->records, f->count * f->stride}, {f->text, f->text_bytes}};
    if (!same_hash(f->bytes, (size_t)records_offset, table)) return "the header is damaged";
    for (int i = 0; i < 2; i++) {
        for (uint64_t at = 0; at < parts[i].n; at += BLOCK) {
            table += 16;
            if (!same_hash(parts[i].p + at, parts[i].n - at < BLOCK ? (size_t)(parts[i].n - at) : BLOCK,
                           table))
                return i == 0 ? "a block of records is damaged" : "a block of token bytes is damaged";
        }
    }
    return NULL;
}

static const char *verify(struct fgd_file *f) {
    struct header h;
    struct footer t;
    if (f->size < sizeof h + sizeof t) return "too short for a dump";
    memcpy(&h, f->bytes, sizeof h);
    memcpy(&t, f->bytes + f->size - sizeof t, sizeof t);
    if (memcmp(h.magic, "FGDUMP1\n", 8) != 0) return "not a dump";
    if (h.version != 1) return "a dump of another version";
    if (memcmp(t.mark, "FGDEND1\n", 8) != 0 || !same_hash(&t, sizeof t - 16, t.self)) return "cut short";
    /* Every size is bounded by the file's before it is multiplied. */
    if (h.n_top_k > 64 || h.n_logits > 1u << 24 || h.stride != stride_of(h.n_top_k, h.n_logits))
        return "impossible sizes";
    if (h.count > f->size / h.stride || h.text_bytes > f->size || h.records_offset > f->size ||
        h.provenance_bytes > f->size || sizeof h + h.provenance_bytes > h.records_offset)
        return "impossible sizes";
    uint64_t blocks = 1 + (h.count * h.stride + BLOCK - 1) / BLOCK + (h.text_bytes + BLOCK - 1) / BLOCK;
    uint64_t table = h.records_offset + h.count * h.stride + h.text_bytes;
    if (t.count != h.count || t.text_bytes != h.text_bytes || t.n_blocks != blocks ||
        table + blocks * 16 + sizeof t != f->size)
        return "header, footer and size disagree";
    if (!same_hash(f->bytes + table, (size_t)blocks * 16, t.table)) return "the block table is damaged";
    const void *text = f->bytes + sizeof h;
    f->provenance = text;
    f->provenance_bytes = h.provenance_bytes;
    f->count = h.count;
    f->text_bytes = h.text_bytes;
    f->stride = h.stride;
    f->n_top_k = h.n_top_k;
    f->n_logits = h.n_logits;
    f->records = f->bytes + h.records_offset;
    f->text = f->records + h.count * h.stride;
    memcpy(f->stream, t.stream, 16);
    memcpy(f->logits, t.logits, 16);
    return verify_blocks(f, h.records_offset, f->bytes + table);
}

const char *fgd_read(const char *path, struct fgd_file *out) {
    memset(out, 0, sizeof *out);
    out->bytes = slurp(path, &out->size);
    if (out->bytes == NULL) return "cannot be read";
    const char *trouble = verify(out);
    uint64_t text = 0;
    for (uint64_t i = 0; trouble == NULL && i < out->count; i++) {
        const struct fgd_record *r = fgd_at(out, i);
        if (r->step != (uint32_t)i || r->text_offset != text) trouble = "a record is out of its place";
        text += r->text_bytes;
    }
    if (trouble == NULL && text != out->text_bytes) trouble = "records and token bytes disagree";
    if (trouble != NULL) fgd_close(out);
    return trouble;
}

void fgd_close(struct fgd_file *f) {
    free(f->bytes);
    memset(f, 0, sizeof *f);
}

const struct fgd_record *fgd_at(const struct fgd_file *f, uint64_t i) {
    const void *p = f->records + i * f->stride; /* the offset is a multiple of 8 */
    return p;
}

const struct fgd_top *fgd_top_k(const struct fgd_file *f, uint64_t i) {
    const void *p = f->records + i * f->stride + sizeof(struct fgd_record);
    return p;
}

const float *fgd_logits(const struct fgd_file *f, uint64_t i) {
    const void *p =
        f->records + i * f->stride + sizeof(struct fgd_record) + f->n_top_k * sizeof(struct fgd_top);
    return p;
}
