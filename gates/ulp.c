/* ulp.c - see ulp.h. */
#include "gates/ulp.h"

#include <math.h>

#include "gates/metrics.h"

static int is_zero(float x) {
    return fpclassify(x) == FP_ZERO;
}

enum ulp_bucket ulp_bucket_of(float a, float b) {
    if (isnan(a) && isnan(b)) return ULP_0;
    if (isnan(a) || isnan(b)) return ULP_SIGN_NAN;
    if (!is_zero(a) && !is_zero(b) && signbit(a) != signbit(b)) return ULP_SIGN_NAN;
    return ulp_bucket_of_steps(metrics_ulps(a, b));
}

enum ulp_bucket ulp_bucket_of_steps(uint32_t d) {
    if (d < 2) return d == 0 ? ULP_0 : ULP_1;
    if (d < 4) return ULP_2;
    if (d < 16) return ULP_4;
    if (d < 256) return ULP_16;
    return d < 65536 ? ULP_256 : ULP_MORE;
}

const char *ulp_bucket_name(enum ulp_bucket b) {
    static const char *const names[ULP_BUCKETS] = {"0",      "1",         "2-3",    "4-15",
                                                   "16-255", "256-65535", ">65535", "sign/NaN"};
    return names[b];
}

const char *ulp_bucket_column(enum ulp_bucket b) {
    static const char *const names[ULP_BUCKETS] = {"ulp_0",  "ulp_1",   "ulp_2",    "ulp_4",
                                                   "ulp_16", "ulp_256", "ulp_more", "sign_nan"};
    return names[b];
}
