// Which thread runs: lanes of a warp in turn until none can go on, warps in turn until the block is done.
//
// The order turns around at every barrier, from block to block and from launch to launch, so that code which
// lacks a barrier gives different answers. With a schedule (`kcu_schedule`), the order is random instead, and in
// sides compiled with `toolchain.TURNS` a thread may lose its turn at any access to memory.
// Not covered: what threads tell each other (meetings.h).
#pragma once

#include "state.h"

namespace kcu
{

// A random number of 32 bits (xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators").
inline unsigned roll()
{
    unsigned long long &dice = state->schedule.dice;
    dice ^= dice >> 12;
    dice ^= dice << 25;
    dice ^= dice >> 27;
    return unsigned(dice * 0x2545F4914F6CDD1Dull >> 32);
}

// By chance, whether to go on elsewhere: with a warp's other lanes, another warp, another block.
inline bool turn_over(unsigned one_in) { return state->schedule.on && roll() % one_in == 0; }

// Whether to go on with another warp or another block now.
inline bool leaves(const Block *block) { return block->behind || turn_over(4); }

// What an access counts. Of atomics, fences and what is volatile others may be waiting, or watching.
const unsigned PLAIN = 1, TELLING = 64;

// Accesses until a thread loses its turn: 1 to 1024, short turns as likely as long ones.
inline unsigned next_turn() { return 1 + (roll() & ((2u << roll() % 10) - 1)); }

// Whether the last question changed what it asked about.
inline void look_back()
{
    Schedule &schedule = state->schedule;
    if (schedule.watched && *schedule.watched != schedule.value) schedule.changes++;
    schedule.watched = nullptr;
}

// The running thread asks what a place holds, and may change it: by an atomic, or a volatile read.
inline void ask(const volatile void *place)
{
    Schedule &schedule = state->schedule;
    if (!schedule.crowded) return;
    look_back();
    if (state->fiber->asked == place) {
        state->block->questions++;
        schedule.watched = reinterpret_cast<unsigned long *>(reinterpret_cast<uintptr_t>(place) & ~7ul);
        schedule.value = *schedule.watched;
    } else {
        state->fiber->asked = place;
        schedule.changes++;
    }
}

inline int pick(unsigned lanes, bool forward)
{
    if (state->schedule.on) {
        for (unsigned skipped = roll() % unsigned(__builtin_popcount(lanes)); skipped; skipped--) lanes &= lanes - 1;
        return __builtin_ctz(lanes);
    }
    return forward ? __builtin_ctz(lanes) : 31 - __builtin_clz(lanes);
}

inline void become(Fiber *fiber)
{
    state->fiber = fiber;
    threadIdx = fiber->index;
    kcu_lane = fiber->lane;
    kcu_patience = state->counting.patience = PATIENCE;
}

// The lane of a warp that runs next, ready to be switched to; there is one.
inline Fiber *next_lane(Block *block, Warp &warp, unsigned number);

// Stop the running thread until it is picked again; another lane of its warp goes on, else the scheduler.
inline void wait_for_turn()
{
    Fiber *self = state->fiber;
    Block *block = state->block;
    Warp &warp = block->warp[self->warp];
    if (!(warp.fresh | warp.ready) || leaves(block)) {
        kcu_switch(&self->place, state->scheduler);
        return;
    }
    Fiber *next = next_lane(block, warp, self->warp);
    if (next != self) kcu_switch(&self->place, next->place);
}

// The running thread may lose its turn to any other; `worth` accesses have passed. A block whose thread loses it right
// behind an atomic often stays behind, so that the others find what it has told them and no more. Several do: the first may have
// told nothing that matters.
inline void take_turn(unsigned worth)
{
    Schedule &schedule = state->schedule;
    if (!schedule.on || schedule.held) return;
    if (worth > PLAIN && turn_over(2)) { // not before it, but right behind it
        schedule.told = state->block;
        schedule.until = PLAIN;
        return;
    }
    if (schedule.until > worth) {
        schedule.until -= worth;
        return;
    }
    schedule.until = next_turn();
    if (schedule.told && turn_over(2)) schedule.told->behind = true;
    schedule.told = nullptr;
    state->block->warp[state->fiber->warp].ready |= 1u << state->fiber->lane;
    wait_for_turn();
}

void finish_meetings(Warp &warp);
void leave_cluster(Block *block, Fiber *self);
void finish_copies(Copies &copies, unsigned batches_left);

template <class T> inline void raise_to(T &most, T value)
{
    if (value > most) most = value;
}

// A thread has ended.
inline void count_thread(Fiber *fiber)
{
    Block *block = state->block;
    state->counting.launch.threads++;
    state->counting.launch.idle += !fiber->busy;
    raise_to(block->chain, fiber->chain);
    raise_to(block->chain_accesses, fiber->chain_accesses);
    raise_to(block->warp[fiber->warp].code, fiber->code);
    fiber->busy = false;
    fiber->code = fiber->accesses = fiber->chain = fiber->chain_accesses = 0;
}

// Threads that have met waited for the last of them.
inline void count_barrier(Block *block)
{
    unsigned long chain = 0, accesses = 0;
    for (unsigned i = 0; i < block->count; i++) {
        raise_to(chain, block->fibers[i].chain);
        raise_to(accesses, block->fibers[i].chain_accesses);
    }
    for (unsigned i = 0; i < block->count; i++) {
        block->fibers[i].chain = chain;
        block->fibers[i].chain_accesses = accesses;
    }
}

// Run threads that have not begun, one after the other on this stack, as long as none of them waits.
inline void run_threads()
{
    for (;;) {
        state->launch.entry->invoke(state->launch.args);
        Fiber *self = state->fiber;
        if (state->counting.on) count_thread(self);
        if (self->copies.first) finish_copies(self->copies, ALL_COPIES);
        if (self->bulk.first) finish_copies(self->bulk, ALL_COPIES);
        Block *block = state->block;
        Warp &warp = block->warp[self->warp];
        warp.alive &= ~(1u << self->lane);
        block->alive--;
        if (warp.open) finish_meetings(warp);
        if (block->leader->cluster_arrived) leave_cluster(block, self);
        char *stack = self->stack;
        self->stack = nullptr;
        if (warp.fresh) {
            int lane = pick(warp.fresh, block->forward);
            warp.fresh &= ~(1u << lane);
            Fiber *next = block->fibers + self->warp * 32 + lane;
            next->stack = stack;
            become(next);
            continue;
        }
        state->stacks.give(stack);
        wait_for_turn(); // and never come back: the stack is free
    }
}

inline Fiber *next_lane(Block *block, Warp &warp, unsigned number)
{
    const int lane = pick(warp.fresh | warp.ready, block->forward);
    Fiber *fiber = block->fibers + number * 32 + lane;
    if (warp.fresh >> lane & 1) {
        fiber->stack = state->stacks.take();
        fiber->place = new_context(fiber->stack, state->stacks.room(fiber->stack), run_threads);
    }
    warp.fresh &= ~(1u << lane);
    warp.ready &= ~(1u << lane);
    become(fiber);
    return fiber;
}

// No lane of the warp can go on but those that ask who is with them: tell those at one place in the source.
inline void release_converged(Block *block, Warp &warp, unsigned number)
{
    Fiber *fibers = block->fibers + number * 32;
    int site = fibers[pick(warp.converging, true)].site;
    unsigned group = 0;
    for (unsigned lanes = warp.converging; lanes; lanes &= lanes - 1) {
        int lane = __builtin_ctz(lanes);
        if (fibers[lane].site == site) group |= 1u << lane;
    }
    const bool split = site < 0 && group & (group + 1); // not the first lanes, which a guard of a tail leaves
    if (split && turn_over(2)) group = (group & roll()) ?: group & -group;
    for (unsigned lanes = group; lanes; lanes &= lanes - 1) fibers[__builtin_ctz(lanes)].group = group;
    warp.converging &= ~group;
    warp.ready |= group;
}

// Run a warp until none of its lanes can go on. True when any ran.
inline bool run_warp(Block *block, unsigned number)
{
    Warp &warp = block->warp[number];
    bool ran = false;
    warp.ready |= warp.yielded;
    warp.yielded = 0;
    for (;;) {
        while (warp.fresh | warp.ready) {
            kcu_switch(&state->scheduler, next_lane(block, warp, number)->place);
            ran = true;
            state->runs++;
            if (leaves(block)) return true;
        }
        if (!warp.converging) return ran;
        release_converged(block, warp, number);
    }
}

inline void release_barrier(Block *block)
{
    const unsigned alive = block->alive;
    const int votes[] = {0, block->count_true, block->count_true == int(alive), block->count_true != 0};
    block->result = votes[block->vote];
    for (unsigned i = 0; i < block->warps; i++) {
        Warp &warp = block->warp[i];
        warp.ready |= warp.at_barrier;
        warp.at_barrier = 0;
    }
    block->waiting = 0;
    block->forward = !block->forward;
    if (state->counting.on) count_barrier(block);
}

enum Outcome { FINISHED, AT_GRID, AT_CLUSTER, SPINNING };

[[noreturn]] void report_deadlock(Block *block);

// Whether every thread that could go on waits for an mbarrier in the block's own memory, which no other block
// reaches.
inline bool all_at_mbarriers(const Block *block)
{
    unsigned yielded = 0;
    for (unsigned i = 0; i < block->warps; i++) {
        if (block->warp[i].fresh | block->warp[i].ready) return false;
        yielded += unsigned(__builtin_popcount(block->warp[i].yielded));
    }
    return block->at_mbarrier == yielded && state->launch.cluster == 1;
}

// Run a block until it is done, waits for the grid, or only has threads that spin.
inline Outcome run_block(Block *block)
{
    for (int idle = 0;;) {
        bool ran = false;
        block->yielded = false;
        const unsigned alive = block->alive, waiting = block->waiting;
        const unsigned long releases = state->releases;
        for (unsigned left = ~0u >> (32 - block->warps); left;) {
            const int number = pick(left, block->forward);
            left &= ~(1u << number);
            ran |= run_warp(block, unsigned(number));
        }
        if (block->alive == 0) return FINISHED;
        if (block->waiting == block->alive) {
            release_barrier(block);
            idle = 0;
        } else if (block->at_grid == block->alive) {
            return AT_GRID;
        } else if (!ran && block->at_cluster && state->launch.cluster > 1) {
            return AT_CLUSTER;
        } else if (!ran) {
            report_deadlock(block);
        } else if (block->yielded && alive == block->alive && waiting == block->waiting &&
                   releases == state->releases) {
            if (++idle <= 2) continue;
            if (all_at_mbarriers(block)) report_deadlock(block);
            return SPINNING;
        } else {
            idle = 0;
        }
        if (leaves(block)) return SPINNING;
    }
}

} // namespace kcu
