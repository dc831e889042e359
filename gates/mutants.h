/* mutants.h - the fault matrix: every planted fault against every tier, and what the matrix says about the gates.
 * Not a gate and not the faults (engine/fault.h): it runs forkgate-faults once per plant and gate, and judges the gates.
 * Idea: a plant that no tier kills is a hole; a gate that kills nothing of what it reached is BLIND; a plant that a gate
 * never reached says nothing about it. A gate must pass with no fault on, or its kills mean nothing.
 * Source: mutation testing; DESIGN of forkgate, section 5. Exercise: forkgate mutants --quick */
#ifndef FORKGATE_MUTANTS_H
#define FORKGATE_MUTANTS_H

#include <stdio.h>

#include "gates/gate.h"

#define MUTANT_GATES  8  /* of a plant, tried first */
#define MUTANTS_GATES 64 /* in a registry */
#define MUTANTS_JOBS  64

enum mutant_where { MUTANT_TWIN, MUTANT_KERNEL, MUTANT_BOTH };
/* What the change would have been called, and so which tiers must see it: ANY (parity does), BITWISE (bytes do, a
 * tolerance need not), FA (legal: bytes move, everything else must pass). */
enum mutant_class { MUTANT_ANY, MUTANT_BITWISE, MUTANT_FA };
/* What it does to the numbers; NONE: nothing, it is about launches. The order is from small to large. */
enum mutant_size { MUTANT_NONE, MUTANT_ULP, MUTANT_SMALL, MUTANT_LARGE, MUTANT_GARBAGE };

/* One row of fixtures/mutants.csv. */
struct mutant {
    char id[24], op[24]; /* op: of a rule that several ops share, all of them: "matmul attention" */
    enum mutant_where where;
    enum mutant_class class_of;
    enum mutant_size size;
    int legal;                    /* not a fault: a regrouping that only byte gates may see */
    int expect[TIER_PERF + 1];    /* tiers that are meant to kill it */
    char gates[MUTANT_GATES][32]; /* tried first, in this order; the parity ones are the planted op's */
    int n_gates;
    char options[64]; /* legal: engine options that make the change */
    char description[160];
};

/* STATUS_FORMAT names record and field: an unknown word, a legal row without options, a repeated id. free(*out). */
enum status mutants_load(const char *path, struct mutant **out, size_t *n, struct err *err);

enum mutant_cell {
    CELL_NOT_RUN, /* not selected, or stopped before */
    CELL_NOT_REACHED,
    CELL_SURVIVED,
    CELL_KILLED,
    CELL_ERROR /* the gate is not green without the fault, or could not be started */
};

/* One plant against one gate. */
struct mutant_trial {
    const struct gate *gate;
    enum mutant_cell cell;
    char how[96]; /* killed: arm and case of the first red row, or "timed out", "killed by signal 11" */
    double ms;
};

struct mutant_result {
    const struct mutant *mutant;
    struct mutant_trial *trials; /* [n] in the order they ran */
    int n;
};

/* Is this row of tier tolerance open by the run's own choice (few streams, nothing moved)? It says nothing about a fault. */
int mutant_row_open(const struct evidence *e);

/* The cell of a tier: KILLED when a gate of it killed, then ERROR, SURVIVED, NOT_REACHED, NOT_RUN. */
enum mutant_cell mutant_tier_cell(const struct mutant_result *r, enum tier tier);

struct gate_score {
    const struct gate *gate;
    int reached, killed;
    const struct mutant *smallest; /* killed; NULL when none */
};

enum mutant_verdict {
    MUTANT_OK,          /* killed by a tier that binds its class; legal: seen by bytes and by nothing else */
    MUTANT_HOLE,        /* reached, and killed by no tier (or by none that binds its class) */
    MUTANT_FALSE_ALARM, /* legal, but a gate that must allow it is red */
    MUTANT_UNREACHED,   /* no gate ran its site */
    MUTANT_UNJUDGED     /* a gate could not be judged, and no other killed */
};
enum mutant_verdict mutant_judge(const struct mutant_result *r);

struct mutants_judgement {
    size_t killed, holes, false_alarms, unreached, unjudged;
    struct gate_score gates[MUTANTS_GATES];
    int n_gates, n_blind;
    int complete; /* every trial ran: only then is a gate that killed nothing BLIND */
};
void mutants_judge(const struct mutant_result *results, size_t n, int complete,
                   struct mutants_judgement *out);

/* 1: a hole, a false alarm or a blind gate; else 2: something unjudged, or nothing killed; else 0. */
int mutants_exit_code(const struct mutants_judgement *j);

/* ---- running ---- */
struct mutants_options {
    const char *faults; /* path of forkgate-faults */
    const char *base;   /* path of the same build without faults, for the tolerance tier */
    const char *model_path;
    const char *source_dir; /* what the children judge by */
    struct engine_config config;
    const struct gate *const *registry;
    int tiers[TIER_PERF + 1];
    const char *only; /* ids, comma-separated; or NULL */
    int quick;        /* a plant's own gates first, and no more after the first kill */
    int named;        /* a plant's own gates, all of them, and no other */
    int jobs;         /* children at a time, 1 to MUTANTS_JOBS; 0: 1 */
    double timeout_s; /* of one child; 0: the gate's own */
    /* Called when a plant is through; may be NULL. */
    void (*on_result)(void *sink, const struct mutant_result *r, size_t done, size_t total);
    void *sink;
};

/* One result per selected mutant, in the order of the file, however many children run at a time. STATUS_USAGE when `only` names none, STATUS_IO when
 * forkgate-faults cannot be run. Free with mutants_free. */
enum status mutants_run(const struct mutants_options *o, const struct mutant *mutants, size_t n,
                        struct mutant_result **out, size_t *n_out, struct err *err);
void mutants_free(struct mutant_result *results, size_t n);

/* ---- showing ---- */
struct mutants_header {
    const char *command, *date, *device, *arch, *commit, *backend;
};
/* One row per plant and tier that ran, or could not be reached. */
enum status mutants_write_csv(const char *path, const struct mutants_header *h,
                              const struct mutant_result *results, size_t n, struct err *err);
void mutants_print_head(FILE *out);
void mutants_print_row(FILE *out, const struct mutant_result *r);
/* Gates, with the smallest fault each detects; holes; then the closing line. */
void mutants_print_end(FILE *out, const struct mutants_judgement *j, const struct mutant_result *results,
                       size_t n);

const char *mutant_cell_name(enum mutant_cell c);
const char *mutant_verdict_name(enum mutant_verdict v);
const char *mutant_size_name(enum mutant_size s);
const char *mutant_where_name(enum mutant_where w);
const char *mutant_class_name(enum mutant_class c);

#endif
