// Limits of the number types.
#pragma once
#include "kcurate/limits.h"
