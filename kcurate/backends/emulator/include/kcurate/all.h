// Everything that device code sees before its first line.
#pragma once

#include "simd.h"
#include "warp.h"
#include "launch.h"
