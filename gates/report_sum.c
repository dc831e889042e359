/* report_sum.c - see report_sum.h. */
#include "gates/report_sum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/change_class.h"
#include "gates/report.h"
#include "gates/repro.h"

static struct report_gate *gate_of(struct report_sum *s, const struct evidence *row) {
    for (size_t i = s->n; i-- > 0;) /* rows of a gate stand together */
        if (s->gates[i].tier == row->tier && strcmp(s->gates[i].id, row->gate) == 0 &&
            strcmp(s->gates[i].backend, row->backend) == 0)
            return &s->gates[i];
    struct report_gate *g = &s->gates[s->n++];
    g->id = row->gate;
    g->backend = row->backend;
    g->tier = row->tier;
    return g;
}

static void add_row(struct report_gate *g, const struct evidence *row) {
    double headroom = report_headroom(row);
    g->n++;
    g->counts[row->verdict]++;
    g->ms += row->ms;
    g->moved += (size_t)change_class_moved(row);
    if (!(row->bound > 0) || isnan(headroom)) return;
    if (g->closest == NULL || headroom > report_headroom(g->closest)) g->closest = row;
}

int report_sum_exit_code(const struct report_sum *s) {
    uint64_t counts[2 * REPORT_TIERS][VERDICTS];
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < s->n; i++) {
        int second = strcmp(s->gates[i].backend, "cuda") == 0;
        counts[second * REPORT_TIERS + (int)s->gates[i].tier][s->gates[i].verdict]++;
    }
    return verdict_exit_code_tiers((const uint64_t(*)[VERDICTS])counts, 2 * REPORT_TIERS);
}

/* ---- the headline ---------------------------------------------------------------------------------------------- */
static const char *const backends[2] = {"cpu", "cuda"};

/* id NULL: any gate; tier -1: any tier. */
static int has_gate(const struct report_sum *s, int tier, const char *id, const char *backend) {
    for (size_t i = 0; i < s->n; i++)
        if ((tier < 0 || (int)s->gates[i].tier == tier) && (id == NULL || strcmp(s->gates[i].id, id) == 0) &&
            (backend == NULL || strcmp(s->gates[i].backend, backend) == 0))
            return 1;
    return 0;
}

struct tier_share {
    int seen, all;
    const char *last; /* a gate that was seen */
};

/* How many of a tier's gates are in the report: on each of its backends, but the unit tests know of no backend. */
static struct tier_share share_of(const struct report_sum *s, enum tier t) {
    struct tier_share share = {0, 0, NULL};
    for (size_t i = 0; gate_registry[i] != NULL; i++) {
        const char *id = gate_registry[i]->id;
        if (gate_registry[i]->tier != t) continue;
        int seen = has_gate(s, (int)t, id, NULL);
        for (int b = 0; b < 2 && t != TIER_SUITE; b++)
            if (has_gate(s, -1, NULL, backends[b])) seen = seen && has_gate(s, (int)t, id, backends[b]);
        share.all++;
        share.seen += seen;
        if (seen) share.last = id;
    }
    return share;
}

/* Class fa is judged by tier 4, whose streams must have had a verdict: a skipped route alone has none. */
static int streams_judged(const struct report_sum *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->gates[i].tier == TIER_TOLERANCE && s->gates[i].verdict != VERDICT_SKIP &&
            strncmp(s->gates[i].id, "tolerance.stream.", 17) == 0)
            return 1;
    return 0;
}

/* Every gate of the tiers that bind, on the whole battery. */
static int is_landing(const struct report_sum *s) {
    static const enum tier bind[] = {TIER_PARITY, TIER_SUITE, TIER_IDENTITY, TIER_TOLERANCE};
    int class_fa = has_gate(s, TIER_TOLERANCE, NULL, NULL);
    for (int i = 0; i < (class_fa ? 4 : 3); i++) {
        struct tier_share share = share_of(s, bind[i]);
        if (share.seen < share.all) return 0;
    }
    return !s->is_small && !s->no_golden && (!class_fa || streams_judged(s));
}

