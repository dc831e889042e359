/* golden_refresh.c - the plan: what would change, and what of it was asked for. See golden_refresh.h. */
#include "gates/golden_refresh.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names --------------------------------------------------------------------------------------------------- */
enum status refresh_name_parse(const char *text, struct refresh_name *out, struct err *err) {
    const char *colon = strrchr(text, ':');
    size_t n = colon == NULL ? strlen(text) : (size_t)(colon - text);
    out->first = 0;
    out->last = UINT64_MAX;
    if (n == 0 || n >= sizeof out->pattern)
        return err_set(err, STATUS_USAGE, "golden name '%s': empty or too long", text);
    memcpy(out->pattern, text, n);
    out->pattern[n] = '\0';
    if (colon == NULL) return STATUS_OK;
    char *end = NULL;
    out->first = out->last = strtoull(colon + 1, &end, 10);
    int good = end != colon + 1 && colon[1] >= '0' && colon[1] <= '9';
    if (good && *end == '-') {
        const char *start = end + 1;
        good = *start >= '0' && *start <= '9';
        out->last = strtoull(start, &end, 10);
    }
    if (!good || *end != '\0' || out->last < out->first)
        return err_set(err, STATUS_USAGE, "golden name '%s': want NAME:FIRST-LAST", text);
    return STATUS_OK;
}

static int name_matches(const struct refresh_name *name, const char *golden) {
    return fnmatch(name->pattern, golden, 0) == 0;
}

/* May record i of this golden change? */
static int allowed(const struct refresh_name *names, size_t n, const char *golden, uint64_t i) {
    for (size_t k = 0; k < n; k++)
        if (name_matches(&names[k], golden) && i >= names[k].first && i <= names[k].last) return 1;
    return 0;
}

/* May what concerns the stream as a whole change? Whoever named a range of records did not ask for that. */
static int allowed_whole(const struct refresh_name *names, size_t n, const char *golden) {
    return allowed(names, n, golden, 0) && allowed(names, n, golden, UINT64_MAX);
}

/* ---- records ------------------------------------------------------------------------------------------------- */
static int records_equal(const dump *a, const dump *b, uint64_t i) {
    if (i >= dump_count(a) || i >= dump_count(b)) return 0;
    const struct dump_record *x = dump_record_at(a, i), *y = dump_record_at(b, i);
    uint32_t nx = 0, ny = 0;
    const uint8_t *tx = dump_text(a, i, &nx), *ty = dump_text(b, i, &ny);
    return x->token == y->token && x->id1 == y->id1 && x->id2 == y->id2 && x->flags == y->flags &&
           memcmp(&x->logit1, &y->logit1, sizeof x->logit1) == 0 &&
           memcmp(&x->logit2, &y->logit2, sizeof x->logit2) == 0 &&
           memcmp(&x->logsumexp, &y->logsumexp, sizeof x->logsumexp) == 0 && hash_equal(&x->row, &y->row) &&
           nx == ny && memcmp(tx, ty, nx) == 0;
}

static uint64_t longer(const dump *a, const dump *b) {
    return dump_count(a) > dump_count(b) ? dump_count(a) : dump_count(b);
}

static void find_changes(struct refresh_item *item, const dump *old, const struct refresh_name *names,
                         size_t n_names) {
    uint64_t n = longer(old, item->candidate);
    for (uint64_t i = 0; i < n; i++) {
        if (records_equal(old, item->candidate, i)) continue;
        if (item->n_differ++ == 0) item->first = i;
        item->last = i;
        if (item->outside == UINT64_MAX && !allowed(names, n_names, item->entry.name, i)) item->outside = i;
    }
}

/* ---- the plan ------------------------------------------------------------------------------------------------ */
/* Every record equal: the golden stays, unless the stream was asked for another length. */
static void judge_budget(struct refresh_item *item, int may_change) {
    item->state = item->old->n_requested == item->entry.n_requested ? REFRESH_SAME
                  : may_change                                      ? REFRESH_CHANGED
                                                                    : REFRESH_REFUSED;
    if (item->state == REFRESH_REFUSED) item->outside = 0;
    if (item->state != REFRESH_SAME)
        (void)snprintf(item->summary, sizeof item->summary,
                       "%" PRIu64 " records equal; the budget was %" PRIu64 " tokens and is %" PRIu64,
                       item->entry.count, item->old->n_requested, item->entry.n_requested);
}

