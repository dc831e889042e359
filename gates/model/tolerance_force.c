/* tolerance_force.c - candidate and controls forced along the base's streams: whole rows where the engines are in this
 * process, records where a side is another program.
 * Source: ours. Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <stdio.h>
#include <string.h>

#include "gates/model/tolerance_parts.h"
#include "gates/tolerance_score.h"

/* A side and the arm its points go to. */
struct forcing {
    struct side *side;
    struct tolerance_arm *arm;
};

static enum status new_arm(struct package *p, const struct side *s, struct tolerance_arm *a,
                           struct err *err) {
    char label[256];
    side_describe(s, label, sizeof label);
    return tolerance_arm_new(label, p->battery.n, a, err);
}

/* The engines of this process, stream by stream together. */
static enum status force_engines(struct package *p, const struct forcing *f, int n, struct err *err) {
    struct tolerance_score score;
    memset(&score, 0, sizeof score);
    RETURN_IF_ERROR(side_engine(&p->base, &score.base, err));
    for (int k = 0; k < n; k++) {
        if (f[k].side->kind != SIDE_ENGINE) continue;
        RETURN_IF_ERROR(side_engine(f[k].side, &score.others[score.n_others], err));
        score.arms[score.n_others++] = f[k].arm;
    }
    for (int i = 0; i < p->battery.n; i++) {
        tolerance_progress(p, "tolerance: forced stream", (uint64_t)i, (uint64_t)p->battery.n);
        RETURN_IF_ERROR(tolerance_score_stream(&score, &p->battery.prompts[i], p->streams[i], i, err));
    }
    p->base_rows = score.base_rows;
    p->base_wrong = score.base_wrong;
    return STATUS_OK;
}

/* A side that answers with dumps; a folder of dumps is a control that was forced when it was recorded. */
static enum status force_program(struct package *p, const struct forcing *f, const char *name,
                                 struct err *err) {
    char dir[WORK_PATH];
    if (f->side->kind == SIDE_DUMPS)
        (void)snprintf(dir, sizeof dir, "%.*s", WORK_PATH - 1, f->side->spec);
    else
        RETURN_IF_ERROR(side_replay(f->side, &p->work, p->base_dir, name, dir, err));
    for (int i = 0; i < p->battery.n; i++) {
        dump *d = NULL;
        RETURN_IF_ERROR(side_open_dump(f->side, dir, &p->battery.prompts[i], &d, err));
        enum status s = tolerance_series_from(p->streams[i], d, f->arm, i, p->battery.prompts[i].name, err);
        dump_close(d);
        RETURN_IF_ERROR(s);
    }
    return STATUS_OK;
}

static void base_row(const struct package *p) {
    struct finding f =
        tolerance_finding("base", "forced here: prefill against decode", "rows", (double)p->base_wrong, 0,
                          tolerance_judged((double)p->base_wrong, 0, VERDICT_INCONCLUSIVE));
    tolerance_row(p, &f, "%llu of %llu rows are not those of the base's streams",
                  (unsigned long long)p->base_wrong, (unsigned long long)p->base_rows);
}

enum status tolerance_stage_force(struct package *p, struct err *err) {
    struct forcing f[TOLERANCE_CONTROLS + 1];
    int n = 0, in_process = p->base.kind == SIDE_ENGINE;
    for (int k = 0; k < p->n_control; k++) {
        f[n].side = &p->control[k];
        f[n++].arm = &p->benign[k];
    }
    if (side_can_follow(&p->candidate)) {
        f[n].side = &p->candidate;
        f[n++].arm = &p->forced;
    }
    for (int k = 0; k < n; k++) RETURN_IF_ERROR(new_arm(p, f[k].side, f[k].arm, err));
    if (in_process) {
        RETURN_IF_ERROR(force_engines(p, f, n, err));
        base_row(p);
        if (p->base_wrong > 0) p->stop = 1;
    }
    for (int k = 0; k < n && !p->stop; k++) {
        char name[32];
        (void)snprintf(name, sizeof name, "forced-%d", k);
        if (in_process && f[k].side->kind == SIDE_ENGINE) continue;
        tolerance_progress(p, "tolerance: forced elsewhere", (uint64_t)k, (uint64_t)n);
        RETURN_IF_ERROR(force_program(p, &f[k], name, err));
    }
    return STATUS_OK;
}
