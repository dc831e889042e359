/* mutants_run.c - see mutants.h: one child process for each plant and gate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gates/child_process.h"
#include "gates/mutants.h"
#include "gates/report.h"

/* A child hangs when it takes so many times longer than without the fault, but so many seconds longer at least, and that
 * much is enough. (NaN everywhere is slow: the scalar code does what the fast one hands back.) */
#define PATIENCE      20.0
#define PATIENCE_LOW  30.0
#define PATIENCE_HIGH 200.0

/* What a gate says without any fault. */
enum control { CONTROL_UNKNOWN, CONTROL_GREEN, CONTROL_SKIPS, CONTROL_RED };

struct run {
    const struct mutants_options *o;
    char csv[300], log[300], folder[256];
    enum control control[MUTANTS_GATES]; /* by place in the registry */
    double control_ms[MUTANTS_GATES];
    char why[MUTANTS_GATES][96]; /* of a red control */
};

/* How one child ended. */
struct outcome {
    struct child_end end;
    int reached, n_rows, n_skipped;
    char how[96]; /* of a red one */
    double ms;
};

static double now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- a child --------------------------------------------------------------------------------------------------- */
static void add_words(struct child_args *a, const char *text) {
    char word[64];
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, " ");
        (void)snprintf(word, sizeof word, "%.*s", (int)n, p);
        child_add(a, word);
        p += n + (p[n] == ' ');
    }
}

static void command_line(const struct run *r, const struct gate *g, const struct mutant *m,
                         struct child_args *a) {
    const struct engine_config *c = &r->o->config;
    memset(a, 0, sizeof *a);
    child_add(a, r->o->faults);
    child_add(a, "run");
    child_add_pair(a, "--tier", tier_name(g->tier));
    child_add_pair(a, "--only", g->id);
    child_add_pair(a, "--battery", "small");
    child_add_number(a, "--jobs", 1);
    child_add_pair(a, "--csv", r->csv);
    child_add_pair(a, "-m", r->o->model_path);
    child_add_pair(a, "--backend", c->backend == BACKEND_CUDA ? "cuda" : "cpu");
    child_add_pair(a, "--arch", arch_name(c->compute.arch));
    child_add_number(a, "--threads", c->compute.n_threads);
    if (g->tier ==
        TIER_TOLERANCE) { /* the base is the build without faults: judged by itself a fault excuses itself */
        child_add_pair(a, "--class", "fa");
        child_add_pair(a, "--cause", m == NULL ? "no fault" : m->id);
        child_add_pair(a, "--base", r->o->base);
    }
    if (m != NULL && m->legal) add_words(a, m->options);
}

static int log_names(const char *path, const char *id) {
    char line[128];
    int found = 0;
    size_t n = strlen(id);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, (int)sizeof line, f) != NULL)
        found |= strncmp(line, id, n) == 0 && line[n] == ' ';
    if (f != NULL) (void)fclose(f);
    return found;
}

/* The first red row's arm and case. */
static void read_rows(const char *csv, struct outcome *out) {
    struct evidence *rows = NULL;
    size_t n = 0;
    if (report_read_csv(csv, &rows, &n, NULL) != STATUS_OK) return;
    out->n_rows = (int)n;
    for (size_t i = 0; i < n; i++) {
        out->n_skipped += rows[i].verdict == VERDICT_SKIP;
        if (out->how[0] != '\0' || rows[i].verdict == VERDICT_PASS || rows[i].verdict == VERDICT_SKIP)
            continue;
        (void)snprintf(out->how, sizeof out->how, "%s%s%.24s %.60s",
                       rows[i].verdict == VERDICT_FAIL ? "" : verdict_name(rows[i].verdict),
                       rows[i].verdict == VERDICT_FAIL ? "" : " ", rows[i].arm,
                       rows[i].verdict == VERDICT_FAIL ? rows[i].test_case : rows[i].note);
    }
    free(rows);
}

