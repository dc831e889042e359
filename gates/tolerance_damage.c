/* tolerance_damage.c - see tolerance_damage.h. */
#include "gates/tolerance_damage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *damage_name(enum damage d) {
    static const char *const names[DAMAGES] = {"scaled-row", "stale-tail", "swapped-token"};
    return names[d];
}

/* ---- where ----------------------------------------------------------------------------------------------------- */
static double margin_at(const dump *d, uint64_t i) {
    const struct dump_record *r = dump_record_at(d, i);
    if (r->flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) return 0.0;
    return (double)r->logit1 - (double)r->logit2;
}

/* The hard position with the smallest margin; UINT64_MAX when every position is a near-tie. */
static uint64_t softest_hard(const dump *d, double margin) {
    uint64_t best = UINT64_MAX;
    for (uint64_t i = 0; i < dump_count(d); i++) {
        double m = margin_at(d, i);
        if (!(m > margin)) continue;
        if (best == UINT64_MAX || m < margin_at(d, best)) best = i;
    }
    return best;
}

/* The row with the largest top-1 logit, where the smallest factor shows; UINT64_MAX when all are 0. */
static uint64_t largest_row(const dump *d) {
    uint64_t best = UINT64_MAX;
    double most = 0.0;
    for (uint64_t i = 0; i < dump_count(d); i++) {
        double size = fabs((double)dump_record_at(d, i)->logit1);
        if (!(size > most)) continue;
        most = size;
        best = i;
    }
    return best;
}

/* The last row whose top-1 is not the one before it, at a hard position: a tail stale from there is a wrong argmax. */
static uint64_t last_change(const dump *d, double margin) {
    for (uint64_t i = dump_count(d); i-- > 1;)
        if (margin_at(d, i) > margin && dump_record_at(d, i)->id1 != dump_record_at(d, i - 1)->id1) return i;
    return UINT64_MAX;
}

/* ---- a copy with another content ------------------------------------------------------------------------------- */
struct edit {
    enum damage damage;
    uint64_t at;
    double factor;
};

static void take_row_of(struct dump_record *r, const struct dump_record *other) {
    r->id1 = other->id1;
    r->logit1 = other->logit1;
    r->id2 = other->id2;
    r->logit2 = other->logit2;
    r->logsumexp = other->logsumexp;
    r->row = other->row;
}

static struct dump_record edited(const dump *d, uint64_t i, const struct edit *e) {
    struct dump_record r = *dump_record_at(d, i);
    if (e->damage == DAMAGE_SCALED_ROW && i == e->at) {
        r.logit1 = (float)((double)r.logit1 * e->factor);
        r.logit2 = (float)((double)r.logit2 * e->factor);
        r.row.bytes[0] ^= 0xff;
    }
    if (e->damage == DAMAGE_STALE_TAIL && i >= e->at) take_row_of(&r, dump_record_at(d, e->at - 1));
    if (e->damage == DAMAGE_SWAPPED_TOKEN && i == e->at) {
        r.token = r.id1 = dump_record_at(d, i)->id2; /* consistent with itself: only the base can tell */
        r.id2 = dump_record_at(d, i)->id1;
        r.row.bytes[0] ^= 0xff;
    }
    return r;
}

static enum status copy_edited(const dump *d, const struct edit *e, dump **out, struct err *err) {
    dump_writer *w = NULL;
    RETURN_IF_ERROR(dump_writer_open(NULL, dump_provenance(d), 0, 0, &w, err));
    enum status s = STATUS_OK;
    uint64_t n = e->damage == DAMAGE_SWAPPED_TOKEN ? e->at + 1 : dump_count(d);
    for (uint64_t i = 0; i < n && s == STATUS_OK; i++) {
        struct dump_record r = edited(d, i, e);
        uint32_t bytes = 0;
        const uint8_t *text = dump_text(d, i, &bytes);
        s = dump_writer_add(w, &r, text, bytes, NULL, NULL, err);
    }
    if (s == STATUS_OK) return dump_writer_finish(w, dump_provenance(d), out, err);
    dump_writer_abandon(w);
    return s;
}

