// Its exact types are there from the start; the others are as in the CUDA C++ library.
#pragma once
typedef int8_t int_least8_t, int_fast8_t;
typedef uint8_t uint_least8_t, uint_fast8_t;
typedef int16_t int_least16_t, int_fast16_t;
typedef uint16_t uint_least16_t, uint_fast16_t;
typedef int32_t int_least32_t, int_fast32_t;
typedef uint32_t uint_least32_t, uint_fast32_t;
typedef int64_t int_least64_t, int_fast64_t;
typedef uint64_t uint_least64_t, uint_fast64_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#define INT8_MAX __INT8_MAX__
#define INT8_MIN (-__INT8_MAX__ - 1)
#define UINT8_MAX __UINT8_MAX__
#define INT_LEAST8_MAX __INT8_MAX__
#define INT_LEAST8_MIN (-__INT8_MAX__ - 1)
#define UINT_LEAST8_MAX __UINT8_MAX__
#define INT_FAST8_MAX __INT8_MAX__
#define INT_FAST8_MIN (-__INT8_MAX__ - 1)
#define UINT_FAST8_MAX __UINT8_MAX__
#define INT8_C(x) ((int8_t)(x))
#define UINT8_C(x) ((uint8_t)(x))
#define INT16_MAX __INT16_MAX__
#define INT16_MIN (-__INT16_MAX__ - 1)
#define UINT16_MAX __UINT16_MAX__
#define INT_LEAST16_MAX __INT16_MAX__
#define INT_LEAST16_MIN (-__INT16_MAX__ - 1)
#define UINT_LEAST16_MAX __UINT16_MAX__
#define INT_FAST16_MAX __INT16_MAX__
#define INT_FAST16_MIN (-__INT16_MAX__ - 1)
#define UINT_FAST16_MAX __UINT16_MAX__
#define INT16_C(x) ((int16_t)(x))
#define UINT16_C(x) ((uint16_t)(x))
#define INT32_MAX __INT32_MAX__
#define INT32_MIN (-__INT32_MAX__ - 1)
#define UINT32_MAX __UINT32_MAX__
#define INT_LEAST32_MAX __INT32_MAX__
#define INT_LEAST32_MIN (-__INT32_MAX__ - 1)
#define UINT_LEAST32_MAX __UINT32_MAX__
#define INT_FAST32_MAX __INT32_MAX__
#define INT_FAST32_MIN (-__INT32_MAX__ - 1)
#define UINT_FAST32_MAX __UINT32_MAX__
#define INT32_C(x) ((int32_t)(x))
#define UINT32_C(x) ((uint32_t)(x))
#define INT64_MAX __INT64_MAX__
#define INT64_MIN (-__INT64_MAX__ - 1)
#define UINT64_MAX __UINT64_MAX__
#define INT_LEAST64_MAX __INT64_MAX__
#define INT_LEAST64_MIN (-__INT64_MAX__ - 1)
#define UINT_LEAST64_MAX __UINT64_MAX__
#define INT_FAST64_MAX __INT64_MAX__
#define INT_FAST64_MIN (-__INT64_MAX__ - 1)
#define UINT_FAST64_MAX __UINT64_MAX__
#define INT64_C(x) ((int64_t)(x))
#define UINT64_C(x) ((uint64_t)(x))
#define INTPTR_MAX INT64_MAX
#define INTPTR_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define INTMAX_MIN INT64_MIN
#define PTRDIFF_MAX INT64_MAX
#define PTRDIFF_MIN INT64_MIN
#define UINTPTR_MAX UINT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define SIZE_MAX UINT64_MAX
#define INTMAX_C(x) INT64_C(x)
#define UINTMAX_C(x) UINT64_C(x)
