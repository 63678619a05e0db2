// What device code and the runtime (runtime.cpp) share: index variables, fibers' meeting points, the tables
// of kernels and variables that a compiled side exports. No system header is included here or in any header
// that device code can see.
#pragma once

#define KCU_HIDDEN __attribute__((visibility("hidden")))
// What no other thread comes between, in sides whose threads lose their turns at accesses to memory
// (`toolchain.TURNS`): all functions of ours, atomics among them.
#ifdef KCU_TURNS
#define KCU_WHOLE __attribute__((no_sanitize("thread")))
#define KCU_IN_TURNS(CALL) CALL
#else
#define KCU_WHOLE
#define KCU_IN_TURNS(CALL)
#endif

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

extern "C" {
// Set by the runtime before a thread runs; the process has one thread of the host, so no locks. To a thread they are
// constants.
#ifdef KCU_RUNTIME
#define KCU_FIXED
#else
#define KCU_FIXED const
#endif
extern KCU_HIDDEN KCU_FIXED uint3 threadIdx, blockIdx;
extern KCU_HIDDEN KCU_FIXED dim3 blockDim, gridDim;
extern KCU_HIDDEN uint3 kcu_cluster_index; // of the block in its cluster
extern KCU_HIDDEN dim3 kcu_cluster_dim;    // blocks in a cluster; 1 without clusters
extern KCU_HIDDEN unsigned kcu_lane; // 0..31
extern KCU_HIDDEN char *kcu_dynamic; // dynamic shared memory of the running block
extern KCU_HIDDEN unsigned long kcu_dynamic_bytes;
extern KCU_HIDDEN unsigned kcu_ablated[32]; // a bit for each part that an examined side leaves out (kcurate/mutate/guards.py)
#define KCU_LEFT_OUT(part) (kcu_ablated[(part) / 32] >> (part) % 32 & 1u)
// Which parts might be left out is noted: those whose formula always has the value in whose place it would come, not
// always the same one (kcurate/mutate/formulas.py), and those that use a place to which no other thread of a launch comes.
KCU_HIDDEN void kcu_probe_alone(unsigned part, const volatile void *place);
KCU_HIDDEN void kcu_probe_real(unsigned part, double value, double other);
KCU_HIDDEN void kcu_probe_whole(unsigned part, long long value, long long other);
extern KCU_HIDDEN unsigned kcu_patience; // atomics that the running thread may still do in a row

// What lanes of a warp that meet tell each other: `value` of each lane in `arrived`.
struct KcuMeet {
    unsigned mask, arrived, readers;
    int kind;
    unsigned *busy, bit; // which meetings of the warp are in use, and this one's bit there
    unsigned long long value[32];
};

// Which intrinsic lanes meet in; lanes in different ones never meet.
enum KcuKind {
    KCU_SYNC, KCU_SHUFFLE, KCU_VOTE, KCU_MATCH, KCU_REDUCE, KCU_TENSOR, KCU_GROUP, KCU_ELECT,
    KCU_PRODUCTS_FENCE, KCU_PRODUCTS_COMMIT, KCU_PRODUCTS_WAIT
};
enum KcuVote { KCU_NONE, KCU_COUNT, KCU_AND, KCU_OR };
enum KcuFault { KCU_OK, KCU_LAUNCH, KCU_TIMEOUT, KCU_BOUNDS, KCU_UNSUPPORTED };
// A barrier that may meet any other of its block.
enum { KCU_ANY_LINE = -2 };

// A matrix product of a warp group (wgmma.mma_async), as one of its threads asks for it.
enum KcuFactor { KCU_F16, KCU_BF16, KCU_TF32, KCU_E4M3, KCU_E5M2, KCU_S8, KCU_U8 };
enum KcuSum { KCU_SUM_F32, KCU_SUM_F16, KCU_SUM_S32 };
enum KcuProductFlag {
    KCU_ADDS = 1, KCU_SATURATES = 2, KCU_NEGATES_LEFT = 4, KCU_NEGATES_RIGHT = 8,
    KCU_LEFT_ACROSS = 16, KCU_RIGHT_ACROSS = 32 // tiles that are contiguous across k ("MN-major")
};
struct KcuProduct {
    unsigned columns;
    int left_kind, right_kind, sum_kind;
    unsigned flags;
    unsigned long long left_tile, right_tile; // matrix descriptors
    const unsigned *left_registers;           // four, or null: a left tile in shared memory
    unsigned *const *sums;
};
// All 128 threads of the warp group meet; their sums are there when it returns.
KCU_HIDDEN void kcu_multiply(const KcuProduct *asked);
// The lanes of a warp meet; what the products of its finished batches read may be written again.
KCU_HIDDEN void kcu_fence_products();
KCU_HIDDEN void kcu_commit_products();
KCU_HIDDEN void kcu_finish_products(unsigned batches_left);

// Wait for every thread of the block; `line` is where it stands in the source.
KCU_HIDDEN int kcu_barrier(int line, int vote, int predicate);
// Wait for the lanes of `mask` that still run. Every lane that met calls `kcu_leave` when it has read.
KCU_HIDDEN KcuMeet *kcu_meet(unsigned mask, int kind, unsigned long long value);
// The lanes of this warp that stand at one `place` of the source when no other lane can go on. Where that is negative
// and a branch by data has brought them there, they may come apart: CUDA does not promise that lanes converge.
KCU_HIDDEN unsigned kcu_converge(int place);
KCU_HIDDEN void kcu_grid_sync(int line);
KCU_HIDDEN int kcu_is_cooperative();
// Let other threads go on: called when a thread has done very many atomics in a row, so may be spinning.
KCU_HIDDEN void kcu_yield();
KCU_HIDDEN void kcu_take_turn(const volatile void *asked);
// Other blocks see from now on what this one has stored: at a place that it is about to store to, or everywhere (null).
KCU_HIDDEN void kcu_let_go(const volatile void *place, unsigned bytes);
// They may see later what this one is about to store; always, or by chance if they see all that it stored before.
KCU_HIDDEN void kcu_keep_back(const volatile void *place, unsigned bytes, bool always);
// A load that may come from a cache which does not see what this launch stores: a fault where it has stored there.
KCU_HIDDEN void kcu_read_only(const volatile void *place, unsigned long bytes);
// cp.async: the copy happens when it is waited for, so that code which does not wait finds nothing.
KCU_HIDDEN void kcu_copy_later(void *to, const void *from, unsigned bytes, unsigned zeros);
KCU_HIDDEN void kcu_commit_copies();
KCU_HIDDEN void kcu_finish_copies(unsigned batches_left);
// A copy that is done at once, or only asked for in advance (`to` null): a fault where it leaves its memory.
KCU_HIDDEN void kcu_check_copy(const void *to, const void *from, unsigned long bytes, unsigned long taken);
// Bulk copies: done when their mbarrier is next asked (`barrier`), or when their group is waited for (null).
KCU_HIDDEN void kcu_bulk_later(void *to, const void *from, unsigned bytes, unsigned long long *barrier);
KCU_HIDDEN void kcu_commit_bulk();
KCU_HIDDEN void kcu_finish_bulk(unsigned batches_left);
// mbarriers. `count` arrivals, after `bytes` more (fewer) that copies are to bring; returns the state before.
KCU_HIDDEN void kcu_mbarrier_init(unsigned long long *barrier, unsigned count);
KCU_HIDDEN unsigned long long kcu_mbarrier_arrive(unsigned long long *barrier, unsigned count, int bytes,
                                                  bool drop);
KCU_HIDDEN unsigned kcu_mbarrier_parity(unsigned long long *barrier);
// Wait until the phase of this parity is over. When no thread of the block can end it, the run ends.
KCU_HIDDEN void kcu_mbarrier_wait(unsigned long long *barrier, unsigned parity);
// A copy of any size whose bytes an mbarrier expects from now on, done when it is next asked.
KCU_HIDDEN void kcu_copy_to_mbarrier(void *to, const void *from, unsigned bytes, unsigned long long *barrier);
// The barriers 0 to 15 of a block: wait for (or only count) `count` threads; 0: all that run.
KCU_HIDDEN void kcu_named_barrier(unsigned number, unsigned count, bool wait);
// A cluster's barrier, and where a variable in this block's shared memory lies in that of another block.
KCU_HIDDEN void kcu_cluster_arrive();
KCU_HIDDEN void kcu_cluster_wait();
KCU_HIDDEN void *kcu_map_shared(const void *pointer, unsigned rank);
// Which block of the cluster an address of shared memory belongs to.
KCU_HIDDEN unsigned kcu_shared_rank(unsigned long long address);
// Addresses of shared memory as numbers that fit into 32 bits: where a pointer lies (~0 outside), and back.
KCU_HIDDEN unsigned long long kcu_to_shared(const void *pointer);
KCU_HIDDEN char *kcu_from_shared(unsigned long long address);
[[noreturn]] KCU_HIDDEN void kcu_fault(int reason, const char *what);

struct KcuEntry {
    const char *name;
    void (*invoke)(void **args);
    unsigned count;
    const unsigned *sizes;
    unsigned cluster[3]; // of __cluster_dims__, or zeros
};
struct KcuSymbol {
    const char *name;
    void *address;
    unsigned long size;
};
extern KCU_HIDDEN const KcuEntry kcu_entries[];
extern KCU_HIDDEN const KcuSymbol kcu_symbols[];
extern KCU_HIDDEN const unsigned kcu_entry_count, kcu_symbol_count;
// What the side's dynamic shared memory is to be aligned to, in bytes.
extern KCU_HIDDEN const unsigned kcu_dynamic_alignment;
}

