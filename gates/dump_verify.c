/* dump_verify.c - is every byte of a dump the byte that was written, and can every record be judged?
 * Not a comparison: NaN and foreign ids are noted here, and refused by the diff.
 * Idea: a block is hashed and its records are checked while it is in cache, so verification is one pass over memory.
 * Source: ours. Exercise: ctest -R unit.dump ; bench_diff */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "gates/dump_format.h"

#define F32_EXPONENT 0x7f800000u
#define PAGE_BYTES   4096u

/* ---- what makes a record impossible to judge ---- */

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static int not_finite(float x) {
    return (bits_of(x) & F32_EXPONENT) == F32_EXPONENT;
}
static int minus_infinity(float x) {
    return bits_of(x) == 0xff800000u;
}
static int double_not_finite(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}

static const char *row_fault(const dump *d, uint64_t i, const struct dump_record *r) {
    int n = 0;
    const float *row = dump_logits(d, i, &n);
    for (int v = 0; v < n; v++) {
        if (not_finite(row[v]) && !minus_infinity(row[v])) return "a logit of the stored row is NaN or +Inf";
        if (!(r->flags & DUMP_NO_TOP1) && row[v] > r->logit1)
            return "the stored row has a logit above the recorded top-1";
    }
    return NULL;
}

static const char *record_fault(const dump *d, uint64_t i) {
    const struct dump_record *r = dump_record_at(d, i);
    if (!(r->flags & DUMP_NO_ID) && (uint32_t)r->token >= d->n_vocab)
        return "the token id is outside the vocabulary";
    if (!(r->flags & DUMP_NO_TOP1)) {
        if (not_finite(r->logit1)) return "the top-1 logit is NaN or infinite";
        if ((uint32_t)r->id1 >= d->n_vocab && !(r->id1 == -1 && (r->flags & DUMP_NO_ID)))
            return "the top-1 id is outside the vocabulary";
    }
    if (!(r->flags & DUMP_NO_TOP2)) {
        if (not_finite(r->logit2) && !minus_infinity(r->logit2)) return "the top-2 logit is NaN or +Inf";
        if ((uint32_t)r->id2 >= d->n_vocab && !(r->id2 == -1 && (r->flags & DUMP_NO_ID)))
            return "the top-2 id is outside the vocabulary";
        if (!(r->flags & DUMP_NO_TOP1) && r->logit2 > r->logit1)
            return "the top-2 logit is above the top-1 logit";
    }
    if (!(r->flags & DUMP_NO_LSE) && double_not_finite(r->logsumexp))
        return "the logsumexp is NaN or infinite";
    return d->at.n_logits > 0 ? row_fault(d, i, r) : NULL;
}

/* ---- verification ---- */

struct doubts {
    uint64_t invalid; /* some record may be impossible to judge; record_fault has the last word */
    uint64_t flags;   /* flags of all records together */
};

/* Asks for a cache line of the next block while this one is checked: the memory would idle otherwise. */
static void fetch_ahead(const uint8_t *at) {
#if defined(__SSE__)
    const void *line = at;
    _mm_prefetch(line, _MM_HINT_T0);
#else
    (void)at;
#endif
}

/* Sign bit set when the exponent is all ones: NaN or infinite. */
static uint32_t f32_special(float x) {
    return (bits_of(x) & F32_EXPONENT) + 0x00800000u;
}

static uint64_t f64_special(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7ff0000000000000u) + 0x0010000000000000u;
}

/* Places and flags of records [from, to). No branch inside: what must not be is gathered in sign bits, so that the loop
 * keeps up with the hash. */
static int records_in_place(const dump *d, uint64_t from, uint64_t to, uint64_t *text_sum,
                            struct doubts *doubts) {
    uint64_t bad = 0, doubt = 0, flags = 0, text = *text_sum;
    uint32_t special = 0;
    const int64_t last = (int64_t)d->n_vocab - 1;
    const uint64_t stride = d->at.stride, ahead = d->at.table_offset - DUMP_BLOCK;
    uint64_t at = d->at.records_offset + from * stride;
    for (uint64_t i = from; i < to; i++, at += stride) {
        const void *place = d->bytes + at;
        const struct dump_record *r = place;
        fetch_ahead(d->bytes + at + (at < ahead ? DUMP_BLOCK : 0));
        bad |= (uint64_t)(r->step ^ (uint32_t)i) | (r->text_offset ^ text);
        text += r->text_bytes;
        flags |= r->flags;
        doubt |= (uint64_t)(last - (int64_t)(uint32_t)r->token) |
                 (uint64_t)(last - (int64_t)(uint32_t)r->id1) | (uint64_t)(last - (int64_t)(uint32_t)r->id2) |
                 f64_special(r->logsumexp);
        special |= f32_special(r->logit1) | f32_special(r->logit2) | bits_of(r->logit1 - r->logit2);
    }
    *text_sum = text;
    doubts->invalid = doubt >> 63 | special >> 31 | d->at.n_logits;
    doubts->flags = flags;
    return bad == 0 && (flags & ~(uint64_t)DUMP_FLAGS_KNOWN) == 0;
}

