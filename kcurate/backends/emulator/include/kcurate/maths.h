// The mathematical functions: the C library's, declared here because no system header is read, and CUDA's own
// names for them. Fast variants (`__expf`) are as exact as the slow ones.
// Source: CUDA Math API Reference Manual.
#pragma once

#include "language.h"

// A call of the C library through a function of ours, with CUDA's overloads: what a compiler knows as a built-in is a
// constant expression to it, and noexcept. Inlined everywhere, so that nothing but the call is left.
#define KCU_C static inline __attribute__((always_inline, unused))
#define KCU_MATHS1(F)                                                                                        \
    F(sqrt)                                                                                                  \
    F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan)    \
        F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(cbrt) F(erf) F(erfc) F(lgamma) F(tgamma)        \
            F(floor) F(ceil) F(trunc) F(round) F(rint) F(nearbyint) F(fabs) F(logb)
#define KCU_MATHS2(F)                                                                                        \
    F(pow) F(fmod) F(atan2) F(hypot) F(copysign) F(fdim) F(remainder) F(nextafter) F(fmin) F(fmax)
// A function of `double`, that of `float`, and its overload. ARGS and VALUES are in terms of T.
#define KCU_CALL(R, NAME, CALLED, ARGS, VALUES)                                                              \
    KCU_C R NAME ARGS { return __builtin_##CALLED VALUES; }
#define KCU_REAL1(NAME)                                                                                      \
    KCU_CALL(double, NAME, NAME, (double x), (x))                                                            \
    KCU_CALL(float, NAME##f, NAME##f, (float x), (x))                                                        \
    KCU_CALL(float, NAME, NAME##f, (float x), (x))
#define KCU_REAL2(NAME)                                                                                      \
    KCU_CALL(double, NAME, NAME, (double x, double y), (x, y))                                               \
    KCU_CALL(float, NAME##f, NAME##f, (float x, float y), (x, y))                                            \
    KCU_CALL(float, NAME, NAME##f, (float x, float y), (x, y))
#define KCU_WITH(NAME, I)                                                                                    \
    KCU_CALL(double, NAME, NAME, (double x, I n), (x, n))                                                    \
    KCU_CALL(float, NAME##f, NAME##f, (float x, I n), (x, n))                                                \
    KCU_CALL(float, NAME, NAME##f, (float x, I n), (x, n))
#define KCU_TO(I, NAME)                                                                                      \
    KCU_CALL(I, NAME, NAME, (double x), (x))                                                                 \
    KCU_CALL(I, NAME##f, NAME##f, (float x), (x))                                                            \
    KCU_CALL(I, NAME, NAME##f, (float x), (x))
KCU_MATHS1(KCU_REAL1)
KCU_MATHS2(KCU_REAL2)
KCU_WITH(ldexp, int)
KCU_WITH(scalbn, int)
KCU_WITH(scalbln, long)
KCU_WITH(frexp, int *)
KCU_TO(int, ilogb)
KCU_TO(long, lround)
KCU_TO(long, lrint)
KCU_TO(long long, llround)
KCU_TO(long long, llrint)
KCU_CALL(double, fma, fma, (double x, double y, double z), (x, y, z))
KCU_CALL(float, fmaf, fmaf, (float x, float y, float z), (x, y, z))
KCU_CALL(float, fma, fmaf, (float x, float y, float z), (x, y, z))
KCU_CALL(double, modf, modf, (double x, double *whole), (x, whole))
KCU_CALL(float, modff, modff, (float x, float *whole), (x, whole))
KCU_CALL(float, modf, modff, (float x, float *whole), (x, whole))
KCU_CALL(double, remquo, remquo, (double x, double y, int *n), (x, y, n))
KCU_CALL(float, remquof, remquof, (float x, float y, int *n), (x, y, n))
KCU_CALL(float, remquo, remquof, (float x, float y, int *n), (x, y, n))
// Copies of more than a register are accesses of the side's, byte by byte, so that they are seen as such.
KCU_C void *memcpy(void *to, const void *from, size_t bytes)
{
    if (__builtin_constant_p(bytes) && bytes <= 16) return __builtin_memcpy(to, from, bytes);
    for (size_t i = 0; i < bytes; i++) static_cast<char *>(to)[i] = static_cast<const char *>(from)[i];
    return to;
}
KCU_C void *memset(void *to, int value, size_t bytes)
{
    if (__builtin_constant_p(bytes) && bytes <= 16) return __builtin_memset(to, value, bytes);
    for (size_t i = 0; i < bytes; i++) static_cast<unsigned char *>(to)[i] = (unsigned char)value;
    return to;
}
KCU_CALL(double, copysign, copysign, (float x, double y), (x, y))
KCU_CALL(double, copysign, copysign, (double x, float y), (x, y))
KCU_C double pow(double x, int n) { return pow(x, double(n)); }
KCU_C float pow(float x, int n) { return powf(x, float(n)); }

// Those that are no built-ins of clang's.
#define KCU_OUTSIDE(R, NAME, ARGS, VALUES)                                                                   \
    extern "C" R kcu_c_##NAME ARGS __asm__(#NAME);                                                           \
    KCU_C R NAME ARGS { return kcu_c_##NAME VALUES; }
#define KCU_BESSEL(NAME)                                                                                     \
    KCU_OUTSIDE(double, NAME, (double x), (x))                                                               \
    KCU_OUTSIDE(float, NAME##f, (float x), (x))                                                              \
    KCU_C float NAME(float x) { return NAME##f(x); }
#define KCU_BESSEL_OF(NAME)                                                                                  \
    KCU_OUTSIDE(double, NAME, (int n, double x), (n, x))                                                     \
    KCU_OUTSIDE(float, NAME##f, (int n, float x), (n, x))                                                    \
    KCU_C float NAME(int n, float x) { return NAME##f(n, x); }
KCU_BESSEL(j0)
KCU_BESSEL(j1)
KCU_BESSEL(y0)
KCU_BESSEL(y1)
KCU_BESSEL_OF(jn)
KCU_BESSEL_OF(yn)
KCU_OUTSIDE(void, sincos, (double x, double *s, double *c), (x, s, c))
KCU_OUTSIDE(void, sincosf, (float x, float *s, float *c), (x, s, c))
KCU_C void sincos(float x, float *s, float *c) { sincosf(x, s, c); }

#define KCU_SAME(T)                                                                                          \
    KCU_API T min(T a, T b) { return b < a ? b : a; }                                                        \
    KCU_API T max(T a, T b) { return a < b ? b : a; }
KCU_SAME(int)
KCU_SAME(unsigned)
KCU_SAME(long)
KCU_SAME(unsigned long)
KCU_SAME(long long)
KCU_SAME(unsigned long long)
#define KCU_MIXED(T, A, B)                                                                                   \
    KCU_API T min(A a, B b) { return min((T)a, (T)b); }                                                      \
    KCU_API T max(A a, B b) { return max((T)a, (T)b); }                                                      \
    KCU_API T min(B a, A b) { return min((T)a, (T)b); }                                                      \
    KCU_API T max(B a, A b) { return max((T)a, (T)b); }
KCU_API float min(float a, float b) { return fminf(a, b); }
KCU_API float max(float a, float b) { return fmaxf(a, b); }
KCU_API double min(double a, double b) { return fmin(a, b); }
KCU_API double max(double a, double b) { return fmax(a, b); }
KCU_MIXED(unsigned, int, unsigned)
KCU_MIXED(unsigned long, long, unsigned long)
KCU_MIXED(unsigned long long, long long, unsigned long long)
KCU_MIXED(double, float, double)

KCU_C int abs(int x) { return x < 0 ? -x : x; }
KCU_C long abs(long x) { return x < 0 ? -x : x; }
KCU_C long long abs(long long x) { return x < 0 ? -x : x; }
KCU_C long labs(long x) { return abs(x); }
KCU_C long long llabs(long long x) { return abs(x); }
KCU_C float abs(float x) { return fabsf(x); }
KCU_C double abs(double x) { return fabs(x); }
KCU_API unsigned umin(unsigned a, unsigned b) { return min(a, b); }
KCU_API unsigned umax(unsigned a, unsigned b) { return max(a, b); }

#define KCU_CLASSIFY(T)                                                                                      \
    KCU_C int isnan(T x) { return __builtin_isnan(x) != 0; }                                                   \
    KCU_C int isinf(T x) { return __builtin_isinf(x) != 0; }                                                   \
    KCU_C int isfinite(T x) { return __builtin_isfinite(x) != 0; }                                             \
    KCU_C int signbit(T x) { return __builtin_signbit(x) != 0; }
KCU_CLASSIFY(float)
KCU_CLASSIFY(double)

KCU_API double nan(const char *) { return __builtin_nan(""); }
KCU_API float nanf(const char *) { return __builtin_nanf(""); }
KCU_API float rsqrtf(float x) { return 1.0f / sqrtf(x); }
KCU_API double rsqrt(double x) { return 1.0 / sqrt(x); }
KCU_API float rsqrt(float x) { return rsqrtf(x); }
KCU_API float rcbrtf(float x) { return 1.0f / cbrtf(x); }
KCU_API double rcbrt(double x) { return 1.0 / cbrt(x); }
KCU_API float exp10f(float x) { return powf(10.0f, x); }
KCU_API double exp10(double x) { return pow(10.0, x); }
KCU_API float fdividef(float x, float y) { return x / y; }
KCU_API float sinpif(float x) { return float(sin(3.14159265358979323846 * double(x))); }
KCU_API float cospif(float x) { return float(cos(3.14159265358979323846 * double(x))); }
KCU_API float rcbrt(float x) { return rcbrtf(x); }
KCU_API float exp10(float x) { return exp10f(x); }
KCU_API float sinpi(float x) { return sinpif(x); }
KCU_API float cospi(float x) { return cospif(x); }
KCU_API double sinpi(double x) { return sin(3.14159265358979323846 * x); }
KCU_API double cospi(double x) { return cos(3.14159265358979323846 * x); }
KCU_API void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
KCU_API void sincospi(float x, float *s, float *c) { sincospif(x, s, c); }
KCU_API float erfcxf(float x) { return float(exp(double(x) * x) * erfc(double(x))); }
// Φ(x), the normal distribution's function.
KCU_API float normcdff(float x) { return float(0.5 * erfc(-double(x) * 0.70710678118654752440)); }
KCU_API double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
KCU_API float norm3df(float a, float b, float c)
{
    return float(sqrt(double(a) * a + double(b) * b + double(c) * c));
}
KCU_API float rnorm3df(float a, float b, float c)
{
    return float(1.0 / sqrt(double(a) * a + double(b) * b + double(c) * c));
}
KCU_API float norm4df(float a, float b, float c, float d)
{
    return float(sqrt(double(a) * a + double(b) * b + double(c) * c + double(d) * d));
}
KCU_API float rhypotf(float a, float b) { return float(1.0 / sqrt(double(a) * a + double(b) * b)); }
