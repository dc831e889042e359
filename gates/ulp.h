/* ulp.h - a histogram of how many representable f32 steps two results are apart.
 * Not a metric to judge by alone: near zero a step is small; the report puts the row's magnitude beside it.
 * Idea: eight buckets show at a glance whether a difference is rounding (1, 2-3), its growth (4 to 65535) or another
 * value (more, sign or NaN).
 * Source: ours; the distance is metrics_ulps. Exercise: ctest -R unit.explain */
#ifndef FORKGATE_ULP_H
#define FORKGATE_ULP_H

#include <stdint.h>

enum ulp_bucket {
    ULP_0,       /* equal, or +0 and -0 */
    ULP_1,       /* neighbours */
    ULP_2,       /* 2 and 3 */
    ULP_4,       /* 4 to 15 */
    ULP_16,      /* 16 to 255 */
    ULP_256,     /* 256 to 65535: half of the mantissa's bits */
    ULP_MORE,    /* the same sign, further apart */
    ULP_SIGN_NAN /* opposite signs, neither zero; or a NaN on one side */
};
#define ULP_BUCKETS 8

struct ulp_hist {
    uint64_t n[ULP_BUCKETS];
};

/* Two NaN are equal: the histogram counts differences, the census counts NaN. */
enum ulp_bucket ulp_bucket_of(float a, float b);
enum ulp_bucket ulp_bucket_of_steps(uint32_t d); /* of a distance, in steps of any dtype */

/* "0", "1", "2-3", "4-15", "16-255", "256-65535", ">65535", "sign/NaN"; and as CSV column names "ulp_2" .. */
const char *ulp_bucket_name(enum ulp_bucket b);
const char *ulp_bucket_column(enum ulp_bucket b);

#endif
