/* runner.h - runs the selected gates, each in a child process of its own, and folds their rows into verdicts.
 * Not a scheduler of tests inside a gate, and it never retries: one run, one verdict.
 * Idea: a crash, a hang, an exit or a lost device is that gate's ERROR row and the run goes on; a gate that leaves no row
 * has judged nothing, which is an ERROR too.
 * Source: ours. Exercise: ctest -R unit.verdicts */
#ifndef FORKGATE_RUNNER_H
#define FORKGATE_RUNNER_H

#include <stddef.h>

#include "gates/gate.h"

#define RUNNER_TIERS 5

struct gate_result {
    const struct gate *gate;
    enum verdict verdict;
    struct evidence *rows; /* [n_rows], in the order the gate emitted them */
    size_t n_rows;
    double ms;
    const char *backend; /* "cpu", "cuda": of its rows */
    int lost;            /* a row found no memory: ERROR, whatever the others say */
};

struct run_result {
    struct gate_result *gates; /* [n], in registry order; behind them what the run says of itself */
    size_t n;
    uint64_t counts[VERDICTS]; /* gates by verdict */
    double ms;
};

struct runner_options {
    struct gate_context context; /* emit and sink are the runner's own; n_threads is divided among jobs */
    const struct gate *const *registry;
    int tiers[RUNNER_TIERS]; /* non-zero: selected */
    int keep_going; /* run later tiers after a red one; otherwise their gates are SKIP with that reason */
    int class_fa; /* forks from the goldens are tier 4's to judge (change_class.h); only where it is selected */
    int jobs;     /* gates at a time, 1 .. 16 */
    double timeout_scale; /* multiplies every gate's time-out; 0 means 1 */
    /* Called in registry order as soon as each result and all before it are known; may be NULL. */
    void (*on_result)(void *sink, const struct gate_result *r);
    /* Called when a gate starts, with the number of gates finished and selected (for a progress line); may be NULL. */
    void (*on_start)(void *sink, const struct gate *g, size_t done, size_t total);
    void *sink;
};

/* Runs everything selected. An error means the run itself could not be done (no fork, no memory). free with
 * runner_free. A selection without a gate gives n == 0, whose exit code is 2. */
enum status runner_run(const struct runner_options *o, struct run_result *out, struct err *err);
void runner_free(struct run_result *r);

/* Appends a result of one row (what the run says of itself: coverage, a missing device). STATUS_NOMEM. */
enum status runner_append(struct run_result *r, const struct gate *g, const char *backend,
                          const struct evidence *row, struct err *err);
/* Moves the results of `more` (another backend, another round) behind those of r. STATUS_NOMEM. */
enum status runner_merge(struct run_result *r, struct run_result *more, struct err *err);

/* Control runs: streams of tier identity and A/A streams of tier tolerance that the same build made twice, under options
 * that must not matter; an alarm is one that was not identical. On an unchanged build every alarm is a false one. */
struct runner_controls {
    uint64_t streams, alarms;
};
struct runner_controls runner_controls(const struct run_result *r);

/* A tier of one backend in which gates were selected and none was judged: `why` is the reason of its first SKIP. */
struct runner_unjudged {
    enum tier tier;
    const char *backend, *why;
};
size_t runner_unjudged(const struct run_result *r, struct runner_unjudged out[2 * RUNNER_TIERS]);
/* verdict_exit_code_tiers over backends and tiers. */
int runner_exit_code(const struct run_result *r);

/* How many times its own time-out a gate may take on this model, 1 to 20: the time-outs are those of the embedded one, and
 * the time a stream takes grows with the bytes of the file. */
double runner_patience(const char *model_path);

/* Does `only` ("GATE" or "GATE/part of a case", NULL: everything) select this gate; this case? Gates ask for cases. */
int runner_selects_gate(const char *only, const char *gate);
int runner_selects_case(const char *only, const char *gate, const char *test_case);

#endif
