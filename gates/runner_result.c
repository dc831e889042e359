/* runner_result.c - what a run's results say together: more results behind them, the exit code, and how long a gate may take. See runner.h.
 * Source: ours. Exercise: ctest -R unit.verdicts */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gates/runner.h"
#include "gates/runner_child.h"

#define BACKENDS 2

static enum status make_room(struct run_result *r, size_t more, struct err *err) {
    struct gate_result *gates = realloc(r->gates, (r->n + more) * sizeof *gates);
    if (gates == NULL) return err_set(err, STATUS_NOMEM, "run: %zu gates", r->n + more);
    r->gates = gates;
    memset(gates + r->n, 0, more * sizeof *gates);
    return STATUS_OK;
}

enum status runner_append(struct run_result *r, const struct gate *g, const char *backend,
                          const struct evidence *row, struct err *err) {
    RETURN_IF_ERROR(make_room(r, 1, err));
    struct gate_result *out = &r->gates[r->n];
    out->gate = g;
    out->backend = backend;
    runner_add_row(out, row);
    runner_fold(out);
    r->counts[out->verdict]++;
    r->n++;
    return STATUS_OK;
}

enum status runner_merge(struct run_result *r, struct run_result *more, struct err *err) {
    if (more->n > 0) {
        RETURN_IF_ERROR(make_room(r, more->n, err));
        memcpy(r->gates + r->n, more->gates, more->n * sizeof *more->gates);
    }
    r->n += more->n;
    r->ms += more->ms;
    for (int v = 0; v < VERDICTS; v++) r->counts[v] += more->counts[v];
    free(more->gates);
    memset(more, 0, sizeof *more);
    return STATUS_OK;
}

/* ---- a gate's rows ----------------------------------------------------------------------------------------------- */
static int has_arm(const struct gate_result *r, const char *arm, size_t n) {
    for (size_t i = 0; i < r->n_rows; i++)
        if (strncmp(r->rows[i].arm, arm, n) == 0 && r->rows[i].arm[n] == '\0') return 1;
    return 0;
}

/* The first arm that the gate owes and has not left, its length in *n; NULL: there is none. */
static const char *missing_arm(const struct gate_result *r, size_t *n) {
    const char *p = gate_arms_owed(r->gate->id);
    while (*(p += strspn(p, " ")) != '\0') {
        *n = strcspn(p, " ");
        if (!has_arm(r, p, *n)) return p;
        p += *n;
    }
    return NULL;
}

/* Of a gate's rows: how many say PASS, compared anything, compared what the gate claims; skipped what it claims; are red. */
struct tally {
    uint64_t passed, compared, claims, skipped, open;
};

static struct tally tally_of(const struct gate_result *r) {
    struct tally t = {0, 0, 0, 0, 0};
    for (size_t i = 0; i < r->n_rows; i++) {
        const struct evidence *e = &r->rows[i];
        uint64_t pass = e->verdict == VERDICT_PASS, skip = e->verdict == VERDICT_SKIP;
        uint64_t compared = pass && evidence_compared(e), claim = !evidence_is_control(e);
        t.passed += pass;
        t.compared += compared;
        t.claims += compared && claim;
        t.skipped += skip && claim;
        t.open += !pass && !skip;
    }
    return t;
}

const char *runner_rows_trouble(const struct gate_result *r, int whole, char *note, size_t room) {
    const struct tally t = tally_of(r);
    size_t n = 0;
    for (size_t i = 0; i < r->n_rows; i++)
        if (r->rows[i].verdict == VERDICT_PASS && evidence_contradicts(&r->rows[i]))
            return "a PASS that its own value and bound contradict";
    if (r->n_rows == 0) return "left no evidence: nothing was judged";
    if (t.passed == 0 || t.open > 0) return NULL; /* not green as it is */
    if (t.compared == 0) return "compared nothing: no row has a value with its bound, or two hashes";
    const char *arm = whole ? missing_arm(r, &n) : NULL;
    if (arm == NULL)
        return !whole || t.claims + t.skipped > 0 ? NULL : "compared nothing beside its own controls";
    (void)snprintf(note, room, "judged without its arm %.*s: no row of it", (int)n, arm);
    return note;
}

