/* verdict.c - names of verdicts and tiers, what a row proves, and the fold from verdicts to an exit code. See gate.h. */
#include <math.h>
#include <string.h>

#include "gates/gate.h"

static const char *const tier_names[] = {"parity", "suite", "identity", "tolerance", "perf"};

const char *verdict_name(enum verdict v) {
    switch (v) {
    case VERDICT_PASS:
        return "PASS";
    case VERDICT_FAIL:
        return "FAIL";
    case VERDICT_SKIP:
        return "SKIP";
    case VERDICT_ERROR:
        return "ERROR";
    case VERDICT_BLIND:
        return "BLIND";
    case VERDICT_INCONCLUSIVE:
        return "INCONCLUSIVE";
    }
    return "?";
}

const char *tier_name(enum tier t) {
    return tier_names[t];
}

int tier_from_name(const char *name) {
    for (int i = 0; i < (int)(sizeof tier_names / sizeof tier_names[0]); i++)
        if (strcmp(tier_names[i], name) == 0) return i;
    return -1;
}

int verdict_exit_code(const uint64_t counts[VERDICTS]) {
    if (counts[VERDICT_FAIL] + counts[VERDICT_BLIND] > 0) return 1;
    if (counts[VERDICT_ERROR] + counts[VERDICT_INCONCLUSIVE] > 0) return 2;
    return counts[VERDICT_PASS] > 0 ? 0 : 2;
}

int verdict_exit_code_tiers(const uint64_t (*counts)[VERDICTS], size_t tiers) {
    uint64_t all[VERDICTS] = {0};
    int unjudged = 0;
    for (size_t t = 0; t < tiers; t++) {
        uint64_t n = 0;
        for (int v = 0; v < VERDICTS; v++) {
            all[v] += counts[t][v];
            n += counts[t][v];
        }
        unjudged += n > 0 && n == counts[t][VERDICT_SKIP];
    }
    int code = verdict_exit_code(all);
    return code == 0 && unjudged > 0 ? 2 : code;
}

enum verdict verdict_worst(const uint64_t counts[VERDICTS]) {
    /* A skipped row beside passing ones does not hide them; a gate of nothing but skips is a SKIP. */
    static const enum verdict order[] = {VERDICT_FAIL,         VERDICT_BLIND, VERDICT_ERROR,
                                         VERDICT_INCONCLUSIVE, VERDICT_PASS,  VERDICT_SKIP};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (counts[order[i]] > 0) return order[i];
    return VERDICT_ERROR; /* no row at all: nothing was judged */
}

int evidence_compared(const struct evidence *e) {
    int number =
        e->metric[0] != '\0' && strcmp(e->metric, "none") != 0 && isfinite(e->value) && isfinite(e->bound);
    return number || (e->ref[0] != '\0' && e->got[0] != '\0');
}

int evidence_is_control(const struct evidence *e) {
    static const char *const controls[] = {"negative",   "launched", "heeded", "a/a",
                                           "dispatched", "census",   "greedy"};
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        if (strcmp(e->arm, controls[i]) == 0) return 1;
    return 0;
}

int evidence_contradicts(const struct evidence *e) {
    if (isnan(e->bound)) return 0;
    int within = isfinite(e->value) && e->value <= e->bound;
    return e->verdict == VERDICT_PASS ? !within : e->verdict == VERDICT_FAIL && within;
}
