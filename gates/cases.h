/* cases.h - the op cases of tier 1 as data: rows of fixtures/op_cases.csv, their shapes, families and inputs.
 * Not a generator of random tests: every case has an explicit seed and its text is a complete description.
 * Idea: shapes are written with the symbols of geometry.h (cols=NORM_LANES+1), so that an edge moves when a tile moves;
 * an input family is a named way to fill an array, the same bits on every machine.
 * Source: ggml's case rows; gpu-mode's task files. Exercise: ctest -R unit.cases */
#ifndef FORKGATE_CASES_H
#define FORKGATE_CASES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/status.h"

enum family {
    FAMILY_NORMAL,    /* near normal, variance 1 */
    FAMILY_OUTLIER,   /* the same with one element in 32 about 60 times as large */
    FAMILY_NEAR_TIE,  /* all values within a few ULPs of each other */
    FAMILY_SUBNORMAL, /* around the smallest normal of the type that stores it: half of them subnormal */
    FAMILY_HUGE,      /* near the largest value that the op accepts */
    FAMILY_CONSTANT,  /* one value everywhere */
    FAMILY_EXACT      /* small integers: any order of summation gives the same bits */
};
#define FAMILIES 7

#define CASE_DIMS 12

struct op_case {
    char op[16];    /* "matmul" */
    char dtype[12]; /* "q4_k", "f16", ...: what the op stores or reads */
    enum family family;
    uint64_t seed;
    int quick; /* part of --battery quick */
    int n_dims;
    struct {
        char key[12];
        int64_t value;
    } dims[CASE_DIMS];
    char text[128]; /* "cols=257 rows=3 f32 family=outlier seed=11" */
};

/* The value of a dimension, or fallback when the row does not name it. */
int64_t case_dim(const struct op_case *c, const char *key, int64_t fallback);

/* One row's fields: op, dtype, shape ("rows=3 cols=NORM_LANES+1"), families ("all" or names), seed, battery
 * (quick|full). Writes one case per family into out (room for FAMILIES) and their number. STATUS_FORMAT names the field. */
enum status case_parse(const char *const fields[6], struct op_case out[FAMILIES], int *n, struct err *err);

/* An integer expression over geometry.h symbols with + - *; "FA_CHUNK*2+1". */
enum status case_expression(const char *text, size_t length, int64_t *value, struct err *err);

/* All cases of a CSV file (header op,dtype,shape,families,seed,battery,why). free(*out). */
enum status cases_load(const char *path, struct op_case **out, size_t *n, struct err *err);

const char *family_name(enum family f);
int family_from_name(const char *name); /* -1 when unknown */

/* Largest magnitudes a fill may use; they depend on what stores the values. */
struct fill_range {
    float huge;     /* FAMILY_HUGE draws in [huge/2, huge] */
    float smallest; /* smallest normal of the storing type: 2^-14 for f16, 2^-126 for f32 */
};

/* Fills x[0..n) for this case; stream tells the arrays of one case apart. */
void case_fill(const struct op_case *c, int stream, const struct fill_range *range, float *x, size_t n);

#endif
