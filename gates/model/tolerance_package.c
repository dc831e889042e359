/* tolerance_package.c - see tolerance_package.h: opening, the order of the stages, closing. */
#include "gates/model/tolerance_package.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gates/compare.h"
#include "gates/model/tolerance_parts.h"
#include "gates/slurp.h"

#define SMALL_STREAMS 8
#define SMALL_TOKENS  32
#define SMALL_LONG    "whale-512.txt"

static void step_done(void *ctx, uint64_t done, uint64_t total) {
    struct package *p = ctx;
    tolerance_progress(p, p->doing, done, total);
}

/* Seven prompts of the battery and one long enough that chunks merge: what a planted fault is run against. Rates, draws and
 * texts are left out: so few streams decide nothing about them. */
static enum status make_small(struct package *p, const char *prompts, struct err *err) {
    struct battery_prompt *last = &p->battery.prompts[SMALL_STREAMS - 1];
    char path[2 * WORK_PATH];
    p->n_tokens = SMALL_TOKENS;
    if (p->battery.n < SMALL_STREAMS) return STATUS_OK;
    for (int i = SMALL_STREAMS; i < p->battery.n; i++) free(p->battery.prompts[i].bytes);
    p->battery.n = SMALL_STREAMS;
    free(last->bytes);
    last->bytes = NULL;
    last->n = 0;
    (void)snprintf(last->name, sizeof last->name, SMALL_LONG);
    (void)snprintf(path, sizeof path, "%s/" SMALL_LONG, prompts);
    return slurp_file(path, &last->bytes, &last->n, err);
}

static enum status open_package(struct package *p, struct err *err) {
    char prompts[WORK_PATH], list[WORK_PATH];
    RETURN_IF_ERROR(compare_self_test(err));
    (void)snprintf(prompts, sizeof prompts, "%.400s/fixtures/prompts", p->ctx->source_dir);
    (void)snprintf(list, sizeof list, "%.400s/fixtures/battery.csv", p->ctx->source_dir);
    RETURN_IF_ERROR(
        battery_open(p->plan->battery != NULL ? p->plan->battery : list, prompts, &p->battery, err));
    if (p->ctx->small_battery) RETURN_IF_ERROR(make_small(p, prompts, err));
    p->streams = calloc((size_t)p->battery.n + 1, sizeof *p->streams);
    if (p->streams == NULL) return err_set(err, STATUS_NOMEM, "tolerance: out of memory");
    RETURN_IF_ERROR(work_folder_make("forkgate-tolerance", &p->folder, err));
    p->work.folder = &p->folder;
    p->work.battery = &p->battery;
    p->work.progress = step_done;
    p->work.ctx = p;
    p->doing = "tolerance";
    return tolerance_sides_open(p, err);
}

static void close_package(struct package *p) {
    tolerance_sides_close(p);
    for (int i = 0; p->streams != NULL && i < p->battery.n; i++) dump_close(p->streams[i]);
    free(p->streams);
    tolerance_arm_free(&p->forced);
    for (int i = 0; i < TOLERANCE_CONTROLS; i++) tolerance_arm_free(&p->benign[i]);
    battery_close(&p->battery);
    work_folder_remove(&p->folder);
}

/* A command that cannot be run, or leaves no dump, is found by one token of one prompt and not after the base's streams. */
static enum status try_command(struct package *p, struct err *err) {
    const struct sampler_config greedy = sampler_greedy();
    struct battery one = p->battery;
    const struct side_work work = {&p->folder, &one, NULL, NULL};
    char dir[WORK_PATH], forced[WORK_PATH];
    one.n = 1;
    if (p->candidate.kind != SIDE_COMMAND) return STATUS_OK;
    RETURN_IF_ERROR(side_generate(&p->candidate, &work, &greedy, 1, "tried", dir, err));
    return side_can_follow(&p->candidate)
               ? side_replay(&p->candidate, &work, dir, "tried-forced", forced, err)
               : STATUS_OK;
}

enum status tolerance_package_run(const struct gate_context *ctx, const struct tolerance_plan *plan,
                                  struct err *err) {
    static tolerance_stage *const stages[] = {tolerance_stage_guard,    try_command,
                                              tolerance_stage_streams,  tolerance_stage_again,
                                              tolerance_stage_force,    tolerance_stage_controls,
                                              tolerance_stage_forced,   tolerance_stage_greedy,
                                              tolerance_stage_sampling, tolerance_stage_text,
                                              tolerance_stage_negative};
    struct package *p = calloc(1, sizeof *p);
    if (p == NULL) return err_set(err, STATUS_NOMEM, "tolerance: out of memory");
    p->ctx = ctx;
    p->plan = plan;
    p->n_tokens = plan->n_tokens;
    p->delta = (double)NAN;
    enum status s = open_package(p, err);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0] && s == STATUS_OK && !p->stop; i++)
        s = stages[i](p, err);
    close_package(p);
    free(p);
    return s;
}
