// The one type of the driver's header that device code needs (`kcurate/tensor_map.h`: what is in it).
#pragma once
typedef struct alignas(64) CUtensorMap_st {
    unsigned long long opaque[16];
} CUtensorMap;
