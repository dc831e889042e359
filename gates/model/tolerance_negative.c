/* tolerance_negative.c - the plants that must turn the tier red: damage made by the harness at the detection floor, and a
 * planted fault in forkgate-faults. A plant that stays green makes the gate BLIND.
 * Source: DESIGN of forkgate, section 5 "negative". Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gates/model/tolerance_parts.h"
#include "gates/tolerance_damage.h"

#define PLANT_STREAMS 8 /* forced through forkgate-faults */

static void verdict_row(const struct package *p, const char *plant, int seen, const char *floor) {
    struct finding f =
        tolerance_finding("negative", plant, "missed", seen ? 0 : 1, 0, seen ? VERDICT_PASS : VERDICT_BLIND);
    tolerance_row(p, &f, "%s: %s", seen ? "seen; detection floor" : "NOT seen", floor);
}

/* ---- the harness's own ----------------------------------------------------------------------------------------- */
static enum status damage_row(const struct package *p, enum damage damage, struct err *err) {
    char floor[160] = "";
    int seen = 0, placed = 0;
    for (int i = 0; i < p->battery.n && !placed; i++) { /* a stream without a place for it says nothing */
        RETURN_IF_ERROR(damage_floor(p->streams[i], damage, p->delta, &seen, floor, sizeof floor, err));
        placed = seen || strncmp(floor, "no place", 8) != 0;
    }
    if (placed)
        verdict_row(p, damage_name(damage), seen, floor);
    else
        tolerance_note(p, "negative", VERDICT_INCONCLUSIVE, "%s: no stream has a place for it: never tried",
                       damage_name(damage));
    return STATUS_OK;
}

/* ---- forkgate-faults --------------------------------------------------------------------------------------------- */
/* Smallest first: the first one that moves a row is the one that counts. */
static const char *const plants[] = {"FORKGATE_FAULT=sum-skip-last", "FORKGATE_FAULT=norm-tail",
                                     "FORKGATE_FAULT=fa-scale", "FORKGATE_FAULT=gqa-head", NULL};

/* Forces a few streams through the faulty build at the base's options. reached: a row moved. */
static enum status try_plant(struct package *p, const char *plant, int k, int *reached, int *seen, char *note,
                             size_t room, struct err *err) {
    struct side faulty = p->base;
    struct battery few = p->battery;
    struct side_work work = p->work;
    struct tolerance_arm a;
    char dir[WORK_PATH], name[32];
    faulty.kind = SIDE_BINARY;
    faulty.engine = NULL;
    faulty.fault = plant;
    (void)snprintf(faulty.spec, sizeof faulty.spec, "%s", p->ctx->faults);
    (void)snprintf(name, sizeof name, "plant-%d", k);
    few.n = few.n < PLANT_STREAMS ? few.n : PLANT_STREAMS;
    work.battery = &few;
    RETURN_IF_ERROR(side_replay(&faulty, &work, p->base_dir, name, dir, err));
    RETURN_IF_ERROR(tolerance_arm_new(plant, few.n, &a, err));
    enum status s = STATUS_OK;
    for (int i = 0; i < few.n && s == STATUS_OK; i++) {
        dump *d = NULL;
        s = side_open_dump(&faulty, dir, &few.prompts[i], &d, err);
        if (s == STATUS_OK) s = tolerance_series_from(p->streams[i], d, &a, i, few.prompts[i].name, err);
        dump_close(d);
    }
    if (s == STATUS_OK) {
        *reached = tolerance_rows_differ(&a, NULL) > 0;
        *seen = tolerance_judge_forced(&a, p->delta, note, room) == VERDICT_FAIL;
    }
    tolerance_arm_free(&a);
    return s;
}

static enum status plant_rows(struct package *p, struct err *err) {
    if (p->ctx->faults == NULL || !side_takes_options(&p->base)) {
        tolerance_note(p, "negative", VERDICT_SKIP, "planted faults: %s",
                       p->ctx->faults == NULL
                           ? "no forkgate-faults beside this binary"
                           : "the base is not a forkgate that they could be compared with");
        return STATUS_OK;
    }
    for (int k = 0; plants[k] != NULL; k++) {
        const char *id = strchr(plants[k], '=') + 1;
        char note[256] = "";
        int reached = 0, seen = 0;
        tolerance_progress(p, "tolerance: planted fault", (uint64_t)k, 3);
        RETURN_IF_ERROR(try_plant(p, plants[k], k, &reached, &seen, note, sizeof note, err));
        if (!reached) continue; /* this model or route never runs it */
        verdict_row(p, id, seen, note);
        return STATUS_OK;
    }
    tolerance_note(p, "negative", VERDICT_SKIP,
                   "no planted fault of the list is reached by this model and route");
    return STATUS_OK;
}

enum status tolerance_stage_negative(struct package *p, struct err *err) {
    for (int d = 0; d < DAMAGES; d++) RETURN_IF_ERROR(damage_row(p, (enum damage)d, err));
    return plant_rows(p, err);
}
