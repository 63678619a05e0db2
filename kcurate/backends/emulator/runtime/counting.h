// What a side does, counted while it runs: called by sides that are compiled with `toolchain.COUNTING`, which puts
// a call into each basic block and before each access to memory. What counts as waste is decided elsewhere.
#pragma once

#include "image.h"

namespace kcu
{

// Calls of the function at `target` from a piece of code; returns where each returns to, in ascending order.
static size_t find_calls(const char *code, size_t bytes, const void *target, unsigned *found)
{
    size_t count = 0;
#if defined(__x86_64__)
    for (size_t at = 0; at + 5 <= bytes; at++) {
        if ((unsigned char)code[at] != 0xE8) continue;
        int distance;
        memcpy(&distance, code + at + 1, 4);
        if (code + at + 5 + distance == target) found[count++] = unsigned(at + 5);
    }
#elif defined(__aarch64__)
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        unsigned word;
        memcpy(&word, code + at, 4);
        if (word >> 26 != 0x25) continue;
        const long distance = long(int(word << 6) >> 6) * 4;
        if (code + at + distance == target) found[count++] = unsigned(at + 4);
    }
#endif
    return count;
}

static int find_code(dl_phdr_info *info, size_t, void *)
{
    const uintptr_t own = reinterpret_cast<uintptr_t>(&find_code);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &part = info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part.p_vaddr;
        if (part.p_type != PT_LOAD || own < start || own >= start + part.p_memsz) continue;
        state->counting.code = reinterpret_cast<char *>(start);
        state->counting.code_bytes = part.p_memsz;
        return 1;
    }
    return 0;
}

// Before the first launch of a side that counts; `marker` is what each basic block calls.
inline bool open_counting(const void *marker)
{
    Counting &c = state->counting;
    if (!dl_iterate_phdr(find_code, nullptr)) return false;
    c.runs = reserve<unsigned>(c.code_bytes);
    c.calls = reserve<unsigned>(c.code_bytes);
    c.static_read = reserve<char>(static_shared_bytes());
    if (!c.runs || !c.calls || !c.static_read) return false;
    c.call_count = find_calls(c.code, c.code_bytes, marker, c.calls);
    return true;
}

// The bytes of machine code that ran: each basic block is as long as the way to the next one's call. (The last
// call is that of `kcu_code_ends`, which never runs.)
static unsigned long code_that_ran()
{
    Counting &c = state->counting;
    unsigned long total = 0;
    for (size_t i = 0; i < c.call_count; i++) {
        const unsigned long length = i + 1 < c.call_count ? c.calls[i + 1] - c.calls[i] : LAST_BLOCK_BYTES;
        total += c.runs[c.calls[i]] * (length < MOST_BLOCK_BYTES ? length : LAST_BLOCK_BYTES);
        c.runs[c.calls[i]] = 0;
    }
    return total;
}

// How many blocks of a launch run.
inline unsigned long sampled(unsigned long total, bool together)
{
    const Counting &c = state->counting;
    return c.on && c.sample && !together && total > c.sample ? c.sample : total;
}

// The block that runs as number `next`: one of each `step`, chosen at random.
inline unsigned long block_number(unsigned long next)
{
    const Launch &launch = state->launch;
    if (launch.step <= 1) return next;
    unsigned long mixed = (next + state->counting.seed + launch.dice) * 0x9E3779B97F4A7C15ul;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9ul;
    return next * launch.step + (mixed >> 32) % launch.step;
}

inline void begin_launch()
{
    Counting &c = state->counting;
    if (!c.on) return;
    c.launch = Tally{};
    memset(c.shared_read, 0, state->launch.shared_bytes);
}

// The counts so far, which begin anew.
inline Tally take_counts()
{
    Counting &c = state->counting;
    Tally found = c.all;
    found.static_bytes = static_shared_bytes();
    for (size_t i = 0; i < found.static_bytes; i++) found.static_read_bytes += c.static_read[i];
    memset(c.static_read, 0, found.static_bytes);
    c.all = Tally{};
    return found;
}

// Add a launch to the counts, as if all of its blocks were like those that ran.
inline void end_launch(unsigned long total)
{
    Counting &c = state->counting;
    if (!c.on) return;
    const double scale = double(total) / double(state->launch.total);
    c.all.threads += (unsigned long)(c.launch.threads * scale);
    c.all.idle += (unsigned long)(c.launch.idle * scale);
    c.all.accesses += (unsigned long)(c.launch.accesses * scale);
    c.all.code_bytes += (unsigned long)((c.launch.code_bytes + code_that_ran()) * scale);
    unsigned long read = 0;
    for (size_t i = 0; i < state->launch.shared_bytes; i++) read += c.shared_read[i];
    if (read > c.all.shared_read_bytes) c.all.shared_read_bytes = read;
    if (state->launch.shared_bytes > c.all.shared_bytes) c.all.shared_bytes = state->launch.shared_bytes;
}

inline bool in_dynamic(uintptr_t at)
{
    return at - reinterpret_cast<uintptr_t>(kcu_dynamic) < state->launch.shared_bytes;
}

// A thread reads or writes memory. Its own stack and the side's variables (threadIdx is one) do not count.
static void touch(const void *pointer, size_t bytes, bool read)
{
    State &s = *state;
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    if (at - reinterpret_cast<uintptr_t>(s.stacks.base) < s.stacks.size * s.stacks.count) return;
    const bool fixed = at >= uintptr_t(__start_kcu_shared) && at < uintptr_t(__stop_kcu_shared);
    if (!fixed && at - reinterpret_cast<uintptr_t>(s.data) < s.data_bytes) return;
    s.counting.launch.accesses++;
    s.fiber->busy = true;
    reach(pointer, bytes);
    if (!read) return;
    if (fixed) memset(s.counting.static_read + (at - uintptr_t(__start_kcu_shared)), 1, bytes);
    if (in_dynamic(at)) memset(s.counting.shared_read + (at - uintptr_t(kcu_dynamic)), 1, bytes);
}

} // namespace kcu

extern "C" {
KCU_HIDDEN void __sanitizer_cov_trace_pc()
{
    kcu::Counting &c = kcu::state->counting;
    const size_t at = static_cast<char *>(__builtin_return_address(0)) - c.code;
    if (c.runs && at < c.code_bytes) c.runs[at]++;
}
#define KCU_COUNTED(N)                                                                                       \
    KCU_HIDDEN void __asan_load##N##_noabort(const void *at) { kcu::touch(at, N, true); }                    \
    KCU_HIDDEN void __asan_store##N##_noabort(const void *at) { kcu::touch(at, N, false); }
KCU_COUNTED(1)
KCU_COUNTED(2)
KCU_COUNTED(4)
KCU_COUNTED(8)
KCU_COUNTED(16)
KCU_HIDDEN void __asan_loadN_noabort(const void *at, size_t bytes) { kcu::touch(at, bytes, true); }
KCU_HIDDEN void __asan_storeN_noabort(const void *at, size_t bytes) { kcu::touch(at, bytes, false); }
KCU_HIDDEN void __asan_handle_no_return() {}
KCU_HIDDEN void __asan_register_globals(void *, size_t) {}
KCU_HIDDEN void __asan_unregister_globals(void *, size_t) {}
KCU_HIDDEN void __asan_before_dynamic_init(const char *) {}
KCU_HIDDEN void __asan_after_dynamic_init() {}
}
