// TMA tensor maps as the emulator encodes them (`kcurate/backends/emulator/tensor_maps.py` writes the same
// layout), and what device code calls in the runtime (`runtime/boxes.h`).
#pragma once

#include "abi.h"

// Axes begin with the innermost; `strides` are in bytes, the first one is an element's size.
struct KcuTensorMap {
    unsigned long long mark, address, extents[5], strides[5];
    unsigned short box[5];
    unsigned char element_strides[5], rank, type, swizzle, fill, unused[13];
};
static_assert(sizeof(KcuTensorMap) == 128, "the size of a CUtensorMap");

const unsigned long long KCU_TENSOR_MAP = 0x70616D2D75636BFFull;
enum KcuTensorType {
    KCU_MAP_U8, KCU_MAP_U16, KCU_MAP_U32, KCU_MAP_S32, KCU_MAP_U64, KCU_MAP_F16, KCU_MAP_F32, KCU_MAP_F64,
    KCU_MAP_BF16
};
// Adds one element to another, or the like.
typedef void (*KcuCombine)(char *to, const char *from);

extern "C" {
// A map that is at `map`, or a fault.
KCU_HIDDEN KcuTensorMap kcu_tensor_map(const void *map);
// The box at `at` (`rank` coordinates, innermost first) into shared memory, done when its mbarrier is asked.
KCU_HIDDEN void kcu_box_load(char *to, const void *map, const int *at, unsigned rank, unsigned long long *barrier);
// Shared memory into the box, done when its bulk group is waited for; `combine` null: overwrites.
KCU_HIDDEN void kcu_box_store(const void *map, const int *at, unsigned rank, const char *from, KcuCombine combine);
}
