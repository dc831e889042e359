/* report_sum.c - see report_sum.h. */
#include "gates/report_sum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/report.h"

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
    if (!(row->bound > 0) || isnan(headroom)) return;
    if (g->closest == NULL || headroom > report_headroom(g->closest)) g->closest = row;
}

enum status report_sum_rows(const struct evidence *rows, size_t n, struct report_sum *out, struct err *err) {
    memset(out, 0, sizeof *out);
    out->gates = calloc(n + 1, sizeof *out->gates);
    if (out->gates == NULL) return err_set(err, STATUS_NOMEM, "report: %zu rows", n);
    out->n_rows = n;
    for (size_t i = 0; i < n; i++) add_row(gate_of(out, &rows[i]), &rows[i]);
    for (size_t g = 0; g < out->n; g++) {
        struct report_gate *gate = &out->gates[g];
        gate->verdict = verdict_worst(gate->counts);
        out->counts[gate->verdict]++;
        out->ms += gate->ms;
    }
    for (size_t i = 0; i < n; i++) {
        struct report_gate *gate = gate_of(out, &rows[i]);
        if (gate->telling == NULL && rows[i].verdict == gate->verdict) gate->telling = &rows[i];
    }
    return STATUS_OK;
}

void report_sum_free(struct report_sum *s) {
    free(s->gates);
    memset(s, 0, sizeof *s);
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

const char *report_sum_headline(const struct report_sum *s) {
    int code = report_sum_exit_code(s);
    if (code == 0) return "PASS: may land";
    return code == 1 ? "FAIL: must not land" : "NOT JUDGED: no verdict can be given";
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
