/* tensor_diff.c - see tensor_diff.h: may these two tensors be compared, and what is the verdict? */
#include "gates/tensor_diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gates/compare.h"
#include "gates/diff_folder.h"
#include "gates/diff_parts.h"
#include "gates/table.h"

/* ---- keys ---------------------------------------------------------------------------------------------------- */

static int listed(const char *key, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, keys[i]) == 0) return 1;
    return 0;
}
#define LISTED(key, keys) listed(key, keys, sizeof(keys) / sizeof(keys)[0])

int tensor_key_identity(const char *key) {
    static const char *const keys[] = {"op",    "tensor",     "layer",  "step",        "pos",
                                       "model", "model.xxh3", "prompt", "prompt.xxh3", "tokens.xxh3"};
    return strncmp(key, "input", 5) == 0 || LISTED(key, keys);
}

int tensor_key_launch(const char *key) {
    static const char *const keys[] = {"tool",    "build",  "commit",  "dirty",       "faults",
                                       "backend", "arch",   "kv",      "logits",      "route",
                                       "device",  "cc",     "driver",  "runtime",     "compiler",
                                       "flags",   "import", "n_vocab", "model.bytes", "prompt.tokens"};
    return !tensor_key_identity(key) && !LISTED(key, keys);
}

const char *tensor_key_note(const char *key, const char *x, const char *y) {
    if (!tensor_key_identity(key)) return "";
    if (strcmp(key, "model") == 0 || strcmp(key, "prompt") == 0) return "must match, or its xxh3";
    return x != NULL && y != NULL ? "must match" : "must match; not known on one side";
}

/* A name is only a name where both sides have the hash. */
static int hashed_on_both(const tensor_dump *a, const tensor_dump *b, const char *key) {
    char hash[32];
    if (strcmp(key, "model") != 0 && strcmp(key, "prompt") != 0) return 0;
    (void)snprintf(hash, sizeof hash, "%s.xxh3", key);
    return provenance_get(tensor_dump_provenance(a), hash) != NULL &&
           provenance_get(tensor_dump_provenance(b), hash) != NULL;
}

/* ---- sentences ------------------------------------------------------------------------------------------------- */

void tensor_index_text(const tensor_dump *t, uint64_t at, char *out, size_t room) {
    struct tensor_shape s = tensor_dump_shape(t);
    struct compare_shape c = {s.n_dims, {0}};
    for (int d = 0; d < s.n_dims; d++) c.dim[d] = (int64_t)s.ne[s.n_dims - 1 - d];
    compare_index_text(&c, (size_t)at, out, room);
}

void tensor_shape_text(const tensor_dump *t, char *out, size_t room) {
    struct tensor_shape s = tensor_dump_shape(t);
    size_t used = (size_t)snprintf(out, room, "%s", dtype_info((int)s.dtype)->name);
    for (int d = s.n_dims - 1; d >= 0 && used < room; d--)
        used +=
            (size_t)snprintf(out + used, room - used, "%s%" PRIu64, d == s.n_dims - 1 ? " [" : ", ", s.ne[d]);
    if (used < room) (void)snprintf(out + used, room - used, "]");
}

/* Adds text to the reason, whole or not at all. */
static void add(struct tensor_diff *r, const char *text) {
    size_t used = strlen(r->reason), n = strlen(text);
    if (used + n < sizeof r->reason) memcpy(r->reason + used, text, n + 1);
}

/* Values are foreign bytes, and long ones stand in the report's list. */
static void add_value(struct tensor_diff *r, const char *key, const char *x, const char *y) {
    char vx[32], vy[32], text[160];
    if (x == NULL) x = "(absent)";
    if (y == NULL) y = "(absent)";
    size_t n = table_escape(x, strlen(x), 0, 0, vx, sizeof vx),
           m = table_escape(y, strlen(y), 0, 0, vy, sizeof vy);
    if (n < sizeof vx && m < sizeof vy)
        (void)snprintf(text, sizeof text, "%.60s (A %s, B %s)", key, vx, vy);
    else
        (void)snprintf(text, sizeof text, "%.60s", key);
    add(r, text);
}

