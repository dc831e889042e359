/* tolerance_parts.h - the state of one run of the tolerance package and its stages. Private to tolerance_*.c of gates/model.
 * Source: ours. Exercise: forkgate run --tier tolerance --class fa --cause TEXT */
#ifndef FORKGATE_TOLERANCE_PARTS_H
#define FORKGATE_TOLERANCE_PARTS_H

#include "gates/model/tolerance_package.h"
#include "gates/side.h"
#include "gates/tolerance.h"

#define TOLERANCE_CONTROLS 2

struct package {
    const struct gate_context *ctx;
    const struct tolerance_plan *plan;
    struct side base, candidate, control[TOLERANCE_CONTROLS];
    int n_control;
    struct work_folder folder;
    struct battery battery;
    struct side_work work;
    int n_tokens;      /* of every stream */
    const char *doing; /* progress label */
    char base_dir[WORK_PATH];
    int base_is_recorded;        /* base_dir is committed, not made by this run */
    dump **streams;              /* [battery.n] the base's greedy streams */
    struct tolerance_arm forced; /* candidate along the base's streams; n == 0: it cannot be forced */
    struct tolerance_arm benign[TOLERANCE_CONTROLS];
    uint64_t base_rows, base_wrong; /* rows of the base engine here; those that are not the base's dumps */
    double delta;                   /* of the controls; NaN until known */
    int stop;                       /* a control is unusable */
};

typedef enum status tolerance_stage(struct package *p, struct err *err);

/* Stages, in order. Each emits its rows and may set p->stop. */
tolerance_stage tolerance_stage_guard;    /* cause, self-comparison */
tolerance_stage tolerance_stage_streams;  /* the base's greedy streams */
tolerance_stage tolerance_stage_again;    /* A/A */
tolerance_stage tolerance_stage_force;    /* base, candidate and controls along the base's streams */
tolerance_stage tolerance_stage_controls; /* delta, near-tie share */
tolerance_stage tolerance_stage_forced;   /* the candidate along the base's tokens */
tolerance_stage tolerance_stage_greedy;   /* the candidate by itself */
tolerance_stage tolerance_stage_sampling;
tolerance_stage tolerance_stage_text;
tolerance_stage tolerance_stage_negative;

/* The candidate against itself: its first streams (in dir) once more, by a fresh process. */
enum status tolerance_candidate_again(struct package *p, const char *dir, struct err *err);

/* Opens candidate, base and controls from ctx (tolerance_sides.c). */
enum status tolerance_sides_open(struct package *p, struct err *err);
void tolerance_sides_close(struct package *p);

/* ---- rows ---- */
struct finding {
    const char *arm, *test_case, *metric;
    double value, bound; /* NaN: none */
    enum verdict verdict;
    const dump *ref, *got; /* streams compared; may be NULL */
    uint64_t seed;
};
struct finding tolerance_finding(const char *arm, const char *test_case, const char *metric, double value,
                                 double bound, enum verdict verdict);
void tolerance_row(const struct package *p, const struct finding *f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Judged by value <= bound: PASS or `otherwise`. */
enum verdict tolerance_judged(double value, double bound, enum verdict otherwise);
/* A row without numbers. */
void tolerance_note(const struct package *p, const char *arm, enum verdict v, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

struct tolerance_rate {
    uint64_t hits, trials;
};
/* The candidate's forks against a control's, one-sided Fisher; value = 1 - p, so that it is judged by value <= bound. */
void tolerance_rate_row(const struct package *p, const char *arm, const char *unit, uint64_t seed,
                        const struct tolerance_rate *own, const struct tolerance_rate *control);

void tolerance_progress(struct package *p, const char *doing, uint64_t done, uint64_t total);

#endif
