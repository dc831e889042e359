/* explain_parts.h - between the files of explain: finding, measuring, judging. Private to explain*.c.
 * Source: ours. */
#ifndef FORKGATE_EXPLAIN_PARTS_H
#define FORKGATE_EXPLAIN_PARTS_H

#include "gates/explain.h"

/* What the later runs left: side 0 is A. */
struct explain_evidence {
    struct tape rows[2]; /* of the first op in a prefill; empty for a decode step */
    struct tape kept[2]; /* captures */
    int before;          /* position that used the buffer rows of worst_pos before; -1: none */
    int unstable[2];     /* a later run of the side gave other step sums */
};

/* Measures op j of B's capture against op i of A's. STATUS_SHAPE when the widths differ. */
enum status explain_measure(const struct tape_capture *a, int i, const struct tape_capture *b, int j,
                            int step, struct explain_delta *out, struct err *err);

/* The same over n values of each side; sets all but step, pos and op. */
void explain_measure_values(const float *a, const float *b, size_t n, struct explain_delta *out);

/* Larger is worse: the change relative to the row's largest magnitude; a NaN is worst. */
double explain_badness(const struct explain_delta *d);

/* Sets verdict and conclusion of a result whose first differing op is known. */
void explain_judge(const struct explain_request *r, const struct explain_evidence *e,
                   struct explain_result *out);

/* The same where no op differs. */
void explain_judge_equal(const struct explain_request *r, struct explain_result *out);

/* The row of the first op at worst_pos, of both sides. */
struct explain_pair {
    const float *a, *b; /* [n] */
    size_t n;
    const struct tape_capture *of_b;
    int index_b;
};

/* 1 when what differs on side B is what its buffer held before; `what` then ends the sentence "the values are, bit for
 * bit, ..". */
int explain_stale(const struct explain_evidence *e, const struct explain_result *out,
                  const struct explain_pair *p, char *what, size_t room);

int explain_bits_equal(float x, float y); /* NaN is one class */

/* Values of op i of a capture: [op.cols]. */
const float *explain_values(const struct tape_capture *c, int i);

#endif
