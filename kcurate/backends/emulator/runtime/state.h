// The runtime's own state: threads as fibers, warps, blocks, one launch. It lies in a mapping of its own, so
// that resetting the variables of a side (image.h) leaves it alone.
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fiber.h"
#include "../include/kcurate/abi.h"

namespace kcu
{

const unsigned MAX_THREADS = 1024;
// A thread that does this many atomics in a row may be waiting for another one: let others run.
const unsigned PATIENCE = 20000;
// Dynamic shared memory: what a block of an H200 may ask for (CUDA C++ Programming Guide, compute
// capability 9.0), rounded up to whole pages.
const size_t MAX_SHARED_BYTES = 227 << 10;
const size_t SHARED_ROOM = 232 << 10;
const size_t SHARED_GUARD = 16 << 20; // protected, on either side
const size_t DESCRIBED_BYTES = 1 << 18; // what a matrix descriptor can tell apart
const unsigned MAX_RESIDENT_THREADS = 1 << 18;
const unsigned SCHEDULED_THREADS = 4096; // at once where blocks take random turns
const unsigned MEETING_THREADS = 1 << 14; // at once where blocks spin until others come
const unsigned MAX_COPIES = 1 << 20; // ordered by all threads together and not waited for

// In place of a number of batches: also what is not committed.
const unsigned ALL_COPIES = ~0u;

// Shared memory as 32-bit addresses: where static and dynamic variables begin. Both keep the low 12 bits.
const unsigned STATIC_WINDOW = 1 << 24, DYNAMIC_WINDOW = 2 << 24;
// Added once for rank 0, twice for rank 1: the same address in the memory of another block of the cluster.
const unsigned RANK_WINDOW = 4 << 24;

// A copy that a thread has ordered (cp.async, cp.async.bulk) and not waited for.
struct Copy {
    Copy *next;
    void *to;
    const void *from;
    unsigned bytes, zeros, batch;
    unsigned long long *barrier; // that its bytes arrive at, or null
    struct Box *box;             // of a tensor that is copied from or to `to` (boxes.h), or null
};

// Copies in the order of their batches.
struct Copies {
    Copy *first, *last;
    unsigned batches; // committed so far
};

// One of the barriers 0 to 15 of a block.
struct Named {
    unsigned arrived, count;
    unsigned waiting[32]; // a mask for each warp
};
const unsigned NAMED_BARRIERS = 16;

// A warp group's matrix product while its threads come, and its factors as floats (warpgroup.h).
struct WarpGroup {
    unsigned arrived, of_warp[4];
    bool right_read;
    const KcuProduct *first, *asked[128];
    float left[64 * 32], right[256 * 32];
    // What of shared memory its products read, in parts of 16 bytes (tiles_in_use.h): the last batch that reads each
    // and what it read, the parts that are concerned, each warp's batches so far, the last that a warp waited for.
    unsigned from, to, batches[4], done;
    unsigned reads[DESCRIBED_BYTES / 16];
    char held[DESCRIBED_BYTES / 16][16];
};

struct Fiber {
    void *place; // where it stopped, while it waits
    char *stack;
    uint3 index;
    unsigned lane, warp;
    bool busy;                // it has read or written memory
    unsigned long code, accesses; // what it ran and accessed of global memory itself (counting.h)
    unsigned long chain, chain_accesses; // with what it waited for: the most of any thread at each barrier
    int site;                 // where it asks who is with it
    unsigned group;           // what a converged lane is told
    const volatile void *asked; // the place of its last question: an atomic, or a volatile read
    Copies copies, bulk;
    unsigned cluster_arrival; // the generation of the cluster's barrier that it has arrived at, plus one
};

// What sides compiled for it count (counting.h).
const unsigned long LAST_BLOCK_BYTES = 64, MOST_BLOCK_BYTES = 1 << 16;
const unsigned TRACED = 512, PLACES = 4096, SECTOR_BYTES = 32, OWNERS = 1 << 16;
struct Tally {
    unsigned long threads, idle; // idle: threads that read and wrote nothing
    unsigned long accesses, code_bytes; // of a launch: the code that stands for matrix products of warp groups
    unsigned long shared_bytes, shared_read_bytes; // the most of any launch's dynamic shared memory
    unsigned long static_bytes, static_read_bytes; // of static shared memory, in any launch
    unsigned long launches;
    unsigned long chain_bytes, chain_accesses; // the longest block's longest chain of threads, over all launches
    unsigned long held_bytes, held_accesses;   // of all blocks' chains, by the share of a multiprocessor they hold
    unsigned long warp_bytes, sectors, shared_accesses; // a warp runs as much code as its busiest lane
    unsigned long atomics, contended;          // contended: the most atomics at one place
    unsigned long scattered; // sectors that are no stride away from the lane's before
};
// Memory of which the furthest byte that is read or written is followed: `most` counts from its start.
struct Reach {
    uintptr_t start;
    size_t bytes;
    unsigned long most;
};

struct Counting {
    bool on;
    Reach *reaches;
    unsigned reach_count;
    unsigned ablated[32];  // a bit for each part that is left out
    struct Probed {
        double first;
        bool reached, varied, refuted;
    } probed[1024]; // what the probes of each part found
    struct Owner {
        uintptr_t at;
        unsigned long thread;
    } *owners; // of this launch: who came to a place, by its address; once a probe asks
    unsigned sample, seed; // run only so many blocks of a launch (0: all)
    char *code;            // of this library
    size_t code_bytes;
    unsigned *lengths;     // of the basic block that calls from each byte of it
    unsigned patience;     // of the running thread at its last access: an atomic takes one (abi.h)
    struct Recent {
        uintptr_t at, stride; // stride: how far from the lane's before
    } recent[32][TRACED];     // by warp: each of the last lane's first accesses
    unsigned long traced, distinct, irregular; // of these, those not in the lane's sector before, nor at its stride
    unsigned at_place[PLACES]; // atomics of this launch, by a hash of their address
    Tally launch, all;
    char shared_read[SHARED_ROOM];
    char *static_read; // a flag for each byte of static shared memory
};

struct Warp {
    unsigned long code; // of its busiest lane
    unsigned fresh, ready, alive; // masks of lanes: never run, can run, not ended
    unsigned at_barrier, at_grid, converging, yielded;
    unsigned busy, open; // masks of meetings: in use, and still waiting for lanes
    unsigned at_cluster;
    KcuMeet meets[32];
};

const unsigned MAX_CLUSTER = 16;

struct Block {
    uint3 index;
    unsigned alive, waiting, at_grid, at_named, at_mbarrier, at_wgmma, count, warps;
    int line, grid_line, vote;
    int count_true;
    int result;
    bool forward, yielded, running, fresh;
    unsigned rank, at_cluster; // in its cluster; threads that wait for it
    Block *leader;             // of the cluster; that one's own:
    Block *members[MAX_CLUSTER];
    unsigned cluster_arrived, cluster_generation;
    Fiber *fibers;
    Warp *warp;
    Named *named;     // NAMED_BARRIERS of them, once one is used
    WarpGroup *groups; // one for each 128 threads, once one multiplies
    Copies arriving;  // bulk copies that complete on an mbarrier
    char *image; // its shared memory while another block runs; null where blocks run one by one
    unsigned long chain, chain_accesses; // the most of any thread
    unsigned questions, quiet; // asked again in this turn; turns in which nothing else happened anywhere
    bool late;             // others see what it stores late (stores.h)
    bool behind;           // while other blocks can run
    struct Stores *stores; // that they do not see yet
};

struct Launch {
    const KcuEntry *entry;
    void **args;
    bool cooperative;
    unsigned dice, resident, slots, cluster; // blocks in a cluster
    unsigned long next, done, total;
    size_t shared_bytes, static_bytes;
    unsigned char poison;
    unsigned long step; // every so many blocks one runs
};

// A random order of threads, where one is asked for (scheduler.h).
struct Schedule {
    bool on;
    unsigned held; // not in the middle of what the runtime does
    unsigned until; // accesses to memory before another thread gets a turn
    struct Block *told; // whose last access but one may have told others something, or null
    unsigned long long dice;
    unsigned long long crowded; // a bit for each kernel of which a GPU cannot hold all blocks at once
    unsigned long changes;      // of memory, as far as is known, and of the places that threads ask about
    const volatile unsigned long *watched; // what may change at the running thread's last question, or null
    unsigned long value;
};

struct State {
    Stacks stacks;
    Schedule schedule;
    Launch launch;
    Block *blocks;
    Fiber *fiber;
    Block *block;
    void *scheduler; // where the scheduler stopped, while a fiber runs
    char *dynamic_end;
    sigjmp_buf escape;
    volatile sig_atomic_t armed;
    int fault;
    void *address;
    char message[400];
    char *data, *data_copy; // the side's variables, and what they held first
    size_t data_bytes;
    const unsigned long *extents; // address and bytes of each allocation
    unsigned extent_count, last_extent, launches;
    unsigned long runs;     // how often a thread was switched to
    unsigned long releases; // of mbarriers and named barriers: what spinning threads may wait for
    Copy *copies, *free_copies; // room for MAX_COPIES
    unsigned used_copies;
    struct Box *boxes, *free_boxes; // room for MAX_BOXES, once there is one
    unsigned used_boxes;
    struct LateStores *late; // of blocks that have ended
    struct Noted *noted;     // what the running launch has stored, once it has (stores.h)
    Counting counting;
};

KCU_HIDDEN extern State *state;

// Memory that is followed is read or written.
inline void reach(const void *pointer, size_t bytes)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer);
    for (unsigned i = 0; i < state->counting.reach_count; i++) {
        Reach &one = state->counting.reaches[i];
        if (at - one.start >= one.bytes) continue;
        if (at - one.start + bytes > one.most) one.most = at - one.start + bytes;
        return;
    }
}

template <class T> inline T *reserve(size_t count)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(nullptr, sizeof(T) * (count ? count : 1), PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<T *>(memory);
}

template <class T> inline void give_back(T *memory, size_t count)
{
    if (memory) munmap(memory, sizeof(T) * (count ? count : 1));
}

} // namespace kcu

extern "C" {
extern char __start_kcu_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_kcu_shared[] __attribute__((weak, visibility("hidden")));
}
