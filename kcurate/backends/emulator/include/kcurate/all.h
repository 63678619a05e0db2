// Everything that device code sees before its first line.
#pragma once

#include "simd.h"
#include "special.h"
#include "warp.h"
#include "launch.h"
