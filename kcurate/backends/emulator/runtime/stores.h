// Stores to global memory that other blocks do not see yet, where threads run in a random order: a GPU may keep them
// back until a fence of their block or the end of the kernel. Volatile ones are no exception: to two places, nothing
// but a fence orders them. Nor are atomics whose scope is the block.
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

// The running block is about to store. What others watch (not `always`) they see at once if there is something before
// it that they do not see yet, else it may be that one.
inline void keep_back(const volatile void *pointer, unsigned size, bool always)
{
    Block *block = state->block;
    if (!always && ((block->stores && block->stores->used) || turn_over(2))) return let_go(pointer);
    const unsigned shift = unsigned(reinterpret_cast<uintptr_t>(pointer) % sizeof(Part)) * 8;
    if (!block->late || shift + size * 8 > sizeof(Part) * 8 || !is_global(const_cast<const void *>(pointer))) return;
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

// What the running launch has stored, by a hash of the part of memory: of two in one slot, the later one.
const unsigned NOTED_BITS = 15;
struct Noted {
    const Part *place;
    unsigned launch, bytes; // a bit for each
};

inline unsigned bytes_in(const Part *part, const volatile void *pointer, size_t size)
{
    const long from = static_cast<const volatile char *>(pointer) - reinterpret_cast<const char *>(part);
    const long end = from + long(size), whole = sizeof(Part);
    const unsigned before_end = (1u << (end < whole ? end : whole)) - 1;
    return from > 0 ? before_end & ~((1u << from) - 1) : before_end;
}

inline Noted *noted_at(const Part *part)
{
    return state->noted + (reinterpret_cast<uintptr_t>(part) / sizeof(Part) * 0x9E3779B97F4A7C15ull >> (64 - NOTED_BITS));
}

inline void note_store(const volatile void *pointer, size_t size)
{
    if (!state->schedule.on || !is_global(const_cast<const void *>(pointer))) return;
    if (!state->noted && !(state->noted = reserve<Noted>(1u << NOTED_BITS))) return;
    const char *end = static_cast<const char *>(const_cast<const void *>(pointer)) + size;
    for (const Part *part = part_at(pointer); reinterpret_cast<const char *>(part) < end; part++) {
        Noted &noted = *noted_at(part);
        if (noted.place != part || noted.launch != state->launches) noted = Noted{part, state->launches, 0};
        noted.bytes |= bytes_in(part, pointer, size);
    }
}

inline bool has_stored(const volatile void *pointer, size_t size)
{
    const char *end = static_cast<const char *>(const_cast<const void *>(pointer)) + size;
    for (const Part *part = part_at(pointer); state->noted && reinterpret_cast<const char *>(part) < end; part++) {
        const Noted &noted = *noted_at(part);
        if (noted.place == part && noted.launch == state->launches && noted.bytes & bytes_in(part, pointer, size))
            return true;
    }
    return false;
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

// At the end of a kernel, and where its whole grid waits: nothing is kept back. Whether anything was.
inline bool all_arrive()
{
    bool any = state->late && state->late->count;
    while (state->late && state->late->count) arrive(0);
    for (unsigned i = 0; i < state->launch.slots; i++) {
        exchange_stores(state->blocks + i);
        if (Stores *stores = state->blocks[i].stores) {
            any |= stores->used != 0;
            stores->used = 0;
        }
    }
    return any;
}

} // namespace kcu
