// Asynchronous copies (cp.async, cp.async.bulk) and the mbarriers that they arrive at: a copy is done when it is
// waited for, so that code which does not wait finds nothing. What a bulk copy will write is poisoned when it is
// ordered, so that neither does code that still reads what was there.
// Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy", "mbarrier".
#pragma once

#include "boxes.h"
#include "tiles_in_use.h"

namespace kcu
{

inline void recycle(Copy *copy)
{
    drop_box(copy->box);
    copy->next = state->free_copies;
    state->free_copies = copy;
}

inline void do_copy(Copies &copies, Copy *copy, Copy *before)
{
    if (copy->box) {
        move_box(*copy->box, static_cast<char *>(copy->to));
    } else {
        const unsigned taken = copy->bytes - copy->zeros;
        reach(copy->from, taken);
        reach(copy->to, taken);
        shared_is_read(copy->from, taken);
        note_store(copy->to, taken);
        memcpy(copy->to, copy->from, taken);
        memset(static_cast<char *>(copy->to) + taken, 0, copy->zeros);
    }
    (before ? before->next : copies.first) = copy->next;
    if (copies.last == copy) copies.last = before;
    recycle(copy);
}

// Do what was ordered, but for the latest `batches_left` batches. Not yet committed copies stay unless
// `batches_left` is ALL_COPIES.
void finish_copies(Copies &copies, unsigned batches_left)
{
    const bool all = batches_left == ALL_COPIES;
    const unsigned upto = copies.batches > batches_left ? copies.batches - batches_left : 0;
    while (Copy *copy = copies.first) {
        if (!all && (copy->batch == 0 || copy->batch > upto)) return;
        do_copy(copies, copy, nullptr);
    }
}

inline void drop_copies(Copies &copies)
{
    while (Copy *copy = copies.first) {
        copies.first = copy->next;
        recycle(copy);
    }
    copies = Copies{};
}

inline void order(Copies &copies, const Copy &wanted)
{
    if (!wanted.box || wanted.box->loads) check_target(state->block, wanted.to, wanted.bytes);
    Copy *copy = state->free_copies;
    if (copy)
        state->free_copies = copy->next;
    else if (state->used_copies < MAX_COPIES)
        copy = state->copies + state->used_copies++;
    else
        kcu_fault(KCU_LAUNCH, "too many asynchronous copies at once");
    *copy = wanted;
    (copies.first ? copies.last->next : copies.first) = copy;
    copies.last = copy;
}

inline void commit(Copies &copies)
{
    copies.batches++;
    for (Copy *copy = copies.first; copy; copy = copy->next)
        if (!copy->batch) copy->batch = copies.batches;
}

// An mbarrier's 64 bits: arrivals of each phase, those still to come in this one, bytes still to come (with a
// sign), the phase's parity, and a mark of one that was initialised.
struct Bits {
    unsigned long long expected : 20, pending : 20;
    long long bytes : 22;
    unsigned long long parity : 1, valid : 1;
};
static_assert(sizeof(Bits) == 8, "an mbarrier has 64 bits");

inline Bits &valid_barrier(unsigned long long *place)
{
    Bits &barrier = *reinterpret_cast<Bits *>(place);
    const unsigned most = (1u << 20) - 1; // what poison looks like
    if (!barrier.valid || !barrier.expected || barrier.expected == most || barrier.pending > barrier.expected)
        kcu_fault(KCU_LAUNCH, "an mbarrier that was not initialised");
    return barrier;
}

inline bool is_own_shared(const void *place)
{
    return to_shared(static_cast<const char *>(place)) < RANK_WINDOW;
}

inline void advance(Bits &barrier)
{
    if (barrier.pending || barrier.bytes) return;
    barrier.parity ^= 1;
    state->releases++;
    state->block->forward = !state->block->forward;
    barrier.pending = barrier.expected;
}

// Bytes have arrived in another block's memory.
inline void complete_bytes(unsigned long long *place, unsigned bytes)
{
    Bits &barrier = valid_barrier(place);
    barrier.bytes -= bytes;
    advance(barrier);
}

} // namespace kcu

