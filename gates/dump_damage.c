/* dump_damage.c - the layout of a dump from its header, and one sentence about where a damaged file stops making sense.
 * Not a repair tool: nothing here salvages a record.
 * Source: ours. Exercise: ctest -R unit.dump */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gates/dump_format.h"

uint32_t dump_stride_of(uint32_t n_top_k, uint32_t n_logits) {
    return (uint32_t)((sizeof(struct dump_record) + n_top_k * sizeof(struct dump_top) +
                       n_logits * sizeof(float) + 7u) /
                      8u * 8u);
}

uint64_t dump_records_offset(uint64_t header_bytes) {
    return (sizeof(struct dump_header) + header_bytes + DUMP_HEADER_UNIT - 1) / DUMP_HEADER_UNIT *
           DUMP_HEADER_UNIT;
}

static uint64_t blocks_of(uint64_t bytes) {
    return (bytes + DUMP_BLOCK - 1) / DUMP_BLOCK;
}

static enum status bad_field(struct err *err, const char *name, uint64_t value) {
    return err_set(err, STATUS_FORMAT, "first bad block: header (byte offset 0): field %s = %" PRIu64, name,
                   value);
}

enum status dump_layout_of(const struct dump_header *h, struct dump_layout *out, struct err *err) {
    if (h->n_top_k > DUMP_TOP_K_MAX) return bad_field(err, "n_top_k", h->n_top_k);
    if (h->n_logits > DUMP_LOGITS_MAX) return bad_field(err, "n_logits", h->n_logits);
    if (h->stride != dump_stride_of(h->n_top_k, h->n_logits)) return bad_field(err, "stride", h->stride);
    if (h->header_bytes > DUMP_HEADER_MAX) return bad_field(err, "header_bytes", h->header_bytes);
    if (h->count > UINT32_MAX) return bad_field(err, "count", h->count);
    if (h->text_bytes > DUMP_TEXT_MAX) return bad_field(err, "text_bytes", h->text_bytes);
    if (h->records_offset != dump_records_offset(h->header_bytes))
        return bad_field(err, "records_offset", h->records_offset);
    if (h->zero != 0) return bad_field(err, "zero", h->zero);
    struct dump_layout l;
    memset(&l, 0, sizeof l);
    l.stride = h->stride;
    l.n_top_k = h->n_top_k;
    l.n_logits = h->n_logits;
    l.count = h->count;
    l.header_bytes = h->header_bytes;
    l.text_bytes = h->text_bytes;
    l.records_offset = h->records_offset;
    l.text_offset = l.records_offset + l.count * l.stride; /* < 2^21 + 2^32 * 2^27 */
    l.table_offset = l.text_offset + l.text_bytes;
    l.record_blocks = blocks_of(l.count * l.stride);
    l.text_blocks = blocks_of(l.text_bytes);
    l.n_blocks = 1 + l.record_blocks + l.text_blocks;
    l.footer_offset = l.table_offset + l.n_blocks * sizeof(struct hash128);
    l.file_bytes = l.footer_offset + sizeof(struct dump_footer);
    *out = l;
    return STATUS_OK;
}

struct hash128 dump_footer_self(const struct dump_footer *f) {
    return hash_bytes(f, sizeof *f - sizeof f->self);
}

static enum status cut_short(const struct dump_layout *l, uint64_t n, struct err *err) {
    if (n < l->records_offset)
        return err_set(err, STATUS_FORMAT,
                       "cut short at byte offset %" PRIu64 " of %" PRIu64 ", inside the header", n,
                       l->file_bytes);
    if (n < l->text_offset)
        return err_set(err, STATUS_FORMAT,
                       "cut short at byte offset %" PRIu64 " of %" PRIu64 ": record %" PRIu64 " of %" PRIu64
                       " has %" PRIu64 " of its %" PRIu64 " bytes",
                       n, l->file_bytes, (n - l->records_offset) / l->stride, l->count,
                       (n - l->records_offset) % l->stride, l->stride);
    const char *where = n < l->table_offset    ? "the token bytes"
                        : n < l->footer_offset ? "the block table"
                                               : "the footer";
    return err_set(err, STATUS_FORMAT,
                   "cut short at byte offset %" PRIu64 " of %" PRIu64 ", inside %s (%" PRIu64
                   " records precede it)",
                   n, l->file_bytes, where, l->count);
}

enum status dump_damage_no_footer(const uint8_t *bytes, size_t n, struct err *err) {
    struct dump_header h;
    if (n < sizeof h)
        return err_set(err, STATUS_FORMAT, "cut short at byte offset %zu, inside the header", n);
    memcpy(&h, bytes, sizeof h);
    struct dump_layout l = {0};
    RETURN_IF_ERROR(dump_layout_of(&h, &l, err));
    if (n < l.file_bytes) return cut_short(&l, n, err);
    if (n > l.file_bytes)
        return err_set(err, STATUS_FORMAT,
                       "%" PRIu64 " bytes follow the end of the dump at byte offset %" PRIu64,
                       n - l.file_bytes, l.file_bytes);
    return err_set(err, STATUS_FORMAT,
                   "first bad block: footer (byte offset %" PRIu64 "): it does not match its own hash",
                   l.footer_offset);
}

/* The first record of the block that contradicts its place, or UINT64_MAX: narrows a cut in the middle of a file. */
static uint64_t misplaced_record(const uint8_t *bytes, const struct dump_layout *l, uint64_t first,
                                 uint64_t last) {
    for (uint64_t i = first; i <= last; i++) {
        struct dump_record r;
        memcpy(&r, bytes + l->records_offset + i * l->stride, sizeof r);
        if (r.step != (uint32_t)i) return i;
    }
    return UINT64_MAX;
}

enum status dump_damage_block(const uint8_t *bytes, const struct dump_layout *l, uint64_t block,
                              struct err *err) {
    if (block == 0)
        return err_set(err, STATUS_FORMAT, "first bad block: 0, the header (byte offset 0): hash differs");
    if (block > l->record_blocks) {
        uint64_t at = l->text_offset + (block - 1 - l->record_blocks) * DUMP_BLOCK;
        return err_set(err, STATUS_FORMAT,
                       "first bad block: %" PRIu64 " (byte offset %" PRIu64 ", token bytes): hash differs",
                       block, at);
    }
    uint64_t start = (block - 1) * DUMP_BLOCK, end = start + DUMP_BLOCK;
    if (end > l->count * l->stride) end = l->count * l->stride;
    uint64_t first = start / l->stride, last = (end - 1) / l->stride;
    uint64_t whole_first = (start + l->stride - 1) / l->stride, whole_end = end / l->stride;
    uint64_t odd =
        whole_end > whole_first ? misplaced_record(bytes, l, whole_first, whole_end - 1) : UINT64_MAX;
    char note[96] = "";
    if (odd != UINT64_MAX)
        (void)snprintf(note, sizeof note, "; record %" PRIu64 " at byte offset %" PRIu64 " is out of place",
                       odd, l->records_offset + odd * l->stride);
    return err_set(err, STATUS_FORMAT,
                   "first bad block: %" PRIu64 " (byte offset %" PRIu64 ", records %" PRIu64 "..%" PRIu64
                   "): hash differs%s",
                   block, l->records_offset + start, first, last, note);
}
