/* runner.c - see runner.h. The pipe work is in runner_child.c. */
#include "gates/runner.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/change_class.h"
#include "gates/fixtures_check.h"
#include "gates/runner_child.h"

#define JOBS_MAX 16

struct run {
    const struct runner_options *options;
    struct run_result *out;
    struct gate_context context;
    struct runner_child slots[JOBS_MAX];
    int *finished;   /* [out->n] */
    size_t reported; /* results handed to on_result */
    size_t done;
};

int runner_selects_gate(const char *only, const char *gate) {
    if (only == NULL) return 1;
    size_t n = strcspn(only, "/");
    return strlen(gate) == n && memcmp(gate, only, n) == 0;
}

int runner_selects_case(const char *only, const char *gate, const char *test_case) {
    if (!runner_selects_gate(only, gate)) return 0;
    const char *part = only == NULL ? NULL : strchr(only, '/');
    return part == NULL || strstr(test_case, part + 1) != NULL;
}

static enum status select_gates(const struct runner_options *o, struct run_result *out, struct err *err) {
    size_t n = 0;
    while (o->registry[n] != NULL) n++;
    out->gates = calloc(n + 1, sizeof *out->gates);
    if (out->gates == NULL) return err_set(err, STATUS_NOMEM, "run: %zu gates", n);
    for (size_t i = 0; i < n; i++) {
        const struct gate *g = o->registry[i];
        if (!o->tiers[g->tier] || !runner_selects_gate(o->context.only, g->id)) continue;
        out->gates[out->n].gate = g;
        out->gates[out->n++].backend = o->context.config.backend == BACKEND_CUDA ? "cuda" : "cpu";
    }
    return STATUS_OK;
}

static void settle(struct run *run, size_t i) {
    struct gate_result *r = &run->out->gates[i];
    size_t moved = run->options->class_fa && run->options->tiers[TIER_TOLERANCE] ? change_class_apply(r) : 0;
    runner_fold(r);
    if (moved > 0 && r->verdict == VERDICT_PASS)
        r->verdict = VERDICT_SKIP; /* streams off the rails are no pass */
    run->out->counts[r->verdict]++;
    run->finished[i] = 1;
    run->done++;
    while (run->reported < run->out->n && run->finished[run->reported]) {
        if (run->options->on_result != NULL)
            run->options->on_result(run->options->sink, &run->out->gates[run->reported]);
        run->reported++;
    }
}

/* A gate that cannot run here gets its SKIP row without a child. */
static int skip_without_child(struct run *run, size_t i) {
    struct gate_result *r = &run->out->gates[i];
    if (r->gate->needs_cuda && run->context.config.backend != BACKEND_CUDA)
        runner_add_note(r, VERDICT_SKIP, "needs backend cuda, which is not selected");
    else
        return 0;
    settle(run, i);
    return 1;
}

static enum status start(struct run *run, struct runner_child *slot, size_t i, struct err *err) {
    const struct gate *g = run->out->gates[i].gate;
    double scale = run->options->timeout_scale > 0 ? run->options->timeout_scale : 1.0;
    slot->index = i;
    if (run->options->on_start != NULL) run->options->on_start(run->options->sink, g, run->done, run->out->n);
    return runner_child_start(slot, g, &run->context, g->timeout_s * scale, err);
}

/* Waits for news of any child; ends those that are through or late. */
static void attend(struct run *run, int jobs) {
    struct pollfd fds[JOBS_MAX];
    double now = runner_clock(), wait = 3600;
    for (int s = 0; s < jobs; s++) {
        struct runner_child *c = &run->slots[s];
        fds[s].fd = c->pid != 0 ? c->fd : -1;
        fds[s].events = POLLIN;
        fds[s].revents = 0;
        if (c->pid != 0 && c->deadline - now < wait) wait = c->deadline - now;
    }
    (void)poll(fds, (nfds_t)jobs, wait > 0 ? (int)(wait * 1e3) + 1 : 0);
    now = runner_clock();
    for (int s = 0; s < jobs; s++) {
        struct runner_child *c = &run->slots[s];
        if (c->pid == 0) continue;
        struct gate_result *r = &run->out->gates[c->index];
        int open = fds[s].revents == 0 || runner_child_read(c, r);
        if (open && now < c->deadline) continue;
        runner_child_finish(c, r, open);
        settle(run, c->index);
    }
}