void runner_fold(struct gate_result *r) {
    const struct tally t = tally_of(r);
    uint64_t counts[VERDICTS] = {0};
    for (size_t i = 0; i < r->n_rows; i++)
        if ((unsigned)r->rows[i].verdict < VERDICTS) counts[r->rows[i].verdict]++;
    counts[VERDICT_ERROR] += (uint64_t)r->lost;
    r->verdict = verdict_worst(counts);
    if (r->verdict == VERDICT_PASS && t.claims == 0 && t.skipped > 0)
        r->verdict = VERDICT_SKIP; /* its controls ran, and what it claims was not judged */
}

#define PATIENCE_BYTES 0x1p25
#define PATIENCE_MOST  20.0

double runner_patience(const char *model_path) {
    struct stat st;
    double times = stat(model_path, &st) == 0 ? 1 + (double)st.st_size / PATIENCE_BYTES : 1;
    return times < PATIENCE_MOST ? times : PATIENCE_MOST;
}

/* ---- the exit code --------------------------------------------------------------------------------------------- */
static int group_of(const struct gate_result *g) {
    int second = g->backend != NULL && strcmp(g->backend, "cuda") == 0;
    return second * RUNNER_TIERS + (int)g->gate->tier;
}

static void count_groups(const struct run_result *r, uint64_t counts[BACKENDS * RUNNER_TIERS][VERDICTS]) {
    memset(counts, 0, sizeof(uint64_t) * BACKENDS * RUNNER_TIERS * VERDICTS);
    for (size_t i = 0; i < r->n; i++) counts[group_of(&r->gates[i])][r->gates[i].verdict]++;
}

int runner_exit_code(const struct run_result *r) {
    uint64_t counts[BACKENDS * RUNNER_TIERS][VERDICTS];
    count_groups(r, counts);
    return verdict_exit_code_tiers((const uint64_t(*)[VERDICTS])counts, BACKENDS * RUNNER_TIERS);
}

static const char *first_reason(const struct gate_result *g) {
    for (size_t i = 0; i < g->n_rows; i++)
        if (g->rows[i].verdict == VERDICT_SKIP) return g->rows[i].note;
    return "";
}

size_t runner_unjudged(const struct run_result *r, struct runner_unjudged out[2 * RUNNER_TIERS]) {
    uint64_t counts[BACKENDS * RUNNER_TIERS][VERDICTS];
    size_t n = 0;
    count_groups(r, counts);
    for (int k = 0; k < BACKENDS * RUNNER_TIERS; k++) {
        const struct gate_result *first = NULL;
        uint64_t judged = 0;
        for (int v = 0; v < VERDICTS; v++) judged += v == VERDICT_SKIP ? 0 : counts[k][v];
        if (judged > 0) continue;
        for (size_t i = r->n; i-- > 0;)
            if (group_of(&r->gates[i]) == k) first = &r->gates[i];
        if (first == NULL) continue;
        struct runner_unjudged found = {first->gate->tier, first->backend, first_reason(first)};
        out[n++] = found;
    }
    return n;
}

/* ---- control runs ---------------------------------------------------------------------------------------------- */
static uint64_t control_streams(const struct gate *g, const struct evidence *row) {
    static const char *const others[] = {"golden", "base", "first-step", "independence", "run"};
    if (row->verdict == VERDICT_SKIP || row->test_case[0] == '\0') return 0;
    if (g->tier == TIER_TOLERANCE && strcmp(row->arm, "a/a") == 0) {
        const char *behind = strstr(row->test_case, "fresh process, ");
        return behind == NULL ? 0 : strtoull(behind + strlen("fresh process, "), NULL, 10);
    }
    if (g->tier != TIER_IDENTITY || evidence_is_control(row) || strcmp(row->test_case, "events") == 0)
        return 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(row->arm, others[i]) == 0) return 0;
    return 1;
}

struct runner_controls runner_controls(const struct run_result *r) {
    struct runner_controls c = {0, 0};
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->gates[i].n_rows; k++) {
            const struct evidence *row = &r->gates[i].rows[k];
            uint64_t n = control_streams(r->gates[i].gate, row);
            c.streams += n;
            c.alarms += n > 0 && row->verdict != VERDICT_PASS;
        }
    }
    return c;
}
