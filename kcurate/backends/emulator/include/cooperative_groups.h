// Cooperative groups: blocks, tiles of a warp, converged lanes, clusters, the grid.
// Source: CUDA C++ Programming Guide, "Cooperative Groups".
#pragma once

#include "kcurate/groups.h"
