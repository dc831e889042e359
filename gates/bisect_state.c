/* bisect_state.c - what is known already, so that an interrupted search goes on where it stopped (bisect.h).
 * Not a cache across questions: golden, token budget, options and question must be the same, and so must each binary's
 * bytes (of a script only the script's).
 * Source: ours. Exercise: ctest -R unit.bisect */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/bisect.h"
#include "gates/child_engine.h"
#include "gates/file_out.h"
#include "gates/shell_word.h"
#include "gates/table.h"

#define QUESTION_BYTES 512

enum column { BINARY, HASH, OUTCOME, STEP, REASON, COLUMNS };
static const char *const columns[COLUMNS] = {"binary", "xxh3", "outcome", "step", "reason"};

/* One line that names the question: equal lines, equal answers. Options that may not change a bit are in it too: a build
 * may be searched for because they do. */
static void question(const struct bisect_request *r, char out[QUESTION_BYTES]) {
    char golden[HASH_TEXT_BYTES];
    struct child_args options;
    struct hash128 h = dump_content_hash(r->golden);
    hash_format(&h, golden);
    (void)snprintf(out, QUESTION_BYTES, "forkgate bisect 2: golden %s, %s, n %d, runs %d, timeout %g s,",
                   golden, r->stream_only ? "stream" : "stream and logits", r->n_tokens, r->runs,
                   r->timeout_s);
    memset(&options, 0, sizeof options);
    child_add_engine(&options, r->config);
    for (int i = 0; i < options.n; i++) (void)shell_word_add(out, QUESTION_BYTES, options.argv[i]);
    child_args_free(&options);
}

static enum bisect_outcome outcome_from(const char *name) {
    for (int i = BISECT_GOOD; i <= BISECT_UNTESTABLE; i++)
        if (strcmp(bisect_outcome_name((enum bisect_outcome)i), name) == 0) return (enum bisect_outcome)i;
    return BISECT_UNKNOWN;
}

static enum status take_row(const struct bisect_request *r, const table *t, size_t row, const int at[COLUMNS],
                            struct err *err) {
    struct hash128 hash;
    int64_t step = 0;
    const char *binary = table_cell(t, row, at[BINARY], NULL);
    enum bisect_outcome o = outcome_from(table_cell(t, row, at[OUTCOME], NULL));
    if (!hash_parse(table_cell(t, row, at[HASH], NULL), &hash)) return table_refuse(t, row, err, "bad hash");
    if (o == BISECT_UNKNOWN) return table_refuse(t, row, err, "bad outcome");
    RETURN_IF_ERROR(table_integer(t, row, at[STEP], -1, INT32_MAX, &step, err));
    for (int i = 0; i < r->n; i++) {
        struct bisect_item *item = &r->items[i];
        if (strcmp(item->binary, binary) != 0 || !hash_equal(&item->hash, &hash)) continue;
        item->outcome = o;
        item->step = (int)step;
        item->reused = 1;
        (void)snprintf(item->reason, sizeof item->reason, "%s", table_cell(t, row, at[REASON], NULL));
    }
    return STATUS_OK;
}

static enum status take_table(const struct bisect_request *r, const table *t, struct err *err) {
    char wanted[QUESTION_BYTES];
    int at[COLUMNS];
    question(r, wanted);
    if (table_notes(t) != 1 || strcmp(table_note(t, 0), wanted) != 0)
        return err_set(err, STATUS_USAGE,
                       "%s answers another question (%s): remove it or name another --state", r->state,
                       table_notes(t) > 0 ? table_note(t, 0) : "no note");
    for (int i = 0; i < COLUMNS; i++) RETURN_IF_ERROR(table_need(t, columns[i], &at[i], err));
    for (size_t row = 0; row < table_rows(t); row++) RETURN_IF_ERROR(take_row(r, t, row, at, err));
    return STATUS_OK;
}

enum status bisect_state_load(const struct bisect_request *r, struct err *err) {
    table *t = NULL;
    if (access(r->state, F_OK) != 0) return STATUS_OK;
    RETURN_IF_ERROR(table_read(r->state, &t, err));
    enum status s = take_table(r, t, err);
    table_close(t);
    return s;
}

static void put_item(table_writer *w, const struct bisect_item *item) {
    char hash[HASH_TEXT_BYTES];
    hash_format(&item->hash, hash);
    table_put_text(w, item->binary);
    table_put_text(w, hash);
    table_put_text(w, bisect_outcome_name(item->outcome));
    table_put_i64(w, item->step);
    table_put_text(w, item->reason);
    table_end_row(w);
}

/* Written whole or not at all: an interrupted run leaves the old state or the new one. */
enum status bisect_state_save(const struct bisect_request *r, struct err *err) {
    char note[QUESTION_BYTES], *text = NULL;
    size_t bytes = 0;
    table_writer *w = NULL;
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL) return err_set(err, STATUS_NOMEM, "%s: out of memory", r->state);
    question(r, note);
    fprintf(f, "# %s\n", note);
    enum status s = table_writer_open(NULL, f, TABLE_LF, columns, COLUMNS, &w, err);
    for (int i = 0; s == STATUS_OK && i < r->n; i++)
        if (r->items[i].outcome != BISECT_UNKNOWN) put_item(w, &r->items[i]);
    if (s == STATUS_OK) s = table_writer_finish(w, err);
    int broken = ferror(f);
    broken |= fclose(f) != 0;
    if (s == STATUS_OK && broken) s = err_set(err, STATUS_NOMEM, "%s: out of memory", r->state);
    if (s == STATUS_OK) s = file_out_whole(r->state, text, bytes, err);
    free(text);
    return s;
}