static const unsigned kcu_warp_size = 32;

KCU_WHOLE inline void kcu_leave(KcuMeet *meet)
{
    if (--meet->readers == 0) *meet->busy &= ~meet->bit;
}

// Before an atomic, a fence or a question that a thread may repeat until another has answered it.
KCU_WHOLE inline void kcu_spin(const volatile void *place = nullptr)
{
    KCU_IN_TURNS(kcu_take_turn(place));
    if (__builtin_expect(--kcu_patience == 0, 0)) kcu_yield();
}

// In the condition of a loop that may wait for what another thread stores.
KCU_WHOLE inline bool kcu_waits()
{
    if (__builtin_expect(--kcu_patience == 0, 0)) kcu_yield();
    return true;
}

// A fence that other blocks notice.
KCU_WHOLE inline void kcu_fence()
{
    kcu_spin();
    KCU_IN_TURNS(kcu_let_go(nullptr, 0));
}

// Before an atomic load. The memory orders are those of `cuda::memory_order` and of `__NV_ATOMIC_*`: only a release
// says that stores before it are seen, and to other blocks only if its scope is more than the block.
KCU_WHOLE inline void kcu_ask_at(const volatile void *place, int order = 0, bool in_block = false)
{
    const int release = 3;
    kcu_spin(place);
    if (order >= release && !in_block) KCU_IN_TURNS(kcu_let_go(nullptr, 0));
}

// Before an atomic store: nothing orders it before later ones.
template <class T> KCU_WHOLE inline void kcu_store_at(const T *place, int order = 0, bool in_block = false)
{
    kcu_ask_at(place, order, in_block);
    KCU_IN_TURNS(kcu_keep_back(place, sizeof(T), in_block));
}

// Before an atomic that loads and stores. All blocks see it in one order, unless its scope is the block.
template <class T> KCU_WHOLE inline void kcu_spin_at(const T *place, int order = 0, bool in_block = false)
{
    if (in_block) return kcu_store_at(place, order, in_block);
    kcu_ask_at(place, order);
    KCU_IN_TURNS(kcu_let_go(place, sizeof(T)));
}
