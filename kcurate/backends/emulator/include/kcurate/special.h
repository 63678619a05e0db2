// The mathematical functions that the C library lacks: inverses of the normal distribution's, norms, results in
// double rounded in a direction.
// Source: CUDA Math API Reference Manual, "Mathematical Functions", "Double Precision Intrinsics".
#pragma once

#include "intrinsics.h"

KCU_API long long llmin(long long a, long long b) { return min(a, b); }
KCU_API long long llmax(long long a, long long b) { return max(a, b); }
KCU_API unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
KCU_API unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
KCU_API unsigned __urhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b + 1) >> 1); }
KCU_API void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }

// erfinv for |x| <= 0.5, by Newton's method.
KCU_API double kcu_erfinv_near(double x)
{
    double w = 0.88622692545275801365 * x;
    for (int i = 0; i < 5; i++) w -= (erf(w) - x) * 0.88622692545275801365 * exp(w * w);
    return w;
}
// erfcinv for 0 < y <= 0.5, by Newton's method on the logarithm, which is concave: no start misses. Below 1e-305
// what erfc(w) is nearly, exp(-w * w) / (w * sqrt(pi)), has to do.
KCU_API double kcu_erfcinv_tail(double y)
{
    const double aim = log(y);
    double w = sqrt(-aim);
    for (int i = 0; i < 4 && w > 2; i++) w = sqrt(-aim - log(1.77245385090551602730 * w));
    for (int i = 0; i < 12; i++) {
        const double now = erfc(w);
        if (now < 1e-305) return w;
        w += (log(now) - aim) * now * 0.88622692545275801365 * exp(w * w);
    }
    return w;
}
KCU_API double erfinv(double x)
{
    const double size = fabs(x);
    if (!(size < 1)) return size == 1 ? copysign(__builtin_inf(), x) : __builtin_nan("");
    return size <= 0.5 ? kcu_erfinv_near(x) : copysign(kcu_erfcinv_tail(1 - size), x);
}
KCU_API double erfcinv(double y)
{
    if (!(y > 0 && y < 2)) return y == 0 ? __builtin_inf() : y == 2 ? -__builtin_inf() : __builtin_nan("");
    if (y >= 0.5 && y <= 1.5) return kcu_erfinv_near(1 - y);
    return y < 1 ? kcu_erfcinv_tail(y) : -kcu_erfcinv_tail(2 - y);
}
KCU_API double normcdfinv(double p) { return -1.41421356237309504880 * erfcinv(2 * p); }
KCU_API float erfinvf(float x) { return float(erfinv(double(x))); }
KCU_API float erfcinvf(float x) { return float(erfcinv(double(x))); }
KCU_API float normcdfinvf(float x) { return float(normcdfinv(double(x))); }
KCU_API float erfinv(float x) { return erfinvf(x); }
KCU_API float erfcinv(float x) { return erfcinvf(x); }
KCU_API float normcdfinv(float x) { return normcdfinvf(x); }
KCU_API float normcdf(float x) { return normcdff(x); }

KCU_API double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
KCU_API double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
KCU_API double rhypot(double a, double b) { return 1 / hypot(a, b); }
KCU_API double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
KCU_API double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
KCU_API float rnorm4df(float a, float b, float c, float d) { return float(rnorm4d(a, b, c, d)); }
KCU_API double norm(int count, const double *x)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum = hypot(sum, x[i]);
    return sum;
}
KCU_API float normf(int count, const float *x)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += double(x[i]) * x[i];
    return float(sqrt(sum));
}
KCU_API double rnorm(int count, const double *x) { return 1 / norm(count, x); }
KCU_API float rnormf(int count, const float *x) { return 1 / normf(count, x); }

// The nearest double and the sign of what it lacks (all in the normal range) give the two beside the result.
KCU_API double kcu_directed(double r, double lacking, int direction)
{
    if (direction == 0) direction = r > 0 ? -1 : 1;
    if (lacking == 0 || lacking != lacking || (lacking > 0) != (direction > 0)) return r;
    return nextafter(r, direction > 0 ? __builtin_inf() : -__builtin_inf());
}
KCU_API double kcu_sum_lacks(double a, double b)
{
    const double r = a + b, part = r - a;
    return (a - (r - part)) + (b - part);
}
KCU_API double kcu_quotient_lacks(double a, double b)
{
    const double rest = fma(-(a / b), b, a);
    return b < 0 ? -rest : rest;
}
#define KCU_DIRECTED(NAME, ARGS, RESULT, LACKS)                                                              \
    KCU_API double NAME##_rd ARGS { return kcu_directed(RESULT, LACKS, -1); }                                \
    KCU_API double NAME##_ru ARGS { return kcu_directed(RESULT, LACKS, 1); }                                 \
    KCU_API double NAME##_rz ARGS { return kcu_directed(RESULT, LACKS, 0); }
KCU_DIRECTED(__dadd, (double x, double y), x + y, kcu_sum_lacks(x, y))
KCU_DIRECTED(__dsub, (double x, double y), x - y, kcu_sum_lacks(x, -y))
KCU_DIRECTED(__dmul, (double x, double y), x *y, fma(x, y, -(x * y)))
KCU_DIRECTED(__ddiv, (double x, double y), x / y, kcu_quotient_lacks(x, y))
KCU_DIRECTED(__drcp, (double x), 1 / x, kcu_quotient_lacks(1, x))
KCU_DIRECTED(__dsqrt, (double x), sqrt(x), fma(-sqrt(x), sqrt(x), x))