/* ---- the plants ------------------------------------------------------------------------------------------------ */
enum status damage_make(const dump *d, enum damage damage, double delta, dump **out, char *floor, size_t room,
                        struct err *err) {
    struct edit e = {damage, UINT64_MAX, 1.0};
    double margin = tolerance_margin(delta);
    *out = NULL;
    (void)snprintf(floor, room, "no place for it in this stream");
    if (damage == DAMAGE_SCALED_ROW) e.at = largest_row(d);
    if (damage == DAMAGE_STALE_TAIL) e.at = last_change(d, margin);
    if (damage == DAMAGE_SWAPPED_TOKEN) e.at = softest_hard(d, margin);
    if (e.at == UINT64_MAX) return STATUS_OK;
    if (damage == DAMAGE_SCALED_ROW) {
        double x = 2.1 * delta / fabs((double)dump_record_at(d, e.at)->logit1);
        e.factor = 1.0 + fmax(x, 0x1p-20); /* a control without noise: a few ULPs */
        (void)snprintf(floor, room, "the logits of 1 row x %.7g", e.factor);
    }
    if (damage == DAMAGE_STALE_TAIL)
        (void)snprintf(floor, room, "the last %llu rows stale", (unsigned long long)(dump_count(d) - e.at));
    if (damage == DAMAGE_SWAPPED_TOKEN)
        (void)snprintf(floor, room, "1 token swapped at a margin of %.4g nats", margin_at(d, e.at));
    return copy_edited(d, &e, out, err);
}

enum status damage_is_seen(const dump *base, const dump *damaged, enum damage damage, double delta, int *seen,
                           struct err *err) {
    char reason[512];
    *seen = 0;
    if (damage == DAMAGE_SWAPPED_TOKEN) {
        struct diff_control control = {delta, "the benign arm"};
        struct diff_result r;
        *seen = tolerance_judge_stream(base, damaged, &control, &r, reason, sizeof reason) == VERDICT_FAIL;
        return STATUS_OK;
    }
    struct tolerance_arm a;
    RETURN_IF_ERROR(tolerance_arm_new("damaged", 1, &a, err));
    enum status s = tolerance_series_from(base, damaged, &a, 0, "damaged", err);
    if (s == STATUS_OK) *seen = tolerance_judge_forced(&a, delta, reason, sizeof reason) == VERDICT_FAIL;
    tolerance_arm_free(&a);
    return s;
}

/* ---- the floor ------------------------------------------------------------------------------------------------- */
#define SWEEP_FROM  0x1p-22
#define SWEEP_STEPS 23 /* the last is 1: a factor of 2 */
#define SWEEP_FINER 5  /* halvings of the last step */

static enum status scaled_is_seen(const dump *d, uint64_t at, double x, double delta, int *seen,
                                  struct err *err) {
    struct edit e = {DAMAGE_SCALED_ROW, at, 1.0 + x};
    dump *damaged = NULL;
    RETURN_IF_ERROR(copy_edited(d, &e, &damaged, err));
    enum status s = damage_is_seen(d, damaged, DAMAGE_SCALED_ROW, delta, seen, err);
    dump_close(damaged);
    return s;
}

static enum status scaled_floor(const dump *d, double delta, int *seen, char *floor, size_t room,
                                struct err *err) {
    uint64_t at = largest_row(d);
    double missed = 0.0, x = SWEEP_FROM;
    *seen = 0;
    (void)snprintf(floor, room, "no place for it in this stream");
    if (at == UINT64_MAX) return STATUS_OK;
    for (int i = 0; i < SWEEP_STEPS; i++, x *= 2.0) {
        RETURN_IF_ERROR(scaled_is_seen(d, at, x, delta, seen, err));
        if (*seen) break;
        missed = x;
    }
    (void)snprintf(floor, room, "the logits of 1 row x 2");
    if (!*seen) return STATUS_OK;
    for (int i = 0, between = 0; i < SWEEP_FINER && missed > 0.0; i++) {
        double middle = 0.5 * (missed + x);
        RETURN_IF_ERROR(scaled_is_seen(d, at, middle, delta, &between, err));
        if (between)
            x = middle;
        else
            missed = middle;
    }
    if (missed > 0.0)
        (void)snprintf(floor, room, "the logits of 1 row x %.7g (x %.7g is not seen)", 1.0 + x, 1.0 + missed);
    else
        (void)snprintf(floor, room, "the logits of 1 row x %.7g", 1.0 + x);
    return STATUS_OK;
}

enum status damage_floor(const dump *d, enum damage damage, double delta, int *seen, char *floor, size_t room,
                         struct err *err) {
    dump *damaged = NULL;
    *seen = 0;
    if (damage == DAMAGE_SCALED_ROW) return scaled_floor(d, delta, seen, floor, room, err);
    RETURN_IF_ERROR(damage_make(d, damage, delta, &damaged, floor, room, err));
    enum status s = STATUS_OK;
    if (damaged != NULL) s = damage_is_seen(d, damaged, damage, delta, seen, err);
    dump_close(damaged);
    return s;
}