/* Runs gate g with the plant (NULL: with none). */
static enum status run_child(const struct run *r, const struct gate *g, const struct mutant *m,
                             double timeout_s, struct outcome *out, struct err *err) {
    struct child_args args;
    char fault[48], log[340], root[4200];
    memset(out, 0, sizeof *out);
    (void)unlink(r->csv);
    (void)unlink(r->log);
    (void)snprintf(fault, sizeof fault, "FORKGATE_FAULT=%s", m == NULL || m->legal ? "" : m->id);
    (void)snprintf(log, sizeof log, "FORKGATE_FAULT_LOG=%s", r->log);
    (void)snprintf(root, sizeof root, "FORKGATE_ROOT=%s", r->o->source_dir);
    const char *const env[] = {fault, log, root, NULL};
    command_line(r, g, m, &args);
    struct child_request request = {&args, env, NULL, NULL, timeout_s};
    double started = now_ms();
    enum status s = child_run(&request, &out->end, err);
    child_args_free(&args);
    out->ms = now_ms() - started;
    if (s != STATUS_OK) return s;
    out->reached = m != NULL && (m->legal || log_names(r->log, m->id));
    read_rows(r->csv, out);
    if (out->end.exit_code != 0 && out->how[0] == '\0') {
        char text[320];
        child_end_text(&out->end, text);
        (void)snprintf(out->how, sizeof out->how, "%.90s", text);
    }
    return STATUS_OK;
}

/* ---- a trial ----------------------------------------------------------------------------------------------------- */
static size_t place_of(const struct run *r, const struct gate *g) {
    size_t i = 0;
    while (r->o->registry[i] != g) i++;
    return i;
}

static enum status control_of(struct run *r, const struct gate *g, enum control *out, struct err *err) {
    size_t at = place_of(r, g);
    struct outcome o;
    if (at >= MUTANTS_GATES) return err_set(err, STATUS_LIMIT, "more than %d gates", MUTANTS_GATES);
    if (r->control[at] == CONTROL_UNKNOWN) {
        double timeout = r->o->timeout_s > 0 ? r->o->timeout_s : g->timeout_s + PATIENCE_LOW;
        RETURN_IF_ERROR(run_child(r, g, NULL, timeout, &o, err));
        r->control_ms[at] = o.ms;
        r->control[at] = o.end.exit_code == 0                      ? CONTROL_GREEN
                         : o.n_rows > 0 && o.n_rows == o.n_skipped ? CONTROL_SKIPS
                                                                   : CONTROL_RED;
        (void)snprintf(r->why[at], sizeof r->why[at], "without a fault: %.78s", o.how);
    }
    *out = r->control[at];
    return STATUS_OK;
}

/* A gate that cannot judge any more (it could without the fault) has noticed too. */
static enum mutant_cell cell_of(const struct outcome *o, const struct mutant *m) {
    if (m->legal && o->end.exit_code == 2) return CELL_ERROR; /* a legal change is to be judged */
    if (o->end.exit_code == 0) return o->reached ? CELL_SURVIVED : CELL_NOT_REACHED;
    return o->reached ? CELL_KILLED : CELL_ERROR;
}

static double timeout_of(const struct run *r, const struct gate *g) {
    double unharmed = r->control_ms[place_of(r, g)] * 1e-3, more = unharmed * (PATIENCE - 1);
    if (r->o->timeout_s > 0) return r->o->timeout_s;
    return unharmed + (more < PATIENCE_LOW ? PATIENCE_LOW : more > PATIENCE_HIGH ? PATIENCE_HIGH : more);
}

static enum status try_gate(struct run *r, const struct gate *g, struct mutant_result *result,
                            struct err *err) {
    struct mutant_trial *t = &result->trials[result->n];
    enum control control = CONTROL_UNKNOWN;
    struct outcome o;
    RETURN_IF_ERROR(control_of(r, g, &control, err));
    if (control == CONTROL_SKIPS) return STATUS_OK;
    t->gate = g;
    result->n++;
    if (control == CONTROL_RED) {
        t->cell = CELL_ERROR;
        memcpy(t->how, r->why[place_of(r, g)], sizeof t->how);
        return STATUS_OK;
    }
    RETURN_IF_ERROR(run_child(r, g, result->mutant, timeout_of(r, g), &o, err));
    t->cell = cell_of(&o, result->mutant);
    t->ms = o.ms;
    memcpy(t->how, o.how, sizeof t->how);
    return STATUS_OK;
}

/* ---- a plant ------------------------------------------------------------------------------------------------------ */
static const struct gate *gate_named(const struct run *r, const char *id) {
    for (size_t i = 0; r->o->registry[i] != NULL; i++)
        if (strcmp(r->o->registry[i]->id, id) == 0) return r->o->registry[i];
    return NULL;
}

static int was_tried(const struct mutant_result *result, const struct gate *g) {
    for (int i = 0; i < result->n; i++)
        if (result->trials[i].gate == g) return 1;
    return 0;
}

