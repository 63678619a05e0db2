// Stacks and the switch between them: what a fiber is made of. Not covered: which one runs (scheduler.h).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace kcu
{

const size_t PAGE = 4096;
// The lowest page of each stack is protected. Device code may hold arrays of tens of kilobytes.
const size_t STACK_BYTES = 128 << 10;
// With more threads alive at once than this (cooperative launches), stacks are smaller and unprotected:
// Linux allows a process 65530 mappings.
const unsigned MANY_STACKS = 16384;
const size_t SMALL_STACK_BYTES = 32 << 10;

#if defined(__x86_64__)
extern "C" void kcu_switch(void **save, void *load) asm("kcu_switch");
asm(R"(
.text
.local kcu_switch
.type kcu_switch, @function
kcu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size kcu_switch, .-kcu_switch
)");
// What a new stack looks like to kcu_switch: six registers, the function to return into, and an odd word that
// keeps the stack as aligned as after a call.
inline void *new_context(char *stack, size_t size, void (*run)())
{
    void **top = reinterpret_cast<void **>(stack + size);
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(run);
    for (int i = 0; i < 6; i++) *--top = nullptr;
    return top;
}
#elif defined(__aarch64__)
extern "C" void kcu_switch(void **save, void *load) asm("kcu_switch");
asm(R"(
.text
.local kcu_switch
.type kcu_switch, %function
kcu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size kcu_switch, .-kcu_switch
)");
inline void *new_context(char *stack, size_t size, void (*run)())
{
    void **top = reinterpret_cast<void **>(stack + size - 160);
    for (int i = 0; i < 20; i++) top[i] = nullptr;
    top[11] = reinterpret_cast<void *>(run);
    return top;
}
#else
// Anywhere else: the C library's contexts, kept at the top of each stack; slower, the same meaning.
inline void kcu_switch(void **save, void *load)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t *>(load));
}
inline void *new_context(char *stack, size_t size, void (*run)())
{
    size_t room = (sizeof(ucontext_t) + 63) / 64 * 64;
    ucontext_t *context = reinterpret_cast<ucontext_t *>(stack + size - room);
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = size - room;
    context->uc_link = nullptr;
    makecontext(context, run, 0);
    return context;
}
#endif

// A pool of stacks of one size: one mapping that grows in use only, and a list of those that are free.
struct Stacks {
    char *base;
    size_t size;
    unsigned count, fresh, idle;
    char **list;

    bool open(unsigned wanted)
    {
        size = wanted > MANY_STACKS ? SMALL_STACK_BYTES : STACK_BYTES;
        count = wanted;
        fresh = idle = 0;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *memory = mmap(nullptr, size * count, PROT_READ | PROT_WRITE, flags, -1, 0);
        void *names = mmap(nullptr, sizeof(char *) * count, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED || names == MAP_FAILED) return false;
        base = static_cast<char *>(memory);
        list = static_cast<char **>(names);
        return true;
    }

    void close()
    {
        munmap(base, size * count);
        munmap(list, sizeof(char *) * count);
    }

    char *take()
    {
        if (idle) return list[--idle];
        char *stack = base + size * fresh++;
        if (size == STACK_BYTES) mprotect(stack, PAGE, PROT_NONE);
        return stack;
    }

    // How much of a stack to use: tops at the same place of every page would share a few sets of the caches.
    size_t room(const char *stack) const { return size - (stack - base) / size * 9 * 64 % 8192; }

    void give(char *stack) { list[idle++] = stack; }

    // True when an address lies in the protected page of a stack.
    bool overflowed(const void *address) const
    {
        const char *place = static_cast<const char *>(address);
        return size == STACK_BYTES && place >= base && place < base + size * count &&
               size_t(place - base) % size < PAGE;
    }
};

} // namespace kcu
