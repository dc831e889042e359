/* tensor_dump.c - see tensor_dump.h. */
#include "gates/tensor_dump.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gates/file_map.h"
#include "gates/file_out.h"

#define MAGIC        TENSOR_DUMP_MAGIC "1\n"
#define FOOTER_MARK  "FGTEND1\n"
#define MARK_BYTES   8
#define VERSION      1u
#define BLOCK        65536u
#define HEADER_MAX   (1u << 20)
#define ELEMENTS_MAX ((uint64_t)1 << 40)
#define DIMS         4

struct tensor_header {
    char magic[MARK_BYTES];
    uint32_t version, dtype, n_dims, zero;
    uint64_t ne[DIMS];
    uint64_t header_bytes, data_offset;
    uint8_t zeros[56];
};

struct tensor_footer {
    char mark[MARK_BYTES];
    uint64_t n_blocks;
    struct hash128 table, content, self; /* self: of the 48 bytes before it */
};

static_assert(sizeof(struct tensor_header) == 128, "the header has no padding");
static_assert(sizeof(struct tensor_footer) == 64, "the footer has no padding");

struct tensor_dump {
    struct file_map file;
    const uint8_t *bytes; /* of file, [size] */
    size_t size;
    struct tensor_shape shape;
    uint64_t data_offset, data_bytes;
    struct provenance provenance;
    struct hash128 content;
};

enum status tensor_shape_check(const struct tensor_shape *s, uint64_t *bytes, struct err *err) {
    const struct dtype_info *info = dtype_info((int)s->dtype);
    if (info == NULL) return err_set(err, STATUS_FORMAT, "tensor: dtype code %d is unknown", (int)s->dtype);
    if (s->n_dims < 1 || s->n_dims > DIMS)
        return err_set(err, STATUS_SHAPE, "tensor: %d dimensions (1 to 4)", s->n_dims);
    uint64_t n = 1;
    for (int i = 0; i < DIMS; i++) {
        if (s->ne[i] == 0 || (i >= s->n_dims && s->ne[i] != 1))
            return err_set(err, STATUS_SHAPE, "tensor: dimension %d is %" PRIu64, i, s->ne[i]);
        if (s->ne[i] > ELEMENTS_MAX / n) return err_set(err, STATUS_SHAPE, "tensor: more than 2^40 elements");
        n *= s->ne[i];
    }
    if (s->ne[0] % (uint64_t)info->block != 0)
        return err_set(err, STATUS_SHAPE,
                       "tensor: rows of %" PRIu64 " elements are no whole number of %s blocks", s->ne[0],
                       info->name);
    *bytes = dtype_bytes(s->dtype, n);
    return STATUS_OK;
}

static struct hash128 content_hash(const struct tensor_shape *s, const void *data, uint64_t bytes) {
    struct hash128 none = {{0}};
    hash_stream *h = hash_open();
    if (h == NULL) return none;
    uint32_t head[2] = {(uint32_t)s->dtype, (uint32_t)s->n_dims};
    hash_update(h, head, sizeof head);
    hash_update(h, s->ne, sizeof s->ne);
    hash_update(h, data, (size_t)bytes);
    struct hash128 out = hash_peek(h);
    hash_close(h);
    return out;
}

static struct hash128 footer_self(const struct tensor_footer *f) {
    return hash_bytes(f, sizeof *f - sizeof f->self);
}

static uint64_t data_blocks(uint64_t bytes) {
    return (bytes + BLOCK - 1) / BLOCK;
}
static uint64_t offset_after(uint64_t header_bytes) {
    return (sizeof(struct tensor_header) + header_bytes + 63) / 64 * 64;
}

/* ---- writing ------------------------------------------------------------------------------------------------ */

static void hash_blocks(const uint8_t *data, uint64_t bytes, struct hash128 *table) {
    for (uint64_t b = 0; b < data_blocks(bytes); b++) {
        uint64_t left = bytes - b * BLOCK;
        table[b] = hash_bytes(data + b * BLOCK, (size_t)(left < BLOCK ? left : BLOCK));
    }
}

