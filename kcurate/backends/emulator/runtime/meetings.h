// What threads call to wait for each other: barriers, meetings of lanes, the grid's barrier.
#pragma once

#include "scheduler.h"
#include "stores.h"

namespace kcu
{

// Where a fault happened, for a person.
inline int locate(char *text, size_t room)
{
    const uint3 b = blockIdx, t = threadIdx;
    return snprintf(text, room, "thread (%u,%u,%u) of block (%u,%u,%u): ", t.x, t.y, t.z, b.x, b.y, b.z);
}

inline bool complete(Warp &warp, KcuMeet &meet)
{
    if (meet.mask & warp.alive & ~meet.arrived) return false;
    warp.open &= ~meet.bit;
    meet.readers = __builtin_popcount(meet.arrived);
    return true;
}

// A lane has ended: meetings that waited for it alone are complete.
void finish_meetings(Warp &warp)
{
    for (unsigned open = warp.open; open; open &= open - 1) {
        KcuMeet &meet = warp.meets[__builtin_ctz(open)];
        if (complete(warp, meet)) warp.ready |= meet.arrived;
    }
}

// The meeting that waits for this lane too, else a new one. (A lane is in one meeting at most, so there is
// room.)
inline KcuMeet *find_meeting(Warp &warp, unsigned mask, int kind)
{
    for (unsigned open = warp.open; open; open &= open - 1) {
        KcuMeet &meet = warp.meets[__builtin_ctz(open)];
        if (meet.mask == mask && meet.kind == kind) return &meet;
    }
    const int number = __builtin_ctz(~warp.busy);
    KcuMeet &meet = warp.meets[number];
    meet.mask = mask;
    meet.kind = kind;
    meet.arrived = 0;
    meet.busy = &warp.busy;
    meet.bit = 1u << number;
    warp.busy |= meet.bit;
    warp.open |= meet.bit;
    return &meet;
}

void report_deadlock(Block *block)
{
    const unsigned elsewhere = block->at_grid + block->at_named + block->at_cluster + block->at_mbarrier +
                               block->at_wgmma;
    const unsigned meeting = block->alive - block->waiting - elsewhere;
    snprintf(
        state->message, sizeof state->message,
        "deadlock in block (%u,%u,%u): of %u running threads %u wait at the __syncthreads of line %d, %u for "
        "lanes of their warp that do not come, %u for the grid, %u at named barriers, "
        "%u for their cluster, %u for an mbarrier whose phase does not end, "
        "%u at a wgmma for threads of their warp group",
        block->index.x, block->index.y, block->index.z, block->alive, block->waiting,
        block->waiting ? block->line : 0, meeting, block->at_grid, block->at_named, block->at_cluster,
        block->at_mbarrier, block->at_wgmma);
    state->fault = KCU_LAUNCH;
    siglongjmp(state->escape, 1);
}

// Release a cluster's barrier when all of its threads that run have arrived.
inline void release_cluster(Block *leader)
{
    unsigned alive = 0;
    for (unsigned i = 0; i < state->launch.cluster; i++) alive += leader->members[i]->alive;
    if (!leader->cluster_arrived || leader->cluster_arrived < alive) return;
    leader->cluster_arrived = 0;
    leader->cluster_generation++;
    for (unsigned i = 0; i < state->launch.cluster; i++) {
        Block *block = leader->members[i];
        block->at_cluster = 0;
        for (unsigned w = 0; w < block->warps; w++) {
            block->warp[w].ready |= block->warp[w].at_cluster;
            block->warp[w].at_cluster = 0;
        }
    }
}

// A thread has ended: the barrier of its cluster does not wait for it.
void leave_cluster(Block *block, Fiber *self)
{
    Block *leader = block->leader;
    if (self->cluster_arrival == leader->cluster_generation + 1) leader->cluster_arrived--;
    release_cluster(leader);
}

} // namespace kcu

