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

// More names of the same.
KCU_API double fdivide(double x, double y) { return x / y; }
KCU_API double erfcx(double x) { return exp(x * x) * erfc(x); }
KCU_API float erfcx(float x) { return erfcxf(x); }
KCU_API int __isnan(double x) { return isnan(x); }
KCU_API int __isnanf(float x) { return isnan(x); }
KCU_API int __isinf(double x) { return isinf(x); }
KCU_API int __isinff(float x) { return isinf(x); }
KCU_API int __finite(double x) { return isfinite(x); }
KCU_API int __finitef(float x) { return isfinite(x); }
KCU_API int __signbit(double x) { return signbit(x); }
KCU_API int __signbitf(float x) { return signbit(x); }
KCU_API float __fmaf_ieee_rn(float x, float y, float z) { return fmaf(x, y, z); }
KCU_API unsigned __isCtaShared(const void *p) { return __isShared(p); }

// What is not emulated, with CUDA's signatures: code could ask whether a call of it is valid.
#define KCU_LACKED(R, NAME, ARGS)                                                                            \
    KCU_API R NAME ARGS { kcu_fault(KCU_UNSUPPORTED, #NAME " is not emulated"); }
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };
KCU_LACKED(double, cyl_bessel_i0, (double))
KCU_LACKED(double, cyl_bessel_i1, (double))
KCU_LACKED(float, cyl_bessel_i0, (float))
KCU_LACKED(float, cyl_bessel_i1, (float))
KCU_LACKED(float, cyl_bessel_i0f, (float))
KCU_LACKED(float, cyl_bessel_i1f, (float))
KCU_LACKED(double, __fma_rd, (double, double, double))
KCU_LACKED(double, __fma_ru, (double, double, double))
KCU_LACKED(double, __fma_rz, (double, double, double))
KCU_LACKED(float, __fmaf_rd, (float, float, float))
KCU_LACKED(float, __fmaf_ru, (float, float, float))
KCU_LACKED(float, __fmaf_ieee_rd, (float, float, float))
KCU_LACKED(float, __fmaf_ieee_ru, (float, float, float))
KCU_LACKED(float, __fmaf_ieee_rz, (float, float, float))
KCU_LACKED(void, __barrier_sync, (unsigned))
KCU_LACKED(void, __barrier_sync_count, (unsigned, unsigned))
KCU_LACKED(dim3, __clusterDim, ())
KCU_LACKED(unsigned, __clusterDimIsSpecified, ())
KCU_LACKED(dim3, __clusterGridDimInClusters, ())
KCU_LACKED(dim3, __clusterIdx, ())
KCU_LACKED(dim3, __clusterRelativeBlockIdx, ())
KCU_LACKED(unsigned, __clusterRelativeBlockRank, ())
KCU_LACKED(unsigned, __clusterSizeInBlocks, ())
KCU_LACKED(void, __cluster_barrier_arrive, ())
KCU_LACKED(void, __cluster_barrier_arrive_relaxed, ())
KCU_LACKED(void, __cluster_barrier_wait, ())
KCU_LACKED(uint2, __cluster_map_shared_multicast, (const void *, unsigned))
KCU_LACKED(void *, __cluster_map_shared_rank, (const void *, unsigned))
KCU_LACKED(unsigned, __cluster_query_shared_rank, (const void *))
KCU_LACKED(unsigned, __isClusterShared, (const void *))
KCU_LACKED(unsigned, __isConstant, (const void *))
KCU_LACKED(unsigned, __isGridConstant, (const void *))
KCU_LACKED(unsigned, __isLocal, (const void *))
KCU_LACKED(size_t, __cvta_generic_to_constant, (const void *))
KCU_LACKED(size_t, __cvta_generic_to_grid_constant, (const void *))
KCU_LACKED(void *, __cvta_constant_to_generic, (size_t))
KCU_LACKED(void *, __cvta_global_to_generic, (size_t))
KCU_LACKED(void *, __cvta_grid_constant_to_generic, (size_t))
KCU_LACKED(double, dadd, (double, double, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(double, dsub, (double, double, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(double, dmul, (double, double, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(int, double2int, (double, cudaRoundMode = cudaRoundZero))
KCU_LACKED(unsigned, double2uint, (double, cudaRoundMode = cudaRoundZero))
KCU_LACKED(long long, double2ll, (double, cudaRoundMode = cudaRoundZero))
KCU_LACKED(unsigned long long, double2ull, (double, cudaRoundMode = cudaRoundZero))
KCU_LACKED(double, float2double, (float, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(double, int2double, (int, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(double, uint2double, (unsigned, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(double, ll2double, (long long, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(double, ull2double, (unsigned long long, cudaRoundMode = cudaRoundNearest))
KCU_LACKED(bool, all, (bool))
KCU_LACKED(bool, any, (bool))
KCU_LACKED(unsigned, ballot, (bool))
KCU_LACKED(bool, syncthreads_and, (bool))
KCU_LACKED(int, syncthreads_count, (bool))
KCU_LACKED(bool, syncthreads_or, (bool))
#undef KCU_LACKED
