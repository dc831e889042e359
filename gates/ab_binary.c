/* ab_binary.c - a round measured by another binary's `bench` command, in a process of its own.
 * Idea: what is read back is its CSV, with the hash of the logits it computed while it was timed.
 * Source: ours. Exercise: forkgate ab --a OLD --b NEW */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gates/ab.h"
#include "gates/child_engine.h"
#include "gates/table.h"

#define CHILD_TIMEOUT_S 600.0

static void add_arguments(const struct ab_binary *b, const char *csv, struct child_args *args) {
    char warm[32];
    (void)snprintf(warm, sizeof warm, "%.3f", b->warm_s);
    child_add(args, b->path);
    child_add_pair(args, "bench", "-m");
    child_add(args, b->model);
    child_add_pair(args, "-f", b->prompt_file);
    child_add_number(args, "--decode", b->n_decode);
    child_add_number(args, "--rounds", 1);
    child_add_pair(args, "--warm", warm);
    child_add_pair(args, "--csv", csv);
    child_add_engine(args, &b->config);
}

/* The one row with what = round. */
static enum status read_round(const table *t, struct bench_round *out, struct err *err) {
    int what, prefill, decode, logits;
    RETURN_IF_ERROR(table_need(t, "what", &what, err));
    RETURN_IF_ERROR(table_need(t, "prefill_tok_s", &prefill, err));
    RETURN_IF_ERROR(table_need(t, "decode_tok_s", &decode, err));
    RETURN_IF_ERROR(table_need(t, "logits", &logits, err));
    for (size_t i = 0; i < table_rows(t); i++) {
        if (strcmp(table_cell(t, i, what, NULL), "round") != 0) continue;
        RETURN_IF_ERROR(table_real(t, i, prefill, &out->prefill, err));
        RETURN_IF_ERROR(table_real(t, i, decode, &out->decode, err));
        if (hash_parse(table_cell(t, i, logits, NULL), &out->logits)) return STATUS_OK;
        return table_refuse(t, i, err, "logits: not a hash");
    }
    return err_set(err, STATUS_FORMAT, "%s: no round", table_name(t));
}

static enum status run_once(const struct ab_binary *b, const char *csv, const char *errors,
                            struct bench_round *out, struct err *err) {
    struct child_args args = {{NULL}, 0, 0};
    struct child_end end;
    struct child_request r = {&args, NULL, NULL, errors, CHILD_TIMEOUT_S};
    char how[320];
    table *t = NULL;
    add_arguments(b, csv, &args);
    enum status s = child_run(&r, &end, err);
    child_args_free(&args);
    RETURN_IF_ERROR(s);
    child_end_text(&end, how);
    if (end.exit_code != 0) return err_set(err, STATUS_INVALID, "%s bench: %s", b->path, how);
    if (access(csv, R_OK) != 0)
        return err_set(err, STATUS_INVALID, "%s bench: ended well and left no rounds", b->path);
    RETURN_IF_ERROR(table_read(csv, &t, err));
    s = read_round(t, out, err);
    table_close(t);
    return s;
}

enum status ab_measure_binary(void *ctx, struct ab_sample *out, struct err *err) {
    const struct ab_binary *b = ctx;
    char folder[256], csv[300], errors[300];
    RETURN_IF_ERROR(child_folder_make("forkgate-ab", folder, err));
    (void)snprintf(csv, sizeof csv, "%s/round.csv", folder);
    (void)snprintf(errors, sizeof errors, "%s/errors.txt", folder);
    enum status s = run_once(b, csv, errors, &out->round, err);
    child_folder_remove(folder);
    return s;
}
