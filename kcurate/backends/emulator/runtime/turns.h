// Where a thread may lose its turn: called before each access to memory by sides that are compiled with
// `toolchain.TURNS`. (Only ThreadSanitizer's calls will do: the others leave out a second access to one address.)
#pragma once

#include "scheduler.h"

namespace kcu
{

// A thread's own stack is nobody else's.
static void access(const void *pointer, unsigned worth)
{
    const Stacks &stacks = state->stacks;
    if (uintptr_t(pointer) - uintptr_t(stacks.base) >= stacks.size * stacks.count) take_turn(worth);
}

} // namespace kcu

extern "C" {
#define KCU_ACCESS(NAME)                                                                                     \
    KCU_HIDDEN void __tsan_##NAME(const void *at) { kcu::access(at, kcu::PLAIN); }
#define KCU_VOLATILE(NAME)                                                                                   \
    KCU_HIDDEN void __tsan_##NAME(const void *at) { kcu::access(at, kcu::TELLING); }
#define KCU_ACCESSES(N)                                                                                      \
    KCU_ACCESS(read##N)                                                                                      \
    KCU_ACCESS(write##N)                                                                                     \
    KCU_ACCESS(read_write##N)                                                                                \
    KCU_ACCESS(unaligned_read##N)                                                                            \
    KCU_ACCESS(unaligned_write##N)                                                                           \
    KCU_ACCESS(unaligned_read_write##N)                                                                      \
    KCU_VOLATILE(volatile_read##N)                                                                           \
    KCU_VOLATILE(volatile_write##N)                                                                          \
    KCU_VOLATILE(unaligned_volatile_read##N)                                                                 \
    KCU_VOLATILE(unaligned_volatile_write##N)
KCU_ACCESSES(1)
KCU_ACCESSES(2)
KCU_ACCESSES(4)
KCU_ACCESSES(8)
KCU_ACCESSES(16)
KCU_HIDDEN void __tsan_read_range(const void *at, unsigned long) { kcu::access(at, kcu::PLAIN); }
KCU_HIDDEN void __tsan_write_range(const void *at, unsigned long) { kcu::access(at, kcu::PLAIN); }
KCU_HIDDEN void __tsan_init() {}
KCU_HIDDEN void __tsan_func_entry(void *) {}
KCU_HIDDEN void __tsan_func_exit() {}
KCU_HIDDEN void __tsan_vptr_update(void **, void *) {}
KCU_HIDDEN void __tsan_vptr_read(void **) {}
}