/* Gates [begin, end) belong to one tier. */
static enum status run_tier(struct run *run, size_t begin, size_t end, struct err *err) {
    int jobs = run->options->jobs < 1 ? 1 : run->options->jobs > JOBS_MAX ? JOBS_MAX : run->options->jobs;
    size_t next = begin;
    enum status s = STATUS_OK;
    for (;;) {
        int busy = 0;
        for (int k = 0; k < jobs && s == STATUS_OK; k++) {
            while (run->slots[k].pid == 0 && next < end && s == STATUS_OK) {
                size_t i = next++;
                if (!skip_without_child(run, i)) s = start(run, &run->slots[k], i, err);
            }
        }
        for (int k = 0; k < jobs; k++) busy += run->slots[k].pid != 0;
        if (busy == 0) return s;
        attend(run, jobs);
    }
}

static void skip_tier(struct run *run, size_t begin, size_t end, enum tier red) {
    char note[96];
    (void)snprintf(note, sizeof note, "not run: tier %s is red (--keep-going runs it)", tier_name(red));
    for (size_t i = begin; i < end; i++) {
        runner_add_note(&run->out->gates[i], VERDICT_SKIP, note);
        settle(run, i);
    }
}

static int tier_is_red(const struct run_result *out, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        if (out->gates[i].verdict != VERDICT_PASS && out->gates[i].verdict != VERDICT_SKIP) return 1;
    return 0;
}

static enum status run_all(struct run *run, struct err *err) {
    int red = -1;
    for (size_t begin = 0, end; begin < run->out->n; begin = end) {
        enum tier tier = run->out->gates[begin].gate->tier;
        for (end = begin; end < run->out->n && run->out->gates[end].gate->tier == tier;) end++;
        if (red >= 0 && !run->options->keep_going) {
            skip_tier(run, begin, end, (enum tier)red);
            continue;
        }
        RETURN_IF_ERROR(run_tier(run, begin, end, err));
        if (red < 0 && tier_is_red(run->out, begin, end)) red = (int)tier;
    }
    return STATUS_OK;
}

enum status runner_run(const struct runner_options *o, struct run_result *out, struct err *err) {
    memset(out, 0, sizeof *out);
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) return err_set(err, STATUS_NOMEM, "run: state");
    double started = runner_clock();
    run->options = o;
    run->out = out;
    run->context = o->context;
    if (o->jobs > 1) {
        int share = o->context.config.compute.n_threads / o->jobs;
        run->context.config.compute.n_threads = share > 0 ? share : 1;
    }
    enum status s = select_gates(o, out, err);
    if (s == STATUS_OK) run->finished = calloc(out->n + 1, sizeof *run->finished);
    if (s == STATUS_OK && run->finished == NULL) s = err_set(err, STATUS_NOMEM, "run: state");
    if (s == STATUS_OK) s = run_all(run, err);
    if (s == STATUS_OK && out->n > 0 && o->context.source_dir != NULL) s = fixtures_check(o, out, err);
    for (int k = 0; k < JOBS_MAX; k++) free(run->slots[k].buffer);
    free(run->finished);
    free(run);
    out->ms = (runner_clock() - started) * 1e3;
    return s;
}

void runner_free(struct run_result *r) {
    for (size_t i = 0; i < r->n; i++) free(r->gates[i].rows);
    free(r->gates);
    memset(r, 0, sizeof *r);
}
