/* dump_verify.c - is every byte of a dump the byte that was written, and can every record be judged?
 * Not a comparison: NaN and foreign ids are noted here, and refused by the diff.
 * Idea: a block is hashed and its records are checked while it is in cache, so verification is one pass over memory.
 * Source: ours. Exercise: ctest -R unit.dump ; bench_diff */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "gates/dump_format.h"
#include "gates/tensor_dump.h"

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

/* What was recorded apart may not contradict the recorded top two: the judgement takes them for the highest. */
static const char *above(const struct dump_record *r, int32_t id, float logit, const char *top1,
                         const char *top2) {
    if (!(r->flags & DUMP_NO_TOP1) && logit > r->logit1) return top1;
    int known = !(r->flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) && r->id1 >= 0;
    return known && id != r->id1 && logit > r->logit2 ? top2 : NULL;
}

static const char *row_fault(const dump *d, uint64_t i, const struct dump_record *r) {
    int n = 0;
    const float *row = dump_logits(d, i, &n);
    for (int v = 0; v < n; v++) {
        if (not_finite(row[v]) && !minus_infinity(row[v])) return "a logit of the stored row is NaN or +Inf";
        const char *fault = above(r, v, row[v], "the stored row has a logit above the recorded top-1",
                                  "the stored row has a second logit above the recorded top-2");
        if (fault != NULL) return fault;
    }
    if (n == 0 || (r->flags & DUMP_NO_HASH)) return NULL;
    struct hash128 h = hash_logits(row, (size_t)n);
    return hash_equal(&h, &r->row) ? NULL : "the stored row does not hash to the recorded row hash";
}

/* A list longer than the vocabulary ends in entries of id -1 at -Inf. */
static const char *top_k_fault(const dump *d, uint64_t i, const struct dump_record *r) {
    int n = 0;
    const struct dump_top *top = dump_top_k(d, i, &n);
    for (int k = 0; k < n; k++) {
        if (top[k].id == -1 && minus_infinity(top[k].logit)) continue;
        if (not_finite(top[k].logit) && !minus_infinity(top[k].logit)) return "a top-k logit is NaN or +Inf";
        if ((uint32_t)top[k].id >= d->n_vocab) return "a top-k id is outside the vocabulary";
        const char *fault = above(r, top[k].id, top[k].logit, "a top-k logit is above the recorded top-1",
                                  "a second top-k logit is above the recorded top-2");
        if (fault != NULL) return fault;
    }
    return NULL;
}

