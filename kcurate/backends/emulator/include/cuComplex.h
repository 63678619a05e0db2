// Complex numbers as pairs.
#pragma once

#include "kcurate/intrinsics.h"

#define KCU_COMPLEX(NAME, PAIR, T, SUFFIX)                                                                   \
    typedef PAIR NAME;                                                                                       \
    KCU_API T cuCreal##SUFFIX(NAME z) { return z.x; }                                                        \
    KCU_API T cuCimag##SUFFIX(NAME z) { return z.y; }                                                        \
    KCU_API NAME cuConj##SUFFIX(NAME z) { return NAME{z.x, -z.y}; }                                          \
    KCU_API NAME cuCadd##SUFFIX(NAME a, NAME b) { return NAME{a.x + b.x, a.y + b.y}; }                       \
    KCU_API NAME cuCsub##SUFFIX(NAME a, NAME b) { return NAME{a.x - b.x, a.y - b.y}; }                       \
    KCU_API NAME cuCmul##SUFFIX(NAME a, NAME b)                                                              \
    {                                                                                                        \
        return NAME{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                           \
    }                                                                                                        \
    KCU_API NAME cuCdiv##SUFFIX(NAME a, NAME b)                                                              \
    {                                                                                                        \
        const T size = fabs(b.x) + fabs(b.y), p = b.x / size, q = b.y / size, n = p * p + q * q;             \
        const T x = a.x / size, y = a.y / size;                                                              \
        return NAME{(x * p + y * q) / n, (y * p - x * q) / n};                                               \
    }                                                                                                        \
    KCU_API T cuCabs##SUFFIX(NAME z) { return hypot(z.x, z.y); }                                             \
    KCU_API NAME cuCfma##SUFFIX(NAME a, NAME b, NAME c) { return cuCadd##SUFFIX(cuCmul##SUFFIX(a, b), c); }
KCU_COMPLEX(cuFloatComplex, float2, float, f)
KCU_COMPLEX(cuDoubleComplex, double2, double, )
typedef cuFloatComplex cuComplex;
KCU_API cuFloatComplex make_cuFloatComplex(float x, float y) { return make_float2(x, y); }
KCU_API cuDoubleComplex make_cuDoubleComplex(double x, double y) { return make_double2(x, y); }
KCU_API cuComplex make_cuComplex(float x, float y) { return make_float2(x, y); }
KCU_API cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z)
{
    return make_float2(float(z.x), float(z.y));
}
KCU_API cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return make_double2(z.x, z.y); }