/* Each launch key that differs. */
static void add_launch(struct tensor_diff *r, const struct provenance *p, const struct provenance *q) {
    int n = 0;
    for (int side = 0; side < 2; side++) {
        const struct provenance *own = side == 0 ? p : q, *other = side == 0 ? q : p;
        for (int i = 0; i < own->n; i++) {
            const char *key = own->items[i].key, *x = own->items[i].value, *y = provenance_get(other, key);
            if (!tensor_key_launch(key) || (y != NULL && (side == 1 || strcmp(x, y) == 0))) continue;
            add(r, n++ == 0 ? "; launched otherwise: " : ", ");
            add_value(r, key, side == 0 ? x : y, side == 0 ? y : x);
        }
    }
}

/* ---- judgement ------------------------------------------------------------------------------------------------- */

int tensor_same_shape(const tensor_dump *a, const tensor_dump *b) {
    struct tensor_shape x = tensor_dump_shape(a), y = tensor_dump_shape(b);
    return x.dtype == y.dtype && x.n_dims == y.n_dims && memcmp(x.ne, y.ne, sizeof x.ne) == 0;
}

static int comparable(const tensor_dump *a, const tensor_dump *b, struct tensor_diff *r) {
    const struct provenance *p = tensor_dump_provenance(a), *q = tensor_dump_provenance(b);
    int n = 0;
    r->verdict = TENSOR_NOT_COMPARABLE;
    if (!tensor_same_shape(a, b)) {
        char x[96], y[96];
        tensor_shape_text(a, x, sizeof x);
        tensor_shape_text(b, y, sizeof y);
        (void)snprintf(r->reason, sizeof r->reason, "A is %s, B is %s", x, y);
        return 0;
    }
    for (int i = 0; i < p->n; i++) {
        const char *key = p->items[i].key, *y = provenance_get(q, key);
        if (!tensor_key_identity(key) || y == NULL || strcmp(p->items[i].value, y) == 0) continue;
        if (hashed_on_both(a, b, key)) continue;
        add(r, n++ == 0 ? "not the same tensor: " : ", ");
        add_value(r, key, p->items[i].value, y);
    }
    return n == 0;
}

static size_t bad_values(const struct census *c) {
    return c->n_nan + c->n_pos_inf + c->n_neg_inf;
}

static int valid(const tensor_dump *a, struct tensor_diff *r) {
    const struct census *c = r->distance.census;
    char at[64], text[160];
    int n = 0;
    r->verdict = TENSOR_INVALID;
    for (int side = 0; side < 2; side++) {
        if (bad_values(&c[side]) == 0) continue;
        tensor_index_text(a, c[side].first_bad, at, sizeof at);
        (void)snprintf(text, sizeof text, "%s%c holds %zu NaN and %zu Inf, the first at %s",
                       n++ == 0 ? "" : "; ", side == 0 ? 'A' : 'B', c[side].n_nan,
                       c[side].n_pos_inf + c[side].n_neg_inf, at);
        add(r, text);
    }
    if (n > 0) add(r, ": not to be judged, and two that agree on it prove nothing");
    return n == 0;
}

/* The largest change of many elements says how far one may go. How many are touched at all depends on the launch (a tile of 16
 * keys touches rows that one of 64 leaves), so the global metric has the room that tier 4 gives against a plain implementation. */
#define RMS_ROOM 2.0