/* Header and provenance as one zero-padded piece. */
static uint8_t *make_head(const struct tensor_shape *s, const char *text, size_t n) {
    struct tensor_header h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, MAGIC, MARK_BYTES);
    h.version = VERSION;
    h.dtype = (uint32_t)s->dtype;
    h.n_dims = (uint32_t)s->n_dims;
    memcpy(h.ne, s->ne, sizeof h.ne);
    h.header_bytes = n;
    h.data_offset = offset_after(n);
    uint8_t *head = calloc(1, (size_t)h.data_offset);
    if (head == NULL) return NULL;
    memcpy(head, &h, sizeof h);
    memcpy(head + sizeof h, text, n);
    return head;
}

static enum status write_pieces(struct file_out *f, const uint8_t *head, uint64_t head_bytes,
                                const struct tensor_shape *s, const void *data, uint64_t bytes,
                                struct err *err) {
    uint64_t n = 1 + data_blocks(bytes), at = head_bytes;
    struct hash128 *table = malloc((size_t)n * sizeof *table);
    if (table == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", f->path);
    table[0] = hash_bytes(head, (size_t)head_bytes);
    hash_blocks(data, bytes, table + 1);
    struct tensor_footer footer;
    memset(&footer, 0, sizeof footer);
    memcpy(footer.mark, FOOTER_MARK, MARK_BYTES);
    footer.n_blocks = n;
    footer.table = hash_bytes(table, (size_t)n * sizeof *table);
    footer.content = content_hash(s, data, bytes);
    footer.self = footer_self(&footer);
    enum status st = file_out_write(f, 0, head, (size_t)head_bytes, err);
    if (st == STATUS_OK) st = file_out_write(f, at, data, (size_t)bytes, err);
    at += bytes;
    if (st == STATUS_OK) st = file_out_write(f, at, table, (size_t)n * sizeof *table, err);
    at += n * sizeof *table;
    if (st == STATUS_OK) st = file_out_write(f, at, &footer, sizeof footer, err);
    free(table);
    return st;
}

enum status tensor_dump_write(const char *path, const struct tensor_shape *shape, const void *data,
                              const struct provenance *p, struct err *err) {
    uint64_t bytes = 0;
    char *text = NULL;
    size_t n = 0;
    struct file_out f;
    RETURN_IF_ERROR(tensor_shape_check(shape, &bytes, err));
    RETURN_IF_ERROR(provenance_format(p, &text, &n, err));
    if (n > HEADER_MAX) {
        free(text);
        return err_set(err, STATUS_LIMIT, "%s: %zu bytes of provenance", path, n);
    }
    uint8_t *head = make_head(shape, text, n);
    free(text);
    if (head == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", path);
    enum status s = file_out_open(&f, path, err);
    if (s == STATUS_OK) {
        s = write_pieces(&f, head, offset_after(n), shape, data, bytes, err);
        if (s == STATUS_OK) s = file_out_publish(&f, err);
        file_out_abandon(&f);
    }
    free(head);
    return s;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

/* The footer is not where it must be: by the header, as far as it can be believed, the file is too short, too long or edited. */
static enum status no_footer(const tensor_dump *t, struct err *err) {
    struct tensor_header h;
    struct tensor_shape s;
    uint64_t data = 0;
    memcpy(&h, t->bytes, sizeof h);
    s.dtype = (enum dtype)h.dtype;
    s.n_dims = h.n_dims > DIMS ? DIMS + 1 : (int)h.n_dims;
    memcpy(s.ne, h.ne, sizeof s.ne);
    uint64_t end = 0, table = 0;
    if (h.header_bytes <= HEADER_MAX && h.data_offset == offset_after(h.header_bytes) &&
        tensor_shape_check(&s, &data, NULL) == STATUS_OK) {
        table = (1 + data_blocks(data)) * sizeof(struct hash128);
        end = h.data_offset + data + table + sizeof(struct tensor_footer);
    }
    if (end > t->size)
        return err_set(err, STATUS_FORMAT, "cut short at byte offset %zu of %" PRIu64, t->size, end);
    if (end > 0 && end < t->size)
        return err_set(err, STATUS_FORMAT,
                       "%" PRIu64 " bytes follow the end of the tensor at byte offset %" PRIu64,
                       t->size - end, end);
    return err_set(err, STATUS_FORMAT,
                   "first bad block: footer (byte offset %zu): it does not match its own hash",
                   t->size - sizeof(struct tensor_footer));
}

static enum status check_footer(const tensor_dump *t, struct tensor_footer *f, struct err *err) {
    if (t->size == 0) return err_set(err, STATUS_FORMAT, "0 bytes: empty file, not a tensor dump");
    size_t mark = t->size < MARK_BYTES ? t->size : MARK_BYTES;
    if (memcmp(t->bytes, MAGIC, mark) != 0)
        return err_set(err, STATUS_FORMAT, "first bad block: header (byte offset 0): not a forkgate tensor");
    if (t->size < sizeof(struct tensor_header) + sizeof *f)
        return err_set(err, STATUS_FORMAT, "cut short at byte offset %zu, inside the header", t->size);
    memcpy(f, t->bytes + t->size - sizeof *f, sizeof *f);
    struct hash128 self = footer_self(f);
    if (memcmp(f->mark, FOOTER_MARK, MARK_BYTES) != 0 || !hash_equal(&self, &f->self))
        return no_footer(t, err);
    uint64_t body = t->size - sizeof *f;
    if (f->n_blocks < 2 || f->n_blocks > (body - sizeof(struct tensor_header)) / sizeof(struct hash128))
        return err_set(err, STATUS_FORMAT, "footer: %" PRIu64 " blocks do not fit", f->n_blocks);
    struct hash128 h = hash_bytes(t->bytes + body - f->n_blocks * sizeof h, (size_t)(f->n_blocks * sizeof h));
    if (!hash_equal(&h, &f->table))
        return err_set(err, STATUS_FORMAT, "first bad block: the block table: hash differs");
    return STATUS_OK;
}

static enum status check_header(tensor_dump *t, const struct tensor_footer *f, struct err *err) {
    struct tensor_header h;
    memcpy(&h, t->bytes, sizeof h);
    uint64_t table = t->size - sizeof *f - f->n_blocks * sizeof(struct hash128);
    if (h.version != VERSION)
        return err_set(err, STATUS_FORMAT, "tensor version %" PRIu32 "; this build reads %u", h.version,
                       VERSION);
    if (h.header_bytes > HEADER_MAX || h.data_offset != offset_after(h.header_bytes) || h.data_offset > table)
        return err_set(err, STATUS_FORMAT,
                       "first bad block: 0, the header (byte offset 0): impossible sizes");
    struct hash128 got = hash_bytes(t->bytes, (size_t)h.data_offset);
    if (memcmp(&got, t->bytes + table, sizeof got) != 0)
        return err_set(err, STATUS_FORMAT, "first bad block: 0, the header (byte offset 0): hash differs");
    t->shape.dtype = (enum dtype)h.dtype;
    t->shape.n_dims = h.n_dims > DIMS ? DIMS + 1 : (int)h.n_dims;
    memcpy(t->shape.ne, h.ne, sizeof h.ne);
    RETURN_IF_ERROR(tensor_shape_check(&t->shape, &t->data_bytes, err));
    t->data_offset = h.data_offset;
    if (f->n_blocks != 1 + data_blocks(t->data_bytes) || table - h.data_offset != t->data_bytes)
        return err_set(err, STATUS_FORMAT,
                       "%" PRIu64 " bytes of data at byte offset %" PRIu64 " where the shape needs %" PRIu64,
                       table - h.data_offset, h.data_offset, t->data_bytes);
    const void *text = t->bytes + sizeof h;
    return provenance_parse(text, (size_t)h.header_bytes, &t->provenance, err);
}

static enum status verify(tensor_dump *t, struct err *err) {
    struct tensor_footer f;
    RETURN_IF_ERROR(check_footer(t, &f, err));
    RETURN_IF_ERROR(check_header(t, &f, err));
    const uint8_t *table = t->bytes + t->size - sizeof f - f.n_blocks * sizeof(struct hash128);
    const struct dtype_info *info = dtype_info((int)t->shape.dtype);
    for (uint64_t b = 0; b < data_blocks(t->data_bytes); b++) {
        uint64_t start = b * BLOCK, left = t->data_bytes - start, n = left < BLOCK ? left : BLOCK;
        struct hash128 h = hash_bytes(t->bytes + t->data_offset + start, (size_t)n);
        if (memcmp(&h, table + (1 + b) * sizeof h, sizeof h) != 0)
            return err_set(
                err, STATUS_FORMAT,
                "first bad block: %" PRIu64 " (byte offset %" PRIu64 ", elements %" PRIu64 "..%" PRIu64
                "): hash differs",
                1 + b, t->data_offset + start, start / (uint64_t)info->bytes * (uint64_t)info->block,
                (start + n - 1) / (uint64_t)info->bytes * (uint64_t)info->block + (uint64_t)info->block - 1);
    }
    t->content = f.content;
    return STATUS_OK;
}

/* Takes over the file, also when it fails. */
static enum status open_file(struct file_map *file, tensor_dump **out, struct err *err) {
    tensor_dump *t = calloc(1, sizeof *t);
    if (t == NULL) {
        enum status s = err_set(err, STATUS_NOMEM, "%s: out of memory", file->name);
        file_map_close(file);
        return s;
    }
    t->file = *file;
    t->bytes = file->bytes;
    t->size = file->size;
    provenance_init(&t->provenance);
    enum status s = verify(t, err);
    if (s == STATUS_OK)
        *out = t;
    else {
        s = err_prefix(err, s, "%s", file->name);
        tensor_dump_close(t);
    }
    return s;
}

enum status tensor_dump_open_memory(const void *bytes, size_t n, const char *name, tensor_dump **out,
                                    struct err *err) {
    struct file_map file;
    *out = NULL;
    uint8_t *copy = malloc(n + 1); /* aligned for every dtype */
    if (copy == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", name);
    memcpy(copy, n == 0 ? "" : bytes, n);
    RETURN_IF_ERROR(file_map_memory(copy, n, name, copy, &file, err));
    return open_file(&file, out, err);
}

enum status tensor_dump_open(const char *path, tensor_dump **out, struct err *err) {
    struct file_map file;
    *out = NULL;
    RETURN_IF_ERROR(file_map_open(path, path, &file, err));
    return open_file(&file, out, err);
}

void tensor_dump_close(tensor_dump *t) {
    if (t == NULL) return;
    file_map_close(&t->file);
    provenance_free(&t->provenance);
    free(t);
}

const char *tensor_dump_name(const tensor_dump *t) {
    return t->file.name;
}
struct tensor_shape tensor_dump_shape(const tensor_dump *t) {
    return t->shape;
}
const void *tensor_dump_data(const tensor_dump *t) {
    return t->bytes + t->data_offset;
}
const struct provenance *tensor_dump_provenance(const tensor_dump *t) {
    return &t->provenance;
}
struct hash128 tensor_dump_hash(const tensor_dump *t) {
    return t->content;
}

uint64_t tensor_dump_elements(const tensor_dump *t) {
    return t->shape.ne[0] * t->shape.ne[1] * t->shape.ne[2] * t->shape.ne[3];
}

void tensor_dump_values(const tensor_dump *t, uint64_t first, uint64_t n, float *out) {
    const uint8_t *data = t->bytes + t->data_offset + dtype_bytes(t->shape.dtype, first);
    dtype_dequantise(t->shape.dtype, data, out, (size_t)n);
}
