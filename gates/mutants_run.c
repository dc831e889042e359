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
/* On a device the twin's share of a gate is small, and a hung kernel is to be given up soon. */
#define PATIENCE_CUDA     4.0
#define PATIENCE_CUDA_LOW 12.0
#define POLL_NS           5000000L

/* What a gate says without any fault. */
enum control { CONTROL_UNKNOWN, CONTROL_RUNS, CONTROL_GREEN, CONTROL_SKIPS, CONTROL_RED };

/* A plant on its way through its gates, one after the other. */
struct lane {
    struct mutant_result *result;
    const struct gate *gates[MUTANTS_GATES];
    int n_gates, next, busy;
};

/* One child at work. */
struct slot {
    struct child_job child;
    const struct gate *gate;     /* NULL: free */
    const struct mutant *mutant; /* NULL: a control */
    struct lane *lane;           /* that waits for it; NULL: a control */
    double started;
    char csv[300], log[300];
};

struct run {
    const struct mutants_options *o;
    char folder[256];
    struct slot slots[MUTANTS_JOBS];
    int n_slots;
    enum control control[MUTANTS_GATES]; /* by place in the registry */
    double control_ms[MUTANTS_GATES];
    char why[MUTANTS_GATES][96]; /* of a red control */
};

/* How one child ended. */
struct outcome {
    struct child_end end;
    int reached, n_rows, n_skipped, n_open, n_red;
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

static void command_line(const struct run *r, const struct slot *s, struct child_args *a) {
    const struct gate *g = s->gate;
    const struct mutant *m = s->mutant;
    const struct engine_config *c = &r->o->config;
    memset(a, 0, sizeof *a);
    child_add(a, r->o->faults);
    child_add(a, "run");
    child_add_pair(a, "--tier", tier_name(g->tier));
    child_add_pair(a, "--only", g->id);
    child_add_pair(a, "--battery", "small");
    child_add_number(a, "--jobs", 1);
    child_add_pair(a, "--csv", s->csv);
    child_add_pair(a, "-m", r->o->model_path);
    child_add_pair(a, "--backend", c->backend == BACKEND_CUDA ? "cuda" : "cpu");
    child_add_pair(a, "--arch", arch_name(c->compute.arch));
    child_add_number(a, "--threads",
                     c->compute.n_threads > r->n_slots ? c->compute.n_threads / r->n_slots : 1);
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
        int open = mutant_row_open(&rows[i]);
        out->n_open += open;
        if (open || rows[i].verdict == VERDICT_PASS || rows[i].verdict == VERDICT_SKIP) continue;
        if (out->n_red++ > 0) continue;
        (void)snprintf(out->how, sizeof out->how, "%s%s%.24s %.60s",
                       rows[i].verdict == VERDICT_FAIL ? "" : verdict_name(rows[i].verdict),
                       rows[i].verdict == VERDICT_FAIL ? "" : " ", rows[i].arm,
                       rows[i].verdict == VERDICT_FAIL ? rows[i].test_case : rows[i].note);
    }
    free(rows);
}

/* Runs gate g with the plant (NULL: with none). */
static enum status slot_start(const struct run *r, struct slot *s, const struct gate *g,
                              const struct mutant *m, double timeout_s, struct err *err) {
    struct child_args args;
    char fault[48], log[340], root[4200];
    s->gate = g;
    s->mutant = m;
    (void)unlink(s->csv);
    (void)unlink(s->log);
    (void)snprintf(fault, sizeof fault, "FORKGATE_FAULT=%s", m == NULL || m->legal ? "" : m->id);
    (void)snprintf(log, sizeof log, "FORKGATE_FAULT_LOG=%s", s->log);
    (void)snprintf(root, sizeof root, "FORKGATE_ROOT=%s", r->o->source_dir);
    const char *const env[] = {fault, log, root, NULL};
    command_line(r, s, &args);
    struct child_request request = {&args, env, NULL, NULL, timeout_s};
    s->started = now_ms();
    enum status status = child_begin(&request, &s->child, err);
    child_args_free(&args);
    if (status != STATUS_OK) s->gate = NULL;
    return status;
}

/* What an ended child left; o->end is known. */
static void slot_end(const struct slot *s, struct outcome *o) {
    const struct mutant *m = s->mutant;
    o->ms = now_ms() - s->started;
    o->reached = m != NULL && (m->legal || log_names(s->log, m->id));
    read_rows(s->csv, o);
    if (o->end.exit_code == 2 && o->n_open > 0 && o->n_red == 0) o->end.exit_code = 0;
    if (o->end.exit_code == 0 || o->how[0] != '\0') return;
    char text[320];
    child_end_text(&o->end, text);
    (void)snprintf(o->how, sizeof o->how, "%.90s", text);
}

