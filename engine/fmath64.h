/* fmath64.h - log, exp, pow, sin, cos in double, host only: RoPE tables, samplers, logsumexp. Included by fmath.h.
 * Not libm: no errno, no rounding-mode support; libm's last bits differ between versions, these do not.
 * Idea: only + - * / and explicit fma, so gcc and clang at any level, with or without hardware FMA, give the same bits.
 * Source: Cody & Waite reduction, double-double where a bit would be lost, Taylor series (ours).
 * Exercise: ctest -R unit.fmath */
#ifndef FORKGATE_FMATH64_H
#define FORKGATE_FMATH64_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define FM_HOST static inline

FM_HOST uint64_t fm_f64_bits(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
FM_HOST double fm_f64_from_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* Nearest integer (ties to even) of |x| < 2^51. */
FM_HOST double fm_rint(double x) {
    return (x + 0x1.8p52) - 0x1.8p52;
}
FM_HOST double fm_nan(void) {
    return fm_f64_from_bits(0x7ff8000000000000u);
}
FM_HOST int fm_f64_is_nan(double x) {
    return (fm_f64_bits(x) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

/* log(x) = hi + *lo to about 2^-58 relative, x positive and finite. m = x/2^e in [sqrt(1/2), sqrt(2)), s = (m-1)/(m+1)
 * in double-double, log m = 2 atanh(s) by its series. */
FM_HOST double fm_log_dd(double x, double *lo) {
    int e = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    uint64_t u = fm_f64_bits(x);
    e += (int)(u >> 52) - 1023;
    double m = fm_f64_from_bits((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e += 1;
    }
    double f = m - 1.0, d = m + 1.0, d_lo = m - (d - 1.0); /* f exact; m + 1 = d + d_lo exactly */
    double s = f / d, s_lo = (fma(-s, d, f) - s * d_lo) / d, z = s * s;
    double p = 1.0 / 25.0;
    for (int k = 23; k >= 3; k -= 2) p = fma(p, z, 1.0 / (double)k);
    double tail =
        2.0 * fma(s * z, p, s_lo); /* below 1 % of log m, so its rounding is far below the last bit */
    double n = (double)e, big = n * 0x1.62e42fefa3800p-1; /* exact: the constant has 42 bits */
    double hi = big + 2.0 * s, err = (2.0 * s) - (hi - big);
    err += fma(n, 0x1.ef35793c76730p-45, tail);
    double sum = hi + err;
    *lo = err - (sum - hi);
    return sum;
}

/* e^(x + x_lo), |x_lo| far below |x|: 1 ULP. Overflow gives Inf; below -745.2 gives +0. */
FM_HOST double fm_exp_dd(double x, double x_lo) {
    if (fm_f64_is_nan(x)) return fm_nan();
    if (x > 709.8) return fm_f64_from_bits(0x7ff0000000000000u);
    if (x < -745.2) return 0.0;
    double n = fm_rint(x * 0x1.71547652b82fep+0);
    double hi = fma(n, -0x1.62e42fefa3800p-1, x), low = fma(n, -0x1.ef35793c76730p-45, x_lo);
    double r = hi + low, r_lo = low - (r - hi);
    static const double inverse_factorial[] = {
        1.0 / 2.0,         1.0 / 6.0,          1.0 / 24.0,         1.0 / 120.0,     1.0 / 720.0,
        1.0 / 5040.0,      1.0 / 40320.0,      1.0 / 362880.0,     1.0 / 3628800.0, 1.0 / 39916800.0,
        1.0 / 479001600.0, 1.0 / 6227020800.0, 1.0 / 87178291200.0};
    double q = inverse_factorial[12];
    for (int i = 11; i >= 0; i--) q = fma(q, r, inverse_factorial[i]);
    double p = 1.0 + (r + fma(r * r, q, r_lo));
    int k = (int)n, half = k / 2;
    p *= fm_f64_from_bits((uint64_t)(half + 1023) << 52);
    return p * fm_f64_from_bits((uint64_t)(k - half + 1023) << 52);
}

/* Natural logarithm, 1 ULP. log(0) = -Inf, negative and NaN give NaN, +Inf gives +Inf. */
FM_HOST double fm_log(double x) {
    if (!(x >= 0.0)) return fm_nan();
    if (fm_f64_bits(x) == 0x7ff0000000000000u) return x;
    if (!(x > 0.0)) return fm_f64_from_bits(0xfff0000000000000u);
    double lo;
    return fm_log_dd(x, &lo);
}

FM_HOST double fm_exp(double x) {
    return fm_exp_dd(x, 0.0);
}

/* x^y for finite x > 0 (NaN otherwise): 1.5 ULP for |y log x| <= 32 (RoPE: 20), growing by 2^-57 |y log x| beyond. */
FM_HOST double fm_pow(double x, double y) {
    if (!(x > 0.0) || fm_f64_bits(x) == 0x7ff0000000000000u) return fm_nan();
    double lo, hi = fm_log_dd(x, &lo), p = y * hi;
    return fm_exp_dd(p, fma(y, lo, fma(y, hi, -p)));
}

/* sin(r + r_lo) and cos(r + r_lo) for |r| <= pi/4, by Taylor series. */
FM_HOST double fm_sin_poly(double r, double r_lo) {
    static const double c[] = {
        -1.0 / 6.0,        1.0 / 120.0,        -1.0 / 5040.0,          1.0 / 362880.0,
        -1.0 / 39916800.0, 1.0 / 6227020800.0, -1.0 / 1307674368000.0, 1.0 / 355687428096000.0};
    double z = r * r, q = c[7];
    for (int i = 6; i >= 0; i--) q = fma(q, z, c[i]);
    return r + fma(r * z, q, r_lo * fma(-0.5, z, 1.0));
}
FM_HOST double fm_cos_poly(double r, double r_lo) {
    static const double c[] = {
        1.0 / 24.0,        -1.0 / 720.0,         1.0 / 40320.0,          -1.0 / 3628800.0,
        1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0, -1.0 / 6402373705728000.0};
    double z = r * r, q = c[7];
    for (int i = 6; i >= 0; i--) q = fma(q, z, c[i]);
    double h = 0.5 * z, w = 1.0 - h; /* 1 - h rounds: its error is added back */
    return w + (((1.0 - w) - h) + fma(z * z, q, -(r * r_lo)));
}

/* x = n * pi/2 + r + *r_lo, |r| <= pi/4, n returned modulo 4; |x| <= 2^30. x - n*P1 is exact (both are multiples of
 * 2^-53 and the difference is below 1); what is lost is n times the error of P1 + P2, below 2^-79. */
FM_HOST int fm_reduce_pio2(double x, double *r, double *r_lo) {
    double n = fm_rint(x * 0x1.45f306dc9c883p-1);
    double a = fma(-n, 0x1.921fb54442d18p+0, x), w = n * 0x1.1a62633145c07p-54;
    *r = a - w;
    *r_lo = (a - *r) - w;
    return (int)((int64_t)n & 3);
}

/* sin(x), cos(x): absolute error below 2^-52 for |x| <= 2^30 radians; larger and non-finite arguments give NaN. */
FM_HOST double fm_sin(double x) {
    if (!(x <= 0x1p30 && x >= -0x1p30)) return fm_nan();
    double r, r_lo;
    int n = fm_reduce_pio2(x, &r, &r_lo);
    double y = n & 1 ? fm_cos_poly(r, r_lo) : fm_sin_poly(r, r_lo);
    return n & 2 ? -y : y;
}
FM_HOST double fm_cos(double x) {
    if (!(x <= 0x1p30 && x >= -0x1p30)) return fm_nan();
    double r, r_lo;
    int n = fm_reduce_pio2(x, &r, &r_lo);
    double y = n & 1 ? fm_sin_poly(r, r_lo) : fm_cos_poly(r, r_lo);
    return (n + 1) & 2 ? -y : y;
}

#endif