/* Gates that a plant meets beside its own: quick, the golden streams; else every gate that runs a model. The suite is a
 * program of its own, and another op's gate cannot reach this op's fault. */
static int meets(const struct run *r, const struct gate *g) {
    if (r->o->quick) return strncmp(g->id, "stream.golden", 13) == 0;
    return g->tier != TIER_SUITE && g->tier != TIER_PERF && strncmp(g->id, "op.", 3) != 0;
}

static int selected(const struct run *r, const struct gate *g) {
    return r->o->tiers[g->tier] && !(g->needs_cuda && r->o->config.backend != BACKEND_CUDA);
}

static int is_settled(const struct run *r, const struct mutant_result *result) {
    return r->o->quick && !result->mutant->legal && mutant_judge(result) == MUTANT_OK;
}

static enum status try_gates(struct run *r, struct mutant_result *result, struct err *err) {
    const struct mutant *m = result->mutant;
    int here = m->where != MUTANT_KERNEL || r->o->config.backend == BACKEND_CUDA;
    for (int i = 0; i < m->n_gates && !is_settled(r, result); i++) {
        const struct gate *g = gate_named(r, m->gates[i]);
        if (g == NULL) return err_set(err, STATUS_FORMAT, "fault %s: no gate '%s'", m->id, m->gates[i]);
        if (!selected(r, g) || was_tried(result, g)) continue;
        if (here) {
            RETURN_IF_ERROR(try_gate(r, g, result, err));
        } else {
            result->trials[result->n].gate = g;
            result->trials[result->n++].cell = CELL_NOT_REACHED;
        }
    }
    for (size_t i = 0; here && r->o->registry[i] != NULL && !is_settled(r, result); i++) {
        const struct gate *g = r->o->registry[i];
        if (selected(r, g) && meets(r, g) && !was_tried(result, g))
            RETURN_IF_ERROR(try_gate(r, g, result, err));
    }
    return STATUS_OK;
}

/* Is id in a comma-separated list (NULL: everything is)? */
static int is_named(const char *list, const char *id) {
    for (const char *p = list; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, ",");
        if (strlen(id) == n && memcmp(p, id, n) == 0) return 1;
        p += n + (p[n] == ',');
    }
    return list == NULL;
}

static enum status run_all(struct run *r, const struct mutant *mutants, size_t n,
                           struct mutant_result *results, size_t total, struct err *err) {
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_named(r->o->only, mutants[i].id)) continue;
        struct mutant_result *result = &results[done++];
        result->mutant = &mutants[i];
        result->trials = calloc(MUTANTS_GATES, sizeof *result->trials);
        if (result->trials == NULL) return err_set(err, STATUS_NOMEM, "mutants: out of memory");
        RETURN_IF_ERROR(try_gates(r, result, err));
        if (r->o->on_result != NULL) r->o->on_result(r->o->sink, result, done, total);
    }
    return STATUS_OK;
}

enum status mutants_run(const struct mutants_options *o, const struct mutant *mutants, size_t n,
                        struct mutant_result **out, size_t *n_out, struct err *err) {
    *out = NULL;
    *n_out = 0;
    size_t total = 0;
    for (size_t i = 0; i < n; i++) total += (size_t)is_named(o->only, mutants[i].id);
    if (total == 0) return err_set(err, STATUS_USAGE, "no fault '%s' (--list has them)", o->only);
    if (access(o->faults, X_OK) != 0)
        return err_set(err, STATUS_IO, "%s: not there (build target forkgate-faults)", o->faults);
    struct run *r = calloc(1, sizeof *r);
    struct mutant_result *results = calloc(total, sizeof *results);
    enum status s =
        r != NULL && results != NULL ? STATUS_OK : err_set(err, STATUS_NOMEM, "mutants: out of memory");
    if (s == STATUS_OK) s = child_folder_make("forkgate-mutants", r->folder, err);
    if (s == STATUS_OK) {
        r->o = o;
        (void)snprintf(r->csv, sizeof r->csv, "%s/rows.csv", r->folder);
        (void)snprintf(r->log, sizeof r->log, "%s/reached", r->folder);
        s = run_all(r, mutants, n, results, total, err);
        child_folder_remove(r->folder);
    }
    free(r);
    if (s != STATUS_OK) {
        mutants_free(results, total);
        return s;
    }
    *out = results;
    *n_out = total;
    return STATUS_OK;
}

void mutants_free(struct mutant_result *results, size_t n) {
    for (size_t i = 0; results != NULL && i < n; i++) free(results[i].trials);
    free(results);
}
