/* diff.c - see diff.h: may these two streams be compared, and what is the verdict?
 * Not the report: diff_report.c writes it.
 * Source: DESIGN of forkgate, section 5. Exercise: ctest -R unit.diff */
#include "gates/diff.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/diff_parts.h"
#include "gates/dump_format.h"
#include "gates/shell_word.h"
#include "gates/table.h"

#define CHECKED_AT_ONCE 128 /* records: 8 KiB a side at the smallest stride */

/* Keys that must match; all other provenance that differs is reported, not required. */
static const struct {
    const char *key;
    int must_be_on_both; /* absent on one side only: the other side may have had it on in silence */
    const char *absent;  /* what absence means, or NULL */
} required[] = {{"model.xxh3", 0, NULL}, {"prompt.xxh3", 0, NULL},    {"n_vocab", 0, NULL},
                {"sampler", 1, NULL},    {"repeat_penalty", 1, NULL}, {"tie_rule", 0, NULL},
                {"ignore_eos", 1, "0"}};

#define N_REQUIRED (sizeof required / sizeof required[0])

const char *diff_key_note(const char *key, const char *x, const char *y) {
    for (size_t i = 0; i < N_REQUIRED; i++) {
        if (strcmp(required[i].key, key) != 0) continue;
        if ((x != NULL && y != NULL) || required[i].must_be_on_both) return "must match";
        return "must match; not known on one side";
    }
    return "";
}

/* "1" and "1.0" are the same penalty. Nothing else is a number: a hash may look like one. */
static int same_value(const char *key, const char *x, const char *y) {
    if (strcmp(x, y) == 0) return 1;
    if (strcmp(key, "repeat_penalty") != 0) return 0;
    char *end_x = NULL, *end_y = NULL;
    double vx = strtod(x, &end_x), vy = strtod(y, &end_y);
    if (*x == '\0' || *y == '\0' || *end_x != '\0' || *end_y != '\0') return 0;
    return isfinite(vx) && vx <= vy && vx >= vy;
}

struct key_pair {
    const char *key, *value[2]; /* of A and B, NULL where a side does not say */
};

/* The required keys that do not agree. */
static int differing(const dump *a, const dump *b, struct key_pair out[N_REQUIRED]) {
    int n = 0;
    for (size_t i = 0; i < N_REQUIRED; i++) {
        const char *key = required[i].key, *absent = required[i].absent;
        struct key_pair p = {
            key, {provenance_get(dump_provenance(a), key), provenance_get(dump_provenance(b), key)}};
        const char *x = p.value[0] != NULL ? p.value[0] : absent,
                   *y = p.value[1] != NULL ? p.value[1] : absent;
        if (x == NULL && y == NULL) continue;
        if ((x == NULL || y == NULL) && !required[i].must_be_on_both) continue;
        if (x == NULL || y == NULL || !same_value(key, x, y)) out[n++] = p;
    }
    return n;
}

/* Values are foreign bytes: escaped before they are shown. */
static const char *shown_value(const char *value, char out[100]) {
    if (value == NULL) return "does not say";
    memcpy(out, "= ", 2);
    (void)table_escape(value, strlen(value), 0, 0, out + 2, 98);
    return out;
}

/* What an import does not say can be said when it is imported again. Adds that to out, or nothing where it would not help: the
 * side is no import, a value does not fit into the sentence. */
static void say_again(const struct key_pair *pairs, int n, const dump *d, int side, char *out, size_t room) {
    size_t before = strlen(out);
    int said = 0, fits = snprintf(out + before, room - before, "; if %s ran so, import it again with",
                                  side == 0 ? "A" : "B") < (int)(room - before);
    for (int i = 0; i < n && fits; i++) {
        char word[160];
        if (pairs[i].value[side] != NULL) continue;
        int length = snprintf(word, sizeof word, "%s=%s", pairs[i].key, pairs[i].value[1 - side]);
        fits =
            length < (int)sizeof word && shell_word_add(out, room, "-P") && shell_word_add(out, room, word);
        for (const char *c = word; *c != '\0'; c++) fits = fits && *c >= 0x20 && *c < 0x7f;
        said++;
    }
    if (!fits || said == 0 || provenance_get(dump_provenance(d), "import") == NULL) out[before] = '\0';
}

static int comparable(const dump *a, const dump *b, struct diff_result *r) {
    struct key_pair pairs[N_REQUIRED];
    int n = differing(a, b, pairs), told = 0;
    char x[100], y[100], again[sizeof r->reason / 2] = "";
    if (n == 0) return 1;
    for (int i = 0; i < n; i++) told += pairs[i].value[0] != NULL && pairs[i].value[1] != NULL;
    if (told == 0) { /* what a side says cannot be unsaid */
        say_again(pairs, n, a, 0, again, sizeof again);
        say_again(pairs, n, b, 1, again, sizeof again);
    }
    const size_t room = sizeof r->reason - strlen(again);
    r->verdict = DIFF_NOT_COMPARABLE;
    for (int i = 0; i < n; i++) {
        size_t used = strlen(r->reason);
        int more =
            snprintf(r->reason + used, room - used, "%s%s differs: A %s, B %s", i == 0 ? "" : "; ",
                     pairs[i].key, shown_value(pairs[i].value[0], x), shown_value(pairs[i].value[1], y));
        if (more >= (int)(room - used)) r->reason[used] = '\0'; /* a whole key, or none of it */
    }
    memcpy(r->reason + strlen(r->reason), again, strlen(again) + 1);
    return 0;
}

