// Everything that device code sees before its first line.
#pragma once

#include "simd.h"
#include "special.h"
#include "warp.h"
#include "launch.h"

#define asm kcu_asm_is_not_emulated
#define __asm__ kcu_asm_is_not_emulated
#define __asm kcu_asm_is_not_emulated
