/* oracle_top2.c - the two largest logits of a row by sorting candidates, and the census that comes before them.
 * Not a scan with running winners (that is the subject's algorithm): the winner is whoever nobody beats.
 * Source: the rule of ops.h. Exercise: ctest -R unit.oracle */
#include <math.h>

#include "gates/oracle/oracle.h"

/* Does candidate a come before candidate b: larger logit, then lower id (+0 equals -0). */
static int before(const float *row, int64_t a, int64_t b) {
    if (row[a] > row[b]) return 1;
    return row[a] < row[b] ? 0 : a < b;
}

static int is_bad(float x) {
    return isnan(x) || (isinf(x) && x > 0);
}

/* The first of the legal candidates except `without`; -1 when there is none. */
static int64_t winner(const float *row, int64_t n, int64_t without) {
    int64_t best = -1;
    for (int64_t i = n - 1; i >= 0; i--)
        if (i != without && !is_bad(row[i]) && (best < 0 || before(row, i, best))) best = i;
    return best;
}

void oracle_top2(const float *logits, int64_t rows, int64_t n_vocab, int64_t stride, double *out) {
    for (int64_t r = 0; r < rows; r++) {
        const float *row = logits + r * stride;
        double *o = out + r * 7;
        int64_t first = winner(row, n_vocab, -1), second = first < 0 ? -1 : winner(row, n_vocab, first);
        o[0] = (double)first;
        o[1] = (double)second;
        o[2] = first < 0 ? -(double)INFINITY : (double)row[first];
        o[3] = second < 0 ? -(double)INFINITY : (double)row[second];
        o[4] = o[5] = 0;
        o[6] = -1;
        for (int64_t i = 0; i < n_vocab; i++) {
            o[4] += isnan(row[i]) ? 1 : 0;
            o[5] += isinf(row[i]) && row[i] > 0 ? 1 : 0;
            if (is_bad(row[i]) && o[6] < 0) o[6] = (double)i;
        }
    }
}
