// Cooperative groups: blocks, tiles of a warp, converged lanes, the grid.
// Source: CUDA C++ Programming Guide, "Cooperative Groups". Clusters are not emulated.
#pragma once

#include "kcurate/groups.h"
