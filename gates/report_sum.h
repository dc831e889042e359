/* report_sum.h - evidence rows folded into gates and tiers, for every report that people read.
 * Not a second opinion: the fold is verdict.c's, the same that gives the exit code.
 * Source: ours. Exercise: ctest -R unit.report_html */
#ifndef FORKGATE_REPORT_SUM_H
#define FORKGATE_REPORT_SUM_H

#include <stddef.h>

#include "gates/gate.h"

#define REPORT_TIERS (TIER_PERF + 1)

struct report_gate {
    const char *id, *backend; /* of the first row */
    enum tier tier;
    enum verdict verdict;
    size_t n, moved;                /* rows; those that class fa left to tier 4 */
    uint64_t counts[VERDICTS];      /* rows by verdict */
    const struct evidence *telling; /* first row of the gate's own verdict */
    const struct evidence
        *closest; /* row with the largest headroom among those with a bound above 0; NULL: none */
    double ms;    /* of all rows */
};

struct report_sum {
    struct report_gate *gates; /* [n] in the order of their first rows */
    size_t n, n_rows;
    uint64_t counts[VERDICTS]; /* gates by verdict */
    double ms;
    int is_small;  /* a row was made on --battery small */
    int no_golden; /* streams had none to be held against */
    char headline[400];
    /* the command that judges the same candidate whole; "" where this report may land, or says why it must not */
    char next[1024];
};

/* The rows must stay where they are. STATUS_NOMEM. Free with report_sum_free. */
enum status report_sum_rows(const struct evidence *rows, size_t n, struct report_sum *out, struct err *err);
void report_sum_free(struct report_sum *s);

/* As runner_exit_code: a tier of nothing but SKIPs is not green. */
int report_sum_exit_code(const struct report_sum *s);
/* From report_sum_exit_code, with the backends: "PASS: may land (cpu only)" only where every gate of the tiers that the class
 * binds is there on the whole battery (parity, suite and identity; for class fa tolerance too, whose streams were judged),
 * else "PASS of what was run, not a landing verdict (parity: op.rope only; not run: suite, identity; cpu only)"; "FAIL: must
 * not land (..)", "NOT JUDGED: .. (..)". */
const char *report_sum_headline(const struct report_sum *s);
const char *report_tier_question(enum tier t);
/* The gate's claim from the registry; NULL when this build does not have the gate. */
const char *report_gate_claim(const char *id);
/* "12 checks, closest 0.38 of its bound (oracle)", "2 of 12 checks, first: twin", the reason of a SKIP. */
void report_gate_line(const struct report_gate *g, char *out, size_t room);

#endif
