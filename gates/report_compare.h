/* report_compare.h - what changed since an earlier report: verdicts, checks that came and went, bounds, headroom, speed.
 * Not a judgement of either run (their rows carry their verdicts), and never one of speed (`forkgate ab` decides that).
 * Idea: a check is known by tier, gate, case, arm and metric; what is no longer judged is worse, and so is a check that
 * needs more of its bound than before: a ratchet. Only a PASS makes a changed verdict better.
 * Source: DESIGN of forkgate, section 5 "Evidence". Exercise: ctest -R unit.report ; ctest -R cli.report */
#ifndef FORKGATE_REPORT_COMPARE_H
#define FORKGATE_REPORT_COMPARE_H

#include <stddef.h>

#include "gates/gate.h"
#include "gates/table.h"

#define REPORT_RATCHET 0.01

/* In the order they are listed: the first five count as worse. */
enum report_move {
    REPORT_WORSE,    /* another verdict, and it is not PASS; or a new check that is neither PASS nor SKIP */
    REPORT_VANISHED, /* checked before, not any more */
    REPORT_LOOSENED, /* PASS as before, and the bound grew or is gone */
    REPORT_SHRANK,   /* PASS as before, with less headroom: more of the bound is used, beyond the ratchet */
    REPORT_BARE,     /* PASS as before, but kernels, ref or got, which the row had, are empty */
    REPORT_BETTER,   /* not PASS before, PASS now */
    REPORT_GREW,     /* PASS as before, with more headroom, beyond the ratchet */
    REPORT_TIGHTENED,
    REPORT_APPEARED,
    REPORT_SLOWER, /* a gate's time, by a quarter and 100 ms at least; shown, never judged */
    REPORT_FASTER,
    REPORT_MOVES
};

struct report_change {
    enum report_move move;
    const struct evidence *before, *after; /* NULL: not in that report; for speed: the gate's first rows */
    double from, to;                       /* headroom, bound or ms; NaN for the other moves */
    int whole_gate; /* vanished, appeared: the other report has no check of this gate */
};

struct report_comparison {
    struct report_change *changes; /* [n], by move, then as in the reports */
    size_t n, worse, same;         /* changes; those that count as worse; checks as before */
};

/* ratchet: how much more of its bound a check may use, as a share of the bound (0.01: 1 %). Rows of tier perf are measured
 * times and have no ratchet. The rows must stay where they are. STATUS_NOMEM. Free with report_compare_free. */
enum status report_compare(const struct evidence *before, size_t n_before, const struct evidence *after,
                           size_t n_after, double ratchet, struct report_comparison *out, struct err *err);
void report_compare_free(struct report_comparison *c);

const char *report_move_name(enum report_move m); /* "worse" */
int report_move_is_worse(enum report_move m);

/* One row per change: change,is_worse,tier,gate,case,arm,metric and verdict, value, bound, headroom, ms before and after. */
enum status report_compare_csv(const char *path, enum table_eol eol, const struct report_comparison *c,
                               struct err *err);

#endif
