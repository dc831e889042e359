/* diff_walk.c - two streams side by side up to their first difference, and how far their numbers drift on the way.
 * Not a judgement: diff_judge.c says what the difference means.
 * Idea: ranges that equal block hashes prove equal are stepped over; only the others are read record by record.
 * Source: ours. Exercise: ctest -R unit.diff ; bench_diff */
#include <string.h>

#include "gates/diff_parts.h"

static int declared(const dump *d, const char *key) {
    const char *value = provenance_get(dump_provenance(d), key);
    return value != NULL && strcmp(value, "1") == 0;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

void diff_walk_begin(struct diff_walk *w, const dump *a, const dump *b, struct diff_result *r) {
    memset(w, 0, sizeof *w);
    w->a = a;
    w->b = b;
    w->ignore_eos = declared(a, "ignore_eos") && declared(b, "ignore_eos");
    w->text_from = UINT64_MAX;
    w->common_end = UINT64_MAX;
    int n = 0;
    w->full_rows = dump_logits(a, 0, &n) != NULL && dump_logits(b, 0, &n) != NULL;
    r->count_a = dump_count(a);
    r->count_b = dump_count(b);
    r->fork = r->fork_b = UINT64_MAX;
    r->first_hash_diff = r->drift_at = r->texts_differ_at = UINT64_MAX;
}

int diff_logit_of(const dump *d, uint64_t i, int32_t id, float *logit) {
    const struct dump_record *r = dump_record_at(d, i);
    int n = 0;
    *logit = 0.0f;
    if (id < 0) return 0;
    const float *row = dump_logits(d, i, &n);
    if (row != NULL) {
        if (id >= n) return 0;
        *logit = row[id];
        return 1;
    }
    if (!(r->flags & DUMP_NO_TOP1) && r->id1 == id) {
        *logit = r->logit1;
        return 1;
    }
    if (!(r->flags & DUMP_NO_TOP2) && r->id2 == id) {
        *logit = r->logit2;
        return 1;
    }
    const struct dump_top *top = dump_top_k(d, i, &n);
    for (int k = 0; top != NULL && k < n; k++) {
        if (top[k].id != id) continue;
        *logit = top[k].logit;
        return 1;
    }
    return 0;
}

/* ---- numbers of one record -------------------------------------------------------------------------------- */

static double distance(float x, float y) {
    if (x > y) return (double)x - (double)y;
    return x < y ? (double)y - (double)x : 0.0; /* two equal infinities are no change */
}

enum diff_known diff_change_of(const dump *d, uint64_t i, int32_t id, float logit, double *change) {
    const struct dump_record *r = dump_record_at(d, i);
    float there = 0.0f;
    *change = 0.0;
    if (id < 0) return DIFF_UNKNOWN;
    if (diff_logit_of(d, i, id, &there)) {
        *change = distance(logit, there);
        return DIFF_EXACT;
    }
    if (r->flags & DUMP_NO_TOP1) return DIFF_UNKNOWN;
    /* no second, or a first without a name, which may be this id */
    float most = (r->flags & DUMP_NO_TOP2) || r->id1 < 0 ? r->logit1 : r->logit2;
    if (logit > most) *change = distance(logit, most);
    return DIFF_AT_LEAST;
}

static void note_change(double change, uint64_t i, struct diff_result *r) {
    if (r->drift_at != UINT64_MAX && !(change > r->drift))
        return; /* a NaN makes the stream INVALID elsewhere */
    r->drift = change;
    r->drift_at = i;
    r->drift_at_least = 0;
}

static void note_candidate(const dump *other, uint64_t i, int32_t id, float logit, struct diff_result *r) {
    double change = 0.0;
    enum diff_known known = diff_change_of(other, i, id, logit, &change);
    if (known == DIFF_EXACT) note_change(change, i, r);
    if (known != DIFF_AT_LEAST || !(change > r->drift)) return;
    note_change(change, i, r);
    r->drift_at_least = 1;
}

/* The two candidates of each side. Logprobs and logits are not the same quantity. */
static void note_drift(const struct diff_walk *w, uint64_t i, const struct dump_record *x,
                       const struct dump_record *y, struct diff_result *r) {
    if ((x->flags ^ y->flags) & DUMP_LOGPROBS) return;
    if (!(x->flags & DUMP_NO_TOP1)) note_candidate(w->b, i, x->id1, x->logit1, r);
    if (!(x->flags & DUMP_NO_TOP2)) note_candidate(w->b, i, x->id2, x->logit2, r);
    if (!(y->flags & DUMP_NO_TOP1)) note_candidate(w->a, i, y->id1, y->logit1, r);
    if (!(y->flags & DUMP_NO_TOP2)) note_candidate(w->a, i, y->id2, y->logit2, r);
}

static void note_full_rows(const struct diff_walk *w, uint64_t i, struct diff_result *r) {
    int n = 0, m = 0;
    const float *x = dump_logits(w->a, i, &n), *y = dump_logits(w->b, i, &m);
    if (n != m) return;
    r->full_rows++;
    for (int v = 0; v < n; v++) r->full_differing += memcmp(x + v, y + v, sizeof *x) != 0;
}

static void note_row(const struct diff_walk *w, uint64_t i, const struct dump_record *x,
                     const struct dump_record *y, struct diff_result *r) {
    note_drift(w, i, x, y, r);
    if (!((x->flags | y->flags) & DUMP_NO_HASH)) {
        r->rows_hashed++;
        if (r->first_hash_diff == UINT64_MAX && memcmp(&x->row, &y->row, sizeof x->row) != 0)
            r->first_hash_diff = i;
    }
    if (w->full_rows) note_full_rows(w, i, r);
}

/* A whole range of equal records: no change, no difference, unless nothing was stored to be compared. */
static void note_equal_range(const struct diff_walk *w, uint64_t from, uint64_t to, struct diff_result *r) {
    if (w->full_rows) r->full_rows += to - from;
    if ((dump_flags(w->a) & (DUMP_NO_HASH | DUMP_NO_TOP1)) == 0) {
        r->rows_hashed += to - from;
        if (r->drift_at == UINT64_MAX) r->drift_at = from;
        return;
    }
    for (uint64_t i = from; i < to; i++) { /* some records lack a hash or a logit: which ones? */
        const struct dump_record *x = dump_record_at(w->a, i);
        if (!(x->flags & DUMP_NO_HASH)) r->rows_hashed++;
        if (!(x->flags & DUMP_NO_TOP1) && r->drift_at == UINT64_MAX) r->drift_at = i;
    }
}

/* ---- the walk --------------------------------------------------------------------------------------------- */

static void stop_at_fork(struct diff_walk *w, uint64_t i, struct diff_result *r) {
    r->fork = r->fork_b = i;
    r->text_offset = dump_record_at(w->a, i)->text_offset;
    w->done = 1;
}

/* Looks at record i. Returns 0 when the walk is over. */
static int step(struct diff_walk *w, uint64_t i, struct diff_result *r) {
    const struct dump_record *x = dump_record_at(w->a, i), *y = dump_record_at(w->b, i);
    if ((x->flags | y->flags) & DUMP_NO_ID) {
        w->text_from = i;
        w->done = 1;
        return 0;
    }
    note_row(w, i, x, y, r);
    if (x->token != y->token) {
        stop_at_fork(w, i, r);
        return 0;
    }
    r->compared = i + 1;
    if (!w->ignore_eos && (x->flags & y->flags & DUMP_END)) {
        w->common_end = i;
        w->done = 1;
        return 0;
    }
    return 1;
}

/* Both rows have every field, the same token and the same candidates: two runs on different rails. */
static int is_plain(const struct dump_record *x, const struct dump_record *y) {
    return ((int32_t)(x->flags | y->flags) | (x->token ^ y->token) | (x->id1 ^ y->id1) | (x->id2 ^ y->id2)) ==
               0 &&
           (x->id1 | x->id2) >= 0;
}

static float magnitude(float x) {
    return x < 0.0f ? -x : x;
}

/* step for a run of plain records; returns the first that is not one (or end). The rounded difference only decides whether
 * the exact one is worth a look: rounding keeps order, so none that matters is passed over. */
static uint64_t walk_plain(const struct diff_walk *w, uint64_t from, uint64_t end, struct diff_result *r) {
    if (w->full_rows || from >= end) return from;
    const void *px = dump_record_at(w->a, from), *py = dump_record_at(w->b, from);
    const uint8_t *x = px, *y = py;
    const uint64_t stride_x = dump_stride(w->a), stride_y = dump_stride(w->b);
    float worth = r->drift_at == UINT64_MAX ? 0.0f : (float)r->drift;
    uint64_t i = from;
    for (; i < end; i++, x += stride_x, y += stride_y) {
        px = x;
        py = y;
        const struct dump_record *rx = px, *ry = py;
        if (!is_plain(rx, ry)) break;
        float d1 = magnitude(rx->logit1 - ry->logit1), d2 = magnitude(rx->logit2 - ry->logit2);
        if (!(d1 < worth && d2 < worth)) {
            note_change(distance(rx->logit1, ry->logit1), i, r);
            note_change(distance(rx->logit2, ry->logit2), i, r);
            worth = (float)r->drift;
        }
        if (r->first_hash_diff == UINT64_MAX && memcmp(&rx->row, &ry->row, sizeof rx->row) != 0)
            r->first_hash_diff = i;
    }
    r->rows_hashed += i - from;
    if (i > from) r->compared = i;
    return i;
}

/* Records from w->next on that are proven equal and hold neither an end nor a missing id. */
static uint64_t equal_until(const struct diff_walk *w, uint64_t end) {
    uint64_t to = 0;
    if (!dump_records_equal(w->a, w->b, w->next, end, &to)) return w->next;
    to = least(to, dump_first_without_id(w->a)); /* equal records: what holds for A holds for B */
    if (!w->ignore_eos) to = least(to, dump_first_end(w->a));
    return to > w->next ? to : w->next;
}

void diff_walk_to(struct diff_walk *w, uint64_t end, struct diff_result *r) {
    end = least(end, least(r->count_a, r->count_b));
    while (!w->done && w->next < end) {
        uint64_t to = equal_until(w, end);
        if (to > w->next) {
            note_equal_range(w, w->next, to, r);
            w->next = r->compared = to;
            continue;
        }
        /* Read on to the end of this block before asking the hashes again. */
        uint64_t stop = least(end, dump_block_end(w->a, w->next));
        w->next = walk_plain(w, w->next, stop, r);
        while (w->next < stop && step(w, w->next, r)) {
            w->next = walk_plain(w, w->next + 1, stop, r);
        }
    }
}

void diff_walk_plain_to(struct diff_walk *w, uint64_t end, double largest_change, struct diff_result *r) {
    if (r->first_hash_diff == UINT64_MAX || r->drift_at == UINT64_MAX || largest_change > r->drift) {
        diff_walk_to(w, end, r);
        return;
    }
    r->rows_hashed += end - w->next;
    w->next = r->compared = end;
}

/* ---- after the last record -------------------------------------------------------------------------------- */

static int same_text(const struct diff_walk *w, uint64_t i) {
    uint32_t n = 0, m = 0;
    const uint8_t *x = dump_text(w->a, i, &n), *y = dump_text(w->b, i, &m);
    return n == m && memcmp(x, y, n) == 0;
}

static uint64_t text_end(const dump *d) {
    uint64_t n = dump_count(d);
    if (n == 0) return 0;
    const struct dump_record *last = dump_record_at(d, n - 1);
    return last->text_offset + last->text_bytes;
}
static uint64_t text_start(const dump *d, uint64_t i) {
    return i < dump_count(d) ? dump_record_at(d, i)->text_offset : text_end(d);
}
static const uint8_t *text_at(const dump *d, uint64_t offset) {
    uint32_t n = 0;
    return dump_count(d) == 0 ? NULL : dump_text(d, 0, &n) + offset;
}

/* The record that holds the byte at offset (the last one that starts at or before it and is not empty). */
static uint64_t record_holding(const dump *d, uint64_t offset) {
    uint64_t low = 0, high = dump_count(d);
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (dump_record_at(d, middle)->text_offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Bytes from the start of record i on, whatever the records' boundaries are. Sets the fork, if there is one. */
static void compare_bytes(struct diff_walk *w, uint64_t i, struct diff_result *r) {
    uint64_t at_a = text_start(w->a, i), at_b = text_start(w->b, i);
    uint64_t n = least(text_end(w->a) - at_a, text_end(w->b) - at_b), same = 0;
    const uint8_t *x = text_at(w->a, at_a), *y = text_at(w->b, at_b);
    while (same < n && x[same] == y[same]) same++;
    r->lengths_differ = text_end(w->a) - at_a != text_end(w->b) - at_b;
    if (same == n) return;
    r->fork = record_holding(w->a, at_a + same);
    r->fork_b = record_holding(w->b, at_b + same);
    r->text_offset = at_a + same;
}

static void walk_bytes(struct diff_walk *w, struct diff_result *r) {
    uint64_t shorter = least(r->count_a, r->count_b), i = w->text_from;
    r->by_bytes = 1;
    for (; i < shorter && same_text(w, i); i++) {
        const struct dump_record *x = dump_record_at(w->a, i), *y = dump_record_at(w->b, i);
        note_row(w, i, x, y, r);
        r->compared = i + 1;
        if (w->ignore_eos || !(x->flags & y->flags & DUMP_END)) continue;
        w->common_end = i; /* an end token alone needs no text */
        w->nothing = i > w->text_from && text_start(w->a, w->text_from) == text_start(w->a, i + 1);
        return;
    }
    w->nothing =
        text_start(w->a, w->text_from) == text_end(w->a) && text_start(w->b, w->text_from) == text_end(w->b);
    if (i < shorter && text_start(w->a, i) == text_start(w->b, i))
        note_row(w, i, dump_record_at(w->a, i), dump_record_at(w->b, i), r);
    compare_bytes(w, i, r);
}

static void note_texts(const struct diff_walk *w, struct diff_result *r) {
    uint64_t end_a = text_start(w->a, r->compared), end_b = text_start(w->b, r->compared);
    int proven = dump_texts_equal(w->a, w->b); /* by the block hashes */
    if (end_a != end_b ||
        (end_a > 0 && !proven && memcmp(text_at(w->a, 0), text_at(w->b, 0), (size_t)end_a) != 0)) {
        for (uint64_t i = 0; i < r->compared && r->texts_differ_at == UINT64_MAX; i++)
            if (!same_text(w, i)) r->texts_differ_at = i;
    }
    if (r->fork == UINT64_MAX) return;
    uint64_t common = least(text_end(w->a), text_end(w->b));
    r->bytes_equal =
        common > 0 && (proven || memcmp(text_at(w->a, 0), text_at(w->b, 0), (size_t)common) == 0);
}

static int ends_with_eos(const dump *d) {
    uint64_t n = dump_count(d);
    return n > 0 && (dump_record_at(d, n - 1)->flags & DUMP_END) != 0;
}

void diff_walk_end(struct diff_walk *w, struct diff_result *r) {
    diff_walk_to(w, UINT64_MAX, r);
    if (w->text_from != UINT64_MAX)
        walk_bytes(w, r);
    else {
        note_texts(w, r);
        r->lengths_differ = w->common_end == UINT64_MAX && r->count_a != r->count_b;
    }
    int common = w->common_end != UINT64_MAX;
    r->ended_by_eos_a = common || ends_with_eos(w->a);
    r->ended_by_eos_b = common || ends_with_eos(w->b);
    if (common) r->ignored_tail = r->count_a + r->count_b - 2 * (w->common_end + 1);
}
