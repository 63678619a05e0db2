// Asynchronous copies (cp.async): ordered, committed in batches, done when they are waited for.
// Source: PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy".
#pragma once

#include "scheduler.h"

namespace kcu
{

// Do what a thread has ordered, but for its latest `batches_left` batches. Not yet committed copies stay
// unless `batches_left` is ALL_COPIES.
void finish_copies(Fiber *fiber, unsigned batches_left)
{
    const bool all = batches_left == ALL_COPIES;
    const unsigned upto = fiber->batches > batches_left ? fiber->batches - batches_left : 0;
    while (Copy *copy = fiber->copies) {
        if (!all && (copy->batch == 0 || copy->batch > upto)) return;
        const unsigned taken = copy->bytes - copy->zeros;
        memcpy(copy->to, copy->from, taken);
        memset(static_cast<char *>(copy->to) + taken, 0, copy->zeros);
        fiber->copies = copy->next;
        copy->next = state->free_copies;
        state->free_copies = copy;
    }
    fiber->last_copy = nullptr;
}

} // namespace kcu

extern "C" {

void kcu_copy_later(void *to, const void *from, unsigned bytes, unsigned zeros)
{
    using namespace kcu;
    const uintptr_t places = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
        kcu_fault(KCU_LAUNCH, "an asynchronous copy takes 4, 8 or 16 bytes");
    if (places % bytes)
        kcu_fault(KCU_LAUNCH, "an asynchronous copy whose addresses are not aligned to its size");
    Copy *copy = state->free_copies;
    if (copy)
        state->free_copies = copy->next;
    else if (state->used_copies < MAX_COPIES)
        copy = state->copies + state->used_copies++;
    else
        kcu_fault(KCU_LAUNCH, "too many asynchronous copies at once");
    *copy = Copy{nullptr, to, from, bytes, zeros, 0};
    Fiber *fiber = state->fiber;
    (fiber->copies ? fiber->last_copy->next : fiber->copies) = copy;
    fiber->last_copy = copy;
}

void kcu_commit_copies()
{
    using namespace kcu;
    Fiber *fiber = state->fiber;
    fiber->batches++;
    for (Copy *copy = fiber->copies; copy; copy = copy->next)
        if (!copy->batch) copy->batch = fiber->batches;
}

void kcu_finish_copies(unsigned batches_left) { kcu::finish_copies(kcu::state->fiber, batches_left); }

} // extern "C"