static void judge_control(struct tensor_diff *r) {
    const struct tensor_distance *d = &r->distance;
    const struct tensor_control *c = &r->control;
    char text[200];
    int within = d->max_abs <= c->max_abs && d->rms <= RMS_ROOM * c->rms;
    if (within) r->verdict = TENSOR_WITHIN_CONTROL;
    (void)snprintf(text, sizeof text,
                   "; max-abs %.6g %s %.6g, rms %.6g %s 2 x %.6g of %d legal regrouping%s of A", d->max_abs,
                   d->max_abs <= c->max_abs ? "<=" : ">", c->max_abs, d->rms,
                   d->rms <= RMS_ROOM * c->rms ? "<=" : ">", c->rms, c->used, c->used == 1 ? "" : "s");
    add(r, text);
}

static int says_launch(const struct provenance *p) {
    for (int i = 0; i < p->n; i++)
        if (tensor_key_launch(p->items[i].key)) return 1;
    return 0;
}

/* Two builds of a modified tree, or of one without git, go by one name and may be two programs. */
static int one_program(const struct provenance *p, const struct provenance *q) {
    const char *x = provenance_get(p, "build"), *y = provenance_get(q, "build");
    if (x != NULL && y != NULL) return strcmp(x, y) == 0;
    const char *dirty = provenance_get(p, "dirty"), *commit = provenance_get(p, "commit");
    return !(dirty != NULL && strcmp(dirty, "1") == 0) && !(commit != NULL && strcmp(commit, "unknown") == 0);
}

static enum status judge_bits(const tensor_dump *a, const tensor_dump *b, const char *control,
                              struct tensor_diff *r, struct err *err) {
    const struct provenance *p = tensor_dump_provenance(a), *q = tensor_dump_provenance(b);
    uint64_t bytes = 0;
    struct tensor_shape shape = tensor_dump_shape(a);
    char text[160];
    (void)tensor_shape_check(&shape, &bytes, NULL);
    r->verdict = TENSOR_DIFFERENT;
    if (memcmp(tensor_dump_data(a), tensor_dump_data(b), (size_t)bytes) == 0) {
        r->verdict = TENSOR_IDENTICAL;
        (void)snprintf(r->reason, sizeof r->reason, "all %" PRIu64 " elements are, bit for bit",
                       r->distance.n);
        return STATUS_OK;
    }
    (void)snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " elements differ in bits%s",
                   r->distance.differing, r->distance.n,
                   r->distance.differing == 0 ? ", the stored blocks do" : "");
    add(r, text);
    int one_name = diff_other_build(p, q) == NULL && tensor_same_launch(p, q);
    if (one_name && one_program(p, q)) {
        add(r,
            says_launch(p)
                ? "; what may carry bits is the same on both sides: not repeatable, which no control excuses"
                : "; neither side says how it was launched: no control can excuse that");
        return STATUS_OK;
    }
    if (one_name) add(r, "; two builds of one commit that was modified, or a result that is not repeatable");
    if (control != NULL) {
        RETURN_IF_ERROR(tensor_control_for(control, a, b, &r->control, err));
        if (r->control.used > 0) judge_control(r);
    }
    add_launch(r, p, q);
    return STATUS_OK;
}

enum status tensor_diff(const tensor_dump *a, const tensor_dump *b, const char *control,
                        struct tensor_diff *out, struct err *err) {
    memset(out, 0, sizeof *out);
    RETURN_IF_ERROR(diff_control_folder(control, err));
    out->control.asked = control != NULL;
    if (!comparable(a, b, out)) return STATUS_OK;
    out->measured = 1;
    tensor_distance(a, b, &out->distance);
    return valid(a, out) ? judge_bits(a, b, control, out, err) : STATUS_OK;
}

const char *tensor_verdict_name(enum tensor_verdict v) {
    static const char *const names[] = {"IDENTICAL", "WITHIN-CONTROL", "DIFFERENT", "INVALID",
                                        "NOT-COMPARABLE"};
    return names[v];
}

int tensor_exit_code(enum tensor_verdict v) {
    if (v == TENSOR_IDENTICAL) return 0;
    return v == TENSOR_INVALID || v == TENSOR_NOT_COMPARABLE ? 2 : 1;
}
