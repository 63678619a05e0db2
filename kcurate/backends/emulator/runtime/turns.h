// Where a thread may lose its turn: called before each access to memory by sides that are compiled with
// `toolchain.TURNS`. (Only ThreadSanitizer's calls will do: the others leave out a second access to one address.)
#pragma once

#include "extents.h"
#include "scheduler.h"
#include "stores.h"

namespace kcu
{

// A thread's own stack is nobody else's.
static bool is_for_all(const void *pointer)
{
    const Stacks &stacks = state->stacks;
    return uintptr_t(pointer) - uintptr_t(stacks.base) >= stacks.size * stacks.count;
}

static void read(const void *pointer, unsigned worth, size_t size)
{
    if (!is_for_all(pointer)) return;
    check_global(pointer, size, "an access");
    take_turn(worth);
    if (worth == TELLING) ask(pointer);
}

static void write(const void *pointer, unsigned worth, unsigned size)
{
    if (!is_for_all(pointer)) return;
    check_global(pointer, size, "an access");
    take_turn(worth);
    state->schedule.changes++;
    note_store(pointer, size);
    keep_back(pointer, size, worth == PLAIN);
}

} // namespace kcu

extern "C" {
#define KCU_READ(NAME, WORTH, N)                                                                             \
    KCU_HIDDEN void __tsan_##NAME##N(const void *at) { kcu::read(at, kcu::WORTH, N); }
#define KCU_WRITE(NAME, WORTH, N)                                                                            \
    KCU_HIDDEN void __tsan_##NAME##N(const void *at) { kcu::write(at, kcu::WORTH, N); }
#define KCU_ACCESSES(N)                                                                                      \
    KCU_READ(read, PLAIN, N)                                                                                 \
    KCU_READ(unaligned_read, PLAIN, N)                                                                       \
    KCU_READ(volatile_read, TELLING, N)                                                                      \
    KCU_READ(unaligned_volatile_read, TELLING, N)                                                            \
    KCU_WRITE(write, PLAIN, N)                                                                               \
    KCU_WRITE(read_write, PLAIN, N)                                                                          \
    KCU_WRITE(unaligned_write, PLAIN, N)                                                                     \
    KCU_WRITE(unaligned_read_write, PLAIN, N)                                                                \
    KCU_WRITE(volatile_write, TELLING, N)                                                                    \
    KCU_WRITE(unaligned_volatile_write, TELLING, N)
KCU_ACCESSES(1)
KCU_ACCESSES(2)
KCU_ACCESSES(4)
KCU_ACCESSES(8)
KCU_ACCESSES(16)
KCU_HIDDEN void __tsan_read_range(const void *at, unsigned long size) { kcu::read(at, kcu::PLAIN, size); }
KCU_HIDDEN void __tsan_write_range(const void *at, unsigned long size) { kcu::read(at, kcu::PLAIN, size); }
KCU_HIDDEN void __tsan_init() {}
KCU_HIDDEN void __tsan_func_entry(void *) {}
KCU_HIDDEN void __tsan_func_exit() {}
KCU_HIDDEN void __tsan_vptr_update(void **, void *) {}
KCU_HIDDEN void __tsan_vptr_read(void **) {}
}
