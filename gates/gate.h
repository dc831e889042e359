/* gate.h - what a gate is, what it may say, and the evidence row it must leave.
 * Not a test framework: a gate is a named, executable claim about the engine, with control arms.
 * Idea: a verdict can be re-derived from its row, and the row carries a command that replays it.
 * Source: DESIGN of forkgate, section 5. Exercise: ctest -R unit.verdicts */
#ifndef FORKGATE_GATE_H
#define FORKGATE_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "gates/hash.h"

enum verdict {
    VERDICT_PASS,
    VERDICT_FAIL,
    VERDICT_SKIP,        /* not run, with the reason; never counted as pass */
    VERDICT_ERROR,       /* could not judge */
    VERDICT_BLIND,       /* the negative arm passed: the gate sees nothing */
    VERDICT_INCONCLUSIVE /* controls unusable, provenance mismatch */
};
#define VERDICTS 6

enum tier { TIER_PARITY, TIER_SUITE, TIER_IDENTITY, TIER_TOLERANCE, TIER_PERF };

struct evidence {
    enum tier tier;
    char gate[48];       /* "op.rmsnorm" */
    char test_case[128]; /* "cols=257 rows=3 family=outlier" */
    char arm[32];        /* "twin-exact", "oracle", "poison", "a/a", "negative" */
    char kernels[512];   /* kernel ids executed, space separated */
    char metric[32];     /* "max_abs", "bits", "count" */
    double value, bound; /* accepted only by value <= bound; NaN where there is none */
    enum verdict verdict;
    char grade[16]; /* measured | derived | queried | recorded | self (a golden of this very commit) */
    uint64_t seed;
    char ref[40], got[40]; /* hash or number compared */
    char provenance[40];   /* id: hash of the run's provenance text */
    char repro[640];       /* a command that works when pasted */
    char note[320];        /* what a tired engineer needs: worst element, reason of a SKIP, first bad block */
    double ms;
    char backend[8]; /* "cpu", "cuda": where the ops of this check ran; the runner fills it in */
};

/* --battery full on a model file of more bytes takes this many tokens of each stream: minutes on a card, not hours. */
#define BATTERY_BRIEF_BYTES  ((long long)1 << 30)
#define BATTERY_BRIEF_TOKENS 32

/* What the runner hands to every gate. */
struct gate_context {
    const char *model_path;
    struct engine_config config; /* candidate's engine options */
    const char *source_dir;      /* where fixtures/ and golden/ are */
    const char *self;            /* path of this binary, for fresh-process arms and the suite */
    int full_battery;            /* --battery full */
    int small_battery; /* --battery small: four prompts, few tokens, for runs with a planted fault */
    const char *only;  /* --only GATE[/case substring], or NULL */
    void (*emit)(void *sink, const struct evidence *row);
    void *sink;
    const char *cause; /* --cause: the named reason of --class fa; NULL: none was given */
    const char *base; /* --base: dumps, a forkgate binary or a command; NULL: this build's default geometry */
    const char *engine_cmd; /* --engine-cmd: the candidate is another engine; NULL: this one */
    const char *faults;     /* path of forkgate-faults, for planted negative arms; NULL: there is none */
    void (*progress)(const char *what, uint64_t done, uint64_t total); /* for long gates; may be NULL */
    const char *keep;  /* folder for streams that left their golden (forked.h); NULL: they are not kept */
    const char *under; /* --under: the compute-sanitizer tool that each gate runs under; NULL: none */
};

struct gate {
    const char *id;
    enum tier tier;
    const char *claim; /* one sentence that a FAIL makes false */
    int needs_model, needs_cuda;
    double timeout_s;
    /* Emits rows; returns an error only when it could not judge (becomes an ERROR row). */
    enum status (*run)(const struct gate_context *ctx, struct err *err);
};

extern const struct gate *const gate_registry[]; /* NULL-terminated; one line per gate in registry.c */
/* Arms, space separated, that leave a row (a SKIP is one) under any options when the whole gate of the registry is run: one
 * that is missing from a green gate makes it an ERROR. "" for a gate of another list. */
const char *gate_arms_owed(const char *id);

const char *verdict_name(enum verdict v);
const char *tier_name(enum tier t);
int tier_from_name(const char *name); /* -1 when unknown */

/* Fold: FAIL or BLIND anywhere: 1; else ERROR or INCONCLUSIVE, or nothing passed: 2; else 0. */
int verdict_exit_code(const uint64_t counts[VERDICTS]);

/* The same for the gates of several tiers, one row of counts a tier: green only when each tier that has a gate has one
 * that was judged; a tier of nothing but SKIPs turns 0 into 2. */
int verdict_exit_code_tiers(const uint64_t (*counts)[VERDICTS], size_t tiers);

/* The verdict of a gate from the verdicts of its rows: the worst (FAIL, BLIND, ERROR, INCONCLUSIVE, PASS, SKIP);
 * ERROR when there is no row. */
enum verdict verdict_worst(const uint64_t counts[VERDICTS]);

/* Did this check compare anything: a metric with its value and bound, or two hashes? */
int evidence_compared(const struct evidence *e);
/* Is it of an arm that watches over the gate (negative, launched, heeded, ..) instead of what the gate claims? */
int evidence_is_control(const struct evidence *e);
/* Is the verdict another than the row's own numbers give: a PASS over its bound, a FAIL within it? */
int evidence_contradicts(const struct evidence *e);

#endif
