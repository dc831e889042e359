/* diff_csv.c - one CSV row per comparison: see diff_report.h. */
#include <string.h>

#include "gates/diff_report.h"
#include "gates/shell_word.h"

static const char *const columns[] = {"schema",
                                      "a",
                                      "b",
                                      "verdict",
                                      "exit",
                                      "count_a",
                                      "count_b",
                                      "compared",
                                      "fork",
                                      "fork_b",
                                      "text_offset",
                                      "token_a",
                                      "token_b",
                                      "text_a",
                                      "text_b",
                                      "gap_a",
                                      "gap_b",
                                      "ulps_a",
                                      "ulps_b",
                                      "drift",
                                      "drift_at",
                                      "first_hash_diff",
                                      "rows_hashed",
                                      "full_rows",
                                      "full_differing",
                                      "by_bytes",
                                      "texts_differ_at",
                                      "bytes_equal",
                                      "tie_rules_differ",
                                      "raw_argmax_agrees",
                                      "ended_by_eos_a",
                                      "ended_by_eos_b",
                                      "ignored_tail",
                                      "delta",
                                      "control",
                                      "stream_a",
                                      "stream_b",
                                      "logits_a",
                                      "logits_b",
                                      "reason",
                                      "repro"};
#define N_COLUMNS ((int)(sizeof columns / sizeof columns[0]))
#define SCHEMA    1

enum status diff_csv_open(const char *path, enum table_eol eol, table_writer **out, struct err *err) {
    return table_writer_open(path, NULL, eol, columns, N_COLUMNS, out, err);
}

static void put_place(table_writer *w, uint64_t at) {
    if (at == UINT64_MAX)
        table_put_empty(w);
    else
        table_put_u64(w, at);
}

static void put_result(table_writer *w, struct hash128 h, int unchecked) {
    char text[HASH_TEXT_BYTES];
    if (unchecked) { /* what was not looked at is not shown as evidence */
        table_put_empty(w);
        return;
    }
    hash_format(&h, text);
    table_put_text(w, text);
}

static void put_token(table_writer *w, const dump *d, uint64_t at) {
    if (at == UINT64_MAX)
        table_put_empty(w);
    else
        table_put_i64(w, dump_record_at(d, at)->token);
}

static void put_token_text(table_writer *w, const dump *d, uint64_t at) {
    uint32_t n = 0;
    if (at == UINT64_MAX) {
        table_put_empty(w);
        return;
    }
    const uint8_t *text = dump_text(d, at, &n);
    table_put_escaped(w, text, n);
}

static void put_ulps(table_writer *w, double ulps) {
    if (ulps < 0.0)
        table_put_empty(w);
    else
        table_put_f64(w, ulps);
}

static void put_repro(table_writer *w, const char *a, const char *b, const struct diff_asked *asked) {
    char text[16384] = "forkgate diff";
    int whole = shell_word_add(text, sizeof text, a) && shell_word_add(text, sizeof text, b);
    if (asked->control != NULL)
        whole = whole && shell_word_add(text, sizeof text, "--control") &&
                shell_word_add(text, sizeof text, asked->control);
    if (asked->bits) whole = whole && shell_word_add(text, sizeof text, "--bits");
    if (!whole) (void)snprintf(text, sizeof text, "# too long for a row");
    table_put_escaped(w, text, strlen(text));
}

static void put_fork(table_writer *w, const dump *a, const dump *b, const struct diff_result *r) {
    put_place(w, r->fork);
    put_place(w, r->fork_b);
    if (r->fork == UINT64_MAX)
        table_put_empty(w);
    else
        table_put_u64(w, r->text_offset);
    put_token(w, a, r->fork);
    put_token(w, b, r->fork_b);
    put_token_text(w, a, r->fork);
    put_token_text(w, b, r->fork_b);
    table_put_f64(w, r->gap_a);
    table_put_f64(w, r->gap_b);
    put_ulps(w, r->ulps_a);
    put_ulps(w, r->ulps_b);
}

static void put_rest(table_writer *w, const struct diff_result *r) {
    table_put_f64(w, r->drift);
    put_place(w, r->drift_at);
    put_place(w, r->first_hash_diff);
    table_put_u64(w, r->rows_hashed);
    table_put_u64(w, r->full_rows);
    table_put_u64(w, r->full_differing);
    table_put_i64(w, r->by_bytes);
    put_place(w, r->texts_differ_at);
    table_put_i64(w, r->bytes_equal);
    table_put_i64(w, r->tie_rules_differ);
    table_put_i64(w, r->raw_argmax_agrees);
    table_put_i64(w, r->ended_by_eos_a);
    table_put_i64(w, r->ended_by_eos_b);
    table_put_u64(w, r->ignored_tail);
    if (r->control.delta < 0.0)
        table_put_empty(w);
    else
        table_put_f64(w, r->control.delta);
    table_put_escaped(w, r->control.source, strlen(r->control.source));
}

void diff_csv_row(table_writer *w, const dump *a, const dump *b, const struct diff_result *r,
                  const struct diff_asked *asked) {
    struct dump_results ra = dump_results(a), rb = dump_results(b);
    table_put_u64(w, SCHEMA);
    table_put_escaped(w, dump_name(a), strlen(dump_name(a)));
    table_put_escaped(w, dump_name(b), strlen(dump_name(b)));
    table_put_text(w, diff_verdict_name(r->verdict));
    table_put_i64(w, asked->bits ? diff_exit_code_bits(r) : diff_exit_code(r->verdict));
    table_put_u64(w, r->count_a);
    table_put_u64(w, r->count_b);
    table_put_u64(w, r->compared);
    put_fork(w, a, b, r);
    put_rest(w, r);
    put_result(w, ra.stream, r->results_unchecked_a);
    put_result(w, rb.stream, r->results_unchecked_b);
    put_result(w, ra.logits, r->results_unchecked_a);
    put_result(w, rb.logits, r->results_unchecked_b);
    table_put_escaped(w, r->reason, strlen(r->reason));
    put_repro(w, dump_name(a), dump_name(b), asked);
    table_end_row(w);
}

void diff_csv_damage(table_writer *w, const char *path_a, const char *path_b, const struct err *err,
                     const struct diff_asked *asked) {
    table_put_u64(w, SCHEMA);
    table_put_escaped(w, path_a, strlen(path_a));
    table_put_escaped(w, path_b, strlen(path_b));
    table_put_text(w, diff_verdict_name(DIFF_INVALID));
    table_put_i64(w, diff_exit_code(DIFF_INVALID));
    for (int i = 5; i < N_COLUMNS - 2; i++) table_put_empty(w);
    table_put_escaped(w, err->message, strlen(err->message));
    put_repro(w, path_a, path_b, asked);
    table_end_row(w);
}
