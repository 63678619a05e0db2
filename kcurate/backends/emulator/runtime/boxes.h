// Boxes of tensors that tensor maps describe (cp.async.bulk.tensor, tiled): which bytes of global memory and
// of shared memory belong together. Not covered: when a copy is done (copies.h).
//
// In shared memory a box is dense, its innermost axis first; swizzled, its rows are as far apart as the swizzle is
// wide (our measurement, H200), and 16-byte pieces change places by the bits of their address. Of a box that
// reaches past the tensor, a load fills the rest, a store drops it.
// Source: PTX ISA, "Tensors"; CUDA Driver API, cuTensorMapEncodeTiled.
#pragma once

#include "../include/kcurate/tensor_map.h"
#include "extents.h"

namespace kcu
{

// One copy, with its map as that was when the copy was ordered: a thread may end, and its parameters with it.
struct Box {
    KcuTensorMap map;
    int at[5];
    bool loads;
    KcuCombine combine; // what a store does with each element; null: it overwrites
    Box *next;          // among the free ones
};
const unsigned MAX_BOXES = 1 << 16;

inline Box *new_box(const void *map, const int *at, unsigned rank)
{
    Box *box = state->free_boxes;
    if (!state->boxes) state->boxes = reserve<Box>(MAX_BOXES);
    if (box)
        state->free_boxes = box->next;
    else if (state->boxes && state->used_boxes < MAX_BOXES)
        box = state->boxes + state->used_boxes++;
    else
        kcu_fault(KCU_LAUNCH, "too many copies of boxes at once");
    *box = Box{kcu_tensor_map(map), {}, false, nullptr, nullptr};
    if (box->map.rank != rank)
        kcu_fault(KCU_LAUNCH, "as many coordinates as its tensor map does not have axes");
    for (unsigned axis = 0; axis < rank; axis++) box->at[axis] = at[axis];
    return box;
}

inline void drop_box(Box *box)
{
    if (!box) return;
    box->next = state->free_boxes;
    state->free_boxes = box;
}

// Elements of a box along an axis. (The innermost has no steps: cuTensorMapEncodeTiled, "elementStrides".)
inline unsigned step(const KcuTensorMap &map, unsigned axis) { return axis ? map.element_strides[axis] : 1; }
inline unsigned extent(const KcuTensorMap &map, unsigned axis)
{
    return (map.box[axis] + step(map, axis) - 1) / step(map, axis);
}
inline unsigned row_bytes(const KcuTensorMap &map) { return unsigned(map.box[0] * map.strides[0]); }

// From one row to the next; 32, 64 and 128 bytes are swizzles 1, 2 and 3.
inline unsigned row_pitch(const KcuTensorMap &map) { return map.swizzle ? 16u << map.swizzle : row_bytes(map); }

inline size_t rows_of(const KcuTensorMap &map)
{
    size_t rows = 1;
    for (unsigned axis = 1; axis < map.rank; axis++) rows *= extent(map, axis);
    return rows;
}

// What a barrier counts, and from the first byte to past the last row.
inline size_t box_bytes(const KcuTensorMap &map) { return rows_of(map) * row_bytes(map); }
inline size_t room_bytes(const KcuTensorMap &map) { return rows_of(map) * row_pitch(map); }

// Where a piece of 16 bytes lies.
inline char *swizzled(char *place, unsigned swizzle)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(place), bits = ((1u << swizzle) - 1) << 4;
    return reinterpret_cast<char *>(at ^ (at >> 3 & bits));
}

// What a load will overwrite, in the memory of this block.
inline void poison_box(const KcuTensorMap &map, char *to, int poison)
{
    const unsigned bytes = row_bytes(map), piece = map.swizzle ? 16 : bytes;
    for (char *const end = to + room_bytes(map); to < end; to += row_pitch(map))
        for (unsigned at = 0; at < bytes; at += piece) memset(swizzled(to + at, map.swizzle), poison, piece);
}

inline void fill(char *to, unsigned bytes, const KcuTensorMap &map)
{
    if (!map.fill) {
        memset(to, 0, bytes);
        return;
    }
    // The NaN whose bits are all ones but for the sign.
    memset(to, 0xFF, bytes);
    for (unsigned i = unsigned(map.strides[0]) - 1; i < bytes; i += unsigned(map.strides[0])) to[i] = 0x7F;
}