static enum status out_of_place(const dump *d, uint64_t from, uint64_t to, uint64_t text_at,
                                struct err *err) {
    for (uint64_t i = from; i < to; i++) {
        const struct dump_record *r = dump_record_at(d, i);
        const char *what = r->step != (uint32_t)i                ? "step"
                           : r->text_offset != text_at           ? "text offset"
                           : (r->flags & ~DUMP_FLAGS_KNOWN) != 0 ? "flags"
                                                                 : NULL;
        if (what != NULL)
            return err_set(err, STATUS_FORMAT, "record %" PRIu64 " at byte offset %" PRIu64 ": impossible %s",
                           i, d->at.records_offset + i * d->at.stride, what);
        text_at += r->text_bytes;
    }
    return err_set(err, STATUS_FORMAT, "records %" PRIu64 "..%" PRIu64 " contradict their places", from,
                   to - 1);
}

static void find_invalid(dump *d, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to && d->invalid == UINT64_MAX; i++) {
        d->invalid_reason = record_fault(d, i);
        if (d->invalid_reason != NULL) d->invalid = i;
    }
}

static int block_ok(const dump *d, uint64_t block, uint64_t offset, uint64_t n) {
    struct hash128 h = hash_bytes(d->bytes + offset, (size_t)n);
    return memcmp(&h, d->bytes + d->at.table_offset + block * sizeof h, sizeof h) == 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void find_flag(const dump *d, uint32_t flag, uint64_t from, uint64_t to, uint64_t *first) {
    for (uint64_t i = from; i < to && *first == UINT64_MAX; i++)
        if (dump_record_at(d, i)->flags & flag) *first = i;
}

/* A prefetch does nothing on a page that is not mapped yet: the page faults of the next block are taken here. */
static void touch_next(const dump *d, uint64_t from) {
    const volatile uint8_t *bytes = d->bytes;
    for (uint64_t at = from; at < from + DUMP_BLOCK && at < d->size; at += PAGE_BYTES) (void)bytes[at];
}

enum status dump_verify_records(dump *d, uint64_t block, struct err *err) {
    uint64_t start = block * DUMP_BLOCK, end = least(start + DUMP_BLOCK, d->at.count * d->at.stride);
    if (!block_ok(d, 1 + block, d->at.records_offset + start, end - start))
        return dump_damage_block(d->bytes, &d->at, 1 + block, err);
    touch_next(d, d->at.records_offset + end);
    uint64_t from = d->verified, to = end / d->at.stride, text_before = d->text_sum;
    struct doubts doubts = {0, 0};
    if (!records_in_place(d, from, to, &d->text_sum, &doubts))
        return out_of_place(d, from, to, text_before, err);
    if (doubts.invalid) find_invalid(d, from, to);
    if (doubts.flags & DUMP_END) find_flag(d, DUMP_END, from, to, &d->first_end);
    if (doubts.flags & DUMP_NO_ID) find_flag(d, DUMP_NO_ID, from, to, &d->first_without_id);
    d->verified = to;
    return STATUS_OK;
}

enum status dump_verify_text(dump *d, struct err *err) {
    if (d->text_sum != d->at.text_bytes)
        return err_set(err, STATUS_FORMAT, "records claim %" PRIu64 " token bytes, the file holds %" PRIu64,
                       d->text_sum, d->at.text_bytes);
    for (uint64_t b = 0; b < d->at.text_blocks; b++) {
        uint64_t start = b * DUMP_BLOCK, end = least(start + DUMP_BLOCK, d->at.text_bytes);
        uint64_t block = 1 + d->at.record_blocks + b;
        if (!block_ok(d, block, d->at.text_offset + start, end - start))
            return dump_damage_block(d->bytes, &d->at, block, err);
    }
    return STATUS_OK;
}

/* The block table is found from the footer alone, so a damaged header cannot mislead its own check. */
static enum status verify_table(const dump *d, const struct dump_footer *f, struct err *err) {
    uint64_t body = d->size - sizeof *f, each = sizeof(struct hash128);
    if (f->n_blocks == 0 || f->n_blocks > (body - sizeof(struct dump_header)) / each)
        return err_set(err, STATUS_FORMAT, "first bad block: footer: %" PRIu64 " blocks do not fit",
                       f->n_blocks);
    uint64_t table = body - f->n_blocks * each;
    struct hash128 h = hash_bytes(d->bytes + table, (size_t)(f->n_blocks * each));
    if (!hash_equal(&h, &f->table))
        return err_set(err, STATUS_FORMAT,
                       "first bad block: the block table (byte offset %" PRIu64 "): hash differs", table);
    struct dump_header header;
    memcpy(&header, d->bytes, sizeof header);
    if (header.records_offset > table) return dump_damage_block(d->bytes, NULL, 0, err);
    h = hash_bytes(d->bytes, (size_t)header.records_offset);
    if (memcmp(&h, d->bytes + table, sizeof h) != 0) return dump_damage_block(d->bytes, NULL, 0, err);
    return STATUS_OK;
}

/* Header and footer are whole but the size is not theirs: bytes are missing or extra in between. */
static enum status wrong_size(dump *d, const struct dump_footer *f, struct err *err) {
    uint64_t table = d->size - sizeof *f - f->n_blocks * sizeof(struct hash128);
    if (f->n_blocks == d->at.n_blocks) {
        for (uint64_t b = 0; b < d->at.record_blocks; b++) {
            uint64_t start = b * DUMP_BLOCK, end = least(start + DUMP_BLOCK, d->at.count * d->at.stride);
            uint64_t offset = d->at.records_offset + start;
            struct hash128 h = {{0}};
            if (offset + (end - start) <= table) h = hash_bytes(d->bytes + offset, (size_t)(end - start));
            if (memcmp(&h, d->bytes + table + (1 + b) * sizeof h, sizeof h) != 0) {
                enum status s = dump_damage_block(d->bytes, &d->at, 1 + b, err);
                return err_prefix(err, s, "%zu bytes where %" PRIu64 " belong", d->size, d->at.file_bytes);
            }
        }
    }
    return err_set(err, STATUS_FORMAT,
                   "%zu bytes where %" PRIu64 " belong: bytes are missing or extra after byte "
                   "offset %" PRIu64,
                   d->size, d->at.file_bytes, d->at.text_offset);
}

static enum status verify_frame(dump *d, struct err *err) {
    struct dump_header h;
    struct dump_footer f;
    if (d->size == 0) return err_set(err, STATUS_FORMAT, "0 bytes: empty file, not a dump");
    size_t mark = d->size < DUMP_MARK_BYTES ? d->size : DUMP_MARK_BYTES;
    if (memcmp(d->bytes, DUMP_MAGIC, mark) != 0)
        return err_set(err, STATUS_FORMAT, "first bad block: header (byte offset 0): not a forkgate dump");
    if (d->size < sizeof h + sizeof f) return dump_damage_no_footer(d->bytes, d->size, err);
    memcpy(&h, d->bytes, sizeof h);
    if (h.version != DUMP_VERSION)
        return err_set(err, STATUS_FORMAT,
                       "header (byte offset 8): dump version %" PRIu32 "; this build reads %u", h.version,
                       DUMP_VERSION);
    memcpy(&f, d->bytes + d->size - sizeof f, sizeof f);
    struct hash128 self = dump_footer_self(&f);
    if (memcmp(f.mark, DUMP_FOOTER_MARK, DUMP_MARK_BYTES) != 0 || !hash_equal(&self, &f.self))
        return dump_damage_no_footer(d->bytes, d->size, err);
    RETURN_IF_ERROR(verify_table(d, &f, err));
    RETURN_IF_ERROR(dump_layout_of(&h, &d->at, err));
    if (d->at.file_bytes != d->size) return wrong_size(d, &f, err);
    if (f.count != d->at.count || f.text_bytes != d->at.text_bytes || f.n_blocks != d->at.n_blocks)
        return err_set(err, STATUS_FORMAT, "header and footer disagree about count or sizes");
    d->results.stream = f.stream;
    d->results.logits = f.logits;
    return STATUS_OK;
}

static uint32_t vocabulary_of(const struct provenance *p) {
    const char *text = provenance_get(p, "n_vocab");
    if (text == NULL) return (uint32_t)1 << 31;
    char *end = NULL;
    unsigned long long n = strtoull(text, &end, 10);
    return *text == '\0' || *end != '\0' || n > INT32_MAX ? 0 : (uint32_t)n; /* 0: no id is inside */
}

enum status dump_verify_frame(dump *d, struct err *err) {
    RETURN_IF_ERROR(verify_frame(d, err));
    const void *text = d->bytes + sizeof(struct dump_header);
    RETURN_IF_ERROR(provenance_parse(text, (size_t)d->at.header_bytes, &d->provenance, err));
    d->n_vocab = vocabulary_of(&d->provenance);
    return STATUS_OK;
}
