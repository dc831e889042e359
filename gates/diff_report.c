/* diff_report.c - see diff_report.h: the text report. */
#include "gates/diff_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "gates/diff_parts.h"
#include "gates/diff_print.h"

#define CONTEXT_BYTES 60 /* text shown before the fork, and after it on each side */

/* ---- bytes as text ---------------------------------------------------------------------------------------------- */

static int is_continuation(uint8_t c) {
    return (c & 0xc0) == 0x80;
}

/* Bytes at the end of text[0..n) that begin a character and do not finish it: 0 to 3. */
static size_t unfinished(const uint8_t *text, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t c = text[n - back];
        if (is_continuation(c)) continue;
        size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

/* All token bytes of a dump: they lie behind each other. */
static const uint8_t *whole_text(const dump *d, uint64_t *n) {
    uint64_t count = dump_count(d);
    uint32_t first = 0;
    *n = 0;
    if (count == 0) return NULL;
    const struct dump_record *last = dump_record_at(d, count - 1);
    *n = last->text_offset + last->text_bytes;
    return dump_text(d, 0, &first);
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

static const char *value_or(const dump *d, const char *key, const char *otherwise) {
    const char *value = provenance_get(dump_provenance(d), key);
    return value == NULL ? otherwise : value;
}

static void print_side(FILE *out, const char *mark, enum diff_colour c, const dump *d,
                       const struct diff_view *v) {
    static const char *const keys[] = {"tool",  "commit", "backend",  "device",
                                       "route", "arch",   "geometry", "kv"};
    char name[DIFF_CELL], value[DIFF_CELL];
    fprintf(out, "%s%s %s", diff_ink(v, c), mark, diff_escaped(dump_name(d), strlen(dump_name(d)), v, name));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *raw = value_or(d, keys[i], "");
        int named = strcmp(keys[i], "route") == 0 || strcmp(keys[i], "kv") == 0;
        int again = strcmp(keys[i], "device") == 0 && strcmp(raw, value_or(d, "backend", "")) == 0;
        if (*raw != '\0' && !again) /* "f16" alone could be either of two things */
            fprintf(out, "  %s%s%s", named ? keys[i] : "", named ? " " : "",
                    diff_escaped(raw, strlen(raw), v, value));
        if (strcmp(keys[i], "commit") == 0 && strcmp(value_or(d, "dirty", "0"), "1") == 0)
            fprintf(out, " (modified)");
    }
    fprintf(out, "  %" PRIu64 " tokens%s\n", dump_count(d), diff_ink(v, DIFF_PLAIN));
}

/* A value of the provenance is foreign text: never printed raw. */
static void print_value(FILE *out, const char *before, const dump *d, const char *key,
                        const struct diff_view *v) {
    char shown[DIFF_CELL];
    const char *value = value_or(d, key, "unknown");
    fprintf(out, "%s%s", before, diff_escaped(value, strlen(value), v, shown));
}

static void print_header(FILE *out, const dump *a, const dump *b, const struct diff_view *v) {
    print_side(out, "--- A", DIFF_RED, a, v);
    print_side(out, "+++ B", DIFF_GREEN, b, v);
    print_value(out, "model ", a, "model", v);
    print_value(out, "  prompt ", a, "prompt", v);
    print_value(out, "  sampler ", a, "sampler", v);
    print_value(out, "  repeat_penalty ", a, "repeat_penalty", v);
    fprintf(out, "\n");
    diff_print_provenance(out, dump_provenance(a), dump_provenance(b), diff_key_note, v);
}

/* ---- the fork ----------------------------------------------------------------------------------------------------- */

static void print_number(FILE *out, const char *name, double x) {
    if (isfinite(x))
        fprintf(out, "  %s %.9g", name, x);
    else
        fprintf(out, "  %s %s", name, isnan(x) ? "unknown" : "undefined");
}

/* Where the shared text ends: its last characters, and the bytes of a character that the fork cuts in two. */
struct place {
    const uint8_t *text;
    uint64_t start, end; /* context shown: [start, end) */
    size_t pending;      /* unfinished bytes before the fork */
};

static struct place find_place(const dump *a, const struct diff_result *r) {
    struct place p = {NULL, 0, 0, 0};
    uint64_t n = 0;
    p.text = whole_text(a, &n);
    uint64_t at = r->text_offset < n ? r->text_offset : n;
    uint64_t before = at < 8 ? at : 8;
    p.pending = p.text == NULL ? 0 : unfinished(p.text + at - before, (size_t)before);
    p.end = at - p.pending;
    p.start = p.end > CONTEXT_BYTES ? p.end - CONTEXT_BYTES : 0;
    while (p.text != NULL && p.start < p.end && is_continuation(p.text[p.start])) p.start++;
    return p;
}

static void print_choice(FILE *out, const char *mark, const dump *d, uint64_t at, const struct place *place,
                         double gap, double ulps, const struct diff_view *v) {
    const struct dump_record *r = dump_record_at(d, at);
    uint32_t n = 0;
    const uint8_t *text = dump_text(d, at, &n);
    uint8_t joined[68];
    size_t length = n < 64 ? n : 64;
    if (place->pending > 0) memcpy(joined, place->text + place->end, place->pending);
    memcpy(joined + place->pending, text, length);
    char shown[DIFF_CELL];
    int is_a = *mark == 'A';
    fprintf(out, "  %s        %s%s%s%s%s", mark, diff_ink(v, is_a ? DIFF_RED : DIFF_GREEN),
            is_a ? "[-" : "{+", diff_escaped(joined, length + place->pending, v, shown), is_a ? "-]" : "+}",
            diff_ink(v, DIFF_PLAIN));
    if (r->flags & DUMP_NO_ID)
        fprintf(out, "  id unknown");
    else
        fprintf(out, "  id %" PRId32, r->token);
    if (r->flags & DUMP_END) fprintf(out, " (ends the stream)");
    float logit = 0.0f;
    if (diff_logit_of(d, at, r->token, &logit)) print_number(out, "logit", (double)logit);
    print_number(out, "gap", gap);
    if (ulps >= 0.0) fprintf(out, " (%.6g ULP of %s)", ulps, value_or(d, "logits", "?"));
    fprintf(out, "\n");
}

/* A server that gives no ids, and no tokenizer: the candidate has a value and no name. */
static const char *id_text(int32_t id, char out[16]) {
    if (id < 0)
        (void)snprintf(out, 16, "id unknown");
    else
        (void)snprintf(out, 16, "id %" PRId32, id);
    return out;
}

static void print_top2(FILE *out, const char *mark, const dump *d, uint64_t at) {
    const struct dump_record *r = dump_record_at(d, at);
    const char *unit = r->flags & DUMP_LOGPROBS ? "logprob" : "logit";
    char first[16], second[16];
    (void)id_text(r->id1, first);
    (void)id_text(r->id2, second);
    fprintf(out, "  %s top-2  ", mark);
    if (r->flags & DUMP_NO_TOP1)
        fprintf(out, "not recorded\n");
    else if (r->flags & DUMP_NO_TOP2)
        fprintf(out, "%s %s %.9g, no second\n", first, unit, (double)r->logit1);
    else
        fprintf(out, "%s %s %.9g, %s %s %.9g\n", first, unit, (double)r->logit1, second, unit,
                (double)r->logit2);
}

/* The text of one side from the fork on, begun with the bytes of the character that the fork cuts. */
static void print_continuation(FILE *out, const char *mark, const dump *d, uint64_t at,
                               const struct place *place, const struct diff_view *v) {
    uint64_t n = 0;
    const uint8_t *text = whole_text(d, &n);
    uint64_t from = dump_record_at(d, at)->text_offset, length = n - from;
    if (length > CONTEXT_BYTES) {
        length = CONTEXT_BYTES;
        length -= unfinished(text + from, (size_t)length);
    }
    uint8_t joined[CONTEXT_BYTES + 4];
    if (place->pending > 0) memcpy(joined, place->text + place->end, place->pending);
    if (length > 0) memcpy(joined + place->pending, text + from, (size_t)length);
    char shown[DIFF_CELL];
    fprintf(out, "  %s goes on \"%s\"%s\n", mark,
            diff_escaped(joined, (size_t)length + place->pending, v, shown), from + length < n ? ".." : "");
}

static void print_fork(FILE *out, const dump *a, const dump *b, const struct diff_result *r,
                       const struct diff_view *v) {
    struct place p = find_place(a, r);
    char shown[DIFF_CELL];
    fprintf(out, "%sfork at token %" PRIu64 "%s of %" PRIu64 " | %" PRIu64 ", text byte %" PRIu64 "\n",
            diff_ink(v, DIFF_BOLD), r->fork, diff_ink(v, DIFF_PLAIN), r->count_a, r->count_b, r->text_offset);
    if (r->fork_b != r->fork) fprintf(out, "  in B     token %" PRIu64 " (compared by bytes)\n", r->fork_b);
    if (p.end == 0)
        fprintf(out, "  context  (the fork is at the start of the text)\n");
    else
        fprintf(out, "  context  %s\"%s\"\n", p.start > 0 ? ".." : "",
                diff_escaped(p.text + p.start, (size_t)(p.end - p.start), v, shown));
    if (p.pending > 0) {
        struct diff_view ascii = *v;
        ascii.utf8 = 0;
        fprintf(
            out,
            "  split    the fork is inside a character that began with %s; both choices are shown with it\n",
            diff_escaped(p.text + p.end, p.pending, &ascii, shown));
    }
    print_choice(out, "A", a, r->fork, &p, r->gap_a, r->ulps_a, v);
    print_choice(out, "B", b, r->fork_b, &p, r->gap_b, r->ulps_b, v);
    print_top2(out, "A", a, r->fork);
    print_top2(out, "B", b, r->fork_b);
    print_continuation(out, "A", a, r->fork, &p, v);
    print_continuation(out, "B", b, r->fork_b, &p, v);
    if (r->bytes_equal) fprintf(out, "  note     bytes equal: the two tokenizations spell the same text\n");
}

/* ---- numbers and verdict --------------------------------------------------------------------------------------------- */

static void print_drift(FILE *out, const struct diff_result *r) {
    if (r->drift_at == UINT64_MAX)
        fprintf(out, "drift      no logits to compare\n");
    else
        fprintf(out,
                "drift      max |dlogit| %s%.6g at step %" PRIu64 ", over %" PRIu64 " equal tokens%s%s\n",
                r->drift_at_least ? "at least " : "", r->drift, r->drift_at, r->compared,
                r->fork == UINT64_MAX ? "" : " and the fork's own row",
                r->drift_at_least ? " (an id one side did not record: known from below)" : "");
    if (r->rows_hashed == 0)
        fprintf(out, "rails      unknown: no row hashes on both sides\n");
    else if (r->first_hash_diff == UINT64_MAX && r->rows_hashed < r->compared)
        fprintf(out,
                "rails      unknown: %" PRIu64 " of %" PRIu64
                " rows have a hash on both sides; those are equal\n",
                r->rows_hashed, r->compared);
    else if (r->first_hash_diff == UINT64_MAX)
        fprintf(out, "rails      %" PRIu64 " rows of logits, all hashes equal\n", r->rows_hashed);
    else
        fprintf(out, "rails      row hash differs first at step %" PRIu64 " (%" PRIu64 " rows compared)\n",
                r->first_hash_diff, r->rows_hashed);
    if (r->full_rows > 0)
        fprintf(out,
                "rows       %" PRIu64 " stored in full on both sides: %" PRIu64 " logits differ in bits\n",
                r->full_rows, r->full_differing);
}

static void print_ends(FILE *out, const dump *a, const dump *b, const struct diff_result *r,
                       const struct diff_view *v) {
    fprintf(out, "ends       A %" PRIu64 " tokens", r->count_a);
    print_value(out, ", stop ", a, "stop", v);
    fprintf(out, "%s | B %" PRIu64 " tokens", r->ended_by_eos_a ? " (end token)" : "", r->count_b);
    print_value(out, ", stop ", b, "stop", v);
    fprintf(out, "%s\n", r->ended_by_eos_b ? " (end token)" : "");
    if (r->ignored_tail > 0)
        fprintf(out, "ignored    %" PRIu64 " records after the common end token\n", r->ignored_tail);
    if (r->texts_differ_at != UINT64_MAX)
        fprintf(out, "note       same ids, but the token bytes differ first at token %" PRIu64 "\n",
                r->texts_differ_at);
    const char *unchecked = r->results_unchecked_a && r->results_unchecked_b ? "A and B"
                            : r->results_unchecked_a                         ? "A"
                                                                             : "B";
    if (r->results_unchecked_a || r->results_unchecked_b)
        fprintf(out, "note       the results in the footer of %s were not looked at: more than %u records\n",
                unchecked, DIFF_RESULTS_CHECKED);
    if (r->by_bytes) fprintf(out, "note       a side has no token ids: compared by bytes\n");
}

static void print_control(FILE *out, const struct diff_result *r, const struct diff_view *v) {
    char source[DIFF_CELL];
    if (r->ulp_a > 0.0 && r->ulp_b > 0.0)
        fprintf(out, "bound      1 ULP = %.6g | %.6g\n", r->ulp_a, r->ulp_b);
    const char *why = diff_escaped(r->control.source, strlen(r->control.source), v, source);
    if (r->control.delta < 0.0 && *why != '\0')
        fprintf(out, "control    none applies: %s\n", why);
    else if (r->control.delta < 0.0)
        fprintf(out, "control    %s\n",
                r->control_asked ? "none given: pass --control DIR" : "none bears on this verdict");
    else
        fprintf(out, "control    delta %.6g, bound 2 x delta = %.6g, from %s\n", r->control.delta,
                2.0 * r->control.delta, why);
}

static enum diff_colour verdict_colour(enum diff_verdict v) {
    if (v == DIFF_IDENTICAL) return DIFF_GREEN;
    return v == DIFF_KNIFE_EDGE || v == DIFF_EXACT_TIE ? DIFF_CYAN : DIFF_RED;
}

void diff_report_text(FILE *out, const dump *a, const dump *b, const struct diff_result *r,
                      const struct diff_view *v) {
    print_header(out, a, b, v);
    if (r->verdict == DIFF_NOT_COMPARABLE) {
        fprintf(out, "%sverdict    %s%s: %s\n", diff_ink(v, DIFF_RED), diff_verdict_name(r->verdict),
                diff_ink(v, DIFF_PLAIN), r->reason);
        return;
    }
    if (r->fork != UINT64_MAX) print_fork(out, a, b, r, v);
    print_ends(out, a, b, r, v);
    print_drift(out, r);
    if (r->fork != UINT64_MAX) print_control(out, r, v);
    fprintf(out, "%sverdict    %s%s: %s\n", diff_ink(v, verdict_colour(r->verdict)),
            diff_verdict_name(r->verdict), diff_ink(v, DIFF_PLAIN), r->reason);
    if (v->next != NULL) fprintf(out, "next       %s\n", v->next);
}

void diff_report_line(FILE *out, const char *name, const struct diff_result *r, const struct diff_view *v) {
    char shown[DIFF_CELL];
    fprintf(out, "%s%-14s%s %s", diff_ink(v, verdict_colour(r->verdict)), diff_verdict_name(r->verdict),
            diff_ink(v, DIFF_PLAIN), diff_escaped(name, strlen(name), v, shown));
    if (r->verdict == DIFF_NOT_COMPARABLE || r->verdict == DIFF_INVALID) {
        fprintf(out, "  %s\n", r->reason);
        return;
    }
    if (r->fork != UINT64_MAX) {
        fprintf(out, "  fork at %" PRIu64 " of %" PRIu64, r->fork, r->count_a);
        print_number(out, "gap", r->gap_a);
        print_number(out, "|", r->gap_b);
    } else
        fprintf(out, "  %" PRIu64 " | %" PRIu64 " tokens", r->count_a, r->count_b);
    if (r->first_hash_diff != UINT64_MAX)
        fprintf(out, "  logits differ from step %" PRIu64 ", drift %s%.3g", r->first_hash_diff,
                r->drift_at_least ? "at least " : "", r->drift);
    else if (r->verdict == DIFF_IDENTICAL && diff_rails(r) == DIFF_RAILS_DIFFER)
        fprintf(out, "  logits differ, drift %s%.3g", r->drift_at_least ? "at least " : "", r->drift);
    else if (r->verdict == DIFF_IDENTICAL && diff_rails(r) == DIFF_RAILS_UNKNOWN)
        fprintf(out, "  rails unknown");
    if (r->control.delta < 0.0 && r->control.source[0] != '\0') fprintf(out, "  no control applies");
    fprintf(out, "\n");
}
