// The mathematical functions: the C library's, declared here because no system header is read, and CUDA's own
// names for them. Fast variants (`__expf`) are as exact as the slow ones.
// Source: CUDA Math API Reference Manual.
#pragma once

#include "language.h"

#define KCU_MATHS1(F)                                                                                        \
    F(sqrt)                                                                                                  \
    F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan)    \
        F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(cbrt) F(erf) F(erfc) F(lgamma) F(tgamma)        \
            F(floor) F(ceil) F(trunc) F(round) F(rint) F(nearbyint) F(fabs) F(logb) F(j0) F(j1) F(y0) F(y1)
#define KCU_MATHS2(F) F(pow) F(fmod) F(atan2) F(hypot) F(copysign) F(fdim) F(remainder) F(nextafter)
#define KCU_DECLARE1(NAME)                                                                                   \
    double NAME(double);                                                                                     \
    float NAME##f(float);
#define KCU_DECLARE2(NAME)                                                                                   \
    double NAME(double, double);                                                                             \
    float NAME##f(float, float);

extern "C" {
KCU_MATHS1(KCU_DECLARE1)
KCU_MATHS2(KCU_DECLARE2)
double fmin(double, double);
float fminf(float, float);
double fmax(double, double);
float fmaxf(float, float);
double fma(double, double, double);
float fmaf(float, float, float);
double ldexp(double, int);
float ldexpf(float, int);
double scalbn(double, int);
float scalbnf(float, int);
double frexp(double, int *);
float frexpf(float, int *);
double modf(double, double *);
float modff(float, float *);
int ilogb(double);
int ilogbf(float);
long lround(double);
long lroundf(float);
long lrint(double);
long lrintf(float);
long long llround(double);
long long llroundf(float);
long long llrint(double);
long long llrintf(float);
void sincos(double, double *, double *);
void sincosf(float, float *, float *);
double jn(int, double);
float jnf(int, float);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
}

#define KCU_OVERLOAD1(NAME)                                                                                  \
    KCU_API float NAME(float x) { return NAME##f(x); }
#define KCU_OVERLOAD2(NAME)                                                                                  \
    KCU_API float NAME(float x, float y) { return NAME##f(x, y); }                                           \
    KCU_API double NAME(float x, double y) { return NAME(double(x), y); }                                    \
    KCU_API double NAME(double x, float y) { return NAME(x, double(y)); }
KCU_MATHS1(KCU_OVERLOAD1)
KCU_MATHS2(KCU_OVERLOAD2)
#define KCU_INTEGER1(NAME)                                                                                   \
    KCU_API double NAME(int x) { return NAME(double(x)); }                                                   \
    KCU_API double NAME(unsigned x) { return NAME(double(x)); }                                              \
    KCU_API double NAME(long x) { return NAME(double(x)); }                                                  \
    KCU_API double NAME(unsigned long x) { return NAME(double(x)); }                                         \
    KCU_API double NAME(long long x) { return NAME(double(x)); }
KCU_MATHS1(KCU_INTEGER1)
KCU_OVERLOAD2(fmin)
KCU_OVERLOAD2(fmax)
KCU_API float fma(float x, float y, float z) { return fmaf(x, y, z); }
KCU_API float ldexp(float x, int n) { return ldexpf(x, n); }
KCU_API float frexp(float x, int *n) { return frexpf(x, n); }
KCU_API float modf(float x, float *n) { return modff(x, n); }
KCU_API long lround(float x) { return lroundf(x); }
KCU_API long lrint(float x) { return lrintf(x); }
KCU_API void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
KCU_API double pow(double x, int n) { return pow(x, double(n)); }
KCU_API float pow(float x, int n) { return powf(x, float(n)); }
KCU_API double pow(int x, int n) { return pow(double(x), double(n)); }
KCU_API double pow(int x, double y) { return pow(double(x), y); }

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
#define KCU_MIXED_INT(I) KCU_MIXED(float, float, I) KCU_MIXED(double, double, I)
KCU_MIXED_INT(int)
KCU_MIXED_INT(unsigned)

extern "C" {
int abs(int);
long labs(long);
long long llabs(long long);
}
KCU_API long abs(long x) { return x < 0 ? -x : x; }
KCU_API long long abs(long long x) { return x < 0 ? -x : x; }
KCU_API float abs(float x) { return fabsf(x); }
KCU_API double abs(double x) { return fabs(x); }
KCU_API unsigned umin(unsigned a, unsigned b) { return min(a, b); }
KCU_API unsigned umax(unsigned a, unsigned b) { return max(a, b); }

#define KCU_CLASSIFY(T)                                                                                      \
    KCU_API bool isnan(T x) { return __builtin_isnan(x); }                                                   \
    KCU_API bool isinf(T x) { return __builtin_isinf(x); }                                                   \
    KCU_API bool isfinite(T x) { return __builtin_isfinite(x); }                                             \
    KCU_API bool signbit(T x) { return __builtin_signbit(x); }
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
KCU_API double sinpi(double x) { return sin(3.14159265358979323846 * x); }
KCU_API double cospi(double x) { return cos(3.14159265358979323846 * x); }
KCU_API void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
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