static int valid(const dump *d, const char *which, struct diff_result *r) {
    const char *reason = NULL;
    uint64_t at = dump_first_invalid(d, &reason);
    if (at == UINT64_MAX) return 1;
    r->verdict = DIFF_INVALID;
    (void)snprintf(r->reason, sizeof r->reason, "%s cannot be judged from record %" PRIu64 " on: %s", which,
                   at, reason);
    return 0;
}

static const char *stop_of(const dump *d) {
    const char *stop = provenance_get(dump_provenance(d), "stop");
    return stop == NULL ? "unknown" : stop;
}

static const char *budget_of(const dump *d) {
    const char *n = provenance_get(dump_provenance(d), "n_requested");
    return n == NULL ? "unknown" : n;
}

static void judge_length(const dump *a, const dump *b, struct diff_result *r) {
    r->verdict = DIFF_LENGTH;
    (void)snprintf(r->reason, sizeof r->reason,
                   "equal for %" PRIu64 " records, then one stream ends: A has %" PRIu64
                   " (stop %.32s, budget %.32s), B %" PRIu64
                   " (stop %.32s, budget %.32s); nothing is known beyond",
                   r->compared, r->count_a, stop_of(a), budget_of(a), r->count_b, stop_of(b), budget_of(b));
}

enum diff_rails diff_rails(const struct diff_result *r) {
    int moved = r->drift_at != UINT64_MAX && r->drift > 0.0;
    if (r->first_hash_diff != UINT64_MAX || r->full_differing > 0 || moved) return DIFF_RAILS_DIFFER;
    /* compared by bytes, records may be cut otherwise: their rows have no partners */
    int paired = r->ignored_tail > 0 || (r->compared == r->count_a && r->compared == r->count_b);
    int known = r->rows_hashed >= r->compared || r->full_rows >= r->compared;
    return r->compared > 0 && paired && known ? DIFF_RAILS_SAME : DIFF_RAILS_UNKNOWN;
}

static void judge_identical(struct diff_result *r) {
    char rails[160] = "";
    enum diff_rails known = diff_rails(r);
    if (r->first_hash_diff != UINT64_MAX)
        (void)snprintf(rails, sizeof rails,
                       ", but the logits differ: first at step %" PRIu64 ", largest change %.3g",
                       r->first_hash_diff, r->drift);
    else if (known == DIFF_RAILS_DIFFER && r->drift > 0.0)
        (void)snprintf(rails, sizeof rails, ", but the logits differ: largest change %.3g at step %" PRIu64,
                       r->drift, r->drift_at);
    else if (known == DIFF_RAILS_DIFFER)
        (void)snprintf(rails, sizeof rails, ", but %" PRIu64 " stored logits differ in bits",
                       r->full_differing);
    else if (known == DIFF_RAILS_SAME)
        (void)snprintf(rails, sizeof rails, " and so is every row of logits");
    else if (r->rows_hashed > 0)
        (void)snprintf(rails, sizeof rails,
                       "; whether the logits are is unknown: %" PRIu64 " rows have a hash on both sides",
                       r->rows_hashed);
    r->verdict = DIFF_IDENTICAL;
    (void)snprintf(r->reason, sizeof r->reason, "%s are identical%s%s", r->by_bytes ? "bytes" : "tokens",
                   rails,
                   r->ignored_tail > 0 ? "; records after the common end token were not compared" : "");
}

static void decide(const dump *a, const dump *b, struct diff_walk *w, struct diff_result *r) {
    diff_walk_end(w, r);
    if (!comparable(a, b, r) || !valid(a, "A", r) || !valid(b, "B", r)) return;
    if (r->count_a == 0 && r->count_b == 0) {
        r->verdict = DIFF_NOT_COMPARABLE;
        (void)snprintf(r->reason, sizeof r->reason,
                       "both streams are empty: agreement of nothing proves nothing");
        return;
    }
    if (w->nothing) {
        r->verdict = DIFF_NOT_COMPARABLE;
        (void)snprintf(
            r->reason, sizeof r->reason,
            "from record %" PRIu64
            " on neither ids nor bytes say what the streams are: agreement of nothing proves nothing",
            w->text_from);
        return;
    }
    if (r->fork != UINT64_MAX)
        diff_judge_fork(a, b, r);
    else if (r->lengths_differ)
        judge_length(a, b, r);
    else
        judge_identical(r);
}

/* A reason may quote provenance, which is foreign text: it goes to terminals as printable ASCII only. */
static void judge(const dump *a, const dump *b, struct diff_walk *w, struct diff_result *r) {
    decide(a, b, w, r);
    for (char *c = r->reason; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) *c = '?';
}

