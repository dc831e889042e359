/* dump_read.c - the reading half of dump.h: map, verify once, then hand out pointers into the map.
 * Not a parser with modes: a dump is verified as a whole before the first record can be asked for.
 * Source: ours. Exercise: ctest -R unit.dump ; bench_diff */
#include <stdlib.h>
#include <string.h>

#include "gates/dump_format.h"

const char *dump_name(const dump *d) {
    return d->name;
}
uint64_t dump_count(const dump *d) {
    return d->at.count;
}
const struct provenance *dump_provenance(const dump *d) {
    return &d->provenance;
}
struct dump_results dump_results(const dump *d) {
    return d->results;
}
struct hash128 dump_content_hash(const dump *d) {
    return hash_bytes(d->bytes, d->size);
}

const void *dump_bytes(const dump *d, size_t *n) {
    *n = d->size;
    return d->bytes;
}

static const uint8_t *record_bytes(const dump *d, uint64_t i) {
    return d->bytes + d->at.records_offset + i * d->at.stride;
}

const struct dump_record *dump_record_at(const dump *d, uint64_t i) {
    const void *r = record_bytes(d, i); /* stride and records_offset are multiples of 8 */
    return r;
}

uint64_t dump_stride(const dump *d) {
    return d->at.stride;
}

const struct dump_top *dump_top_k(const dump *d, uint64_t i, int *k) {
    const void *top = record_bytes(d, i) + sizeof(struct dump_record);
    *k = (int)d->at.n_top_k;
    return d->at.n_top_k == 0 ? NULL : top;
}

const float *dump_logits(const dump *d, uint64_t i, int *n_vocab) {
    const void *row =
        record_bytes(d, i) + sizeof(struct dump_record) + d->at.n_top_k * sizeof(struct dump_top);
    *n_vocab = (int)d->at.n_logits;
    return d->at.n_logits == 0 ? NULL : row;
}

const uint8_t *dump_text(const dump *d, uint64_t i, uint32_t *n) {
    const struct dump_record *r = dump_record_at(d, i);
    *n = r->text_bytes;
    return d->bytes + d->at.text_offset + r->text_offset;
}