static const char *record_fault(const dump *d, uint64_t i) {
    const struct dump_record *r = dump_record_at(d, i);
    if (!(r->flags & DUMP_NO_TOP1) && not_finite(r->logit1)) /* the cause, before the id that came of it */
        return "the top-1 logit is NaN or infinite";
    if (!(r->flags & DUMP_NO_ID) && (uint32_t)r->token >= d->n_vocab)
        return "the token id is outside the vocabulary";
    if (!(r->flags & DUMP_NO_TOP1)) {
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
    const char *fault = top_k_fault(d, i, r);
    return fault != NULL ? fault : row_fault(d, i, r);
}

/* ---- verification ---- */

struct doubts {
    uint64_t invalid; /* some record may be impossible to judge; record_fault has the last word */
    uint64_t flags;   /* flags of all records together */
};

#if defined(__SSE2__)
/* Asks for a cache line of the next block while this one is checked: the memory would idle otherwise. */
static void fetch_ahead(const uint8_t *at) {
    const void *line = at;
    _mm_prefetch(line, _MM_HINT_T0);
}

/* What the records say together, one accumulator a question; a record is four vectors of four 32-bit lanes:
 * a = step token id1 logit1, b = id2 logit2 logsumexp(2), c = flags text_bytes text_offset(2), row hash. */
struct gathered {
    __m128i id_signs_a, id_signs_b; /* sign of a lane: an id below 0 or above the vocabulary */
    __m128i special_a, special_b;   /* sign of a lane: an exponent of all ones: NaN or infinite */
    __m128i steps, flags, order;    /* lane 0: steps that are not in step; flags; lane 3: top-2 above top-1 */
    uint64_t offsets;               /* text offsets that are not the sum so far */
};

static uint32_t lane(__m128i v, int i) {
    uint32_t lanes[4];
    _mm_storeu_si128((__m128i *)(void *)lanes, v);
    return lanes[i];
}

static struct gathered gather(const dump *d, uint64_t from, uint64_t to, uint64_t *text_sum) {
    const __m128i zero = _mm_setzero_si128(), one = _mm_set_epi32(0, 0, 0, 1),
                  last = _mm_set1_epi32((int)(d->n_vocab - 1));
    const __m128i exp_a = _mm_set_epi32(F32_EXPONENT, 0, 0, 0), add_a = _mm_set_epi32(0x00800000, 0, 0, 0);
    const __m128i exp_b = _mm_set_epi32(0x7ff00000, 0, F32_EXPONENT, 0),
                  add_b = _mm_set_epi32(0x00100000, 0, 0x00800000, 0);
    struct gathered g = {zero, zero, zero, zero, zero, zero, zero, 0};
    const uint64_t stride = d->at.stride, ahead = d->at.table_offset - DUMP_BLOCK;
    uint64_t at = d->at.records_offset + from * stride, text = *text_sum;
    __m128i step = _mm_set_epi32(0, 0, 0, (int)(uint32_t)from);
    for (uint64_t i = from; i < to; i++, at += stride) {
        const void *place = d->bytes + at;
        const struct dump_record *r = place;
        const __m128i *lanes = place;
        __m128i a = _mm_loadu_si128(lanes), b = _mm_loadu_si128(lanes + 1), c = _mm_loadu_si128(lanes + 2);
        fetch_ahead(d->bytes + at + (at < ahead ? DUMP_BLOCK : 0));
        g.id_signs_a = _mm_or_si128(g.id_signs_a, _mm_or_si128(a, _mm_sub_epi32(last, a)));
        g.id_signs_b = _mm_or_si128(g.id_signs_b, _mm_or_si128(b, _mm_sub_epi32(last, b)));
        g.special_a = _mm_or_si128(g.special_a, _mm_add_epi32(_mm_and_si128(a, exp_a), add_a));
        g.special_b = _mm_or_si128(g.special_b, _mm_add_epi32(_mm_and_si128(b, exp_b), add_b));
        g.steps = _mm_or_si128(g.steps, _mm_xor_si128(a, step));
        g.flags = _mm_or_si128(g.flags, c);
        __m128 second = _mm_castsi128_ps(_mm_shuffle_epi32(b, _MM_SHUFFLE(1, 1, 1, 1)));
        g.order = _mm_or_si128(g.order, _mm_castps_si128(_mm_cmplt_ps(_mm_castsi128_ps(a), second)));
        step = _mm_add_epi32(step, one);
        g.offsets |= r->text_offset ^ text;
        text += r->text_bytes;
    }
    *text_sum = text;
    return g;
}

/* Places and flags of records [from, to). No branch inside, so that the loop keeps up with the hash. */
static int records_in_place(const dump *d, uint64_t from, uint64_t to, uint64_t *text_sum,
                            struct doubts *doubts) {
    struct gathered g = gather(d, from, to, text_sum);
    uint32_t signs = lane(g.id_signs_a, 1) | lane(g.id_signs_a, 2) | lane(g.id_signs_b, 0) |
                     lane(g.special_a, 3) | lane(g.special_b, 1) | lane(g.special_b, 3);
    doubts->invalid = signs >> 31 | lane(g.order, 3) | d->at.n_top_k | d->at.n_logits | (d->n_vocab == 0);
    doubts->flags = lane(g.flags, 0);
    return g.offsets == 0 && lane(g.steps, 0) == 0 && (doubts->flags & ~(uint64_t)DUMP_FLAGS_KNOWN) == 0;
}
#else
/* The same questions record by record, for machines without these vectors. */
static int records_in_place(const dump *d, uint64_t from, uint64_t to, uint64_t *text_sum,
                            struct doubts *doubts) {
    int in_place = 1;
    doubts->invalid = 0;
    doubts->flags = 0;
    for (uint64_t i = from; i < to; i++) {
        const struct dump_record *r = dump_record_at(d, i);
        in_place &= r->step == (uint32_t)i && r->text_offset == *text_sum;
        *text_sum += r->text_bytes;
        doubts->flags |= r->flags;
        doubts->invalid |= record_fault(d, i) != NULL;
    }
    return in_place && (doubts->flags & ~(uint64_t)DUMP_FLAGS_KNOWN) == 0;
}
#endif

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

enum status dump_verify_block(dump *d, uint64_t block, struct err *err) {
    uint64_t start = block * DUMP_BLOCK, end = least(start + DUMP_BLOCK, d->at.count * d->at.stride);
    if (!block_ok(d, 1 + block, d->at.records_offset + start, end - start))
        return dump_damage_block(d->bytes, &d->at, 1 + block, err);
    touch_next(d, d->at.records_offset + end);
    d->hashed = end / d->at.stride;
    return STATUS_OK;
}

enum status dump_verify_places(dump *d, uint64_t to, struct err *err) {
    uint64_t from = d->verified, text_before = d->text_sum;
    struct doubts doubts = {0, 0};
    to = least(to, d->hashed);
    if (!records_in_place(d, from, to, &d->text_sum, &doubts))
        return out_of_place(d, from, to, text_before, err);
    if (doubts.invalid) find_invalid(d, from, to);
    d->flags |= (uint32_t)doubts.flags;
    if (doubts.flags & DUMP_END) find_flag(d, DUMP_END, from, to, &d->first_end);
    if (doubts.flags & DUMP_NO_ID) find_flag(d, DUMP_NO_ID, from, to, &d->first_without_id);
    d->verified = to;
    return STATUS_OK;
}

int dump_verify_alike(const dump *a, const dump *b, uint64_t block) {
    uint64_t end = (block + 1) * DUMP_BLOCK, table = (1 + block) * sizeof(struct hash128);
    const uint8_t *x = a->bytes + a->at.table_offset + table, *y = b->bytes + b->at.table_offset + table;
    return end <= least(a->at.count, b->at.count) * a->at.stride && a->at.stride == b->at.stride &&
           a->at.n_logits == b->at.n_logits && a->n_vocab == b->n_vocab && a->verified == b->verified &&
           a->text_sum == b->text_sum && memcmp(x, y, sizeof(struct hash128)) == 0;
}

int dump_verify_adopt(dump *d, const dump *like) {
    if ((like->invalid & like->first_end & like->first_without_id) != UINT64_MAX) return 0;
    d->verified = like->verified;
    d->flags |= like->flags;
    d->text_sum = like->text_sum;
    return 1;
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
    size_t mark = d->size < DUMP_MARK_BYTES ? d->size : DUMP_MARK_BYTES, tensor = strlen(TENSOR_DUMP_MAGIC);
    if (d->size >= tensor && memcmp(d->bytes, TENSOR_DUMP_MAGIC, tensor) == 0)
        return err_set(
            err, STATUS_FORMAT,
            "is a tensor (.fgt): forkgate diff A.fgt B.fgt compares two, forkgate inspect prints one");
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