extern "C" {

void kcu_cluster_arrive()
{
    using namespace kcu;
    Block *leader = state->block->leader;
    Fiber *self = state->fiber;
    if (self->cluster_arrival == leader->cluster_generation + 1)
        kcu_fault(KCU_LAUNCH, "a second arrival at the barrier of its cluster without a wait");
    self->cluster_arrival = leader->cluster_generation + 1;
    leader->cluster_arrived++;
    release_cluster(leader);
}

void kcu_cluster_wait()
{
    using namespace kcu;
    Block *block = state->block;
    Fiber *self = state->fiber;
    if (!self->cluster_arrival) kcu_fault(KCU_LAUNCH, "a wait at the barrier of its cluster without an arrival");
    const bool over = self->cluster_arrival != block->leader->cluster_generation + 1;
    if (!over) {
        block->at_cluster++;
        block->warp[self->warp].at_cluster |= 1u << self->lane;
        wait_for_turn();
    }
    self->cluster_arrival = 0;
}

void kcu_fault(int reason, const char *what)
{
    using namespace kcu;
    int used = locate(state->message, sizeof state->message);
    snprintf(state->message + used, sizeof state->message - used, "%s", what);
    state->fault = reason;
    siglongjmp(state->escape, 1);
}

int kcu_barrier(int line, int vote, int predicate)
{
    using namespace kcu;
    Block *block = state->block;
    Fiber *self = state->fiber;
    if (block->waiting == 0) {
        block->line = line;
        block->vote = vote;
        block->count_true = 0;
    } else if (block->line != line && block->line != KCU_ANY_LINE && line != KCU_ANY_LINE) {
        char text[120];
        snprintf(text, sizeof text,
                 "waits at the __syncthreads of line %d, others of its block at that of line %d", line,
                 block->line);
        kcu_fault(KCU_LAUNCH, text);
    }
    block->waiting++;
    block->count_true += predicate != 0;
    block->warp[self->warp].at_barrier |= 1u << self->lane;
    wait_for_turn();
    return block->result;
}

void kcu_named_barrier(unsigned number, unsigned count, bool wait)
{
    using namespace kcu;
    Block *block = state->block;
    Fiber *self = state->fiber;
    if (number >= NAMED_BARRIERS || count % 32) kcu_fault(KCU_LAUNCH, "a barrier number or count that does not exist");
    if (!block->named) block->named = reserve<Named>(NAMED_BARRIERS);
    if (!block->named) kcu_fault(KCU_LAUNCH, "not enough memory for named barriers");
    Named &named = block->named[number];
    if (!count) count = block->alive;
    if (named.arrived && named.count != count) kcu_fault(KCU_LAUNCH, "a named barrier with different counts");
    named.count = count;
    if (++named.arrived < count) {
        if (!wait) return;
        block->at_named++;
        named.waiting[self->warp] |= 1u << self->lane;
        wait_for_turn();
        return;
    }
    named.arrived = 0;
    state->releases++;
    for (unsigned i = 0; i < block->warps; i++) {
        block->at_named -= unsigned(__builtin_popcount(named.waiting[i]));
        block->warp[i].ready |= named.waiting[i];
        named.waiting[i] = 0;
    }
    block->forward = !block->forward;
}

KcuMeet *kcu_meet(unsigned mask, int kind, unsigned long long value)
{
    using namespace kcu;
    Fiber *self = state->fiber;
    Warp &warp = state->block->warp[self->warp];
    const unsigned own = 1u << self->lane;
    if (!(mask & own)) kcu_fault(KCU_LAUNCH, "a warp intrinsic whose mask lacks the lane that calls it");
    KcuMeet *meet = find_meeting(warp, mask, kind);
    if (kind != KCU_SYNC) self->busy = true;
    meet->arrived |= own;
    meet->value[self->lane] = value;
    if (complete(warp, *meet))
        warp.ready |= meet->arrived & ~own;
    else
        wait_for_turn();
    return meet;
}

unsigned kcu_converge(int place)
{
    using namespace kcu;
    Fiber *self = state->fiber;
    self->site = place;
    state->block->warp[self->warp].converging |= 1u << self->lane;
    wait_for_turn();
    return self->group;
}

void kcu_grid_sync(int line)
{
    using namespace kcu;
    Block *block = state->block;
    if (!state->launch.cooperative) kcu_fault(KCU_LAUNCH, "grid.sync() in a launch that is not cooperative");
    block->at_grid++;
    block->grid_line = line;
    block->warp[state->fiber->warp].at_grid |= 1u << state->fiber->lane;
    wait_for_turn();
}

int kcu_is_cooperative() { return kcu::state->launch.cooperative; }

void kcu_take_turn(const volatile void *place)
{
    kcu::take_turn(kcu::TELLING);
    if (place) kcu::ask(place);
}

void kcu_let_go(const volatile void *place, unsigned bytes)
{
    kcu::let_go(place);
    if (place) kcu::note_store(place, bytes);
}

void kcu_keep_back(const volatile void *place, unsigned bytes, bool always)
{
    kcu::keep_back(place, bytes, always);
    kcu::note_store(place, bytes);
}

void kcu_read_only(const volatile void *place, unsigned long bytes)
{
    if (kcu::has_stored(place, bytes))
        kcu_fault(KCU_LAUNCH, "a read-only load (__ldg, ld.global.nc) of what this launch has stored");
}

void kcu_yield()
{
    using namespace kcu;
    Block *block = state->block;
    block->yielded = true;
    block->warp[state->fiber->warp].yielded |= 1u << state->fiber->lane;
    wait_for_turn();
}

} // extern "C"
