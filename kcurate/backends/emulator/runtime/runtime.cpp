// The emulator's runtime, linked into every compiled side: launches, and what the device calls (`kcu_*` with
// default visibility). One launch at a time; blocks run one after the other unless they wait for each other.
// After a fault the process has to end: stacks and blocks are left as they were.

#define KCU_RUNTIME
#include "copies.h"
#include "counting.h"
#include "turns.h"
#include "faults.h"
#include "image.h"
#include "warpgroup.h"

extern "C" {
uint3 threadIdx, blockIdx, kcu_cluster_index;
dim3 kcu_cluster_dim;
dim3 blockDim, gridDim;
unsigned kcu_lane, kcu_patience, kcu_ablated[32];
char *kcu_dynamic;
unsigned long kcu_dynamic_bytes;
}

namespace kcu
{

State *state;

static uint3 place_in(unsigned long number, const dim3 &extent)
{
    const unsigned long row = number / extent.x;
    return uint3{unsigned(number % extent.x), unsigned(row % extent.y), unsigned(row / extent.y)};
}

static Block *new_block(unsigned long number)
{
    State &s = *state;
    Launch &launch = s.launch;
    Block *block = nullptr;
    for (unsigned i = 0; i < launch.slots && !block; i++)
        if (!s.blocks[i].running) block = s.blocks + i;
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    if (!block) {
        block = s.blocks + launch.slots++;
        block->count = threads;
        block->warps = (threads + 31) / 32;
        block->fibers = reserve<Fiber>(block->warps * 32);
        block->warp = reserve<Warp>(block->warps);
        if (!block->fibers || !block->warp) kcu_fault(KCU_LAUNCH, "not enough memory for so many threads");
        for (unsigned i = 0; i < block->warps * 32; i++) {
            Fiber &fiber = block->fibers[i];
            fiber.index = uint3{i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
            fiber.lane = i % 32;
            fiber.warp = i / 32;
        }
    }
    for (unsigned i = 0; i < block->warps; i++) {
        const unsigned lanes = threads - i * 32;
        Warp &warp = block->warp[i];
        warp.fresh = warp.alive = lanes >= 32 ? ~0u : (1u << lanes) - 1;
        warp.ready = warp.at_barrier = warp.at_grid = warp.at_cluster = warp.converging = warp.yielded = 0;
        warp.busy = warp.open = 0;
    }
    block->rank = unsigned(number % launch.cluster);
    const uint3 inside = place_in(block->rank, kcu_cluster_dim);
    const dim3 &c = kcu_cluster_dim, clusters(gridDim.x / c.x, gridDim.y / c.y, gridDim.z / c.z);
    const uint3 outside = place_in(number / launch.cluster, clusters);
    block->index = uint3{outside.x * c.x + inside.x, outside.y * c.y + inside.y, outside.z * c.z + inside.z};
    block->leader = block;
    block->members[0] = block;
    block->cluster_arrived = block->cluster_generation = block->at_cluster = 0;
    block->fresh = true;
    for (unsigned i = 0; i < threads; i++) block->fibers[i].cluster_arrival = 0;
    block->alive = threads;
    block->waiting = block->at_grid = block->at_named = block->at_mbarrier = block->at_wgmma = 0;
    forget_tiles(block);
    if (block->named) memset(block->named, 0, sizeof(Named) * NAMED_BARRIERS);
    block->forward = (number + (launch.dice >> 31)) % 2 == 0;
    block->questions = block->quiet = 0;
    block->behind = false;
    block->late = state->schedule.on && launch.cluster == 1 && launch.total > 1 && !turn_over(4);
    block->running = true;
    launch.resident++;
    return block;
}

static void release_grid()
{
    Launch &launch = state->launch;
    all_arrive();
    for (unsigned i = 0; i < launch.slots; i++) {
        Block *block = state->blocks + i;
        if (!block->running) continue;
        block->at_grid = 0;
        for (unsigned w = 0; w < block->warps; w++) {
            block->warp[w].ready |= block->warp[w].at_grid;
            block->warp[w].at_grid = 0;
        }
    }
}

// Let one block run until it is done or has to wait for others.
static Outcome turn(Block *block)
{
    Launch &launch = state->launch;
    state->block = block;
    blockIdx = block->index;
    kcu_cluster_index = place_in(block->rank, kcu_cluster_dim);
    if (block->fresh)
        poison_shared();
    else
        restore_shared(block);
    block->fresh = block->behind = false;
    exchange_stores(block);
    const Outcome outcome = run_block(block);
    look_back();
    if (state->schedule.on) some_arrive(block);
    exchange_stores(block);
    if (outcome == FINISHED) {
        come_late(block);
        block->running = false;
        launch.resident--;
        launch.done++;
        count_block(block);
        drop_image(block);
        drop_copies(block->arriving);
    } else {
        save_shared(block);
    }
    return outcome;
}

static bool at_grid(const Block *block) { return block->running && block->at_grid == block->alive; }

static void run_blocks(unsigned most)
{
    Launch &launch = state->launch;
    while (launch.done < launch.total) {
        bool waits = true;
        for (unsigned i = 0; i < launch.slots; i++) {
            Block *block = state->blocks + i;
            if (block->running && !at_grid(block)) waits &= turn(block) == AT_GRID;
        }
        do {
            if (launch.next == launch.total || launch.resident >= most) break;
            waits &= turn(new_block(block_number(launch.next++))) == AT_GRID;
        } while (launch.cooperative);
        if (waits && launch.resident && launch.next == launch.total) release_grid();
    }
}

// A number of steps that leads through all blocks.
static unsigned long random_stride(unsigned long total)
{
    for (;;) {
        const unsigned long stride = 1 + roll() % total;
        unsigned long a = stride, b = total;
        while (b) {
            const unsigned long rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return stride;
    }
}

// Where a GPU cannot hold all blocks: whether all that have begun only ask again, so wait for those that have not.
const unsigned QUIET_TURNS = 500;
static void find_starved(Block *ran, unsigned long changes)
{
    Launch &launch = state->launch;
    const bool quiet = changes == state->schedule.changes, asks = ran->questions;
    ran->questions = 0;
    if (quiet && !asks) return;
    ran->quiet = quiet ? ran->quiet + 1 : 0;
    bool starved = quiet && launch.next < launch.total;
    for (Block *block = state->blocks, *end = block + launch.slots; block < end; block++) {
        if (!quiet) block->quiet = 0;
        starved &= !block->running || block->quiet >= QUIET_TURNS;
    }
    if (!starved) return;
    if (all_arrive()) { // which they may be waiting for
        ran->quiet = 0;
        return;
    }
    snprintf(state->message, sizeof state->message,
             "its blocks wait for blocks that have not begun (%lu of %lu have): a GPU cannot hold all blocks of this "
             "kernel at once, and they begin in any order",
             launch.next, launch.total);
    state->fault = KCU_LAUNCH;
    siglongjmp(state->escape, 1);
}

// Several blocks at a time, which take random turns. They begin in their order as on a GPU; where a GPU cannot hold
// all of them, in any order and fewer at a time.
static void run_blocks_by_chance(unsigned most)
{
    Launch &launch = state->launch;
    const bool crowded = state->schedule.crowded >> ((launch.entry - kcu_entries) % 64) & 1;
    const unsigned long stride = crowded ? random_stride(launch.total) : 1, first = crowded ? roll() % launch.total : 0;
    if (crowded) most = 1 + unsigned(roll() % (launch.total / 2 + 1 < most ? launch.total / 2 + 1 : most));
    while (launch.done < launch.total) {
        while (launch.next < launch.total && launch.resident < most)
            new_block(block_number((launch.next++ * stride + first) % launch.total));
        const bool forgiven = turn_over(2048); // others may be waiting for those that stay behind
        Block *chosen = nullptr;
        for (bool behind = false;; behind = true) { // which run only where no other can
            unsigned able = 0;
            for (Block *block = state->blocks, *end = block + launch.slots; block < end; block++) {
                block->behind &= !forgiven;
                if (block->running && !at_grid(block) && block->behind == behind && roll() % ++able == 0) chosen = block;
            }
            if (chosen || behind) break;
        }
        const unsigned long changes = state->schedule.changes;
        if (chosen && turn(chosen) != FINISHED && crowded)
            find_starved(chosen, changes);
        else if (!chosen)
            release_grid();
    }
    all_arrive();
}

// The blocks of a cluster in turn, one cluster after the other.
static void run_clusters()
{
    Launch &launch = state->launch;
    while (launch.done < launch.total) {
        Block *members[MAX_CLUSTER];
        for (unsigned i = 0; i < launch.cluster; i++) {
            members[i] = new_block(launch.next++);
            members[i]->leader = members[0];
            members[0]->members[i] = members[i];
        }
        for (bool over = false; !over;) {
            const unsigned long runs = state->runs;
            const bool forward = members[0]->forward; // which a block's turn changes
            over = true;
            for (unsigned i = 0; i < launch.cluster; i++) {
                Block *block = members[forward ? i : launch.cluster - 1 - i];
                if (block->running && turn(block) != FINISHED) over = false;
            }
            if (runs != state->runs || over) continue;
            for (unsigned i = 0; i < launch.cluster; i++)
                if (members[i]->running) report_deadlock(members[i]);
        }
    }
}

static void free_blocks()
{
    Launch &launch = state->launch;
    for (unsigned i = 0; i < launch.slots; i++) {
        give_back(state->blocks[i].fibers, state->blocks[i].warps * 32);
        give_back(state->blocks[i].warp, state->blocks[i].warps);
        if (state->blocks[i].named) give_back(state->blocks[i].named, NAMED_BARRIERS);
        give_back(state->blocks[i].stores, 1);
        give_back(state->blocks[i].groups, (state->blocks[i].warps + 3) / 4);
    }
    memset(state->blocks, 0, sizeof(Block) * launch.slots);
}

// Room for dynamic shared memory between its guards, aligned so that the low bits of a pointer are those of the
// shared address (some code makes matrix descriptors of pointers).
static char *reserve_shared()
{
    const size_t size = SHARED_ROOM + 2 * SHARED_GUARD;
    char *whole = reserve<char>(size + DESCRIBED_BYTES);
    if (!whole) return nullptr;
    const size_t skipped = -reinterpret_cast<uintptr_t>(whole) % DESCRIBED_BYTES; // the guard is a multiple of it
    if (skipped) munmap(whole, skipped);
    munmap(whole + skipped + size, DESCRIBED_BYTES - skipped);
    return whole + skipped;
}

static bool open_stacks(unsigned threads)
{
    Stacks &stacks = state->stacks;
    if (stacks.count >= threads) return true;
    if (stacks.count) stacks.close();
    return stacks.open(threads);
}

} // namespace kcu

// What classes with virtual functions need; nothing deletes an object, and no pure function is called.
extern "C" KCU_HIDDEN void __cxa_pure_virtual() { kcu_fault(KCU_LAUNCH, "a call of a pure virtual function"); }
void operator delete(void *) noexcept {}
void operator delete(void *, size_t) noexcept {}

#define KCU_EXPORT extern "C" __attribute__((visibility("default")))
using namespace kcu;

// Once, after loading. 0 when it worked.
KCU_EXPORT int kcu_open()
{
    state = reserve<State>(1);
    if (!state) return 1;
    state->blocks = reserve<Block>(MAX_RESIDENT_THREADS);
    char *room = reserve_shared();
    state->copies = reserve<Copy>(MAX_COPIES);
    if (!state->blocks || !state->copies || !room || !state->stacks.open(MAX_THREADS)) return 1;
    mprotect(room, SHARED_GUARD, PROT_NONE);
    mprotect(room + SHARED_GUARD + SHARED_ROOM, SHARED_GUARD, PROT_NONE);
    state->dynamic_end = room + SHARED_GUARD + SHARED_ROOM;
    kcu_dynamic = state->dynamic_end;
    return keep_data() ? 0 : 1;
}

// After the last launch: stacks and blocks go back to the system, each a mapping of its own by now.
KCU_EXPORT void kcu_close()
{
    state->stacks.close();
    give_back(state->blocks, MAX_RESIDENT_THREADS);
    give_back(state->copies, MAX_COPIES);
    give_back(state->boxes, MAX_BOXES);
    give_back(state->counting.owners, OWNERS);
    give_back(state->dynamic_end - SHARED_GUARD - SHARED_ROOM, SHARED_ROOM + 2 * SHARED_GUARD);
}

// Read the counts (a Tally) and begin anew. From now on at most `sample` blocks of a launch run (0: all), which
// `seed` chooses; the counts are those of all blocks, as if the others were alike. The parts with a bit in `ablated`
// are left out; then it has those whose probes agreed since the last call.
KCU_EXPORT int kcu_count(unsigned long *counts, unsigned sample, unsigned seed, unsigned *ablated)
{
    Counting &c = state->counting;
    if (!c.on && !open_counting(reinterpret_cast<const void *>(&__sanitizer_cov_trace_pc))) return 1;
    c.on = true;
    c.sample = sample;
    c.seed = seed;
    memcpy(c.ablated, ablated, sizeof c.ablated);
    memset(ablated, 0, sizeof c.ablated);
    for (unsigned part = 0; part < 1024; part++)
        if (c.probed[part].varied && !c.probed[part].refuted) ablated[part / 32] |= 1u << part % 32;
    memset(c.probed, 0, sizeof c.probed);
    state->launches = 0; // the same blocks, in the same order, for the same seed
    const Tally found = take_counts();
    memcpy(counts, &found, sizeof found);
    return 0;
}

// From now on follow how far `count` pieces of memory are read or written: address and bytes of each.
KCU_EXPORT int kcu_follow(const unsigned long *pieces, unsigned count)
{
    Counting &c = state->counting;
    give_back(c.reaches, c.reach_count);
    c.reaches = reserve<Reach>(count);
    c.reach_count = c.reaches ? count : 0;
    for (unsigned i = 0; i < c.reach_count; i++) c.reaches[i] = Reach{pieces[2 * i], pieces[2 * i + 1], 0};
    return c.reach_count != count;
}

// The bytes of each piece up to the furthest that was read or written.
KCU_EXPORT void kcu_reached(unsigned long *bytes)
{
    for (unsigned i = 0; i < state->counting.reach_count; i++) bytes[i] = state->counting.reaches[i].most;
}

// From now on threads run in the random order of a seed (0: in the order of their numbers, or the reverse). `crowded`:
// a bit for each kernel of which a GPU cannot hold all blocks at once.
KCU_EXPORT void kcu_schedule(unsigned seed, unsigned long long crowded)
{
    const unsigned long long dice = (seed + 1ull) * 0x9E3779B97F4A7C15ull;
    state->schedule = Schedule{seed != 0, 0, 1, nullptr, dice, crowded, 0, nullptr, 0};
    if (seed) state->schedule.until = next_turn();
}

// Of static shared memory that a block holds, whatever its kernel.
KCU_EXPORT unsigned long kcu_static_shared_bytes() { return static_shared_bytes(); }

KCU_EXPORT void kcu_reset() { reset_data(); }

KCU_EXPORT const KcuEntry *kcu_entry(unsigned i) { return i < kcu_entry_count ? kcu_entries + i : nullptr; }

KCU_EXPORT const KcuSymbol *kcu_symbol(unsigned i)
{
    return i < kcu_symbol_count ? kcu_symbols + i : nullptr;
}


KCU_EXPORT const char *kcu_message() { return state->message; }

// Where a memory fault happened, or null.
KCU_EXPORT void *kcu_address() { return state->address; }

// Launch a kernel; `extents` are the address and bytes of each allocation, `shape` is grid x, y, z, block x, y, z, cluster x, y, z (zeros: as the kernel says). Answers a KcuFault, KCU_OK when all is well.
KCU_EXPORT int kcu_launch(unsigned entry, const unsigned *shape, unsigned long shared_bytes, int cooperative,
                          void **args, double limit_s, const unsigned long *extents, unsigned extent_count)
{
    state->extents = extents;
    state->extent_count = extent_count;
    gridDim = dim3(shape[0], shape[1], shape[2]);
    blockDim = dim3(shape[3], shape[4], shape[5]);
    const unsigned *wanted = shape[6] ? shape + 6 : kcu_entries[entry].cluster;
    kcu_cluster_dim = wanted[0] ? dim3(wanted[0], wanted[1], wanted[2]) : dim3(1, 1, 1);
    const unsigned cluster = kcu_cluster_dim.x * kcu_cluster_dim.y * kcu_cluster_dim.z;
    const unsigned threads = shape[3] * shape[4] * shape[5];
    const unsigned long total = (unsigned long)shape[0] * shape[1] * shape[2];
    const unsigned most = MAX_RESIDENT_THREADS / ((threads + 31) / 32 * 32);
    // The order of threads and the poison change from launch to launch, also where a plan repeats its
    // launches in twos (Fibonacci hashing).
    const unsigned dice = state->launches++ * 0x9E3779B9u;
    const unsigned char poison = dice >> 30 & 1 ? 0xA3 : 0xFF;
    state->launch =
        Launch{kcu_entries + entry,   args,  cooperative != 0, dice, 0, 0, cluster, 0, 0, total, shared_bytes,
               static_shared_bytes(), poison};
    state->launch.total = sampled(total, cooperative || cluster > 1);
    state->launch.step = total / (state->launch.total ? state->launch.total : 1);
    kcu_dynamic = state->dynamic_end - (shared_bytes + kcu_dynamic_alignment - 1) / kcu_dynamic_alignment * kcu_dynamic_alignment;
    kcu_dynamic_bytes = shared_bytes;
    state->fault = KCU_OK;
    state->message[0] = 0;
    if (cooperative && total > most) {
        snprintf(state->message, sizeof state->message, "a cooperative launch of more than %u blocks", most);
        return KCU_LAUNCH;
    }
    if (gridDim.x % kcu_cluster_dim.x || gridDim.y % kcu_cluster_dim.y || gridDim.z % kcu_cluster_dim.z ||
        cluster > MAX_CLUSTER) {
        snprintf(state->message, sizeof state->message, "a grid that cannot be divided into such clusters");
        return KCU_LAUNCH;
    }
    if (cooperative && cluster > 1) {
        snprintf(state->message, sizeof state->message, "clusters in a cooperative launch are not emulated");
        return KCU_UNSUPPORTED;
    }
    memcpy(kcu_ablated, state->counting.ablated, sizeof kcu_ablated);
    begin_launch();
    catch_signals(limit_s);
    if (sigsetjmp(state->escape, 1) == 0) {
        const unsigned whole = (threads + 31) / 32 * 32, together = (state->schedule.on ? SCHEDULED_THREADS : MEETING_THREADS) / whole;
        const unsigned blocks = total < together ? unsigned(total) : together;
        if (!open_stacks(cooperative ? unsigned(total) * threads : (cluster > blocks ? cluster : blocks) * threads))
            kcu_fault(KCU_LAUNCH, "not enough memory for the stacks of so many threads");
        if (cluster > 1)
            run_clusters();
        else if (state->schedule.on)
            run_blocks_by_chance(cooperative ? unsigned(total) : state->stacks.count / threads);
        else
            run_blocks(cooperative ? unsigned(total) : state->stacks.count / threads);
    }
    release_signals();
    if (state->fault == KCU_OK) free_blocks();
    end_launch(total);
    return state->fault;
}