extern "C" {

// Neither end of a copy goes past its memory; `taken` bytes are read.
void kcu_check_copy(const void *to, const void *from, unsigned long bytes, unsigned long taken)
{
    using namespace kcu;
    const void *const ends[] = {to, from};
    const size_t sizes[] = {bytes, taken};
    for (int i = 0; i < 2; i++) {
        check_global(ends[i], sizes[i]);
        if (to_shared(static_cast<const char *>(ends[i])) != ~0ull) check_shared(ends[i], sizes[i]);
    }
}

void kcu_copy_later(void *to, const void *from, unsigned bytes, unsigned zeros)
{
    using namespace kcu;
    const uintptr_t places = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
        kcu_fault(KCU_LAUNCH, "an asynchronous copy takes 4, 8 or 16 bytes");
    if (places % bytes)
        kcu_fault(KCU_LAUNCH, "an asynchronous copy whose addresses are not aligned to its size");
    kcu_check_copy(to, from, bytes, bytes - zeros);
    state->fiber->busy = true;
    order(state->fiber->copies, Copy{nullptr, to, from, bytes, zeros, 0, nullptr, nullptr});
}

void kcu_commit_copies() { kcu::commit(kcu::state->fiber->copies); }

void kcu_finish_copies(unsigned batches_left) { kcu::finish_copies(kcu::state->fiber->copies, batches_left); }

void kcu_bulk_later(void *to, const void *from, unsigned bytes, unsigned long long *barrier)
{
    using namespace kcu;
    const uintptr_t places = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
    if (places % 16 || bytes % 16) kcu_fault(KCU_LAUNCH, "a bulk copy that is not aligned to 16 bytes");
    kcu_check_copy(to, from, bytes, bytes);
    check_shared(barrier ? to : from, bytes);
    state->fiber->busy = true;
    const char *place = reinterpret_cast<const char *>(barrier);
    if (barrier && find_rank(place)) { // of another block, whose memory is elsewhere when it asks
        check_remote_target(static_cast<const char *>(to), bytes);
        reach(from, bytes);
        memcpy(to, from, bytes);
        complete_bytes(barrier, bytes);
        return;
    }
    if (barrier) {
        valid_barrier(barrier);
        memset(to, state->launch.poison, bytes);
    }
    order(barrier ? state->block->arriving : state->fiber->bulk, Copy{nullptr, to, from, bytes, 0, 0, barrier, nullptr});
}

void kcu_box_load(char *to, const void *map, const int *at, unsigned rank, unsigned long long *barrier)
{
    using namespace kcu;
    Box *box = new_box(map, at, rank);
    box->loads = true;
    const unsigned bytes = unsigned(box_bytes(box->map));
    const char *place = reinterpret_cast<const char *>(barrier);
    const unsigned other = find_rank(place);
    if (check_box(*box, to) != other) kcu_fault(KCU_LAUNCH, "a box in the memory of a block, its mbarrier in another's");
    state->fiber->busy = true;
    if (other) {
        check_remote_target(to, unsigned(room_bytes(box->map)));
        move_box(*box, to);
        drop_box(box);
        complete_bytes(barrier, bytes);
        return;
    }
    valid_barrier(barrier);
    poison_box(box->map, to, state->launch.poison);
    order(state->block->arriving, Copy{nullptr, to, nullptr, bytes, 0, 0, barrier, box});
}

void kcu_box_store(const void *map, const int *at, unsigned rank, const char *from, KcuCombine combine)
{
    using namespace kcu;
    Box *box = new_box(map, at, rank);
    box->combine = combine;
    if (check_box(*box, from)) kcu_fault(KCU_LAUNCH, "a box stored from the memory of another block");
    state->fiber->busy = true;
    order(state->fiber->bulk, Copy{nullptr, const_cast<char *>(from), nullptr, unsigned(box_bytes(box->map)), 0, 0, nullptr, box});
}

void kcu_commit_bulk() { kcu::commit(kcu::state->fiber->bulk); }

void kcu_finish_bulk(unsigned batches_left) { kcu::finish_copies(kcu::state->fiber->bulk, batches_left); }

void kcu_mbarrier_init(unsigned long long *place, unsigned count)
{
    using namespace kcu;
    if (count == 0 || count >= (1u << 20) - 1) kcu_fault(KCU_LAUNCH, "an mbarrier for a count that it cannot hold");
    Bits barrier = {};
    barrier.expected = barrier.pending = count;
    barrier.valid = 1;
    memcpy(place, &barrier, sizeof barrier);
}

unsigned long long kcu_mbarrier_arrive(unsigned long long *place, unsigned count, int bytes, bool drop)
{
    using namespace kcu;
    kcu_spin();
    Bits &barrier = valid_barrier(place);
    if (barrier.pending < count) kcu_mbarrier_parity(place); // ends a phase whose copies are all that it lacks
    const unsigned long long before = (unsigned long long)barrier.parity << 62;
    if (barrier.pending < count) kcu_fault(KCU_LAUNCH, "more arrivals at an mbarrier than it was initialised for");
    barrier.bytes += bytes;
    if (drop && barrier.expected > 1) barrier.expected -= 1;
    barrier.pending -= count;
    advance(barrier);
    return before;
}

// The parity of the phase that a barrier is in, after the copies to it that are on their way.
unsigned kcu_mbarrier_parity(unsigned long long *place)
{
    using namespace kcu;
    Bits &barrier = valid_barrier(place);
    Copies &arriving = state->block->arriving;
    Copy *before = nullptr;
    for (Copy *copy = arriving.first, *next; copy; copy = next) {
        next = copy->next;
        if (copy->barrier != place) {
            before = copy;
            continue;
        }
        barrier.bytes -= copy->bytes;
        do_copy(arriving, copy, before);
        advance(barrier);
    }
    return barrier.parity;
}

void kcu_mbarrier_wait(unsigned long long *place, unsigned parity)
{
    using namespace kcu;
    const unsigned own = is_own_shared(place);
    kcu_spin();
    while (kcu_mbarrier_parity(place) == parity) {
        state->block->at_mbarrier += own;
        kcu_yield();
        state->block->at_mbarrier -= own;
    }
}

void kcu_copy_to_mbarrier(void *to, const void *from, unsigned bytes, unsigned long long *place)
{
    using namespace kcu;
    kcu_check_copy(to, from, bytes, bytes);
    state->fiber->busy = true;
    Copy copy = {nullptr, to, from, bytes, 0, 0, place};
    valid_barrier(place).bytes += bytes;
    order(state->block->arriving, copy);
}

void *kcu_map_shared(const void *pointer, unsigned rank)
{
    const char *place = static_cast<const char *>(pointer);
    kcu::find_rank(place);
    return kcu::map_shared(const_cast<char *>(place), rank);
}

unsigned kcu_shared_rank(unsigned long long address)
{
    const unsigned rank = unsigned(address / kcu::RANK_WINDOW);
    return rank ? rank - 1 : kcu::state->block->rank;
}

unsigned long long kcu_to_shared(const void *pointer) { return kcu::to_shared(static_cast<const char *>(pointer)); }

char *kcu_from_shared(unsigned long long address)
{
    char *place = kcu::from_shared(address);
    if (!place) kcu_fault(KCU_BOUNDS, "an address outside shared memory");
    return place;
}

} // extern "C"
