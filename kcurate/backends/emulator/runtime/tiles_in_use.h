// Which shared memory the matrix products of warp groups (wgmma) may still be reading: what they have read and no
// warp has waited for. Writing it is a race, though the emulator has the products' results already.
// Not covered: the products themselves (warpgroup.h).
#pragma once

#include "image.h"
#include "meetings.h"

namespace kcu
{

// The warp group of the running thread. Batches are those of `wgmma.commit_group`, counted from a number that no
// earlier block has used.
inline WarpGroup &own_group()
{
    Block *block = state->block;
    if (!block->groups) block->groups = reserve<WarpGroup>((block->warps + 3) / 4);
    if (!block->groups) kcu_fault(KCU_LAUNCH, "not enough memory for the tiles of warp groups");
    return block->groups[state->fiber->warp / 4];
}

// A new block begins: what the last one in its place read is free.
inline void forget_tiles(Block *block)
{
    for (unsigned i = 0; block->groups && i < (block->warps + 3) / 4; i++) {
        WarpGroup &group = block->groups[i];
        for (unsigned batch : group.batches)
            if (batch >= group.done) group.done = batch + 1;
        for (unsigned &batch : group.batches) batch = group.done;
        group.from = group.to = 0;
    }
}

inline bool in_use(const WarpGroup &group, unsigned part) { return group.reads[part] > group.done; }

inline void use_changed()
{
    kcu_fault(KCU_LAUNCH, "shared memory that a wgmma reads was written by another warp without a barrier, or before "
                          "a wgmma.wait_group for it");
}

// A product of the current batch reads the 16 bytes at `place`, which a descriptor names by `address`.
inline void use_tile(WarpGroup &group, unsigned address, const char *place)
{
    const unsigned part = address / 16;
    if (in_use(group, part) && memcmp(group.held[part], place, 16)) use_changed();
    if (group.from == group.to) group.from = group.to = part;
    if (part < group.from) group.from = part;
    if (part >= group.to) group.to = part + 1;
    group.reads[part] = group.batches[state->fiber->warp % 4] + 1;
    memcpy(group.held[part], place, 16);
}

// An asynchronous copy will write to shared memory of a block; `to` is its place in this one's.
inline void check_target(const Block *block, const void *to, size_t bytes)
{
    const unsigned long long address = block->groups ? to_shared(static_cast<const char *>(to)) : ~0ull;
    if (address >= RANK_WINDOW) return;
    const unsigned first = unsigned(address % DESCRIBED_BYTES / 16), after = first + unsigned((bytes + 15) / 16);
    for (unsigned i = 0; i < (block->warps + 3) / 4; i++)
        for (unsigned part = first; part < after && part < block->groups[i].to; part++)
            if (in_use(block->groups[i], part))
                kcu_fault(KCU_LAUNCH, "an asynchronous copy into shared memory that a wgmma reads, before a "
                                      "wgmma.wait_group for it");
}

// The same for a copy into another block of the cluster, whose memory `to` lies in.
inline void check_remote_target(const char *to, size_t bytes)
{
    if (const unsigned other = find_rank(to)) check_target(state->block->leader->members[other - 1], to, bytes);
}

} // namespace kcu
