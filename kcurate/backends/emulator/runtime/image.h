// The memory of a side's variables: what they held first, and shared memory of blocks that take turns.
#pragma once

#include <link.h>

#include "state.h"

namespace kcu
{

inline size_t static_shared_bytes() { return size_t(__stop_kcu_shared - __start_kcu_shared); }

static int find_data(dl_phdr_info *info, size_t, void *)
{
    const uintptr_t own = reinterpret_cast<uintptr_t>(&kcu_lane);
    bool mine = false;
    uintptr_t from = 0, to = 0, fixed = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &part = info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part.p_vaddr, end = start + part.p_memsz;
        if (part.p_type == PT_LOAD && (part.p_flags & PF_W) && own >= start && own < end) {
            mine = true;
            from = start;
            to = end;
        } else if (part.p_type == PT_GNU_RELRO) {
            fixed = (end + PAGE - 1) / PAGE * PAGE;
        }
    }
    if (!mine) return 0;
    if (fixed > from && fixed <= to) from = fixed;
    state->data = reinterpret_cast<char *>(from);
    state->data_bytes = to - from;
    return 1;
}

// Keep what all variables of the side hold now.
inline bool keep_data()
{
    if (!dl_iterate_phdr(find_data, nullptr)) return false;
    state->data_copy = reserve<char>(state->data_bytes);
    if (!state->data_copy) return false;
    memcpy(state->data_copy, state->data, state->data_bytes);
    return true;
}

inline void reset_data() { memcpy(state->data, state->data_copy, state->data_bytes); }

inline void poison_shared()
{
    const Launch &launch = state->launch;
    memset(__start_kcu_shared, launch.poison, launch.static_bytes);
    memset(kcu_dynamic, launch.poison, launch.shared_bytes);
}

// A copy reads shared memory, which is counted as a thread's reading is (counting.h).
inline void shared_is_read(const void *pointer, size_t bytes)
{
    const char *place = static_cast<const char *>(pointer);
    Counting &c = state->counting;
    if (!c.on) return;
    if (place >= kcu_dynamic && place < kcu_dynamic + state->launch.shared_bytes)
        memset(c.shared_read + (place - kcu_dynamic), 1, bytes);
    else if (place >= __start_kcu_shared && place < __stop_kcu_shared)
        memset(c.static_read + (place - __start_kcu_shared), 1, bytes);
}

// Where dynamic memory begins in an image: as aligned as it is in its own place.
inline size_t image_bytes(const Launch &launch) { return (launch.static_bytes + 127) / 128 * 128; }

inline void save_shared(Block *block)
{
    const Launch &launch = state->launch;
    const size_t size = image_bytes(launch) + launch.shared_bytes;
    if (!size) return;
    if (!block->image) block->image = reserve<char>(size);
    if (!block->image) kcu_fault(KCU_LAUNCH, "not enough memory for the shared memory of so many blocks");
    memcpy(block->image, __start_kcu_shared, launch.static_bytes);
    memcpy(block->image + image_bytes(launch), kcu_dynamic, launch.shared_bytes);
}

inline void restore_shared(Block *block)
{
    const Launch &launch = state->launch;
    if (!block->image) return;
    memcpy(__start_kcu_shared, block->image, launch.static_bytes);
    memcpy(kcu_dynamic, block->image + image_bytes(launch), launch.shared_bytes);
}

// Where something in the running block's shared memory lies in that of another block of the cluster: in the
// image of that block, which waits meanwhile.
inline char *map_shared(char *place, unsigned rank)
{
    const Launch &launch = state->launch;
    Block *block = state->block;
    if (rank >= launch.cluster) kcu_fault(KCU_LAUNCH, "a rank that its cluster does not have");
    Block *other = block->leader->members[rank];
    if (other == block) return place;
    size_t offset = size_t(place - __start_kcu_shared);
    if (place >= kcu_dynamic && place <= kcu_dynamic + launch.shared_bytes)
        offset = image_bytes(launch) + size_t(place - kcu_dynamic);
    else if (place < __start_kcu_shared || place >= __stop_kcu_shared)
        kcu_fault(KCU_BOUNDS, "an address outside shared memory");
    if (!other->image)
        kcu_fault(KCU_LAUNCH, other->running ? "shared memory of a block of its cluster that has not started"
                                             : "shared memory of a block of its cluster that has ended");
    return other->image + offset;
}

// The rank, plus one, of the other block whose image holds a place; the place moves into the own block's memory.
inline unsigned find_rank(const char *&place)
{
    const Launch &launch = state->launch;
    Block *leader = state->block->leader;
    for (unsigned i = 0; i < launch.cluster && launch.cluster > 1; i++) {
        const char *image = leader->members[i]->image;
        if (!image || place < image || place >= image + image_bytes(launch) + launch.shared_bytes) continue;
        const size_t offset = size_t(place - image), fixed = image_bytes(launch);
        place = offset < fixed ? __start_kcu_shared + offset : kcu_dynamic + (offset - fixed);
        return i + 1;
    }
    return 0;
}

// Static variables begin at a page of the window, dynamic memory keeps its guards.
inline unsigned long long to_shared(const char *place)
{
    const char *fixed = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(__start_kcu_shared) & ~(PAGE - 1));
    const char *room = state->dynamic_end - SHARED_ROOM;
    if (place >= fixed && place < __stop_kcu_shared) return STATIC_WINDOW + (unsigned long long)(place - fixed);
    if (place >= room && place <= state->dynamic_end) return DYNAMIC_WINDOW + (unsigned long long)(place - room);
    if (const unsigned rank = find_rank(place)) return to_shared(place) + (unsigned long long)rank * RANK_WINDOW;
    return ~0ull;
}

inline char *from_shared(unsigned long long address)
{
    if (const unsigned rank = unsigned(address / RANK_WINDOW)) {
        char *own = rank <= MAX_CLUSTER ? from_shared(address % RANK_WINDOW) : nullptr;
        return own ? map_shared(own, rank - 1) : nullptr;
    }
    char *fixed = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(__start_kcu_shared) & ~(PAGE - 1));
    if (address >= STATIC_WINDOW && address < STATIC_WINDOW + (unsigned long long)(__stop_kcu_shared - fixed))
        return fixed + (address - STATIC_WINDOW);
    if (address >= DYNAMIC_WINDOW && address < DYNAMIC_WINDOW + SHARED_ROOM + SHARED_GUARD)
        return state->dynamic_end - SHARED_ROOM + (address - DYNAMIC_WINDOW);
    return nullptr;
}

inline void drop_image(Block *block)
{
    const Launch &launch = state->launch;
    give_back(block->image, image_bytes(launch) + launch.shared_bytes);
    block->image = nullptr;
}

} // namespace kcu