inline void combine_all(const Box &box, char *to, const char *from, unsigned bytes)
{
    if (!box.combine) {
        memcpy(to, from, bytes);
        return;
    }
    state->schedule.held++; // device code, called here
    for (unsigned i = 0; i < bytes; i += unsigned(box.map.strides[0])) box.combine(to + i, from + i);
    state->schedule.held--;
}

// One row along the innermost axis, of which the bytes from `low` to `high` are in the tensor. `row` is its
// place in the memory of the block it belongs to, which lies `away` from there.
inline void move_row(const Box &box, char *global, char *row, ptrdiff_t away, unsigned low, unsigned high)
{
    const unsigned bytes = row_bytes(box.map), piece = box.map.swizzle ? 16 : bytes;
    if (low < high) {
        check_global(global + low, high - low);
        reach(global + low, high - low);
    }
    for (unsigned at = 0; at < bytes; at += piece) {
        char *const place = swizzled(row + at, box.map.swizzle) + away;
        const unsigned end = at + piece, from = low < at ? at : low < end ? low : end;
        const unsigned to = high < from ? from : high < end ? high : end;
        if (!box.loads) {
            shared_is_read(place + (from - at), to - from);
            combine_all(box, global + from, place + (from - at), to - from);
            continue;
        }
        fill(place, from - at, box.map);
        memcpy(place + (from - at), global + from, to - from);
        fill(place + (to - at), end - to, box.map);
    }
}

// Do a copy between global memory and `shared`, which may be in the image of another block.
inline void move_box(const Box &box, char *shared)
{
    const KcuTensorMap &map = box.map;
    const char *own = shared;
    find_rank(own);
    const ptrdiff_t away = shared - own;
    const long long size = (long long)map.strides[0], first = box.at[0], inner = map.box[0];
    const long long left = (long long)map.extents[0] - first; // elements up to the tensor's end
    const unsigned low = unsigned((first < 0 ? (-first < inner ? -first : inner) : 0) * size);
    const unsigned high = unsigned((left < 0 ? 0 : left < inner ? left : inner) * size);
    unsigned index[5] = {};
    char *row = const_cast<char *>(own);
    for (bool over = false; !over; row += row_pitch(map)) {
        bool inside = low < high;
        long long offset = first * size;
        for (unsigned axis = 1; axis < map.rank; axis++) {
            const long long place = (long long)box.at[axis] + (long long)index[axis] * step(map, axis);
            inside &= place >= 0 && place < (long long)map.extents[axis];
            offset += place * (long long)map.strides[axis];
        }
        char *global = reinterpret_cast<char *>(map.address) + offset;
        move_row(box, global, row, away, inside ? low : 0, inside ? high : 0);
        over = true;
        for (unsigned axis = 1; axis < map.rank && over; axis++) {
            over = ++index[axis] == extent(map, axis);
            if (over) index[axis] = 0;
        }
    }
}

// The box's place in shared memory, which another block of the cluster may own (its rank plus one).
inline unsigned check_box(const Box &box, const char *shared)
{
    const unsigned rank = find_rank(shared);
    if (reinterpret_cast<uintptr_t>(shared) % 128)
        kcu_fault(KCU_LAUNCH, "a box in shared memory at a misaligned address, not a multiple of 128 bytes");
    // Our measurement (H100, driver 580.159.04, loads, stores and reductions of types of 1 to 8 bytes).
    if ((long long)box.at[0] * (long long)box.map.strides[0] % 16)
        kcu_fault(KCU_LAUNCH, "a box whose innermost coordinate is not a multiple of 16 bytes, which a GPU refuses as "
                              "an illegal instruction");
    // Our measurement (H200, driver 580.159.04): a load from there fills, a store ends the run.
    for (unsigned axis = 0; axis < box.map.rank && !box.loads; axis++)
        if (box.at[axis] < 0)
            kcu_fault(KCU_LAUNCH, "a box stored from a negative coordinate on, which a GPU refuses as an illegal "
                                  "instruction");
    check_shared(shared, room_bytes(box.map));
    return rank;
}

} // namespace kcu

extern "C" {

KcuTensorMap kcu_tensor_map(const void *place)
{
    KcuTensorMap map;
    if (reinterpret_cast<uintptr_t>(place) % 64)
        kcu_fault(KCU_LAUNCH, "a tensor map at a misaligned address, not a multiple of 64 bytes");
    memcpy(&map, place, sizeof map);
    if (map.mark != KCU_TENSOR_MAP) kcu_fault(KCU_LAUNCH, "a tensor map that the plan has not made");
    return map;
}

} // extern "C"
