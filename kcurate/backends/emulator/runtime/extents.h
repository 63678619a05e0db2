// How far memory goes that the runtime copies for device code: what lies behind an allocation up to its alignment
// can be read and written on the host, and belongs to nobody. Not covered: what device code reads and writes itself,
// where allocations end at protected pages (kcurate.backends.emulator.memory).
#pragma once

#include "image.h"

namespace kcu
{

const size_t ALLOCATION_ALIGNMENT = 256;

[[noreturn]] inline void report_past(size_t bytes, size_t past, const char *what)
{
    char text[120];
    snprintf(text, sizeof text, "a copy of %zu bytes, %zu past the end of %s", bytes, past, what);
    kcu_fault(KCU_BOUNDS, text);
}

// A copy ends where its allocation does. (Of an address that is in none, the copy itself faults.)
inline void check_global(const void *place, size_t bytes)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(place);
    for (unsigned i = 0; i < state->extent_count && bytes; i++) {
        const unsigned long start = state->extents[2 * i], size = state->extents[2 * i + 1];
        const size_t room = (size + ALLOCATION_ALIGNMENT - 1) / ALLOCATION_ALIGNMENT * ALLOCATION_ALIGNMENT;
        if (at - start < room && at - start + bytes > size)
            report_past(bytes, at - start + bytes - size, "an allocation");
    }
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
    if (bytes > size_t(end - place)) report_past(bytes, bytes - size_t(end - place), "shared memory");
}

} // namespace kcu
