// Vector types with CUDA's sizes and alignments, and make_*.
// Source: CUDA C++ Programming Guide, "Built-in Vector Types" (alignment table).
#pragma once

#include "language.h"

#define KCU_VECTOR(T, NAME, A1, A2, A4)                                                                      \
    struct __attribute__((aligned(A1))) NAME##1 { T x; };                                                    \
    struct __attribute__((aligned(A2))) NAME##2 { T x, y; };                                                 \
    KCU_VECTOR3(T, NAME)                                                                                     \
    struct __attribute__((aligned(A4))) NAME##4 { T x, y, z, w; };                                           \
    KCU_API NAME##1 make_##NAME##1(T x) { return NAME##1 {x}; }                                              \
    KCU_API NAME##2 make_##NAME##2(T x, T y) { return NAME##2 {x, y}; }                                      \
    KCU_API NAME##3 make_##NAME##3(T x, T y, T z) { return NAME##3 {x, y, z}; }                              \
    KCU_API NAME##4 make_##NAME##4(T x, T y, T z, T w) { return NAME##4 {x, y, z, w}; }
#define KCU_VECTOR3(T, NAME)                                                                                 \
    struct NAME##3 { T x, y, z; };

KCU_VECTOR(signed char, char, 1, 2, 4)
KCU_VECTOR(unsigned char, uchar, 1, 2, 4)
KCU_VECTOR(short, short, 2, 4, 8)
KCU_VECTOR(unsigned short, ushort, 2, 4, 8)
KCU_VECTOR(int, int, 4, 8, 16)
KCU_VECTOR(long, long, 8, 16, 16)
KCU_VECTOR(unsigned long, ulong, 8, 16, 16)
KCU_VECTOR(long long, longlong, 8, 16, 16)
KCU_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
KCU_VECTOR(float, float, 4, 8, 16)
KCU_VECTOR(double, double, 8, 16, 16)
#undef KCU_VECTOR3
#define KCU_VECTOR3(T, NAME)
KCU_VECTOR(unsigned, uint, 4, 8, 16)
#undef KCU_VECTOR3
#undef KCU_VECTOR