static void judge_changes(struct refresh_item *item, const dump *old) {
    struct golden_match m = golden_compare(old, item->candidate, UINT64_MAX);
    item->state = item->outside == UINT64_MAX ? REFRESH_CHANGED : REFRESH_REFUSED;
    golden_explain(old, item->candidate, &m, item->summary, sizeof item->summary);
}

/* Without any name every new stream is meant; whoever gives names means those alone. */
static void judge_new(struct refresh_item *item, int may_come) {
    item->state = may_come ? REFRESH_NEW : REFRESH_REFUSED;
    if (may_come) return;
    item->outside = 0;
    (void)snprintf(item->summary, sizeof item->summary, "new, %" PRIu64 " tokens", item->entry.count);
}

static enum status plan_item(const struct golden_set *set, const dump *candidate,
                             const struct refresh_name *names, size_t n_names, struct refresh_item *item,
                             struct err *err) {
    item->candidate = candidate;
    item->outside = UINT64_MAX;
    RETURN_IF_ERROR(golden_describe(candidate, &item->entry, err));
    item->old = golden_find(set, &item->entry.key);
    const struct golden_entry *namesake = golden_by_name(set, item->entry.name);
    if (item->old == NULL && namesake == NULL) {
        judge_new(item, n_names == 0 || allowed_whole(names, n_names, item->entry.name));
        return STATUS_OK;
    }
    if (item->old == NULL) { /* another prompt or model under a name that exists: a change of every record */
        item->old = namesake;
        item->state = allowed_whole(names, n_names, item->entry.name) ? REFRESH_CHANGED : REFRESH_REFUSED;
        item->outside = item->state == REFRESH_REFUSED ? 0 : UINT64_MAX;
        (void)snprintf(item->summary, sizeof item->summary,
                       "model, prompt or sampler under this name differs");
        return STATUS_OK;
    }
    dump *old = NULL;
    RETURN_IF_ERROR(golden_open(set, item->old, &old, err));
    find_changes(item, old, names, n_names);
    if (item->n_differ == 0)
        judge_budget(item, allowed_whole(names, n_names, item->entry.name));
    else
        judge_changes(item, old);
    dump_close(old);
    return STATUS_OK;
}

static enum status check_names(const struct refresh_plan *p, const struct refresh_name *names, size_t n_names,
                               struct err *err) {
    for (size_t k = 0; k < n_names; k++) {
        int used = 0;
        for (size_t i = 0; i < p->n; i++) used |= name_matches(&names[k], p->items[i].entry.name);
        if (!used) return err_set(err, STATUS_USAGE, "no stream is named '%s'", names[k].pattern);
    }
    return STATUS_OK;
}

enum status refresh_plan_make(struct golden_set *set, const dump *const *dumps, size_t n,
                              const struct refresh_name *names, size_t n_names, struct refresh_plan *out,
                              struct err *err) {
    memset(out, 0, sizeof *out);
    out->set = set;
    out->items = calloc(n + 1, sizeof *out->items);
    if (out->items == NULL) return err_set(err, STATUS_NOMEM, "golden: plan of %zu streams", n);
    enum status s = STATUS_OK;
    for (size_t i = 0; i < n && s == STATUS_OK; i++) {
        s = plan_item(set, dumps[i], names, n_names, &out->items[i], err);
        if (s == STATUS_OK) out->counts[out->items[out->n++].state]++;
    }
    if (s == STATUS_OK) s = check_names(out, names, n_names, err);
    if (s != STATUS_OK) refresh_plan_free(out);
    return s;
}

void refresh_plan_free(struct refresh_plan *p) {
    free(p->items);
    p->items = NULL;
    p->n = 0;
}

enum status refresh_check_repeat(const dump *const *first, const dump *const *second, size_t n,
                                 struct err *err) {
    for (size_t s = 0; s < n; s++) {
        uint64_t count = longer(first[s], second[s]);
        const char *prompt = provenance_get(dump_provenance(first[s]), "prompt");
        for (uint64_t i = 0; i < count; i++)
            if (!records_equal(first[s], second[s], i))
                return err_set(
                    err, STATUS_INVALID,
                    "this build does not repeat itself: stream %s differs from its own second run at record "
                    "%" PRIu64,
                    prompt == NULL ? "?" : prompt, i);
    }
    return STATUS_OK;
}
