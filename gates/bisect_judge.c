/* bisect_judge.c - one build: run it on the golden's prompt, then say good, bad or untestable (bisect.h).
 * Not a tolerance: bits of tokens and rows, from the first record on.
 * Source: ours. Exercise: ctest -R unit.bisect */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gates/bisect.h"
#include "gates/child_engine.h"

#define EXIT_INVALID                                                                                         \
    2 /* `generate` leaves a dump and exits 2 when a row held NaN: that is a judgeable answer */

static const char *golden_says(const struct bisect_request *r, const char *key) {
    const char *v = provenance_get(dump_provenance(r->golden), key);
    return v != NULL ? v : "";
}

/* "temp=0.8,seed=7" -> --temp 0.8 --seed 7; "greedy" needs nothing. */
static void add_sampler(struct child_args *a, const struct bisect_request *r) {
    char temperature[32] = "", seed[32] = "";
    const char *sampler = golden_says(r, "sampler"), *penalty = golden_says(r, "repeat_penalty");
    if (sscanf(sampler, "temp=%31[^,],seed=%31s", temperature, seed) == 2) {
        child_add_pair(a, "--temp", temperature);
        child_add_pair(a, "--seed", seed);
    }
    if (penalty[0] != '\0' && strcmp(penalty, "1") != 0) child_add_pair(a, "--repeat-penalty", penalty);
    if (strcmp(golden_says(r, "ignore_eos"), "1") == 0) child_add(a, "--ignore-eos");
}

static int tokens_wanted(const struct bisect_request *r) {
    int asked = (int)strtol(golden_says(r, "n_requested"), NULL, 10);
    if (asked < 1) asked = (int)dump_count(r->golden);
    return r->n_tokens > 0 && r->n_tokens < asked ? r->n_tokens : asked;
}

static void command_of(const struct bisect_request *r, const char *binary, const char *out,
                       struct child_args *a) {
    memset(a, 0, sizeof *a);
    child_add(a, binary);
    child_add(a, "generate");
    child_add_pair(a, "-m", r->model);
    if (r->prompt_file != NULL)
        child_add_pair(a, "-f", r->prompt_file);
    else
        child_add_pair(a, "-p", r->prompt_text);
    child_add_number(a, "-n", tokens_wanted(r));
    child_add_pair(a, "-o", out);
    child_add_engine(a, r->config);
    add_sampler(a, r);
}

/* Bytes matter where ids agree: another vocabulary can give the same ids. */
static int same_token(const dump *x, const dump *y, uint64_t i) {
    uint32_t nx = 0, ny = 0;
    const uint8_t *tx = dump_text(x, i, &nx), *ty = dump_text(y, i, &ny);
    return dump_record_at(x, i)->token == dump_record_at(y, i)->token && nx == ny && memcmp(tx, ty, nx) == 0;
}

static void bad(struct bisect_item *item, uint64_t step, const char *what) {
    item->outcome = BISECT_BAD;
    item->step = (int)step;
    (void)snprintf(item->reason, sizeof item->reason, "%s from step %llu on", what, (unsigned long long)step);
}

static void compare(const struct bisect_request *r, const dump *d, struct bisect_item *item) {
    const dump *g = r->golden;
    uint64_t wanted = dump_count(g), n = dump_count(d), tokens = (uint64_t)tokens_wanted(r);
    uint64_t unknown = UINT64_MAX; /* the build's first row without a hash */
    if (tokens < wanted) wanted = tokens;
    for (uint64_t i = 0; i < wanted && i < n; i++) {
        const struct dump_record *x = dump_record_at(g, i), *y = dump_record_at(d, i);
        if (!same_token(g, d, i)) {
            bad(item, i, "tokens differ");
            return;
        }
        if (r->stream_only) continue;
        if ((y->flags & DUMP_NO_HASH) != 0) {
            if (unknown == UINT64_MAX) unknown = i;
        } else if (!hash_equal(&x->row, &y->row)) {
            bad(item, i, "logits differ");
            return;
        }
    }
    if (n != wanted) {
        bad(item, n < wanted ? n : wanted, "the stream ends elsewhere:");
        return;
    }
    if (unknown != UINT64_MAX) {
        (void)snprintf(item->reason, sizeof item->reason,
                       "its dump has no hash of the logits at step %llu (--stream: tokens alone)",
                       (unsigned long long)unknown);
        item->outcome = BISECT_UNTESTABLE;
        return;
    }
    item->outcome = BISECT_GOOD;
    (void)snprintf(item->reason, sizeof item->reason, "%llu tokens, %s", (unsigned long long)n,
                   r->stream_only ? "all equal" : "all rows of logits equal");
}

static void untestable(struct bisect_item *item, const char *why) {
    item->outcome = BISECT_UNTESTABLE;
    (void)snprintf(item->reason, sizeof item->reason, "%.250s", why);
}

static void judge_end(const struct bisect_request *r, const struct child_end *end, const char *path,
                      struct bisect_item *item) {
    struct err err;
    dump *d = NULL;
    const char *reason = NULL;
    char how[320];
    child_end_text(end, how);
    if (end->exit_code != 0 && !(end->exit_code == EXIT_INVALID && access(path, R_OK) == 0)) {
        untestable(item, how);
        return;
    }
    if (dump_open(path, &d, &err) != STATUS_OK) {
        untestable(item, err.message);
        return;
    }
    compare(r, d, item);
    uint64_t invalid = dump_first_invalid(d, &reason);
    if (invalid != UINT64_MAX) {
        item->outcome = BISECT_BAD;
        item->step = (int)invalid;
        (void)snprintf(item->reason, sizeof item->reason, "INVALID from step %llu on: %s",
                       (unsigned long long)invalid, reason);
    }
    dump_close(d);
}

static enum status run_once(const struct bisect_request *r, struct bisect_item *item, struct err *err) {
    char folder[256], path[300], errors[300];
    struct child_args args;
    struct child_end end;
    struct err why = {""};
    RETURN_IF_ERROR(child_folder_make("forkgate-bisect", folder, err));
    (void)snprintf(path, sizeof path, "%s/stream.fgd", folder);
    (void)snprintf(errors, sizeof errors, "%s/errors.txt", folder);
    command_of(r, item->binary, path, &args);
    struct child_request request = {&args, NULL, NULL, errors, r->timeout_s};
    if (child_run(&request, &end, &why) != STATUS_OK)
        untestable(item, why.message);
    else
        judge_end(r, &end, path, item);
    child_args_free(&args);
    child_folder_remove(folder);
    return STATUS_OK;
}

enum status bisect_judge(const struct bisect_request *r, struct bisect_item *item, struct err *err) {
    for (int run = 0; run < (r->runs > 0 ? r->runs : 1); run++) {
        RETURN_IF_ERROR(run_once(r, item, err));
        if (item->outcome != BISECT_GOOD) break;
    }
    return STATUS_OK;
}
