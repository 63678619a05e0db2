// How far memory goes that the runtime copies for device code, and that a side accesses whose threads lose their turns
// at accesses: what lies behind an allocation up to its alignment can be read and written on the host, and belongs to
// nobody. Not covered: other accesses, where allocations end at protected pages (kcurate.backends.emulator.memory).
#pragma once

#include "image.h"

namespace kcu
{

const size_t ALLOCATION_ALIGNMENT = 256;

[[noreturn]] inline void report_past(const char *access, size_t bytes, size_t past, const char *what)
{
    char text[120];
    snprintf(text, sizeof text, "%s of %zu bytes, %zu past the end of %s", access, bytes, past, what);
    kcu_fault(KCU_BOUNDS, text);
}

// Whether an access is to allocation number `i`; a fault where it leaves it.
inline bool check_extent(unsigned i, const char *access, const void *place, size_t bytes)
{
    const uintptr_t start = state->extents[2 * i], at = reinterpret_cast<uintptr_t>(place) - start;
    const size_t size = state->extents[2 * i + 1];
    if (at >= (size + ALLOCATION_ALIGNMENT - 1) / ALLOCATION_ALIGNMENT * ALLOCATION_ALIGNMENT) return false;
    if (at + bytes > size) report_past(access, bytes, at + bytes - size, "an allocation");
    return true;
}

// An access ends where its allocation does. (Of an address that is in none, the access itself faults.)
inline void check_global(const void *place, size_t bytes, const char *access = "a copy")
{
    unsigned &last = state->last_extent;
    if (!bytes || (last < state->extent_count && check_extent(last, access, place, bytes))) return;
    for (unsigned i = 0; i < state->extent_count; i++)
        if (check_extent(i, access, place, bytes)) last = i;
}

// A copy stays in the shared memory of the block, or of one block of its cluster.
inline void check_shared(const void *pointer, size_t bytes)
{
    const char *place = static_cast<const char *>(pointer);
    find_rank(place);
    const bool fixed = place >= __start_kcu_shared && place < __stop_kcu_shared;
    const char *start = fixed ? __start_kcu_shared : kcu_dynamic;
    const char *end = fixed ? __stop_kcu_shared : kcu_dynamic + state->launch.shared_bytes;
    if (place < start || place > end) kcu_fault(KCU_BOUNDS, "a copy outside shared memory");
    if (bytes > size_t(end - place)) report_past("a copy", bytes, bytes - size_t(end - place), "shared memory");
}

} // namespace kcu