static void begin(const struct diff_control *control, struct diff_result *out) {
    memset(out, 0, sizeof *out);
    out->gap_a = out->gap_b = (double)NAN;
    out->ulps_a = out->ulps_b = out->ulp_a = out->ulp_b = -1.0;
    out->control.delta = -1.0;
    if (control != NULL) out->control = *control;
}

enum status diff_streams(const dump *a, const dump *b, const struct diff_control *control,
                         struct diff_result *out, struct err *err) {
    (void)err;
    struct diff_walk w;
    begin(control, out);
    diff_walk_begin(&w, a, b, out);
    judge(a, b, &w, out);
    return STATUS_OK;
}

static enum status name_it(const dump *d, enum status s, struct err *err) {
    return s == STATUS_OK ? s : err_prefix(err, s, "%s", d->name);
}

/* The usual range between two runs on different rails: as many checks and comparisons as one look can do. */
static int check_pair(dump *a, dump *b, uint64_t range, struct diff_walk *w, struct diff_result *out) {
    uint64_t to = a->verified + range, hashed = a->hashed < b->hashed ? a->hashed : b->hashed;
    double largest_change = 0.0;
    if (to > hashed) to = hashed;
    if (w->done || w->next != a->verified || !dump_verify_pair(a, b, to, &largest_change)) return 0;
    diff_walk_plain_to(w, to, largest_change, out);
    return 1;
}

/* The records of both blocks in small ranges: checked, then walked while they are in the first-level cache. */
static enum status check_and_walk(dump *a, dump *b, int alike, struct diff_walk *w, struct diff_result *out,
                                  struct err *err) {
    const uint64_t range = alike ? DUMP_BLOCK : CHECKED_AT_ONCE;
    while (a->verified < a->hashed || b->verified < b->hashed) {
        if (!alike && check_pair(a, b, range, w, out)) continue;
        RETURN_IF_ERROR(name_it(a, dump_verify_places(a, a->verified + range, err), err));
        if (!alike || !dump_verify_adopt(b, a))
            RETURN_IF_ERROR(name_it(b, dump_verify_places(b, b->verified + range, err), err));
        diff_walk_to(w, a->verified < b->verified ? a->verified : b->verified, out);
    }
    return STATUS_OK;
}

/* Both files block by block, so that what is hashed, checked and compared is fetched from memory once. */
static enum status verify_together(dump *a, dump *b, struct diff_walk *w, struct diff_result *out,
                                   struct err *err) {
    uint64_t blocks = a->at.record_blocks > b->at.record_blocks ? a->at.record_blocks : b->at.record_blocks;
    for (uint64_t i = 0; i < blocks; i++) {
        int in_a = i < a->at.record_blocks, in_b = i < b->at.record_blocks;
        int alike = in_a && in_b && dump_verify_alike(a, b, i);
        if (in_a) RETURN_IF_ERROR(name_it(a, dump_verify_block(a, i, err), err));
        if (in_b) RETURN_IF_ERROR(name_it(b, dump_verify_block(b, i, err), err));
        RETURN_IF_ERROR(check_and_walk(a, b, alike, w, out, err));
    }
    RETURN_IF_ERROR(name_it(a, dump_verify_text(a, err), err));
    return name_it(b, dump_verify_text(b, err), err);
}

static enum status check_results(const dump *d, int *unchecked, struct err *err) {
    *unchecked = dump_count(d) > DIFF_RESULTS_CHECKED;
    return *unchecked ? STATUS_OK : name_it(d, dump_verify_results(d, err), err);
}

enum status diff_files(const char *path_a, const char *path_b, const struct diff_control *control, dump **a,
                       dump **b, struct diff_result *out, struct err *err) {
    *b = NULL;
    begin(control, out);
    RETURN_IF_ERROR(dump_open_frame(path_a, a, err));
    enum status s = dump_open_frame(path_b, b, err);
    if (s == STATUS_OK) {
        struct diff_walk w;
        diff_walk_begin(&w, *a, *b, out);
        s = verify_together(*a, *b, &w, out, err);
        if (s == STATUS_OK) s = check_results(*a, &out->results_unchecked_a, err);
        if (s == STATUS_OK) s = check_results(*b, &out->results_unchecked_b, err);
        if (s == STATUS_OK) judge(*a, *b, &w, out);
    }
    if (s != STATUS_OK) {
        dump_close(*a);
        dump_close(*b);
        *a = *b = NULL;
    }
    return s;
}

const char *diff_verdict_name(enum diff_verdict v) {
    static const char *const names[] = {"IDENTICAL", "EXACT-TIE", "KNIFE-EDGE",    "FORK",
                                        "LENGTH",    "INVALID",   "NOT-COMPARABLE"};
    return names[v];
}

int diff_exit_code(enum diff_verdict v) {
    if (v == DIFF_IDENTICAL) return 0;
    return v == DIFF_INVALID || v == DIFF_NOT_COMPARABLE ? 2 : 1;
}

int diff_exit_code_bits(const struct diff_result *r) {
    static const int of_identical[] = {0, 1, 2}; /* enum diff_rails */
    return r->verdict == DIFF_IDENTICAL ? of_identical[diff_rails(r)] : diff_exit_code(r->verdict);
}
