// The one type of the driver's header that device code needs (`kcurate/tensor_map.h`: what is in it).
#pragma once
#define CUDA_VERSION 13000
typedef struct alignas(64) CUtensorMap_st {
    unsigned long long opaque[16];
} CUtensorMap;
