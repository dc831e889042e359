/* run_rounds.c - see run_rounds.h. */
#include "tools/run_rounds.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/backend.h"
#include "gates/coverage.h"
#include "gates/repro.h"
#include "tools/cli.h"

/* ---- which backends -------------------------------------------------------------------------------------------- */
/* Asked in a child: a process that has opened a device cannot fork the gates. why: what the device said, or "". */
static int cuda_is_present(char *why, size_t room) {
    int fds[2], status = 0;
    (void)snprintf(why, room, "no CUDA device");
    if (pipe(fds) != 0) return 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct device_info d;
        struct err e = {""};
        int there = backend_cuda_device(&d, &e) == STATUS_OK;
        if (!there) (void)!write(fds[1], e.message, strlen(e.message));
        _exit(there ? 0 : 1);
    }
    (void)close(fds[1]);
    ssize_t n = pid < 0 ? 0 : read(fds[0], why, room - 1);
    (void)close(fds[0]);
    if (n > 0) why[n] = '\0';
    if (pid < 0) return 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const struct gate gate_device = {
    .id = "backend.cuda",
    .tier = TIER_PARITY,
    .claim = "the selected backend is there",
};

static enum status no_device(struct run_result *out, const char *why, struct err *err) {
    struct evidence row;
    memset(&row, 0, sizeof row);
    row.tier = gate_device.tier;
    row.verdict = VERDICT_ERROR;
    row.value = row.bound = (double)NAN;
    (void)snprintf(row.gate, sizeof row.gate, "%s", gate_device.id);
    (void)snprintf(row.arm, sizeof row.arm, "run");
    (void)snprintf(row.metric, sizeof row.metric, "none");
    (void)snprintf(row.grade, sizeof row.grade, "queried");
    (void)snprintf(row.repro, sizeof row.repro, "forkgate run --backend cuda");
    (void)snprintf(row.note, sizeof row.note, "%.300s", why);
    return runner_append(out, &gate_device, "cuda", &row, err);
}

/* ---- one backend, once ----------------------------------------------------------------------------------------- */
static int default_jobs(const struct run_rounds *r, enum backend_kind backend) {
    if (r->jobs > 0) return r->jobs;
    int cores = r->options.context.config.compute.n_threads;
    return backend == BACKEND_CUDA ? 1 : cores > 4 ? 4 : cores;
}

/* A complete run must have run every kernel of the backend; the gates are through, so a device may be opened here. */
static enum status judge_coverage(const struct run_rounds *r, struct run_result *one, struct err *err) {
    static struct coverage c;
    const struct engine_config *config = &r->options.context.config;
    RETURN_IF_ERROR(coverage_of_run(one, config, &c, err));
    RETURN_IF_ERROR(coverage_judge(&c, config, one, err));
    struct evidence *row = &one->gates[one->n - 1].rows[0];
    repro_complete(&r->options.context, row->repro, sizeof row->repro);
    cli_progress_end();
    coverage_print(stdout, &c, r->print->verbose);
    return STATUS_OK;
}

static void count_tiers(struct run_print *p, const struct runner_options *o) {
    memset(p->total, 0, sizeof p->total);
    p->tier = -1;
    for (size_t i = 0; o->registry[i] != NULL; i++)
        if (o->tiers[o->registry[i]->tier] && runner_selects_gate(o->context.only, o->registry[i]->id))
            p->total[o->registry[i]->tier]++;
}

static enum status run_one(struct run_rounds *r, enum backend_kind backend, struct run_result *out,
                           struct err *err) {
    struct run_result one;
    r->options.context.config.backend = backend;
    r->options.jobs = default_jobs(r, backend);
    run_print_header(&r->options.context);
    count_tiers(r->print, &r->options);
    enum status s = runner_run(&r->options, &one, err);
    if (s == STATUS_OK && coverage_is_complete(&r->options, &one)) s = judge_coverage(r, &one, err);
    if (s == STATUS_OK) s = runner_merge(out, &one, err);
    if (s != STATUS_OK) runner_free(&one);
    return s;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */
/* The unit tests know of no backend: they run once. */
static enum status run_round(struct run_rounds *r, int cuda_there, const char *why, struct run_result *out,
                             struct err *err) {
    int suite = r->options.tiers[TIER_SUITE];
    enum status s = STATUS_OK;
    for (int b = BACKEND_CPU; b <= BACKEND_CUDA && s == STATUS_OK; b++) {
        if ((r->backends & 1u << (unsigned)b) == 0) continue;
        if (b == BACKEND_CUDA && !cuda_there) {
            s = no_device(out, why, err);
            continue;
        }
        s = run_one(r, (enum backend_kind)b, out, err);
        r->options.tiers[TIER_SUITE] = 0;
    }
    r->options.tiers[TIER_SUITE] = suite;
    return s;
}

enum status run_rounds(struct run_rounds *r, struct run_result *out, struct err *err) {
    char why[400] = "";
    enum status s = STATUS_OK;
    memset(out, 0, sizeof *out);
    /* under a tool, it is the tool's child that opens the device, and says so where there is none */
    int looks =
        r->options.context.under == NULL && (r->backends == 0 || (r->backends & 1u << BACKEND_CUDA) != 0);
    int there = looks ? cuda_is_present(why, sizeof why) : 1;
    if (r->backends == 0) r->backends = 1u << BACKEND_CPU | (there ? 1u << BACKEND_CUDA : 0);
    r->print->backends = r->backends;
    for (int i = 0; i < r->repeat && s == STATUS_OK; i++) {
        if (r->repeat > 1) printf("round %d of %d\n", i + 1, r->repeat);
        s = run_round(r, there, why, out, err);
    }
    return s;
}