static void name_tiers(const struct report_sum *s, char *out, size_t room) {
    size_t used = 0;
    out[0] = '\0';
    for (int t = 0; t < REPORT_TIERS && used < room; t++) {
        struct tier_share share = share_of(s, (enum tier)t);
        if (!has_gate(s, t, NULL, NULL)) continue;
        used +=
            (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? ", " : "", tier_name((enum tier)t));
        if (used >= room || share.seen == share.all) continue;
        used += share.seen == 1
                    ? (size_t)snprintf(out + used, room - used, ": %s only", share.last)
                    : (size_t)snprintf(out + used, room - used, " %d of %d gates", share.seen, share.all);
    }
    if (s->is_small && used < room) used += (size_t)snprintf(out + used, room - used, " on battery small");
    if (s->no_golden && used < room)
        used += (size_t)snprintf(out + used, room - used, " without goldens of this model");
    int missing = 0;
    for (int t = TIER_PARITY; t <= TIER_IDENTITY && used < room; t++)
        if (!has_gate(s, t, NULL, NULL))
            used += (size_t)snprintf(out + used, room - used, "%s %s", missing++ == 0 ? "; not run:" : ",",
                                     tier_name((enum tier)t));
}

static void write_headline(struct report_sum *s, const struct evidence *rows, size_t n) {
    int cpu = has_gate(s, -1, NULL, "cpu"), cuda = has_gate(s, -1, NULL, "cuda");
    const char *on = cpu && cuda ? "cpu and cuda" : cuda ? "cuda only" : "cpu only";
    char tiers[300];
    int code = report_sum_exit_code(s);
    name_tiers(s, tiers, sizeof tiers);
    if (code == 0 && !is_landing(s)) {
        (void)snprintf(s->headline, sizeof s->headline,
                       "PASS of what was run, not a landing verdict (%s; %s)", tiers, on);
    } else
        (void)snprintf(s->headline, sizeof s->headline, "%s (%s)",
                       code == 0   ? "PASS: may land"
                       : code == 1 ? "FAIL: must not land"
                                   : "NOT JUDGED: no verdict can be given",
                       on);
    if ((code == 0 && !is_landing(s)) || (code == 2 && s->is_small))
        repro_landing(rows, n, s->next, sizeof s->next);
}

enum status report_sum_rows(const struct evidence *rows, size_t n, struct report_sum *out, struct err *err) {
    memset(out, 0, sizeof *out);
    out->gates = calloc(n + 1, sizeof *out->gates);
    if (out->gates == NULL) return err_set(err, STATUS_NOMEM, "report: %zu rows", n);
    out->n_rows = n;
    for (size_t i = 0; i < n; i++) {
        add_row(gate_of(out, &rows[i]), &rows[i]);
        out->is_small |= strstr(rows[i].repro, " --battery small") != NULL;
        out->no_golden |= strcmp(rows[i].arm, "golden") == 0 && rows[i].verdict == VERDICT_SKIP &&
                          !change_class_moved(&rows[i]);
    }
    for (size_t g = 0; g < out->n; g++) {
        struct report_gate *gate = &out->gates[g];
        gate->verdict = verdict_worst(gate->counts);
        if (gate->moved > 0 && gate->verdict == VERDICT_PASS)
            gate->verdict = VERDICT_SKIP; /* as the runner does */
        out->counts[gate->verdict]++;
        out->ms += gate->ms;
    }
    for (size_t i = 0; i < n; i++) {
        struct report_gate *gate = gate_of(out, &rows[i]);
        if (gate->telling == NULL && rows[i].verdict == gate->verdict) gate->telling = &rows[i];
    }
    write_headline(out, rows, n);
    return STATUS_OK;
}

void report_sum_free(struct report_sum *s) {
    free(s->gates);
    memset(s, 0, sizeof *s);
}

const char *report_sum_headline(const struct report_sum *s) {
    return s->headline;
}

const char *report_tier_question(enum tier t) {
    static const char *const questions[REPORT_TIERS] = {"are the numbers right?", "did anything else break?",
                                                        "is the path on the rails?", "only regrouping?",
                                                        "is it faster, really?"};
    return questions[t];
}

const char *report_gate_claim(const char *id) {
    for (size_t i = 0; gate_registry[i] != NULL; i++)
        if (strcmp(gate_registry[i]->id, id) == 0) return gate_registry[i]->claim;
    return NULL;
}

void report_gate_line(const struct report_gate *g, char *out, size_t room) {
    size_t bad = g->n - (size_t)g->counts[VERDICT_PASS] - (size_t)g->counts[VERDICT_SKIP];
    if (g->verdict == VERDICT_PASS && g->closest != NULL)
        (void)snprintf(out, room, "%zu checks, closest %.2f of its bound (%s)", g->n,
                       report_headroom(g->closest), g->closest->arm);
    else if (g->verdict == VERDICT_PASS)
        (void)snprintf(out, room, "%zu checks, all exact", g->n);
    else if (g->verdict == VERDICT_FAIL)
        (void)snprintf(out, room, "%zu of %zu checks, first: %s", bad, g->n, g->telling->arm);
    else
        (void)snprintf(out, room, "%s", g->telling == NULL ? "" : g->telling->note);
}
