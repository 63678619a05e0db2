// What a side does, counted while it runs: called by sides that are compiled with `toolchain.COUNTING`, which puts
// a call into each basic block and before each access to memory. What counts as waste is decided elsewhere.
#pragma once

#include "image.h"

namespace kcu
{

// Calls of the function at `target` from a piece of code: where each returns to, and the bytes up to the next one's.
// (The last call is that of `kcu_code_ends`, which never runs.)
static void measure_blocks(const char *code, size_t bytes, const void *target, unsigned *lengths)
{
    size_t before = 0;
    const auto found = [&](size_t at) {
        if (before && at - before < MOST_BLOCK_BYTES) lengths[before] = unsigned(at - before);
        lengths[before = at] = LAST_BLOCK_BYTES;
    };
#if defined(__x86_64__)
    for (size_t at = 0; at + 5 <= bytes; at++) {
        if ((unsigned char)code[at] != 0xE8) continue;
        int distance;
        memcpy(&distance, code + at + 1, 4);
        if (code + at + 5 + distance == target) found(at + 5);
    }
#elif defined(__aarch64__)
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        unsigned word;
        memcpy(&word, code + at, 4);
        if (word >> 26 != 0x25) continue;
        const long distance = long(int(word << 6) >> 6) * 4;
        if (code + at + distance == target) found(at + 4);
    }
#endif
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
    c.lengths = reserve<unsigned>(c.code_bytes);
    c.static_read = reserve<char>(static_shared_bytes());
    if (!c.lengths || !c.static_read) return false;
    measure_blocks(c.code, c.code_bytes, marker, c.lengths);
    return true;
}

// How many blocks of a launch run.
inline unsigned long sampled(unsigned long total, bool together)
{
    const Counting &c = state->counting;
    return c.on && c.sample && !together && total > c.sample ? c.sample : total;
}

// The block that runs as number `next`: one of each `step`, chosen at random, the same in launches of one grid.
inline unsigned long block_number(unsigned long next)
{
    const Launch &launch = state->launch;
    if (launch.step <= 1) return next;
    unsigned long mixed = (next + state->counting.seed) * 0x9E3779B97F4A7C15ul;
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9ul;
    return next * launch.step + (mixed >> 32) % launch.step;
}