static int same_table(const dump *a, uint64_t block_a, const dump *b, uint64_t block_b, uint64_t n) {
    const size_t each = sizeof(struct hash128);
    return memcmp(a->bytes + a->at.table_offset + block_a * each,
                  b->bytes + b->at.table_offset + block_b * each, (size_t)n * each) == 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

int dump_records_equal(const dump *a, const dump *b, uint64_t from, uint64_t to, uint64_t *end) {
    if (a->at.stride != b->at.stride || a->at.n_top_k != b->at.n_top_k || a->at.n_logits != b->at.n_logits)
        return 0;
    uint64_t shorter = least(a->at.count, b->at.count), stride = a->at.stride;
    to = least(to, shorter);
    if (from >= to) return 0;
    uint64_t block = from * stride / DUMP_BLOCK, bytes = shorter * stride;
    uint64_t stop =
        (to * stride + DUMP_BLOCK - 1) / DUMP_BLOCK; /* never further than asked: called once a block */
    while (block < stop && same_table(a, 1 + block, b, 1 + block, 1)) block++;
    *end = least(least(block * DUMP_BLOCK, bytes) / stride, to);
    return *end > from;
}

int dump_texts_equal(const dump *a, const dump *b) {
    return a->at.text_bytes == b->at.text_bytes &&
           same_table(a, 1 + a->at.record_blocks, b, 1 + b->at.record_blocks, a->at.text_blocks);
}

uint64_t dump_first_invalid(const dump *d, const char **reason) {
    *reason = d->invalid_reason;
    if (d->invalid != UINT64_MAX) return d->invalid;
    const char *overflows = provenance_get(&d->provenance, "overflows");
    if (overflows == NULL || strcmp(overflows, "0") == 0) return UINT64_MAX;
    *reason = "its provenance counts overflows";
    return 0;
}

uint32_t dump_flags(const dump *d) {
    return d->flags;
}
uint64_t dump_first_end(const dump *d) {
    return d->first_end;
}
uint64_t dump_first_without_id(const dump *d) {
    return d->first_without_id;
}

uint64_t dump_block_end(const dump *d, uint64_t i) {
    uint64_t next = (i * d->at.stride / DUMP_BLOCK + 1) * DUMP_BLOCK;
    return (next + d->at.stride - 1) / d->at.stride;
}

/* Takes over the file, also when it fails. Only the frame is verified. */
static enum status open_file(struct file_map *file, dump **out, struct err *err) {
    dump *d = calloc(1, sizeof *d);
    if (d == NULL) {
        enum status s = err_set(err, STATUS_NOMEM, "%s: out of memory", file->name);
        file_map_close(file);
        return s;
    }
    d->file = *file;
    d->name = file->name;
    d->bytes = file->bytes;
    d->size = file->size;
    d->invalid = UINT64_MAX;
    d->first_end = UINT64_MAX;
    d->first_without_id = UINT64_MAX;
    provenance_init(&d->provenance);
    enum status s = dump_verify_frame(d, err);
    if (s == STATUS_OK)
        *out = d;
    else {
        s = err_prefix(err, s, "%s", d->name);
        dump_close(d);
    }
    return s;
}

/* The other steps. Closes the dump when one fails. */
static enum status verify_rest(dump **out, struct err *err) {
    dump *d = *out;
    enum status s = STATUS_OK;
    for (uint64_t b = 0; b < d->at.record_blocks && s == STATUS_OK; b++) {
        s = dump_verify_block(d, b, err);
        if (s == STATUS_OK) s = dump_verify_places(d, UINT64_MAX, err);
    }
    if (s == STATUS_OK) s = dump_verify_text(d, err);
    if (s == STATUS_OK) s = dump_verify_results(d, err);
    if (s == STATUS_OK) return s;
    *out = NULL;
    s = err_prefix(err, s, "%s", d->name);
    dump_close(d);
    return s;
}

static enum status open_memory(const void *bytes, size_t n, const char *name, uint8_t *owned, dump **out,
                               struct err *err) {
    struct file_map file;
    *out = NULL;
    RETURN_IF_ERROR(file_map_memory(bytes, n, name, owned, &file, err));
    RETURN_IF_ERROR(open_file(&file, out, err));
    return verify_rest(out, err);
}

enum status dump_open_owned(uint8_t *bytes, size_t n, const char *name, dump **out, struct err *err) {
    return open_memory(bytes, n, name, bytes, out, err);
}

enum status dump_open_memory(const void *bytes, size_t n, const char *name, dump **out, struct err *err) {
    if ((uintptr_t)bytes % sizeof(uint64_t) == 0) return open_memory(bytes, n, name, NULL, out, err);
    *out = NULL;
    uint8_t *aligned = malloc(n + 1); /* records are read in place: they need their alignment */
    if (aligned == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", name);
    memcpy(aligned, bytes, n);
    return dump_open_owned(aligned, n, name, out, err);
}

static enum status open_frame_as(const char *path, const char *name, dump **out, struct err *err) {
    struct file_map file;
    *out = NULL;
    RETURN_IF_ERROR(file_map_open(path, name, &file, err));
    return open_file(&file, out, err);
}

enum status dump_open_frame(const char *path, dump **out, struct err *err) {
    return open_frame_as(path, path, out, err);
}

enum status dump_open_as(const char *path, const char *name, dump **out, struct err *err) {
    RETURN_IF_ERROR(open_frame_as(path, name, out, err));
    return verify_rest(out, err);
}

enum status dump_open(const char *path, dump **out, struct err *err) {
    return dump_open_as(path, path, out, err);
}

void dump_close(dump *d) {
    if (d == NULL) return;
    file_map_close(&d->file);
    provenance_free(&d->provenance);
    free(d);
}
