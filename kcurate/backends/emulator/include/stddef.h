// Its types are there from the start.
#pragma once
#undef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
