// The types are there from the start.
#pragma once
#undef INT32_C
#undef INT64_C
#undef UINT32_C
#undef UINT64_C
#define INT32_C(value) value
#define INT64_C(value) value##L
#define UINT32_C(value) value##U
#define UINT64_C(value) value##UL
