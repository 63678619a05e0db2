// Stores to global memory that other blocks do not see yet, where threads run in a random order: a GPU may keep them
// back until a fence of their block or the end of the kernel.
//
// A block sees all of its own stores: its barriers order them, and where one is missing the random order shows it. So
// they are taken out of memory while other blocks run, and put back before the block goes on. Not covered: loads that
// come early, stores within a cluster, variables of the module, and what the runtime itself copies.
#pragma once

#include "scheduler.h"

namespace kcu
{

typedef unsigned __int128 Part;
const unsigned KEPT_STORES = 128, LATE_STORES = 4096;

// The bytes of one aligned part of memory that are stored and kept back; no store of a GPU goes beyond such a part.
struct Stored {
    Part *place;
    Part bytes; // a mask
    Part other; // what others see while the block runs, and what it has stored while others run

    void exchange()
    {
        const Part here = *place;
        *place = (here & ~bytes) | (other & bytes);
        other = here;
    }
};

// By a hash of their places: of two in one slot, one goes.
struct Stores {
    Part used; // a bit for each slot
    Stored slots[KEPT_STORES];
};

// Of blocks that have ended.
struct LateStores {
    unsigned count;
    Stored stores[LATE_STORES];
};

// The words of 4 bytes that a launch has stored whole: a set by hash, which takes no more when it is half full.
const unsigned WRITTEN_WORDS = 1u << 20;
struct Written {
    unsigned launches, count;
    uintptr_t words[WRITTEN_WORDS];

    uintptr_t &place(uintptr_t word)
    {
        unsigned at = unsigned(word * 0x9E3779B97F4A7C15ull >> 44);
        while (words[at] && words[at] != word) at = (at + 1) % WRITTEN_WORDS;
        return words[at];
    }
};

inline void note_stored(const void *pointer, unsigned size)
{
    if (!state->schedule.on || (!state->written && !(state->written = reserve<Written>(1)))) return;
    Written &written = *state->written;
    if (written.launches != state->launches) madvise(&written, sizeof written, MADV_DONTNEED);
    written.launches = state->launches;
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    for (uintptr_t word = (at + 3) / 4; word < (at + size) / 4; word++) {
        uintptr_t &place = written.place(word);
        if (!place && written.count < WRITTEN_WORDS / 2) written.count++, place = word;
    }
}

// A load through the cache of what is constant: whatever the launch stored there may be missing.
inline void check_constant(const void *pointer, unsigned size)
{
    if (!state->written || state->written->launches != state->launches) return;
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    for (uintptr_t word = at / 4; word <= (at + size - 1) / 4; word++)
        if (state->written->place(word))
            kcu_fault(KCU_LAUNCH, "a load through the read-only cache (__ldg) of what the launch has stored");
}

inline bool is_global(const void *pointer)
{
    const char *place = static_cast<const char *>(pointer);
    return size_t(place - state->data) >= state->data_bytes &&
           size_t(place - (state->dynamic_end - SHARED_ROOM)) >= SHARED_ROOM;
}

inline unsigned slot_of(const Part *place)
{
    return unsigned(reinterpret_cast<uintptr_t>(place) / sizeof(Part) * 0x9E3779B97F4A7C15ull >> 57);
}

inline Part *part_at(const volatile void *pointer)
{
    return reinterpret_cast<Part *>(reinterpret_cast<uintptr_t>(pointer) & ~(sizeof(Part) - 1));
}

// The running block is about to store.
inline void keep_back(const void *pointer, unsigned size)
{
    Block *block = state->block;
    const unsigned shift = unsigned(reinterpret_cast<uintptr_t>(pointer) % sizeof(Part)) * 8;
    if (!block->late || shift + size * 8 > sizeof(Part) * 8 || !is_global(pointer)) return;
    if (!block->stores && !(block->stores = reserve<Stores>(1))) return;
    Part *place = part_at(pointer);
    const unsigned slot = slot_of(place);
    Stored &stored = block->stores->slots[slot];
    if (!(block->stores->used >> slot & 1) || stored.place != place) {
        if (block->stores->used >> slot & 1 && turn_over(2)) return;
        stored = Stored{place, 0, 0};
    }
    const Part stores = (size == sizeof(Part) ? ~Part(0) : ((Part(1) << size * 8) - 1) << shift);
    stored.other = (stored.other & stored.bytes) | (*place & ~stored.bytes);
    stored.bytes |= stores;
    block->stores->used |= Part(1) << slot;
}

// Others see from now on what the running block has stored in one place, or everywhere.
inline void let_go(const volatile void *pointer)
{
    Stores *stores = state->block->stores;
    if (!stores) return;
    if (!pointer)
        stores->used = 0;
    else if (stores->slots[slot_of(part_at(pointer))].place == part_at(pointer))
        stores->used &= ~(Part(1) << slot_of(part_at(pointer)));
}

template <class Action> void for_each_kept(Stores *stores, Action action)
{
    for (int half = 0; half < 2; half++)
        for (unsigned long left = (unsigned long)(stores->used >> 64 * half); left; left &= left - 1)
            action(stores->slots[64 * half + __builtin_ctzl(left)]);
}

// Before and after a block's turn.
inline void exchange_stores(Block *block)
{
    if (block->stores) for_each_kept(block->stores, [](Stored &stored) { stored.exchange(); });
}

inline void arrive(unsigned number)
{
    LateStores &late = *state->late;
    late.stores[number].exchange();
    late.stores[number] = late.stores[--late.count];
}

// By chance some come earlier.
inline void some_arrive(Block *block)
{
    if (block->stores && turn_over(256))
        block->stores->used &= (Part)roll() << 96 | (Part)roll() << 64 | (Part)roll() << 32 | roll();
    if (state->late && state->late->count && turn_over(8)) arrive(roll() % state->late->count);
}

// What a block that has ended keeps back may come at any later time.
inline void come_late(Block *block)
{
    if (!block->stores) return;
    if (!state->late) state->late = reserve<LateStores>(1);
    for_each_kept(block->stores, [](Stored &stored) {
        if (state->late && state->late->count < LATE_STORES)
            state->late->stores[state->late->count++] = stored;
        else
            stored.exchange();
    });
    block->stores->used = 0;
}

// At the end of a kernel, and where its whole grid waits: nothing is kept back.
inline void all_arrive()
{
    while (state->late && state->late->count) arrive(0);
    for (unsigned i = 0; i < state->launch.slots; i++) {
        exchange_stores(state->blocks + i);
        if (state->blocks[i].stores) state->blocks[i].stores->used = 0;
    }
}

} // namespace kcu