/* After an error: nobody waits for it any more. */
static void slot_stop(struct slot *s) {
    struct child_end ignored;
    struct timespec nap = {0, POLL_NS};
    if (s->gate == NULL) return;
    s->child.deadline = s->started * 1e-3; /* long past */
    while (!child_poll(&s->child, &ignored)) (void)nanosleep(&nap, NULL);
    s->gate = NULL;
}

/* ---- a trial ----------------------------------------------------------------------------------------------------- */
static size_t place_of(const struct run *r, const struct gate *g) {
    size_t i = 0;
    while (r->o->registry[i] != g) i++;
    return i;
}

/* A gate that cannot judge any more (it could without the fault) has noticed too. */
static enum mutant_cell cell_of(const struct outcome *o, const struct mutant *m) {
    if (m->legal && o->end.exit_code == 2) return CELL_ERROR; /* a legal change is to be judged */
    if (o->end.exit_code == 0) return o->reached ? CELL_SURVIVED : CELL_NOT_REACHED;
    return o->reached ? CELL_KILLED : CELL_ERROR;
}

static double timeout_of(const struct run *r, const struct gate *g, const struct mutant *m) {
    if (r->o->timeout_s > 0) return r->o->timeout_s;
    if (m == NULL) return g->timeout_s + PATIENCE_LOW;
    double unharmed = r->control_ms[place_of(r, g)] * 1e-3, more = unharmed * (PATIENCE - 1);
    if (r->o->config.backend == BACKEND_CUDA) return unharmed * PATIENCE_CUDA + PATIENCE_CUDA_LOW;
    return unharmed + (more < PATIENCE_LOW ? PATIENCE_LOW : more > PATIENCE_HIGH ? PATIENCE_HIGH : more);
}

static void control_end(struct run *r, const struct gate *g, const struct outcome *o) {
    size_t at = place_of(r, g);
    r->control_ms[at] = o->ms;
    r->control[at] = o->end.exit_code == 0                        ? CONTROL_GREEN
                     : o->n_rows > 0 && o->n_rows == o->n_skipped ? CONTROL_SKIPS
                                                                  : CONTROL_RED;
    (void)snprintf(r->why[at], sizeof r->why[at], "without a fault: %.78s", o->how);
}

static struct mutant_trial *add_trial(struct lane *l, const struct gate *g, enum mutant_cell cell,
                                      const char *how, double ms) {
    struct mutant_trial *t = &l->result->trials[l->result->n++];
    t->gate = g;
    t->cell = cell;
    t->ms = ms;
    (void)snprintf(t->how, sizeof t->how, "%s", how);
    return t;
}

/* ---- a plant ------------------------------------------------------------------------------------------------------ */
static const struct gate *gate_named(const struct run *r, const char *id) {
    for (size_t i = 0; r->o->registry[i] != NULL; i++)
        if (strcmp(r->o->registry[i]->id, id) == 0) return r->o->registry[i];
    return NULL;
}

/* Gates that a plant meets beside its own: quick, the golden streams; else every gate that runs a model. The suite is a
 * program of its own, and another op's gate cannot reach this op's fault. */
static int meets(const struct run *r, const struct gate *g) {
    if (r->o->named) return 0;
    if (r->o->quick) return strncmp(g->id, "stream.golden", 13) == 0;
    return g->tier != TIER_SUITE && g->tier != TIER_PERF && strncmp(g->id, "op.", 3) != 0;
}

static void add_gate(const struct run *r, struct lane *l, const struct gate *g) {
    if (!r->o->tiers[g->tier] || (g->needs_cuda && r->o->config.backend != BACKEND_CUDA)) return;
    for (int i = 0; i < l->n_gates; i++)
        if (l->gates[i] == g) return;
    if (l->n_gates < MUTANTS_GATES) l->gates[l->n_gates++] = g;
}

/* The gates of a plant, its own first. A kernel's plant is not in a build that runs on the CPU. */
static enum status lane_start(const struct run *r, const struct mutant *m, struct lane *l, struct err *err) {
    l->result->mutant = m;
    l->result->trials = calloc(MUTANTS_GATES, sizeof *l->result->trials);
    if (l->result->trials == NULL) return err_set(err, STATUS_NOMEM, "mutants: out of memory");
    for (int i = 0; i < m->n_gates; i++) {
        const struct gate *g = gate_named(r, m->gates[i]);
        if (g == NULL) return err_set(err, STATUS_FORMAT, "fault %s: no gate '%s'", m->id, m->gates[i]);
        add_gate(r, l, g);
    }
    int elsewhere = m->where == MUTANT_KERNEL && r->o->config.backend != BACKEND_CUDA;
    for (int i = 0; elsewhere && i < l->n_gates; i++)
        (void)add_trial(l, l->gates[i], CELL_NOT_REACHED, "", 0);
    if (elsewhere) l->next = l->n_gates;
    for (size_t i = 0; !elsewhere && r->o->registry[i] != NULL; i++)
        if (meets(r, r->o->registry[i])) add_gate(r, l, r->o->registry[i]);
    return STATUS_OK;
}