inline void begin_launch()
{
    Counting &c = state->counting;
    if (!c.on) return;
    c.launch = Tally{};
    c.traced = c.distinct = c.irregular = 0;
    memset(c.at_place, 0, sizeof c.at_place);
    if (c.owners) memset(c.owners, 0, OWNERS * sizeof *c.owners);
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

// The share of a multiprocessor that each block of the launch holds: of its 2048 threads, 32 blocks and 228 KiB of
// shared memory (CUDA C++ Programming Guide, compute capability 9.0). Registers are the caller's to add.
static double held_by_a_block()
{
    const double warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
    const double shared = double(state->launch.shared_bytes + state->launch.static_bytes + 1024) / (228 << 10);
    const double most = warps / 64 > 1.0 / 32 ? warps / 64 : 1.0 / 32;
    return shared > most ? shared : most;
}

// A block has ended.
inline void count_block(Block *block)
{
    Counting &c = state->counting;
    if (!c.on) return;
    for (unsigned i = 0; i < block->warps; i++) {
        c.launch.warp_bytes += block->warp[i].code;
        block->warp[i].code = 0;
    }
    raise_to(c.launch.chain_bytes, block->chain);
    raise_to(c.launch.chain_accesses, block->chain_accesses);
    c.launch.held_bytes += block->chain;
    c.launch.held_accesses += block->chain_accesses;
    block->chain = block->chain_accesses = 0;
}

// Add a launch to the counts, as if all of its blocks were like those that ran.
inline void end_launch(unsigned long total)
{
    Counting &c = state->counting;
    if (!c.on) return;
    const double scale = double(total) / double(state->launch.total), held = scale * held_by_a_block();
    const double global = c.traced ? double(c.launch.accesses - c.launch.shared_accesses) / double(c.traced) : 0;
    const auto add = [](unsigned long &sum, double share) { sum += (unsigned long)share; };
    add(c.all.threads, c.launch.threads * scale);
    add(c.all.idle, c.launch.idle * scale);
    add(c.all.accesses, c.launch.accesses * scale);
    add(c.all.code_bytes, c.launch.code_bytes * scale);
    add(c.all.warp_bytes, c.launch.warp_bytes * scale);
    add(c.all.sectors, double(c.distinct) * global * scale);
    add(c.all.scattered, double(c.irregular) * global * scale);
    add(c.all.shared_accesses, c.launch.shared_accesses * scale);
    add(c.all.atomics, c.launch.atomics * scale);
    add(c.all.held_bytes, c.launch.held_bytes * held);
    add(c.all.held_accesses, c.launch.held_accesses * held);
    c.all.launches++;
    c.all.chain_bytes += c.launch.chain_bytes;
    c.all.chain_accesses += c.launch.chain_accesses;
    unsigned contended = 0;
    for (unsigned count : c.at_place) raise_to(contended, count);
    add(c.all.contended, contended * scale);
    unsigned long read = 0;
    for (size_t i = 0; i < state->launch.shared_bytes; i++) read += c.shared_read[i];
    raise_to(c.all.shared_read_bytes, read);
    raise_to(c.all.shared_bytes, (unsigned long)state->launch.shared_bytes);
}

inline bool in_dynamic(uintptr_t at)
{
    return at - reinterpret_cast<uintptr_t>(kcu_dynamic) < state->launch.shared_bytes;
}

// A thread accesses global memory. Of a warp's accesses at one place in its code, those in one sector of 32 bytes are
// one: the n-th access of a lane is compared with the n-th of the lane that ran before it.
static void trace(uintptr_t at)
{
    Counting &c = state->counting;
    Fiber &fiber = *state->fiber;
    const unsigned long number = fiber.accesses++;
    fiber.chain_accesses++;
    if (number >= TRACED) return;
    Counting::Recent &before = c.recent[fiber.warp][number];
    const uintptr_t stride = at - before.at;
    const bool elsewhere = before.at / SECTOR_BYTES != at / SECTOR_BYTES;
    c.traced++;
    c.distinct += elsewhere;
    c.irregular += elsewhere && stride != before.stride;
    before = {at, stride};
}

// A thread reads or writes memory. Its own stack and the side's variables (threadIdx is one) do not count.
static void touch(const void *pointer, size_t bytes, bool read)
{
    State &s = *state;
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    if (at - reinterpret_cast<uintptr_t>(s.stacks.base) < s.stacks.size * s.stacks.count) return;
    const bool fixed = at >= uintptr_t(__start_kcu_shared) && at < uintptr_t(__stop_kcu_shared);
    if (!fixed && at - reinterpret_cast<uintptr_t>(s.data) < s.data_bytes) return;
    const bool dynamic = in_dynamic(at);
    s.counting.launch.accesses++;
    s.fiber->busy = true;
    if (fixed || dynamic)
        s.counting.launch.shared_accesses++;
    else
        trace(at);
    if (kcu_patience != s.counting.patience) {
        s.counting.patience = kcu_patience;
        s.counting.launch.atomics++;
        s.counting.at_place[(at / 4 * 0x9E3779B97F4A7C15ul) >> 52]++;
    }
    reach(pointer, bytes);
    if (!read) return;
    if (fixed) memset(s.counting.static_read + (at - uintptr_t(__start_kcu_shared)), 1, bytes);
    if (dynamic) memset(s.counting.shared_read + (at - uintptr_t(kcu_dynamic)), 1, bytes);
}

} // namespace kcu

extern "C" {
static void kcu_note(unsigned part, bool same, double value, bool varied = false)
{
    auto &probed = kcu::state->counting.probed[part];
    probed.refuted |= !same;
    probed.varied |= varied || (probed.reached && value != probed.first);
    if (!probed.reached) probed.first = value;
    probed.reached = true;
}
// Another order of roundings is no other value.
KCU_HIDDEN void kcu_probe_real(unsigned part, double value, double other)
{
    const double distance = value > other ? value - other : other - value, most = value > 0 ? value : -value;
    kcu_note(part, value == other || distance <= 1e-4 * most || (value != value && other != other), value);
}
KCU_HIDDEN void kcu_probe_whole(unsigned part, long long value, long long other)
{
    kcu_note(part, value == other, double(value));
}
KCU_HIDDEN void kcu_probe_alone(unsigned part, const volatile void *place)
{
    kcu::Counting &c = kcu::state->counting;
    if (!c.owners) c.owners = kcu::reserve<kcu::Counting::Owner>(kcu::OWNERS);
    if (!c.owners) return kcu_note(part, false, 0);
    const uintptr_t at = reinterpret_cast<uintptr_t>(place);
    const unsigned long block = (blockIdx.z * (unsigned long)gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned long lane = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    kcu::Counting::Owner &owner = c.owners[at / 4 % kcu::OWNERS], own = {at, block * 1024 + lane};
    kcu_note(part, !owner.at || (owner.at == own.at && owner.thread == own.thread), 0, true);
    owner = own;
}
KCU_HIDDEN void __sanitizer_cov_trace_pc()
{
    kcu::Counting &c = kcu::state->counting;
    const size_t at = static_cast<char *>(__builtin_return_address(0)) - c.code;
    if (!c.lengths || at >= c.code_bytes) return;
    const unsigned bytes = c.lengths[at];
    c.launch.code_bytes += bytes;
    kcu::state->fiber->code += bytes;
    kcu::state->fiber->chain += bytes;
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