static int lane_done(const struct run *r, const struct lane *l) {
    if (l->busy) return 0;
    int settled = r->o->quick && !l->result->mutant->legal && mutant_judge(l->result) == MUTANT_OK;
    return settled || l->next == l->n_gates;
}

/* ---- the pool ------------------------------------------------------------------------------------------------------- */
static struct slot *free_slot(struct run *r) {
    for (int i = 0; i < r->n_slots; i++)
        if (r->slots[i].gate == NULL) return &r->slots[i];
    return NULL;
}

/* Starts what plant l needs next, if there is a free slot: its gate, or that gate without any fault. */
static enum status lane_step(struct run *r, struct lane *l, struct err *err) {
    while (!lane_done(r, l) && !l->busy) {
        const struct gate *g = l->gates[l->next];
        size_t at = place_of(r, g);
        if (r->control[at] == CONTROL_SKIPS || r->control[at] == CONTROL_RED) {
            if (r->control[at] == CONTROL_RED) (void)add_trial(l, g, CELL_ERROR, r->why[at], 0);
            l->next++;
            continue;
        }
        struct slot *s = free_slot(r);
        if (s == NULL || r->control[at] == CONTROL_RUNS) return STATUS_OK;
        int control = r->control[at] == CONTROL_UNKNOWN;
        RETURN_IF_ERROR(slot_start(r, s, g, control ? NULL : l->result->mutant,
                                   timeout_of(r, g, control ? NULL : l->result->mutant), err));
        s->lane = control ? NULL : l;
        if (control) r->control[at] = CONTROL_RUNS;
        l->busy = !control;
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* Takes what has ended; returns how many. */
static int slots_poll(struct run *r) {
    int ended = 0;
    for (int i = 0; i < r->n_slots; i++) {
        struct slot *s = &r->slots[i];
        struct outcome o;
        memset(&o, 0, sizeof o);
        if (s->gate == NULL || !child_poll(&s->child, &o.end)) continue;
        slot_end(s, &o);
        if (s->lane == NULL) {
            control_end(r, s->gate, &o);
        } else {
            (void)add_trial(s->lane, s->gate, cell_of(&o, s->mutant), o.how, o.ms);
            s->lane->next++;
            s->lane->busy = 0;
        }
        s->gate = NULL;
        ended++;
    }
    return ended;
}

static enum status run_lanes(struct run *r, struct lane *lanes, size_t total, struct err *err) {
    size_t done = 0;
    while (done < total) {
        for (size_t i = done; i < total; i++) RETURN_IF_ERROR(lane_step(r, &lanes[i], err));
        for (; done < total && lane_done(r, &lanes[done]); done++)
            if (r->o->on_result != NULL) r->o->on_result(r->o->sink, lanes[done].result, done + 1, total);
        struct timespec nap = {0, POLL_NS};
        if (done < total && slots_poll(r) == 0) (void)nanosleep(&nap, NULL);
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
    struct lane *lanes = calloc(total, sizeof *lanes);
    enum status s = lanes != NULL ? STATUS_OK : err_set(err, STATUS_NOMEM, "mutants: out of memory");
    size_t used = 0;
    for (size_t i = 0; i < n && s == STATUS_OK; i++) {
        if (!is_named(r->o->only, mutants[i].id)) continue;
        lanes[used].result = &results[used];
        s = lane_start(r, &mutants[i], &lanes[used++], err);
    }
    if (s == STATUS_OK) s = run_lanes(r, lanes, total, err);
    for (int i = 0; i < r->n_slots; i++) slot_stop(&r->slots[i]);
    free(lanes);
    return s;
}

static void make_slots(struct run *r) {
    r->n_slots = r->o->jobs < 1 ? 1 : r->o->jobs > MUTANTS_JOBS ? MUTANTS_JOBS : r->o->jobs;
    for (int i = 0; i < r->n_slots; i++) {
        (void)snprintf(r->slots[i].csv, sizeof r->slots[i].csv, "%s/rows-%d.csv", r->folder, i);
        (void)snprintf(r->slots[i].log, sizeof r->slots[i].log, "%s/reached-%d", r->folder, i);
    }
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
        make_slots(r);
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
